// Conversions between element types. In: values in registers. Out: instructions that convert exactly as
// ir/graph/dtype.c does, with integer arithmetic where a target may lack the conversion.
#include "ir/loops/convert.h"
#include "ir/target.h"
#include <math.h>

lkind compute_kind(dtype t) {
    if (t == DT_BOOL) return LK_I1;
    return lkind_of(dtype_compute(t));
}

static ins *i32(lbuild *b, const ins *like, int64_t v) { return lb_int(b, lt(LK_I32, like->type.lanes), v); }
static ins *zero_of(lbuild *b, ltype t) {
    return lkind_is_float(t.kind) ? lb_float(b, t, 0) : lb_int(b, t, 0);
}
static ins *not_zero(lbuild *b, ins *x) { return lb_cmp(b, L_NE, x, zero_of(b, x->type)); }

// --------------------------------------------------------------- small float formats, as in ir/graph/dtype.c
// Shifts exponent and fraction into place and changes the bias; denormal numbers are small integers times a
// power of two.
static ins *decode_magnitude(lbuild *b, const float_format *f, ins *m) {
    int up = 23 - f->mbits;
    ins *bits =
        lb_bin(b, L_ADD, lb_bin(b, L_SHL, m, i32(b, m, up)), i32(b, m, (int64_t)(127 - f->bias) << 23));
    if (f->special == FORMAT_IEEE) { // infinity and NaN have the largest exponent in both formats
        ins *top = lb_bin(b, L_OR, lb_bin(b, L_SHL, m, i32(b, m, up)), i32(b, m, 0x7f800000));
        bits = lb_select(b, lb_cmp(b, L_SLT, i32(b, m, f->max), m), top, bits);
    }
    if (f->special == FORMAT_FN)
        bits = lb_select(b, lb_cmp(b, L_EQ, m, i32(b, m, f->all)), i32(b, m, 0x7fc00000), bits);
    ins *tiny =
        lb_bin(b, L_MUL, lb_conv(b, L_SITOF, LK_F32, m), lb_f32_like(b, m, ldexp(1, 1 - f->bias - f->mbits)));
    ins *is_tiny = lb_cmp(b, L_SLT, m, i32(b, m, 1ll << f->mbits));
    return lb_select(b, is_tiny, lb_conv(b, L_BITCAST, LK_I32, tiny), bits);
}

// code: I32, without bits above the format's.
ins *float_of_code(lbuild *b, dtype t, ins *code) {
    const float_format *f = dtype_small_float(t);
    if (t == DT_BF16) return lb_conv(b, L_BITCAST, LK_F32, lb_bin(b, L_SHL, code, i32(b, code, 16)));
    if (!f) { // e8m0: the exponent alone; 2^-127 is not a normal number
        ins *bits = lb_bin(b, L_SHL, code, i32(b, code, 23));
        bits = lb_select(b, lb_cmp(b, L_EQ, code, i32(b, code, 0)), i32(b, code, 1 << 22), bits);
        bits = lb_select(b, lb_cmp(b, L_EQ, code, i32(b, code, 255)), i32(b, code, 0x7fc00000), bits);
        return lb_conv(b, L_BITCAST, LK_F32, bits);
    }
    int sign_bit = f->ebits + f->mbits;
    ins *bits = decode_magnitude(b, f, lb_bin(b, L_AND, code, i32(b, code, f->all)));
    ins *sign = lb_bin(b, L_AND, code, i32(b, code, 1ll << sign_bit));
    ins *r = lb_bin(b, L_OR, bits, lb_bin(b, L_SHL, sign, i32(b, code, 31 - sign_bit)));
    if (f->special == FORMAT_FNUZ)
        r = lb_select(b, lb_cmp(b, L_EQ, code, i32(b, code, 1ll << sign_bit)), i32(b, code, 0x7fc00000), r);
    return lb_conv(b, L_BITCAST, LK_F32, r);
}

// Drops the low bits of u, rounding to nearest even.
static ins *round_off(lbuild *b, ins *u, int drop) {
    ins *odd = lb_bin(b, L_AND, lb_bin(b, L_LSHR, u, i32(b, u, drop)), i32(b, u, 1));
    ins *sum = lb_bin(b, L_ADD, lb_bin(b, L_ADD, u, i32(b, u, (1ll << (drop - 1)) - 1)), odd);
    return lb_bin(b, L_LSHR, sum, i32(b, u, drop));
}

