// Soft float: IEEE results rounded to nearest even, with denormals, infinities and NaN; sign and payload of
// NaN results are undefined. In: one scalar instruction. Out: a call of a static function of the module on
// the bits of the operands.
#include "ir/loops/legalize_impl.h"
#include <math.h>

// A format of w bits with m fraction bits. Intermediate numbers have three more bits below; the lowest is
// sticky: set if any bit below it was. So bit m + 3 is the leading one, and e its biased exponent.
typedef struct soft {
    lbuild *b;
    ltype t;
    int w, m, bias;
} soft;

static soft soft_of(lbuild *b, int w) {
    return (soft){b, lt(w == 64 ? LK_I64 : LK_I32, 1), w, w == 64 ? 52 : 23, w == 64 ? 1023 : 127};
}

static ins *num(const soft *s, int64_t v) { return lb_int(s->b, s->t, v); }
static ins *add(const soft *s, ins *x, ins *y) { return lb_bin(s->b, L_ADD, x, y); }
static ins *sub(const soft *s, ins *x, ins *y) { return lb_bin(s->b, L_SUB, x, y); }
static ins *and_(const soft *s, ins *x, ins *y) { return lb_bin(s->b, L_AND, x, y); }
static ins *or_(const soft *s, ins *x, ins *y) { return lb_bin(s->b, L_OR, x, y); }
static ins *xor_(const soft *s, ins *x, ins *y) { return lb_bin(s->b, L_XOR, x, y); }
static ins *shl(const soft *s, ins *x, ins *n) { return lb_bin(s->b, L_SHL, x, n); }
static ins *shr(const soft *s, ins *x, ins *n) { return lb_bin(s->b, L_LSHR, x, n); }
static ins *pick(const soft *s, ins *c, ins *x, ins *y) { return lb_select(s->b, c, x, y); }
static ins *below(const soft *s, ins *x, ins *y) { return lb_cmp(s->b, L_SLT, x, y); }
static ins *same(const soft *s, ins *x, ins *y) { return lb_cmp(s->b, L_EQ, x, y); }
static ins *one_if(const soft *s, ins *c) { return lb_conv(s->b, L_ZEXT, s->t.kind, c); }

static ins *infinity(const soft *s) { return num(s, (int64_t)(2 * s->bias + 1) << s->m); }
static ins *not_a_number(const soft *s) {
    return num(s, ((int64_t)(2 * s->bias + 1) << s->m) | 1ll << (s->m - 1));
}
static ins *top_bit(const soft *s) { return num(s, s->w == 64 ? INT64_MIN : INT32_MIN); }
static ins *sign_of(const soft *s, ins *x) { return and_(s, x, top_bit(s)); }
static ins *abs_of(const soft *s, ins *x) { return and_(s, x, num(s, s->w == 64 ? INT64_MAX : INT32_MAX)); }

// x >> n with the bits shifted out ORed into the lowest bit; any n >= 0.
static ins *sticky_shift(const soft *s, ins *x, ins *n) {
    n = lb_bin(s->b, L_UMIN, n, num(s, s->w - 1));
    ins *r = shr(s, x, n);
    return or_(s, r, one_if(s, lb_cmp(s->b, L_NE, shl(s, r, n), x)));
}

// Shifts x left until bit `top` is set; *n: the distance. x = 0 is shifted as far as possible.
static ins *normalise(const soft *s, ins *x, int top, ins **n) {
    *n = num(s, 0);
    int step = 1;
    while (2 * step <= top) step *= 2;
    for (; step; step /= 2) {
        ins *free = lb_cmp(s->b, L_ULT, x, num(s, (int64_t)(1ull << (top + 1 - step))));
        x = pick(s, free, shl(s, x, num(s, step)), x);
        *n = add(s, *n, pick(s, free, num(s, step), num(s, 0)));
    }
    return x;
}

// The bits of r * 2^e rounded to nearest even, for e from 1 on; infinity where rounding leaves the finite numbers.
static ins *rounded(const soft *s, ins *e, ins *r) {
    ins *odd = and_(s, shr(s, r, num(s, 3)), num(s, 1));
    ins *q = shr(s, add(s, add(s, r, num(s, 3)), odd), num(s, 3));
    return add(s, shl(s, sub(s, e, num(s, 1)), num(s, s->m)), q);
}

// Rounds r, whose leading one is at bit m + 3 (or r = 0), to nearest even. Exponents below 1 give denormal
// numbers, with exponent field 0 because there is no leading one.
static ins *round_pack(const soft *s, ins *sign, ins *e, ins *r) {
    ins *one = num(s, 1);
    ins *down = lb_bin(s->b, L_SMAX, sub(s, one, e), num(s, 0));
    r = sticky_shift(s, r, down);
    e = lb_bin(s->b, L_SMIN, lb_bin(s->b, L_SMAX, e, one), num(s, 2 * s->bias + 2));
    return or_(s, sign, lb_bin(s->b, L_UMIN, rounded(s, e, r), infinity(s)));
}

