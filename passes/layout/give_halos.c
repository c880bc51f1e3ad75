// Halos of images, instead of guards. In: kernels that read images under guards. Out: images with a halo, which is filled once.
#include "ir/kernel/clone.h"
#include "ir/kernel/edit.h"
#include "ir/kernel/uses.h"
#include "passes/layout/channels_last.h"
#include "passes/layout/layout.h"
#include "passes/layout/layout_copies.h"
#include "passes/match/contract.h"
#include "passes/match/form.h"

typedef struct halos {
    program *p;
    const target *t;
    const uses *uses;
    map sources; // buffer id -> the buffer of the runtime value that fills its halo
    map filled;  // (kernel id, buffer id) -> that buffer, if its halo is filled before that kernel
} halos;

static expr *drop_guard(void *user, kernel *k, const expr *read) {
    buffer *b = user;
    return read->buffer == b ? x_read(k, b, read->index) : NULL;
}

static bool has_halo(const buffer *b) {
    for (int j = 0; b->layout && j < b->rank; j++)
        if (b->layout->pad_lo[j] || b->layout->pad_hi[j]) return true;
    return false;
}

static double fill_value(const expr *e) { return dtype_is_float(e->dtype) ? e->f : (double)e->i; }

static bool fits_halo(const halos *a, const expr *read) {
    buffer *known = map_get_number(&a->sources, (uint64_t)read->buffer->id), *source = halo_source(read);
    if (source || known) return source == known || (!known && !has_halo(read->buffer));
    if (read->fill->op != X_CONST) return false;
    return !has_halo(read->buffer) || read->buffer->layout->fill == fill_value(read->fill);
}

// The halo that satisfies all guarded reads of the image.
typedef struct halo {
    const expr *read; // one of the reads
    int64_t lo[MAX_RANK], hi[MAX_RANK];
} halo;

// Whether a halo can replace the guard of this read as well.
static bool add_overhang(const halos *a, halo *h, kernel *k, const expr *e) {
    int64_t lo[MAX_RANK], hi[MAX_RANK];
    if (!fits_halo(a, e) || (h->read && h->read->fill != e->fill) || !halo_of_read(k, e, lo, hi))
        return false;
    h->read = e;
    for (int j = 0; j < e->buffer->rank; j++) {
        if (lo[j] > h->lo[j]) h->lo[j] = lo[j];
        if (hi[j] > h->hi[j]) h->hi[j] = hi[j];
    }
    return true;
}

// False if a halo cannot replace the guard of some read; h->read stays NULL if there is no guarded read.
static bool find_halo(const halos *a, halo *h, kernel *k, const buffer *image) {
    arena *scratch = arena_new();
    expr_list nodes = kernel_nodes(scratch, k, PART_ALL);
    bool possible = true;
    for (int j = 0; j < nodes.n && possible; j++) {
        const expr *e = nodes.at[j];
        if (e->op == X_READ && e->buffer == image && e->guard) possible = add_overhang(a, h, k, e);
    }
    arena_destroy(scratch);
    return possible;
}

static uint64_t kernel_and_buffer(const kernel *k, const buffer *b) {
    return (uint64_t)k->id << 32 | (uint64_t)b->id;
}

// Guarded reads of the image by kernel k become unguarded reads of an image with a halo.
static void give_halo(halos *a, kernel *k, buffer *b) {
    halo h = {0};
    const expr *far = far_window(k, k->stages.at[0], a->t);
    if (far && far->buffer == b) return;
    if (!is_temp_root(b) || !b->layout || !find_halo(a, &h, k, b) || !h.read) return;
    layout *l = ARENA_NEW(k->arena, layout);
    *l = *b->layout;
    buffer *source = halo_source(h.read);
    if (source) map_put_number(&a->sources, (uint64_t)b->id, source);
    else l->fill = fill_value(h.read->fill);
    for (int j = 0; j < b->rank; j++) {
        // The image of a window with strides, too, so that images of one size have one layout, and writers one kernel.
        bool both = h.lo[j] == h.hi[j] + 1 && !a->t->freestanding && !a->t->size_level;
        int64_t hi = both ? h.lo[j] : h.hi[j];
        if (h.lo[j] > l->pad_lo[j]) l->pad_lo[j] = h.lo[j];
        if (hi > l->pad_hi[j]) l->pad_hi[j] = hi;
    }
    b->layout = l;
    if (source) map_put_number(&a->filled, kernel_and_buffer(k, b), b);
    kernel_rewrite_reads(k, drop_guard, b);
}