// Code of the magnitude with bits u, as if exponents were unbounded. For denormal results, adding a power of
// two whose last place is the smallest step of the format rounds to that step.
static ins *round_magnitude(lbuild *b, const float_format *f, ins *u) {
    ins *normal =
        lb_bin(b, L_SUB, round_off(b, u, 23 - f->mbits), i32(b, u, (int64_t)(127 - f->bias) << f->mbits));
    if (f->bias == 127) return normal;
    ins *step = lb_f32_like(b, u, ldexp(1, 24 - f->bias - f->mbits));
    ins *sum = lb_bin(b, L_ADD, lb_conv(b, L_BITCAST, LK_F32, u), step);
    ins *tiny = lb_bin(b, L_SUB, lb_conv(b, L_BITCAST, LK_I32, sum), lb_conv(b, L_BITCAST, LK_I32, step));
    ins *least = i32(b, u, (int64_t)(128 - f->bias) << 23);
    return lb_select(b, lb_cmp(b, L_SLT, u, least), tiny, normal);
}

static ins *encode_e8m0(lbuild *b, ins *x, bool saturate) {
    ins *u = lb_bin(b, L_AND, lb_conv(b, L_BITCAST, LK_I32, x), i32(b, x, 0x7fffffff));
    ins *up = lb_bin(b, L_LSHR, lb_bin(b, L_ADD, u, i32(b, u, 0x7fffff)), i32(b, u, 23)); // upwards
    ins *least = i32(b, u, 1 << 22);
    ins *code = lb_select(b, lb_cmp(b, L_EQ, u, least), i32(b, u, 0), up);
    code = lb_select(b, lb_cmp(b, L_SLT, u, least), i32(b, u, saturate ? 0 : 255), code);
    code = lb_select(b, lb_cmp(b, L_SLT, i32(b, u, 0x7f000000), u), i32(b, u, saturate ? 254 : 255), code);
    return lb_select(b, lb_cmp(b, L_SLT, i32(b, u, 0x7f800000), u), i32(b, u, 255), code);
}

ins *tf32_bits(lbuild *b, ins *x) {
    ltype t = lt(LK_I32, x->type.lanes);
    ins *bits = lb_bitcast(b, t, x), *size = lb_bin(b, L_AND, bits, lb_int(b, t, 0x7fffffff)),
        *infinity = lb_int(b, t, 0x7f800000), *quiet = lb_bin(b, L_OR, bits, lb_int(b, t, 0x400000)),
        *odd = lb_bin(b, L_AND, lb_bin(b, L_LSHR, bits, lb_int(b, t, 13)), lb_int(b, t, 1)),
        *half = lb_bin(b, L_ADD, lb_int(b, t, 0xfff), odd),
        *rounded = lb_bin(b, L_AND, lb_bin(b, L_ADD, bits, half), lb_int(b, t, ~0x1fff));
    ins *other = lb_select(b, lb_cmp(b, L_SLT, infinity, size), quiet, bits);
    return lb_select(b, lb_cmp(b, L_SLE, infinity, size), other, rounded);
}

bool rounds_to_bf16(const target *t, int lanes) {
    bool whole = t->bf16mm ? lanes == 4 : lanes == 8 || lanes == 16; // registers
    return t->bf16_convert && (t->arch.is_gpu || whole);
}

// x: F32. The code as I32.
ins *code_of_float(lbuild *b, dtype t, ins *x, bool saturate) {
    const float_format *f = dtype_small_float(t);
    if (!f) return encode_e8m0(b, x, saturate);
    if (t == DT_BF16 && rounds_to_bf16(b->target, x->type.lanes))
        return lb_conv(b, L_ZEXT, LK_I32, lb_conv(b, L_BITCAST, LK_I16, lb_conv(b, L_FTRUNC, LK_BF16, x)));
    bool clamp = f->special == FORMAT_FINITE || (saturate && dtype_bits(t) == 8);
    int sign_bit = f->ebits + f->mbits;
    ins *bits = lb_conv(b, L_BITCAST, LK_I32, x);
    ins *u = lb_bin(b, L_AND, bits, i32(b, x, 0x7fffffff));
    ins *sign =
        lb_bin(b, L_AND, lb_bin(b, L_LSHR, bits, i32(b, x, 31 - sign_bit)), i32(b, x, 1ll << sign_bit));
    ins *code = round_magnitude(b, f, u), *max = i32(b, x, f->max);
    ins *over = clamp ? max : i32(b, x, f->special == FORMAT_IEEE ? f->max + 1 : f->nan);
    code = lb_select(b, lb_cmp(b, L_SLT, max, code), over, code);
    ins *is_nan = lb_cmp(b, L_SLT, i32(b, x, 0x7f800000), u), *nan = i32(b, x, f->nan);
    if (f->special == FORMAT_FNUZ) // there is no -0
        sign = lb_select(b, lb_cmp(b, L_EQ, code, i32(b, x, 0)), i32(b, x, 0), sign);
    if (f->special == FORMAT_FINITE) return lb_select(b, is_nan, nan, lb_bin(b, L_OR, code, sign));
    return lb_bin(b, L_OR, lb_select(b, is_nan, nan, code), sign);
}

