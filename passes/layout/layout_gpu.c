// Layouts for GPUs. In: a program whose host code launches the kernels. Out: images of convolutions that are
// temporaries are channels-last if their channels are a multiple of 16 bytes, and so are the weights:
// products then load 16 bytes of both at a time (schedule_gpu_load.c).
//
//   y[n, m, h, w] += x[n, c, h + i, w + j] * k[m, c, i, j]      x: layout(0 2 3 1), k: layout(0 2 3 1)
//
// Constants multiplied by warpgroups are stored in the order in which these read them from shared memory
// (schedule_gpu_bulk.c), so that one bulk copy loads a K tile. This requires that all readers of the constant
// prefer it.
//
//   y[m, n] += x[m, k] * w[k, n]      w of f16: layout(0 1 0:8 1:8 0:8)
//
// Inputs and outputs keep the caller's layout: copies would cost more than they gain.
#include "ir/kernel/edit.h"
#include "ir/kernel/uses.h"
#include "ir/target.h"
#include "passes/layout/layout.h"
#include "passes/layout/layout_propagate.h"
#include "passes/match/contract.h"
#include "passes/match/cores.h"
#include "passes/match/form.h"
#include "passes/schedule/gpu/schedule_gpu_product.h"

typedef struct assign {
    program *p;
    bool *fixed;   // by buffer id: its layout must not change
    int *channels; // by buffer id: the innermost axis, -1: row-major
} assign;

// A convolution's image and weights, and their channel axes.
typedef struct window {
    const expr *image, *weights;
    int channels, weight_channels;
} window;

static bool is_whole(const buffer *b, int axis) {
    enum { PIECE = 128 };
    const dim *n = b->dims[axis];
    return dtype_bits(b->dtype) >= 8 && dim_is_const(n) && dim_value(n) * dtype_bits(b->dtype) % PIECE == 0;
}

// The channels are a reduce index of both operands; other reduce indices of the image belong to the window, which
// is one pixel if there are none.
static bool find_window(const kernel *k, window *w) {
    contraction c;
    if (!contraction_find(k, &c)) return false;
    bool first = c.a->buffer->role != BUF_CONST;
    *w = (window){first ? c.a : c.b, first ? c.b : c.a, -1, -1};
    if (w->weights->buffer->role != BUF_CONST || w->image->buffer->role == BUF_CONST) return false;
    int moving = 0;
    for (int j = 0; j < w->image->buffer->rank; j++) {
        if (!index_reduces(k, w->image->index[j])) continue;
        moving++;
        for (int i = 0; i < w->weights->buffer->rank; i++)
            if (w->weights->index[i] == index_in_part(w->image->index[j]))
                w->channels = j, w->weight_channels = i;
    }
    bool window = moving > 1 || (w->image->buffer->rank > 2 && w->channels < w->image->buffer->rank - 1);
    return w->channels >= 0 && window && is_whole(w->image->buffer, w->channels) &&
           is_whole(w->weights->buffer, w->weight_channels);
}

// ---------------------------------------------------------------- images

static void fix(assign *a, const buffer *b) { a->fixed[buffer_root(b)->id] = true; }

// Kernels with several stages assign threads along row-major rows.
static void fix_buffers(assign *a, const uses *u) {
    program *p = a->p;
    for (int j = 0; j < p->buffers.n; j++) {
        buffer *b = p->buffers.at[j];
        bool between = (b->role == BUF_TEMP || b->role == BUF_HEAP) && !b->view_of;
        if (!between || u->of[j].by_others) fix(a, b); // other steps expect row-major buffers
    }
    for (int j = 0; j < p->kernels.n; j++) {
        const kernel *k = p->kernels.at[j];
        buffer **all;
        int n = kernel_buffers(k, &all);
        for (int i = 0; i < n && (k->stages.n > 1 || k->locals.n); i++)
            if (all[i]->role != BUF_LOCAL) fix(a, all[i]);
    }
}

// Writes and reads of a kernel with one stage that the same axis traverses along the channels: accesses of
// adjacent threads are coalesced.
static int channel_of_threads(const kernel *k, const layout_access *from, int channel,
                              const layout_access *to) {
    const expr *walk = from->index[channel];
    if (from->writes == to->writes || to->buffer->rank < from->buffer->rank) return -1;
    if (walk->op != X_AXIS || k->axes.at[walk->axis].kind != AXIS_PARALLEL) return -1;
    return dim_of_axis(to->buffer, to->index, walk->axis, false);
}
static bool has_one_stage(const kernel *k) { return k->stages.n == 1 && !k->locals.n; }

// ---------------------------------------------------------------- weights

