// Matrix products and convolutions with what ONNX Runtime's optimizer fused into them, as graphs of the standard's
// operators: onnxc's own fusion takes them together again.
#include "ir/ops/contrib/fused.h"
#include "ir/ops/decompose.h"
#include <string.h>

// ---- Matrix products

// A for `trans`: its last two axes swapped; for `batch`, before that: axis 0 becomes the last but one.
static value *factor(node *n, int i, const char *trans, const char *batch) {
    int rank = infer_rank(n, i);
    int64_t order[MAX_RANK];
    bool swap = node_int(n, trans, 0) && rank > 1, shift = node_int(n, batch, 0) && rank > 2;
    if (!swap && !shift) return n->in[i];
    for (int d = 0; d < rank; d++) order[d] = !shift || d == rank - 1 ? d : d == rank - 2 ? 0 : d + 1;
    if (swap) {
        int64_t last = order[rank - 1];
        order[rank - 1] = order[rank - 2];
        order[rank - 2] = last;
    }
    return transposed(n, n->in[i], rank, order);
}

static value *scaled(node *n, value *v, const char *name) {
    double factor = node_float(n, name, 1);
    return factor == 1 ? v : NODE(n, "Mul", v, number_like(n, factor, 0));
}

static void fused_matmul(node *n) {
    value *product =
        NODE(n, "MatMul", factor(n, 0, "transA", "transBatchA"), factor(n, 1, "transB", "transBatchB"));
    give_output(n, 0, scaled(n, product, "alpha"));
}
MICROSOFT_OP(FusedMatMul, fused_matmul);
MICROSOFT_OP(TransposeMatMul, fused_matmul);

// A sparse tensor is dense here. ONNX Runtime multiplies by alpha where the elements are floats of 32 bits.
static void sparse_to_dense_matmul(node *n) {
    if (infer_rank(n, 0) != 2 || infer_rank(n, 1) != 2)
        infer_error(n, "the inputs have ranks %d and %d; they must be matrices", infer_rank(n, 0),
                    infer_rank(n, 1));
    value *product = NODE(n, "MatMul", factor(n, 0, "transA", ""), factor(n, 1, "transB", ""));
    give_output(n, 0, elem_of(n) == DT_F32 ? scaled(n, product, "alpha") : product);
}
MICROSOFT_OP(SparseToDenseMatMul, sparse_to_dense_matmul);

// ---- Copies between devices, which ONNX Runtime adds to a graph that it saves
static void copied(node *n) { decompose_to(n, "Identity"); }
const op_def op_MemcpyFromHost = {.name = "MemcpyFromHost", .domain = "", .decompose = copied};
const op_def op_MemcpyToHost = {.name = "MemcpyToHost", .domain = "", .decompose = copied};

// FastGelu(a * b + bias)
static void gemm_fast_gelu(node *n) {
    value *y = NODE(n, "MatMul", widened(n, 0), widened(n, 1)), *bias = widened(n, 2);
    y = with_string(NODE(n, "Gelu", bias ? NODE(n, "Add", y, bias) : y), "approximate", "tanh");
    give_output(n, 0, narrowed(n, y, elem_of(n)));
}
MICROSOFT_OP(GemmFastGelu, gemm_fast_gelu);

// ---- FusedGemm, FusedMatMulActivation

// An activation function of FusedGemm, and its parameters, attributes that begin with "activation_".
typedef struct gemm_activation {
    const char *name;
    const char *op; // NULL: the name
    const char *parameters[3];
} gemm_activation;

static const gemm_activation activations[] = {
    {"Celu", NULL, {"alpha"}},
    {"Elu", NULL, {"alpha"}},
    {"HardSigmoid", NULL, {"alpha", "beta"}},
    {"LeakyRelu", NULL, {"alpha"}},
    {"ParametricSoftplus", "Softplus", {"alpha", "beta"}},
    {"Relu", NULL, {0}},
    {"ScaledTanh", "Tanh", {"alpha", "beta"}},
    {"Selu", NULL, {"alpha", "gamma"}},
    {"Sigmoid", NULL, {0}},
    {"Softplus", NULL, {0}},
    {"Softsign", NULL, {0}},
    {"Tanh", NULL, {0}},
    {"ThresholdedRelu", NULL, {"alpha"}},
};

static const gemm_activation *find_activation(const node *n, const char *name) {
    for (size_t i = 0; i < sizeof activations / sizeof *activations; i++)
        if (strcmp(activations[i].name, name) == 0) return &activations[i];
    infer_error(n, "attribute activation is '%s', which is not a function that %s has", name, n->op->name);
}

static double parameter(const node *n, const char *name) {
    const char *key = arena_printf(infer_arena(n), "activation_%s", name);
    if (!node_attr(n, key)) infer_error(n, "attribute %s is missing", key);
    return node_float(n, key, 0);
}

