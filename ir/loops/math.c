// Elementary functions: the table of error bounds, the dispatch, and the exponential and logarithm families.
// In: an operation and values. Out: the instructions that compute it; see ir/loops/math_internal.h for the
// means.
#include "ir/loops/math_internal.h"
#include "ir/target.h"
#include <math.h>

#include "ir/loops/math_coeffs.inc"

// Largest errors in units in the last place, over all arguments, with and without fused multiply-add.
// X(operation, f32, f64)
#define MATH_BOUNDS(X)                                                                                       \
    X(X_EXP, 1.0, 1.0)                                                                                       \
    X(X_LOG, 1.0, 1.0)                                                                                       \
    X(X_LOG1P, 1.0, 1.0)                                                                                     \
    X(X_EXPM1, 1.25, 1.25)                                                                                   \
    X(X_SIN, 1.5, 1.5)                                                                                       \
    X(X_COS, 1.5, 1.5)                                                                                       \
    X(X_TAN, 1.5, 1.5)                                                                                       \
    X(X_ASIN, 2.0, 2.0)                                                                                      \
    X(X_ACOS, 2.0, 2.0)                                                                                      \
    X(X_ATAN, 2.0, 2.0)                                                                                      \
    X(X_SINH, 2.0, 2.0)                                                                                      \
    X(X_COSH, 2.0, 2.0)                                                                                      \
    X(X_TANH, 1.5, 1.5)                                                                                      \
    X(X_ASINH, 1.0, 1.0)                                                                                     \
    X(X_ACOSH, 1.0, 1.0)                                                                                     \
    X(X_ATANH, 1.0, 1.0)                                                                                     \
    X(X_ERF, 2.5, 2.5)                                                                                       \
    X(X_SIGMOID, 2.5, 2.5)                                                                                   \
    X(X_POW, 1.5, 1.5)                                                                                       \
    X(X_ATAN2, 2.0, 2.0)                                                                                     \
    X(X_FMOD, 0.0, 0.0)                                                                                      \
    X(X_SQRT, 0.5, 0.5)

double math_ulp_bound(expr_op op, lkind kind) {
#define X(e, f32, f64)                                                                                       \
    if (op == e) return kind == LK_F64 ? f64 : f32;
    MATH_BOUNDS(X)
#undef X
    return -1;
}

static mctx math_ctx(lbuild *b, ltype t) {
    bool f64 = t.kind == LK_F64;
    return (mctx){.b = b,
                  .t = t,
                  .it = lt(f64 ? LK_I64 : LK_I32, t.lanes),
                  .mant = f64 ? 52 : 23,
                  .bias = f64 ? 1023 : 127,
                  .f64 = f64,
                  .coarse = !f64 && !b->target->arch.is_gpu && b->target->precision == PRECISION_BF16,
                  .fma = b->target->fma && b->target->fp != FP_STRICT && !b->f->strict_fp &&
                         (!f64 || b->target->f64)};
}

// ---------------------------------------------------------------- small things

ins *poly_of(const mctx *m, ins *z, const double *c, int n) {
    ins *p = mf(m, c[n - 1]);
    for (int i = n - 2; i >= 0; i--) p = muladd(m, p, z, mf(m, c[i]));
    return p;
}

ins *at_most(const mctx *m, double limit, ins *x) { return lb_bin(m->b, L_FMIN, mf(m, limit), x); }
ins *at_least(const mctx *m, double limit, ins *x) { return lb_bin(m->b, L_FMAX, mf(m, limit), x); }

ins *with_sign(const mctx *m, ins *magnitude, ins *sign) {
    ins *top = mi(m, m->f64 ? INT64_MIN : INT32_MIN);
    return from_bits(m, iop(m, L_OR, bits(m, magnitude), iop(m, L_AND, bits(m, sign), top)));
}

ins *is_inf(const mctx *m, ins *abs_x) { return equal(m, abs_x, mf(m, INFINITY)); }

