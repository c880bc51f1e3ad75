// Streams of hyper-connections, gates, and sums with a bias: operators of com.microsoft as graphs of the standard's
// operators. Streams are grouped (..., C, H), or flattened (..., C * H) where num_branches says how many there are.
#include "ir/ops/decompose.h"

// The number of branches, a vector of one.
static value *branches_of(node *n) {
    int64_t count = node_int(n, "num_branches", 0);
    int rank = infer_rank(n, 0), least = count ? 1 : 2;
    if (count < 0) infer_error(n, "attribute num_branches is %lld", (long long)count);
    if (rank < least) infer_error(n, "the streams have rank %d, but need rank %d", rank, least);
    return count ? insert_ints(n, &count, 1) : shape_part(n, n->in[0], -2, -1);
}

static bool is_flat(const node *n) { return node_int(n, "num_branches", 0) > 0; }

static value *floats_of(node *n, int i) { return cast_to(n, n->in[i], DT_F32); }

// Grouped streams as floats
static value *grouped(node *n, value *branches) {
    return is_flat(n) ? split_last(n, floats_of(n, 0), branches) : floats_of(n, 0);
}

// A mix of (..., C), (..., C, 1), (..., C, H) or, for flattened streams, (..., C * H) as one that broadcasts to
// grouped streams.
static value *mix_of(node *n, int i, value *branches) {
    int rank = infer_rank(n, i), streams = infer_rank(n, 0) + is_flat(n);
    if (rank == streams) return floats_of(n, i);
    if (rank != streams - 1)
        infer_error(n, "the mix has rank %d, but must have rank %d or %d for these streams", rank,
                    streams - 1, streams);
    return split_last(n, floats_of(n, i), branches);
}

// Y[..., h] = reduction_scale * sum_c(X[..., c, h] * pre_mix[..., c, h])
static void hyper_connection_pre_mix(node *n) {
    value *branches = branches_of(n), *x = grouped(n, branches);
    value *product = NODE(n, "Mul", x, mix_of(n, 1, branches));
    value *sum =
        with_int(NODE(n, "ReduceSum", product, insert_ints(n, (const int64_t[]){-2}, 1)), "keepdims", 0);
    double scale = node_float(n, "reduction_scale", 1);
    if (scale != 1) sum = NODE(n, "Mul", sum, insert_scalar(n, DT_F32, scale));
    give_output(n, 0, narrowed(n, sum, elem_of(n)));
}

// Y[..., k, h] = sum_c(stream_mix[..., c, k] * streams[..., c, h]) + post_mix[..., k, h] * block_output[..., h]
static void hyper_connection_post_mix(node *n) {
    value *branches = branches_of(n), *x = grouped(n, branches);
    value *block = NODE(n, "Unsqueeze", floats_of(n, 1), insert_ints(n, (const int64_t[]){-2}, 1));
    value *injected = NODE(n, "Mul", mix_of(n, 2, branches), block);
    if (node_in(n, 3)) {
        int rank = infer_rank(n, 3);
        if (rank < 2) infer_error(n, "stream_mix has rank %d, but must end in a matrix", rank);
        x = NODE(n, "MatMul", swapped_last(n, floats_of(n, 3), rank), x);
    }
    value *y = NODE(n, "Add", x, injected);
    if (is_flat(n)) y = as_shape_of(n, y, n->in[0]);
    give_output(n, 0, narrowed(n, y, elem_of(n)));
}
// One block: hn = RMSNormalization(S) * norm_scale of each branch, with S = streams + prev_post_gate * prev_block_output,
//   d = ScaledSiLU(hn * down), g = sigmoid(d * up), pre_output = reduction_scale * sum_c(hn * g),
//   post_gate = sigmoid(hn * inject / gate_div) * gate_mul
// Each step is rounded to T.
enum { MIX_STREAMS, MIX_SCALE, MIX_DOWN, MIX_UP, MIX_INJECT, MIX_BLOCK, MIX_GATE };

static value *scaled(node *n, value *v, const char *op, const char *attribute) {
    double factor = node_float(n, attribute, 1);
    return factor != 1 ? NODE(n, op, v, number_like(n, factor, 0)) : v;
}

static value *mixed_streams(node *n, value *branches) {
    value *x = n->in[MIX_STREAMS], *block = node_in(n, MIX_BLOCK), *gate = node_in(n, MIX_GATE);
    if (!block != !gate)
        infer_error(n, "prev_block_output and prev_post_gate must both be given, or neither");
    if (!block) return x;
    block = NODE(n, "Unsqueeze", cast_to(n, block, DT_F32), insert_ints(n, (const int64_t[]){-2}, 1));
    gate = NODE(n, "Unsqueeze", cast_to(n, gate, DT_F32), insert_ints(n, (const int64_t[]){-1}, 1));
    value *sum = NODE(n, "Add", split_last(n, cast_to(n, x, DT_F32), branches), NODE(n, "Mul", gate, block));
    return cast_to(n, as_shape_of(n, sum, x), elem_of(n));
}

