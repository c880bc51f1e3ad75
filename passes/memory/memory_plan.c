// The memory plan. A temporary occupies memory over its live range (ir/kernel/uses.h). Sizes are split into a
// coefficient and a symbolic factor. Buffers with the same factor (all constants; all multiples of the batch
// size) share an area, which is planned as if the factor were 1, so the plan is valid for all values of the
// symbols:
//
//   offset = sum of the areas before + factor * place in the area
#include "compiler/base/integers.h"
#include "passes/match/form.h"
#include "passes/memory/memory_plan_impl.h"
#include <stdlib.h>
#include <string.h>

static interval *new_interval(planner *n, dim *size, live_range live) {
    interval *i = ARENA_NEW(n->p->arena, interval);
    *i = (interval){.size = size, .live = live, .id = n->intervals.n};
    VEC_PUSH(n->p->arena, &n->intervals, i);
    return i;
}

interval *memory_of(interval *i) {
    while (i->same) i = i->same;
    return i;
}

static void find_moves(planner *n) {
    for (int j = 0; j < n->uses->n; j++) {
        const step *s = n->uses->sites[j].s;
        if (s->kind != STEP_MOVE) continue;
        n->moved[buffer_root(s->buffer)->id] = n->moved[buffer_root(s->from)->id] = true;
    }
}

// The bytes that b needs in the workspace, NULL if it is elsewhere. A bounded runtime size takes its maximum.
static dim *planned_size(planner *n, const buffer *b) {
    if (b->space != n->where) return NULL;
    if (b->role == BUF_TEMP) return dim_addk(buffer_bytes(b), b->beyond);
    if (b->role != BUF_HEAP || n->moved[b->id]) return NULL;
    dim *bytes = buffer_bytes(b);
    bool bounded = bytes->max <= n->bounded;
    for (int j = 0; j < b->rank; j++) bounded &= b->dims[j]->max <= n->bounded && b->dims[j]->min >= 0;
    return bounded ? dim_const(n->p->dims, bytes->max) : NULL;
}

static void find_intervals(planner *n, const site *at) {
    for (int j = 0; j < at->accessed.n; j++) {
        const buffer *root = buffer_root(at->accessed.at[j]);
        dim *size = n->of[root->id] ? NULL : planned_size(n, root);
        if (!size) continue;
        n->of[root->id] = new_interval(n, size, uses_live_range(n->uses, root));
        n->of[root->id]->buffer = root;
    }
    if (at->s->kind == STEP_KERNEL && n->scratch && n->scratch[at->s->kernel->id])
        new_interval(n, n->scratch[at->s->kernel->id], (live_range){at->time, at->time})->kernel =
            at->s->kernel;
}

void store_rounded(program *p, const target *t) {
    for (int j = 0; j < p->buffers.n; j++) {
        buffer *b = p->buffers.at[j];
        if (buffer_root(b)->rounded) b->dtype = has_bf16_unit(t) ? DT_BF16 : DT_F32;
    }
}

// ---------------------------------------------------------------- in place
static bool is_same_element(const expr *read, const write *w) {
    const buffer *from = read->buffer, *to = w->to;
    if (from->rank != to->rank || from->view_offset || (read->guard && !from->layout)) return false;
    if (!layout_equal(from->layout, to->layout)) return false;
    for (int j = 0; j < to->rank; j++) {
        bool grows = from->layout && from->layout->room[j]; // the memory of a state
        if ((from->dims[j] != to->dims[j] && !grows) || read->index[j] != w->index[j]) return false;
    }
    return true;
}

static int count_reads(expr_list l, const buffer *root) {
    int n = 0;
    for (int j = 0; j < l.n; j++) n += l.at[j]->op == X_READ && buffer_root(l.at[j]->buffer) == root;
    return n;
}

// Whether every element of `from` is read only to compute the same element of the result, after all
// reductions: schedules of one stage read such an element before they write it, and never again.
static bool reads_like_write(const kernel *k, const buffer *from) {
    const stage *s = k->stages.at[0];
    const write *w = &s->writes.at[0];
    arena *scratch = arena_new();
    expr_list value = expr_nodes(scratch, w->value), others = stage_nodes(scratch, s, PART_ALL & ~PART_VALUE);
    int reads = count_reads(value, from);
    bool same = reads > 0 && count_reads(others, from) == 0;
    for (int j = 0; j < value.n && same; j++)
        if (value.at[j]->op == X_READ && buffer_root(value.at[j]->buffer) == from)
            same = is_same_element(value.at[j], w);
    arena_destroy(scratch);
    return same;
}

// Whether the kernel writes each element of its only result once.
static bool writes_once(const kernel *k) {
    if (k->stages.n != 1 || k->stages.at[0]->writes.n != 1 || stage_scans(k, k->stages.at[0])) return false;
    return write_is_plain(&k->stages.at[0]->writes.at[0]);
}