// ---------------------------------------------------------------- rounding once on the way to small formats
// Rounding to odd: an inexact result gets an odd last bit, so that rounding it again to fewer bits equals
// rounding once.

static ins *make_odd(lbuild *b, ins *f, ins *exact, ins *too_small) {
    ins *bits = lb_conv(b, L_BITCAST, LK_I32, f), *one = i32(b, f, 1);
    ins *odd = lb_cmp(b, L_NE, lb_bin(b, L_AND, bits, one), i32(b, f, 0));
    ins *moved = lb_select(b, too_small, lb_bin(b, L_ADD, bits, one), lb_bin(b, L_SUB, bits, one));
    ins *keep = lb_bin(b, L_OR, exact, odd);
    return lb_conv(b, L_BITCAST, LK_F32, lb_select(b, keep, bits, moved));
}

ins *f64_to_odd(lbuild *b, ins *x) {
    ins *f = lb_conv(b, L_FTRUNC, LK_F32, x), *back = lb_conv(b, L_FEXT, LK_F64, f);
    ins *nan = lb_cmp(b, L_NE, x, x);
    ins *exact = lb_bin(b, L_OR, lb_cmp(b, L_EQ, back, x), nan);
    return make_odd(b, f, exact, lb_cmp(b, L_SLT, lb_un(b, L_FABS, back), lb_un(b, L_FABS, x)));
}

// 32- and 64-bit integers: the magnitude is converted and the sign restored. The smallest float above the
// range of the type is above every integer.
static ins *int_to_odd(lbuild *b, ins *x, bool is_signed) {
    ltype t = x->type;
    int bits = 8 * lkind_bytes(t.kind);
    ins *zero = lb_int(b, t, 0), *negative = is_signed ? lb_cmp(b, L_SLT, x, zero) : NULL;
    ins *m = is_signed ? lb_select(b, negative, lb_bin(b, L_SUB, zero, x), x) : x;
    ins *f = lb_conv(b, L_UITOF, LK_F32, m), *end = lb_f32_like(b, x, ldexp(1, bits));
    ins *beyond = lb_cmp(b, L_SLE, end, f);
    ins *back = lb_conv(b, L_FTOUI, t.kind, lb_select(b, beyond, lb_f32_like(b, x, 0), f));
    ins *exact = lb_bin(b, L_AND, lb_cmp(b, L_EQ, back, m), lb_cmp(b, L_SLT, f, end));
    ins *small = lb_bin(b, L_AND, lb_cmp(b, L_ULT, back, m), lb_cmp(b, L_SLT, f, end));
    ins *r = make_odd(b, f, exact, small);
    return is_signed ? lb_select(b, negative, lb_un(b, L_FNEG, r), r) : r;
}

// ---------------------------------------------------------------- casts

static bool is_small_float(dtype t) { return dtype_is_float(t) && dtype_bits(t) < 32; }

static ins *to_i32(lbuild *b, dtype t, ins *x) {
    return lb_conv(b, dtype_is_signed(t) ? L_SEXT : L_ZEXT, LK_I32, x);
}

static ins *int_to_float(lbuild *b, dtype from, lkind to, ins *x) {
    if (from == DT_BOOL) {
        ltype t = lt(to, x->type.lanes);
        return lb_select(b, x, lb_float(b, t, 1), lb_float(b, t, 0));
    }
    if (dtype_bits(from) < 32) return lb_conv(b, L_SITOF, to, to_i32(b, from, x)); // fits signed
    return lb_conv(b, dtype_is_signed(from) ? L_SITOF : L_UITOF, to, x);
}

