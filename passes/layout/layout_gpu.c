// Layouts for GPUs. In: a program whose host code starts the kernels. Out: what lies between the kernels of
// it and is the image of a convolution has its channels last, where they are a multiple of 16 bytes, and so
// have the weights: products then fetch 16 bytes of both at once (schedule_gpu_load.c).
//
//   y[n, m, h, w] += x[n, c, h + i, w + j] * k[m, c, i, j]      x: layout(0 2 3 1), k: layout(0 2 3 1)
//
// Constants that groups of warps multiply lie as these read them from shared memory (schedule_gpu_bulk.c):
// then a slice comes by one copy. That is for constants that all their readers want so.
//
//   y[m, n] += x[m, k] * w[k, n]      w of f16: layout(0 1 0:8 1:8 0:8)
//
// Inputs and outputs lie as the caller has them: copies would cost more than they bring.
#include "ir/kernel/edit.h"
#include "ir/target.h"
#include "passes/layout/layout.h"
#include "passes/match/contract.h"

typedef struct assign {
    program *p;
    bool *fixed;   // by buffer id: it lies as it lies
    int *channels; // by buffer id: the axis that comes last, -1: row-major
} assign;

// A convolution's image and weights, and which of their axes the channels are.
typedef struct window {
    const expr *image, *weights;
    int channels, weight_channels;
} window;

static bool is_whole(const buffer *b, int axis) {
    enum { PIECE = 128 };
    const dim *n = b->dims[axis];
    return dtype_bits(b->dtype) >= 8 && dim_is_const(n) && dim_value(n) * dtype_bits(b->dtype) % PIECE == 0;
}

// An index that sums run over in both, and others that move with the window.
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
    return w->channels >= 0 && moving > 1 && is_whole(w->image->buffer, w->channels) &&
           is_whole(w->weights->buffer, w->weight_channels);
}

static layout *channels_last(arena *a, int rank, int channels) {
    layout *l = ARENA_NEW(a, layout);
    for (int j = 0; j < rank; j++)
        if (j != channels) l->order[l->n++] = (struct layout_entry){j, 0};
    l->order[l->n++] = (struct layout_entry){channels, 0};
    return l;
}

// ---------------------------------------------------------------- images

static void fix(assign *a, const buffer *b) {
    if (b) a->fixed[buffer_root(b)->id] = true;
}

// Steps on whole buffers take them as they lie.
static void fix_step(void *user, region *r, step *s) {
    assign *a = user;
    (void)r;
    if (s->kind == STEP_KERNEL || s->kind == STEP_ALLOC) return;
    fix(a, s->buffer);
    fix(a, s->from);
    for (int j = 0; j < s->nargs; j++) fix(a, s->args[j]);
}

// Threads of kernels with several stages walk over rows as they lie.
static void fix_buffers(assign *a) {
    program *p = a->p;
    for (int j = 0; j < p->buffers.n; j++) {
        buffer *b = p->buffers.at[j];
        bool between = (b->role == BUF_TEMP || b->role == BUF_HEAP) && !b->view_of;
        if (!between) fix(a, b);
    }
    program_walk(p, fix_step, a);
    for (int j = 0; j < p->kernels.n; j++) {
        const kernel *k = p->kernels.at[j];
        buffer **all;
        int n = kernel_buffers(k, &all);
        for (int i = 0; i < n && (k->stages.n > 1 || k->locals.n); i++)
            if (all[i]->role != BUF_LOCAL) fix(a, all[i]);
    }
}

// What a kernel with one stage walks along the channels of a buffer by the same axis gets its channels last
// too: neighbouring threads then find all of it side by side.
typedef struct spread {
    assign *a;
    const kernel *k;
    VEC(const expr *) reads;
    bool changed;
} spread;
static void note_read(void *user, expr *e) {
    spread *s = user;
    if (e->op == X_READ && e->buffer->role != BUF_LOCAL) VEC_PUSH(s->k->arena, &s->reads, e);
}

static bool is_laid(const assign *a, const buffer *b) { return a->channels[b->id] >= 0 && !a->fixed[b->id]; }

// The one axis of the buffer that kernel axis i moves along, -1: none or several.
static int moved_by(const buffer *b, expr *const *index, int i) {
    int found = -1, n = 0;
    for (int j = 0; j < b->rank; j++)
        if (expr_uses_axis(index[j], i)) found = j, n++;
    return n == 1 ? found : -1;
}

static void spread_to(spread *s, const buffer *from, expr *const *by, const buffer *to, expr *const *index) {
    if (to->rank < from->rank || s->a->fixed[to->id] || s->a->channels[to->id] >= 0) return;
    const expr *walk = by[s->a->channels[from->id]];
    if (walk->op != X_AXIS || s->k->axes.at[walk->axis].kind != AXIS_PARALLEL) return;
    int channels = moved_by(to, index, walk->axis);
    if (channels < 0) return;
    s->a->channels[to->id] = channels;
    s->changed = true;
}

static void spread_write(spread *s, const write *w) {
    for (int j = 0; j < s->reads.n; j++) {
        const expr *r = s->reads.at[j];
        if (is_laid(s->a, w->to)) spread_to(s, w->to, w->index, r->buffer, r->index);
        if (is_laid(s->a, r->buffer)) spread_to(s, r->buffer, r->index, w->to, w->index);
    }
}

