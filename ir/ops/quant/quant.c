// QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear, QLinearMatMul, QLinearConv, and the helpers of
// integer products (contract.h).
//
//   quantise:   y = saturate(round_half_even(x / scale) + zero_point)
//   dequantise: y = (x - zero_point) * scale
#include "ir/ops/contract.h"
#include "ir/ops/runtime_args.h"

// ---- Shared

expr *quant_centre(kernel *k, expr *x, expr *zero_point) {
    dtype t = dtype_is_int(x->dtype) ? DT_I32 : x->dtype;
    x = x_cast(k, x, t, false);
    return zero_point ? x_sub(k, x, x_cast(k, zero_point, t, false)) : x;
}

static bool is_zero(const constant *c) {
    if (c->kind == CONST_STRINGS) return false;
    int64_t count = c->kind == CONST_SPLAT && c->count ? 1 : c->count;
    for (int64_t i = 0; i < count; i++)
        if (constant_float(c, i) != 0) return false;
    return true;
}

buffer *quant_zero_point(lowering *l, const node *n, int i) {
    const value *v = node_in(n, i);
    if (!v || (v->constant && is_zero(v->constant))) return NULL;
    return lower_in(l, n, i);
}

expr *quant_conv_sum(conv *c, buffer *x, buffer *x_zero, buffer *w, buffer *w_zero) {
    expr *zx = x_zero ? x_read_first(c->k, x_zero) : NULL, *zw = w_zero ? conv_param(c, w_zero) : NULL;
    expr *vx = quant_centre(c->k, x_read_guarded(c->k, x, c->x, c->guard, zx), zx);
    expr *vw = quant_centre(c->k, x_read(c->k, w, c->w), zw);
    return stage_reduce(c->k, c->s, RED_SUM, x_mul(c->k, vx, vw));
}

// round(v) + zero_point as a value of type t; v is a float.
static expr *quantised(kernel *k, expr *v, expr *zero_point, dtype t, bool saturate) {
    if (dtype_is_int(t)) v = x_un(k, X_RINT, v);
    if (zero_point) v = x_add(k, v, x_cast(k, zero_point, v->dtype, false));
    return x_cast(k, v, t, saturate);
}

// ---- Granularity of scales and zero points

// The axis of a scale with more than one element; 0 if it is irrelevant.
static int quant_axis(const node *n, int scale, int rank) {
    const type *s = infer_in(n, scale);
    if (s->rank == 0 || (s->rank == 1 && dim_is(s->dims[0], 1)) || rank == 0) return 0;
    return node_axis(n, 1, rank);
}

static void check_param(const node *n, int i, const type *x, int axis, int64_t block) {
    int rank = infer_rank(n, i);
    const type *p = infer_in(n, i);
    if (rank == 0 || (rank == 1 && dim_is(p->dims[0], 1))) return;
    if (block == 0 && rank == 1) {
        if (x->rank == 0) infer_error(n, "input %d has rank 1, the tensor is a scalar", i);
        dim *d = infer_broadcast_dim(n, x->dims[axis], p->dims[0], axis);
        infer_same_dim(n, d, x->dims[axis], "scale or zero point and the size of the axis");
        return;
    }
    if (rank != x->rank) infer_error(n, "input %d has rank %d, the tensor has rank %d", i, rank, x->rank);
    for (int j = 0; j < rank; j++) {
        dim *want = block && j != axis ? x->dims[j] : infer_k(n, 1);
        if (block && j == axis) want = dim_ceildiv(x->dims[j], infer_k(n, block));
        infer_same_dim(n, p->dims[j], want, "scale or zero point and the blocks");
    }
}

// Checks inputs 1 (scale) and 2 (zero point) against input 0.
static void check_params(const node *n) {
    int rank = infer_rank(n, 0);
    int64_t block = node_int(n, "block_size", 0);
    if (block < 0) infer_error(n, "attribute block_size is %lld", (long long)block);
    infer_rank(n, 1);
    int axis = quant_axis(n, 1, rank);
    for (int i = 1; i <= 2; i++)
        if (node_in(n, i)) check_param(n, i, infer_in(n, 0), axis, block);
}