// The low bits of x + 1.5 * 2^mant are the integer.
ins *round_magic(const mctx *m, ins *x, ins *scale, ins **low) {
    ins *magic = mf(m, by_width(m, 0x1.8p23, 0x1.8p52));
    ins *z = muladd(m, x, scale, magic);
    if (low) *low = bits(m, z);
    return sub(m, z, magic);
}

// ---------------------------------------------------------------- pairs

pair two_sum(const mctx *m, ins *x, ins *y) {
    ins *s = add(m, x, y);
    ins *v = sub(m, s, x);
    return (pair){s, add(m, sub(m, x, sub(m, s, v)), sub(m, y, v))};
}

pair fast_two_sum(const mctx *m, ins *x, ins *y) {
    ins *s = add(m, x, y);
    return (pair){s, sub(m, y, sub(m, s, x))};
}

// The upper half of the bits of x; the remainder is exact, and so are products of halves.
static ins *upper_half(const mctx *m, ins *x) {
    return from_bits(m, iop(m, L_AND, bits(m, x), mi(m, m->f64 ? -(1ll << 27) : -(1ll << 12))));
}

pair two_prod(const mctx *m, ins *x, ins *y) {
    ins *p = mul(m, x, y);
    if (m->fma) return (pair){p, lb_op(m->b, L_FMA, m->t, 3, (ins *[]){x, y, neg(m, p)})};
    ins *xh = upper_half(m, x), *xl = sub(m, x, xh), *yh = upper_half(m, y), *yl = sub(m, y, yh);
    ins *e = sub(m, mul(m, xh, yh), p);
    e = add(m, add(m, e, mul(m, xh, yl)), mul(m, xl, yh));
    return (pair){p, add(m, e, mul(m, xl, yl))};
}

pair pair_add(const mctx *m, pair x, pair y) {
    pair s = two_sum(m, x.h, y.h);
    return fast_two_sum(m, s.h, add(m, s.l, add(m, x.l, y.l)));
}

pair pair_mul(const mctx *m, pair x, pair y) {
    pair p = two_prod(m, x.h, y.h);
    ins *cross = muladd(m, x.h, y.l, mul(m, x.l, y.h));
    return fast_two_sum(m, p.h, add(m, p.l, cross));
}

pair pair_div(const mctx *m, pair x, pair y) {
    ins *q = divide(m, x.h, y.h);
    pair p = two_prod(m, q, y.h);
    ins *rest = add(m, sub(m, sub(m, x.h, p.h), p.l), sub(m, x.l, mul(m, q, y.l)));
    return fast_two_sum(m, q, divide(m, rest, y.h));
}

// The root of 0 is 0: the divisor is never 0.
pair pair_sqrt(const mctx *m, pair x) {
    ins *s = lb_un(m->b, L_SQRT, x.h);
    pair p = two_prod(m, s, s);
    ins *rest = add(m, sub(m, sub(m, x.h, p.h), p.l), x.l);
    return fast_two_sum(m, s, divide(m, rest, at_least(m, by_width(m, 0x1p-100, 0x1p-900), add(m, s, s))));
}

// ---------------------------------------------------------------- exp
//   n = rint(x / log 2);  r = x - n log 2;  e^x = 2^n (1 + r + r^2 p(r))

typedef struct reduced {
    ins *n, *low, *r, *rl; // n as float and in the low bits of a word; r + rl
} reduced;

static reduced exp_reduce(const mctx *m, ins *x, bool with_low) {
    reduced d = {0};
    d.n = round_magic(m, x, mf(m, 0x1.71547652b82fep+0), &d.low);
    if (m->coarse && !with_low) {
        d.r = muladd(m, d.n, mf(m, -0x1.62e43p-1), x);
        return d;
    }
    ins *a = muladd(m, d.n, mf(m, -PART(m, LN2, 0)), x);
    if (!with_low) {
        d.r = muladd(m, d.n, mf(m, -PART(m, LN2, 1)), a);
        return d;
    }
    ins *t = mul(m, d.n, mf(m, PART(m, LN2, 1)));
    d.r = sub(m, a, t);
    d.rl = sub(m, sub(m, a, d.r), t);
    return d;
}

