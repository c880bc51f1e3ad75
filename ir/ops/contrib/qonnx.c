// Operators of QONNX (domain qonnx.custom_op.general; Brevitas, hls4ml and FINN write them): quantisation to any number of
// bits, with real values as input and output.
//
// Common quantisers of constants become QuantizeLinear, Clip and DequantizeLinear, which passes turn into integer kernels. Clamping
// to integers and rounding to nearest commute, so that both give the same values.
#include "ir/ops/contrib/packed.h"
#include "ir/ops/decompose.h"
#include <math.h>
#include <string.h>
#include <strings.h>

static bool constant_number(const node *n, int i, double *number) {
    const constant *c = infer_constant(n, i);
    if (!c || c->count != 1) return false;
    *number = dtype_is_float(c->elem) ? constant_float(c, 0) : (double)constant_int(c, 0);
    return true;
}

static bool is_flag(const node *n, const char *name) { return node_int(n, name, 0) != 0; }

// ---------------------------------------------------------------- rounding
static value *with_sign_of(node *n, value *x, value *size) {
    return NODE(n, "Mul", NODE(n, "Sign", x), size);
}

static value *rounded_by(node *n, value *x, dtype t, const char *mode) {
    value *half = insert_scalar(n, t, 0.5), *size = NODE(n, "Abs", x);
    if (strcasecmp(mode, "ROUND") == 0 || strcasecmp(mode, "HALF_EVEN") == 0) return NODE(n, "Round", x);
    if (strcasecmp(mode, "CEIL") == 0) return NODE(n, "Ceil", x);
    if (strcasecmp(mode, "FLOOR") == 0) return NODE(n, "Floor", x);
    if (strcasecmp(mode, "UP") == 0) return with_sign_of(n, x, NODE(n, "Ceil", size));
    if (strcasecmp(mode, "DOWN") == 0) return with_sign_of(n, x, NODE(n, "Floor", size));
    if (strcasecmp(mode, "HALF_UP") == 0)
        return with_sign_of(n, x, NODE(n, "Floor", NODE(n, "Add", size, half)));
    if (strcasecmp(mode, "HALF_DOWN") == 0)
        return with_sign_of(n, x, NODE(n, "Ceil", NODE(n, "Sub", size, half)));
    infer_error(
        n,
        "attribute rounding_mode is '%s'; it must be ROUND, HALF_EVEN, CEIL, FLOOR, UP, DOWN, HALF_UP "
        "or HALF_DOWN",
        mode);
}

// ---------------------------------------------------------------- integers of any number of bits
static value *power_of_two(node *n, value *exponent, dtype t) {
    return NODE(n, "Pow", insert_scalar(n, t, 2), exponent);
}

// The least and the greatest integer of this number of bits.
static double least_integer(const node *n, double bits) {
    return is_flag(n, "signed") ? is_flag(n, "narrow") - ldexp(1, (int)bits - 1) : 0;
}
static double greatest_integer(const node *n, double bits) {
    return is_flag(n, "signed") ? ldexp(1, (int)bits - 1) - 1
                                : ldexp(1, (int)bits) - 1 - is_flag(n, "narrow");
}

static value *clamped_to_numbers(node *n, value *x, value *bits, dtype t) {
    bool is_signed = is_flag(n, "signed");
    value *one = insert_scalar(n, t, 1), *narrow = insert_scalar(n, t, is_flag(n, "narrow"));
    value *beyond = power_of_two(n, is_signed ? NODE(n, "Sub", bits, one) : bits, t);
    value *greatest = NODE(n, "Sub", beyond, one), *least = insert_scalar(n, t, 0);
    if (is_signed) least = NODE(n, "Sub", narrow, beyond);
    else greatest = NODE(n, "Sub", greatest, narrow);
    return NODE(n, "Max", NODE(n, "Min", x, greatest), least);
}

// Clamps x to the integers of the bits that input i gives.
static value *clamped(node *n, value *x, int i, dtype t) {
    double bits;
    if (!constant_number(n, i, &bits)) return clamped_to_numbers(n, x, cast_to(n, n->in[i], t), t);
    if (!(bits >= 1 && bits <= 64) || bits != floor(bits))
        infer_error(n, "the number of bits is %g; it must be an integer from 1 to 64", bits);
    value *most = insert_scalar(n, t, greatest_integer(n, bits));
    return NODE(n, "Max", NODE(n, "Min", x, most), insert_scalar(n, t, least_integer(n, bits)));
}