// r with its leading one at bit m + 3, if it is there or at the next; *e grows by one in the second case.
static ins *without_carry(const soft *s, ins *r, ins **e) {
    ins *over = shr(s, r, num(s, s->m + 4));
    *e = add(s, *e, over);
    return or_(s, shr(s, r, over), and_(s, r, over));
}

// Exponent field (at least 1) and fraction with the hidden bit of |x|.
static ins *exponent(const soft *s, ins *a) {
    return lb_bin(s->b, L_SMAX, shr(s, a, num(s, s->m)), num(s, 1));
}

static ins *fraction(const soft *s, ins *a) {
    ins *hidden = num(s, 1ll << s->m), *f = and_(s, a, num(s, (1ll << s->m) - 1));
    return pick(s, below(s, a, hidden), f, or_(s, f, hidden));
}

// Normalised: the leading one is at bit m also for denormal numbers.
typedef struct number {
    ins *e, *f;
} number;

static number normal_number(const soft *s, ins *a) {
    ins *n, *f = normalise(s, fraction(s, a), s->m, &n);
    return (number){sub(s, exponent(s, a), n), f};
}

static ins *param(const lfunc *f, int i) { return f->params.at[i].value; }

// ---------------------------------------------------------------- sums
// The smaller magnitude is shifted to the exponent of the larger one.

typedef struct summands {
    ins *big;   // the one of the larger magnitude
    ins *a, *d; // magnitudes
    ins *minus; // the operands have different signs
} summands;

static summands summands_of(const soft *s, const lfunc *f) {
    ins *x = param(f, 0), *y = param(f, 1), *swap = lb_cmp(s->b, L_ULT, abs_of(s, x), abs_of(s, y));
    ins *big = pick(s, swap, y, x), *small = pick(s, swap, x, y);
    return (summands){big, abs_of(s, big), abs_of(s, small), lb_cmp(s->b, L_SLT, xor_(s, x, y), num(s, 0))};
}

// The sum of two fractions; the exponent of the smaller one is lower by `down`.
static ins *fraction_sum(const soft *s, ins *minus, ins *fa, ins *fd, ins *down) {
    fa = shl(s, fa, num(s, 3)), fd = sticky_shift(s, shl(s, fd, num(s, 3)), down);
    return pick(s, minus, sub(s, fa, fd), add(s, fa, fd));
}

static void make_add(lbuild *b, lfunc *f, int w) {
    soft c = soft_of(b, w), *s = &c;
    summands x = summands_of(s, f);
    ins *big = x.big, *a = x.a, *d = x.d, *minus = x.minus, *e = exponent(s, a);
    ins *r = fraction_sum(s, minus, fraction(s, a), fraction(s, d), sub(s, e, exponent(s, d)));
    // A sum may have one bit too many; a difference may have many too few, but the exponent limits the shift.
    r = without_carry(s, r, &e);
    ins *n;
    ins *full = normalise(s, r, s->m + 3, &n);
    ins *room = below(s, n, e), *left = lb_bin(b, L_SMIN, n, sub(s, e, num(s, 1)));
    r = pick(s, room, full, shl(s, r, left));
    e = sub(s, e, left);
    ins *zero = same(s, r, num(s, 0)), *sign = sign_of(s, big);
    sign = pick(s, lb_bin(b, L_AND, zero, minus), num(s, 0), sign);
    ins *sum = round_pack(s, sign, pick(s, zero, num(s, 1), e), r);
    // a is the larger: if it is NaN, the result is
    ins *both = lb_bin(b, L_AND, same(s, a, d), minus);
    ins *special = pick(s, lb_bin(b, L_OR, both, below(s, infinity(s), a)), not_a_number(s), big);
    lb_return(b, pick(s, lb_cmp(b, L_SLE, infinity(s), a), special, sum));
}

// ---------------------------------------------------------------- products

// The upper word of x * y, with the OR of all lower bits in its lowest bit.
static ins *product_top(const soft *s, ins *x, ins *y) {
    lbuild *b = s->b;
    if (s->w == 32) {
        ltype wide = lt(LK_I64, 1);
        ins *p = lb_bin(b, L_MUL, lb_conv(b, L_ZEXT, LK_I64, x), lb_conv(b, L_ZEXT, LK_I64, y));
        ins *low = lb_conv(b, L_ITRUNC, LK_I32, p);
        ins *high = lb_conv(b, L_ITRUNC, LK_I32, lb_bin(b, L_LSHR, p, lb_int(b, wide, 32)));
        return or_(s, high, one_if(s, lb_cmp(b, L_NE, low, num(s, 0))));
    }
    ins *half = num(s, 32), *mask = num(s, 0xffffffff);
    ins *xl = and_(s, x, mask), *xh = shr(s, x, half), *yl = and_(s, y, mask), *yh = shr(s, y, half);
    ins *ll = lb_bin(b, L_MUL, xl, yl), *lh = lb_bin(b, L_MUL, xl, yh), *hl = lb_bin(b, L_MUL, xh, yl);
    ins *middle = add(s, add(s, shr(s, ll, half), and_(s, lh, mask)), hl);
    ins *high = add(s, add(s, lb_bin(b, L_MUL, xh, yh), shr(s, lh, half)), shr(s, middle, half));
    ins *low = or_(s, shl(s, middle, half), and_(s, ll, mask));
    return or_(s, high, one_if(s, lb_cmp(b, L_NE, low, num(s, 0))));
}