static value *normalised_branches(node *n, value *streams, value *branches) {
    value *x = split_last(n, cast_to(n, streams, DT_F32), branches);
    value *mean = reduced(n, "ReduceMean", NODE(n, "Mul", x, x), -1);
    mean = NODE(n, "Add", mean, insert_scalar(n, DT_F32, node_float(n, "epsilon", 1e-5f)));
    value *scale = split_last(n, cast_to(n, n->in[MIX_SCALE], DT_F32), branches);
    value *y = NODE(n, "Mul", NODE(n, "Div", x, NODE(n, "Sqrt", mean)), scale);
    return cast_to(n, as_shape_of(n, y, streams), elem_of(n));
}

static value *low_rank_gate(node *n, value *hn) {
    value *z = scaled(n, NODE(n, "MatMul", hn, n->in[MIX_DOWN]), "Mul", "silu_alpha");
    value *hidden = NODE(n, "Mul", z, NODE(n, "Sigmoid", z));
    return NODE(n, "Sigmoid", NODE(n, "MatMul", hidden, n->in[MIX_UP]));
}

static void hyper_connection_low_rank_mix(node *n) {
    int64_t count = node_int(n, "num_branches", 0);
    if (count < 1) infer_error(n, "attribute num_branches is %lld; it must be positive", (long long)count);
    if (infer_rank(n, MIX_STREAMS) < 1 || infer_rank(n, MIX_SCALE) != 1)
        infer_error(n, "the streams and norm_scale have ranks %d and %d; they must be positive and 1",
                    infer_rank(n, MIX_STREAMS), infer_rank(n, MIX_SCALE));
    value *branches = insert_ints(n, &count, 1), *streams = mixed_streams(n, branches);
    value *hn = normalised_branches(n, streams, branches), *gate = low_rank_gate(n, hn);
    if (node_out(n, 2)) give_output(n, 2, NODE(n, "Identity", streams));
    value *inject = scaled(n, NODE(n, "MatMul", hn, n->in[MIX_INJECT]), "Div", "gate_div");
    give_output(n, 1, scaled(n, NODE(n, "Sigmoid", inject), "Mul", "gate_mul"));
    value *product = NODE(n, "Mul", cast_to(n, hn, DT_F32), cast_to(n, gate, DT_F32));
    product = split_last(n, product, branches);
    value *sum =
        with_int(NODE(n, "ReduceSum", product, insert_ints(n, (const int64_t[]){-2}, 1)), "keepdims", 0);
    double scale = node_float(n, "reduction_scale", 1);
    if (scale != 1) sum = NODE(n, "Mul", sum, insert_scalar(n, DT_F32, scale));
    give_output(n, 0, cast_to(n, sum, elem_of(n)));
}
MICROSOFT_OP(HyperConnectionLowRankMix, hyper_connection_low_rank_mix);
MICROSOFT_OP(HyperConnectionPreMix, hyper_connection_pre_mix);
MICROSOFT_OP(HyperConnectionPostMix, hyper_connection_post_mix);

// ---- EngramGate: key, query, value, key_norm_scale, query_norm_scale, conv_norm_scale
static value *rms_scaled(node *n, int x, int scale) {
    value *y = NODE(n, "RMSNormalization", floats_of(n, x), floats_of(n, scale));
    return with_float(y, "epsilon", node_float(n, "epsilon", 1e-5f));
}

static value *over_last(node *n, const char *op, value *v) { return reduced(n, op, v, -1); }

// gate = sigmoid(sign(dot) * sqrt(max(abs(dot), 1e-6))), dot = sum(key' * query') / sqrt(hidden_size)
static value *engram_gate_of(node *n) {
    value *hidden = cast_to(n, shape_part(n, n->in[1], -1, INT64_MAX), DT_F32);
    value *product = NODE(n, "Mul", rms_scaled(n, 0, 3), rms_scaled(n, 1, 4));
    value *dot = NODE(n, "Div", over_last(n, "ReduceSum", product), NODE(n, "Sqrt", hidden));
    value *size = NODE(n, "Max", NODE(n, "Abs", dot), insert_scalar(n, DT_F32, 1e-6f));
    return NODE(n, "Sigmoid", NODE(n, "Mul", NODE(n, "Sign", dot), NODE(n, "Sqrt", size)));
}

static void engram_gate(node *n) {
    if (node_out(n, 1) && !node_in(n, 5))
        infer_error(n, "the output gated_value_normed needs the input conv_norm_scale");
    value *row = NODE(n, "Unsqueeze", floats_of(n, 2), insert_ints(n, (const int64_t[]){-2}, 1));
    value *gated = NODE(n, "Mul", engram_gate_of(n), row), *rounded = narrowed(n, gated, elem_of(n));
    if (node_out(n, 1)) {
        value *mean = over_last(n, "ReduceMean", NODE(n, "Mul", gated, gated));
        mean = NODE(n, "Add", mean, insert_scalar(n, DT_F32, node_float(n, "epsilon", 1e-5f)));
        value *inverse = NODE(n, "Reciprocal", NODE(n, "Sqrt", mean));
        value *y = NODE(n, "Mul", NODE(n, "Mul", cast_to(n, rounded, DT_F32), inverse), floats_of(n, 5));
        give_output(n, 1, narrowed(n, y, elem_of(n)));
    }
    give_output(n, 0, rounded);
}
MICROSOFT_OP(EngramGate, engram_gate);

