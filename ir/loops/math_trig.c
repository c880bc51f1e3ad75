// Sine, cosine, tangent and their inverses. Arguments are reduced by pi/2 in parts (Cody and Waite) while the
// quotient is small, and by the bits of 2/pi (Payne and Hanek 1983) in a branch that is taken when any lane is larger.
#include "ir/loops/math_internal.h"
#include <math.h>

#include "ir/loops/math_coeffs.inc"

// x = n pi/2 + (h + l); the low two bits of `quadrant` are the low bits of n.
typedef struct angle {
    ins *quadrant;
    pair r;
} angle;

enum { EXACT_PARTS_32 = 2, EXACT_PARTS_64 = 1 }; // leading parts of pi/2 whose subtraction does not round

static double small_limit(const mctx *m) {
    return by_width(m, 0x1p13, 0x1p20);
} // n fits beside a part of pi/2

static angle reduce_small(const mctx *m, ins *x) {
    angle a;
    ins *n = round_magic(m, x, mf(m, M_2_PI), &a.quadrant);
    int exact = m->f64 ? EXACT_PARTS_64 : EXACT_PARTS_32, parts = m->f64 ? LENGTH(PIO2_64) : LENGTH(PIO2_32);
    for (int i = 0; i < exact; i++) x = muladd(m, n, mf(m, -PART(m, PIO2, i)), x);
    pair s = pair_of(m, x);
    for (int i = exact; i < parts - 1; i++) {
        pair t = two_sum(m, s.h, mul(m, n, mf(m, -PART(m, PIO2, i))));
        s = (pair){t.h, i == exact ? t.l : add(m, s.l, t.l)};
    }
    s.l = muladd(m, n, mf(m, -PART(m, PIO2, parts - 1)), s.l);
    a.r = fast_two_sum(m, s.h, s.l);
    return a;
}

// ---------------------------------------------------------------- large arguments
// x = M 2^k. Only those bits of 2/pi matter that affect M 2^k 2/pi mod 4: a window of 3 (f64: 6) words from
// the weight 2^(2-k) on. Its product with M, truncated to the width of the window, has the quadrant in the
// top two bits and the fraction of pi/2 below.

enum { WORDS_32 = 3, WORDS_64 = 6, PAD_WORDS = 2, TABLE_32 = 9, TABLE_64 = 39 };

static int window_words(const mctx *m) { return m->f64 ? WORDS_64 : WORDS_32; }

static ins *word(const mctx *m, int64_t v) { return lb_int(m->b, lt(LK_I64, m->t.lanes), v); }

// table[first + 0 .. n] where first is a small number in every lane: a multiplexer by the bits of `first`.
static void select_words(const mctx *m, ins *first, ins **out) {
    ins *t[64];
    int total = m->f64 ? TABLE_64 + PAD_WORDS : TABLE_32 + PAD_WORDS, need = window_words(m) + 1;
    for (int i = 0; i < total; i++) t[i] = word(m, i < PAD_WORDS ? 0 : TWO_OVER_PI[i - PAD_WORDS]);
    for (int step = m->f64 ? 32 : 8; step; step /= 2) {
        ins *bit = lb_cmp(m->b, L_NE, iop(m, L_AND, first, word(m, step)), word(m, 0));
        int keep = step - 1 + need;
        for (int i = 0; i < keep && i < total; i++)
            t[i] = pick(m, bit, i + step < total ? t[i + step] : word(m, 0), t[i]);
        if (keep < total) total = keep;
    }
    for (int i = 0; i < need; i++) out[i] = t[i];
}

// Window words, least significant first, as 32-bit numbers in words of 64.
static void window(const mctx *m, ins *start, ins **out) {
    ins *t[WORDS_64 + 1], *shift = iop(m, L_AND, start, word(m, 31)), *low = word(m, 0xffffffff);
    int n = window_words(m);
    select_words(m, iop(m, L_LSHR, start, word(m, 5)), t);
    for (int i = 0; i < n; i++) {
        ins *both = iop(m, L_OR, iop(m, L_SHL, t[i], word(m, 32)), t[i + 1]);
        both = iop(m, L_LSHR, both, iop(m, L_SUB, word(m, 32), shift));
        out[n - 1 - i] = iop(m, L_AND, both, low);
    }
}