// The scale or zero point of the element of x at index.
static expr *read_param(kernel *k, buffer *p, const node *n, const buffer *x, expr *const *index) {
    int axis = quant_axis(n, 1, x->rank);
    int64_t block = node_int(n, "block_size", 0);
    expr *at[MAX_RANK];
    if (p->rank == 1 && (block == 0 || dim_is(p->dims[0], 1))) {
        at[0] = x->rank ? broadcast_index(k, p->dims[0], x->dims[axis], index[axis]) : x_i64(k, 0);
        return x_read(k, p, at);
    }
    for (int j = 0; j < p->rank; j++) {
        at[j] = block ? index[j] : x_i64(k, 0);
        if (block && j == axis) at[j] = x_bin(k, X_FLOORDIV, index[j], x_i64(k, block));
    }
    return x_read(k, p, at);
}

static dtype dtype_attr(const node *n, const char *name) {
    int64_t code = node_int(n, name, 0);
    dtype t = code > 0 && code < INT32_MAX ? dtype_from_onnx((int)code) : DT_NONE;
    if (code && t == DT_NONE)
        infer_error(n, "attribute %s is %lld, which is not a known type", name, (long long)code);
    return t;
}

// ---- QuantizeLinear

static void quantize_linear_infer(node *n) {
    dtype wanted = dtype_attr(n, "output_dtype");
    dtype given = node_in(n, 2) ? infer_in(n, 2)->elem : DT_NONE;
    if (wanted && given && wanted != given)
        infer_error(n, "attribute output_dtype is %s, but the zero point is %s", dtype_name(wanted),
                    dtype_name(given));
    dtype t = given ? given : wanted ? wanted : DT_U8;
    if (infer_has_rank(n, 0)) check_params(n);
    infer_set_like(n, 0, t, 0);
}

// The type in which x / scale is computed: unless given, the scale's. A scale of type float8e8m0 is a mere
// power of two, so x's type is used; integers are divided in double.
static dtype division_type(const node *n, const buffer *x, const buffer *scale) {
    dtype t = dtype_attr(n, "precision");
    if (t == DT_NONE) t = scale->dtype == DT_F8E8M0 ? x->dtype : scale->dtype;
    return dtype_is_float(t) ? t : DT_F64;
}

static void quantize_linear_lower(lowering *l, node *n) {
    buffer *x = lower_in(l, n, 0), *scale = lower_in(l, n, 1), *zero = quant_zero_point(l, n, 2);
    buffer *out = lower_out(l, n, 0);
    kernel *k;
    expr *at[MAX_RANK];
    stage *s = pointwise_stage(l, n, out, &k, at);
    dtype t = division_type(n, x, scale);
    expr *v = x_cast(k, x_read(k, x, at), t, false),
         *by = x_cast(k, read_param(k, scale, n, x, at), t, false);
    v = x_cast(k, x_div(k, v, by), t, false);
    expr *z = zero ? read_param(k, zero, n, x, at) : NULL;
    stage_write(k, s, out, at, quantised(k, v, z, out->dtype, node_int(n, "saturate", 1) != 0));
}

// Older versions have one scale for the whole tensor.
static bool undo_per_axis(node *as) {
    bool older = as->loc->version && as->loc->version < 13;
    node_remove_attr(as, "axis");
    return older || (downgrade_has_rank(as, 1) && as->in[1]->type.rank == 0);
}

OPERATOR(QuantizeLinear, .upgrades = {{13, NULL, undo_per_axis}}, .infer = quantize_linear_infer,
         .lower = quantize_linear_lower);

// ---- DequantizeLinear

static void dequantize_linear_infer(node *n) {
    dtype t = dtype_attr(n, "output_dtype");
    if (t == DT_NONE) t = infer_in(n, 1)->elem;
    if (t == DT_F8E8M0) infer_error(n, "a scale of type %s needs attribute output_dtype", dtype_name(t));
    if (infer_has_rank(n, 0)) check_params(n);
    infer_set_like(n, 0, t, 0);
}

static void dequantize_linear_lower(lowering *l, node *n) {
    buffer *x = lower_in(l, n, 0), *scale = lower_in(l, n, 1), *zero = quant_zero_point(l, n, 2);
    buffer *out = lower_out(l, n, 0);
    kernel *k;
    expr *at[MAX_RANK];
    stage *s = pointwise_stage(l, n, out, &k, at);
    expr *z = zero ? read_param(k, zero, n, x, at) : NULL;
    expr *v = x_cast(k, quant_centre(k, x_read(k, x, at), z), DT_F32, false);
    stage_write(k, s, out, at, x_mul(k, v, read_param(k, scale, n, x, at)));
}

OPERATOR(DequantizeLinear, .upgrades = {{13, NULL, undo_per_axis}}, .infer = dequantize_linear_infer,
         .lower = dequantize_linear_lower, .converts = true);

