// QEmbedLayerNormalization: embeddings and normalisation with quantised weights.
#include "ir/ops/contrib/quantity.h"

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

MICROSOFT_OP(QEmbedLayerNormalization, qembed_layer_norm_decompose);
