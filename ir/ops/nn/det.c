// Det: determinants of square matrices [..., n, n] by Gaussian elimination with partial pivoting. The host
// code loops over the columns:
//
//   a = x; det = 1
//   for k: p = row >= k with the largest |a[p, k]|; det *= a[p, k], negated if p differs from k
//          swap rows k and p; a[i, j] -= a[i, k] / a[k, k] * a[k, j] for i > k
#include "ir/ops/control/control.h"
#include "ir/ops/runtime_args.h"
#include <string.h>

static void det_infer(node *n) {
    int rank = infer_rank(n, 0);
    const type *x = infer_in(n, 0);
    if (rank < 2) infer_error(n, "the input has rank %d; matrices need at least 2", rank);
    infer_same_dim(n, x->dims[rank - 2], x->dims[rank - 1], "rows and columns");
    infer_set(n, 0, x->elem, rank - 2, x->dims);
}

typedef struct elimination {
    lowering *l;
    const node *n;
    int batch; // axes before the matrix
    dim *size, *step;
    buffer *a, *next, *pivot, *det;
} elimination;

static expr *read_a(const elimination *e, kernel *k, expr *const *at, expr *row, expr *column) {
    expr *from[MAX_RANK];
    memcpy(from, at, (size_t)e->batch * sizeof *from);
    from[e->batch] = row, from[e->batch + 1] = column;
    return x_read(k, e->a, from);
}

// The pivot's row, clamped to the matrix.
static expr *read_pivot(const elimination *e, kernel *k, expr *const *at) {
    return x_clamped(k, x_read(k, e->pivot, at), e->size);
}

static void find_pivot(const elimination *e) {
    kernel *k;
    expr *at[MAX_RANK];
    stage *s = suffixed_stage(e->l, e->n, "pivot", e->pivot, &k, at);
    expr *r = stage_own_axis(k, s, AXIS_SCAN, "r", e->size);
    dtype t = e->a->dtype;
    expr *column = x_dim(k, e->step);
    expr *best = stage_state(k, s, t, x_float(k, t, -1)), *place = stage_state(k, s, DT_I64, column);
    expr *v = x_un(k, X_ABS, read_a(e, k, at, r, column));
    expr *better = x_and(k, x_bin(k, X_LE, column, r), x_lt(k, best, v));
    stage_step(s, 0, x_select(k, better, v, best), NULL);
    stage_step(s, 1, x_select(k, better, r, place), NULL);
    stage_write(k, s, e->pivot, at, place);
}

static void multiply(const elimination *e) {
    kernel *k;
    expr *at[MAX_RANK];
    stage *s = suffixed_stage(e->l, e->n, "multiply", e->det, &k, at);
    expr *p = read_pivot(e, k, at), *column = x_dim(k, e->step), *v = read_a(e, k, at, p, column);
    v = x_select(k, x_bin(k, X_EQ, p, column), v, x_un(k, X_NEG, v));
    stage_write(k, s, e->det, at, x_mul(k, x_read(k, e->det, at), v));
}

static void eliminate(const elimination *e) {
    kernel *k;
    expr *at[MAX_RANK];
    stage *s = suffixed_stage(e->l, e->n, "eliminate", e->next, &k, at);
    expr *p = read_pivot(e, k, at), *column = x_dim(k, e->step), *i = at[e->batch], *j = at[e->batch + 1];
    expr *from = x_select(k, x_bin(k, X_EQ, i, column), p, x_select(k, x_bin(k, X_EQ, i, p), column, i));
    expr *v = read_a(e, k, at, from, j), *pivot = read_a(e, k, at, p, column), *zero = x_zero(k, v->dtype);
    expr *factor = x_div(k, read_a(e, k, at, from, column), pivot);
    factor = x_select(k, x_bin(k, X_EQ, pivot, zero), zero, factor);
    expr *reduced = x_sub(k, v, x_mul(k, factor, read_a(e, k, at, p, j)));
    stage_write(k, s, e->next, at, x_select(k, x_lt(k, column, i), reduced, v));
}

static void det_lower(lowering *l, node *n) {
    buffer *x = lower_in(l, n, 0), *out = lower_out(l, n, 0);
    dtype t = dtype_compute(x->dtype);
    elimination e = {.l = l, .n = n, .batch = x->rank - 2, .size = x->dims[x->rank - 1]};
    e.a = lower_temp(l, n, "a", t, x->rank, x->dims);
    e.next = lower_temp(l, n, "next", t, x->rank, x->dims);
    e.pivot = lower_temp(l, n, "pivot", DT_I64, out->rank, out->dims);
    e.det = lower_temp(l, n, "det", t, out->rank, out->dims);
    lower_convert(l, n, "copy", x, e.a);
    kernel *k;
    expr *at[MAX_RANK];
    stage *s = suffixed_stage(l, n, "start", e.det, &k, at);
    stage_write(k, s, e.det, at, x_float(k, t, 1));
    e.step = dim_opaque(l->program->dims, "column", 0, INT64_MAX);
    region *outside = open_loop(l, n, e.step, e.size, NULL);
    find_pivot(&e);
    multiply(&e);
    eliminate(&e);
    step_between(l, n, STEP_COPY, e.a, e.next);
    close_loop(l, outside);
    lower_convert(l, n, "finish", e.det, out);
}

OPERATOR(Det, .infer = det_infer, .lower = det_lower);