// p += factor * w << 32 * at, cut to n words.
static void add_product(const mctx *m, ins **p, ins *factor, ins **w, int at) {
    ins *carry = word(m, 0), *low = word(m, 0xffffffff);
    for (int j = at; j < window_words(m); j++) {
        ins *t = iop(m, L_ADD, iop(m, L_MUL, factor, w[j - at]), iop(m, L_ADD, p[j], carry));
        p[j] = iop(m, L_AND, t, low);
        carry = iop(m, L_LSHR, t, word(m, 32));
    }
}

// Sums words (f64) or half words (f32) as floats; the first has the weight `unit` at its lowest bit. Largest
// first, so that the error of each addition is exact.
static pair words_to_pair(const mctx *m, ins **p, int n) {
    int width = m->f64 ? 32 : 16, pieces = m->f64 ? n : 2 * n;
    pair s = pair_of(m, mf(m, 0));
    double unit = ldexp(1, -width);
    for (int i = 0; i < pieces; i++, unit = ldexp(unit, -width)) {
        ins *w = m->f64 ? p[n - 1 - i] : p[n - 1 - i / 2];
        if (!m->f64) w = i % 2 ? iop(m, L_AND, w, word(m, 0xffff)) : iop(m, L_LSHR, w, word(m, 16));
        if (!m->f64) w = lb_conv(m->b, L_ITRUNC, LK_I32, w);
        pair t = two_sum(m, s.h, mul(m, lb_conv(m->b, L_SITOF, m->t.kind, w), mf(m, unit)));
        s = (pair){t.h, add(m, s.l, t.l)};
    }
    return fast_two_sum(m, s.h, s.l);
}

// The product for x >= 0, least significant word first.
static void times_two_over_pi(const mctx *m, ins *x, ins **p) {
    ins *w[WORDS_64], *i = lb_conv(m->b, L_ZEXT, LK_I64, bits(m, x));
    ins *fraction =
        iop(m, L_OR, iop(m, L_AND, i, word(m, (int64_t)((1ull << m->mant) - 1))), word(m, 1ll << m->mant));
    // k = exponent - bias - mant; padded table: bit b weighs 2^(63-b); the window begins at k + 62
    ins *start = iop(m, L_ADD, iop(m, L_LSHR, i, word(m, m->mant)), word(m, 62 - m->bias - m->mant));
    window(m, start, w);
    for (int j = 0; j < window_words(m); j++) p[j] = word(m, 0);
    add_product(m, p, iop(m, L_AND, fraction, word(m, 0xffffffff)), w, 0);
    if (m->f64) add_product(m, p, iop(m, L_LSHR, fraction, word(m, 32)), w, 1);
}

static angle reduce_large(const mctx *m, ins *x) {
    ins *p[WORDS_64], *low = word(m, 0xffffffff);
    int n = window_words(m);
    times_two_over_pi(m, x, p);
    ins *quadrant = iop(m, L_LSHR, p[n - 1], word(m, 30));
    for (int i = n - 1; i >= 0; i--) { // shift the quadrant out
        ins *in = i ? iop(m, L_LSHR, p[i - 1], word(m, 30)) : word(m, 0);
        p[i] = iop(m, L_AND, iop(m, L_OR, iop(m, L_SHL, p[i], word(m, 2)), in), low);
    }
    // A fraction of at least one half becomes negative, in the next quadrant.
    ins *above = lb_cmp(m->b, L_NE, iop(m, L_AND, p[n - 1], word(m, 1ll << 31)), word(m, 0));
    ins *flip = pick(m, above, low, word(m, 0));
    for (int i = 0; i < n; i++) p[i] = iop(m, L_XOR, p[i], flip);
    quadrant = iop(m, L_ADD, quadrant, lb_conv(m->b, L_ZEXT, LK_I64, above));
    pair half_pi = {mf(m, PART(m, PIO2_HL, 0)), mf(m, PART(m, PIO2_HL, 1))};
    pair r = pair_mul(m, words_to_pair(m, p, n), half_pi);
    ins *minus = mf(m, -1), *plus = mf(m, 1);
    r = pair_scale(m, r, pick(m, above, minus, plus));
    return (angle){m->f64 ? quadrant : lb_conv(m->b, L_ITRUNC, LK_I32, quadrant), r};
}