static void reorder_weights(assign *a, kernel *k, const window *w, map *reordered) {
    const buffer *b = w->weights->buffer;
    if (b->layout || b->view_of || w->weight_channels == b->rank - 1) return;
    uint64_t key = (uint64_t)b->id * MAX_RANK + (uint64_t)w->weight_channels;
    buffer *to = map_get_number(reordered, key);
    if (!to) {
        to = program_constant(a->p, b->name, b->data);
        to->tf32 = b->tf32;
        to->layout = layout_channels_last(a->p->arena, b->rank, w->weight_channels);
        map_put_number(reordered, key, to);
    }
    for (int j = 0; j < k->stages.n; j++)
        for (int i = 0; i < k->stages.at[j]->states.n; i++) {
            state *st = &k->stages.at[j]->states.at[i];
            st->step = expr_swap_reads(k, st->step, b, to);
        }
}

// ---------------------------------------------------------------- core matrices
// How many products prefer a constant in core matrices, and the layout that the first one prefers.
typedef struct preference {
    int n;
    layout *want;
} preference;
typedef struct constants {
    program *p;
    const target *t;
    preference *of; // by buffer id
} constants;

// Tiles are padded: no large constant may grow much.
static bool is_compact(const buffer *b, const layout *l) {
    enum { SMALL = 256 << 10 };
    buffer laid = *b;
    laid.layout = l;
    int64_t bytes = dim_value(buffer_bytes(&laid));
    return bytes <= SMALL || bytes / 5 * 4 <= dim_value(buffer_bytes(b));
}

static void prefer_in_product(constants *c, const contraction *x, const expr *read) {
    const buffer *b = read->buffer;
    core_axes axes;
    if (b->role != BUF_CONST || b->view_of || b->layout || !gpu_find_cores(c->t, x, read, &axes)) return;
    layout *want = ARENA_NEW(c->p->arena, layout);
    *want = layout_of_cores(b, &axes);
    preference *w = &c->of[b->id];
    if (!w->n) w->want = want;
    if (layout_equal(w->want, want) && is_compact(b, want)) w->n++;
}

static void prefer_in_kernel(constants *c, kernel *k) {
    contraction x;
    if (!contraction_find(k, &x) || !gpu_prefers_warpgroups(c->t, &x)) return;
    prefer_in_product(c, &x, x.a);
    prefer_in_product(c, &x, x.b);
}

static void lay_cores(program *p, const target *t, arena *scratch) {
    constants c = {p, t, ARENA_ARRAY(scratch, preference, p->buffers.n + 1)};
    const uses *u = uses_build(scratch, p);
    for (int j = 0; j < u->n; j++)
        if (u->sites[j].s->kind == STEP_KERNEL) prefer_in_kernel(&c, u->sites[j].s->kernel);
    for (int j = 0; j < p->buffers.n; j++) {
        buffer *b = p->buffers.at[j];
        if (c.of[j].n && uses_are_direct(u, b, c.of[j].n)) b->layout = c.of[j].want;
    }
}

// ---------------------------------------------------------------- entry

void assign_gpu_layouts(program *p, const target *t) {
    arena *scratch = arena_new();
    int n = p->buffers.n;
    assign a = {p, ARENA_ARRAY(scratch, bool, n + 1), ARENA_ARRAY(scratch, int, n + 1)};
    map reordered = {.arena = scratch};
    window w;
    fix_buffers(&a, uses_build(scratch, p));
    for (int j = 0; j < n; j++) a.channels[j] = -1;
    for (int j = 0; j < p->kernels.n; j++) {
        if (!find_window(p->kernels.at[j], &w) || a.fixed[w.image->buffer->id]) continue;
        int *channels = &a.channels[w.image->buffer->id];
        if (*channels >= 0 && *channels != w.channels) a.fixed[w.image->buffer->id] = true;
        *channels = w.channels;
    }
    propagate_layouts(&(propagation){p, a.channels, a.fixed, has_one_stage, channel_of_threads});
    for (int j = 0; j < n; j++) {
        buffer *b = p->buffers.at[j];
        if (a.channels[j] >= 0 && !a.fixed[j])
            b->layout = layout_channels_last(p->arena, b->rank, a.channels[j]);
    }
    if (t->warpgroups) lay_cores(p, t, scratch);
    for (int j = 0; j < p->kernels.n; j++) {
        if (!find_window(p->kernels.at[j], &w)) continue;
        bool last = w.image->buffer->layout || w.channels == w.image->buffer->rank - 1;
        if (last) reorder_weights(&a, p->kernels.at[j], &w, &reordered);
    }
    arena_destroy(scratch);
}