// The product of two fractions whose leading ones are at bit m, with its own at bit m + 3; *e grows by one where it was at the next.
static ins *fraction_product(const soft *s, ins *x, ins *y, ins **e) {
    int up = s->w + 3 - s->m;
    ins *r = product_top(s, shl(s, x, num(s, up / 2)), shl(s, y, num(s, up - up / 2)));
    return without_carry(s, r, e);
}

static ins *is_zero(const soft *s, ins *a) { return same(s, a, num(s, 0)); }
static ins *is_nan(const soft *s, ins *a) { return below(s, infinity(s), a); }

// Selects the result for infinite operands, zeros and NaN; otherwise r.
static ins *special_product(const soft *s, ins *a, ins *d, ins *sign, ins *r) {
    lbuild *b = s->b;
    ins *inf = infinity(s);
    ins *infinite = lb_bin(b, L_OR, same(s, a, inf), same(s, d, inf));
    ins *zero = lb_bin(b, L_OR, is_zero(s, a), is_zero(s, d));
    ins *nan = lb_bin(b, L_OR, is_nan(s, a), is_nan(s, d));
    nan = lb_bin(b, L_OR, nan, lb_bin(b, L_AND, infinite, zero));
    r = pick(s, zero, sign, pick(s, infinite, or_(s, sign, inf), r));
    return pick(s, nan, not_a_number(s), r);
}

static void make_mul(lbuild *b, lfunc *f, int w) {
    soft c = soft_of(b, w), *s = &c;
    ins *x = param(f, 0), *y = param(f, 1), *sign = sign_of(s, xor_(s, x, y));
    ins *a = abs_of(s, x), *d = abs_of(s, y);
    number na = normal_number(s, a), nd = normal_number(s, d);
    ins *e = add(s, sub(s, na.e, num(s, s->bias)), nd.e), *r = fraction_product(s, na.f, nd.f, &e);
    lb_return(b, special_product(s, a, d, sign, round_pack(s, sign, e, r)));
}

// ---------------------------------------------------------------- the usual case
// Nearly all operands and results are normal numbers, or zero: functions for these call the ones above for all others.

static void return_from(lbuild *b, const lfunc *f, const char *other) {
    lb_return(b, lb_call(b, f->result, other, f->params.n, (ins *[]){param(f, 0), param(f, 1)}));
}

// Whether an exponent field belongs to no normal number.
static ins *is_unusual(const soft *s, ins *e) {
    return lb_cmp(s->b, L_ULE, num(s, 2 * s->bias), sub(s, e, num(s, 1)));
}

static ins *exponent_field(const soft *s, ins *a) { return shr(s, a, num(s, s->m)); }

static ins *normal_fraction(const soft *s, ins *a) {
    ins *hidden = num(s, 1ll << s->m);
    return or_(s, and_(s, a, num(s, (1ll << s->m) - 1)), hidden);
}

// The function for all numbers.
static const char *any_name(lbuild *b, const char *what, int w) {
    return arena_printf(b->arena, "onnxc_%s%d_any", what, w);
}

static void return_usual(const soft *s, const lfunc *f, ins *sign, ins *e, ins *r, const char *other) {
    ins *unusual = lb_if(s->b, is_unusual(s, e));
    return_from(s->b, f, other);
    lb_end(s->b, unusual);
    lb_return(s->b, or_(s, sign, rounded(s, e, r)));
}

static void make_usual_add(lbuild *b, lfunc *f, int w) {
    soft c = soft_of(b, w), *s = &c;
    const char *other = any_name(b, "fadd", w);
    summands x = summands_of(s, f);
    ins *sign = sign_of(s, x.big), *e = exponent_field(s, x.a), *ed = exponent_field(s, x.d);
    ins *unusual = lb_if(b, lb_bin(b, L_OR, is_unusual(s, e), is_unusual(s, ed)));
    ins *plain = lb_if(b, lb_bin(b, L_AND, is_zero(s, x.d), lb_cmp(b, L_NE, x.a, num(s, 0))));
    lb_return(b, x.big);
    lb_end(b, plain);
    return_from(b, f, other);
    lb_end(b, unusual);
    ins *r = fraction_sum(s, x.minus, normal_fraction(s, x.a), normal_fraction(s, x.d), sub(s, e, ed));
    r = without_carry(s, r, &e);
    ins *now = lb_var(b, "sum", r), *exponent = lb_var(b, "exponent", e), *n;
    ins *differ = lb_if(b, x.minus), *shorter = lb_if(b, lb_cmp(b, L_ULT, r, num(s, 1ll << (s->m + 3))));
    shorter->i = 25; // of summands that are usually far apart
    ins *zero = lb_if(b, is_zero(s, r));
    lb_return(b, num(s, 0));
    lb_end(b, zero);
    lb_set(b, now, normalise(s, r, s->m + 3, &n));
    lb_set(b, exponent, sub(s, e, n));
    lb_end(b, shorter);
    lb_end(b, differ);
    return_usual(s, f, sign, lb_get(b, exponent), lb_get(b, now), other);
}

