// Operators that are differentiated through their function bodies, or through equal definitions by operators
// with rules. In: a node whose type is known, out: its replacement.
#include "ir/ops/training/gradient.h"
#include <math.h>
#include <string.h>

static value *number(node *n, double x) { return number_like(n, x, 0); }
static value *add(node *n, value *a, value *b) { return NODE(n, "Add", a, b); }
static value *sub(node *n, value *a, value *b) { return NODE(n, "Sub", a, b); }
static value *mul(node *n, value *a, value *b) { return NODE(n, "Mul", a, b); }
static value *quotient(node *n, value *a, value *b) { return NODE(n, "Div", a, b); }

// ---- Activations

static void hard_swish(node *n) {
    value *gate = with_float(NODE(n, "HardSigmoid", n->in[0]), "alpha", 1.0 / 6);
    give_output(n, 0, mul(n, n->in[0], with_float(gate, "beta", 0.5)));
}

static void swish(node *n) {
    value *scaled = mul(n, n->in[0], number(n, node_float(n, "alpha", 1)));
    give_output(n, 0, mul(n, n->in[0], NODE(n, "Sigmoid", scaled)));
}

static void mish(node *n) {
    give_output(n, 0, mul(n, n->in[0], NODE(n, "Tanh", NODE(n, "Softplus", n->in[0]))));
}

// x * (1 + erf(x / sqrt 2)) / 2, or x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) / 2
static void gelu(node *n) {
    value *x = n->in[0], *s;
    if (strcmp(node_string(n, "approximate", "none"), "tanh") == 0) {
        value *cube = mul(n, number(n, 0.044715), mul(n, x, mul(n, x, x)));
        s = NODE(n, "Tanh", mul(n, number(n, sqrt(2 / acos(-1))), add(n, x, cube)));
    } else {
        s = NODE(n, "Erf", mul(n, number(n, sqrt(0.5)), x));
    }
    give_output(n, 0, mul(n, mul(n, number(n, 0.5), x), add(n, number(n, 1), s)));
}

// ---- Normalisation

static value *reduced_along(node *n, const char *op, value *v, int count, const int64_t *axes) {
    return with_int(NODE(n, op, v, insert_ints(n, axes, count)), "keepdims", 1);
}

// (x - mean) / sqrt(variance + epsilon), over these axes
static value *normalised(node *n, value *x, double epsilon, int count, const int64_t *axes) {
    value *centred = sub(n, x, reduced_along(n, "ReduceMean", x, count, axes));
    value *variance = reduced_along(n, "ReduceMean", mul(n, centred, centred), count, axes);
    return quotient(n, centred, NODE(n, "Sqrt", add(n, variance, number(n, epsilon))));
}

// A vector with an element for each channel, as [C, 1, ...].
static value *by_channel(node *n, value *v, int rank) {
    int64_t sizes[MAX_RANK];
    for (int i = 0; i < rank - 1; i++) sizes[i] = i ? 1 : -1;
    return reshaped(n, v, rank - 1, sizes);
}

static int last_axes(int64_t *axes, int from, int rank) {
    for (int i = from; i < rank; i++) axes[i - from] = i;
    return rank - from;
}

static void check_not_rounded(node *n) {
    if (dtype_bits(infer_in(n, 0)->elem) < 32)
        diag_fatal_missing(n->graph->module->diag, n->loc, "Gradient cannot differentiate %s of %s",
                           n->op->name, dtype_name(infer_in(n, 0)->elem));
}

static void layer_normalization(node *n) {
    int64_t axes[MAX_RANK];
    int rank = infer_in(n, 0)->rank;
    check_not_rounded(n);
    int count = last_axes(axes, node_axis(n, -1, rank), rank);
    value *v = mul(n, normalised(n, n->in[0], node_float(n, "epsilon", 1e-5), count, axes), n->in[1]);
    give_output(n, 0, node_in(n, 2) ? add(n, v, n->in[2]) : v);
}

static void rms_normalization(node *n) {
    int64_t axes[MAX_RANK];
    value *x = n->in[0];
    check_not_rounded(n);
    int rank = infer_in(n, 0)->rank, count = last_axes(axes, node_axis(n, -1, rank), rank);
    value *square = add(n, reduced_along(n, "ReduceMean", mul(n, x, x), count, axes),
                        number(n, node_float(n, "epsilon", 1e-5)));
    give_output(n, 0, mul(n, quotient(n, x, NODE(n, "Sqrt", square)), n->in[1]));
}

