// Softmax, LogSoftmax, Hardmax, LpNormalization: rows along one axis, in one kernel of several stages.
#include "ir/ops/rows.h"
#include "ir/ops/upgrade.h"

static void infer_along_axis(node *n) {
    infer_same(n, 0, 0);
    node_axis(n, -1, infer_rank(n, 0));
}

typedef struct along {
    rows rows;
    kernel *k;
    buffer *x, *out;
    int axis;
} along;

static along along_new(lowering *l, node *n) {
    along a = {.x = lower_in(l, n, 0), .out = lower_out(l, n, 0)};
    dim *mask[MAX_RANK];
    a.axis = node_axis(n, -1, a.x->rank);
    rows_mask(l->program->dims, a.x->rank, a.axis, a.axis + 1, mask);
    a.k = lower_kernel(l, n, NULL);
    a.rows = rows_new(a.k, a.x->rank, a.x->dims, mask);
    return a;
}

// The reduction of term(x) to a scalar per row.
static expr *row_reduce(along *a, const char *name, reduce_op op,
                        expr *(*term)(kernel *k, expr *x, void *user), void *user) {
    expr *index[MAX_RANK];
    stage *s = rows_stage(&a->rows, AXIS_REDUCE, index);
    return rows_scalar(&a->rows, s, name,
                       stage_reduce(a->k, s, op, term(a->k, x_read(a->k, a->x, index), user)));
}

static expr *term_itself(kernel *k, expr *x, void *user) {
    (void)k, (void)user;
    return x;
}
static expr *term_exp(kernel *k, expr *x, void *max) { return x_un(k, X_EXP, x_sub(k, x, max)); }

// m = max x; s = sum exp(x - m); out = exp(x - m) / s, or x - m - log(s)
static void lower_softmax(lowering *l, node *n, bool log) {
    along a = along_new(l, n);
    kernel *k = a.k;
    expr *index[MAX_RANK];
    expr *max = row_reduce(&a, "max", RED_NUMBER_MAX, term_itself, NULL);
    stage *s = rows_stage(&a.rows, AXIS_REDUCE, index);
    expr *sum = stage_reduce(k, s, RED_SUM, term_exp(k, x_read(k, a.x, index), max));
    // The sum is at least 1, so multiplying by its reciprocal is as accurate as a division.
    expr *scale = log ? x_un(k, X_LOG, sum) : x_div(k, x_float(k, sum->dtype, 1), sum);
    scale = rows_scalar(&a.rows, s, log ? "log" : "scale", scale);
    s = rows_stage(&a.rows, AXIS_PARALLEL, index);
    expr *shifted = x_sub(k, x_read(k, a.x, index), max);
    stage_write(k, s, a.out, index,
                log ? x_sub(k, shifted, scale) : x_mul(k, x_un(k, X_EXP, shifted), scale));
}

// m = max x; best = first position of m; out = whether the position is best
static void lower_hardmax(lowering *l, node *n) {
    along a = along_new(l, n);
    kernel *k = a.k;
    expr *index[MAX_RANK], *max = row_reduce(&a, "max", RED_MAX, term_itself, NULL);
    stage *s = rows_stage(&a.rows, AXIS_REDUCE, index);
    expr *x = x_read(k, a.x, index);
    expr *found = x_bin(k, X_OR, x_bin(k, X_EQ, x, max), x_un(k, X_ISNAN, x)); // then m is NaN
    dtype position = a.x->dims[a.axis]->max <= INT32_MAX ? DT_I32 : DT_I64;
    expr *at = x_cast(k, index[a.axis], position, true);
    expr *first = stage_reduce(k, s, RED_MIN, x_select(k, found, at, reduce_neutral(k, RED_MIN, position)));
    expr *best = x_cast(k, rows_scalar(&a.rows, s, "best", first), DT_I64, true);
    s = rows_stage(&a.rows, AXIS_PARALLEL, index);
    dtype t = dtype_compute(a.out->dtype);
    expr *hit = x_bin(k, X_EQ, index[a.axis], best);
    stage_write(k, s, a.out, index, x_select(k, hit, x_number(k, t, 1), x_zero(k, t)));
}

static expr *term_abs(kernel *k, expr *x, void *user) {
    (void)user;
    return x_un(k, X_ABS, x);
}
static expr *term_square(kernel *k, expr *x, void *user) {
    (void)user;
    return x_mul(k, x, x);
}

// norm = sum |x|, or sqrt(sum x * x); out = norm is 0 ? 0 : x / norm
static void lower_lp_normalization(lowering *l, node *n) {
    along a = along_new(l, n);
    kernel *k = a.k;
    expr *index[MAX_RANK];
    bool one = node_int(n, "p", 2) == 1;
    expr *norm = row_reduce(&a, "norm", RED_SUM, one ? term_abs : term_square, NULL);
    stage *s = rows_stage(&a.rows, AXIS_PARALLEL, index);
    if (!one) norm = x_un(k, X_SQRT, norm);
    expr *zero = x_zero(k, norm->dtype), *x = x_read(k, a.x, index);
    stage_write(k, s, a.out, index, x_select(k, x_bin(k, X_EQ, norm, zero), zero, x_div(k, x, norm)));
}

static void infer_lp_normalization(node *n) {
    int64_t p = node_int(n, "p", 2);
    if (p != 1 && p != 2) infer_error(n, "attribute p must be 1 or 2, not %lld", (long long)p);
    infer_along_axis(n);
}

// Before version 13 a row spans all dims from the axis on.
static void upgrade_flattened(node *n) {
    value *shape = upgrade_shape(n, n->in[0]);
    node_set_in(n, 0, with_int(NODE(n, "Flatten", n->in[0]), "axis", node_int(n, "axis", 1)));
    upgrade_set_int(n, "axis", 1);
    upgrade_reshape_output(n, 0, shape);
}

// Older versions flatten the axes from `axis` on: the same for the last one.
static bool undo_flattened(node *as) {
    int64_t axis = node_int(as, "axis", -1);
    if (!downgrade_has_rank(as, 0)) return axis == -1;
    int rank = as->in[0]->type.rank;
    if (axis != -1 && axis != rank - 1) return false;
    upgrade_set_int(as, "axis", rank ? rank - 1 : 0);
    return rank > 0;
}

static void lower_plain_softmax(lowering *l, node *n) { lower_softmax(l, n, false); }
static void lower_log_softmax(lowering *l, node *n) { lower_softmax(l, n, true); }

#define ALONG_AXIS(op, lower_fn)                                                                             \
    OPERATOR(op, .upgrades = {{13, upgrade_flattened, undo_flattened}}, .infer = infer_along_axis,           \
             .lower = lower_fn)
ALONG_AXIS(Softmax, lower_plain_softmax);
ALONG_AXIS(LogSoftmax, lower_log_softmax);
ALONG_AXIS(Hardmax, lower_hardmax);
OPERATOR(LpNormalization, .infer = infer_lp_normalization, .lower = lower_lp_normalization);
