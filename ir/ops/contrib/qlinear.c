// Operators of com.microsoft on quantised tensors: elementwise operations, pooling, softmax and others.
//
// Real values are (x - zero) * scale. ONNX Runtime rounds to an integer sometimes before it adds the zero point and sometimes
// after, which differs for ties; each operator here rounds as ONNX Runtime does on x86. Its kernels for Arm work with integers
// and may differ by one step in the result.
#include "ir/ops/contrib/quantity.h"
#include <string.h>

static value *zero_as(node *n, quantity q, dtype t) {
    return q.zero ? cast_to(n, q.zero, t) : insert_scalar(n, t, 0);
}

// ---- Elementwise operations

// round(((zc - (ra * za + rb * zb)) + b * rb) + a * ra), ra = sa / sc, rb = sb / sc. With scales that make a sum inexact, ONNX
// Runtime's result depends on whether the processor fuses multiplication and addition.
static void qlinear_add_decompose(node *n) {
    quantity a = quantity_at(n, 1, 2), b = quantity_at(n, 4, 5), c = quantity_at(n, 6, 7);
    value *ra = NODE(n, "Div", a.scale, c.scale), *rb = NODE(n, "Div", b.scale, c.scale);
    value *zeros =
        NODE(n, "Add", NODE(n, "Mul", ra, zero_as(n, a, DT_F32)), NODE(n, "Mul", rb, zero_as(n, b, DT_F32)));
    value *sum = NODE(n, "Sub", zero_as(n, c, DT_F32), zeros);
    sum = NODE(n, "Add", sum, NODE(n, "Mul", cast_to(n, n->in[3], DT_F32), rb));
    sum = NODE(n, "Add", sum, NODE(n, "Mul", cast_to(n, n->in[0], DT_F32), ra));
    give_output(n, 0, rounded(n, sum, NULL, infer_in(n, 0)->elem));
}

static value *centred(node *n, value *x, quantity q) {
    x = cast_to(n, x, DT_I32);
    return q.zero ? NODE(n, "Sub", x, cast_to(n, q.zero, DT_I32)) : x;
}

// round((a - za) * (b - zb) * (sa * sb / sc) + zc)
static void qlinear_mul_decompose(node *n) {
    quantity a = quantity_at(n, 1, 2), b = quantity_at(n, 4, 5), c = quantity_at(n, 6, 7);
    value *product = NODE(n, "Mul", centred(n, n->in[0], a), centred(n, n->in[3], b));
    value *ratio = NODE(n, "Div", NODE(n, "Mul", a.scale, b.scale), c.scale);
    product = NODE(n, "Mul", cast_to(n, product, DT_F32), ratio);
    if (c.zero) product = NODE(n, "Add", product, cast_to(n, c.zero, DT_F32));
    give_output(n, 0, rounded(n, product, NULL, infer_in(n, 0)->elem));
}

static void qlinear_sigmoid_decompose(node *n) {
    value *v = NODE(n, "Sigmoid", real_of(n, n->in[0], quantity_at(n, 1, 2)));
    give_output(n, 0, stored(n, v, quantity_at(n, 3, 4), infer_in(n, 0)->elem));
}

static void qlinear_leaky_relu_decompose(node *n) {
    value *v = NODE(n, "LeakyRelu", real_of(n, n->in[0], quantity_at(n, 1, 2)));
    with_float(v, "alpha", node_float(n, "alpha", 0.01f));
    give_output(n, 0, stored(n, v, quantity_at(n, 3, 4), infer_in(n, 0)->elem));
}

static value *requantised(node *n, int i, quantity to) {
    return stored(n, real_of(n, n->in[i], quantity_at(n, i + 1, i + 2)), to, infer_in(n, i)->elem);
}

static void qlinear_where_decompose(node *n) {
    quantity z = quantity_at(n, 7, 8);
    give_output(n, 0, NODE(n, "Where", n->in[0], requantised(n, 1, z), requantised(n, 4, z)));
}

static void qlinear_concat_decompose(node *n) {
    if (n->nin < 5 || (n->nin - 2) % 3)
        infer_error(
            n,
            "%d inputs follow the scale and zero point of the output; each tensor needs its own two as well",
            n->nin - 2);
    int count = (n->nin - 2) / 3;
    quantity y = quantity_at(n, 0, 1);
    value **parts = ARENA_ARRAY(infer_arena(n), value *, count);
    for (int i = 0; i < count; i++) parts[i] = requantised(n, 2 + 3 * i, y);
    give_output(n, 0, with_attr_of(insert_node(n, "Concat", (size_t)count, parts), n, "axis"));
}