// ---- DynamicQuantizeLinear: scale and zero point from the range of x, 0 included

static void dynamic_quantize_linear_infer(node *n) {
    infer_set(n, 1, DT_F32, 0, NULL);
    infer_set(n, 2, DT_U8, 0, NULL);
    int rank = infer_rank(n, 0);
    infer_set(n, 0, DT_U8, rank, infer_in(n, 0)->dims);
}

static expr *within_byte(kernel *k, expr *v) {
    return x_bin(k, X_MAX, x_bin(k, X_MIN, v, x_float(k, DT_F32, 255)), x_float(k, DT_F32, 0));
}

// The least of numbers and 0: bits without sign are greatest for the least number below 0. Integers are compared in fewer instructions
// than floats that may be NaN, and CPUs without floating point have them; a NaN is greater than all numbers, in one of both ways.
static expr *least(kernel *k, stage *s, expr *v, expr *zero) {
    expr *most = stage_reduce(k, s, RED_MAX, x_bitcast(k, v, DT_U32));
    return x_select(k, x_lt(k, x_bitcast(k, most, DT_I32), x_int(k, DT_I32, 0)), x_bitcast(k, most, DT_F32),
                    zero);
}

// The greatest of numbers and 0, which has the greatest bits.
static expr *greatest(kernel *k, stage *s, expr *v) {
    expr *most = stage_reduce(k, s, RED_MAX, x_bitcast(k, v, DT_I32));
    return x_bitcast(k, x_bin(k, X_MAX, most, x_int(k, DT_I32, 0)), DT_F32);
}

// scale = (max - min) / 255 (1 / 255 if x is all zero), zero point = round(saturate(0 - min / scale)).
static void lower_range(lowering *l, const node *n, const char *what, buffer *x, const quant_counted *counted,
                        const quant_bytes *to) {
    kernel *k = lower_kernel(l, n, what);
    stage *s = kernel_stage(k);
    expr *at[MAX_RANK];
    for (int i = 0; i < x->rank; i++)
        at[i] = stage_own_axis(k, s, AXIS_REDUCE, arena_printf(k->arena, "r%d", i), x->dims[i]);

    expr *guard = counted ? counted->holds(k, at, counted->of) : NULL, *none = x_float(k, DT_F32, 0);
    expr *v = guard ? x_read_guarded(k, x, at, guard, none) : x_read(k, x, at);
    expr *lo = least(k, s, v, none), *hi = greatest(k, s, v);
    expr *range = x_select(k, x_bin(k, X_EQ, lo, hi), x_float(k, DT_F32, 1), x_sub(k, hi, lo));
    expr *by = x_div(k, range, x_float(k, DT_F32, 255));
    expr *middle = x_un(k, X_RINT, within_byte(k, x_sub(k, none, x_div(k, lo, by))));
    stage_write(k, s, to->scale, NULL, by);
    stage_write(k, s, to->zero, NULL, x_cast(k, middle, DT_U8, true));
}

static void lower_bytes(kernel *k, buffer *x, const quant_bytes *to) {
    stage *s = kernel_stage(k);
    expr *at[MAX_RANK];
    axes_over(k, s, to->at, at);
    expr *v = x_div(k, x_read(k, x, at), x_read(k, to->scale, NULL));
    stage_write(k, s, to->at, at, quantised(k, v, x_read(k, to->zero, NULL), DT_U8, true));
}

quant_bytes quant_dynamic(lowering *l, const node *n, const char *what, buffer *x,
                          const quant_counted *counted) {
    const char *range = arena_printf(l->program->arena, "%s_range", what);
    quant_bytes q = {
        .at = lower_temp(l, n, what, DT_U8, x->rank, x->dims),
        .scale = lower_temp(l, n, arena_printf(l->program->arena, "%s_scale", what), DT_F32, 0, NULL),
        .zero = lower_temp(l, n, arena_printf(l->program->arena, "%s_zero_point", what), DT_U8, 0, NULL)};
    lower_range(l, n, range, x, counted, &q);
    lower_bytes(lower_kernel(l, n, what), x, &q);
    return q;
}

static void dynamic_quantize_linear_lower(lowering *l, node *n) {
    buffer *x = lower_in(l, n, 0);
    quant_bytes q = {lower_out(l, n, 0), lower_out(l, n, 1), lower_out(l, n, 2)};
    if (!q.scale) q.scale = lower_temp(l, n, "scale", DT_F32, 0, NULL);
    if (!q.zero) q.zero = lower_temp(l, n, "zero_point", DT_U8, 0, NULL);
    lower_range(l, n, "range", x, NULL, &q);
    if (q.at) lower_bytes(lower_kernel(l, n, NULL), x, &q);
}

