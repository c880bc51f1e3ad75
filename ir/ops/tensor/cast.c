// Cast, CastLike, Identity, BitCast and Dropout: conversion kernels, views, and the expansion of Dropout.
#include "ir/ops/pointwise.h"
#include "ir/ops/runtime_args.h"
#include <ctype.h>

// ---------------------------------------------------------------- Cast
static dtype cast_target(const node *n) { return n->out[0]->type.elem; }

static bool in_range(const dim *d, dtype t) {
    return d->min >= dtype_int_min(t) && d->max <= dtype_int_max(t);
}

// Whole numbers survive any cast between wide types. Sizes computed in 32 bits are assumed to fit.
static dim *fold_cast(const node *n, dim *const *a) {
    dtype to = cast_target(n);
    if (to == DT_BOOL) return dim_addk(dim_neg(dim_eq(a[0], infer_k(n, 0))), 1);
    bool clamps = dtype_is_float(infer_in(n, 0)->elem) && dtype_is_int(to);
    if (clamps && dim_is_const(a[0]) && !in_range(a[0], to)) return NULL;
    if (to == DT_F32 || to == DT_F64 || to == DT_I64 || to == DT_I32) return a[0];
    if (to == DT_U64 || to == DT_U32) return a[0]->min >= 0 ? a[0] : NULL;
    return dtype_is_int(to) && in_range(a[0], to) ? a[0] : NULL;
}

static void cast_contents(node *n) {
    dtype from = infer_in(n, 0)->elem, to = n->out[0]->type.elem;
    if (dtype_is_float(from) && (to == DT_I64 || to == DT_I32)) contents_of_quotient(n, dim_truncdiv);
    value *in[] = {n->in[0]};
    node only_input = *n; // CastLike's second input has no influence on the value
    only_input.nin = 1;
    only_input.in = in;
    contents_map(&only_input, fold_cast);
}

static void set_type(node *n, dtype to) {
    infer_set_like(n, 0, to, 0);
    if (n->out[0] && infer_has_rank(n, 0)) cast_contents(n);
}

static void infer_cast(node *n) {
    int64_t to = node_int(n, "to", 0);
    dtype t = dtype_from_onnx((int)to);
    if (to < 0 || to > INT32_MAX || t == DT_NONE)
        infer_error(n, "attribute to is %lld, which is not an element type", (long long)to);
    set_type(n, t);
}

static void infer_cast_like(node *n) { set_type(n, infer_in(n, 1)->elem); }

// Version 1 has the name of the type, as in TensorProto.DataType ("FLOAT", "INT64").
static void upgrade_cast(node *n) {
    const char *name = node_string(n, "to", "");
    char lower[32] = "";
    for (size_t i = 0; i + 1 < sizeof lower && name[i]; i++) lower[i] = (char)tolower((unsigned char)name[i]);
    upgrade_set_int(n, "to", dtype_from_name(lower));
}

// Storing as float8e8m0 rounds up. The other modes clear the mantissa first; nearest adds half a unit in the
// last place before. Numbers below 2^-126 have no exponent to round to and are left unchanged.
static expr *round_e8m0(kernel *k, const node *n, expr *x) {
    e8m0_round mode = (e8m0_round)node_choice(n, "round_mode", "up down nearest");
    if (mode == E8M0_UP) return x;
    expr *bits = x_bitcast(k, x_as(k, x, DT_F32), DT_I32);
    if (mode == E8M0_NEAREST) bits = x_add(k, bits, x_int(k, DT_I32, 1 << 22));
    expr *rounded = x_bitcast(k, x_and(k, bits, x_int(k, DT_I32, -(1 << 23))), DT_F32);
    x = x_as(k, x, DT_F32);
    return x_select(k, x_bin(k, X_LE, x_float(k, DT_F32, 0x1p-126), x), rounded, x); // NaN is unchanged, too
}

static expr *cast_value(kernel *k, const node *n, expr *x) {
    dtype to = cast_target(n);
    if (to == DT_F8E8M0) x = round_e8m0(k, n, x);
    if (!dtype_is_float(x->dtype)) return x_cast(k, x, to, node_int(n, "saturate", 1));
    // float4 and float6 have no NaN; the reference stores -0. Numbers that exceed packed integers wrap.
    const float_format *small = dtype_small_float(to);
    if (small && small->special == FORMAT_FINITE)
        x = x_select(k, x_un(k, X_ISNAN, x), x_float(k, x->dtype, -0.0), x);
    if (dtype_is_int(to) && dtype_bits(to) < 8) x = x_cast(k, x, DT_I64, true);
    return x_cast(k, x, to, node_int(n, "saturate", 1));
}

// The type that the library parses and prints: the widest of the same kind, or float if that is sufficient.
static dtype text_type(dtype t) {
    if (t == DT_BOOL || t == DT_F64 || t == DT_U64) return t;
    return dtype_is_float(t) ? DT_F32 : DT_I64;
}

