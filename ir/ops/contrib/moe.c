// Mixtures of experts, MoE and QMoE: each token is multiplied with the weights of the k experts that its router prefers.
//
//   weight, expert = TopK(Softmax(router_probs), k)                      tokens x k
//   h = activation(x * fc1[expert]' + bias1[expert])                     tokens x k x inner
//   y = sum over k of weight * (h * fc2[expert]' + bias2[expert])        tokens x hidden
//
// For few tokens, each of their experts is a product of one row. Many tokens are sorted by their experts, and each expert is
// one product with its weights (ir/ops/nn/grouped_matmul.c).
#include "ir/ops/contrib/packed.h"
#include "ir/ops/contrib/packed_blocks.h"
#include "ir/ops/contrib/swiglu.h"
#include <string.h>

typedef struct linear {
    value *weights; // experts x columns x rows, floats; NULL: there is none
    value *bias;    // experts x columns, NULL: none
    value *least;   // minimums, experts x columns x groups of rows, that the weights lack; NULL: none
    int group;
} linear;

typedef struct experts {
    linear fc1, fc2, fc3;
    value *expert, *weight; // tokens x k; expert: of each row, where they are sorted
    value *ends;            // the row after those of each expert, where they are sorted, else NULL
    int rank;               // of x and h: tokens x k x 1 x size, or rows x size
} experts;

static value *unsqueezed(node *n, value *v, int axes, const int64_t *at) {
    return NODE(n, "Unsqueeze", v, insert_ints(n, at, axes));
}

static value *grouped_product(node *n, value *x, value *w, value *ends) {
    value *in[] = {x, w, ends};
    return node_output(node_new(n->graph, n, op_find("onnxc", "GroupedMatMul"), n->loc, 3, in), 0, NULL);
}

static value *product(node *n, const experts *e, value *x, value *weights) {
    if (e->ends) return grouped_product(n, x, weights, e->ends);
    return NODE(n, "MatMul", x, swapped_last(n, NODE(n, "Gather", weights, e->expert), e->rank));
}

// x times what its experts hold.
static value *apply(node *n, const experts *e, value *x, const linear *l) {
    value *y = product(n, e, x, l->weights);
    if (l->least) y = NODE(n, "Sub", y, product(n, e, sums_of_groups(n, x, e->rank, l->group), l->least));
    if (!l->bias) return y;
    value *bias = NODE(n, "Gather", cast_to(n, l->bias, DT_F32), e->expert);
    return NODE(n, "Add", y, e->ends ? bias : unsqueezed(n, bias, 1, (int64_t[]){e->rank - 2}));
}

// ---- Activations

static swiglu_limit limit_of(const node *n) {
    const attr *limit = node_attr(n, "swiglu_limit");
    bool after = node_int(n, "swiglu_limit_after_activation", 0);
    return limit ? (swiglu_limit){.given = true, .value = limit->f, .on_activated = after}
                 : (swiglu_limit){0};
}

static value *plain_activation(node *n, const char *name, value *v) {
    value *relu = strncmp(name, "relu", 4) == 0 ? NODE(n, "Relu", v) : NULL;
    if (strcmp(name, "relu") == 0) return relu;
    if (strcmp(name, "relu2") == 0 || strcmp(name, "relu_squared") == 0) return NODE(n, "Mul", relu, relu);
    if (strcmp(name, "gelu") == 0) return with_string(NODE(n, "Gelu", v), "approximate", "tanh");
    if (strcmp(name, "silu") == 0) return with_float(NODE(n, "Swish", v), "alpha", 1);
    if (strcmp(name, "identity") == 0) return v;
    infer_error(n,
                "attribute activation_type is '%s'; it must be relu, relu2, gelu, silu, identity, swiglu or "
                "geglu",
                name);
}

