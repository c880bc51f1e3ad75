// Powers, remainders, hyperbolic functions and erf, from the exponential and logarithm in twice the
// precision.
#include "ir/loops/math_internal.h"
#include "ir/target.h"
#include <math.h>

#include "ir/loops/math_coeffs.inc"

static ins *both(const mctx *m, pair p) { return add(m, p.h, p.l); }

// ---------------------------------------------------------------- pow
//   |x|^y = e^(y log |x|), the product in twice the precision; then the sign and C's special cases

// From 2^mant on, all numbers are integers; below, adding 2^mant rounds to an integer.
static ins *is_integer(const mctx *m, ins *abs_y) {
    ins *big = mf(m, by_width(m, 0x1p23, 0x1p52));
    ins *same = equal(m, sub(m, add(m, abs_y, big), big), abs_y);
    return lb_bin(m->b, L_OR, lb_cmp(m->b, L_SLE, big, abs_y), same);
}

// y log|x|. A clamped larger |y| overflows or underflows as well, unless |x| is 1.
static pair pow_exponent(const mctx *m, ins *ax, ins *y) {
    double most = by_width(m, 0x1p40, 0x1p80);
    pair l = log_pair(m, ax);
    return pair_mul(m, l, pair_of(m, at_least(m, -most, at_most(m, most, y))));
}

static ins *pow_magnitude(const mctx *m, ins *ax, ins *y) {
    pair e = pow_exponent(m, ax, y);
    pair p = exp_pair(m, e.h, e.l, 0);
    ins *r = add(m, p.h, p.l);
    ins *falls = less(m, y, mf(m, 0));
    ins *zero = mf(m, 0), *inf = mf(m, INFINITY);
    r = pick(m, is_inf(m, p.h), inf, r);
    r = pick(m, equal(m, ax, zero), pick(m, falls, inf, zero), r);
    return pick(m, is_inf(m, ax), pick(m, falls, zero, inf), r);
}

ins *math_pow(const mctx *m, ins *x, ins *y) {
    lbuild *b = m->b;
    ins *ax = mabs(m, x), *ay = mabs(m, y), *zero = mf(m, 0), *one = mf(m, 1);
    ins *r = pow_magnitude(m, ax, y);
    ins *whole = is_integer(m, ay);
    ins *half_whole = is_integer(m, mul(m, ay, mf(m, 0.5)));
    ins *minus = lb_cmp(b, L_SLT, bits(m, x), mi(m, 0));
    ins *odd = lb_select(b, half_whole, lb_int(b, minus->type, 0), whole);
    r = pick(m, lb_bin(b, L_AND, minus, odd), neg(m, r), r);
    // a negative finite number to a power that is not an integer
    ins *number = lb_bin(b, L_AND, less(m, x, zero), less(m, ax, mf(m, INFINITY)));
    ins *none = lb_select(b, whole, lb_int(b, minus->type, 0), number);
    ins *nan = lb_bin(b, L_OR, lb_cmp(b, L_NE, x, x), lb_cmp(b, L_NE, y, y));
    r = pick(m, lb_bin(b, L_OR, none, nan), mf(m, NAN), r);
    return pick(m, lb_bin(b, L_OR, equal(m, y, zero), equal(m, x, one)), one, r);
}

// ---------------------------------------------------------------- fmod
// |x| = X 2^i and |y| = Y 2^j with whole X and Y: (X 2^(i-j)) mod Y by shifting a few bits at a time

typedef struct whole {
    ins *mantissa, *exponent;
} whole;

static whole whole_of(const mctx *m, ins *abs_bits) {
    ins *e = iop(m, L_LSHR, abs_bits, mi(m, m->mant)), *zero = mi(m, 0);
    ins *fraction = iop(m, L_AND, abs_bits, mi(m, (int64_t)((1ull << m->mant) - 1)));
    ins *denormal = equal(m, e, zero);
    ins *hidden = pick(m, denormal, zero, mi(m, 1ll << m->mant));
    return (whole){iop(m, L_OR, fraction, hidden), pick(m, denormal, mi(m, 1), e)};
}