static value *bipolar(node *n, value *x, dtype t) {
    value *is_positive = NODE(n, "GreaterOrEqual", x, insert_scalar(n, t, 0));
    return NODE(n, "Where", is_positive, insert_scalar(n, t, 1), insert_scalar(n, t, -1));
}

// ---------------------------------------------------------------- IntQuant as QuantizeLinear
typedef struct linear {
    dtype type;
    int axis; // of the scales, -1: there is one
    double least, greatest;
} linear;

static bool all_are_zero(const constant *c) {
    for (int64_t i = 0; c && i < c->count; i++)
        if (dtype_is_float(c->elem) ? constant_float(c, i) != 0 : constant_int(c, i) != 0) return false;
    return c;
}

static bool all_are_positive(const constant *c) {
    for (int64_t i = 0; c && i < c->count; i++)
        if (!(constant_float(c, i) > 0) || isinf(constant_float(c, i))) return false;
    return c && c->count;
}

// The axis along which the scales differ. false: there are more, or x would be broadcast.
static bool find_axis(const node *n, const constant *scale, int *axis) {
    *axis = -1;
    if (scale->count == 1)
        return scale->rank == 0 || (infer_has_rank(n, 0) && scale->rank <= infer_rank(n, 0));
    if (!infer_has_rank(n, 0) || scale->rank > infer_rank(n, 0)) return false;
    int skipped = infer_rank(n, 0) - scale->rank;
    for (int j = 0; j < scale->rank; j++) {
        if (scale->dims[j] == 1) continue;
        const dim *size = infer_in(n, 0)->dims[skipped + j];
        if (*axis >= 0 || !dim_is_const(size) || dim_value(size) != scale->dims[j]) return false;
        *axis = skipped + j;
    }
    return true;
}

static bool find_linear(const node *n, linear *q) {
    const constant *scale = infer_constant(n, 1);
    const char *mode = node_string(n, "rounding_mode", "ROUND");
    double bits;
    bool is_signed = is_flag(n, "signed"),
         nearest = strcasecmp(mode, "ROUND") == 0 || strcasecmp(mode, "HALF_EVEN") == 0;
    if (!nearest || !all_are_positive(scale) || !all_are_zero(infer_constant(n, 2)) ||
        infer_constant(n, 2)->count != 1 || infer_constant(n, 2)->rank > scale->rank ||
        !find_axis(n, scale, &q->axis))
        return false;
    if (!constant_number(n, 3, &bits) || bits != floor(bits) || bits < 1 + is_signed || bits > 8)
        return false;
    q->least = least_integer(n, bits), q->greatest = greatest_integer(n, bits);
    bool whole = !is_flag(n, "narrow");
    if (whole && bits == 4) q->type = is_signed ? DT_I4 : DT_U4;
    else if (whole && bits == 2) q->type = is_signed ? DT_I2 : DT_U2;
    else q->type = is_signed ? DT_I8 : DT_U8;
    return true;
}

static value *zeros_of(node *n, dtype t, int64_t count) {
    return value_constant(n->graph, NULL, constant_new(infer_arena(n), t, 1, &count));
}

static value *quantised_linearly(node *n, linear q, value *x, dtype t) {
    value *scale = cast_to(n, n->in[1], t), *zero = insert_scalar(n, q.type, 0);
    bool many = q.axis >= 0;
    scale = many ? reshaped(n, scale, 1, (const int64_t[]){-1}) : reshaped(n, scale, 0, NULL);
    if (many) zero = zeros_of(n, q.type, infer_constant(n, 1)->count);
    value *y = NODE(n, "QuantizeLinear", x, scale, zero);
    if (many) with_int(y, "axis", q.axis);
    double whole = dtype_bits(q.type) < 8 ? 0 : q.type == DT_U8 ? 255 : 127;
    if (whole && (q.greatest != whole || q.least != (q.type == DT_U8 ? 0 : -128)))
        y = NODE(n, "Clip", y, insert_scalar(n, q.type, q.least), insert_scalar(n, q.type, q.greatest));
    y = NODE(n, "DequantizeLinear", y, scale, zero);
    return many ? with_int(y, "axis", q.axis) : y;
}