// out = x in another type, elementwise
static void convert(lowering *l, node *n, const char *suffix, buffer *x, buffer *out, bool to_result) {
    kernel *k;
    expr *index[MAX_RANK];
    stage *s = suffixed_stage(l, n, suffix, out, &k, index);
    expr *v = x_read(k, x, index);
    stage_write(k, s, out, index, to_result ? cast_value(k, n, v) : x_cast(k, v, out->dtype, true));
}

static void lower_string_cast(lowering *l, node *n) {
    dtype from = n->in[0]->type.elem, to = n->out[0]->type.elem;
    bool parses = from == DT_STRING;
    dtype t = text_type(parses ? to : from);
    if (parses && to == DT_BOOL) t = DT_F64;
    if (dtype_class_of(from) == DC_COMPLEX || dtype_class_of(to) == DC_COMPLEX) lower_numeric_only(l, n);
    buffer *x = lower_in(l, n, 0), *out = lower_out(l, n, 0), *between = parses ? out : x;
    if (t != (parses ? to : from)) between = lower_temp(l, n, "numbers", t, x->rank, x->dims);
    if (!parses && between != x) convert(l, n, "widen", x, between, false);
    step *s = lower_library(l, n, parses ? "string_parse" : "string_print", 1, 2, parses ? 2 : 3);
    s->args[0] = parses ? between : out, s->args[1] = parses ? x : between;
    s->numbers[0] = buffer_count(x), s->numbers[1] = infer_k(n, t);
    if (!parses) s->numbers[2] = infer_k(n, dtype_is_float(from) ? dtype_precision(from) : 24);
    if (!parses) return;
    static const char *const message[] = {"a string is not a number"};
    s->messages = message, s->nmessages = 1;
    if (between != out) convert(l, n, "narrow", between, out, true);
}

static void lower_cast(lowering *l, node *n) {
    if (n->in[0]->type.elem == n->out[0]->type.elem) {
        lower_view(l, n, 0, 0);
        return;
    }
    if (n->in[0]->type.elem == DT_STRING || n->out[0]->type.elem == DT_STRING) {
        lower_string_cast(l, n);
        return;
    }
    lower_numeric_only(l, n);
    if (lower_known_contents(l, n)) return;
    buffer *x = lower_in(l, n, 0), *out = lower_out(l, n, 0);
    kernel *k;
    expr *index[MAX_RANK];
    stage *s = pointwise_stage(l, n, out, &k, index);
    stage_write(k, s, out, index, cast_value(k, n, x_read(k, x, index)));
}

OPERATOR(Cast, .upgrades = {{6, upgrade_cast}}, .infer = infer_cast, .lower = lower_cast, .converts = true);
OPERATOR(CastLike, .infer = infer_cast_like, .lower = lower_cast, .converts = true);

// ---------------------------------------------------------------- Identity
static void infer_identity(node *n) {
    int count;
    infer_same(n, 0, 0);
    dim **contents = n->in[0]->type.kind == TYPE_TENSOR ? infer_contents(n, 0, &count) : NULL;
    if (contents) infer_set_contents(n, 0, contents, count);
}

OPERATOR(Identity, .infer = infer_identity, .is_view = true, .takes_any_rank = true);

// ---------------------------------------------------------------- BitCast
// Decompositions unpack bytes: an element of the last axis becomes several, the first of the low bits.
static void unpack_bit_cast(node *n, dtype to, int several) {
    const type *t = infer_in(n, 0);
    dim *dims[MAX_RANK];
    for (int j = 0; j < t->rank; j++) dims[j] = j + 1 < t->rank ? t->dims[j] : dim_mulk(t->dims[j], several);
    infer_set(n, 0, to, t->rank, dims);
}

static void infer_bit_cast(node *n) {
    dtype from = infer_in(n, 0)->elem, to = dtype_from_onnx((int)node_int(n, "to", 0));
    if (to == DT_NONE || to == DT_STRING || from == DT_STRING)
        infer_error(n, "attribute to is %lld, which is not a type with a bit representation",
                    (long long)node_int(n, "to", 0));
    if (node_int(n, "unpacks", 0)) {
        unpack_bit_cast(n, to, dtype_bits(from) / dtype_bits(to));
        return;
    }
    if (dtype_bits(from) != dtype_bits(to))
        infer_error(n, "%s has %d bits, %s has %d", dtype_name(from), dtype_bits(from), dtype_name(to),
                    dtype_bits(to));
    infer_set_like(n, 0, to, 0);
}

// b viewed as unsigned integers.
static buffer *as_bits(lowering *l, buffer *b) {
    static const dtype bits[] = {
        [2] = DT_U2, [4] = DT_U4, [8] = DT_U8, [16] = DT_U16, [32] = DT_U32, [64] = DT_U64};
    buffer *v =
        program_view(l->program, b, arena_printf(l->program->arena, "%s.bits", b->name), b->rank, b->dims);
    v->dtype = bits[dtype_bits(b->dtype)];
    return v;
}

// Small floats, packed integers and complex numbers are copied as they are stored; other types are bit casts of the same
// width.
static expr *same_bits(kernel *k, expr *v, dtype to) {
    return dtype_is_float(v->dtype) == dtype_is_float(to) ? x_cast(k, v, to, false) : x_bitcast(k, v, to);
}