// Two operands of a product or quotient: magnitudes, exponents and the sign of the result. `unusual` is open: what is in it is for
// operands that are not normal.
typedef struct factors {
    ins *sign, *a, *d, *ea, *ed, *unusual;
} factors;

static factors factors_of(const soft *s, lfunc *f) {
    factors x = {.sign = sign_of(s, xor_(s, param(f, 0), param(f, 1)))};
    x.a = abs_of(s, param(f, 0)), x.d = abs_of(s, param(f, 1));
    x.ea = exponent_field(s, x.a), x.ed = exponent_field(s, x.d);
    x.unusual = lb_if(s->b, lb_bin(s->b, L_OR, is_unusual(s, x.ea), is_unusual(s, x.ed)));
    return x;
}

static void make_usual_mul(lbuild *b, lfunc *f, int w) {
    soft c = soft_of(b, w), *s = &c;
    const char *other = any_name(b, "fmul", w);
    factors x = factors_of(s, f);
    ins *finite = lb_cmp(b, L_ULT, lb_bin(b, L_UMAX, x.a, x.d), infinity(s));
    ins *zero = lb_if(b, lb_bin(b, L_AND, is_zero(s, lb_bin(b, L_UMIN, x.a, x.d)), finite));
    lb_return(b, x.sign);
    lb_end(b, zero);
    return_from(b, f, other);
    lb_end(b, x.unusual);
    ins *e = add(s, sub(s, x.ea, num(s, s->bias)), x.ed);
    ins *r = fraction_product(s, normal_fraction(s, x.a), normal_fraction(s, x.d), &e);
    return_usual(s, f, x.sign, e, r, other);
}

// ---------------------------------------------------------------- quotients of normal numbers, by the divider
// The dividend is doubled if it is less than the divisor: the quotient has m + 1 bits, as digits of which the divider finds one at a
// time, and the rest tells the bits below.

static ins *quotient_by_digits(const soft *s, ins *x, ins *y, ins *less) {
    static const int digits[] = {7, 8, 8}; // the dividend has at most 32 bits
    lbuild *b = s->b;
    ins *rest = shl(s, x, less), *q = num(s, 0);
    for (size_t i = 0; i < sizeof digits / sizeof *digits; i++) {
        ins *now = shl(s, rest, num(s, digits[i])), *d = lb_bin(b, L_UDIV, now, y);
        rest = sub(s, now, lb_bin(b, L_MUL, d, y));
        q = or_(s, shl(s, q, num(s, digits[i])), d);
    }
    ins *twice = shl(s, rest, num(s, 1)), *fits = lb_cmp(b, L_ULE, y, twice);
    rest = pick(s, fits, sub(s, twice, y), twice);
    q = or_(s, shl(s, q, num(s, 1)), one_if(s, fits));
    return or_(s, shl(s, q, num(s, 2)), one_if(s, lb_cmp(b, L_NE, rest, num(s, 0))));
}

static bool divides_by_digits(const target *t, int w) { return w == 32 && !t->no_divider; }

static void make_usual_div(lbuild *b, lfunc *f, int w) {
    soft c = soft_of(b, w), *s = &c;
    const char *other = any_name(b, "fdiv", w);
    factors x = factors_of(s, f);
    return_from(b, f, other);
    lb_end(b, x.unusual);
    ins *a = normal_fraction(s, x.a), *d = normal_fraction(s, x.d), *less = one_if(s, lb_cmp(b, L_ULT, a, d));
    ins *e = sub(s, add(s, sub(s, x.ea, x.ed), num(s, s->bias)), less);
    return_usual(s, f, x.sign, e, quotient_by_digits(s, a, d, less), other);
}

// ---------------------------------------------------------------- quotients and roots, one bit after the
// other