// For x >= 0.
static angle reduce(const mctx *m, ins *x) {
    lbuild *b = m->b;
    ins *large = lb_cmp(b, L_SLE, mf(m, small_limit(m)), x);
    angle a = reduce_small(m, x);
    ins *q = lb_var(b, "quadrant", a.quadrant), *h = lb_var(b, "angle", a.r.h),
        *l = lb_var(b, "angle_low", a.r.l);
    ins *any = lb_if(b, lb_hreduce(b, L_HOR, large));
    angle far = reduce_large(m, x);
    lb_set(b, q, pick(m, large, far.quadrant, a.quadrant));
    lb_set(b, h, pick(m, large, far.r.h, a.r.h));
    lb_set(b, l, pick(m, large, far.r.l, a.r.l));
    lb_end(b, any);
    return (angle){lb_get(b, q), {lb_get(b, h), lb_get(b, l)}};
}

// ---------------------------------------------------------------- sin, cos, tan

// sin(h + l) = h + (h z p(z) + l), as the two terms
static pair sin_terms(const mctx *m, pair r, ins *z) {
    return (pair){r.h, muladd(m, mul(m, r.h, z), POLY(m, SIN, z), r.l)};
}

// cos(h + l) = (1 - z/2) + (what that lost + z^2 p(z) - h l)
static pair cos_terms(const mctx *m, pair r, ins *z) {
    ins *half = mul(m, z, mf(m, 0.5)), *w = sub(m, mf(m, 1), half);
    ins *lost = sub(m, sub(m, mf(m, 1), w), half);
    ins *t = sub(m, mul(m, mul(m, z, z), POLY(m, COS, z)), mul(m, r.h, r.l));
    return (pair){w, add(m, lost, t)};
}

static ins *bit_set(const mctx *m, ins *q, int64_t bit) {
    return lb_cmp(m->b, L_NE, iop(m, L_AND, q, mi(m, bit)), mi(m, 0));
}

// In tan the rounding of z affects both terms, so the low part of z is added back.
static ins *tan_of(const mctx *m, angle a) {
    pair z = two_prod(m, a.r.h, a.r.h), s = sin_terms(m, a.r, z.h), c = cos_terms(m, a.r, z.h);
    c.l = muladd(m, z.l, mf(m, -0.5), c.l);
    // sin: l (1 - z/2) instead of l
    s.l = sub(m, s.l, mul(m, a.r.l, mul(m, z.h, mf(m, 0.5))));
    s = fast_two_sum(m, s.h, s.l);
    c = fast_two_sum(m, c.h, c.l);
    ins *odd = bit_set(m, a.quadrant, 1);
    pair minus = {neg(m, s.h), neg(m, s.l)};
    pair t = pair_div(m, pair_pick(m, odd, c, s), pair_pick(m, odd, minus, c));
    return add(m, t.h, t.l);
}

static ins *sin_of(const mctx *m, angle a) {
    ins *z = mul(m, a.r.h, a.r.h);
    pair s = sin_terms(m, a.r, z), c = cos_terms(m, a.r, z);
    ins *y = pick(m, bit_set(m, a.quadrant, 1), add(m, c.h, c.l), add(m, s.h, s.l));
    ins *minus = iop(m, L_SHL, iop(m, L_LSHR, a.quadrant, mi(m, 1)), mi(m, m->f64 ? 63 : 31));
    return from_bits(m, iop(m, L_XOR, bits(m, y), minus));
}

// sin and tan are computed for |x|: that preserves -0.
ins *math_trig(const mctx *m, expr_op op, ins *x) {
    ins *t = mabs(m, x);
    angle a = reduce(m, t);
    if (op == X_COS) a.quadrant = iop(m, L_ADD, a.quadrant, mi(m, 1));
    ins *y = op == X_TAN ? tan_of(m, a) : sin_of(m, a);
    if (op != X_COS) {
        ins *top = mi(m, m->f64 ? INT64_MIN : INT32_MIN);
        y = from_bits(m, iop(m, L_XOR, bits(m, y), iop(m, L_AND, bits(m, x), top)));
    }
    return pick(m, less(m, t, mf(m, INFINITY)), y, mf(m, NAN));
}

