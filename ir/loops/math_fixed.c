// Exponential, logistic function and hyperbolic tangent of f32 for cores without floating point. In: bits of f32. Out: the
// instructions of 32-bit integers that compute the bits of the result; a fifth of what sums and products of floats take.
// Fractions are integers: x 2^32, or x 2^31 where x may be 1.
#include "ir/loops/math_internal.h"
#include "ir/target.h"
#include <math.h>

#include "ir/loops/math_coeffs.inc"

static ins *all_ones(const mctx *m) { return mi(m, -1); }

static ins *fraction_of(const mctx *m, double x, int bits) {
    return mi(m, (int32_t)(uint32_t)llrint(ldexp(x, bits)));
}

static ins *not_of(const mctx *m, ins *x) { return iop(m, L_XOR, x, all_ones(m)); }
static ins *up(const mctx *m, ins *x, int n) { return iop(m, L_SHL, x, mi(m, n)); }
static ins *down(const mctx *m, ins *x, int n) { return iop(m, L_LSHR, x, mi(m, n)); }

// x y 2^-32
static ins *upper_product(const mctx *m, ins *x, ins *y) {
    ins *p = lb_bin(m->b, L_MUL, lb_conv(m->b, L_ZEXT, LK_I64, x), lb_conv(m->b, L_ZEXT, LK_I64, y));
    return lb_conv(m->b, L_ITRUNC, LK_I32, lb_bin(m->b, L_LSHR, p, lb_int_like(m->b, p, 32)));
}

// c[0] + z (c[1] + z ...), or with the magnitudes c[0] - z (c[1] - z ...): terms of one sign, or of alternating signs.
static ins *fixed_poly(const mctx *m, ins *z, const double *c, int n, int bits) {
    bool alternates = c[0] * c[1] < 0;
    ins *p = fraction_of(m, fabs(c[n - 1]), bits);
    for (int i = n - 2; i >= 0; i--)
        p = iop(m, alternates ? L_SUB : L_ADD, fraction_of(m, fabs(c[i]), bits), upper_product(m, p, z));
    return p;
}

// A normal number: 2^(e - bias) mantissa 2^-31, the mantissa with its leading one at bit 31.
typedef struct fixed {
    ins *e, *mantissa;
} fixed;

static fixed fixed_of(const mctx *m, ins *magnitude) {
    return (fixed){down(m, magnitude, m->mant),
                   iop(m, L_OR, up(m, magnitude, 31 - m->mant), mi(m, INT32_MIN))};
}

// mantissa 2^-distance, rounded, for distances below 32. The lowest bit of the mantissa is 0.
static ins *shifted(const mctx *m, ins *mantissa, ins *distance) {
    ins *before = iop(m, L_SMAX, iop(m, L_SUB, distance, mi(m, 1)), mi(m, 0));
    ins *half = iop(m, L_AND, iop(m, L_LSHR, mantissa, before), mi(m, 1));
    return iop(m, L_ADD, iop(m, L_LSHR, mantissa, distance), half);
}

// The bits of a number with 1 <= e < 255.
static ins *bits_of_normal(const mctx *m, ins *e, ins *mantissa) {
    ins *top = iop(m, L_ADD, down(m, mantissa, 8), iop(m, L_AND, down(m, mantissa, 7), mi(m, 1)));
    return iop(m, L_ADD, up(m, iop(m, L_SUB, e, mi(m, 1)), m->mant), top);
}

// The same for lower e, too: numbers below the least normal one are denormal, or 0. What e >= 255 gives is at least infinity's bits.
static ins *bits_of(const mctx *m, ins *e, ins *mantissa) {
    ins *one = mi(m, 1), *below = iop(m, L_SUB, one, e);
    below = iop(m, L_UMIN, iop(m, L_SMAX, below, mi(m, 0)), mi(m, 31));
    ins *top = iop(m, L_LSHR, down(m, mantissa, 8), below);
    ins *half = iop(m, L_AND, iop(m, L_LSHR, down(m, mantissa, 7), below), one);
    return iop(m, L_ADD, up(m, iop(m, L_SUB, iop(m, L_SMAX, e, one), one), m->mant),
               iop(m, L_ADD, top, half));
}