// ---- Rows

// round(softmax * floor(1 / sy)) + zy. The zero point of x is the same for all elements of a row, so it cancels.
static void qlinear_softmax_decompose(node *n) {
    quantity x = quantity_at(n, 1, 2), y = quantity_at(n, 3, 4);
    bool flat = node_int(n, "opset", 13) < 13;
    int64_t axis = node_int(n, "axis", flat ? 1 : -1);
    value *v = NODE(n, "Mul", cast_to(n, n->in[0], DT_F32), x.scale);
    if (flat) v = with_int(NODE(n, "Flatten", v), "axis", axis);
    v = with_int(NODE(n, "Softmax", v), "axis", flat ? 1 : axis);
    if (flat) v = NODE(n, "Reshape", v, NODE(n, "Shape", n->in[0]));
    value *steps = NODE(n, "Floor", NODE(n, "Div", insert_scalar(n, DT_F32, 1), y.scale));
    give_output(n, 0, rounded(n, NODE(n, "Mul", v, steps), y.zero, infer_in(n, 0)->elem));
}

static value *axes_of(node *n) {
    const attr *a = node_attr(n, "axes");
    return a ? insert_ints(n, a->ints, (int)a->n) : NULL;
}

static void qlinear_reduce_mean_decompose(node *n) {
    value *mean = NODE(n, "ReduceMean", real_of(n, n->in[0], quantity_at(n, 1, 2)), axes_of(n));
    with_int(mean, "keepdims", node_int(n, "keepdims", 1));
    give_output(n, 0, stored(n, mean, quantity_at(n, 3, 4), infer_in(n, 0)->elem));
}

static void reduce_sum_integer_decompose(node *n) {
    dtype t = infer_in(n, 0)->elem == DT_U8 ? DT_U32 : DT_I32;
    value *sum = NODE(n, "ReduceSum", cast_to(n, n->in[0], t), axes_of(n));
    give_output(n, 0, with_int(sum, "keepdims", node_int(n, "keepdims", 1)));
}

static void mul_integer_decompose(node *n) {
    value *a = centred(n, n->in[0], (quantity){.zero = scalar(n, node_in(n, 1))});
    value *b = centred(n, n->in[2], (quantity){.zero = scalar(n, node_in(n, 3))});
    give_output(n, 0, NODE(n, "Mul", a, b));
}

// ---- Images

static value *moved_channels(node *n, value *v, int rank, bool to_second) {
    int64_t order[MAX_RANK];
    for (int i = 0; i < rank; i++) {
        if (to_second) order[i] = i == 0 ? 0 : i == 1 ? rank - 1 : i - 1;
        else order[i] = i == 0 ? 0 : i == rank - 1 ? 1 : i + 1;
    }
    return transposed(n, v, rank, order);
}

static const char *const WINDOW[] = {
    "auto_pad", "ceil_mode", "count_include_pad", "dilations", "group", "kernel_shape", "pads", "strides"};

static value *with_window(value *v, const node *n) {
    for (size_t i = 0; i < sizeof WINDOW / sizeof *WINDOW; i++) with_attr_of(v, n, WINDOW[i]);
    return v;
}

// The parts of windows that ceil_mode puts beyond the padding count as well: there are zeros for them. The standard's
// operator has the same windows, so its result tells how many.
static value *padded_mean(node *n, value *v, int rank) {
    const attr *pads = node_attr(n, "pads"), *strides = node_attr(n, "strides");
    int axes = rank - 2;
    int64_t all[2 * MAX_RANK] = {0}, zeros[MAX_RANK] = {0};
    if ((pads && pads->n != 2 * axes) || (strides && strides->n != axes))
        infer_error(n, "attributes pads and strides do not fit an input of rank %d", rank);
    for (int i = 0; i < axes; i++) {
        all[2 + i] = pads ? pads->ints[i] : 0;
        all[rank + 2 + i] = (pads ? pads->ints[axes + i] : 0) + (strides ? strides->ints[i] - 1 : 0);
    }
    value *sizes = NODE(n, "Shape", with_window(NODE(n, "AveragePool", v), n));
    v = NODE(n, "AveragePool", NODE(n, "Pad", v, insert_ints(n, all, 2 * rank)));
    with_attr_of(with_attr_of(v, n, "kernel_shape"), n, "strides");
    return NODE(n, "Slice", v, insert_ints(n, zeros, rank), sizes);
}

static value *mean_of_windows(node *n, value *v, int rank) {
    const char *auto_pad = node_string(n, "auto_pad", "NOTSET");
    bool beyond = node_int(n, "ceil_mode", 0) && node_int(n, "count_include_pad", 0);
    if (beyond && strncmp(auto_pad, "SAME_", 5) != 0) return padded_mean(n, v, rank);
    return with_window(NODE(n, "AveragePool", v), n);
}