// Both halves of what fc1 computes, or fc1 and fc3.
static value *gated_activation(node *n, const experts *e, value *x, value *v, bool is_swiglu) {
    int64_t fusion = node_int(n, "swiglu_fusion", 0);
    value *gate = v, *up;
    if (fusion == 1 || fusion == 2) {
        gate = swiglu_part(n, v, e->rank, fusion == 1, 0), up = swiglu_part(n, v, e->rank, fusion == 1, 1);
    } else {
        if (!e->fc3.weights)
            infer_error(n, "attribute swiglu_fusion is %lld; without the weights of fc3 it must be 1 or 2",
                        (long long)fusion);
        up = apply(n, e, x, &e->fc3);
    }
    if (is_swiglu) return swiglu_of(n, gate, up, limit_of(n), DT_NONE);
    return NODE(n, "Mul", plain_activation(n, "gelu", gate), up);
}

static value *inner(node *n, const experts *e, value *x) {
    const char *name = node_string(n, "activation_type", "relu");
    value *v = apply(n, e, x, &e->fc1);
    bool is_swiglu = strcmp(name, "swiglu") == 0;
    if (is_swiglu || strcmp(name, "geglu") == 0) return gated_activation(n, e, x, v, is_swiglu);
    v = plain_activation(n, name, v);
    return e->fc3.weights ? NODE(n, "Mul", v, apply(n, e, x, &e->fc3)) : v;
}

// ---- Routing

// p: tokens x experts; mixing: what stands for p where it is added up, NULL: p itself.
static void choose(node *n, experts *e, value *p, value *mixing) {
    int64_t k = node_int(n, "k", 1);
    value *top = with_int(NODE(n, "TopK", p, insert_ints(n, &k, 1)), "axis", -1);
    e->expert = output_of(top, 1);
    e->weight =
        mixing ? with_int(NODE(n, "GatherElements", cast_to(n, mixing, DT_F32), e->expert), "axis", 1) : top;
}

static value *probabilities(node *n) {
    return with_int(NODE(n, "Softmax", cast_to(n, n->in[1], DT_F32)), "axis", -1);
}

static value *sum_of_chosen(node *n, const experts *e) {
    return NODE(n, "ReduceSum", e->weight, one_int(n, -1));
}

// ONNX Runtime's QMoE takes the softmax of the k largest only, which is the same as normalised weights.
static void route(node *n, experts *e, value *mixing, bool normalised) {
    if (node_int(n, "use_sparse_mixer", 0))
        infer_lacks(n, "attribute use_sparse_mixer is 1; only the selection of the k largest is supported");
    choose(n, e, probabilities(n), mixing);
    if (!normalised && !node_int(n, "normalize_routing_weights", 0)) return;
    e->weight = NODE(n, "Div", e->weight, sum_of_chosen(n, e));
}

// ---- Tokens

// As tokens x size.
static value *tokens_of(node *n) {
    value *x = cast_to(n, n->in[0], DT_F32);
    if (infer_rank(n, 0) == 2) return x;
    return NODE(n, "Reshape", x,
                JOINED(n, insert_ints(n, (int64_t[]){-1}, 1), shape_part(n, x, -1, INT64_MAX)));
}

static value *row_by_row(node *n, experts *e) {
    e->rank = 4;
    value *x = unsqueezed(n, tokens_of(n), 2, (int64_t[]){1, 2});
    value *y = apply(n, e, inner(n, e, x), &e->fc2);
    y = NODE(n, "Mul", y, unsqueezed(n, e->weight, 2, (int64_t[]){2, 3}));
    return with_int(NODE(n, "ReduceSum", y, insert_ints(n, (int64_t[]){1, 2}, 2)), "keepdims", 0);
}

// The rows of all tokens and their experts, in the order of the experts:
//   row[i] = how many i' have an expert before that of i, or the same one and i' < i
static value *sorted_rows(node *n, experts *e, int64_t count) {
    value *flat = NODE(n, "Reshape", e->expert, one_int(n, -1));
    value *own = NODE(n, "OneHot", flat, int64_scalar(n, count), insert_ints(n, (int64_t[]){0, 1}, 2));
    value *so_far = NODE(n, "CumSum", own, int64_scalar(n, 0));
    value *all = with_int(NODE(n, "ReduceSum", own, one_int(n, 0)), "keepdims", 0);
    e->ends = NODE(n, "CumSum", all, int64_scalar(n, 0));
    value *place = NODE(n, "Sub", NODE(n, "Add", so_far, NODE(n, "Sub", e->ends, all)), int64_scalar(n, 1));
    return with_int(NODE(n, "ReduceSum", NODE(n, "Mul", place, own), one_int(n, 1)), "keepdims", 0);
}