// ---------------------------------------------------------------- powers
//   y = x / log 2 = n + f;  2^n (1 + f p(f))
// x has 25 bits below the point, y 32. Less x is -1 - n and 1 - f, off by 2^-32.

static fixed power_of(const mctx *m, ins *magnitude, int doublings, ins *minus) {
    enum { POINT = 25 };
    fixed x = fixed_of(m, magnitude);
    ins *distance = iop(m, L_SUB, mi(m, m->bias + 31 - POINT - doublings), x.e);
    ins *near = lb_cmp(m->b, L_ULE, distance, mi(m, 31));
    ins *places = shifted(m, x.mantissa, iop(m, L_UMIN, distance, mi(m, 31)));
    places = pick(m, near, places, mi(m, 0));
    ins *p = lb_bin(m->b, L_MUL, lb_conv(m->b, L_ZEXT, LK_I64, places),
                    lb_int(m->b, lt(LK_I64, m->t.lanes), 0xb8aa3b29)); // 2^31 / log 2
    p = lb_bin(m->b, L_LSHR, p, lb_int_like(m->b, p, POINT - 1));
    ins *n = lb_conv(m->b, L_ITRUNC, LK_I32, lb_bin(m->b, L_LSHR, p, lb_int_like(m->b, p, 32)));
    ins *f = iop(m, L_XOR, lb_conv(m->b, L_ITRUNC, LK_I32, p), minus);
    ins *more = upper_product(m, f, fixed_poly(m, f, EXP2_FIXED_64, LENGTH(EXP2_FIXED_64), 31));
    return (fixed){iop(m, L_ADD, iop(m, L_XOR, n, minus), mi(m, m->bias)),
                   iop(m, L_OR, more, mi(m, INT32_MIN))};
}

static ins *magnitude_at_most(const mctx *m, ins *x, uint32_t limit) {
    return iop(m, L_UMIN, iop(m, L_AND, x, mi(m, INT32_MAX)), mi(m, limit));
}

enum {
    BITS_OF_HALF = 0x3f000000,
    BITS_OF_9_5 = 0x41180000,
    BITS_BELOW_128 = 0x42ffffff,
    BITS_OF_2_TO_MINUS_12 = 0x39800000
};
enum { BITS_OF_INFINITY = 0x7f800000 };

static ins *fixed_exp(const mctx *m, ins *x) {
    fixed y = power_of(m, magnitude_at_most(m, x, BITS_BELOW_128), 0, iop(m, L_ASHR, x, mi(m, 31)));
    return iop(m, L_UMIN, bits_of(m, y.e, y.mantissa), mi(m, BITS_OF_INFINITY));
}

// ---------------------------------------------------------------- quotients by 1 + e^-a

typedef struct logistic {
    fixed power;   // e^-a
    ins *term;     // the same as a fraction of 32 bits
    ins *quotient; // 1 / (1 + e^-a), of 31 bits
} logistic;

// Newton: r' = r (2 - d r), twice.
static ins *fixed_reciprocal(const mctx *m, ins *x) {
    ins *d = iop(m, L_OR, down(m, x, 1), mi(m, INT32_MIN)); // 1 + x
    ins *r = fixed_poly(m, x, RECIPROCAL_FIXED_64, LENGTH(RECIPROCAL_FIXED_64), 31);
    for (int i = 0; i < 2; i++) {
        ins *rest = iop(m, L_SUB, mi(m, INT32_MIN), upper_product(m, d, r));
        r = up(m, upper_product(m, r, up(m, rest, 1)), 1);
    }
    return r;
}

