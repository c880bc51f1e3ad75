// Normalizations of com.microsoft, and SimplifiedLayerNormalization, which ONNX Runtime has in the standard's domain, as
// graphs of the standard's operators. Statistics are floats for f16 and bf16 tensors, and results are rounded once.
#include "ir/ops/decompose.h"
#include <string.h>

// ---- Layers: x, and sums with x, over the last axes
// 1 / sqrt(mean(x * x) + epsilon) over the axes from `axis` on
static value *inverse_rms(node *n, value *x, int rank, int axis, double epsilon) {
    int64_t axes[MAX_RANK];
    for (int i = axis; i < rank; i++) axes[i - axis] = i;
    value *mean = NODE(n, "ReduceMean", NODE(n, "Mul", x, x), insert_ints(n, axes, rank - axis));
    value *sum = NODE(n, "Add", mean, insert_scalar(n, wide_type(elem_of(n)), epsilon));
    return NODE(n, "Reciprocal", NODE(n, "Sqrt", sum));
}

// x / sqrt(mean(x * x) + epsilon) * scale, for x of type t
static value *rms_normalized(node *n, value *x, value *scale, dtype t, int64_t axis, double epsilon) {
    value *y = NODE(n, "RMSNormalization", x, scale);
    with_int(with_float(y, "epsilon", epsilon), "axis", axis);
    return t == DT_F64 ? with_int(y, "stash_type", DT_F64) : y;
}

static value *rms_of(node *n, value *x, value *scale) {
    return rms_normalized(n, x, scale, DT_F32, -1, node_float(n, "epsilon", 1e-5f));
}

static value *layer_normalized(node *n, value *x, value *scale, value *beta, dtype t) {
    value *y = NODE(n, "LayerNormalization", x, scale, beta);
    with_float(y, "epsilon", node_float(n, "epsilon", 1e-12f));
    return t == DT_F64 ? with_int(y, "stash_type", DT_F64) : y;
}

// Whether the scale has the normalised axes, and others before them. Its open sizes count as those of the axes.
static bool scales_outer_axes(node *n, int rank, int axis) {
    int own = infer_rank(n, 1), inner = rank - axis;
    for (int i = 1; i <= inner && i <= own; i++) {
        const dim *size = infer_in(n, 1)->dims[own - i];
        if (dim_is_const(size) && size != infer_in(n, 0)->dims[rank - i]) return false;
    }
    return own > inner;
}

// The scale has an element for each position of the normalised axes, in order and in any shape, unless it is broadcast.
static value *scale_of_axes(node *n, int rank, int axis) {
    if (infer_rank(n, 1) == rank - axis || scales_outer_axes(n, rank, axis)) return widened(n, 1);
    return NODE(n, "Reshape", widened(n, 1), shape_part(n, n->in[0], axis, INT64_MAX));
}

static void simplified_layer_normalization(node *n) {
    int rank = infer_rank(n, 0), axis = infer_axis(n, node_int(n, "axis", -1), rank);
    dtype t = wide_type(elem_of(n)), out = infer_in(n, 1)->elem;
    double epsilon = node_float(n, "epsilon", 1e-5f);
    value *x = widened(n, 0), *scale = cast_to(n, scale_of_axes(n, rank, axis), t);
    if (!node_out(n, 1)) {
        give_output(n, 0, cast_to(n, rms_normalized(n, x, scale, t, axis, epsilon), out));
        return;
    }
    value *inverse = inverse_rms(n, x, rank, axis, epsilon);
    value *y = NODE(n, "Mul", NODE(n, "Mul", x, inverse), scale);
    give_output(n, 0, cast_to(n, y, out));
    give_output(n, 1, with_int(NODE(n, "Cast", inverse), "to", node_int(n, "stash_type", 1)));
}

// input + skip + bias in floats; skip may lack the batch, or have one of size 1.
static value *skip_sum(node *n, int bias) {
    int rank = infer_rank(n, 0);
    const type *x = infer_in(n, 0);
    if (rank < 2 || rank > 3) infer_error(n, "the input has rank %d, but must have rank 2 or 3", rank);
    infer_rank(n, 1);
    infer_broadcast_into(n, 1, rank, x->dims, "skip");
    value *sum = NODE(n, "Add", widened(n, 0), widened(n, 1));
    return node_in(n, bias) ? NODE(n, "Add", sum, widened(n, bias)) : sum;
}

static void skip_layer_normalization(node *n) {
    dtype t = elem_of(n);
    value *sum = skip_sum(n, 4), *y = layer_normalized(n, sum, widened(n, 2), widened(n, 3), wide_type(t));
    if (node_out(n, 1)) give_output(n, 1, cast_to(n, output_of(y, 1), DT_F32));
    if (node_out(n, 2)) give_output(n, 2, cast_to(n, output_of(y, 2), DT_F32));
    give_output(n, 0, narrowed(n, y, t));
    give_output(n, 3, narrowed(n, sum, t));
}