// For each sorted row what `of` says of it.
static value *moved(node *n, value *of, value *row) {
    value *nothing = NODE(n, "Expand", int64_scalar(n, 0), NODE(n, "Shape", row));
    return NODE(n, "ScatterElements", nothing, row, of);
}

static value *group_by_group(node *n, experts *e, int64_t count) {
    value *row = sorted_rows(n, e, count), *flat = NODE(n, "Reshape", e->expert, one_int(n, -1));
    value *each = NODE(n, "Range", int64_scalar(n, 0), NODE(n, "Squeeze", shape_part(n, row, 0, 1)),
                       int64_scalar(n, 1));
    value *token = moved(n, NODE(n, "Div", each, int64_scalar(n, node_int(n, "k", 1))), row);
    value *x = NODE(n, "Gather", tokens_of(n), token), *shape = NODE(n, "Shape", e->expert);
    e->expert = moved(n, flat, row);
    e->rank = 2;
    value *y = apply(n, e, inner(n, e, x), &e->fc2);
    y = NODE(n, "Gather", y, NODE(n, "Reshape", row, shape));
    y = NODE(n, "Mul", y, unsqueezed(n, e->weight, 1, (int64_t[]){2}));
    return with_int(NODE(n, "ReduceSum", y, one_int(n, 1)), "keepdims", 0);
}

// ---- Which of the two

static void check_rank(const node *n, int least, int most) {
    int rank = infer_rank(n, 0);
    if (rank < least || rank > most) infer_error(n, "the input has rank %d, not %d to %d", rank, least, most);
}

// 0: not known.
static int64_t expert_count(const node *n) {
    const type *w = infer_in(n, 2);
    return w->rank == 3 && dim_is_const(w->dims[0]) ? dim_value(w->dims[0]) : 0;
}

static dim *token_count(const node *n) {
    const type *x = infer_in(n, 0);
    return dim_product(infer_dims(n), x->dims, x->rank - 1);
}

// Whether there are more rows than experts; TRI_UNKNOWN: the run says so.
static tri is_sorted(const node *n) {
    int64_t count = expert_count(n);
    dim *rows = dim_mulk(token_count(n), node_int(n, "k", 1));
    const attr *chosen = node_attr(n, "sorts");
    if (count < 1) return TRI_NO;
    return chosen ? (chosen->i ? TRI_YES : TRI_NO) : dim_less(infer_k(n, count), rows);
}

static graph *branch_of(node *n, const char *name, bool sorts) {
    graph *g = graph_new(n->graph->module, n->graph, name);
    node *same = node_new(g, NULL, n->op, n->loc, n->nin, n->in);
    for (int i = 0; i < n->nattrs; i++) node_set_attr(same, n->attrs[i]);
    node_set_attr(same, (attr){.name = "sorts", .kind = ATTR_INT, .i = sorts});
    graph_add_output(g, node_output(same, 0, NULL));
    return g;
}

static void choose_at_run(node *n) {
    value *tokens = shape_part(n, n->in[0], 0, -1), *count = NODE(n, "ReduceProd", tokens);
    with_int(count, "keepdims", 0);
    value *rows = NODE(n, "Mul", count, int64_scalar(n, node_int(n, "k", 1)));
    value *y = NODE(n, "If", NODE(n, "Less", int64_scalar(n, expert_count(n)), rows));
    node_set_attr(y->def,
                  (attr){.name = "then_branch", .kind = ATTR_GRAPH, .graph = branch_of(n, "many", true)});
    node_set_attr(y->def,
                  (attr){.name = "else_branch", .kind = ATTR_GRAPH, .graph = branch_of(n, "few", false)});
    give_output(n, 0, y);
}

static void mix(node *n, experts *e) {
    value *y = is_sorted(n) == TRI_YES ? group_by_group(n, e, expert_count(n)) : row_by_row(n, e);
    if (infer_rank(n, 0) != 2) y = NODE(n, "Reshape", y, NODE(n, "Shape", n->in[0]));
    give_output(n, 0, from_float(n, y, infer_in(n, 0)->elem));
}

// ---- Weights