// Two factors with product 2^(n - down). The first is bounded so that nothing becomes denormal; only the
// product with the second rounds. Products rather than sums of bits, which would turn NaN into numbers.
typedef struct scale {
    ins *first, *second;
} scale;

static scale scale_of(const mctx *m, ins *low, int down) {
    ins *e = iop(m, L_SHL, low, mi(m, m->mant));
    ins *e1 = iop(m, L_SMAX, e, mi(m, (int64_t)((uint64_t)(m->f64 ? -900ll : -80ll) << m->mant)));
    ins *rest = iop(m, L_ADD, iop(m, L_SUB, e, e1), mi(m, (int64_t)(m->bias + 1) << m->mant));
    ins *first = iop(m, L_ADD, e1, mi(m, (int64_t)(m->bias - 1 - down) << m->mant));
    return (scale){from_bits(m, first), from_bits(m, rest)};
}

static ins *apply_scale(const mctx *m, scale s, ins *x) { return mul(m, mul(m, x, s.first), s.second); }

// e^r: by Horner's rule when products are not rounded, else as 1 + (r + r^2 p(r)) where the product is
// smaller.
static ins *exp_poly(const mctx *m, ins *r) {
    static const double coarse[] = {0.500051182, 0.167535332, 0.0412776823}; // error below 5.4e-6
    ins *p = m->coarse ? poly_of(m, r, coarse, LENGTH(coarse)) : POLY(m, EXP, r), *one = mf(m, 1);
    if (m->fma) return muladd(m, muladd(m, p, r, one), r, one);
    return add(m, muladd(m, mul(m, r, r), p, r), one);
}

static double exp_top(const mctx *m, int down) {
    return down ? by_width(m, 89.5, 710.5) : by_width(m, 89, 710);
}
static double exp_bottom(const mctx *m) { return by_width(m, -144.2, -1333.7); }

// Results below e^least are 0: an instruction that computes a denormal number, or 0 because it rounds to that, takes
// hundreds of cycles, and weights of a softmax often are that small. Otherwise the bits of apply_scale: both round once.
// The polynomial is replaced rather than x or the result, as the last multiply-add takes the mask. NaN stays by n.
static ins *scaled_exp(const mctx *m, ins *x, double least) {
    reduced d = exp_reduce(m, x, false);
    ins *large = lb_cmp(m->b, L_SLE, mf(m, least), x);
    return lb_bin(m->b, L_SCALE, pick(m, large, exp_poly(m, d.r), mf(m, 0)), d.n);
}

static bool scales(const mctx *m) {
    const target *t = m->b->target;
    return !m->f64 && t->scale_instr && m->t.lanes >= 4 && m->t.lanes * 32 <= t->vector_bits;
}

static const double LEAST_NORMAL = -87.33; // e to it is above 2^-126

ins *exp_of_negative(const mctx *m, ins *x) {
    if (m->coarse && scales(m)) return scaled_exp(m, x, LEAST_NORMAL);
    if (scales(m)) return scaled_exp(m, x, -104); // rounds to 0 below
    reduced d = exp_reduce(m, at_least(m, exp_bottom(m), x), false);
    return apply_scale(m, scale_of(m, d.low, 0), exp_poly(m, d.r));
}

ins *exp_of_small(const mctx *m, ins *x) {
    reduced d = exp_reduce(m, x, false);
    ins *p = exp_poly(m, d.r);
    if (scales(m)) return lb_bin(m->b, L_SCALE, p, d.n);
    ins *e = iop(m, L_ADD, iop(m, L_SHL, d.low, mi(m, m->mant)), mi(m, (int64_t)m->bias << m->mant));
    return mul(m, p, from_bits(m, e));
}