// Rounds to a whole number before the conversion to a small type: x = rint(v) or rint(v) + zero, an integer.
typedef struct rounding {
    ins *v; // NULL: another form
    double zero;
} rounding;
static rounding rounding_of(const lbuild *b, const ins *x) {
    double zero = 0;
    if (x->op == L_ADD && x->args[1]->op == L_CONST) zero = x->args[1]->f, x = x->args[0];
    bool fits = x->op == L_RINT && x->type.kind == LK_F32 && rounds_to_int(b->target, x->type.lanes);
    return fits && fabs(zero) <= 1 << 16 && zero == rint(zero) ? (rounding){x->args[0], zero} : (rounding){0};
}

// Clamped between lo and hi; a NaN becomes 0, which is one of them if lo is 0.
static ins *clamped(lbuild *b, ins *x, double lo, double hi, bool nan_is_low) {
    ins *low = lb_float(b, x->type, lo), *high = lb_float(b, x->type, hi);
    if (nan_is_low) return lb_bin(b, L_FMIN, high, lb_bin(b, L_FMAX, x, low));
    ins *c = lb_bin(b, L_FMIN, high, lb_bin(b, L_FMAX, low, x));
    return lb_select(b, lb_cmp(b, L_EQ, x, x), c, lb_float(b, x->type, 0));
}

// Limits are whole numbers, so that clamping before rounding and adding equals clamping afterwards.
static ins *round_to_small(lbuild *b, const rounding *r, double lo, double hi, bool nan_is_low) {
    if (rounding_saturates(b->target) && r->zero == 0) {
        ins *n = lb_conv(b, L_RINTSAT, LK_I32, r->v);
        n = lb_bin(b, L_SMAX, n, lb_int(b, n->type, (int64_t)lo));
        return lb_bin(b, L_SMIN, n, lb_int(b, n->type, (int64_t)hi));
    }
    ins *v = clamped(b, r->v, lo - r->zero, hi - r->zero, nan_is_low);
    ins *i = lb_conv(b, L_RINTI, LK_I32, v);
    return lb_bin(b, L_ADD, i, lb_int(b, i->type, (int64_t)r->zero));
}

// Whether x is known to be whole: rounded, or a sum of such.
static bool is_whole(const ins *x) {
    if (x->op == L_SPLAT) return is_whole(x->args[0]);
    if (x->op == L_ADD || x->op == L_SUB) return is_whole(x->args[0]) && is_whole(x->args[1]);
    return lop_class(x->op) == LC_ROUND || lop_class(x->op) == LC_TO_FLOAT;
}

// Truncates to integers of 64 bits by their halves, which are the low bits of sums with 1.5 * 2^52 and 2^52. All steps are exact.
static ins *truncate_by_halves(lbuild *b, ins *x) {
    ins *whole = lb_un(b, L_TRUNC, x);
    ins *wide = x->type.kind == LK_F64 ? whole : lb_conv(b, L_FEXT, LK_F64, whole);
    ltype ft = wide->type, it = lt(LK_I64, ft.lanes);
    ins *upper = lb_un(b, L_FLOOR, lb_bin(b, L_MUL, wide, lb_float(b, ft, 0x1p-32)));
    ins *lower = lb_muladd(b, upper, lb_float(b, ft, -0x1p32), wide);
    ins *high = lb_bitcast(b, it, lb_bin(b, L_ADD, upper, lb_float(b, ft, 0x1.8p52)));
    ins *low = lb_bitcast(b, it, lb_bin(b, L_ADD, lower, lb_float(b, ft, 0x1p52)));
    low = lb_bin(b, L_XOR, low, lb_bitcast(b, it, lb_float(b, ft, 0x1p52)));
    return lb_bin(b, L_OR, lb_bin(b, L_SHL, high, lb_int(b, it, 32)), low);
}