static void skip_simplified_layer_normalization(node *n) {
    dtype t = elem_of(n);
    int rank = infer_rank(n, 0);
    double epsilon = node_float(n, "epsilon", 1e-12f);
    value *sum = skip_sum(n, 3), *y = rms_normalized(n, sum, widened(n, 2), wide_type(t), -1, epsilon);
    if (node_out(n, 1)) give_output(n, 1, cast_to(n, reduced(n, "ReduceMean", sum, -1), DT_F32));
    if (node_out(n, 2)) give_output(n, 2, cast_to(n, inverse_rms(n, sum, rank, rank - 1, epsilon), DT_F32));
    give_output(n, 0, narrowed(n, y, t));
    give_output(n, 3, narrowed(n, sum, t));
}

const op_def op_SimplifiedLayerNormalization = {
    .name = "SimplifiedLayerNormalization", .domain = "", .decompose = simplified_layer_normalization};
MICROSOFT_OP(SkipLayerNormalization, skip_layer_normalization);
MICROSOFT_OP(SkipSimplifiedLayerNormalization, skip_simplified_layer_normalization);

// ---- EmbedLayerNormalization: input_ids, segment_ids, word_embedding, position_embedding, segment_embedding, gamma,
// beta, mask, position_ids

// The first rows of the table, one for each column of input_ids, or the rows at position_ids.
static value *position_rows(node *n) {
    if (node_in(n, 8)) return NODE(n, "Gather", widened(n, 3), n->in[8]);
    const type *ids = infer_in(n, 0), *table = infer_in(n, 3);
    if (infer_rank(n, 0) != 2) infer_error(n, "input_ids has rank %d, but must have rank 2", ids->rank);
    if (infer_rank(n, 3) != 2) infer_error(n, "position_embedding has rank %d, not 2", table->rank);
    if (table->dims[0]->max < ids->dims[1]->min)
        infer_error(n, "position_embedding has %lld rows for sequences of length %lld",
                    (long long)table->dims[0]->max, (long long)ids->dims[1]->min);
    return NODE(n, "Slice", widened(n, 3), insert_ints(n, (const int64_t[]){0}, 1),
                shape_part(n, n->in[0], 1, 2), insert_ints(n, (const int64_t[]){0}, 1));
}

// Elements of each row of the mask that are 1; zeros without a mask.
static value *mask_index(node *n) {
    value *mask = node_in(n, 7), *zero = insert_scalar(n, DT_I32, 0);
    if (!mask) return NODE(n, "Expand", zero, shape_part(n, n->in[0], 0, 1));
    value *ones = cast_to(n, NODE(n, "Equal", mask, insert_scalar(n, DT_I32, 1)), DT_I32);
    return with_int(NODE(n, "ReduceSum", ones, insert_ints(n, (const int64_t[]){1}, 1)), "keepdims", 0);
}

static void embed_layer_normalization(node *n) {
    dtype t = infer_in(n, 2)->elem;
    if (!node_in(n, 1) != !node_in(n, 4))
        infer_error(n, "segment_ids and segment_embedding must be given together");
    value *sum = NODE(n, "Add", NODE(n, "Gather", widened(n, 2), n->in[0]), position_rows(n));
    if (node_in(n, 1)) sum = NODE(n, "Add", sum, NODE(n, "Gather", widened(n, 4), n->in[1]));
    value *y = layer_normalized(n, sum, widened(n, 5), widened(n, 6), wide_type(t));
    if (node_out(n, 1)) give_output(n, 1, mask_index(n));
    give_output(n, 0, narrowed(n, y, t));
    give_output(n, 2, narrowed(n, sum, t));
}
MICROSOFT_OP(EmbedLayerNormalization, embed_layer_normalization);

// ---- Groups of channels: x, gamma, beta (skip, bias); channels may be last
static value *group_normalized(node *n, value *x, int rank) {
    bool last = node_int(n, "channels_last", 1);
    int64_t activation = node_int(n, "activation", 0);
    if (activation < 0 || activation > 1)
        infer_error(n, "attribute activation is %lld, but must be 0 (none) or 1 (SiLU)",
                    (long long)activation);
    if (last) x = channels_moved(n, x, rank, true);
    value *gamma = cast_to(n, n->in[1], DT_F32), *beta = cast_to(n, n->in[2], DT_F32);
    value *y = NODE(n, "GroupNormalization", x, gamma, beta);
    with_attr_of(with_int(y, "num_groups", node_int(n, "groups", 1)), n, "epsilon");
    if (activation) y = with_float(NODE(n, "Swish", y), "alpha", 1);
    return last ? channels_moved(n, y, rank, false) : y;
}

static void group_norm(node *n) {
    give_output(n, 0, narrowed(n, group_normalized(n, widened(n, 0), infer_rank(n, 0)), elem_of(n)));
}