static ins *exp_plain(const mctx *m, ins *x) { return exp_of_negative(m, at_most(m, exp_top(m, 0), x)); }

// p(r) r^2 + rl (1 + r): what must be added to 1 + r.
static ins *exp_tail(const mctx *m, reduced d) {
    return muladd(m, mul(m, d.r, d.r), POLY(m, EXP, d.r), muladd(m, d.rl, d.r, d.rl));
}

pair exp_pair(const mctx *m, ins *x, ins *low, int down) {
    ins *c = at_least(m, exp_bottom(m), at_most(m, exp_top(m, down), x));
    reduced d = exp_reduce(m, c, true);
    if (low) {
        pair r = fast_two_sum(m, d.r, add(m, d.rl, pick(m, equal(m, c, x), low, mf(m, 0))));
        d.r = r.h;
        d.rl = r.l;
    }
    pair p = fast_two_sum(m, mf(m, 1), d.r);
    p = fast_two_sum(m, p.h, add(m, p.l, exp_tail(m, d)));
    scale s = scale_of(m, d.low, down);
    return (pair){apply_scale(m, s, p.h), apply_scale(m, s, p.l)};
}

// 2^n (1 + r + t) - 1 = 2 ((2^(n-1) - 1/2) + 2^(n-1) r + 2^(n-1) t); the halves keep 2^128 out.
static ins *expm1_of(const mctx *m, ins *x) {
    ins *c = at_least(m, by_width(m, -18, -40), at_most(m, exp_top(m, 0), x));
    reduced d = exp_reduce(m, c, true);
    ins *e = from_bits(
        m, iop(m, L_ADD, iop(m, L_SHL, d.low, mi(m, m->mant)), mi(m, (int64_t)(m->bias - 1) << m->mant)));
    pair s = two_sum(m, sub(m, e, mf(m, 0.5)), mul(m, e, d.r));
    ins *y = add(m, s.h, muladd(m, e, exp_tail(m, d), s.l));
    ins *tiny = less(m, mabs(m, x), mf(m, by_width(m, 0x1p-26, 0x1p-55)));
    return pick(m, tiny, x, add(m, y, y));
}

// 1 / (1 + e^-x) and e^x / (e^x + 1), by e^-|x| so that nothing overflows.
static ins *sigmoid_of(const mctx *m, ins *x) {
    ins *e = exp_of_negative(m, neg(m, mabs(m, x)));
    ins *one = mf(m, 1);
    return divide(m, pick(m, less(m, x, mf(m, 0)), e, one), add(m, e, one));
}

// ---------------------------------------------------------------- log
//   x = 2^e m, sqrt(1/2) <= m < sqrt(2);  f = m - 1;  s = f / (2 + f);  log x = e log 2 + 2 atanh(s)

// Converts 64-bit integers to double through the bits of 1.5 * 2^52: few machines have an instruction.
static ins *small_int_to_float(const mctx *m, ins *n) {
    if (!m->f64) return lb_conv(m->b, L_SITOF, LK_F32, n);
    return sub(m, from_bits(m, iop(m, L_ADD, n, mi(m, 0x4338000000000000))), mf(m, 0x1.8p52));
}

split split_exponent(const mctx *m, ins *x) {
    ins *root = mi(m, m->f64 ? 0x3fe6a09e667f3bcd : 0x3f3504f3);
    ins *d = iop(m, L_SUB, bits(m, x), root);
    ins *fraction = iop(m, L_AND, d, mi(m, (int64_t)((1ull << m->mant) - 1)));
    // Arithmetic shifts of 64 bits are slow on vectors: shift logically with an offset that is taken off
    // again.
    ins *e =
        m->f64 ? iop(m, L_SUB, iop(m, L_LSHR, iop(m, L_ADD, d, mi(m, 1024ll << 52)), mi(m, 52)), mi(m, 1024))
               : iop(m, L_ASHR, d, mi(m, 23));
    return (split){small_int_to_float(m, e), from_bits(m, iop(m, L_ADD, fraction, root))};
}