OPERATOR(DynamicQuantizeLinear, .infer = dynamic_quantize_linear_infer,
         .lower = dynamic_quantize_linear_lower);

// ---- QLinearMatMul: inputs a, scale, zero point, b, scale, zero point, y's scale, zero point

static void qlinear_matmul_infer(node *n) {
    dim *dims[MAX_RANK];
    int rank = matmul_dims(n, 0, 3, dims);
    for (int i = 1; i <= 7; i++)
        if (i != 3) product_check_param(n, i, 0, 3, i == 4 || i == 5);
    infer_set(n, 0, infer_in(n, 7)->elem, rank, dims);
}

// sum * (a's scale * b's scale / y's scale), rounded, plus y's zero point.
static expr *requantised(kernel *k, expr *sum, expr *a, expr *b, expr *y, expr *zero, dtype t) {
    expr *scale = x_div(k, x_mul(k, a, b), y);
    return quantised(k, x_mul(k, x_cast(k, sum, DT_F32, false), scale), zero, t, true);
}

static void qlinear_matmul_lower(lowering *l, node *n) {
    buffer *za = quant_zero_point(l, n, 2), *zb = quant_zero_point(l, n, 5), *zy = quant_zero_point(l, n, 7);
    product p = product_begin(l, n, lower_in(l, n, 0), lower_in(l, n, 3), lower_out(l, n, 0));
    kernel *k = p.k;
    expr *a = quant_centre(k, product_read_a(&p), za ? product_param_a(&p, za) : NULL);
    expr *b = quant_centre(k, product_read_b(&p), zb ? product_param_b(&p, zb) : NULL);
    if (a->dtype != b->dtype) { // one of them is a float8
        a = x_cast(k, a, DT_F32, false);
        b = x_cast(k, b, DT_F32, false);
    }
    expr *sum = stage_reduce(k, p.s, RED_SUM, x_mul(k, a, b));
    expr *sa = product_param_a(&p, lower_in(l, n, 1)), *sb = product_param_b(&p, lower_in(l, n, 4));
    expr *sy = product_param_a(&p, lower_in(l, n, 6)), *z = zy ? product_param_a(&p, zy) : NULL;
    stage_write(k, p.s, p.out, p.index, requantised(k, sum, sa, sb, sy, z, p.out->dtype));
}

OPERATOR(QLinearMatMul, .infer = qlinear_matmul_infer, .lower = qlinear_matmul_lower);

// ---- QLinearConv: x, scale, zero point, w, scale, zero point, y's scale, zero point, bias

static void qlinear_conv_infer(node *n) {
    dim *dims[MAX_RANK];
    int rank = conv_dims(n, 0, 3, dims);
    infer_shape(n, 8, "the bias", 1, &dims[1], "bias size and output channels");
    infer_one_element(n, 1, "scales of the input");
    infer_one_element(n, 2, "zero points of the input");
    conv_check_param(n, 4, dims[1]);
    conv_check_param(n, 5, dims[1]);
    infer_one_element(n, 6, "scales of the output");
    infer_one_element(n, 7, "zero points of the output");
    infer_set(n, 0, infer_in(n, 7)->elem, rank, dims);
}

static void qlinear_conv_lower(lowering *l, node *n) {
    buffer *x = lower_in(l, n, 0), *w = lower_in(l, n, 3), *bias = lower_in(l, n, 8),
           *out = lower_out(l, n, 0);
    buffer *zx = quant_zero_point(l, n, 2), *zw = quant_zero_point(l, n, 5), *zy = quant_zero_point(l, n, 7);
    conv c = conv_begin(l, n, x, w, out);
    kernel *k = c.k;
    expr *sum = quant_conv_sum(&c, x, zx, w, zw);
    if (bias) sum = x_add(k, sum, x_read(k, bias, &c.channel));
    expr *sx = x_read_first(c.k, lower_in(l, n, 1)), *sw = conv_param(&c, lower_in(l, n, 4));
    expr *sy = x_read_first(c.k, lower_in(l, n, 6)), *z = zy ? x_read_first(c.k, zy) : NULL;
    stage_write(k, c.s, out, c.index, requantised(k, sum, sx, sw, sy, z, out->dtype));
}

OPERATOR(QLinearConv, .infer = qlinear_conv_infer, .lower = qlinear_conv_lower);
