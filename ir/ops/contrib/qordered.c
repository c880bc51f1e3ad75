// Operators on int8 for cuBLASLt, whose matrices have an order. Those in rows and in columns (the transposed matrix, of the
// same sizes) are supported; the orders in tiles are those of one vendor's GPUs.
#include "ir/ops/decompose.h"
#include <string.h>

enum { IN_COLUMNS, IN_ROWS };

static void need_order(const node *n, const char *name, int64_t order) {
    if (order != IN_COLUMNS && order != IN_ROWS)
        infer_error(n,
                    "attribute %s is %lld, an order in tiles of cuBLASLt; it must be 0 (columns) or 1 (rows)",
                    name, (long long)order);
}

// Rounded to the nearest, ties to even, within -128..127.
static value *quantised(node *n, value *x, value *scale) {
    x = NODE(n, "Round", NODE(n, "Div", x, scale));
    x = NODE(n, "Clip", x, insert_scalar(n, DT_F32, -128), insert_scalar(n, DT_F32, 127));
    return cast_to(n, x, DT_I8);
}

static value *real_at(node *n, int i, int scale) {
    return NODE(n, "Mul", cast_to(n, n->in[i], DT_F32), as_scalar(n, n->in[scale]));
}

// The elements of matrices in one order, in the memory of the other.
static value *in_order(node *n, value *v, int64_t from, int64_t to) {
    int rank = infer_rank(n, 0);
    if (from == to || rank < 2) return v;
    value *sizes = NODE(n, "Shape", n->in[0]);
    if (from == IN_ROWS) return NODE(n, "Reshape", swapped_last(n, v, rank), sizes);
    value *last = shape_part(n, n->in[0], -2, -1), *first = shape_part(n, n->in[0], -1, INT64_MAX);
    value *stored =
        rank > 2 ? JOINED(n, shape_part(n, n->in[0], 0, -2), first, last) : JOINED(n, first, last);
    return swapped_last(n, NODE(n, "Reshape", v, stored), rank);
}

static value *reordered(node *n, value *v) {
    int64_t from = node_int(n, "order_input", 1), to = node_int(n, "order_output", 1);
    need_order(n, "order_input", from);
    need_order(n, "order_output", to);
    return in_order(n, v, from, to);
}

static void quantize_with_order(node *n) {
    value *y = quantised(n, cast_to(n, n->in[0], DT_F32), as_scalar(n, n->in[1]));
    give_output(n, 0, reordered(n, y));
}
MICROSOFT_OP(QuantizeWithOrder, quantize_with_order);

static void dequantize_with_order(node *n) {
    int64_t to = node_int(n, "to", 1);
    if (to != DT_F32 && to != DT_F16)
        infer_error(n, "attribute to is %lld; it must be 1 or 10", (long long)to);
    give_output(n, 0, cast_to(n, reordered(n, real_at(n, 0, 1)), (dtype)to));
}
MICROSOFT_OP(DequantizeWithOrder, dequantize_with_order);

// Element by element: the order does not matter, if it stays.
static void qordered_gelu(node *n) {
    if (node_int(n, "order_X", 1) != node_int(n, "order_Y", 1))
        infer_error(n, "attributes order_X and order_Y are %lld and %lld; they must be equal",
                    (long long)node_int(n, "order_X", 1), (long long)node_int(n, "order_Y", 1));
    give_output(n, 0, quantised(n, NODE(n, "Gelu", real_at(n, 0, 1)), as_scalar(n, n->in[2])));
}
MICROSOFT_OP(QOrderedGelu, qordered_gelu);

static void need_rows(const node *n, const char *name) {
    if (node_int(n, name, 1) != IN_ROWS)
        infer_error(n, "attribute %s is %lld; only matrices in rows (1) are supported", name,
                    (long long)node_int(n, name, 1));
}

static void qordered_layer_norm(node *n) {
    need_rows(n, "order_X");
    need_rows(n, "order_Y");
    value *y = NODE(n, "LayerNormalization", real_at(n, 0, 1), cast_to(n, n->in[2], DT_F32),
                    node_in(n, 3) ? cast_to(n, n->in[3], DT_F32) : NULL);
    with_float(with_int(y, "axis", node_int(n, "axis", -1)), "epsilon", node_float(n, "epsilon", 1e-5f));
    give_output(n, 0, quantised(n, y, as_scalar(n, n->in[4])));
}
MICROSOFT_OP(QOrderedLayerNormalization, qordered_layer_norm);

// A in rows, B in columns: the memory of B', so that B' has the sizes of B in reverse.
//
//   Y = A * B * scale_A * scale_B / scale_Y + bias / scale_Y + C * scale_C / scale_Y
static void qordered_matmul(node *n) {
    need_rows(n, "order_A");
    need_rows(n, "order_Y");
    if (node_int(n, "order_B", 0) != IN_COLUMNS)
        infer_error(n, "attribute order_B is %lld; only weights in columns (0) are supported",
                    (long long)node_int(n, "order_B", 0));
    int rank = infer_rank(n, 2);
    if (rank != 2 && rank != 3) infer_error(n, "B has rank %d, not 2 or 3", rank);
    value *rows = shape_part(n, n->in[2], -2, -1), *columns = shape_part(n, n->in[2], -1, INT64_MAX);
    value *stored =
        rank == 2 ? JOINED(n, columns, rows) : JOINED(n, shape_part(n, n->in[2], 0, 1), columns, rows);
    value *b = swapped_last(n, NODE(n, "Reshape", n->in[2], stored), rank);
    value *y = cast_to(n, NODE(n, "MatMulInteger", n->in[0], b), DT_F32);
    value *scale = NODE(n, "Mul", as_scalar(n, n->in[1]), n->in[3]); // of each column, or of all
    y = NODE(n, "Mul", y, scale);
    if (node_in(n, 5)) y = NODE(n, "Add", y, n->in[5]);
    if (node_in(n, 6)) {
        if (!node_in(n, 7)) infer_error(n, "input 7, the scale of C, is missing");
        y = NODE(n, "Add", y, real_at(n, 6, 7));
    }
    give_output(n, 0, quantised(n, y, as_scalar(n, n->in[4])));
}
MICROSOFT_OP(QOrderedMatMul, qordered_matmul);
