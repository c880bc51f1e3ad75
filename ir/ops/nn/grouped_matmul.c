// GroupedMatMul, an operator of onnxc: consecutive groups of rows of x, each multiplied by its own matrix. ends[g]: the
// row after group g.
//
//   for g: for row in ends[g - 1] .. ends[g] - 1: y[row, j] = sum over k of x[row, k] * w[g, j, k]
//
// A loop of the host code over the groups; each product has the rows of one group.
#include "ir/ops/control/control.h"
#include "ir/ops/runtime_args.h"

enum { IN_X, IN_WEIGHTS, IN_ENDS };

static void grouped_matmul_infer(node *n) {
    const type *x = infer_in(n, IN_X), *w = infer_in(n, IN_WEIGHTS);
    if (infer_rank(n, IN_X) != 2 || infer_rank(n, IN_WEIGHTS) != 3)
        infer_error(n, "the rows and the weights have ranks %d and %d, not 2 and 3", infer_rank(n, IN_X),
                    infer_rank(n, IN_WEIGHTS));
    infer_same_dim(n, w->dims[2], x->dims[1], "columns of the rows and of the weights");
    infer_shape(n, IN_ENDS, "ends", 1, w->dims, "groups");
    infer_set(n, 0, x->elem, 2, (dim *[]){x->dims[0], w->dims[1]});
}

// bounds = the first row of the group, and its number of rows
static void set_bounds(lowering *l, const node *n, buffer *bounds, dim *group) {
    buffer *ends = lower_in(l, n, IN_ENDS);
    kernel *k = lower_kernel(l, n, "bounds");
    stage *s = kernel_stage(k);
    expr *zero = x_i64(k, 0), *at = x_dim(k, group), *before = x_sub(k, at, x_i64(k, 1));
    expr *first = x_read_guarded(k, ends, &before, x_bin(k, X_LE, zero, before), NULL);
    stage_write(k, s, bounds, &zero, first);
    k = lower_kernel(l, n, "rows");
    s = kernel_stage(k);
    expr *row[] = {x_i64(k, 0), x_i64(k, 1)};
    expr *end = x_read(k, ends, (expr *[]){x_dim(k, group)});
    stage_write(k, s, bounds, &row[1], x_sub(k, end, x_read(k, bounds, &row[0])));
}

static void multiply(lowering *l, const node *n, dim *group, dim *first, dim *rows) {
    buffer *x = lower_in(l, n, IN_X), *w = lower_in(l, n, IN_WEIGHTS), *y = lower_out(l, n, 0);
    kernel *k = lower_kernel(l, n, NULL);
    stage *s = kernel_stage(k);
    expr *row = stage_own_axis(k, s, AXIS_PARALLEL, "m", rows);
    expr *column = stage_own_axis(k, s, AXIS_PARALLEL, "n", w->dims[1]);
    expr *i = stage_own_axis(k, s, AXIS_REDUCE, "k", w->dims[2]);
    row = x_add(k, row, x_dim(k, first));
    expr *a = x_read(k, x, (expr *[]){row, i}), *b = x_read(k, w, (expr *[]){x_dim(k, group), column, i});
    expr *sum = stage_reduce(k, s, RED_SUM, x_mul(k, a, b));
    stage_write(k, s, y, (expr *[]){row, column}, sum);
}

static void grouped_matmul_lower(lowering *l, node *n) {
    dims *t = l->program->dims;
    dim *groups = infer_in(n, IN_WEIGHTS)->dims[0], *all = infer_in(n, IN_X)->dims[0];
    dim *group = dim_opaque(t, "group", 0, INT64_MAX), *first = dim_opaque(t, "first", 0, all->max),
        *rows = dim_opaque(t, "rows", 0, all->max);
    lower_out(l, n, 0);
    buffer *bounds = lower_temp(l, n, "bounds", DT_I64, 1, (dim *[]){infer_k(n, 2)});
    region *outside = open_loop(l, n, group, groups, NULL);
    set_bounds(l, n, bounds, group);
    lower_set_dim(l, n, first, bounds, 0);
    lower_set_dim(l, n, rows, bounds, 1);
    multiply(l, n, group, first, rows);
    close_loop(l, outside);
}

OPERATOR_OF("onnxc", GroupedMatMul, .infer = grouped_matmul_infer, .lower = grouped_matmul_lower);