// Limits that the float type represents are enforced by minimum and maximum. Otherwise the upper limit is the
// next power of two, and the result for values that reach it is selected after the conversion.
static ins *float_to_int(lbuild *b, dtype to, ins *x) {
    bool is_signed = dtype_is_signed(to);
    int bits = dtype_bits(to), digits = x->type.kind == LK_F64 ? 53 : 24, top = is_signed ? bits - 1 : bits;
    ltype ft = x->type, wide = lt(bits <= 32 ? LK_I32 : LK_I64, ft.lanes);
    double lo = is_signed ? -ldexp(1, top) : 0;
    double hi = top <= digits ? ldexp(1, top) - 1 : ldexp(1, top) - ldexp(1, top - digits);
    rounding small = bits <= 16 ? rounding_of(b, x) : (rounding){0};
    if (small.v && (!is_signed || small.zero == 0))
        return lb_conv(b, L_ITRUNC, lkind_of(dtype_compute(to)),
                       round_to_small(b, &small, lo, hi, !is_signed));
    ins *c = clamped(b, x, lo, hi, !is_signed);
    // QEMU 7.2 fails at two truncations to integers of RISC-V's vectors in a row.
    bool whole = bits < 32 && b->target->arch.vector_lengths && rounds_to_int(b->target, ft.lanes) &&
                 x->type.kind == LK_F32 && is_whole(x);
    lop truncation = is_signed || bits < 32 ? L_FTOSI : L_FTOUI;
    bool halves = bits == 64 && ft.lanes > 1 && b->target->truncates_narrow;
    ins *r = halves ? truncate_by_halves(b, c) : lb_conv(b, whole ? L_RINTI : truncation, wide.kind, c);
    if (top > digits) {
        int64_t most = is_signed ? (int64_t)((1ull << top) - 1) : -1;
        r = lb_select(b, lb_cmp(b, L_SLE, lb_float(b, ft, ldexp(1, top)), x), lb_int(b, wide, most), r);
    }
    return bits < 32 ? lb_conv(b, L_ITRUNC, lkind_of(dtype_compute(to)), r) : r;
}

// Wraps to the width of a packed type.
static ins *wrap_packed(lbuild *b, dtype t, ins *x) {
    int bits = dtype_bits(t);
    if (bits >= 8) return x;
    if (!dtype_is_signed(t)) return lb_bin(b, L_AND, x, lb_int(b, x->type, (1 << bits) - 1));
    ins *n = lb_int(b, x->type, 8 - bits);
    return lb_bin(b, L_ASHR, lb_bin(b, L_SHL, x, n), n);
}

static ins *int_to_int(lbuild *b, dtype from, dtype to, ins *x) {
    lkind k = compute_kind(to);
    int have = lkind_bytes(x->type.kind), want = lkind_bytes(k);
    if (from == DT_BOOL) return lb_conv(b, L_ZEXT, k, x);
    ins *r =
        have > want ? lb_conv(b, L_ITRUNC, k, x) : lb_conv(b, dtype_is_signed(from) ? L_SEXT : L_ZEXT, k, x);
    return wrap_packed(b, to, r);
}

// Rounds f32 to bf16 in place, in the upper half of the bits.
static ins *round_bf16(lbuild *b, ins *x) {
    ins *u = lb_conv(b, L_BITCAST, LK_I32, x);
    ins *r = lb_bin(b, L_SHL, round_off(b, u, 16), i32(b, x, 16));
    return lb_select(b, lb_cmp(b, L_EQ, x, x), lb_conv(b, L_BITCAST, LK_F32, r), x);
}

// Rounds F32 to a value of small format t, in F32.
static ins *round_small(lbuild *b, dtype t, ins *x, bool saturate) {
    if (t == DT_BF16) return round_bf16(b, x);
    if (t == DT_F16 && b->target->f16_convert)
        return lb_conv(b, L_FEXT, LK_F32, lb_conv(b, L_FTRUNC, LK_F16, x));
    return float_of_code(b, t, code_of_float(b, t, x, saturate));
}

static ins *to_small(lbuild *b, dtype from, dtype to, ins *x, bool saturate) {
    ins *f = x;
    if (from == DT_F64) f = f64_to_odd(b, x);
    else if (!dtype_is_float(from))
        f = dtype_bits(from) >= 32 ? int_to_odd(b, x, dtype_is_signed(from))
                                   : int_to_float(b, from, LK_F32, x);
    return round_small(b, to, f, saturate);
}

ins *convert_value(lbuild *b, dtype from, dtype to, ins *x, bool saturate) {
    bool from_float = dtype_is_float(from);
    if (dtype_class_of(from) == DC_COMPLEX || dtype_class_of(from) == DC_STRING || from == to) return x;
    if (to == DT_BOOL) return from == DT_BOOL ? x : not_zero(b, x);
    if (is_small_float(to)) return to_small(b, from, to, x, saturate);
    if (dtype_is_float(to)) {
        if (!from_float) return int_to_float(b, from, lkind_of(to), x);
        return lb_conv(b, x->type.kind == LK_F64 ? L_FTRUNC : L_FEXT, lkind_of(to), x);
    }
    if (dtype_bits(to) < 8 && from_float) return float_to_int(b, to, x);
    return from_float ? float_to_int(b, to, x) : int_to_int(b, from, to, x);
}