static split split_any(const mctx *m, ins *x) {
    ins *small = less(m, x, mf(m, by_width(m, 0x1p-126, 0x1p-1022)));
    ins *up = mul(m, x, mf(m, by_width(m, 0x1p24, 0x1p54)));
    split s = split_exponent(m, pick(m, small, up, x));
    s.e = pick(m, small, add(m, s.e, mf(m, by_width(m, -24, -54))), s.e);
    return s;
}

pair log_series(const mctx *m, ins *e, pair s) {
    pair z = pair_mul(m, s, s);
    pair c = fast_two_sum(m, mf(m, PART(m, THIRD, 0)), mul(m, z.h, POLY(m, ATANH, z.h)));
    c.l = add(m, c.l, mf(m, PART(m, THIRD, 1)));
    pair t = pair_mul(m, s, pair_mul(m, z, c));
    pair a = pair_add(m, pair_scale(m, s, mf(m, 2)), pair_scale(m, t, mf(m, 2)));
    pair l2 = {mul(m, e, mf(m, PART(m, LN2, 0))), mul(m, e, mf(m, PART(m, LN2, 1)))};
    return pair_add(m, l2, a);
}

// s = f / (2 + f)
static pair atanh_argument(const mctx *m, pair f) {
    pair d = fast_two_sum(m, mf(m, 2), f.h);
    return pair_div(m, f, (pair){d.h, add(m, d.l, f.l)});
}

pair log_pair(const mctx *m, ins *positive) {
    split s = split_any(m, positive);
    return log_series(m, s.e, atanh_argument(m, pair_of(m, sub(m, s.m, mf(m, 1)))));
}

// u = 1 + x = 2^e m; the rounding error of u goes into f, so that f equals x while e = 0.
pair log1p_pair(const mctx *m, pair x, ins *more) {
    pair u = two_sum(m, mf(m, 1), x.h);
    u.l = add(m, u.l, x.l);
    split s = split_exponent(m, u.h);
    // 2^-e; past 2^100 the low part no longer counts.
    ins *e = iop(m, L_SUB, bits(m, s.m), bits(m, u.h)); // -e << mant
    e = iop(m, L_SMAX, e, mi(m, (int64_t)((uint64_t)-100ll << m->mant)));
    ins *down = from_bits(m, iop(m, L_ADD, e, mi(m, (int64_t)m->bias << m->mant)));
    pair f = fast_two_sum(m, sub(m, s.m, mf(m, 1)), mul(m, u.l, down));
    return log_series(m, more ? add(m, s.e, more) : s.e, atanh_argument(m, f));
}

// log(1 + f) = f - f^2/2 + f^3 p(f)
static ins *log_f32(const mctx *m, split s) {
    ins *f = sub(m, s.m, mf(m, 1)), *z = mul(m, f, f);
    ins *t = mul(m, mul(m, f, z), poly_of(m, f, LOG_32, LENGTH(LOG_32)));
    t = muladd(m, s.e, mf(m, LN2_32[1]), t);
    t = muladd(m, z, mf(m, -0.5), t);
    return muladd(m, s.e, mf(m, LN2_32[0]), add(m, f, t));
}

// f - (f^2/2 - s (f^2/2 + R)), R = 2 z (1/3 + z p(z)), as in Sun's fdlibm.
static ins *log_f64(const mctx *m, split s) {
    ins *f = sub(m, s.m, mf(m, 1)), *half = mul(m, mul(m, f, mf(m, 0.5)), f);
    ins *a = divide(m, f, add(m, f, mf(m, 2))), *z = mul(m, a, a);
    ins *r = mul(m, add(m, z, z), muladd(m, z, POLY(m, ATANH, z), mf(m, THIRD_64[0])));
    ins *t = muladd(m, s.e, mf(m, LN2_64[1]), mul(m, a, add(m, half, r)));
    return muladd(m, s.e, mf(m, LN2_64[0]), sub(m, f, sub(m, half, t)));
}

