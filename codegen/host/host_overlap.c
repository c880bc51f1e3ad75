// Results in the memory of operands. In: a scheduled kernel. Out: the distances at which its result may overlap an operand
// that dies in it, and its loops in the order in which the least distance does.
#include "codegen/host/host_impl.h"
#include "ir/kernel/uses.h"
#include "ir/loops/loops_order.h"
#include "ir/loops/loops_share.h"
#include "ir/loops/loops_trace.h"
#include <stdlib.h>

// Limits of the time that this takes: steps of tracing for a kernel and for all of them, bytes of a buffer, comparisons.
enum { STEPS_MOST = 1 << 27, STEPS_OF_ALL = 1 << 28, BYTES_MOST = 1 << 22, COMPARED_MOST = 1 << 29 };

typedef struct search {
    host_builder *a;
    const kernel_code *code;
    arena *arena;
    const buffer *from, *to;
} search;

static int64_t constant_bytes(const buffer *b) {
    dim *bytes = buffer_bytes(b);
    return dim_is_const(bytes) ? dim_value(bytes) : -1;
}

static bool is_placed(const buffer *root) {
    int64_t bytes = constant_bytes(root);
    return root->role == BUF_TEMP && bytes > 0 && bytes <= BYTES_MOST;
}

// The only result of the kernel, a buffer that is new there.
static const buffer *result_of(const kernel *k, const uses *u, int time) {
    const site *at = u->of_kernel[k->id];
    const buffer *to = at->writes.n == 1 ? at->writes.at[0] : NULL;
    return to && is_placed(to) && uses_live_range(u, to).def == time ? to : NULL;
}

// ---------------------------------------------------------------- distances
static traced_memory memory_for(const search *s, const buffer *b) {
    int64_t n = constant_bytes(b);
    traced_memory m = {n, ARENA_ARRAY(s->arena, uint32_t, n), ARENA_ARRAY(s->arena, uint32_t, n)};
    for (int64_t i = 0; i < n; i++) m.first_write[i] = UINT32_MAX;
    return m;
}

// Nothing is written before it was read for the last time, if `to` begins `distance` bytes after `from`. Elements have a number of
// bytes which are read and written together; *left counts those that are compared.
static bool keeps(const traced_memory *from, const traced_memory *to, int64_t distance, int64_t element,
                  int64_t *left) {
    int64_t begin = distance < 0 ? -distance : 0,
            end = to->bytes < from->bytes - distance ? to->bytes : from->bytes - distance, i = begin;
    while (i < end && i - begin < *left * element && to->first_write[i] >= from->last_read[i + distance])
        i += element;
    *left -= (i - begin) / element + 1;
    return i >= end;
}

// The bytes of all elements of a kernel are read and written together as far as the memory shows.
static int64_t bytes_together(const traced_memory *from, const traced_memory *to) {
    enum { LARGEST = 4 };
    for (int64_t i = 0; i < from->bytes; i++)
        if (i % LARGEST && from->last_read[i] != from->last_read[i - 1]) return 1;
    for (int64_t i = 0; i < to->bytes; i++)
        if (i % LARGEST && to->first_write[i] != to->first_write[i - 1]) return 1;
    return LARGEST;
}

// false: the accesses are not known.
static bool trace(const search *s, const lfunc *f, traced_memory *memory) {
    int *of_param = ARENA_ARRAY(s->arena, int, f->params.n + 1);
    for (int i = 0; i < f->params.n; i++) {
        const buffer *b = i < s->code->nbuffers ? s->code->buffers[i] : NULL,
                     *root = b ? buffer_root(b) : NULL;
        of_param[i] = root == s->from ? 0 : root == s->to ? 1 : -1;
        if (of_param[i] >= 0 && b->view_offset) return false;
    }
    memory[0] = memory_for(s, s->from);
    memory[1] = memory_for(s, s->to);
    int64_t left = STEPS_OF_ALL - s->a->traced, most = left < STEPS_MOST ? left : STEPS_MOST, steps;
    bool known = loops_trace(s->arena, s->a->m, f, of_param, memory, most, &steps);
    s->a->traced += steps;
    return known;
}

static bool distances(const search *s, const lfunc *f, overlap *o) {
    traced_memory memory[2];
    if (!trace(s, f, memory)) return false;
    int64_t align = s->a->align, below = (memory[1].bytes + align - 1) / align,
            above = memory[0].bytes / align;
    int64_t element = bytes_together(&memory[0], &memory[1]), left = COMPARED_MOST;
    *o = (overlap){s->code->kernel, s->from, s->to, -below * align, (int)(below + above + 1), NULL};
    o->may = ARENA_ARRAY(s->a->arena, bool, o->n);
    for (int i = 0; i < o->n; i++)
        o->may[i] = keeps(&memory[0], &memory[1], o->first + i * align, element, &left);
    return true;
}

// ---------------------------------------------------------------- orders of loops
static int64_t least_distance(const host_builder *a, const overlap *o) {
    int64_t least = INT64_MAX;
    for (int i = 0; i < o->n; i++) {
        int64_t distance = llabs(o->first + i * a->align);
        if (o->may[i] && distance < least) least = distance;
    }
    return least;
}

// As they are; exchanged, or joined; reversed; both. Larger machines have caches, for which schedules chose the order.
static int orders(const target *t) { return t->ptr_bits == 32 ? 4 : 1; }

static bool reorder(const lmodule *m, lfunc *f, int order) {
    if ((order & 1) && !loops_exchange(f) && !loops_join(m, f)) return false;
    return !(order & 2) || loops_reverse(f);
}

static void find_overlap(search *s) {
    lfunc best = *s->code->f;
    overlap found = {0};
    int64_t least = INT64_MAX;
    for (int order = 0; order < orders(s->code->f->target) && least > 0; order++) {
        lfunc f = order ? lfunc_copy(s->code->f) : *s->code->f;
        overlap o;
        if (!reorder(s->a->m, &f, order) || !distances(s, &f, &o)) continue;
        int64_t distance = least_distance(s->a, &o);
        if (distance >= least) continue;
        least = distance, found = o, best = f;
    }
    if (least == INT64_MAX) return;
    *s->code->f = best;
    VEC_PUSH(s->a->arena, &s->a->overlaps, found);
}

// Of the operands that die here, the largest.
void find_overlaps(host_builder *a, const uses *u, const kernel_code *c) {
    const site *at = u->of_kernel[c->kernel->id];
    const buffer *to = result_of(c->kernel, u, at->time), *from = NULL;
    for (int j = 0; to && j < at->reads.n; j++) {
        const buffer *b = at->reads.at[j];
        if (b == to || !is_placed(b) || uses_live_range(u, b).last_use != at->time) continue;
        if (!from || constant_bytes(b) > constant_bytes(from)) from = b;
    }
    if (!from) return;
    search s = {a, c, arena_new(), from, to};
    find_overlap(&s);
    arena_destroy(s.arena);
}