// ---------------------------------------------------------------- codes in storage

static bool packed(dtype t) { return dtype_bits(t) < 8; }

// Converts a loaded value of the storage kind to a compute value.
static ins *from_storage(lbuild *b, dtype t, ins *x) {
    if (t == b->codes) return x;
    if (t == DT_BOOL) return not_zero(b, x);
    if (t == DT_F16 && x->type.kind == LK_F16) return lb_conv(b, L_FEXT, LK_F32, x);
    if (is_small_float(t)) return float_of_code(b, t, lb_conv(b, L_ZEXT, LK_I32, x));
    return packed(t) ? wrap_packed(b, t, x) : x;
}

ins *element_of_bits(lbuild *b, dtype t, ins *words) {
    if (dtype_is_int(t) && dtype_is_signed(t)) { // vectors of bytes have no shifts on x86-64
        ins *above = lb_int(b, words->type, 32 - dtype_bits(t));
        ins *element = lb_bin(b, L_ASHR, lb_bin(b, L_SHL, words, above), above);
        return lb_conv(b, L_ITRUNC, LK_I8, element);
    }
    ins *code = lb_bin(b, L_AND, words, lb_int(b, words->type, (1 << dtype_bits(t)) - 1));
    return from_storage(b, t, lb_conv(b, L_ITRUNC, LK_I8, code));
}

static lkind storage_kind(lbuild *b, dtype t) {
    if (t == b->codes || t == DT_BF16) return dtype_bits(t) > 8 ? LK_I16 : LK_I8;
    if (t == DT_F16) return b->target->f16_convert ? LK_F16 : LK_I16;
    return lkind_of(t);
}

ins *element_code(lbuild *b, dtype t, ins *x) {
    if (t == b->codes) return x;
    if (t == DT_BOOL) return lb_conv(b, L_ZEXT, LK_I8, x);
    if (t == DT_F16 && b->target->f16_convert) return lb_conv(b, L_FTRUNC, LK_F16, x);
    if (is_small_float(t)) // the cast that made a float8 decided on saturation: its infinity stays
        return lb_conv(b, L_ITRUNC, dtype_bits(t) > 8 ? LK_I16 : LK_I8,
                       code_of_float(b, t, x, dtype_bits(t) != 8));
    return x;
}

// ---------------------------------------------------------------- packed elements: 2 or 4 to a byte, low
// bits first

static int per_byte(dtype t) { return 8 / dtype_bits(t); }
static int log_per_byte(dtype t) { return dtype_bits(t) == 4 ? 1 : 2; }

static ins *byte_index(lbuild *b, dtype t, ins *i) {
    return lb_bin(b, L_LSHR, i, lb_int_like(b, i, log_per_byte(t)));
}

// Bit position of element i in its byte, as I32.
static ins *shift_of(lbuild *b, dtype t, ins *i) {
    ins *in_byte = lb_bin(b, L_AND, i, lb_int_like(b, i, per_byte(t) - 1));
    ins *n = lb_bin(b, L_MUL, in_byte, lb_int_like(b, i, dtype_bits(t)));
    return n->type.kind == LK_I32 ? n : lb_conv(b, L_ITRUNC, LK_I32, n);
}

// Low bits of (byte >> shift), as I8.
static ins *unpack_at(lbuild *b, dtype t, ins *byte, ins *shift) {
    ins *v = lb_bin(b, L_LSHR, lb_conv(b, L_ZEXT, LK_I32, byte), shift);
    v = lb_bin(b, L_AND, v, i32(b, v, (1 << dtype_bits(t)) - 1));
    return lb_conv(b, L_ITRUNC, LK_I8, v);
}

static ins *interleave(lbuild *b, ins *x, ins *y) {
    int mask[1 << 10], n = x->type.lanes;
    for (int i = 0; i < n; i++) mask[2 * i] = i, mask[2 * i + 1] = n + i;
    return lb_shuffle(b, x, y, mask, 2 * n);
}

