// Caches that lose rows at their front: most steps move nothing.
//
//   for b:                                        for b: by[b] = max(e(b), 0)
//     for r < C:                                  slide(in, by): rows by[b].. of each b, if by[b] > 0, to its front
//       out[b, r] = n(b, r) if new(b, r)          for b, r:
//                   else in[b, r + max(e(b), 0)]    out[b, r] = n(b, r) if new(b, r) else in[b, r]
//                        if r + max(e(b), 0) < C
//                        else in[b, r]
#include "passes/memory/slide.h"
#include "ir/kernel/clone.h"
#include "ir/kernel/edit.h"
#include "passes/match/form.h"

typedef struct slide {
    kernel *k;
    const write *w;
    buffer *in;
    const expr *moved, *kept; // the reads in[b, r + by] and in[b, r]
    expr *by;
    int axis; // of the buffer
} slide;

static bool is_zero(const expr *x) { return x->op == X_CONST && x->i == 0; }

static bool is_element(const expr *x, const slide *s) {
    if (x->op != X_READ || x->buffer != s->in || x->guard) return false;
    for (int d = 0; d < s->in->rank; d++)
        if (x->index[d] != s->w->index[d]) return false;
    return true;
}

// How many rows further on than the written element the read is; NULL: none, or it varies among the rows.
static expr *distance(const expr *index, const expr *row) {
    if (row->op != X_AXIS || index->op != X_ADD) return NULL;
    expr *by = index->arg[0] == row ? index->arg[1] : index->arg[1] == row ? index->arg[0] : NULL;
    bool positive = by && by->op == X_MAX && (is_zero(by->arg[0]) || is_zero(by->arg[1]));
    return positive && !expr_uses_axis(by, row->axis) ? by : NULL;
}

static bool find_distance(slide *s) {
    s->by = NULL;
    for (int d = 0; d < s->in->rank; d++) {
        if (s->moved->index[d] == s->w->index[d]) continue;
        if (s->by || !(s->by = distance(s->moved->index[d], s->w->index[d]))) return false;
        s->axis = d;
    }
    return s->by != NULL;
}

// Whether the guard is 0 <= index < size.
static bool is_bound(const slide *s, const expr *guard) {
    const expr *index = s->moved->index[s->axis];
    if (guard->op != X_AND) return false;
    const expr *low = guard->arg[0], *high = guard->arg[1];
    return low->op == X_LE && is_zero(low->arg[0]) && low->arg[1] == index && high->op == X_LT &&
           high->arg[0] == index && expr_known_dim(s->k, high->arg[1]) == s->in->dims[s->axis];
}

// Whether the distance depends on axes before that of the rows only, each of which is an axis of the kernel.
static bool depends_on_outer_axes(const slide *s) {
    uint64_t outer = 0;
    for (int d = 0; d < s->axis; d++) {
        const expr *x = s->w->index[d];
        if (x->op == X_AXIS) outer |= UINT64_C(1) << x->axis;
        else if (!dim_is(s->in->dims[d], 1)) return false;
    }
    for (int j = 0; j < s->k->axes.n; j++)
        if (!(outer >> j & 1) && expr_uses_axis(s->by, j)) return false;
    return true;
}

static bool find_slide(slide *s) {
    if (s->k->stages.n != 1 || s->k->stages.at[0]->states.n || s->k->stages.at[0]->writes.n != 1)
        return false;
    s->w = &s->k->stages.at[0]->writes.at[0];
    const expr *x = s->w->value;
    if (s->w->guard || x->op != X_READ || !x->guard) return false;
    s->moved = x->fill;
    if (s->moved->op != X_READ || s->moved->buffer != s->in || !s->moved->guard) return false;
    s->kept = s->moved->fill;
    return is_element(s->kept, s) && find_distance(s) && is_bound(s, s->moved->guard) &&
           depends_on_outer_axes(s);
}

// A temporary with the distance for each element of the axes before that of the rows.
static buffer *distances(program *p, const site *at, const slide *s) {
    arena *scratch = arena_new();
    buffer *b = program_buffer(p, "by", BUF_TEMP, DT_I64, s->axis, s->in->dims);
    kernel *k = kernel_new(p, "by", s->k->loc);
    stage *own = kernel_stage(k);
    cloning *g = clone_new(scratch, k, s->k);
    expr *index[MAX_RANK];
    for (int d = 0; d < s->axis; d++) {
        index[d] = stage_own_axis(k, own, AXIS_PARALLEL, "i", s->in->dims[d]);
        if (s->w->index[d]->op == X_AXIS) g->axis[s->w->index[d]->axis] = index[d];
    }
    stage_write(k, own, b, index, clone_expr(g, s->by));
    insert_kernel(p, at->region, step_index(at->region, at->s), k);
    arena_destroy(scratch);
    return b;
}

static dim *product(program *p, dim *const *dims, int from, int to) {
    dim *n = dim_const(p->dims, 1);
    for (int d = from; d < to; d++) n = dim_mul(n, dims[d]);
    return n;
}

static expr *keep(void *user, expr *x) {
    const slide *s = user;
    return x == s->moved ? x->fill : NULL;
}

void slide_in_place(program *p, const site *at, buffer *in, buffer *out) {
    slide s = {.k = at->s->kernel, .in = in};
    int bits = dtype_bits(in->dtype);
    if (bits < 8 || in->space != SPACE_HOST || !find_slide(&s) || s.w->to != out) return;
    buffer *by = distances(p, at, &s);
    step *call = insert_library(p, at->region, step_index(at->region, at->s), "slide", at->s->loc, 1, 3, 3);
    call->args[0] = out, call->args[1] = in, call->args[2] = by;
    call->numbers[0] = product(p, in->dims, 0, s.axis), call->numbers[1] = in->dims[s.axis];
    call->numbers[2] = dim_mulk(product(p, in->dims, s.axis + 1, in->rank), bits / 8);
    kernel_rewrite(s.k, keep, &s);
}