static value *gemm_activated(node *n, value *v) {
    const char *name = node_string(n, "activation", "");
    if (!*name) return v;
    const gemm_activation *a = find_activation(n, name);
    if (a->op) { // alpha * op(beta * x)
        value *inner = NODE(n, "Mul", v, number_like(n, parameter(n, "beta"), 0));
        return NODE(n, "Mul", NODE(n, a->op, inner), number_like(n, parameter(n, "alpha"), 0));
    }
    v = NODE(n, name, v);
    for (int i = 0; i < 3 && a->parameters[i]; i++)
        with_float(v, a->parameters[i], parameter(n, a->parameters[i]));
    return v;
}

static void fused_gemm(node *n) {
    static const char *const kept[] = {"alpha", "beta", "transA", "transB"};
    value *y = NODE(n, "Gemm", n->in[0], n->in[1], node_in(n, 2));
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) with_attr_of(y, n, kept[i]);
    give_output(n, 0, gemm_activated(n, y));
}
MICROSOFT_OP(FusedGemm, fused_gemm);

static void fused_matmul_activation(node *n) {
    value *product =
        NODE(n, "MatMul", factor(n, 0, "transA", "transBatchA"), factor(n, 1, "transB", "transBatchB"));
    give_output(n, 0, gemm_activated(n, scaled(n, product, "alpha")));
}
MICROSOFT_OP(FusedMatMulActivation, fused_matmul_activation);

// ---- Convolutions: x, weights, bias, residual Z
static const float *activation_params(const node *n, int count) {
    const attr *a = node_attr(n, "activation_params");
    if (!a || a->n != count)
        infer_error(n, "attribute activation_params has %d numbers, but '%s' has %d", a ? a->n : 0,
                    node_string(n, "activation", ""), count);
    return a->floats;
}

value *conv_activated(node *n, value *v) {
    static const char *const plain[] = {"Relu", "Tanh", "Sigmoid", "HardSwish"};
    const char *name = node_string(n, "activation", "");
    if (!*name) return v;
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (strcmp(name, plain[i]) == 0) return NODE(n, name, v);
    if (strcmp(name, "Silu") == 0) return with_float(NODE(n, "Swish", v), "alpha", 1);
    if (strcmp(name, "LeakyRelu") == 0)
        return with_float(NODE(n, "LeakyRelu", v), "alpha", activation_params(n, 1)[0]);
    if (strcmp(name, "HardSigmoid") == 0) {
        const float *p = activation_params(n, 2);
        return with_float(with_float(NODE(n, "HardSigmoid", v), "alpha", p[0]), "beta", p[1]);
    }
    if (strcmp(name, "Clip") != 0)
        infer_error(n, "attribute activation is '%s', which is not supported", name);
    const float *p = activation_params(n, 2);
    dtype t = wide_type(elem_of(n));
    return NODE(n, "Clip", v, insert_scalar(n, t, p[0]), insert_scalar(n, t, p[1]));
}

value *with_conv_attrs(value *v, const node *n) {
    static const char *const kept[] = {"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) with_attr_of(v, n, kept[i]);
    return v;
}

static void fused_conv(node *n) {
    value *y = with_conv_attrs(NODE(n, "Conv", n->in[0], n->in[1], node_in(n, 2)), n);
    if (node_in(n, 3)) y = NODE(n, "Add", y, n->in[3]);
    give_output(n, 0, conv_activated(n, y));
}

static void channels_last_conv(node *n, bool of_weights) {
    int rank = infer_rank(n, 0);
    if (rank < 3) infer_error(n, "X has rank %d, but needs a batch, spatial axes and channels", rank);
    value *x = channels_moved(n, widened(n, 0), rank, true), *w = widened(n, 1);
    if (of_weights) w = channels_moved(n, w, rank, true);
    value *y = with_conv_attrs(NODE(n, "Conv", x, w, widened(n, 2)), n);
    y = channels_moved(n, y, rank, false);
    if (node_in(n, 3)) y = NODE(n, "Add", y, widened(n, 3));
    give_output(n, 0, narrowed(n, conv_activated(n, y), elem_of(n)));
}

// Weights are (M, kH, kW, C / group), as the optimiser of transformers writes them, and (M, C / group, kH, kW) with a sum or
// an activation.
static void nhwc_conv(node *n) { channels_last_conv(n, true); }
static void nhwc_fused_conv(node *n) { channels_last_conv(n, false); }

static void nhwc_max_pool(node *n) {
    static const char *const kept[] = {"auto_pad",     "ceil_mode", "dilations",
                                       "kernel_shape", "pads",      "strides"};
    int rank = infer_rank(n, 0);
    value *y = NODE(n, "MaxPool", channels_moved(n, n->in[0], rank, true));
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) with_attr_of(y, n, kept[i]);
    give_output(n, 0, channels_moved(n, y, rank, false));
}
MICROSOFT_OP(FusedConv, fused_conv);
MICROSOFT_OP(NhwcConv, nhwc_conv);
MICROSOFT_OP(NhwcFusedConv, nhwc_fused_conv);
MICROSOFT_OP(NhwcMaxPool, nhwc_max_pool);