// A skip of two axes has one number for each batch and channel.
static value *skip_of_channels(node *n, int rank) {
    if (infer_rank(n, 3) == rank) return widened(n, 3);
    if (infer_rank(n, 3) != 2)
        infer_error(n, "skip has rank %d, but must have rank 2 or %d", infer_rank(n, 3), rank);
    int64_t axes[MAX_RANK], first = node_int(n, "channels_last", 1) ? 1 : 2;
    for (int i = 0; i < rank - 2; i++) axes[i] = first + i;
    return NODE(n, "Unsqueeze", widened(n, 3), insert_ints(n, axes, rank - 2));
}

static value *bias_of_channels(node *n, int rank) {
    if (node_int(n, "channels_last", 1)) return widened(n, 4);
    int64_t axes[MAX_RANK];
    for (int i = 0; i < rank - 2; i++) axes[i] = 1 + i;
    return NODE(n, "Unsqueeze", widened(n, 4), insert_ints(n, axes, rank - 2));
}

static void skip_group_norm(node *n) {
    int rank = infer_rank(n, 0);
    value *sum = NODE(n, "Add", widened(n, 0), skip_of_channels(n, rank));
    if (node_in(n, 4)) sum = NODE(n, "Add", sum, bias_of_channels(n, rank));
    value *y = narrowed(n, group_normalized(n, sum, rank), elem_of(n));
    give_output(n, 1, narrowed(n, sum, elem_of(n)));
    give_output(n, 0, y);
}
MICROSOFT_OP(GroupNorm, group_norm);
MICROSOFT_OP(SkipGroupNorm, skip_group_norm);

// ---- Branches and heads: the last axis of x is split into rows of equal length

// X * rsqrt(mean(X^2) + epsilon) * scale * activation(gate), for each len(scale) elements of X
static void gated_rms_norm(node *n) {
    const attr *a = node_attr(n, "activation");
    bool sigmoid = a && strcmp(a->s, "sigmoid") == 0;
    if (a && !sigmoid && strcmp(a->s, "silu") != 0 && strcmp(a->s, "swish") != 0)
        infer_error(n, "attribute activation is '%s', but must be silu, swish or sigmoid", a->s);
    const type *x = infer_in(n, 0), *scale = infer_in(n, 1);
    if (infer_rank(n, 0) < 1 || infer_rank(n, 1) != 1) infer_error(n, "the scale must have rank 1");
    value *gate = widened(n, 2), *rows = n->in[0], *y;
    bool whole = dim_equal(x->dims[x->rank - 1], scale->dims[0]) == TRI_YES;
    if (!whole) {
        value *heads = NODE(n, "Div", shape_part(n, rows, -1, INT64_MAX), shape_part(n, n->in[1], 0, 1));
        rows = split_last(n, rows, heads);
    }
    y = rms_of(n, cast_to(n, rows, DT_F32), cast_to(n, n->in[1], DT_F32));
    if (!whole) y = as_shape_of(n, y, n->in[0]);
    gate = sigmoid ? NODE(n, "Sigmoid", gate) : with_float(NODE(n, "Swish", gate), "alpha", 1);
    give_output(n, 0, narrowed(n, NODE(n, "Mul", y, gate), x->elem));
}

// Rows of H elements, of grouped (..., C, H) or, with num_branches, flattened (..., C * H) branches; the scale is
// (H), (C, H) or (C * H).
static void branchwise_rms_norm(node *n) {
    int64_t count = node_int(n, "num_branches", 0);
    if (count < 0) infer_error(n, "attribute num_branches is %lld", (long long)count);
    if (infer_rank(n, 0) < (count ? 1 : 2)) infer_error(n, "X has rank %d", infer_rank(n, 0));
    value *x = cast_to(n, n->in[0], DT_F32), *one = insert_scalar(n, DT_F32, 1), *y;
    if (count) x = split_last(n, x, insert_ints(n, &count, 1));
    if (!node_in(n, 1)) y = rms_of(n, x, one);
    else if (infer_rank(n, 1) == 2) y = rms_of(n, x, cast_to(n, n->in[1], DT_F32));
    else if (infer_rank(n, 1) == 1) {
        value *scale = cast_to(n, n->in[1], DT_F32);
        value *rows = NODE(n, "Div", shape_part(n, scale, 0, 1), shape_part(n, x, -1, INT64_MAX));
        y = NODE(n, "Mul", rms_of(n, x, one), split_last(n, scale, rows));
    } else infer_error(n, "the scale has rank %d, but must have rank 1 or 2", infer_rank(n, 1));
    if (count) y = as_shape_of(n, y, n->in[0]);
    give_output(n, 0, narrowed(n, y, elem_of(n)));
}
MICROSOFT_OP(GatedRMSNorm, gated_rms_norm);
MICROSOFT_OP(BranchwiseRMSNorm, branchwise_rms_norm);
