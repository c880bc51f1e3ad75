// Layers with quantised weights: QEmbedLayerNormalization, DynamicQuantizeLSTM.
#include "ir/ops/contrib/quantity.h"

// ---- QEmbedLayerNormalization
//
//   y = LayerNormalization(word[ids] + position[0 .. length) + segment[segment ids], gamma, beta)
//   mask index = how many elements of a row of the mask are 1

static value *table_at(node *n, int data, int scale, int zero) {
    return real_of(n, n->in[data], quantity_at(n, scale, zero));
}

static value *mask_index(node *n, value *sizes) {
    value *mask = node_in(n, 7);
    if (!mask) return NODE(n, "Expand", insert_scalar(n, DT_I32, 0), sliced(n, sizes, 0, 0, 1));
    value *ones = cast_to(n, NODE(n, "Equal", mask, insert_scalar(n, DT_I32, 1)), DT_I32);
    return with_int(NODE(n, "ReduceSum", ones, insert_ints(n, (int64_t[]){1}, 1)), "keepdims", 0);
}

static void qembed_layer_norm_decompose(node *n) {
    bool segments = node_in(n, 1) != NULL;
    if (segments != (node_in(n, 4) != NULL))
        infer_error(n, "input %d is there, input %d is missing; segments need both", segments ? 1 : 4,
                    segments ? 4 : 1);
    value *sizes = NODE(n, "Shape", n->in[0]), *from = insert_ints(n, (int64_t[]){0}, 1);
    value *sum = NODE(n, "Gather", table_at(n, 2, 8, 13), n->in[0]);
    value *places = NODE(n, "Slice", table_at(n, 3, 9, 14), from, sliced(n, sizes, 0, 1, 2), from);
    sum = NODE(n, "Add", sum, places);
    if (segments) sum = NODE(n, "Add", sum, NODE(n, "Gather", table_at(n, 4, 10, 15), n->in[1]));
    value *y = NODE(n, "LayerNormalization", sum, table_at(n, 5, 11, 16), table_at(n, 6, 12, 17));
    with_float(with_int(y, "axis", -1), "epsilon", node_float(n, "epsilon", 1e-12f));
    give_output(n, 1, mask_index(n, sizes));
    give_output(n, 0, y);
}

// ---- DynamicQuantizeLSTM
//
// LSTM with dequantised weights. ONNX Runtime also rounds the input and the hidden state of each step to bytes, to multiply
// integers; here they stay as they are.

// direction x rows x columns as floats, direction x columns x rows.
static value *weights_at(node *n, int data, int scale, int zero) {
    value *w = cast_to(n, cast_to(n, n->in[data], DT_I32), DT_F32), *s = n->in[scale], *z = node_in(n, zero);
    bool each = infer_rank(n, scale) == 2; // a scale for each column
    value *axes = each ? insert_ints(n, (int64_t[]){1}, 1) : insert_ints(n, (int64_t[]){1, 2}, 2);
    if (z) w = NODE(n, "Sub", w, NODE(n, "Unsqueeze", cast_to(n, z, DT_F32), axes));
    w = NODE(n, "Mul", w, NODE(n, "Unsqueeze", s, axes));
    return transposed(n, w, 3, (int64_t[]){0, 2, 1});
}

static void dynamic_quantize_lstm_decompose(node *n) {
    value *w = weights_at(n, 1, 8, 9), *r = weights_at(n, 2, 10, 11);
    value *y = NODE(n, "LSTM", n->in[0], w, r, node_in(n, 3), node_in(n, 4), node_in(n, 5), node_in(n, 6),
                    node_in(n, 7));
    for (int i = 0; i < n->nattrs; i++) node_set_attr(y->def, n->attrs[i]);
    for (int i = 2; i >= 0; i--)
        if (node_out(n, i)) give_output(n, i, output_of(y, i));
}

MICROSOFT_OP(DynamicQuantizeLSTM, dynamic_quantize_lstm_decompose);
MICROSOFT_OP(QEmbedLayerNormalization, qembed_layer_norm_decompose);