static logistic logistic_of(const mctx *m, ins *magnitude, int doublings) {
    logistic l = {.power = power_of(m, magnitude, doublings, all_ones(m))};
    ins *distance = iop(m, L_SUB, mi(m, m->bias - 1), l.power.e);
    l.term = iop(m, L_LSHR, l.power.mantissa, iop(m, L_UMIN, distance, mi(m, 31)));
    l.quotient = fixed_reciprocal(m, l.term);
    return l;
}

// 1 / (1 + e^-a), or e^-a / (1 + e^-a) for x = -a
static ins *fixed_sigmoid(const mctx *m, ins *x) {
    logistic l = logistic_of(m, magnitude_at_most(m, x, BITS_BELOW_128), 0);
    ins *minus = lb_cmp(m->b, L_SLT, x, mi(m, 0));
    ins *y = upper_product(m, l.quotient, pick(m, minus, l.power.mantissa, mi(m, INT32_MIN)));
    ins *e = pick(m, minus, l.power.e, mi(m, m->bias));
    ins *lower = iop(m, L_XOR, down(m, y, 30), mi(m, 1)); // whether y is below 1
    return bits_of(m, iop(m, L_SUB, e, lower), iop(m, L_SHL, up(m, y, 1), lower));
}

// ---------------------------------------------------------------- tanh
//   (1 - e^-2a) / (1 + e^-2a), below 1/2: a (1 - z q(z)), z = a^2

static ins *tanh_above_half(const mctx *m, ins *magnitude) {
    logistic l = logistic_of(m, iop(m, L_UMIN, magnitude, mi(m, BITS_OF_9_5)), 1);
    ins *y = upper_product(m, iop(m, L_SUB, mi(m, 0), l.term), l.quotient);
    return iop(m, L_SUB, bits(m, lb_conv(m->b, L_UITOF, LK_F32, y)), mi(m, 31 << m->mant));
}

static ins *tanh_below_half(const mctx *m, ins *magnitude) {
    fixed x = fixed_of(m, magnitude);
    ins *distance = iop(m, L_UMIN, iop(m, L_SUB, mi(m, m->bias - 1), x.e), mi(m, 31));
    ins *a = iop(m, L_LSHR, x.mantissa, distance), *z = upper_product(m, a, a);
    ins *q = fixed_poly(m, z, TANH_32, LENGTH(TANH_32), 32);
    ins *y = upper_product(m, x.mantissa, not_of(m, upper_product(m, z, q)));
    ins *lower = iop(m, L_XOR, down(m, y, 31), mi(m, 1));
    return bits_of_normal(m, iop(m, L_SUB, x.e, lower), iop(m, L_SHL, y, lower));
}

static ins *fixed_tanh(const mctx *m, ins *x) {
    ins *a = iop(m, L_AND, x, mi(m, INT32_MAX));
    ins *below_half = lb_cmp(m->b, L_ULT, a, mi(m, BITS_OF_HALF));
    ins *y = pick(m, below_half, tanh_below_half(m, a), tanh_above_half(m, a));
    y = pick(m, lb_cmp(m->b, L_ULT, a, mi(m, BITS_OF_2_TO_MINUS_12)), a, y);
    return iop(m, L_OR, y, iop(m, L_AND, x, mi(m, INT32_MIN)));
}

ins *math_fixed(const mctx *m, expr_op op, ins *x) {
    const target *t = m->b->target;
    if (m->f64 || !soft_floats(t) || t->fp == FP_STRICT || m->b->f->strict_fp) return NULL;
    if (op != X_EXP && op != X_SIGMOID && op != X_TANH) return NULL;
    ins *b = bits(m, x);
    ins *y = op == X_EXP ? fixed_exp(m, b) : op == X_SIGMOID ? fixed_sigmoid(m, b) : fixed_tanh(m, b);
    ins *is_nan = lb_cmp(m->b, L_ULT, mi(m, BITS_OF_INFINITY), iop(m, L_AND, b, mi(m, INT32_MAX)));
    return from_bits(m, pick(m, is_nan, b, y));
}