// Unpacks consecutive bytes into `lanes` elements.
static ins *unpack(lbuild *b, dtype t, ins *bytes, int lanes) {
    int bits = dtype_bits(t), mask[1 << 10];
    if (bytes->type.lanes == 1) {
        ins *step = lb_bin(b, L_MUL, lb_iota(b, lt(LK_I32, lanes)), lb_int(b, lt(LK_I32, lanes), bits));
        return unpack_at(b, t, lb_splat(b, bytes, lanes), step);
    }
    ins *part[4];
    for (int k = 0; k < per_byte(t); k++) {
        ins *v = lb_bin(b, L_LSHR, bytes, lb_int_like(b, bytes, k * bits));
        part[k] = lb_bin(b, L_AND, v, lb_int_like(b, bytes, (1 << bits) - 1));
    }
    ins *all = per_byte(t) == 2
                   ? interleave(b, part[0], part[1])
                   : interleave(b, interleave(b, part[0], part[2]), interleave(b, part[1], part[3]));
    if (all->type.lanes == lanes) return all;
    for (int i = 0; i < lanes; i++) mask[i] = i;
    return lb_shuffle(b, all, all, mask, lanes);
}

static ins *every_other(lbuild *b, ins *x, int first) {
    int mask[1 << 10], n = x->type.lanes / 2;
    if (n == 1) return lb_extract(b, x, first);
    for (int i = 0; i < n; i++) mask[i] = 2 * i + first;
    return lb_shuffle(b, x, x, mask, n);
}

// Packs neighbours x, y of `bits` bits each into x | y << bits.
static ins *join_pairs(lbuild *b, ins *x, int bits) {
    ins *low = every_other(b, x, 0), *high = every_other(b, x, 1);
    return lb_bin(b, L_OR, low, lb_bin(b, L_SHL, high, lb_int_like(b, high, bits)));
}

static ins *pack(lbuild *b, dtype t, ins *x) {
    int bits = dtype_bits(t);
    x = lb_bin(b, L_AND, x, lb_int_like(b, x, (1 << bits) - 1));
    for (; bits < 8; bits *= 2) x = join_pairs(b, x, bits);
    return x;
}

static void store_packed_one(lbuild *b, dtype t, ins *ptr, ins *index, ins *code) {
    ins *at = byte_index(b, t, index), *shift = shift_of(b, t, index);
    ins *old = lb_conv(b, L_ZEXT, LK_I32, lb_load(b, lt(LK_I8, 1), ptr, at, 0));
    ins *mask = i32(b, old, (1 << dtype_bits(t)) - 1);
    ins *hole = lb_bin(b, L_XOR, lb_bin(b, L_SHL, mask, shift), i32(b, old, -1));
    ins *put = lb_bin(b, L_SHL, lb_bin(b, L_AND, lb_conv(b, L_ZEXT, LK_I32, code), mask), shift);
    ins *byte = lb_bin(b, L_OR, lb_bin(b, L_AND, old, hole), put);
    lb_store(b, ptr, at, lb_conv(b, L_ITRUNC, LK_I8, byte), 0);
}

static int bytes_for(dtype t, int lanes) { return (lanes + per_byte(t) - 1) / per_byte(t); }

// ceil(n / per byte)
static ins *bytes_of_n(lbuild *b, dtype t, ins *n) {
    return byte_index(b, t, lb_bin(b, L_ADD, n, lb_int_like(b, n, per_byte(t) - 1)));
}

static ins *first_lanes(lbuild *b, ins *n, int lanes) {
    return lb_cmp(b, L_SLT, lb_iota(b, lt(n->type.kind, lanes)), lb_splat(b, n, lanes));
}

static ins *load_packed_n(lbuild *b, dtype t, ins *ptr, ins *index, int lanes, ins *n) {
    ltype bytes = lt(LK_I8, bytes_for(t, lanes));
    ins *v = unpack(b, t, lb_loadn(b, bytes, ptr, byte_index(b, t, index), bytes_of_n(b, t, n)), lanes);
    return lb_select(b, first_lanes(b, n, lanes), v, lb_int_like(b, v, 0));
}

// ---------------------------------------------------------------- loads and stores

ins *load_element(lbuild *b, dtype t, ins *ptr, ins *index, int lanes) {
    if (!packed(t)) return from_storage(b, t, lb_load(b, lt(storage_kind(b, t), lanes), ptr, index, 0));
    ins *bytes = lb_load(b, lt(LK_I8, lanes == 1 ? 1 : bytes_for(t, lanes)), ptr, byte_index(b, t, index), 0);
    ins *code = lanes == 1 ? unpack_at(b, t, bytes, shift_of(b, t, index)) : unpack(b, t, bytes, lanes);
    return from_storage(b, t, code);
}

