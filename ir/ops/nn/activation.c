// Activation functions: one pointwise kernel each. If the standard gives a function body, the formula here is
// equivalent, in a form that neither overflows nor cancels.
#include "ir/ops/pointwise.h"
#include "ir/ops/runtime_args.h"
#include <math.h>

static expr *number(kernel *k, expr *x, double v) { return x_number(k, x->dtype, v); }

// x < 0 ? negative : x
static expr *if_negative(kernel *k, expr *x, expr *negative) {
    return x_select(k, x_lt(k, x, x_zero(k, x->dtype)), negative, x);
}

// max(0, min(1, alpha * x + beta))
static expr *hard_sigmoid(kernel *k, expr *x, double alpha, double beta) {
    expr *line = x_add(k, x_mul(k, x, number(k, x, alpha)), number(k, x, beta));
    return x_bin(k, X_MAX, x_bin(k, X_MIN, line, number(k, x, 1)), number(k, x, 0));
}

// log(1 + exp(x)) = max(x, 0) + log(1 + exp(-|x|))
static expr *softplus(kernel *k, expr *x) {
    expr *small = x_un(k, X_EXP, x_un(k, X_NEG, x_un(k, X_ABS, x)));
    return x_add(k, x_bin(k, X_MAX, x, x_zero(k, x->dtype)), x_un(k, X_LOG1P, small));
}

static expr *elu(kernel *k, const node *n, expr *x) {
    return if_negative(k, x, x_mul(k, x_attr(k, n, "alpha", 1, x->dtype), x_un(k, X_EXPM1, x)));
}

static expr *celu(kernel *k, const node *n, expr *x) {
    expr *alpha = x_attr(k, n, "alpha", 1, x->dtype), *scaled = x_div(k, x, alpha);
    expr *below = x_mul(k, alpha, x_un(k, X_EXPM1, scaled));
    return x_select(k, x_lt(k, x, x_zero(k, x->dtype)), below, x);
}

static expr *selu(kernel *k, const node *n, expr *x) {
    double alpha = node_float(n, "alpha", 1.67326319217681884765625);
    double gamma = node_float(n, "gamma", 1.05070102214813232421875);
    expr *below = x_mul(k, number(k, x, gamma * alpha), x_un(k, X_EXPM1, x));
    return x_select(k, x_lt(k, x, x_zero(k, x->dtype)), below, x_mul(k, number(k, x, gamma), x));
}

static expr *leaky_relu(kernel *k, const node *n, expr *x) {
    return if_negative(k, x, x_mul(k, x_attr(k, n, "alpha", 0.01f, x->dtype), x));
}

static expr *thresholded_relu(kernel *k, const node *n, expr *x) {
    return x_select(k, x_lt(k, x_attr(k, n, "alpha", 1, x->dtype), x), x, x_zero(k, x->dtype));
}

static expr *gelu(kernel *k, const node *n, expr *x) {
    const double sqrt_half = 0.70710678118654752440, sqrt_2_over_pi = 0.79788456080286535588;
    expr *inner;
    if (node_choice(n, "approximate", "none tanh") == 1) {
        expr *cube = x_mul(k, x_mul(k, x, x), x);
        expr *sum = x_add(k, x, x_mul(k, number(k, x, 0.044715), cube));
        inner = x_un(k, X_TANH, x_mul(k, number(k, x, sqrt_2_over_pi), sum));
    } else {
        inner = x_un(k, X_ERF, x_mul(k, x, number(k, x, sqrt_half)));
    }
    return x_mul(k, x_mul(k, number(k, x, 0.5), x), x_add(k, number(k, x, 1), inner));
}

static expr *swish(kernel *k, const node *n, expr *x) {
    return x_mul(k, x, x_un(k, X_SIGMOID, x_mul(k, x_attr(k, n, "alpha", 1, x->dtype), x)));
}

// Integer results are truncated, as in the reference evaluators; the standard's function would truncate the
// attributes.
static expr *shrink(kernel *k, const node *n, expr *x) {
    dtype t = x->dtype;
    double lambd = node_float(n, "lambd", 0.5), bias = node_float(n, "bias", 0);
    if (dtype_is_int(t)) return x_cast(k, shrink(k, n, x_cast(k, x, DT_F64, false)), t, false);
    expr *b = x_number(k, t, bias), *limit = x_number(k, t, lambd);
    expr *above = x_select(k, x_lt(k, limit, x), x_sub(k, x, b), x_zero(k, t));
    return x_select(k, x_lt(k, x, x_number(k, t, -lambd)), x_add(k, x, b), above);
}