static ins *log_of(const mctx *m, ins *x) {
    split s = split_any(m, x);
    ins *y = m->f64 ? log_f64(m, s) : log_f32(m, s);
    ins *none = pick(m, equal(m, x, mf(m, 0)), mf(m, -INFINITY), mf(m, NAN));
    y = pick(m, less(m, mf(m, 0), x), y, none);
    return pick(m, is_inf(m, x), x, y);
}

static ins *log1p_of(const mctx *m, ins *x) {
    pair l = log1p_pair(m, pair_of(m, x), NULL);
    ins *none = pick(m, equal(m, x, mf(m, -1)), mf(m, -INFINITY), mf(m, NAN));
    ins *y = pick(m, less(m, mf(m, -1), x), add(m, l.h, l.l), none);
    ins *tiny = less(m, mabs(m, x), mf(m, by_width(m, 0x1p-26, 0x1p-55)));
    return pick(m, tiny, x, pick(m, is_inf(m, x), x, y));
}

// ---------------------------------------------------------------- entry points

static void need_float(lbuild *b, expr_op op, ins *x) {
    if (x->type.kind != LK_F32 && x->type.kind != LK_F64)
        diag_defect(b->diag, NULL, "function %s: %s of a value that is neither f32 nor f64", b->f->name,
                    expr_op_name(op));
}

ins *math_unary(lbuild *b, expr_op op, ins *x) {
    need_float(b, op, x);
    mctx c = math_ctx(b, x->type), *m = &c;
    ins *fixed = math_fixed(m, op, x);
    if (fixed) return fixed;
    switch (op) {
    case X_SQRT: return lb_un(b, L_SQRT, x);
    case X_EXP: return exp_plain(m, x);
    case X_LOG: return log_of(m, x);
    case X_LOG1P: return log1p_of(m, x);
    case X_EXPM1: return expm1_of(m, x);
    case X_SIN:
    case X_COS:
    case X_TAN: return math_trig(m, op, x);
    case X_ASIN:
    case X_ACOS:
    case X_ATAN: return math_arc(m, op, x);
    case X_SINH:
    case X_COSH:
    case X_TANH:
    case X_ASINH:
    case X_ACOSH:
    case X_ATANH: return math_hyper(m, op, x);
    case X_ERF: return math_erf(m, x);
    case X_SIGMOID: return sigmoid_of(m, x);
    case X_POW:
    case X_ATAN2:
    case X_COUNT:
#define FUNCTION(...)
#define OP(op, ...) case op:
#include "ir/kernel/expr_ops.def"
        break;
    }
    diag_defect(b->diag, NULL, "function %s: %s is not an elementary function", b->f->name, expr_op_name(op));
}

ins *math_weight(lbuild *b, ins *x) {
    mctx c = math_ctx(b, x->type), *m = &c;
    if (scales(m)) return scaled_exp(m, x, LEAST_NORMAL);
    ins *zero = mf(m, 0), *small = less(m, x, mf(m, LEAST_NORMAL)), *fixed = math_fixed(m, X_EXP, x);
    if (fixed) return pick(m, small, zero, fixed);
    return pick(m, small, zero, exp_of_small(m, pick(m, small, zero, x)));
}

ins *math_binary(lbuild *b, expr_op op, ins *x, ins *y) {
    int lanes = x->type.lanes > y->type.lanes ? x->type.lanes : y->type.lanes;
    need_float(b, op, x);
    x = lb_splat(b, x, lanes);
    y = lb_splat(b, y, lanes);
    mctx c = math_ctx(b, x->type), *m = &c;
    if (op == X_POW) return math_pow(m, x, y);
    if (op == X_ATAN2) return math_atan2(m, x, y);
    if (op == X_FMOD) return math_fmod(m, x, y);
    diag_defect(b->diag, NULL, "function %s: %s is not an elementary function of two values", b->f->name,
                expr_op_name(op));
}