// One lane: only a branch avoids the access when n is 0.
static ins *load_one_if(lbuild *b, dtype t, ins *ptr, ins *index, ins *n) {
    ins *v = lb_var(b, "element", zero_of(b, lt(t == b->codes ? storage_kind(b, t) : compute_kind(t), 1)));
    ins *some = lb_if(b, lb_cmp(b, L_SLT, lb_int_like(b, n, 0), n));
    lb_set(b, v, load_element(b, t, ptr, index, 1));
    lb_end(b, some);
    return lb_get(b, v);
}

ins *load_element_n(lbuild *b, dtype t, ins *ptr, ins *index, int lanes, ins *n) {
    if (lanes == 1) return load_one_if(b, t, ptr, index, n);
    ins *code = packed(t) ? load_packed_n(b, t, ptr, index, lanes, n)
                          : lb_loadn(b, lt(storage_kind(b, t), lanes), ptr, index, n);
    ins *v = from_storage(b, t, code);
    // code 0 of e8m0 is not zero
    return t == DT_F8E8M0 ? lb_select(b, first_lanes(b, n, lanes), v, zero_of(b, v->type)) : v;
}

ins *load_codes(lbuild *b, dtype t, ins *ptr, ins *index, int lanes, ins *n) {
    ltype type = lt(storage_kind(b, t), lanes);
    return n ? lb_loadn(b, type, ptr, index, n) : lb_load(b, type, ptr, index, 0);
}
ins *values_of_codes(lbuild *b, dtype t, ins *codes) { return from_storage(b, t, codes); }

ins *load_element_gather(lbuild *b, dtype t, ins *ptr, ins *indices) {
    if (indices->type.lanes == 1) return load_element(b, t, ptr, indices, 1);
    int lanes = indices->type.lanes;
    if (!packed(t)) return from_storage(b, t, lb_gather(b, lt(storage_kind(b, t), lanes), ptr, indices));
    ins *bytes = lb_gather(b, lt(LK_I8, lanes), ptr, byte_index(b, t, indices));
    return from_storage(b, t, unpack_at(b, t, bytes, shift_of(b, t, indices)));
}

void store_element(lbuild *b, dtype t, ins *ptr, ins *index, ins *value, int lanes) {
    ins *code = element_code(b, t, lb_splat(b, value, lanes));
    if (!packed(t)) lb_store(b, ptr, index, code, 0);
    else if (lanes == 1) store_packed_one(b, t, ptr, index, code);
    else lb_store(b, ptr, byte_index(b, t, index), pack(b, t, code), 0);
}

// Elements after the n-th in its byte are loaded and stored back.
static void store_packed_n(lbuild *b, dtype t, ins *ptr, ins *index, ins *code, int lanes, ins *n) {
    ltype bytes = lt(LK_I8, bytes_for(t, lanes));
    ins *at = byte_index(b, t, index), *count = bytes_of_n(b, t, n);
    ins *old = unpack(b, t, lb_loadn(b, bytes, ptr, at, count), lanes);
    ins *mixed = lb_select(b, first_lanes(b, n, lanes), code, old);
    lb_storen(b, ptr, at, pack(b, t, mixed), count);
}

void store_element_n(lbuild *b, dtype t, ins *ptr, ins *index, ins *value, int lanes, ins *n) {
    if (lanes == 1) {
        ins *some = lb_if(b, lb_cmp(b, L_SLT, lb_int_like(b, n, 0), n));
        store_element(b, t, ptr, index, value, 1);
        lb_end(b, some);
        return;
    }
    ins *code = element_code(b, t, lb_splat(b, value, lanes));
    if (packed(t)) store_packed_n(b, t, ptr, index, code, lanes, n);
    else lb_storen(b, ptr, index, code, n);
}

void store_element_scatter(lbuild *b, dtype t, ins *ptr, ins *indices, ins *value) {
    int lanes = indices->type.lanes;
    value = lb_splat(b, value, lanes);
    if (lanes == 1) return store_element(b, t, ptr, indices, value, 1);
    ins *code = element_code(b, t, value);
    if (!packed(t)) return lb_scatter(b, ptr, indices, code);
    for (int l = 0; l < lanes; l++) // two may share a byte
        store_packed_one(b, t, ptr, lb_extract(b, indices, l), lb_extract(b, code, l));
}