// mantissa * 2^(exponent - bias - mant), by two normal powers; the second matters only near denormals.
static ins *from_whole(const mctx *m, whole w) {
    ins *f = lb_conv(m->b, L_UITOF, m->t.kind, w.mantissa), *least = mi(m, m->mant + 1);
    ins *field = iop(m, L_SUB, iop(m, L_SMAX, w.exponent, least), mi(m, m->mant));
    ins *below = iop(m, L_SMIN, iop(m, L_SUB, w.exponent, least), mi(m, 0));
    ins *first = from_bits(m, iop(m, L_SHL, field, mi(m, m->mant)));
    ins *second = from_bits(m, iop(m, L_SHL, iop(m, L_ADD, below, mi(m, m->bias)), mi(m, m->mant)));
    return mul(m, mul(m, f, first), second);
}

static ins *remainder_bits(const mctx *m, whole x, whole y) {
    lbuild *b = m->b;
    int step = m->f64 ? 11 : 8; // mantissa bits + step <= width
    ins *r = lb_var(b, "rest", iop(m, L_UREM, x.mantissa, y.mantissa));
    ins *d = lb_var(b, "shift", iop(m, L_SMAX, iop(m, L_SUB, x.exponent, y.exponent), mi(m, 0)));
    ins *loop = lb_loop(b);
    ins *left = lb_get(b, d), *more = lb_cmp(b, L_SLT, mi(m, 0), left);
    ins *any = lb_hreduce(b, L_HOR, more);
    lb_break(b, lb_bin(b, L_XOR, any, lb_int(b, any->type, 1)));
    ins *k = iop(m, L_SMIN, left, mi(m, step));
    lb_set(b, r, iop(m, L_UREM, iop(m, L_SHL, lb_get(b, r), k), y.mantissa));
    lb_set(b, d, iop(m, L_SUB, left, k));
    lb_end(b, loop);
    return lb_get(b, r);
}

ins *math_fmod(const mctx *m, ins *x, ins *y) {
    lbuild *b = m->b;
    ins *ax = mabs(m, x), *ay = mabs(m, y), *inf = mf(m, INFINITY), *one = mf(m, 1);
    // x infinite, y zero or a NaN: NaN; |x| < |y|: x itself. Those lanes compute with 1.
    ins *fine = lb_bin(b, L_AND, less(m, ax, inf), less(m, mf(m, 0), ay));
    ins *smaller = less(m, ax, ay);
    ins *work = lb_select(b, smaller, lb_int(b, fine->type, 0), fine);
    whole wx = whole_of(m, bits(m, pick(m, work, ax, one))),
          wy = whole_of(m, bits(m, pick(m, work, ay, one)));
    ins *r = from_whole(m, (whole){remainder_bits(m, wx, wy), wy.exponent});
    r = pick(m, smaller, x, with_sign(m, r, x));
    return pick(m, fine, r, mf(m, NAN));
}

// ---------------------------------------------------------------- functions in pieces

// Strict results are the same on all targets.
static bool has_pieces(const mctx *m, int pieces) {
    const target *t = m->b->target;
    bool strict = t->fp == FP_STRICT || m->b->f->strict_fp;
    return !m->f64 && m->fma && t->permuted_words == pieces && !strict && m->t.lanes % pieces == 0;
}

