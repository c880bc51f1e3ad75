// Mixtures of experts, MoE and QMoE: each token is multiplied with the weights of the k experts that its router prefers.
//
//   weight, expert = TopK(Softmax(router_probs), k)                      tokens x k
//   h = activation(x * fc1[expert]' + bias1[expert])                     tokens x k x inner
//   y = sum over k of weight * (h * fc2[expert]' + bias2[expert])        tokens x hidden
#include "ir/ops/contrib/packed.h"
#include <string.h>

typedef struct linear {
    value *weights; // experts x columns x rows, floats; NULL: there is none
    value *bias;    // experts x columns, NULL: none
} linear;

typedef struct experts {
    linear fc1, fc2, fc3;
    value *expert, *weight; // tokens x k
} experts;

static value *unsqueezed(node *n, value *v, int axes, const int64_t *at) {
    return NODE(n, "Unsqueeze", v, insert_ints(n, at, axes));
}

// x, tokens x (k or 1) x 1 x rows, times what its experts hold.
static value *apply(node *n, const experts *e, value *x, const linear *l) {
    value *w = NODE(n, "Gather", l->weights, e->expert);
    value *y = NODE(n, "MatMul", x, transposed(n, w, 4, (int64_t[]){0, 1, 3, 2}));
    if (!l->bias) return y;
    value *bias = NODE(n, "Gather", cast_to(n, l->bias, DT_F32), e->expert);
    return NODE(n, "Add", y, unsqueezed(n, bias, 1, (int64_t[]){2}));
}

// ---- Activations

static value *clamped(node *n, value *v, bool both) {
    const attr *limit = node_attr(n, "swiglu_limit");
    if (!limit) return v;
    value *high = insert_scalar(n, DT_F32, limit->f);
    return both ? NODE(n, "Clip", v, insert_scalar(n, DT_F32, -limit->f), high) : NODE(n, "Min", v, high);
}

// g * sigmoid(alpha * g) * (l + beta)
static value *swiglu(node *n, value *g, value *l) {
    g = with_float(NODE(n, "Swish", clamped(n, g, false)), "alpha", node_float(n, "activation_alpha", 1));
    return NODE(
        n, "Mul", g,
        NODE(n, "Add", clamped(n, l, true), insert_scalar(n, DT_F32, node_float(n, "activation_beta", 0))));
}

// Part i of v, which alternate (fusion 1) or follow one another (fusion 2) along the last axis.
static value *part_of(node *n, value *v, int64_t fusion, int64_t i) {
    int64_t pairs[] = {0, 0, 0, fusion == 1 ? -1 : 2, fusion == 1 ? 2 : -1};
    v = NODE(n, "Gather", reshaped(n, v, 5, pairs), insert_scalar(n, DT_I64, i));
    return with_int(v, "axis", fusion == 1 ? 4 : 3);
}

static value *plain_activation(node *n, const char *name, value *v) {
    if (strcmp(name, "relu") == 0) return NODE(n, "Relu", v);
    if (strcmp(name, "gelu") == 0) return with_string(NODE(n, "Gelu", v), "approximate", "tanh");
    if (strcmp(name, "silu") == 0) return with_float(NODE(n, "Swish", v), "alpha", 1);
    if (strcmp(name, "identity") == 0) return v;
    infer_error(n, "attribute activation_type is '%s'; it must be relu, gelu, silu, swiglu or identity",
                name);
}

static value *inner(node *n, const experts *e, value *x) {
    const char *name = node_string(n, "activation_type", "relu");
    int64_t fusion = node_int(n, "swiglu_fusion", 0);
    value *v = apply(n, e, x, &e->fc1);
    if (strcmp(name, "swiglu") != 0) {
        v = plain_activation(n, name, v);
        return e->fc3.weights ? NODE(n, "Mul", v, apply(n, e, x, &e->fc3)) : v;
    }
    if (fusion != 1 && fusion != 2 && !e->fc3.weights)
        infer_error(n, "attribute swiglu_fusion is %lld; without the weights of fc3 it must be 1 or 2",
                    (long long)fusion);
    if (fusion == 1 || fusion == 2) return swiglu(n, part_of(n, v, fusion, 0), part_of(n, v, fusion, 1));
    return swiglu(n, v, apply(n, e, x, &e->fc3));
}

// ---- Routing

// ONNX Runtime's QMoE takes the softmax of the k largest only, which is the same as normalised weights.
static void route(node *n, experts *e, value *mixing, bool normalised) {
    int64_t k = node_int(n, "k", 1);
    if (node_int(n, "use_sparse_mixer", 0))
        infer_error(n, "attribute use_sparse_mixer is 1; only the selection of the k largest is supported");
    value *p = with_int(NODE(n, "Softmax", cast_to(n, n->in[1], DT_F32)), "axis", -1);
    value *top = with_int(NODE(n, "TopK", p, insert_ints(n, &k, 1)), "axis", -1);
    e->expert = output_of(top, 1);
    e->weight =
        mixing ? with_int(NODE(n, "GatherElements", cast_to(n, mixing, DT_F32), e->expert), "axis", 1) : top;
    if (!normalised && !node_int(n, "normalize_routing_weights", 0)) return;
    e->weight =
        NODE(n, "Div", e->weight, NODE(n, "ReduceSum", e->weight, insert_ints(n, (int64_t[]){-1}, 1)));
}