static void instance_normalization(node *n) {
    int64_t axes[MAX_RANK];
    int rank = infer_in(n, 0)->rank, count = last_axes(axes, 2, rank);
    value *v = normalised(n, n->in[0], node_float(n, "epsilon", 1e-5), count, axes);
    v = mul(n, v, by_channel(n, n->in[1], rank));
    give_output(n, 0, add(n, v, by_channel(n, n->in[2], rank)));
}

static void group_normalization(node *n) {
    int64_t sizes[3] = {0, node_int(n, "num_groups", 1), -1}, axes[1] = {2};
    value *x = n->in[0];
    int rank = infer_in(n, 0)->rank;
    check_not_rounded(n);
    value *v = normalised(n, reshaped(n, x, 3, sizes), node_float(n, "epsilon", 1e-5), 1, axes);
    v = NODE(n, "Reshape", v, NODE(n, "Shape", x));
    v = mul(n, v, by_channel(n, n->in[1], rank));
    give_output(n, 0, add(n, v, by_channel(n, n->in[2], rank)));
}

static void mean_variance_normalization(node *n) {
    int64_t usual[] = {0, 2, 3};
    int count;
    const int64_t *axes = node_ints(n, "axes", &count);
    give_output(n, 0, normalised(n, n->in[0], 1e-9, axes ? count : 3, axes ? axes : usual));
}

static void lp_normalization(node *n) {
    int64_t axis = node_int(n, "axis", -1);
    const char *norm = node_int(n, "p", 2) == 1 ? "ReduceL1" : "ReduceL2";
    give_output(n, 0, quotient(n, n->in[0], reduced_along(n, norm, n->in[0], 1, &axis)));
}

// The average of an old and a new statistic.
static value *running(node *n, value *old, value *new) {
    double momentum = node_float(n, "momentum", 0.9f);
    value *flat = reshaped(n, new, 1, (int64_t[]){-1});
    return add(n, mul(n, old, number(n, momentum)), mul(n, flat, number(n, 1 - momentum)));
}

static void batch_normalization(node *n) {
    int64_t axes[MAX_RANK] = {0};
    value *x = n->in[0];
    int rank = infer_in(n, 0)->rank;
    value *mean = by_channel(n, n->in[3], rank), *variance = by_channel(n, n->in[4], rank);
    if (node_int(n, "training_mode", 0)) {
        last_axes(axes + 1, 2, rank);
        mean = reduced_along(n, "ReduceMean", x, rank - 1, axes);
        value *centred = sub(n, x, mean);
        variance = reduced_along(n, "ReduceMean", mul(n, centred, centred), rank - 1, axes);
        if (node_out(n, 1)) give_output(n, 1, running(n, n->in[3], mean));
        if (node_out(n, 2)) give_output(n, 2, running(n, n->in[4], variance));
    }
    value *deviation = NODE(n, "Sqrt", add(n, variance, number(n, node_float(n, "epsilon", 1e-5))));
    value *v = mul(n, quotient(n, sub(n, x, mean), deviation), by_channel(n, n->in[1], rank));
    give_output(n, 0, add(n, v, by_channel(n, n->in[2], rank)));
}

// ---- Losses

// -sum over classes c: x[n, c, d...] * weight[c] * (c == target[n, d...]), or its sum or mean
static void negative_log_likelihood(node *n) {
    int64_t class_axis[1] = {1}, sizes[MAX_RANK];
    value *x = n->in[0], *target = n->in[1], *weight = node_in(n, 2);
    int rank = infer_in(n, 0)->rank, kind = node_choice(n, "reduction", "mean sum none");
    dtype label = infer_in(n, 1)->elem;
    for (int i = 0; i < rank - 1; i++) sizes[i] = i ? 1 : -1;
    value *classes = shape_part(n, x, 1, 2);
    value *count = NODE(n, "Squeeze", classes);
    value *all = NODE(n, "Range", insert_scalar(n, DT_I64, 0), count, insert_scalar(n, DT_I64, 1));
    value *chosen = reshaped(n, with_int(NODE(n, "Cast", all), "to", label), rank - 1, sizes);
    value *hit = NODE(n, "Equal", NODE(n, "Unsqueeze", target, insert_ints(n, class_axis, 1)), chosen);
    if (node_attr(n, "ignore_index")) {
        value *ignored = insert_scalar(n, label, (double)node_int(n, "ignore_index", 0));
        hit = NODE(n, "And", hit, NODE(n, "Not", NODE(n, "Equal", chosen, ignored)));
    }
    value *each = weight ? by_channel(n, weight, rank) : number(n, 1);
    value *weights = NODE(n, "Where", hit, each, number(n, 0));
    value *terms = NODE(n, "Where", hit, mul(n, NODE(n, "Neg", x), each), number(n, 0));
    if (kind == 2) {
        give_output(n, 0,
                    with_int(NODE(n, "ReduceSum", terms, insert_ints(n, class_axis, 1)), "keepdims", 0));
        return;
    }
    value *sum = with_int(NODE(n, "ReduceSum", terms), "keepdims", 0);
    value *total = with_int(NODE(n, "ReduceSum", weights), "keepdims", 0);
    give_output(n, 0, kind == 0 ? quotient(n, sum, total) : sum);
}