// ---------------------------------------------------------------- asin, acos, atan

// With z = (1 - |x|)/2 and s = sqrt z for |x| > 1/2, else z = x^2 and s = |x|:  asin s = s + s z p(z).
static ins *arc_sin_cos(const mctx *m, expr_op op, ins *x) {
    ins *t = mabs(m, x), *big = less(m, mf(m, 0.5), t);
    ins *z = pick(m, big, mul(m, sub(m, mf(m, 1), t), mf(m, 0.5)), mul(m, t, t));
    pair root = pair_sqrt(m, pair_of(m, z));
    ins *s = pick(m, big, root.h, t);
    ins *p = mul(m, mul(m, s, z), POLY(m, ASIN, z));
    ins *far = add(m, p, root.l); // asin s = s + far for big, s + p else
    double h = PART(m, PIO2_HL, 0), l = PART(m, PIO2_HL, 1);
    pair d = fast_two_sum(m, mf(m, h), mul(m, s, mf(m, -2)));
    if (op == X_ASIN) { // pi/2 - 2 asin s
        ins *rest = muladd(m, far, mf(m, -2), add(m, d.l, mf(m, l)));
        return with_sign(m, pick(m, big, add(m, d.h, rest), add(m, t, p)), x);
    }
    ins *minus = less(m, x, mf(m, 0));
    pair pi = fast_two_sum(m, mf(m, 2 * h), mul(m, s, mf(m, -2)));
    ins *above = mul(m, add(m, s, far), mf(m, 2)); // x > 1/2: 2 asin s
    ins *below = add(m, pi.h, muladd(m, far, mf(m, -2), add(m, pi.l, mf(m, 2 * l))));
    ins *signed_p = pick(m, minus, neg(m, p), p);
    pair c = fast_two_sum(m, mf(m, h), neg(m, x)); // |x| <= 1/2: pi/2 - asin x
    ins *middle = add(m, c.h, sub(m, add(m, c.l, mf(m, l)), signed_p));
    return pick(m, big, pick(m, minus, below, above), middle);
}

// atan q for 0 <= q <= 1.
static ins *atan_unit(const mctx *m, ins *q) {
    ins *z = mul(m, q, q);
    return muladd(m, mul(m, q, z), POLY(m, ATAN, z), q);
}

// c - y for a constant c in two parts
static ins *from_part(const mctx *m, double h, double l, ins *y) {
    return sub(m, mf(m, h), sub(m, y, mf(m, l)));
}

static ins *atan_of(const mctx *m, ins *x) {
    ins *t = mabs(m, x), *far = less(m, mf(m, 1), t);
    ins *y = atan_unit(m, pick(m, far, divide(m, mf(m, 1), t), t));
    y = pick(m, far, from_part(m, PART(m, PIO2_HL, 0), PART(m, PIO2_HL, 1), y), y);
    return with_sign(m, y, x);
}

ins *math_arc(const mctx *m, expr_op op, ins *x) {
    return op == X_ATAN ? atan_of(m, x) : arc_sin_cos(m, op, x);
}

// The smaller over the larger; 0/0 counts as 0, inf/inf as 1.
ins *math_atan2(const mctx *m, ins *y, ins *x) {
    ins *ay = mabs(m, y), *ax = mabs(m, x), *steep = less(m, ax, ay);
    ins *lo = pick(m, steep, ax, ay), *hi = pick(m, steep, ay, ax);
    ins *q = divide(m, lo, hi);
    q = pick(m, is_inf(m, lo), mf(m, 1), pick(m, equal(m, hi, mf(m, 0)), mf(m, 0), q));
    double h = PART(m, PIO2_HL, 0), l = PART(m, PIO2_HL, 1);
    ins *a = atan_unit(m, q);
    a = pick(m, steep, from_part(m, h, l, a), a);
    ins *left = lb_cmp(m->b, L_SLT, bits(m, x), mi(m, 0));
    a = with_sign(m, pick(m, left, from_part(m, 2 * h, 2 * l, a), a), y);
    ins *nan = lb_bin(m->b, L_OR, lb_cmp(m->b, L_NE, x, x), lb_cmp(m->b, L_NE, y, y));
    return pick(m, nan, mf(m, NAN), a);
}