// Whether kernels compute with the bits of a type as they are stored.
static bool is_number(dtype t) { return dtype_compute(t) == t && dtype_class_of(t) != DC_COMPLEX; }

static void lower_bit_cast(lowering *l, node *n) {
    if (node_int(n, "unpacks", 0)) {
        lower_view(l, n, 0, 0);
        return;
    }
    buffer *x = lower_in(l, n, 0), *out = lower_out(l, n, 0);
    if (x->dtype == out->dtype) {
        lower_convert(l, n, NULL, x, out);
        return;
    }
    kernel *k;
    expr *at[MAX_RANK];
    bool whole = is_number(x->dtype) && is_number(out->dtype);
    buffer *to = whole ? out : as_bits(l, out);
    stage *s = pointwise_stage(l, n, to, &k, at);
    stage_write(k, s, to, at,
                whole ? same_bits(k, x_read(k, x, at), out->dtype) : x_read(k, as_bits(l, x), at));
}

OPERATOR(BitCast, .infer = infer_bit_cast, .lower = lower_bit_cast);

// ---------------------------------------------------------------- Dropout
static void infer_dropout(node *n) {
    infer_one_element(n, 1, "ratios");
    infer_one_element(n, 2, "training modes");
    const constant *ratio = node_in(n, 2) ? infer_constant(n, 1) : NULL;
    double r = ratio && ratio->count == 1 ? constant_float(ratio, 0) : 0;
    if (!(r >= 0 && r < 1)) infer_error(n, "the ratio is %g; it must be in [0, 1)", r);
    infer_same(n, 0, 0);
    infer_set_like(n, 1, DT_BOOL, 0);
}

// An input of one element as a scalar, which leaves the rank of the data to them.
// mask = random >= ratio or not training; output = mask ? data * (training ? 1 / (1 - ratio) : 1) : 0
static void expand_training(node *n, value *training) {
    value *data = n->in[0], *one = insert_scalar(n, DT_F32, 1);
    value *ratio = insert_scalar(n, DT_F32, 0.5);
    if (node_in(n, 1)) ratio = NODE(n, "CastLike", as_scalar(n, n->in[1]), one);
    value *uniform = with_int(NODE(n, "RandomUniformLike", data), "dtype", DT_F32);
    if (node_attr(n, "seed")) with_float(uniform, "seed", (double)node_int(n, "seed", 0));
    value *mask = NODE(n, "GreaterOrEqual", uniform, ratio);
    value *scale = NODE(n, "Div", one, NODE(n, "Sub", one, ratio));
    if (!training->constant) {
        mask = NODE(n, "Or", mask, NODE(n, "Not", training));
        scale = NODE(n, "Where", training, scale, one);
    }
    value *scaled = NODE(n, "Mul", data, NODE(n, "CastLike", scale, data));
    value *zero = NODE(n, "CastLike", insert_scalar(n, DT_F32, 0), data);
    replace_output(n, 0, NODE(n, "Where", mask, scaled, zero));
    if (node_out(n, 1)) replace_output(n, 1, mask);
}

static void expand_dropout(node *n) {
    value *training = node_in(n, 2);
    const constant *c = infer_constant(n, 2);
    if (training && !(c && c->count == 1 && constant_int(c, 0) == 0)) {
        expand_training(n, training->constant ? training : as_scalar(n, n->in[2]));
        return;
    }
    if (node_out(n, 1)) replace_output(n, 1, insert_ones(n, upgrade_shape(n, n->in[0]), DT_BOOL));
    replace_output(n, 0, n->in[0]);
}

// Versions 1 and 6 are in training mode unless is_test is set.
static void upgrade_dropout_7(node *n) {
    upgrade_drop_consumed_inputs(n);
    if (!node_int(n, "is_test", 0)) upgrade_set_int(n, "training_mode", 1);
    node_remove_attr(n, "is_test");
}

// Before version 10 the mask had the type of the data.
static void upgrade_dropout_10(node *n) {
    if (!node_out(n, 1)) return;
    insert_after(n, 1, "CastLike", 1, n->in);
    n->out[1]->type = (type){0};
}

static void upgrade_dropout_12(node *n) {
    if (node_int(n, "training_mode", 0)) {
        upgrade_set_input(n, 1, insert_scalar(n, DT_F32, node_float(n, "ratio", 0.5)));
        upgrade_set_input(n, 2, insert_scalar(n, DT_BOOL, 1));
    }
    node_remove_attr(n, "ratio");
    node_remove_attr(n, "training_mode");
}

static bool undo_dropout_10(node *as) { return !node_out(as, 1); }

static bool undo_dropout_12(node *as) {
    const constant *training = downgrade_constant(as, 2);
    if (node_in(as, 2) && (!training || constant_int(training, 0))) return false;
    downgrade_set_input(as, 2, NULL);
    node_remove_attr(as, "seed");
    return downgrade_input_to_float(as, 1, "ratio");
}

OPERATOR(Dropout,
         .upgrades = {{7, upgrade_dropout_7},
                      {10, upgrade_dropout_10, undo_dropout_10},
                      {12, upgrade_dropout_12, undo_dropout_12}},
         .infer = infer_dropout, .expand = expand_dropout);