static void make_div(lbuild *b, lfunc *f, int w) {
    soft c = soft_of(b, w), *s = &c;
    ins *x = param(f, 0), *y = param(f, 1), *sign = sign_of(s, xor_(s, x, y)), *one = num(s, 1);
    ins *a = abs_of(s, x), *d = abs_of(s, y);
    number na = normal_number(s, a), nd = normal_number(s, d);
    ltype count = lt(LK_I32, 1);
    ins *rest = lb_var(b, "rest", na.f), *quotient = lb_var(b, "quotient", num(s, 0));
    ins *i =
        lb_for(b, "i", lb_int(b, count, 0), lb_int(b, count, s->m + 5), lb_int(b, count, 1), LOOP_SERIAL);
    ins *r = lb_get(b, rest), *fits = lb_cmp(b, L_ULE, nd.f, r);
    lb_set(b, quotient, or_(s, shl(s, lb_get(b, quotient), one), one_if(s, fits)));
    lb_set(b, rest, shl(s, pick(s, fits, sub(s, r, nd.f), r), one));
    lb_end(b, i);
    ins *q = or_(s, lb_get(b, quotient), one_if(s, lb_cmp(b, L_NE, lb_get(b, rest), num(s, 0))));
    ins *e = add(s, sub(s, na.e, nd.e), num(s, s->bias - 1));
    q = without_carry(s, q, &e);
    ins *v = round_pack(s, sign, e, q), *inf = infinity(s);
    v = pick(s, lb_bin(b, L_OR, is_zero(s, a), same(s, d, inf)), sign, v);
    v = pick(s, lb_bin(b, L_OR, is_zero(s, d), same(s, a, inf)), or_(s, sign, inf), v);
    ins *neither = lb_bin(b, L_AND, same(s, a, d), lb_bin(b, L_OR, is_zero(s, a), same(s, a, inf)));
    ins *nan = lb_bin(b, L_OR, lb_bin(b, L_OR, is_nan(s, a), is_nan(s, d)), neither);
    lb_return(b, pick(s, nan, not_a_number(s), v));
}

// The root of an even power of two times a fraction with m + 2 bits; each step takes two bits of it.
static void make_sqrt(lbuild *b, lfunc *f, int w) {
    soft c = soft_of(b, w), *s = &c;
    ins *x = param(f, 0), *a = abs_of(s, x), *one = num(s, 1), *two = num(s, 2);
    number n = normal_number(s, a);
    ins *e = add(s, n.e, num(s, s->bias)); // sum of 2 * bias and the exponent
    ins *odd = and_(s, e, one);
    ins *start = shl(s, shl(s, n.f, odd), num(s, s->w - s->m - 2));
    ltype count = lt(LK_I32, 1);
    ins *bits = lb_var(b, "bits", start), *rest = lb_var(b, "rest", num(s, 0)),
        *root = lb_var(b, "root", num(s, 0));
    ins *i =
        lb_for(b, "i", lb_int(b, count, 0), lb_int(b, count, s->m + 4), lb_int(b, count, 1), LOOP_SERIAL);
    ins *now = lb_get(b, bits), *q = lb_get(b, root);
    ins *r = or_(s, shl(s, lb_get(b, rest), two), shr(s, now, num(s, s->w - 2)));
    ins *trial = or_(s, shl(s, q, two), one), *fits = lb_cmp(b, L_ULE, trial, r);
    lb_set(b, rest, pick(s, fits, sub(s, r, trial), r));
    lb_set(b, root, or_(s, shl(s, q, one), one_if(s, fits)));
    lb_set(b, bits, shl(s, now, two));
    lb_end(b, i);
    ins *v = or_(s, lb_get(b, root), one_if(s, lb_cmp(b, L_NE, lb_get(b, rest), num(s, 0))));
    v = round_pack(s, num(s, 0), shr(s, e, one), v);
    v = pick(s, lb_bin(b, L_OR, is_zero(s, a), same(s, x, infinity(s))), x, v);
    ins *minus = lb_bin(b, L_AND, below(s, x, num(s, 0)), lb_cmp(b, L_NE, a, num(s, 0)));
    lb_return(b, pick(s, lb_bin(b, L_OR, minus, is_nan(s, a)), not_a_number(s), v));
}

// ---------------------------------------------------------------- integers near a number
// From 1 to 2^m, a number's bits are rounded at the one that stands for 1; below, only 0 and 1 are near.

static void make_rint(lbuild *b, lfunc *f, int w) {
    soft c = soft_of(b, w), *s = &c;
    ins *x = param(f, 0), *a = abs_of(s, x), *zero = num(s, 0), *one = num(s, 1);
    ins *unit = num(s, (int64_t)s->bias << s->m), *half = num(s, (int64_t)(s->bias - 1) << s->m);
    ins *down = sub(s, num(s, s->bias + s->m), exponent_field(s, a)); // bits below 1
    ins *fits = lb_cmp(b, L_ULE, lb_bin(b, L_SUB, down, one), num(s, s->m - 1));
    down = lb_bin(b, L_UMIN, down, num(s, s->m));
    ins *below = sub(s, shl(s, one, down), one);
    ins *r = add(s, add(s, a, shr(s, below, one)), and_(s, shr(s, a, down), one));
    r = and_(s, r, xor_(s, below, num(s, -1)));
    ins *small = pick(s, lb_cmp(b, L_ULT, half, a), unit, zero);
    r = pick(s, fits, r, pick(s, lb_cmp(b, L_ULT, a, unit), small, a));
    lb_return(b, or_(s, sign_of(s, x), r));
}