// round(mean / sy + zy)
static void qlinear_average_pool_decompose(node *n) {
    quantity y = quantity_at(n, 3, 4);
    int rank = infer_rank(n, 0);
    bool last = node_int(n, "channels_last", 0) != 0;
    value *v = real_of(n, n->in[0], quantity_at(n, 1, 2));
    if (last) v = moved_channels(n, v, rank, true);
    v = mean_of_windows(n, v, rank);
    if (last) v = moved_channels(n, v, rank, false);
    v = NODE(n, "Div", v, y.scale);
    if (y.zero) v = NODE(n, "Add", v, cast_to(n, y.zero, DT_F32));
    give_output(n, 0, rounded(n, v, NULL, infer_in(n, 0)->elem));
}

// round(sum of (x - zx) * (sx / (sy * size))) + zy, with the sum as an integer
static void qlinear_global_average_pool_decompose(node *n) {
    quantity x = quantity_at(n, 1, 2), y = quantity_at(n, 3, 4);
    int rank = infer_rank(n, 0), first = node_int(n, "channels_last", 0) ? 1 : 2;
    int64_t axes[MAX_RANK];
    if (rank < 3) infer_error(n, "the input has rank %d; it must be at least 3", rank);
    for (int i = 0; i < rank - 2; i++) axes[i] = first + i;
    value *over = insert_ints(n, axes, rank - 2), *sizes = NODE(n, "Shape", n->in[0]);
    value *size = with_int(NODE(n, "ReduceProd", NODE(n, "Gather", sizes, over)), "keepdims", 0);
    value *sum = NODE(n, "ReduceSum", centred(n, n->in[0], x), over);
    value *ratio = NODE(n, "Div", x.scale, NODE(n, "Mul", y.scale, cast_to(n, size, DT_F32)));
    give_output(n, 0,
                rounded(n, NODE(n, "Mul", cast_to(n, sum, DT_F32), ratio), y.zero, infer_in(n, 0)->elem));
}

static void qlinear_conv_decompose(node *n) {
    int rank = infer_rank(n, 0);
    bool last = node_int(n, "channels_last", 0) != 0;
    value *x = last ? moved_channels(n, n->in[0], rank, true) : n->in[0];
    value *y = NODE(n, "QLinearConv", x, n->in[1], n->in[2], n->in[3], n->in[4], n->in[5], n->in[6], n->in[7],
                    node_in(n, 8));
    with_window(y, n);
    give_output(n, 0, last ? moved_channels(n, y, rank, false) : y);
}

// ---- Conversions: those of the standard, one scale for all without an axis

static void convert(node *n, const char *op) {
    bool each = node_attr(n, "axis") != NULL;
    value *scale = each ? n->in[1] : scalar(n, n->in[1]), *zero = node_in(n, 2);
    give_output(n, 0, with_attr_of(NODE(n, op, n->in[0], scale, each ? zero : scalar(n, zero)), n, "axis"));
}

static void quantize_linear_decompose(node *n) { convert(n, "QuantizeLinear"); }
static void dequantize_linear_decompose(node *n) { convert(n, "DequantizeLinear"); }

MICROSOFT_OP(DequantizeLinear, dequantize_linear_decompose);
MICROSOFT_OP(MulInteger, mul_integer_decompose);
MICROSOFT_OP(QLinearAdd, qlinear_add_decompose);
MICROSOFT_OP(QLinearAveragePool, qlinear_average_pool_decompose);
MICROSOFT_OP(QLinearConcat, qlinear_concat_decompose);
MICROSOFT_OP(QLinearConv, qlinear_conv_decompose);
MICROSOFT_OP(QLinearGlobalAveragePool, qlinear_global_average_pool_decompose);
MICROSOFT_OP(QLinearLeakyRelu, qlinear_leaky_relu_decompose);
MICROSOFT_OP(QLinearMul, qlinear_mul_decompose);
MICROSOFT_OP(QLinearReduceMean, qlinear_reduce_mean_decompose);
MICROSOFT_OP(QLinearSigmoid, qlinear_sigmoid_decompose);
MICROSOFT_OP(QLinearSoftmax, qlinear_softmax_decompose);
MICROSOFT_OP(QLinearWhere, qlinear_where_decompose);
MICROSOFT_OP(QuantizeLinear, quantize_linear_decompose);
MICROSOFT_OP(ReduceSumInteger, reduce_sum_integer_decompose);