static linear linear_at(node *n, int weights, int bias) {
    value *w = node_in(n, weights);
    return (linear){.weights = w ? cast_to(n, w, DT_F32) : NULL, .bias = node_in(n, bias)};
}

static void moe_decompose(node *n) {
    check_rank(n, 2, 3);
    if (is_sorted(n) == TRI_UNKNOWN) {
        choose_at_run(n);
        return;
    }
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
        w = with_int(with_int(w, "block_size", block), "output_dtype", DT_F32);
        return (linear){.weights = w, .bias = bias};
    }
    z = z ? cast_to(n, z, DT_F32) : insert_scalar(n, DT_F32, 1 << (bits - 1));
    w = NODE(n, "Sub", cast_to(n, w, DT_F32), z);
    scales = unsqueezed(n, cast_to(n, scales, DT_F32), 1, (int64_t[]){2});
    return (linear){.weights = NODE(n, "Mul", w, scales), .bias = bias};
}

// ---- Weights that are floats of 4 or 8 bits

enum { IN_GLOBAL = 15 }; // of fc1; that of fc2 is the next one

// One number for each expert, which stands before the axes of its matrix.
static value *global_scale(node *n, int weights, const char *kind) {
    int at = IN_GLOBAL + (weights - 2) / 3;
    if (weights > 5 || !node_in(n, at))
        infer_error(n, "the weights of input %d need a global scale for quant_type '%s'", weights, kind);
    return unsqueezed(n, cast_to(n, n->in[at], DT_F32), 2, (int64_t[]){1, 2});
}

static value *in_blocks(node *n, value *w, value *scales, int64_t block) {
    value *y = with_int(NODE(n, "DequantizeLinear", w, scales), "axis", 2);
    return with_int(with_int(y, "block_size", block), "output_dtype", DT_F32);
}

// Two elements in a byte. Experts x columns x rows / 2, or, for legacy nvfp4, experts x rows x columns / 2.
static linear float4_linear(node *n, int weights, const char *kind, int64_t block) {
    if (!node_in(n, weights)) return (linear){0};
    if (!node_in(n, weights + 1))
        infer_error(n, "input %d, the scales of input %d, is missing", weights + 1, weights);
    value *scales = cast_to(n, n->in[weights + 1], DT_F32), *bytes = n->in[weights], *w;
    scales = NODE(n, "Mul", scales, global_scale(n, weights, kind));
    w = reinterpreted_as(n, bytes, DT_F4E2M1, 3, (int64_t[]){0, 0, -1});
    if (block == 16 && node_int(n, "weights_prepacked", -1) == 1)
        w = NODE(n, "Reshape", w, JOINED(n, shape_part(n, scales, 0, 2), one_int(n, -1)));
    else if (block == 16) w = transposed(n, w, 3, (int64_t[]){0, 2, 1});
    if (bytes->constant)
        return (linear){.weights = in_blocks(n, w, scales, block), .bias = node_in(n, weights + 2)};
    value *apart = reshaped(n, w, 4, (int64_t[]){0, 0, -1, block}); // floats by now
    apart = NODE(n, "Mul", apart, unsqueezed(n, scales, 1, (int64_t[]){3}));
    return (linear){.weights = reshaped(n, apart, 3, (int64_t[]){0, 0, -1}), .bias = node_in(n, weights + 2)};
}

// With a scale for each square block, or for each expert.
static linear float8_linear(node *n, int weights, int64_t block) {
    if (!node_in(n, weights)) return (linear){0};
    value *w = n->in[weights], *bias = node_in(n, weights + 2);
    if (block < 1) {
        value *scale = NODE(n, "Reshape", global_scale(n, weights, "fp8"), one_int(n, -1));
        return (linear){.weights = with_int(NODE(n, "DequantizeLinear", w, scale), "axis", 0), .bias = bias};
    }
    if (!node_in(n, weights + 1))
        infer_error(n, "input %d, the scales of input %d, is missing", weights + 1, weights);
    value *columns =
        NODE(n, "Range", int64_scalar(n, 0), NODE(n, "Squeeze", shape_part(n, w, 1, 2)), int64_scalar(n, 1));
    value *index = NODE(n, "Div", columns, int64_scalar(n, block));
    value *scales = with_int(NODE(n, "Gather", cast_to(n, n->in[weights + 1], DT_F32), index), "axis", 1);
    return (linear){.weights = in_blocks(n, w, scales, block), .bias = bias};
}

