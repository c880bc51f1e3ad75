// Quantisation to 4 and 8 bits in TensorRT's operators, as the standard's QuantizeLinear and DequantizeLinear (domain trt; NVIDIA's
// Model Optimizer and Transformer Engine write them; docs.nvidia.com/deeplearning/tensorrt, Quantize, Dequantize and DynamicQuantize).
//
//   Quantize, Dequantize         as the standard's; names that begin with TRT_FP8 and TRT_INT4 say the element type
//   TRT_MXFP8                    floats of 8 bits, each block with a power of two, whose exponent is the byte of a scale
//   TRT_FP4DynamicQuantize       floats of 4 bits, each block with a float of 8 bits, in units of the second input
#include "ir/ops/contrib/packed.h"

// Exporters whose framework lacks floats of 8 bits declare bytes in their place.
static bool are_bytes(const type *given, dtype t) {
    return given->kind == TYPE_TENSOR && given->elem == DT_U8 && dtype_bits(t) == 8;
}

static value *elements(node *n, int i, dtype t) {
    bool bytes = t != DT_U8 && are_bytes(infer_in(n, i), t);
    return bytes ? with_int(NODE(n, "BitCast", n->in[i]), "to", t) : n->in[i];
}

static void give_elements(node *n, value *v, dtype t) {
    if (node_out(n, 0) && are_bytes(&n->out[0]->type, t)) n->out[0]->type.elem = t;
    give_output(n, 0, v);
}

// The axis along which there are fewer scales than elements; -1: there is none that is known.
static int blocked_axis(const type *x, const type *scale) {
    for (int j = 0; j < x->rank; j++)
        if (dim_is_const(x->dims[j]) && dim_is_const(scale->dims[j]) && x->dims[j] != scale->dims[j])
            return j;
    return -1;
}

// TensorRT's axis is the first one unless given. Scales of x's rank tell the axis of the blocks and their size, whatever the
// attributes say: the Model Optimizer writes axis 0 for weights that are transposed later, too.
static value *along_axis(node *n, value *y) {
    int64_t axis = node_int(n, "axis", 0), block = node_int(n, "block_size", 0);
    if (infer_has_rank(n, 0) && infer_has_rank(n, 1) && infer_rank(n, 0) == infer_rank(n, 1) &&
        infer_rank(n, 0) > 1) {
        const type *x = infer_in(n, 0), *scale = infer_in(n, 1);
        int found = blocked_axis(x, scale);
        int64_t count = found < 0 ? 0 : dim_value(scale->dims[found]);
        if (count > 0) axis = found, block = (dim_value(x->dims[found]) + count - 1) / count;
    }
    if (block) with_int(y, "block_size", block);
    return with_int(y, "axis", axis);
}

// t DT_NONE: as the zero point or the attribute says
static void quantize_to(node *n, dtype t) {
    value *zero = node_in(n, 2);
    if (t == DT_NONE && zero) t = infer_in(n, 2)->elem;
    if (t == DT_NONE) t = (dtype)node_int(n, "output_dtype", DT_NONE);
    if (t == DT_NONE) t = DT_I8;
    value *y = along_axis(n, NODE(n, "QuantizeLinear", n->in[0], n->in[1], zero));
    give_elements(n, with_attr_of(with_int(y, "output_dtype", t), n, "saturate"), t);
}

static void dequantize_from(node *n, dtype t) {
    value *zero = node_in(n, 2);
    if (t == DT_NONE) t = infer_in(n, zero ? 2 : 0)->elem;
    if (zero) zero = elements(n, 2, t);
    value *y = along_axis(n, NODE(n, "DequantizeLinear", elements(n, 0, t), n->in[1], zero));
    give_output(n, 0, with_attr_of(y, n, "output_dtype"));
}

static void quantize_decompose(node *n) { quantize_to(n, DT_NONE); }
static void dequantize_decompose(node *n) { dequantize_from(n, DT_NONE); }
static void fp8_quantize_decompose(node *n) { quantize_to(n, DT_F8E4M3FN); }
static void fp8_dequantize_decompose(node *n) { dequantize_from(n, DT_F8E4M3FN); }
static void int4_quantize_decompose(node *n) { quantize_to(n, DT_I4); }
static void int4_dequantize_decompose(node *n) { dequantize_from(n, DT_I4); }

// ---------------------------------------------------------------- scales of blocks from their elements
typedef struct blocks {
    int axis;
    int64_t size;
} blocks;

static blocks blocks_of(const node *n, int64_t size) {
    int rank = infer_rank(n, 0);
    int64_t axis = node_int(n, "axis", -1), block = node_int(n, "block_size", size);
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank || block < 1)
        infer_error(n, "axis is %lld, block_size %lld, and the tensor has rank %d",
                    (long long)node_int(n, "axis", -1), (long long)block, rank);
    const dim *count = infer_in(n, 0)->dims[axis];
    if (dim_is_const(count) && dim_value(count) % block)
        infer_error(n, "axis %lld has %lld elements, no multiple of the blocks of %lld", (long long)axis,
                    (long long)dim_value(count), (long long)block);
    return (blocks){(int)axis, block};
}