// ---------------------------------------------------------------- comparisons

static ins *compare(const soft *s, lop op, ins *x, ins *y) {
    lbuild *b = s->b;
    ins *a = abs_of(s, x), *d = abs_of(s, y);
    ins *nan = lb_bin(b, L_OR, is_nan(s, a), is_nan(s, d)),
        *number = lb_bin(b, L_XOR, nan, lb_int(b, nan->type, 1));
    ins *zeros = is_zero(s, or_(s, a, d));
    // bits have the order of the numbers, reversed for negative ones
    ins *kx = pick(s, below(s, x, num(s, 0)), sub(s, num(s, 0), a), a);
    ins *ky = pick(s, below(s, y, num(s, 0)), sub(s, num(s, 0), d), d);
    if (op == L_SLT || op == L_SLE) return lb_bin(b, L_AND, number, lb_cmp(b, op, kx, ky));
    ins *equal = lb_bin(b, L_AND, number, lb_bin(b, L_OR, zeros, same(s, x, y)));
    return op == L_EQ ? equal : lb_bin(b, L_XOR, equal, lb_int(b, equal->type, 1));
}

static void make_compare(lbuild *b, lfunc *f, int detail) {
    soft c = soft_of(b, detail & 127), *s = &c;
    lop op = (lop)(detail >> 7);
    lb_return(b, lb_conv(b, L_ZEXT, LK_I32, compare(s, op, param(f, 0), param(f, 1))));
}

// ---------------------------------------------------------------- conversions

// detail: width of the float, + 1 for signed.
static void make_from_int(lbuild *b, lfunc *f, int detail) {
    ins *x = param(f, 0), *n;
    soft c = soft_of(b, detail & ~1), word = soft_of(b, 8 * lkind_bytes(x->type.kind)), *s = &c, *l = &word;
    ins *zero = num(l, 0);
    ins *minus = detail & 1 ? below(l, x, zero) : lb_int(b, lt(LK_I1, 1), 0);
    ins *r = normalise(l, pick(l, minus, sub(l, zero, x), x), l->w - 1, &n);
    r = sticky_shift(l, r, num(l, l->w - 1 - (s->m + 3)));
    ins *e = sub(l, num(l, s->bias + l->w - 1), n);
    if (s->w < l->w) {
        r = lb_conv(b, L_ITRUNC, LK_I32, r);
        e = lb_conv(b, L_ITRUNC, LK_I32, e);
    }
    ins *v = or_(s, pick(s, minus, top_bit(s), num(s, 0)), rounded(s, e, r));
    lb_return(b, pick(s, lb_cmp(b, L_EQ, x, zero), num(s, 0), v));
}

// Truncates to the word of the result; the operand is in range. The same for signed and unsigned, in two's complement.
static void make_to_int(lbuild *b, lfunc *f, int w) {
    soft c = soft_of(b, w), word = soft_of(b, 8 * lkind_bytes(f->result.kind)), *s = &c, *l = &word;
    ins *x = param(f, 0), *a = abs_of(s, x);
    ins *e = exponent(s, a), *r = fraction(s, a), *zero = num(l, 0);
    if (w < l->w) {
        e = lb_conv(b, L_ZEXT, LK_I64, e);
        r = lb_conv(b, L_ZEXT, LK_I64, r);
    }
    ins *up = sub(l, e, num(l, s->bias + s->m)), *down = sub(l, zero, up);
    ins *most = num(l, l->w - 1);
    ins *left = shl(l, r, lb_bin(b, L_UMIN, up, most)), *right = shr(l, r, lb_bin(b, L_UMIN, down, most));
    r = pick(l, below(l, up, zero), right, left);
    lb_return(b, pick(l, below(s, x, num(s, 0)), sub(l, zero, r), r));
}

static void make_widen(lbuild *b, lfunc *f, int detail) {
    (void)detail;
    soft c = soft_of(b, 32), wide = soft_of(b, 64), *s = &c, *l = &wide;
    ins *x = param(f, 0), *a = abs_of(s, x);
    number n = normal_number(s, a);
    ins *sign = shl(l, lb_conv(b, L_ZEXT, LK_I64, sign_of(s, x)), num(l, 32));
    ins *e = lb_conv(b, L_SEXT, LK_I64, add(s, n.e, num(s, 1023 - 127 - 1)));
    ins *v = add(l, shl(l, e, num(l, 52)), shl(l, lb_conv(b, L_ZEXT, LK_I64, n.f), num(l, 29)));
    v = pick(l, is_zero(s, a), num(l, 0), v);
    v = pick(l, same(s, a, infinity(s)), infinity(l), v);
    lb_return(b, or_(l, sign, pick(l, is_nan(s, a), not_a_number(l), v)));
}