static linear linear_of_kind(node *n, const char *kind, int layer) {
    static const char *const bits[] = {"fc1_expert_weight_bits", "fc2_expert_weight_bits",
                                       "fc3_expert_weight_bits"};
    int weights = 2 + 3 * layer;
    if (strcmp(kind, "int") == 0) return quantised_linear(n, weights, 11 + layer, bits[layer]);
    if (strcmp(kind, "fp4") == 0) return float4_linear(n, weights, kind, 32);
    if (strcmp(kind, "nvfp4") == 0) return float4_linear(n, weights, kind, 16);
    if (strcmp(kind, "fp8") == 0) return float8_linear(n, weights, node_int(n, "block_size", 0));
    if (strcmp(kind, "wfp4afp8") == 0)
        infer_lacks(n, "attribute quant_type is '%s'; activations that are quantised are not supported",
                    kind);
    infer_error(n, "attribute quant_type is '%s'; it must be int, fp4, nvfp4, fp8 or wfp4afp8", kind);
}

static void qmoe_decompose(node *n) {
    const char *kind = node_string(n, "quant_type", "int");
    if (strcmp(kind, "int") == 0 && node_int(n, "weights_prepacked", -1) > 0)
        infer_lacks(
            n,
            "attribute weights_prepacked is %lld: weights in the layout of a GPU's library cannot be read; "
            "write the model without prepacking",
            (long long)node_int(n, "weights_prepacked", -1));
    check_rank(n, 2, 3);
    if (is_sorted(n) == TRI_UNKNOWN) {
        choose_at_run(n);
        return;
    }
    experts e = {.fc1 = linear_of_kind(n, kind, 0),
                 .fc2 = linear_of_kind(n, kind, 1),
                 .fc3 = linear_of_kind(n, kind, 2)};
    route(n, &e, node_in(n, 14), !node_in(n, 14));
    mix(n, &e);
}

// ---- Weights in the block formats of GGML

static linear packed_linear(node *n, int weights, const char *kind) {
    if (!node_in(n, weights)) return (linear){0};
    if (infer_rank(n, weights) != 3)
        infer_error(n, "the weights of input %d have rank %d, not 3", weights, infer_rank(n, weights));
    packed_weights p = packed_weights_at(n, weights, kind, 0);
    return (linear){.weights = p.w, .least = p.least, .group = p.group};
}

// Where the sum of the chosen is zero, so are their weights.
static void route_packed(node *n, experts *e) {
    value *mixing = node_in(n, 5), *zero = insert_scalar(n, DT_F32, 0);
    double factor = node_float(n, "routed_scaling_factor", 1);
    choose(n, e, mixing ? cast_to(n, n->in[1], DT_F32) : probabilities(n), mixing);
    if (node_int(n, "normalize_routing_weights", 1)) {
        value *sum = sum_of_chosen(n, e);
        double epsilon = node_float(n, "routing_epsilon", 0);
        if (epsilon > 0) sum = NODE(n, "Add", sum, insert_scalar(n, DT_F32, epsilon));
        e->weight = NODE(n, "Where", NODE(n, "Equal", sum, zero), zero, NODE(n, "Div", e->weight, sum));
    }
    if (factor != 1) e->weight = NODE(n, "Mul", e->weight, insert_scalar(n, DT_F32, factor));
}

static void moe_packed_decompose(node *n) {
    check_rank(n, 1, MAX_RANK);
    if (is_sorted(n) == TRI_UNKNOWN) {
        choose_at_run(n);
        return;
    }
    experts e = {.fc1 = packed_linear(n, 2, "gate_type"),
                 .fc2 = packed_linear(n, 4, "down_type"),
                 .fc3 = packed_linear(n, 3, "up_type")};
    route_packed(n, &e);
    mix(n, &e);
}

MICROSOFT_OP(MoE, moe_decompose);
MICROSOFT_OP(MoEPacked, moe_packed_decompose);
MICROSOFT_OP(QMoE, qmoe_decompose);
