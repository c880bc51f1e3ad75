// Products with weights in floats of 4 and 8 bits that have a scale for each block of a row, which become the activation's
// type before the product: MatMulBlockQuantizedFp4Weight, MatMulBlockQuantizedFp8Weight.
//
//   w[n, k] = weight[n, k] * scale[n, k / block_size]
//   y = a * w' + bias
#include "ir/ops/contrib/packed.h"

static value *in_blocks(node *n, value *w, value *scales) {
    int64_t block = node_int(n, "block_size", 0);
    if (block < 1) infer_error(n, "attribute block_size is %lld; it must be positive", (long long)block);
    return with_int(with_int(NODE(n, "DequantizeLinear", w, scales), "axis", 1), "block_size", block);
}

static void give_product(node *n, value *a, value *w, int bias) {
    dtype t = infer_in(n, 0)->elem;
    w = cast_to(n, cast_to(n, w, t), DT_F32);
    value *y = NODE(n, "MatMul", a, transposed(n, w, 2, (int64_t[]){1, 0}));
    if (node_in(n, bias)) y = NODE(n, "Add", y, cast_to(n, n->in[bias], DT_F32));
    give_output(n, 0, from_float(n, y, t));
}

// weight: two elements in a byte; scale: bytes of e4m3, and one number for all weights
static void matmul_fp4_decompose(node *n) {
    value *scales = reinterpreted_as(n, n->in[2], DT_F8E4M3FN, 2, (int64_t[]){0, 0});
    value *all = NODE(n, "Reshape", n->in[3], insert_ints(n, NULL, 0));
    scales = NODE(n, "Mul", cast_to(n, scales, DT_F32), all);
    value *w = reinterpreted_as(n, n->in[1], DT_F4E2M1, 2, (int64_t[]){0, -1});
    if (!n->in[1]->constant) { // floats by now, which DequantizeLinear does not take
        int64_t block = node_int(n, "block_size", 16), none[] = {0, 0};
        value *columns = shape_part(n, w, 1, 2), *axes = insert_ints(n, (int64_t[]){2}, 1);
        value *each = NODE(n, "Unsqueeze", scales, axes);
        value *sizes = JOINED(n, shape_part(n, scales, 0, 2), insert_ints(n, &block, 1));
        value *long_rows = reshaped(n, NODE(n, "Expand", each, sizes), 2, (int64_t[]){0, -1});
        value *from = insert_ints(n, none, 1), *axis = insert_ints(n, (int64_t[]){1}, 1);
        w = NODE(n, "Mul", w, NODE(n, "Slice", long_rows, from, columns, axis));
    } else {
        w = in_blocks(n, w, scales);
    }
    give_product(n, cast_to(n, n->in[0], DT_F32), w, 5);
}

// a_scale: the activation is rounded to e4m3, too
static void matmul_fp8_decompose(node *n) {
    value *a = cast_to(n, n->in[0], DT_F32);
    if (node_in(n, 3)) {
        value *scale = NODE(n, "Reshape", n->in[3], insert_ints(n, NULL, 0));
        a = cast_to(n, NODE(n, "Div", a, scale), DT_F8E4M3FN);
        a = NODE(n, "Mul", cast_to(n, a, DT_F32), scale);
    }
    give_product(n, a, in_blocks(n, n->in[1], n->in[2]), 4);
}

MICROSOFT_OP(MatMulBlockQuantizedFp4Weight, matmul_fp4_decompose);
MICROSOFT_OP(MatMulBlockQuantizedFp8Weight, matmul_fp8_decompose);