static void mix(node *n, experts *e) {
    int rank = infer_rank(n, 0);
    if (rank != 2 && rank != 3) infer_error(n, "the input has rank %d, not 2 or 3", rank);
    const type *x = infer_in(n, 0);
    value *tokens;
    if (rank == 2) tokens = unsqueezed(n, n->in[0], 2, (int64_t[]){1, 2});
    else {
        value *sizes = NODE(n, "Concat", insert_ints(n, (int64_t[]){-1, 1, 1}, 3),
                            with_int(NODE(n, "Shape", n->in[0]), "start", -1));
        tokens = NODE(n, "Reshape", n->in[0], with_int(sizes, "axis", 0));
    }
    value *y = apply(n, e, inner(n, e, cast_to(n, tokens, DT_F32)), &e->fc2);
    y = NODE(n, "Mul", y, unsqueezed(n, e->weight, 2, (int64_t[]){2, 3}));
    y = with_int(NODE(n, "ReduceSum", y, insert_ints(n, (int64_t[]){1, 2}, 2)), "keepdims", 0);
    if (rank == 3) y = NODE(n, "Reshape", y, NODE(n, "Shape", n->in[0]));
    give_output(n, 0, from_float(n, y, x->elem));
}

// ---- Weights

static linear linear_at(node *n, int weights, int bias) {
    value *w = node_in(n, weights);
    return (linear){w ? cast_to(n, w, DT_F32) : NULL, node_in(n, bias)};
}

static void moe_decompose(node *n) {
    experts e = {.fc1 = linear_at(n, 2, 3), .fc2 = linear_at(n, 4, 5), .fc3 = linear_at(n, 6, 7)};
    route(n, &e, NULL, false);
    mix(n, &e);
}

// Experts x columns x (1 or blocks), from bytes that are packed along the last axis. Without blocks that is the columns'.
static value *packed_zero(node *n, int i, int scales, int bits, int64_t block) {
    const type *s = infer_in(n, scales);
    if (!node_in(n, i)) return NULL;
    int64_t sizes[] = {0, block ? 0 : -1, -1};
    value *v = unpacked(n, n->in[i], bits, block ? 3 : 2, sizes);
    dim *wants = infer_rank(n, scales) > 0 ? s->dims[s->rank - 1] : NULL;
    if (!wants || !dim_is_const(wants))
        infer_error(n, "the sizes of the scales (input %d) must be known", scales);
    v = first_of_rows(n, v, dim_value(wants));
    return block ? v : unsqueezed(n, v, 1, (int64_t[]){2});
}

// Inputs weights, weights + 1 (scales) and weights + 2 (bias).
static linear quantised_linear(node *n, int weights, int zero, const char *bits_attribute) {
    if (!node_in(n, weights)) return (linear){0};
    int bits = (int)node_int(n, bits_attribute, node_int(n, "expert_weight_bits", 4));
    int64_t block = node_int(n, "block_size", 0) > 0 ? node_int(n, "block_size", 0) : 0;
    if (bits != 2 && bits != 4 && bits != 8)
        infer_error(n, "the weights of input %d have %d bits; it must be 2, 4 or 8", weights, bits);
    if (!node_in(n, weights + 1))
        infer_error(n, "input %d, the scales of input %d, is missing", weights + 1, weights);
    value *w = unpacked(n, n->in[weights], bits, 3, (int64_t[]){0, 0, -1}), *scales = n->in[weights + 1];
    value *z = packed_zero(n, zero, weights + 1, bits, block), *bias = node_in(n, weights + 2);
    if (block) {
        dtype t = w->constant ? w->constant->elem : DT_U8;
        z = z ? cast_to(n, z, t) : insert_scalar(n, t, 1 << (bits - 1));
        w = with_int(NODE(n, "DequantizeLinear", w, scales, z), "axis", 2);
        return (linear){with_int(with_int(w, "block_size", block), "output_dtype", DT_F32), bias};
    }
    z = z ? cast_to(n, z, DT_F32) : insert_scalar(n, DT_F32, 1 << (bits - 1));
    w = NODE(n, "Sub", cast_to(n, w, DT_F32), z);
    scales = unsqueezed(n, cast_to(n, scales, DT_F32), 1, (int64_t[]){2});
    return (linear){NODE(n, "Mul", w, scales), bias};
}

static void qmoe_decompose(node *n) {
    const char *kind = node_string(n, "quant_type", "int");
    if (strcmp(kind, "int") != 0 || node_int(n, "weights_prepacked", -1) > 0)
        infer_error(n,
                    "attribute quant_type is '%s' and weights_prepacked is %lld; only integers that are not "
                    "prepacked are supported",
                    kind, (long long)node_int(n, "weights_prepacked", -1));
    experts e = {.fc1 = quantised_linear(n, 2, 11, "fc1_expert_weight_bits"),
                 .fc2 = quantised_linear(n, 5, 12, "fc2_expert_weight_bits"),
                 .fc3 = quantised_linear(n, 8, 13, "fc3_expert_weight_bits")};
    route(n, &e, node_in(n, 14), !node_in(n, 14));
    mix(n, &e);
}

MICROSOFT_OP(MoE, moe_decompose);
MICROSOFT_OP(QMoE, qmoe_decompose);