static void make_narrow(lbuild *b, lfunc *f, int detail) {
    (void)detail;
    soft c = soft_of(b, 32), wide = soft_of(b, 64), *s = &c, *l = &wide;
    ins *x = param(f, 0), *a = abs_of(l, x);
    ins *sign = lb_conv(b, L_ITRUNC, LK_I32, shr(l, sign_of(l, x), num(l, 32)));
    ins *r = lb_conv(b, L_ITRUNC, LK_I32, sticky_shift(l, fraction(l, a), num(l, 52 - 26)));
    ins *e = lb_conv(b, L_ITRUNC, LK_I32, sub(l, exponent(l, a), num(l, 1023 - 127)));
    ins *v = round_pack(s, sign, e, r);
    v = pick(s, lb_cmp(b, L_EQ, a, infinity(l)), or_(s, sign, infinity(s)), v);
    lb_return(b, pick(s, is_nan(l, a), not_a_number(s), v));
}

// ---------------------------------------------------------------- selection

bool soft_float_kind(const target *t, lkind k) {
    if (k == LK_F32) return soft_floats(t);
    return k == LK_F64 && t->freestanding && !t->arch.is_text && !t->f64;
}

static lkind bits_kind(lkind k) { return k == LK_F64 ? LK_I64 : k == LK_F32 ? LK_I32 : k; }
static int width_of(lkind k) { return k == LK_F64 ? 64 : 32; }
static ins *to_bits(lbuild *b, ins *x) { return lb_conv(b, L_BITCAST, bits_kind(x->type.kind), x); }

static ins *arithmetic(lmodule *m, lbuild *b, const char *what, make_helper *make, lkind k, ins *x, ins *y) {
    int w = width_of(k);
    ins *args[2] = {to_bits(b, x), y ? to_bits(b, y) : NULL};
    const char *name = arena_printf(m->arena, "onnxc_%s%d", what, w);
    return lb_conv(b, L_BITCAST, k, call_helper(m, b, name, lt(bits_kind(k), 1), y ? 2 : 1, args, make, w));
}

// A sum or product.
static ins *usual(lmodule *m, lbuild *b, const char *what, make_helper *make, make_helper *any, lkind k,
                  ins *x, ins *y) {
    ltype bits = lt(bits_kind(k), 1);
    need_helper(m, b, any_name(b, what, width_of(k)), bits, 2, (ltype[]){bits, bits}, any, width_of(k));
    return arithmetic(m, b, what, make, k, x, y);
}

// A number's place in the order of all, as a signed word: -0 is before 0. NaN are before -inf, or after inf.
static int32_t place_of(float f) {
    union {
        float f;
        int32_t i;
    } bits = {f};
    return bits.i < 0 ? bits.i ^ INT32_MAX : bits.i;
}

// Whether x is above c, or below it: in places from `first` up to `end`.
static ins *compare_constant(lbuild *b, lop op, ins *x, float c, bool above) {
    int64_t first = place_of(-INFINITY), end = (int64_t)place_of(INFINITY) + 1;
    int64_t before = place_of(c == 0 ? -0.0f : c), after = (int64_t)place_of(c == 0 ? 0.0f : c) + 1;
    if (above) first = op == L_SLT ? after : before;
    else end = op == L_SLT ? before : after;
    soft word = soft_of(b, 32), *s = &word;
    ins *bits = to_bits(b, x), *sign = lb_bin(b, L_ASHR, bits, num(s, 31));
    ins *place = xor_(s, bits, shr(s, sign, num(s, 1)));
    return lb_cmp(b, L_ULT, sub(s, place, num(s, (int32_t)first)), num(s, (int32_t)(end - first)));
}

// Comparisons in few instructions; NULL: others.
static ins *short_compare(lbuild *b, lop op, ins *x, ins *y) {
    bool order = op == L_SLT || op == L_SLE;
    soft word = soft_of(b, 32), *s = &word;
    if (x->type.kind != LK_F32) return NULL;
    if (x == y && op == L_EQ) return lb_cmp(b, L_ULE, abs_of(s, to_bits(b, x)), infinity(s));
    if (x == y && op == L_NE) return lb_cmp(b, L_ULT, infinity(s), abs_of(s, to_bits(b, x)));
    if (order && y->op == L_CONST && !isnan(y->f)) return compare_constant(b, op, x, (float)y->f, false);
    if (order && x->op == L_CONST && !isnan(x->f)) return compare_constant(b, op, y, (float)x->f, true);
    return NULL;
}

