// Det: determinants of square matrices [..., n, n] by Gaussian elimination with partial pivoting. The host
// code loops over pairs of columns; each column's elimination writes the rest of the matrix to the other of two buffers:
//
//   a = x; det = 1
//   for k: p = row >= k with the largest |a[p, k]|; det *= a[p, k], negated if p differs from k
//          next[i, j] = a[i, j] - a[i, k] / a[p, k] * a[p, j] for i, j > k, where row p of a is row k; swap a and next
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
    int half;  // of the pair of columns
    dim *size, *column;
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

// The column, clamped too: in the last iteration it is past the end of a matrix of odd size.
static expr *read_column(const elimination *e, kernel *k, expr *const *at, expr *row) {
    return read_a(e, k, at, row, x_clamped(k, x_dim(k, e->column), e->size));
}

static stage *stage_over(const elimination *e, const char *name, buffer *out, kernel **k, expr **at) {
    return suffixed_stage(e->l, e->n, arena_printf(e->l->program->arena, "%s%d", name, e->half), out, k, at);
}

// Rows or columns from `first` on; none past the end of a matrix of an odd size.
static dim *rest_from(const elimination *e, dim *first) {
    return dim_max(dim_sub(e->size, first), dim_const(first->table, 0));
}

static void find_pivot(const elimination *e) {
    kernel *k;
    expr *at[MAX_RANK];
    stage *s = stage_over(e, "pivot", e->pivot, &k, at);
    expr *column = x_dim(k, e->column),
         *r = x_add(k, column, stage_own_axis(k, s, AXIS_SCAN, "r", rest_from(e, e->column)));
    dtype t = e->a->dtype;
    expr *best = stage_state(k, s, t, x_float(k, t, -1)), *place = stage_state(k, s, DT_I64, column);
    expr *v = x_un(k, X_ABS, read_a(e, k, at, r, column)), *better = x_lt(k, best, v);
    stage_step(s, 0, x_select(k, better, v, best), NULL);
    stage_step(s, 1, x_select(k, better, r, place), NULL);
    stage_write(k, s, e->pivot, at, place);
}

static void multiply(const elimination *e) {
    kernel *k;
    expr *at[MAX_RANK];
    stage *s = stage_over(e, "multiply", e->det, &k, at);
    expr *p = read_pivot(e, k, at), *column = x_dim(k, e->column);
    expr *v = read_column(e, k, at, p);
    v = x_select(k, x_bin(k, X_EQ, p, column), v, x_un(k, X_NEG, v));
    v = x_select(k, x_lt(k, column, x_dim(k, e->size)), v, x_float(k, v->dtype, 1));
    stage_write(k, s, e->det, at, x_mul(k, x_read(k, e->det, at), v));
}

static void eliminate(const elimination *e) {
    lowering *l = e->l;
    kernel *k = lower_kernel(l, e->n, arena_printf(l->program->arena, "eliminate%d", e->half));
    stage *s = kernel_stage(k);
    expr *at[MAX_RANK], *column = x_dim(k, e->column);
    dim *first = dim_addk(e->column, 1);
    for (int j = 0; j < e->batch + 2; j++) {
        dim *extent = j < e->batch ? e->a->dims[j] : rest_from(e, first);
        at[j] = stage_own_axis(k, s, AXIS_PARALLEL, "i", extent);
        if (j >= e->batch) at[j] = x_add(k, at[j], x_dim(k, first));
    }
    expr *p = read_pivot(e, k, at), *i = at[e->batch], *j = at[e->batch + 1];
    expr *from = x_select(k, x_bin(k, X_EQ, i, p), column, i);
    expr *pivot = read_column(e, k, at, p), *zero = x_zero(k, pivot->dtype);
    expr *factor = x_div(k, read_column(e, k, at, from), pivot);
    factor = x_select(k, x_bin(k, X_EQ, pivot, zero), zero, factor);
    expr *v = read_a(e, k, at, from, j);
    stage_write(k, s, e->next, at, x_sub(k, v, x_mul(k, factor, read_a(e, k, at, p, j))));
}

static void det_lower(lowering *l, node *n) {
    buffer *x = lower_in(l, n, 0), *out = lower_out(l, n, 0);
    dtype t = dtype_compute(x->dtype);
    elimination e = {.l = l, .n = n, .batch = x->rank - 2, .size = x->dims[x->rank - 1]};
    buffer *pair[] = {lower_temp(l, n, "a", t, x->rank, x->dims),
                      lower_temp(l, n, "next", t, x->rank, x->dims)};
    e.pivot = lower_temp(l, n, "pivot", DT_I64, out->rank, out->dims);
    e.det = lower_temp(l, n, "det", t, out->rank, out->dims);
    lower_convert(l, n, "copy", x, pair[0]);
    kernel *k;
    expr *at[MAX_RANK];
    stage *s = suffixed_stage(l, n, "start", e.det, &k, at);
    stage_write(k, s, e.det, at, x_float(k, t, 1));
    dim *two = dim_const(l->program->dims, 2), *turn = dim_opaque(l->program->dims, "columns", 0, INT32_MAX);
    region *outside = open_loop(l, n, turn, dim_ceildiv(e.size, two), NULL);
    for (e.half = 0; e.half < 2; e.half++) {
        e.column = dim_addk(dim_mulk(turn, 2), e.half);
        e.a = pair[e.half], e.next = pair[!e.half];
        find_pivot(&e);
        multiply(&e);
        eliminate(&e);
    }
    close_loop(l, outside);
    lower_convert(l, n, "finish", e.det, out);
}

OPERATOR(Det, .infer = det_infer, .lower = det_lower);