static value *in_blocks(value *y, blocks b) {
    return with_int(with_int(y, "axis", b.axis), "block_size", b.size);
}

// The greatest size in each block of x.
static value *greatest_of(node *n, value *x, blocks b) {
    value *size = one_int(n, b.size), *count = shape_part(n, x, b.axis, b.axis + 1);
    value *before = b.axis ? shape_part(n, x, 0, b.axis) : insert_ints(n, NULL, 0);
    value *sizes =
        JOINED(n, before, NODE(n, "Div", count, size), size, shape_part(n, x, b.axis + 1, INT64_MAX));
    value *split = with_int(NODE(n, "Reshape", NODE(n, "Abs", x), sizes), "allowzero", 1);
    return with_int(NODE(n, "ReduceMax", split, one_int(n, b.axis + 1)), "keepdims", 0);
}

static value *quantised_blocks(node *n, value *scale, dtype t, blocks b) {
    value *y = with_int(NODE(n, "QuantizeLinear", n->in[0], scale), "output_dtype", t);
    return in_blocks(with_int(y, "precision", DT_F32), b);
}

static void check_float8(const node *n, const char *name) {
    int64_t code = node_int(n, name, DT_F8E4M3FN);
    if (code != DT_F8E4M3FN)
        infer_error(n, "attribute %s is %lld; it must be %d, %s", name, (long long)code, DT_F8E4M3FN,
                    dtype_name(DT_F8E4M3FN));
}

// The scale is the next power of two above greatest / 448.
static void mxfp8_dynamic_quantize_decompose(node *n) {
    check_float8(n, "output_dtype");
    blocks b = blocks_of(n, 32);
    value *greatest = greatest_of(n, cast_to(n, n->in[0], DT_F32), b);
    value *scale = NODE(n, "Div", greatest, insert_scalar(n, DT_F32, 448));
    scale = with_string(cast_to(n, scale, DT_F8E8M0), "round_mode", "up");
    give_elements(n, quantised_blocks(n, scale, DT_F8E4M3FN, b), DT_F8E4M3FN);
    give_output(n, 1, with_int(NODE(n, "BitCast", scale), "to", DT_U8));
}

static void mxfp8_dequantize_decompose(node *n) {
    blocks b = blocks_of(n, 32);
    value *y = NODE(n, "DequantizeLinear", elements(n, 0, DT_F8E4M3FN), elements(n, 1, DT_F8E8M0));
    give_output(n, 0, in_blocks(with_int(y, "output_dtype", node_int(n, "output_dtype", DT_F32)), b));
}

// The scale is greatest / 6, in units of the second input and rounded to a float of 8 bits. A scale of zero makes any element zero.
static void fp4_dynamic_quantize_decompose(node *n) {
    check_float8(n, "scale_type");
    blocks b = blocks_of(n, 16);
    value *unit = reshaped(n, cast_to(n, n->in[1], DT_F32), 0, NULL);
    value *greatest = greatest_of(n, cast_to(n, n->in[0], DT_F32), b);
    value *scale = NODE(n, "Div", NODE(n, "Div", greatest, insert_scalar(n, DT_F32, 6)), unit);
    scale = cast_to(n, scale, DT_F8E4M3FN);
    value *whole = NODE(n, "Mul", cast_to(n, scale, DT_F32), unit);
    value *none = NODE(n, "Equal", whole, insert_scalar(n, DT_F32, 0));
    whole = NODE(n, "Where", none, insert_scalar(n, DT_F32, 1), whole);
    give_output(n, 0, quantised_blocks(n, whole, DT_F4E2M1, b));
    give_output(n, 1, scale);
}

#define TRT_OP(NAME, function)                                                                               \
    const op_def op_trt_##NAME = {.name = #NAME, .domain = "TRT", .decompose = function}
TRT_OP(QuantizeLinear, quantize_decompose);
TRT_OP(DequantizeLinear, dequantize_decompose);
TRT_OP(TRT_FP8QuantizeLinear, fp8_quantize_decompose);
TRT_OP(TRT_FP8DequantizeLinear, fp8_dequantize_decompose);
TRT_OP(TRT_INT4QuantizeLinear, int4_quantize_decompose);
TRT_OP(TRT_INT4DequantizeLinear, int4_dequantize_decompose);
TRT_OP(TRT_MXFP8DynamicQuantize, mxfp8_dynamic_quantize_decompose);
TRT_OP(TRT_MXFP8DequantizeLinear, mxfp8_dequantize_decompose);
TRT_OP(TRT_FP4DynamicQuantize, fp4_dynamic_quantize_decompose);