static ins *soft_compare(lmodule *m, lbuild *b, lop op, ins *x, ins *y) {
    int w = width_of(x->type.kind);
    bool negate = op == L_NE;
    ins *few = short_compare(b, op, x, y);
    if (few) return few;
    if (negate) op = L_EQ;
    const char *name = arena_printf(m->arena, "onnxc_f%s%d",
                                    op == L_EQ    ? "eq"
                                    : op == L_SLT ? "lt"
                                                  : "le",
                                    w);
    ins *args[2] = {to_bits(b, x), to_bits(b, y)};
    ins *r = call_helper(m, b, name, lt(LK_I32, 1), 2, args, make_compare, w | (int)op << 7);
    return lb_cmp(b, negate ? L_EQ : L_NE, r, lb_int(b, r->type, 0));
}

// The word of an integer that is converted from or to a float: 32 bits suffice only where both have no more.
static lkind word_beside(lkind real, lkind integer) {
    return real == LK_F32 && lkind_bytes(integer) <= 4 ? LK_I32 : LK_I64;
}

static ins *from_int(lmodule *m, lbuild *b, bool is_signed, lkind to, ins *x) {
    int w = width_of(to);
    lkind word = word_beside(to, x->type.kind);
    ins *wide = lb_conv(b, is_signed ? L_SEXT : L_ZEXT, word, x);
    const char *name =
        arena_printf(m->arena, "onnxc_%c%dto%d", is_signed ? 's' : 'u', 8 * lkind_bytes(word), w);
    ins *r = call_helper(m, b, name, lt(bits_kind(to), 1), 1, &wide, make_from_int, w | is_signed);
    return lb_conv(b, L_BITCAST, to, r);
}

static ins *to_int(lmodule *m, lbuild *b, lkind to, ins *x) {
    int w = width_of(x->type.kind);
    lkind word = word_beside(x->type.kind, to);
    ins *bits = to_bits(b, x);
    const char *name = arena_printf(m->arena, "onnxc_%dtoi%d", w, 8 * lkind_bytes(word));
    return lb_conv(b, L_ITRUNC, to, call_helper(m, b, name, lt(word, 1), 1, &bits, make_to_int, w));
}

static ins *resize(lmodule *m, lbuild *b, lkind to, ins *x) {
    ins *bits = to_bits(b, x);
    bool widen = to == LK_F64;
    ins *r = call_helper(m, b, widen ? "onnxc_fext" : "onnxc_ftrunc", lt(bits_kind(to), 1), 1, &bits,
                         widen ? make_widen : make_narrow, 0);
    return lb_conv(b, L_BITCAST, to, r);
}

static ins *extreme(lbuild *b, lop op, ins *x, ins *y) {
    ins *first = op == L_FMIN ? lb_cmp(b, L_SLT, x, y) : lb_cmp(b, L_SLT, y, x);
    return lb_select(b, first, x, y);
}

// Halves were converted to f32 before.
static ins *soft_conversion(lmodule *m, lbuild *b, const ins *x) {
    ins *a = x->args[0];
    if (x->op == L_SITOF || x->op == L_UITOF) return from_int(m, b, x->op == L_SITOF, x->type.kind, a);
    if (x->op == L_FTOSI || x->op == L_FTOUI) return to_int(m, b, x->type.kind, a);
    return resize(m, b, x->type.kind, a);
}

ins *soft_float_expand(lmodule *m, lbuild *b, const ins *x) {
    lkind k = x->type.kind;
    ins *a = x->nargs ? x->args[0] : NULL, *c = x->nargs > 1 ? x->args[1] : NULL;
    if (x->op == L_ADD) return usual(m, b, "fadd", make_usual_add, make_add, k, a, c);
    if (x->op == L_SUB) return usual(m, b, "fadd", make_usual_add, make_add, k, a, lb_un(b, L_FNEG, c));
    if (x->op == L_MUL) return usual(m, b, "fmul", make_usual_mul, make_mul, k, a, c);
    if (x->op == L_FDIV && divides_by_digits(b->target, width_of(k)))
        return usual(m, b, "fdiv", make_usual_div, make_div, k, a, c);
    if (x->op == L_FDIV) return arithmetic(m, b, "fdiv", make_div, k, a, c);
    if (x->op == L_RINT) return arithmetic(m, b, "rint", make_rint, k, a, NULL);
    if (x->op == L_SQRT) return arithmetic(m, b, "fsqrt", make_sqrt, k, a, NULL);
    if (x->op == L_MULADD) return lb_bin(b, L_ADD, lb_bin(b, L_MUL, a, c), x->args[2]);
    if (x->op == L_FMIN || x->op == L_FMAX) return extreme(b, x->op, a, c);
    if (lop_class(x->op) == LC_COMPARE) return soft_compare(m, b, x->op, a, c);
    lclass class = lop_class(x->op);
    if (class == LC_TO_FLOAT || class == LC_TO_INT || class == LC_PRECISION) return soft_conversion(m, b, x);
    diag_defect(b->diag, NULL, "function %s: %s has no soft-float form", b->f->name, lop_name(x->op));
}
