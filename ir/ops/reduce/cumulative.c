// CumSum and CumProd: one kernel that scans the axis in order (or in reverse) for every position on the other
// dims. The axis may be known only at run time.
#include "ir/ops/rows.h"

static void infer_cumulative(node *n) {
    int count;
    infer_rank(n, 0);
    infer_same(n, 0, 0);
    dim **axis = infer_contents_or_opaque(n, 1, &count);
    if (!axis || count != 1) infer_error(n, "the axis must be a single integer");
    if (dim_is_const(axis[0])) infer_axis(n, dim_value(axis[0]), infer_rank(n, 0));
    node_flag(n, "exclusive", false);
    node_flag(n, "reverse", false);
}

// for kept: sum = neutral; for r along the axis, in order: [exclusive: y = sum] sum = op(sum, x) [y = sum]
static void lower_cumulative(lowering *l, node *n, reduce_op neutral, expr_op op) {
    int count;
    lower_arguments(l, n);
    buffer *x = lower_in(l, n, 0), *out = lower_out(l, n, 0);
    dim *mask[MAX_RANK], **axis = infer_contents(n, 1, &count);
    rows_mask_axes(l->program->dims, x->rank, axis, count, mask);
    rows_check_axes(l, n, x->rank, axis, count);
    rows r = rows_new(lower_kernel(l, n, NULL), x->rank, x->dims, mask);
    kernel *k = r.k;
    expr *index[MAX_RANK];
    stage *s = rows_stage(&r, AXIS_SCAN, index);
    for (int i = 0; i < x->rank && node_int(n, "reverse", 0); i++) {
        if (!r.walk[i]) continue;
        expr *last = x_dim(k, dim_addk(r.walk[i], -1)), *step = x_sub(k, index[i], r.kept[i]);
        index[i] = x_add(k, r.kept[i], x_sub(k, last, step));
    }
    dtype t = dtype_compute(x->dtype);
    expr *sum = stage_state(k, s, t, reduce_neutral(k, neutral, t));
    stage_step(s, 0, x_bin(k, op, sum, x_read(k, x, index)), NULL);
    stage_write(k, s, out, index, sum)->when = node_int(n, "exclusive", 0) ? WRITE_BEFORE : WRITE_AFTER;
}

static bool cumulative_sequence(const node *n, op_sequence *s, double neutral) {
    int count;
    dim **axis = infer_contents(n, 1, &count);
    *s = (op_sequence){0};
    if (!axis || !dim_is_const(axis[0])) return false;
    int64_t at = dim_value(axis[0]);
    int along = (int)(at < 0 ? at + n->in[0]->type.rank : at);
    *s = (op_sequence){.nin = 1,
                       .in_axis = {along},
                       .nout = 1,
                       .out_axis = {along},
                       .is_running = true,
                       .neutral = neutral,
                       .exclusive = node_int(n, "exclusive", 0)};
    return !node_int(n, "reverse", 0);
}

static bool cumsum_sequence(const node *n, op_sequence *s) { return cumulative_sequence(n, s, 0); }
static bool cumprod_sequence(const node *n, op_sequence *s) { return cumulative_sequence(n, s, 1); }

static void lower_cumsum(lowering *l, node *n) { lower_cumulative(l, n, RED_SUM, X_ADD); }
static void lower_cumprod(lowering *l, node *n) { lower_cumulative(l, n, RED_PROD, X_MUL); }
OPERATOR(CumSum, .infer = infer_cumulative, .sequence = cumsum_sequence, .lower = lower_cumsum);
OPERATOR(CumProd, .infer = infer_cumulative, .sequence = cumprod_sequence, .lower = lower_cumprod);