bool writes_in_place(const kernel *k, const buffer *from, const buffer *to) {
    return writes_once(k) && k->stages.at[0]->writes.at[0].to == to && reads_like_write(k, buffer_root(from));
}

bool may_be_in_place(const kernel *k, const buffer *to) {
    buffer **all;
    int n = kernel_buffers(k, &all);
    for (int j = 0; j < n; j++)
        if (writes_in_place(k, all[j], to)) return true;
    return false;
}

static dim *held_bytes(const interval *i) { return dim_addk(i->size, -i->buffer->beyond); }

static void try_in_place(planner *n, const kernel *k, int at) {
    buffer **all, *to = writes_once(k) ? k->stages.at[0]->writes.at[0].to : NULL;
    interval *out = to && !to->view_of && dtype_bits(to->dtype) >= 8 ? n->of[to->id] : NULL;
    if (!out || out->live.def != at) return;
    int count = kernel_buffers(k, &all);
    for (int j = 0; j < count; j++) {
        const buffer *from = buffer_root(all[j]);
        interval *in = from->role != BUF_LOCAL && from != to ? n->of[from->id] : NULL;
        if (!in || memory_of(in)->live.last_use != at || dtype_bits(from->dtype) != dtype_bits(to->dtype))
            continue;
        if (held_bytes(in) != held_bytes(out) || from->rounded != to->rounded || !reads_like_write(k, from))
            continue;
        out->same = memory_of(in);
        out->same->live.last_use = out->live.last_use;
        if (to->beyond > out->same->buffer->beyond) out->same->size = out->size;
        n->plan.in_place[k->id] = true;
        return;
    }
}

// ---------------------------------------------------------------- packing
static int64_t common_divisor(int64_t a, int64_t b) {
    while (b) {
        int64_t r = a % b;
        a = b, b = r;
    }
    return a < 0 ? -a : a;
}

// Makes coef a multiple of the alignment: large ones are rounded up, small ones cover a block of units.
static void align_unit(planner *n, interval *i, int64_t g) {
    int64_t units = n->align / common_divisor(g, n->align);
    i->coef = round_up(g, n->align);
    if (units == 1 || g >= 16 * n->align || dim_is(i->factor, 1)) return;
    i->coef = g * units;
    i->factor = dim_ceildiv(i->factor, dim_const(n->p->dims, units));
}

static void factor_size(planner *n, interval *i) {
    int64_t g = 1;
    if (n->pools && i->size->max < INT64_MAX / 2) i->size = dim_const(n->p->dims, i->size->max);
    i->factor = i->size;
    if (dim_is_const(i->size)) {
        g = dim_value(i->size);
        i->factor = dim_const(n->p->dims, 1);
    } else if (i->size->kind == DIM_POLY) {
        g = 0;
        for (int j = 0; j < i->size->nterms; j++) g = common_divisor(g, i->size->terms[j].coef);
        i->factor = dim_floordiv(i->size, dim_const(n->p->dims, g));
        if (dim_mulk(i->factor, g) != i->size) g = 1, i->factor = i->size;
    }
    align_unit(n, i, g);
}

// ---------------------------------------------------------------- overlaps
static void relate(planner *n, const overlap *o) {
    interval *from = n->of[o->from->id], *to = n->of[o->to->id];
    if (!from || !to || to->same) return;
    from = memory_of(from);
    const site *at = n->uses->of_kernel[o->kernel->id];
    bool once = from != to && from->live.last_use == at->time && to->live.def == at->time;
    if (!once || !dim_is(from->factor, 1) || from->factor != to->factor) return;
    VEC_PUSH(n->p->arena, &from->related, ((relation){to, o, false}));
    VEC_PUSH(n->p->arena, &to->related, ((relation){from, o, true}));
}

// Kernels whose result is in the memory of an operand.
static void note_overlaps(planner *n) {
    for (int j = 0; n->overlaps && j < n->overlaps->n; j++) {
        const overlap *o = &n->overlaps->at[j];
        const interval *from = n->of[o->from->id], *to = n->of[o->to->id];
        if (!from || !to) continue;
        from = memory_of(n->of[o->from->id]), to = memory_of(n->of[o->to->id]);
        if (relation_of(from, to) && from->pool == to->pool && from->at < to->at + to->coef &&
            to->at < from->at + from->coef)
            n->plan.in_place[o->kernel->id] = true;
    }
}

static void set_offset(planner *n, const interval *i, dim *base) {
    dim *offset = dim_add(base, dim_mulk(i->factor, i->at));
    if (!i->buffer) {
        n->plan.scratch_offset[i->kernel->id] = offset;
        n->plan.scratch_pool[i->kernel->id] = i->pool;
        return;
    }
    n->p->buffers.at[i->buffer->id]->offset = offset;
    n->p->buffers.at[i->buffer->id]->pool = i->pool;
}