static bool spread_in(assign *a, const kernel *k) {
    spread s = {.a = a, .k = k};
    if (k->stages.n != 1 || k->locals.n) return false;
    stage_walk(k->stages.at[0], note_read, &s);
    for (int j = 0; j < k->stages.at[0]->writes.n; j++) spread_write(&s, &k->stages.at[0]->writes.at[j]);
    return s.changed;
}

// ---------------------------------------------------------------- weights

static void turn_weights(assign *a, kernel *k, const window *w, map *turned) {
    const buffer *b = w->weights->buffer;
    if (b->layout || b->view_of || w->weight_channels == b->rank - 1) return;
    uint64_t key = (uint64_t)b->id * MAX_RANK + (uint64_t)w->weight_channels;
    buffer *to = map_get_number(turned, key);
    if (!to) {
        to = program_constant(a->p, b->name, b->data);
        to->layout = channels_last(a->p->arena, b->rank, w->weight_channels);
        map_put_number(turned, key, to);
    }
    for (int j = 0; j < k->stages.n; j++)
        for (int i = 0; i < k->stages.at[j]->states.n; i++) {
            state *st = &k->stages.at[j]->states.at[i];
            st->step = expr_swap_reads(k, st->step, b, to);
        }
}

// ---------------------------------------------------------------- core matrices

layout layout_of_cores(const buffer *b, const core_axes *x) {
    layout l = {0};
    const struct layout_entry inner[] = {
        {x->k, 0}, {x->row, 0}, {x->k, SLICE_CORES}, {x->row, CORE_ROWS}, {x->k, 128 / dtype_bits(b->dtype)}};
    for (int j = 0; j < b->rank; j++)
        if (j != x->k && j != x->row) l.order[l.n++] = (struct layout_entry){j, 0};
    for (int j = 0; j < 5; j++) l.order[l.n++] = inner[j];
    return l;
}

// How many products want a constant in core matrices, in those of the first one.
typedef struct wishes {
    int n;
    layout *want;
} wishes;
typedef struct constants {
    program *p;
    const target *t;
    wishes *of; // by buffer id
} constants;

// Slices are filled up: no constant of a size that counts becomes much larger by that.
static bool is_compact(const buffer *b, const layout *l) {
    enum { SMALL = 256 << 10 };
    buffer laid = *b;
    laid.layout = l;
    int64_t bytes = dim_value(buffer_bytes(&laid));
    return bytes <= SMALL || bytes / 5 * 4 <= dim_value(buffer_bytes(b));
}

static void wish_of_product(constants *c, const contraction *x, const expr *read) {
    const buffer *b = read->buffer;
    core_axes axes;
    if (b->role != BUF_CONST || b->view_of || b->layout || !gpu_find_cores(c->t, x, read, &axes)) return;
    layout *want = ARENA_NEW(c->p->arena, layout);
    *want = layout_of_cores(b, &axes);
    wishes *w = &c->of[b->id];
    if (!w->n) w->want = want;
    if (layout_equal(w->want, want) && is_compact(b, want)) w->n++;
}

static void wish_of_step(void *user, region *r, step *s) {
    constants *c = user;
    contraction x;
    (void)r;
    if (s->kind != STEP_KERNEL || !contraction_find(s->kernel, &x) || !gpu_prefers_groups(c->t, &x)) return;
    wish_of_product(c, &x, x.a);
    wish_of_product(c, &x, x.b);
}

static void lay_cores(program *p, const target *t, arena *scratch) {
    constants c = {p, t, ARENA_ARRAY(scratch, wishes, p->buffers.n + 1)};
    const int *uses = count_uses(p, scratch);
    program_walk(p, wish_of_step, &c);
    for (int j = 0; j < p->buffers.n; j++) {
        buffer *b = p->buffers.at[j];
        if (!c.of[j].n || c.of[j].n != uses[j]) continue;
        b->layout = c.of[j].want;
        if (b->dtype == DT_F32) b->data = tf32_constant(p->arena, b->data);
    }
}

// ---------------------------------------------------------------- entry

void assign_gpu_layouts(program *p, const target *t) {
    arena *scratch = arena_new();
    int n = p->buffers.n;
    assign a = {p, ARENA_ARRAY(scratch, bool, n + 1), ARENA_ARRAY(scratch, int, n + 1)};
    map turned = {.arena = scratch};
    window w;
    fix_buffers(&a);
    for (int j = 0; j < n; j++) a.channels[j] = -1;
    for (int j = 0; j < p->kernels.n; j++) {
        if (!find_window(p->kernels.at[j], &w) || a.fixed[w.image->buffer->id]) continue;
        int *channels = &a.channels[w.image->buffer->id];
        if (*channels >= 0 && *channels != w.channels) a.fixed[w.image->buffer->id] = true;
        *channels = w.channels;
    }
    for (bool changed = true; changed;) {
        changed = false;
        for (int j = 0; j < p->kernels.n; j++) changed |= spread_in(&a, p->kernels.at[j]);
    }
    for (int j = 0; j < n; j++) {
        buffer *b = p->buffers.at[j];
        if (a.channels[j] >= 0 && !a.fixed[j]) b->layout = channels_last(p->arena, b->rank, a.channels[j]);
    }
    if (t->groups) lay_cores(p, t, scratch);
    for (int j = 0; j < p->kernels.n; j++) {
        if (!find_window(p->kernels.at[j], &w)) continue;
        bool last = w.image->buffer->layout || w.channels == w.image->buffer->rank - 1;
        if (last) turn_weights(&a, p->kernels.at[j], &w, &turned);
    }
    arena_destroy(scratch);
    program_verify(p);
}
