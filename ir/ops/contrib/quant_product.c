// Products of quantised matrices.
//
//   QGemm:                 round((op(A) * op(B) + C) * (alpha * sa * sb / sy)) + zy, or floats without sy
//   MatMulIntegerToFloat:  (A - za) * (B - zb) * (sa * sb) + bias
//   DynamicQuantizeMatMul: the same, with A quantised as by DynamicQuantizeLinear
#include "ir/ops/contrib/quantity.h"

static value *transposed_input(node *n, int i, const char *attribute) {
    return node_int(n, attribute, 0) ? transposed(n, n->in[i], 2, (int64_t[]){1, 0}) : n->in[i];
}

static void qgemm_decompose(node *n) {
    quantity a = quantity_at(n, 1, 2), y = quantity_at(n, 7, 8);
    value *sum = NODE(n, "MatMulInteger", transposed_input(n, 0, "transA"), transposed_input(n, 3, "transB"),
                      a.zero, node_in(n, 5));
    if (node_in(n, 6)) sum = NODE(n, "Add", sum, n->in[6]);
    value *scale = NODE(n, "Mul", insert_scalar(n, DT_F32, node_float(n, "alpha", 1)), a.scale);
    scale = NODE(n, "Mul", scale, n->in[4]);
    if (y.scale) scale = NODE(n, "Div", scale, y.scale);
    value *v = NODE(n, "Mul", cast_to(n, sum, DT_F32), scale);
    give_output(n, 0, y.scale ? rounded(n, v, y.zero, infer_in(n, 0)->elem) : v);
}

static void give_scaled(node *n, value *sum, value *a_scale, value *b_scale, value *bias) {
    dtype t = b_scale->type.elem;
    value *y = NODE(n, "Mul", cast_to(n, sum, t), NODE(n, "Mul", a_scale, b_scale));
    give_output(n, 0, bias ? NODE(n, "Add", y, bias) : y);
}

static void matmul_integer_to_float_decompose(node *n) {
    quantity a = quantity_at(n, 2, 4);
    value *sum = NODE(n, "MatMulInteger", n->in[0], n->in[1], a.zero, node_in(n, 5));
    give_scaled(n, sum, a.scale, n->in[3], node_in(n, 6));
}

static void dynamic_quantize_matmul_decompose(node *n) {
    value *a = NODE(n, "DynamicQuantizeLinear", n->in[0]), *scale = output_of(a, 1), *zero = output_of(a, 2);
    value *sum = NODE(n, "MatMulInteger", a, n->in[1], zero, node_in(n, 3));
    give_scaled(n, sum, scale, n->in[2], node_in(n, 4));
}

static void matmul_integer16_decompose(node *n) {
    bool positive = infer_in(n, 0)->elem == DT_U16 && infer_in(n, 1)->elem == DT_U16;
    dtype t = positive ? DT_U32 : DT_I32;
    give_output(n, 0, NODE(n, "MatMul", cast_to(n, n->in[0], t), cast_to(n, n->in[1], t)));
}

MICROSOFT_OP(DynamicQuantizeMatMul, dynamic_quantize_matmul_decompose);
MICROSOFT_OP(MatMulInteger16, matmul_integer16_decompose);
MICROSOFT_OP(MatMulIntegerToFloat, matmul_integer_to_float_decompose);
MICROSOFT_OP(QGemm, qgemm_decompose);