// ---------------------------------------------------------------- quantisers
// (round(clamp(x / scale + zero)) - zero) * scale; signed integers of one bit are -1 and 1.
static void int_quant_decompose(node *n) {
    dtype to = infer_in(n, 0)->elem, t = wide_type(to);
    value *x = widened(n, 0), *scale = cast_to(n, n->in[1], t), *zero = cast_to(n, n->in[2], t);
    linear q;
    if (find_linear(n, &q)) {
        give_output(n, 0, narrowed(n, quantised_linearly(n, q, x, t), to));
        return;
    }
    double bits = 0;
    bool known = constant_number(n, 3, &bits);
    value *y = NODE(n, "Add", NODE(n, "Div", x, scale), zero), *signs = NULL;
    if (is_flag(n, "signed") && (!known || bits == 1)) signs = bipolar(n, y, t);
    if (signs && known) y = signs;
    else y = rounded_by(n, clamped(n, y, 3, t), t, node_string(n, "rounding_mode", "ROUND"));
    if (signs && !known) {
        value *one = NODE(n, "Equal", cast_to(n, n->in[3], t), insert_scalar(n, t, 1));
        y = NODE(n, "Where", one, signs, y);
    }
    give_output(n, 0, narrowed(n, NODE(n, "Mul", NODE(n, "Sub", y, zero), scale), to));
}

static void bipolar_quant_decompose(node *n) {
    dtype to = infer_in(n, 0)->elem, t = wide_type(to);
    value *y = NODE(n, "Mul", bipolar(n, widened(n, 0), t), cast_to(n, n->in[1], t));
    give_output(n, 0, narrowed(n, y, to));
}

// Version 1, with 5 inputs: (round(q / 2^(in_bits - out_bits)) - zero) * scale, q = round(x / scale + zero), not clamped.
// Version 2: (round(clamp(q / ratio)) - zero / ratio) * out_scale, where ratio is the power of two next to out_scale / scale.
static void trunc_decompose(node *n) {
    dtype to = infer_in(n, 0)->elem, t = wide_type(to);
    value *x = widened(n, 0), *scale = cast_to(n, n->in[1], t), *zero = cast_to(n, n->in[2], t);
    value *q = NODE(n, "Round", NODE(n, "Add", NODE(n, "Div", x, scale), zero));
    const char *mode = node_string(n, "rounding_mode", "FLOOR");
    bool clamps = n->nin > 5;
    value *exponent;
    if (clamps) {
        value *logarithm = NODE(n, "Log", NODE(n, "Div", cast_to(n, n->in[4], t), scale));
        exponent = NODE(n, "Round", NODE(n, "Mul", logarithm, insert_scalar(n, t, 1 / log(2))));
    } else exponent = NODE(n, "Sub", cast_to(n, n->in[3], t), cast_to(n, n->in[4], t));
    value *ratio = power_of_two(n, exponent, t), *y = NODE(n, "Div", q, ratio);
    if (clamps) y = clamped(n, y, 5, t);
    y = NODE(n, "Sub", rounded_by(n, y, t, mode), clamps ? NODE(n, "Div", zero, ratio) : zero);
    give_output(n, 0, narrowed(n, NODE(n, "Mul", y, clamps ? cast_to(n, n->in[4], t) : scale), to));
}

// ---------------------------------------------------------------- FloatQuant
// 2^floor(log2 |x|), 0 where x is less than the least normal number: the bits of x's exponent.
static value *power_within(node *n, value *x) {
    value *bits = with_int(NODE(n, "BitCast", x), "to", DT_I32);
    value *exponent = NODE(n, "BitwiseAnd", bits, insert_scalar(n, DT_I32, 0x7f800000));
    return with_int(NODE(n, "BitCast", exponent), "to", DT_F32);
}

// (2 - 2^-mantissa) * 2^(2^exponent - 1 - bias), or max_val if that is less.
static value *greatest_float(node *n, value *exponent_bits, value *mantissa, value *bias) {
    value *one = insert_scalar(n, DT_F32, 1), *two = insert_scalar(n, DT_F32, 2);
    value *most = NODE(n, "Sub", NODE(n, "Sub", power_of_two(n, exponent_bits, DT_F32), one), bias);
    value *last = NODE(n, "Sub", two, power_of_two(n, NODE(n, "Neg", mantissa), DT_F32));
    value *greatest = NODE(n, "Mul", last, power_of_two(n, most, DT_F32));
    return node_in(n, 5) ? NODE(n, "Min", greatest, cast_to(n, n->in[5], DT_F32)) : greatest;
}