// ---- Pooling

static void global_pool(node *n, const char *op) {
    int64_t axes[MAX_RANK];
    int rank = infer_in(n, 0)->rank, count = last_axes(axes, 2, rank);
    give_output(n, 0, reduced_along(n, op, n->in[0], count, axes));
}

static void global_average_pool(node *n) { global_pool(n, "ReduceMean"); }
static void global_max_pool(node *n) { global_pool(n, "ReduceMax"); }

// The sum over each window: a convolution of single channels with ones.
static value *window_sum(node *n, value *x, int rank, const int64_t *taps) {
    int64_t sizes[MAX_RANK] = {1, 1};
    memcpy(sizes + 2, taps, (size_t)rank * sizeof *sizes);
    value *ones = NODE(n, "Expand", number(n, 1), insert_ints(n, sizes, rank + 2));
    value *v = NODE(n, "Conv", x, ones);
    for (const char *const *name = (const char *const[]){"strides", "dilations", "pads", "auto_pad", NULL};
         *name; name++)
        with_attr_of(v, n, *name);
    return v;
}

// [N * C, 1, ...]: the sums of windows over the number of their elements inside the image
static void average_pool(node *n) {
    int count;
    const int64_t *taps = node_ints(n, "kernel_shape", &count);
    value *x = n->in[0];
    if (node_int(n, "ceil_mode", 0))
        diag_fatal_missing(n->graph->module->diag, n->loc,
                           "Gradient cannot differentiate AveragePool with ceil_mode");
    value *spatial = shape_part(n, x, 2, count + 2), *leading = shape_part(n, x, 0, 2);
    value *planes =
        with_int(NODE(n, "ReduceProd", leading, insert_ints(n, (int64_t[]){0}, 1)), "keepdims", 1);
    value *one = insert_ints(n, (int64_t[]){1}, 1), *single = JOINED(n, one, spatial);
    value *sums = window_sum(n, NODE(n, "Reshape", x, JOINED(n, planes, single)), count, taps);
    double volume = 1;
    for (int i = 0; i < count; i++) volume *= (double)taps[i];
    value *within = NODE(n, "Expand", number(n, 1), JOINED(n, one, single));
    bool all = node_int(n, "count_include_pad", 0) != 0;
    value *mean = quotient(n, sums, all ? number(n, volume) : window_sum(n, within, count, taps));
    value *positions = shape_part(n, mean, 2, count + 2);
    give_output(n, 0, NODE(n, "Reshape", mean, JOINED(n, leading, positions)));
}

const gradient_rule gradient_bodies[] = {
    {.op = "HardSwish", .body = hard_swish},
    {.op = "Swish", .body = swish},
    {.op = "Mish", .body = mish},
    {.op = "Gelu", .body = gelu},
    {.op = "LayerNormalization", .body = layer_normalization},
    {.op = "RMSNormalization", .body = rms_normalization},
    {.op = "InstanceNormalization", .body = instance_normalization},
    {.op = "GroupNormalization", .body = group_normalization},
    {.op = "MeanVarianceNormalization", .body = mean_variance_normalization},
    {.op = "LpNormalization", .body = lp_normalization},
    {.op = "BatchNormalization", .body = batch_normalization},
    {.op = "NegativeLogLikelihoodLoss", .body = negative_log_likelihood},
    {.op = "GlobalAveragePool", .body = global_average_pool},
    {.op = "GlobalMaxPool", .body = global_max_pool},
    {.op = "AveragePool", .body = average_pool},
    {0},
};
