// NegativeLogLikelihoodLoss, and SoftmaxCrossEntropyLoss, which applies it to a LogSoftmax.
//
//   loss[n, d...] = -x[n, target[n, d...], d...] * weight[target[n, d...]]        0 for ignored targets
//
// or the sum of these, or the sum divided by the sum of the weights.
#include "ir/ops/runtime_args.h"

typedef enum reduction { REDUCE_MEAN, REDUCE_SUM, REDUCE_NONE } reduction;

static reduction reduction_of(const node *n) {
    return (reduction)node_choice(n, "reduction", "mean sum none");
}

static void infer_loss(node *n) {
    int rank = infer_rank(n, 0);
    const type *x = infer_in(n, 0), *target = infer_in(n, 1);
    reduction r = reduction_of(n);
    if (rank < 2) infer_error(n, "the input has rank %d; it must have a batch and a class axis", rank);
    if (infer_rank(n, 1) != rank - 1)
        infer_error(n, "the target has rank %d; the input's %d requires %d", target->rank, rank, rank - 1);
    for (int j = 0; j < rank - 1; j++)
        infer_same_dim(n, x->dims[j ? j + 1 : 0], target->dims[j], "sizes of input and target");
    infer_shape(n, 2, "the weight", 1, &x->dims[1], "weights and classes");
    if (r == REDUCE_NONE) infer_set(n, 0, x->elem, rank - 1, target->dims);
    else infer_set(n, 0, x->elem, 0, NULL);
    infer_set(n, 1, x->elem, rank, x->dims);
}

// The loss of target element at[..], and its weight.
static expr *loss_term(lowering *l, const node *n, kernel *k, expr *const *at, expr **weight) {
    buffer *x = lower_in(l, n, 0), *target = lower_in(l, n, 1), *weights = lower_in(l, n, 2);
    dtype t = dtype_compute(x->dtype);
    expr *label = x_cast(k, x_read(k, target, at), DT_I64, false), *from[MAX_RANK], *ignored = NULL;
    if (node_attr(n, "ignore_index"))
        ignored = x_bin(k, X_EQ, label, x_i64(k, node_int(n, "ignore_index", 0)));
    if (ignored) label = x_select(k, ignored, x_i64(k, 0), label);
    from[0] = at[0];
    for (int j = 1; j < target->rank; j++) from[j + 1] = at[j];
    from[1] = x_checked_index(k, label, x->dims[1], false, "a target is not a valid class");
    expr *v = x_un(k, X_NEG, x_read(k, x, from));
    *weight = weights ? x_cast(k, x_read(k, weights, &from[1]), t, false) : x_float(k, t, 1);
    if (weights) v = x_mul(k, v, *weight);
    if (!ignored) return v;
    *weight = x_select(k, ignored, x_zero(k, t), *weight);
    return x_select(k, ignored, x_zero(k, t), v);
}

static void lower_nll(lowering *l, node *n) {
    buffer *target = lower_in(l, n, 1), *out = lower_out(l, n, 0);
    reduction r = reduction_of(n);
    kernel *k;
    expr *at[MAX_RANK], *weight;
    if (r == REDUCE_NONE) {
        stage *s = pointwise_stage(l, n, out, &k, at);
        stage_write(k, s, out, at, loss_term(l, n, k, at, &weight));
        return;
    }
    k = lower_kernel(l, n, NULL);
    stage *s = kernel_stage(k);
    for (int j = 0; j < target->rank; j++) at[j] = stage_own_axis(k, s, AXIS_REDUCE, "r", target->dims[j]);

    expr *sum = stage_reduce(k, s, RED_SUM, loss_term(l, n, k, at, &weight));
    if (r == REDUCE_MEAN) sum = x_div(k, sum, stage_reduce(k, s, RED_SUM, weight));
    stage_write(k, s, out, NULL, sum);
}

static void expand_cross_entropy(node *n) {
    value *logarithms = with_int(NODE(n, "LogSoftmax", n->in[0]), "axis", 1);
    value *v = NODE(n, "NegativeLogLikelihoodLoss", logarithms, n->in[1], node_in(n, 2));
    for (int i = 0; i < n->nattrs; i++) node_set_attr(v->def, n->attrs[i]);
    infer_node(logarithms->def);
    infer_node(v->def);
    if (node_out(n, 1)) replace_output(n, 1, logarithms);
    if (node_out(n, 0)) replace_output(n, 0, v);
}

OPERATOR(NegativeLogLikelihoodLoss, .infer = infer_loss, .lower = lower_nll);
OPERATOR(SoftmaxCrossEntropyLoss, .infer = infer_loss, .expand = expand_cross_entropy);