// What takes the place of values beyond the greatest, for formats that do not saturate.
static value *overflowed(node *n, value *unclamped, value *y, value *greatest) {
    value *beyond = NODE(n, "Greater", NODE(n, "Abs", unclamped), greatest);
    if (is_flag(n, "has_inf"))
        return NODE(n, "Where", beyond, NODE(n, "Mul", unclamped, insert_scalar(n, DT_F32, INFINITY)), y);
    if (is_flag(n, "has_nan")) return NODE(n, "Where", beyond, insert_scalar(n, DT_F32, NAN), y);
    infer_error(n, "without saturation the format needs has_inf or has_nan");
}

// Rounds x / scale to multiples of its unit in the last place of the format, at least that of its subnormal numbers.
static void float_quant_decompose(node *n) {
    value *scale = cast_to(n, n->in[1], DT_F32), *x = NODE(n, "Div", cast_to(n, n->in[0], DT_F32), scale);
    value *exponent = cast_to(n, n->in[2], DT_F32), *mantissa = cast_to(n, n->in[3], DT_F32);
    value *one = insert_scalar(n, DT_F32, 1), *bias = node_in(n, 4);
    if (bias) bias = cast_to(n, bias, DT_F32);
    else bias = NODE(n, "Sub", power_of_two(n, NODE(n, "Sub", exponent, one), DT_F32), one);
    value *places = NODE(n, "Neg", mantissa), *lowest = NODE(n, "Sub", NODE(n, "Sub", one, bias), mantissa);
    value *unit = NODE(n, "Mul", power_within(n, x), power_of_two(n, places, DT_F32));
    unit = NODE(n, "Max", unit, power_of_two(n, lowest, DT_F32));
    const char *mode = node_string(n, "rounding_mode", "ROUND");
    value *y = NODE(n, "Mul", unit, rounded_by(n, NODE(n, "Div", x, unit), DT_F32, mode)), *unclamped = y;
    value *greatest = greatest_float(n, exponent, mantissa, bias);
    y = NODE(n, "Max", NODE(n, "Min", y, greatest), NODE(n, "Neg", greatest));
    if (!is_flag(n, "saturation")) y = overflowed(n, unclamped, y, greatest);
    give_output(n, 0, from_float(n, NODE(n, "Mul", y, scale), infer_in(n, 0)->elem));
}

// ---------------------------------------------------------------- MultiThreshold
static int channel_axis(const node *n, int rank) {
    const char *layout = node_string(n, "data_layout", "");
    if (!*layout) return rank == 3 ? 2 : 1; // NC, NWC, NCHW
    const char *c = strchr(layout, 'C');
    return c ? (int)(c - layout) : 1;
}

// How many of its channel's thresholds x reaches, times out_scale, plus out_bias.
static void multi_threshold_decompose(node *n) {
    int rank = infer_rank(n, 0), axis = channel_axis(n, rank), count = 0;
    dtype t = infer_in(n, 0)->elem;
    if (rank < 2 || axis >= rank || infer_rank(n, 1) != 2)
        infer_error(n,
                    "the input has rank %d with channels along axis %d, the thresholds have rank %d, not 2",
                    rank, axis, infer_rank(n, 1));
    int64_t axes[MAX_RANK + 1];
    for (int j = 0; j < rank; j++)
        if (j != axis) axes[count++] = j;
    value *thresholds = NODE(n, "Unsqueeze", cast_to(n, n->in[1], t), insert_ints(n, axes, count));
    value *x = NODE(n, "Unsqueeze", n->in[0], one_int(n, -1));
    value *reached = cast_to(n, NODE(n, "GreaterOrEqual", x, thresholds), DT_I32);
    value *y = cast_to(n, with_int(NODE(n, "ReduceSum", reached, one_int(n, -1)), "keepdims", 0), t);
    y = NODE(n, "Mul", y, number_like(n, node_float(n, "out_scale", 1), 0));
    give_output(n, 0, NODE(n, "Add", y, number_like(n, node_float(n, "out_bias", 0), 0)));
}

QONNX_OP(Quant, int_quant_decompose);
QONNX_OP(IntQuant, int_quant_decompose);
QONNX_OP(BipolarQuant, bipolar_quant_decompose);
QONNX_OP(Trunc, trunc_decompose);
QONNX_OP(FloatQuant, float_quant_decompose);
QONNX_OP(MultiThreshold, multi_threshold_decompose);