static void upgrade_selu(node *n) {
    upgrade_drop_consumed_inputs(n);
    if (!node_attr(n, "alpha")) node_set_attr(n, (attr){.name = "alpha", .kind = ATTR_FLOAT, .f = 1.6732f});
    if (!node_attr(n, "gamma")) node_set_attr(n, (attr){.name = "gamma", .kind = ATTR_FLOAT, .f = 1.0507f});
}

#define ACTIVATION(op, value) POINTWISE(op, infer_like_first, NULL, value, UPGRADE_FROM_1)
POINTWISE(Relu, infer_like_first, dim_max(a[0], infer_k(n, 0)), x_bin(k, X_MAX, x[0], x_zero(k, x[0]->dtype)),
          UPGRADE_FROM_1);
ACTIVATION(LeakyRelu, leaky_relu(k, n, x[0]));
ACTIVATION(ThresholdedRelu, thresholded_relu(k, n, x[0]));
ACTIVATION(Elu, elu(k, n, x[0]));
ACTIVATION(Celu, celu(k, n, x[0]));
POINTWISE(Selu, infer_like_first, NULL, selu(k, n, x[0]), .upgrades = {{6, upgrade_selu}});
ACTIVATION(HardSigmoid, hard_sigmoid(k, x[0], node_float(n, "alpha", 0.2f), node_float(n, "beta", 0.5)));
ACTIVATION(HardSwish, x_mul(k, x[0], hard_sigmoid(k, x[0], 1.0 / 6, 0.5)));
ACTIVATION(Softplus, softplus(k, x[0]));
ACTIVATION(Softsign, x_div(k, x[0], x_add(k, number(k, x[0], 1), x_un(k, X_ABS, x[0]))));
ACTIVATION(Mish, x_mul(k, x[0], x_un(k, X_TANH, softplus(k, x[0]))));
ACTIVATION(Swish, swish(k, n, x[0]));
ACTIVATION(Gelu, gelu(k, n, x[0]));
ACTIVATION(Shrink, shrink(k, n, x[0]));

// ---------------------------------------------------------------- PRelu
static void infer_prelu(node *n) {
    const type *x = infer_in(n, 0);
    if (infer_in(n, 1)->elem != x->elem) infer_error(n, "slope and X have different element types");
    if (infer_has_rank(n, 0) && infer_has_rank(n, 1)) infer_broadcast_into(n, 1, x->rank, x->dims, "slope");
    infer_same(n, 0, 0);
}

// Before version 7 the slope had one element, or one per channel (dim 1 of X).
static void upgrade_prelu(node *n) {
    upgrade_drop_consumed_inputs(n);
    upgrade_align_input(n, 1, 1);
}
POINTWISE(PRelu, infer_prelu, NULL, if_negative(k, x[0], x_mul(k, x[1], x[0])),
          .upgrades = {{7, upgrade_prelu}});

// ---------------------------------------------------------------- Clip
static expr *clip(kernel *k, const node *n, expr *const *x) {
    expr *v = x[0];
    if (n->nin > 1 && x[1]) v = x_bin(k, X_MAX, v, x[1]);
    if (n->nin > 2 && x[2]) v = x_bin(k, X_MIN, v, x[2]);
    return v;
}

static dim *fold_clip(const node *n, dim *const *a) {
    dim *v = a[0];
    if (n->nin > 1 && a[1]) v = dim_max(v, a[1]);
    if (n->nin > 2 && a[2]) v = dim_min(v, a[2]);
    return v;
}

static void infer_clip(node *n) {
    infer_one_element(n, 1, "minima");
    infer_one_element(n, 2, "maxima");
    for (int i = 1; i < n->nin; i++)
        if (n->in[i] && infer_in(n, i)->elem != infer_in(n, 0)->elem)
            infer_error(n, "%s and the input have different element types", i == 1 ? "min" : "max");
    infer_same(n, 0, 0);
}

// Before version 11 the bounds were attributes.
static void upgrade_clip(node *n) {
    upgrade_drop_consumed_inputs(n);
    const char *bound[] = {"min", "max"};
    for (int i = 0; i < 2; i++) {
        if (!node_attr(n, bound[i])) continue;
        upgrade_set_input(n, i + 1, upgrade_scalar_like(n, node_float(n, bound[i], 0), n->in[0]));
        node_remove_attr(n, bound[i]);
    }
}

static bool undo_clip(node *as) {
    return downgrade_input_to_float(as, 2, "max") && downgrade_input_to_float(as, 1, "min");
}
POINTWISE(Clip, infer_clip, fold_clip(n, a), clip(k, n, x), .upgrades = {{11, upgrade_clip, undo_clip}});