typedef struct piecewise {
    int pieces, coefficients;
    double step;
    const double *of; // each coefficient of all pieces
} piecewise;
#define PIECEWISE(name)                                                                                      \
    {LENGTH(*name##_PIECES_32), LENGTH(name##_PIECES_32), name##_STEP_32, *name##_PIECES_32}
static const piecewise ERF_IN_16 = PIECEWISE(ERF16), ERF_IN_8 = PIECEWISE(ERF8),
                       TANH_IN_16 = PIECEWISE(TANH16);

static ins *table_of(const mctx *m, const double *entries, int n) {
    ins *t = lb_float(m->b, lt(LK_F32, n), entries[0]);
    for (int j = 1; j < n; j++) t = lb_insert(m->b, t, lb_float(m->b, lt(LK_F32, 1), entries[j]), j);
    return t;
}

// Lanes from .. from + n of both.
static ins *lanes_of(lbuild *b, ins *x, ins *y, int from, int n) {
    int *lanes = ARENA_ARRAY(b->arena, int, n);
    for (int j = 0; j < n; j++) lanes[j] = from + j;
    return lb_shuffle(b, x, y, lanes, n);
}

// Entries of a vector, whose numbers may be several vectors.
static ins *looked_up(lbuild *b, ins *table, ins *at) {
    int n = at->type.lanes;
    if (n == table->type.lanes) return lb_permute(b, table, at);
    ins *low = looked_up(b, table, lanes_of(b, at, at, 0, n / 2));
    return lanes_of(b, low, looked_up(b, table, lanes_of(b, at, at, n / 2, n / 2)), 0, n);
}

// p(t - k step) with the coefficients of piece k in vectors: fewer instructions than an exponential.
static ins *by_pieces(const mctx *m, ins *t, const piecewise *f) {
    ins *low, *k = round_magic(m, t, mf(m, 1 / f->step), &low), *r = muladd(m, k, mf(m, -f->step), t);
    ins *p = NULL;
    for (int j = f->coefficients - 1; j >= 0; j--) {
        ins *c = looked_up(m->b, table_of(m, f->of + (ptrdiff_t)j * f->pieces, f->pieces), low);
        p = p ? muladd(m, p, r, c) : c;
    }
    return p;
}

// ---------------------------------------------------------------- hyperbolic functions

// With h = e^|x| / 2:  sinh = h - 1/(4h), by a polynomial below 1;  cosh = h + 1/(4h)
static ins *sinh_cosh(const mctx *m, expr_op op, ins *x) {
    ins *t = mabs(m, x);
    pair h = exp_pair(m, t, NULL, 1);
    ins *other = divide(m, mf(m, 0.25), h.h);
    ins *inf = mf(m, INFINITY), *over = is_inf(m, h.h);
    if (op == X_COSH) return pick(m, over, inf, add(m, h.h, add(m, h.l, other)));
    ins *big = pick(m, over, inf, add(m, h.h, sub(m, h.l, other)));
    ins *z = mul(m, t, t), *small = muladd(m, mul(m, t, z), POLY(m, SINH, z), t);
    return with_sign(m, pick(m, less(m, t, mf(m, 1)), small, big), x);
}

// 1 - 2 / (e^2|x| + 1), by a polynomial below 0.6; or in pieces
static ins *tanh_of(const mctx *m, ins *x) {
    if (has_pieces(m, TANH_IN_16.pieces))
        return with_sign(m, by_pieces(m, at_most(m, 9, mabs(m, x)), &TANH_IN_16), x);
    ins *t = mabs(m, x), *c = at_most(m, by_width(m, 10, 20), t);
    ins *e = exp_of_small(m, add(m, c, c));
    ins *big = sub(m, mf(m, 1), divide(m, mf(m, 2), add(m, e, mf(m, 1))));
    ins *z = mul(m, c, c), *small = muladd(m, mul(m, c, z), POLY(m, TANH, z), c);
    return with_sign(m, pick(m, less(m, t, mf(m, 0.6)), small, big), x);
}

// Above 2^big the square would overflow or the difference does not matter: log(2x) = log(1 + x) + log 2.
static ins *is_big(const mctx *m, ins *t) { return less(m, mf(m, by_width(m, 0x1p30, 0x1p60)), t); }

// log(1 + t + t^2 / (1 + sqrt(1 + t^2)))
static ins *asinh_of(const mctx *m, ins *x) {
    ins *t = mabs(m, x), *big = is_big(m, t), *zero = mf(m, 0), *one = mf(m, 1);
    pair c = pair_of(m, pick(m, big, one, t)), q = pair_mul(m, c, c);
    pair root = pair_sqrt(m, pair_add(m, pair_of(m, one), q));
    pair a = pair_add(m, c, pair_div(m, q, pair_add(m, pair_of(m, one), root)));
    pair l = log1p_pair(m, pair_pick(m, big, pair_of(m, t), a), pick(m, big, one, zero));
    ins *same = lb_bin(m->b, L_OR, less(m, t, mf(m, by_width(m, 0x1p-14, 0x1p-28))), is_inf(m, t));
    return with_sign(m, pick(m, same, t, both(m, l)), x);
}

// t = x - 1:  log(1 + t + sqrt(t (t + 2)))
static ins *acosh_of(const mctx *m, ins *x) {
    ins *big = is_big(m, x), *zero = mf(m, 0), *one = mf(m, 1);
    pair t = two_sum(m, pick(m, big, one, x), mf(m, -1));
    pair root = pair_sqrt(m, pair_mul(m, t, pair_add(m, t, pair_of(m, mf(m, 2)))));
    pair a = pair_add(m, t, root);
    pair l = log1p_pair(m, pair_pick(m, big, pair_of(m, x), a), pick(m, big, one, zero));
    ins *y = pick(m, less(m, x, one), mf(m, NAN), both(m, l));
    return pick(m, is_inf(m, x), x, y);
}

// u = 1 + |x|, v = 1 - |x|, e the exponent of u / v:  s = (u - 2^e v) / (u + 2^e v);  (e log 2 + 2 atanh s) /
// 2
static ins *atanh_of(const mctx *m, ins *x) {
    ins *t = mabs(m, x), *one = mf(m, 1);
    pair u = two_sum(m, one, t), v = two_sum(m, one, neg(m, t));
    ins *ratio = divide(m, u.h, v.h);
    split e = split_exponent(m, ratio);
    ins *power = from_bits(m, iop(m, L_ADD, iop(m, L_SUB, bits(m, ratio), bits(m, e.m)), bits(m, one)));
    v = pair_scale(m, v, power);
    pair minus = {neg(m, v.h), neg(m, v.l)};
    pair s = pair_div(m, pair_add(m, u, minus), pair_add(m, u, v));
    ins *y = mul(m, both(m, log_series(m, e.e, s)), mf(m, 0.5));
    y = pick(m, less(m, t, mf(m, by_width(m, 0x1p-13, 0x1p-28))), t, y);
    ins *edge = pick(m, equal(m, t, one), mf(m, INFINITY), mf(m, NAN));
    return with_sign(m, pick(m, less(m, t, one), y, edge), x);
}

ins *math_hyper(const mctx *m, expr_op op, ins *x) {
    if (op == X_TANH) return tanh_of(m, x);
    if (op == X_ASINH) return asinh_of(m, x);
    if (op == X_ACOSH) return acosh_of(m, x);
    if (op == X_ATANH) return atanh_of(m, x);
    return sinh_cosh(m, op, x);
}

// ---------------------------------------------------------------- erf
// x + x p(x^2) below 1, else 1 - e^-p(|x| - middle); or in pieces

// x p(x^2) between -3 and 3; error below 2.4e-5.
static ins *coarse_erf(const mctx *m, ins *x) {
    static const double p[] = {1.12826848,      -0.375314891,   0.111079335,     -0.0251028631, 0.00423542829,
                               -0.000511037069, 4.10605535e-05, -1.94482482e-06, 4.07421616e-08};
    ins *c = at_least(m, -3, at_most(m, 3, x));
    return mul(m, c, poly_of(m, mul(m, c, c), p, LENGTH(p)));
}

// x p(|x| - k step)
static ins *erf_by_pieces(const mctx *m, ins *x, const piecewise *f) {
    ins *t = at_most(m, 4, mabs(m, x));
    return with_sign(m, at_most(m, 1, mul(m, by_pieces(m, t, f), t)), x);
}

ins *math_erf(const mctx *m, ins *x) {
    if (m->coarse) return coarse_erf(m, x);
    if (has_pieces(m, ERF_IN_16.pieces)) return erf_by_pieces(m, x, &ERF_IN_16);
    if (has_pieces(m, ERF_IN_8.pieces)) return erf_by_pieces(m, x, &ERF_IN_8);
    ins *t = mabs(m, x), *c = at_most(m, by_width(m, 3.95, 5.95), t);
    ins *y;
    if (m->f64) {
        ins *near = poly_of(m, sub(m, c, mf(m, ERFC0_MIDDLE_64)), ERFC0_64, LENGTH(ERFC0_64));
        ins *far = poly_of(m, sub(m, c, mf(m, ERFC1_MIDDLE_64)), ERFC1_64, LENGTH(ERFC1_64));
        y = pick(m, less(m, c, mf(m, 2.25)), near, far);
    } else {
        y = poly_of(m, sub(m, c, mf(m, ERFC0_MIDDLE_32)), ERFC0_32, LENGTH(ERFC0_32));
    }
    ins *big = sub(m, mf(m, 1), exp_of_negative(m, neg(m, y)));
    ins *small = muladd(m, c, POLY(m, ERF, mul(m, c, c)), c);
    return with_sign(m, pick(m, less(m, t, mf(m, 1)), small, big), x);
}