// Convolutions have priority if two windows need different fill values.
static void give_halos(halos *a) {
    program *p = a->p;
    for (int j = 0; j < p->kernels.n; j++) {
        conv_form f;
        if (find_conv(p->kernels.at[j], a->t, &f) && f.image) give_halo(a, p->kernels.at[j], f.image);
    }
    for (int j = 0; j < p->kernels.n; j++) {
        buffer **all;
        int n = kernel_buffers(p->kernels.at[j], &all);
        for (int i = 0; i < n; i++) give_halo(a, p->kernels.at[j], all[i]);
    }
}

static void halo_stage(kernel *k, buffer *b, int axis, bool high, buffer *source) {
    const layout *l = b->layout;
    stage *s = kernel_stage(k);
    expr *index[MAX_RANK];
    for (int j = 0; j < l->n; j++) {
        int x = l->order[j].axis;
        int64_t pad = l->pad_lo[x] + l->pad_hi[x];
        dim *n = x != axis ? dim_addk(b->dims[x], pad)
                           : dim_const(k->program->dims, high ? l->pad_hi[x] : l->pad_lo[x]);
        expr *a = stage_own_axis(k, s, AXIS_PARALLEL, "i", n);
        index[x] =
            x != axis || !high ? x_add(k, a, x_i64(k, -l->pad_lo[x])) : x_add(k, a, x_dim(k, b->dims[x]));
    }
    stage_write(k, s, b, index,
                source ? x_read_first(k, source) : x_number(k, dtype_compute(b->dtype), l->fill));
}

static kernel *halo_kernel(const halos *a, buffer *b, const loc *at) {
    kernel *k = kernel_new(a->p, arena_printf(a->p->arena, "halo_%s", b->name), at);
    buffer *source = map_get_number(&a->sources, (uint64_t)b->id);
    for (int j = 0; j < b->rank; j++) {
        if (b->layout->pad_lo[j]) halo_stage(k, b, j, false, source);
        if (b->layout->pad_hi[j]) halo_stage(k, b, j, true, source);
    }
    return k;
}

// The first kernel that reads b, if kernels of this region alone use it. On bare machines its halo is filled there, so that
// the result may overlap what its writer reads.
static const step *first_reader(const halos *a, const region *r, const buffer *b) {
    const buffer_uses *of = &a->uses->of[b->id];
    const step *reader = NULL;
    if (!a->t->freestanding || of->viewed || of->by_others || of->output) return NULL;
    for (int j = 0; j < of->sites.n; j++) {
        const site *at = of->sites.at[j];
        if (at->s->kind != STEP_KERNEL || at->region != r) return NULL;
        if (!reader && site_reads(at, b)) reader = at->s;
    }
    return reader;
}

// Halos are filled after the step that allocates the buffer, or before the first kernel that writes it. A
// runtime fill value is available before each kernel whose guarded reads use it, so the halo is filled there.
static void fill_halos(halos *a, region *r, const step *s, uint8_t *filled) {
    if (s->kind == STEP_ALLOC && has_halo(s->buffer) && !map_get_number(&a->sources, (uint64_t)s->buffer->id))
        insert_kernel(a->p, r, step_index(r, s) + 1, halo_kernel(a, s->buffer, s->loc));
    if (s->kind != STEP_KERNEL) return;
    buffer **all;
    int n = kernel_buffers(s->kernel, &all);
    for (int i = 0; i < n; i++) {
        buffer *b = all[i];
        bool source = map_get_number(&a->sources, (uint64_t)b->id);
        if (source && !map_get_number(&a->filled, kernel_and_buffer(s->kernel, b))) continue;
        if (!source && (b->role == BUF_HEAP || filled[b->id] || !has_halo(b) || !kernel_writes(s->kernel, b)))
            continue;
        filled[b->id] = 1;
        const step *reader = source ? NULL : first_reader(a, r, b);
        insert_kernel(a->p, r, step_index(r, reader ? reader : s), halo_kernel(a, b, s->kernel->loc));
    }
}

void make_halos(program *p, const target *t) {
    arena *scratch = arena_new();
    halos a = {.p = p, .t = t, .sources.arena = scratch, .filled.arena = scratch};
    give_halos(&a);
    a.uses = uses_build(scratch, p);
    uint8_t *filled = ARENA_ARRAY(scratch, uint8_t, p->buffers.n + 1);
    step_list steps = program_steps(scratch, p);
    for (int j = 0; j < steps.n; j++) fill_halos(&a, steps.at[j].region, steps.at[j].s, filled);
    arena_destroy(scratch);
}