// X + Y * gate, with the product rounded. With a weight the gate is sigmoid(gate * weight), rounded twice.
static void gated_add(node *n) {
    value *gate = n->in[2];
    if (node_in(n, 3)) gate = NODE(n, "Sigmoid", NODE(n, "MatMul", gate, n->in[3]));
    give_output(n, 0, NODE(n, "Add", n->in[0], NODE(n, "Mul", n->in[1], gate)));
}
MICROSOFT_OP(GatedAdd, gated_add);

// ---- Sums with a bias, in floats
static value *bias_sum(node *n) { return NODE(n, "Add", widened(n, 0), widened(n, 1)); }

static void bias_add(node *n) {
    give_output(n, 0, narrowed(n, NODE(n, "Add", bias_sum(n), widened(n, 2)), elem_of(n)));
}

// The left half of the last axis times the GELU of the right half
static void bias_split_gelu(node *n) {
    value *halves = with_int(with_int(NODE(n, "Split", bias_sum(n)), "axis", -1), "num_outputs", 2);
    value *right = output_of(halves, 1);
    give_output(n, 0, narrowed(n, NODE(n, "Mul", halves, NODE(n, "Gelu", right)), elem_of(n)));
}

// The softmax is over the axes from `axis` on, as those of operator sets before 13.
static void bias_softmax(node *n) {
    int rank = infer_rank(n, 0), axis = infer_axis(n, node_int(n, "axis", 1), rank);
    value *sum = bias_sum(n), *rows = sum;
    if (axis != rank - 1) rows = with_int(NODE(n, "Flatten", sum), "axis", axis);
    value *y = with_int(NODE(n, "Softmax", rows), "axis", -1);
    if (axis != rank - 1) y = as_shape_of(n, y, n->in[0]);
    give_output(n, 0, narrowed(n, y, elem_of(n)));
}
MICROSOFT_OP(BiasAdd, bias_add);
MICROSOFT_OP(BiasSplitGelu, bias_split_gelu);
MICROSOFT_OP(BiasSoftmax, bias_softmax);

// ---- Dropout: data (bias, residual), ratio, training_mode
static value *dropout_of(node *n, value *x, int ratio) {
    value *y = NODE(n, "Dropout", x, node_in(n, ratio), node_in(n, ratio + 1));
    return with_attr_of(y, n, "seed");
}

// 32 elements of a boolean tensor in each number, the first one in the lowest bit; bits after the last are set.
static value *bits_packed(node *n, value *mask) {
    value *flat = NODE(n, "Reshape", cast_to(n, mask, DT_U32), insert_ints(n, (const int64_t[]){-1}, 1));
    value *pads = insert_ints(n, (const int64_t[]){0, 31}, 2), *one = insert_scalar(n, DT_U32, 1);
    value *padded = NODE(n, "Pad", flat, pads, one), *word = insert_ints(n, (const int64_t[]){32}, 1);
    value *count = NODE(n, "Div", shape_part(n, padded, 0, 1), word),
          *zero = insert_ints(n, (const int64_t[]){0}, 1);
    value *whole = NODE(n, "Slice", padded, zero, NODE(n, "Mul", count, word), zero);
    value *words = NODE(n, "Reshape", whole, JOINED(n, count, word));
    value *from = insert_scalar(n, DT_I32, 0), *to = insert_scalar(n, DT_I32, 32),
          *by = insert_scalar(n, DT_I32, 1);
    value *places = cast_to(n, NODE(n, "Range", from, to, by), DT_U32);
    value *set = with_string(NODE(n, "BitShift", words, places), "direction", "LEFT");
    return with_int(NODE(n, "ReduceSum", set, insert_ints(n, (const int64_t[]){1}, 1)), "keepdims", 0);
}

static void bitmask_dropout(node *n) {
    value *y = dropout_of(n, n->in[0], 1);
    if (node_out(n, 1)) give_output(n, 1, bits_packed(n, output_of(y, 1)));
    give_output(n, 0, y);
}

static void drop_with_bias(node *n, bool packed) {
    value *y = dropout_of(n, NODE(n, "Add", n->in[0], n->in[1]), 3);
    if (node_out(n, 1)) {
        value *mask = output_of(y, 1);
        give_output(n, 1, packed ? bits_packed(n, mask) : mask);
    }
    give_output(n, 0, node_in(n, 2) ? NODE(n, "Add", y, n->in[2]) : y);
}

static void bias_dropout(node *n) { drop_with_bias(n, false); }
static void bitmask_bias_dropout(node *n) { drop_with_bias(n, true); }
MICROSOFT_OP(BitmaskDropout, bitmask_dropout);
MICROSOFT_OP(BiasDropout, bias_dropout);
MICROSOFT_OP(BitmaskBiasDropout, bitmask_bias_dropout);