static void pack_all(planner *n) {
    arena *a = n->p->arena;
    interval **area = ARENA_ARRAY(a, interval *, n->intervals.n + 1),
             **placed = ARENA_ARRAY(a, interval *, n->intervals.n + 1);
    bool *done = ARENA_ARRAY(a, bool, n->intervals.n + 1);
    dim *base = dim_const(n->p->dims, 0);
    for (int j = 0; j < n->intervals.n; j++) {
        int count = 0;
        for (int i = j; i < n->intervals.n; i++) {
            interval *x = n->intervals.at[i];
            if (done[i] || x->same || x->factor != n->intervals.at[j]->factor) continue;
            area[count++] = x;
            done[i] = true;
        }
        if (!count) continue;
        int64_t size = pack_intervals(n, area, count, placed);
        for (int i = 0; i < count; i++) set_offset(n, area[i], base);
        base = dim_add(base, dim_mulk(area[0]->factor, size));
    }
    n->plan.workspace = base;
}

// The caller's pools are one workspace for callers of the generic interface.
static void pack_pools(planner *n) {
    int64_t callers = 0, all = 0;
    place_in_pools(n);
    for (int j = 0; j < n->intervals.n; j++)
        if (!n->intervals.at[j]->same) set_offset(n, n->intervals.at[j], dim_const(n->p->dims, 0));
    for (int j = 0; j <= n->pools->n; j++) {
        const memory_pool *x = j < n->pools->n ? &n->pools->at[j] : NULL;
        bool lacks = n->plan.pool_bytes[n->pools->n] > 0;
        all += x && lacks ? x->bytes : n->plan.pool_bytes[j];
        if (x && !x->section) callers += n->plan.pool_bytes[j];
    }
    n->plan.workspace = dim_const(n->p->dims, callers);
    n->p->workspace = dim_const(n->p->dims, all);
}

static void note_allocation(planner *n, const interval *i) {
    allocation m = {.buffer = i->buffer, .kernel = i->kernel, .size = i->size};
    m.first = i->live.def, m.last = i->live.last_use;
    m.offset = i->buffer ? n->p->buffers.at[i->buffer->id]->offset : n->plan.scratch_offset[i->kernel->id];
    m.pool = i->buffer ? i->buffer->pool : i->pool;
    VEC_PUSH(n->p->arena, &n->plan.allocations, m);
}

memory_plan plan_memory(program *p, space where, dim *const *scratch, int64_t align, int64_t bounded,
                        const overlaps *o, const memory_pools *pools) {
    planner n = {.p = p, .where = where, .align = align, .scratch = scratch, .bounded = bounded};
    n.overlaps = o, n.pools = pools && pools->n ? pools : NULL;
    n.of = ARENA_ARRAY(p->arena, interval *, p->buffers.n + 1);
    n.plan.scratch_offset = ARENA_ARRAY(p->arena, dim *, p->kernels.n + 1);
    n.plan.scratch_pool = ARENA_ARRAY(p->arena, int, p->kernels.n + 1);
    n.plan.in_place = ARENA_ARRAY(p->arena, bool, p->kernels.n + 1);
    n.moved = ARENA_ARRAY(p->arena, bool, p->buffers.n + 1);
    for (int j = 0; j < p->buffers.n; j++)
        if (p->buffers.at[j]->space == where) p->buffers.at[j]->offset = NULL;
    arena *pass = arena_new();
    n.uses = uses_build(pass, p);
    find_moves(&n);
    for (int j = 0; j < n.uses->n; j++) find_intervals(&n, &n.uses->sites[j]);
    for (int j = 0; j < n.uses->n; j++) {
        const site *at = &n.uses->sites[j];
        if (at->s->kind == STEP_KERNEL) try_in_place(&n, at->s->kernel, at->time);
    }
    n.plan.sum = dim_const(p->dims, 0);
    for (int j = 0; j < n.intervals.n; j++) {
        factor_size(&n, n.intervals.at[j]);
        n.plan.sum = dim_add(n.plan.sum, n.intervals.at[j]->size);
    }
    for (int j = 0; o && j < o->n; j++) relate(&n, &o->at[j]);
    if (n.pools) pack_pools(&n);
    else pack_all(&n);
    note_overlaps(&n);
    for (int j = 0; j < n.intervals.n; j++) {
        const interval *i = n.intervals.at[j];
        const interval *memory = memory_of(n.intervals.at[j]);
        if (i->same) p->buffers.at[i->buffer->id]->offset = memory->buffer->offset;
        if (i->same) p->buffers.at[i->buffer->id]->pool = memory->pool;
    }
    for (int j = 0; j < n.intervals.n; j++) note_allocation(&n, n.intervals.at[j]);
    if (!n.pools) p->workspace = n.plan.workspace;
    arena_destroy(pass);
    return n.plan;
}
