// Quantisation in few instructions. In: casts to bytes of rounded quotients, and casts of such bytes to floats.
// Out: their values with the same bits.
//
//   byte(rint(v / d) + zero)           rinti(v * c + v * c'), added to zero and clamped as integers,
//                                      where c + c' is 1 / d to twice the precision; v / d if d is no constant
//   float(byte(rint(v / d) + zero))    clamped, and rounded by adding 1.5 * 2^23 and subtracting it again
//   byte(rint((a * s + b * t) / d) + zero), a and b bytes
//                                      rinti(a * A + (b * B + C)), a residual sum between quantised tensors
//
// Without floating point, the first form is computed from the bits of v, in integers.
//
// That these agree with correctly rounded quotients is not assumed but checked for the constants at hand. Both
// sides of the first form are monotonic in v, so it suffices to compare them on both sides of each of the 255
// steps of the result. The third has 65,536 pairs of operands; pairs near a step decide.
#include "passes/schedule/common/requantise.h"
#include "compiler/base/integers.h"
#include "ir/target.h"
#include <float.h>
#include <math.h>

typedef struct factor {
    expr *byte;    // what is read, or a quantised value
    int offset;    // added to it
    int least;     // of the 256 values that its emitted form has
    int shift;     // from these to the byte plus offset
    float scale;   // its factor in the sum
    float product; // in the sum of products
} factor;

typedef struct requantiser {
    expr *value;          // v
    float divisor;        // d; 1: none
    float inverse, rest;  // c and c'
    int zero, least;      // added to the rounded quotient, and the least of 256 bytes
    const expr *run_zero; // the zero point of a run as a float, a byte's; NULL: `zero`
    double bound;         // of |v|, infinite if not known
    bool is_sum;          // of two bytes, not a quotient alone
    factor a, b;
    float constant; // C
    uint32_t reciprocal,
        more; // of integers: 1 / d is (reciprocal + more 2^-32) 2^(-31 - exponent), with the top bit set
    int exponent;
} requantiser;

enum { BYTES = 256, MOST_LANES = 64 };

// ---------------------------------------------------------------- bounds
static double constant_bound(const buffer *b) {
    enum { MOST = 1 << 16 };
    if (b->role != BUF_CONST || b->dtype != DT_F32 || b->data->count > MOST) return INFINITY;
    double most = 0;
    for (int64_t j = 0; j < b->data->count; j++) most = fmax(most, fabs(constant_float(b->data, j)));
    return most;
}

static double int_bound(dtype t) { return ldexp(1, dtype_bits(t)); }

// Of the magnitude of a float, where every operand has one; NaN counts as infinite.
static double bound_of(const expr *x) {
    double a = INFINITY, b = INFINITY;
    if (x->op == X_CONST) return isfinite(x->f) ? fabs(x->f) : INFINITY;
    if (x->op == X_CAST) return dtype_is_int(x->arg[0]->dtype) ? int_bound(x->arg[0]->dtype) : INFINITY;
    if (x->op == X_READ) return x->guard ? INFINITY : constant_bound(x->buffer);
    if (expr_op_class(x->op) != XC_ARITHMETIC) return INFINITY;
    a = bound_of(x->arg[0]);
    if (x->op == X_NEG || x->op == X_ABS) return a;
    if (x->op == X_DIV && x->arg[1]->op == X_CONST && x->arg[1]->f != 0) return a / fabs(x->arg[1]->f);
    b = bound_of(x->arg[1]);
    if (x->op == X_MUL) return isfinite(a) && isfinite(b) ? a * b : INFINITY;
    if (x->op == X_ADD || x->op == X_SUB) return a + b;
    return x->op == X_MIN || x->op == X_MAX ? fmax(a, b) : INFINITY;
}

// ---------------------------------------------------------------- forms
// The constant operand of a commutative operation is put last.
static expr *other_operand(const expr *x, const expr **c) {
    for (int j = 0; j < 2; j++)
        if (x->arg[j]->op == X_CONST) {
            *c = x->arg[j];
            return x->arg[1 - j];
        }
    return NULL;
}

// A number that is far from denormal and infinite ones.
static bool is_ordinary(double v) { return fabs(v) >= 0x1p-60 && fabs(v) <= 0x1p60; }

// rint(v) + float(byte), in any order.
static bool take_run_zero(requantiser *r, const expr **sum) {
    for (int j = 0; j < 2; j++) {
        const expr *zero = (*sum)->arg[j], *rounded = (*sum)->arg[1 - j];
        if (rounded->op != X_RINT || zero->op != X_CAST || !dtype_is_byte(zero->arg[0]->dtype)) continue;
        r->run_zero = zero, *sum = rounded;
        return true;
    }
    return false;
}

static bool take_quotient(requantiser *r, const expr *x) {
    const expr *c = NULL;
    if (x->op != X_CAST || !dtype_is_byte(x->dtype) || x->arg[0]->dtype != DT_F32) return false;
    if (x->to != x->dtype) return false; // elements of less than a byte have other bounds
    *r = (requantiser){.least = x->dtype == DT_I8 ? -BYTES / 2 : 0, .divisor = 1, .inverse = 1};
    x = x->arg[0];
    if (x->op == X_ADD && !take_run_zero(r, &x)) {
        x = other_operand(x, &c);
        if (!x || fabs(c->f) > BYTES || c->f != rint(c->f)) return false;
        r->zero = (int)c->f;
    }
    if (x->op != X_RINT) return false;
    r->value = x->arg[0];
    if (r->value->op != X_DIV || r->value->arg[1]->op != X_CONST) return true;
    r->divisor = (float)r->value->arg[1]->f;
    r->value = r->value->arg[0];
    return r->divisor > 0 && is_ordinary(r->divisor);
}

// float(int32(byte) + offset)
static bool take_byte(factor *f, const expr *x) {
    const expr *c = NULL;
    if (x->op != X_CAST || x->dtype != DT_F32) return false;
    x = x->arg[0];
    f->offset = 0;
    if (x->dtype == DT_I32 && (x->op == X_ADD || (x->op == X_SUB && x->arg[1]->op == X_CONST))) {
        bool less = x->op == X_SUB;
        x = other_operand(x, &c);
        if (!x || c->i < -BYTES || c->i > BYTES) return false;
        f->offset = less ? -(int)c->i : (int)c->i;
    }
    if (x->op == X_CAST && x->dtype == DT_I32) x = x->arg[0];
    f->byte = (expr *)x;
    return dtype_is_byte(x->dtype);
}

static bool take_product(factor *f, const expr *x) {
    const expr *c = NULL;
    if (x->op != X_MUL || !(x = other_operand(x, &c)) || !is_ordinary(c->f)) return false;
    f->scale = (float)c->f;
    return take_byte(f, x);
}

// ---------------------------------------------------------------- one operand
// Whether quotients are in the range of i32.
static bool is_bounded(const requantiser *r) {
    enum { WHOLE_MOST = 1 << 30 };
    return r->bound <= WHOLE_MOST * fmin(r->divisor, 1);
}

static float quotient(const requantiser *r, float v) { return fmaf(v, r->inverse, v * r->rest); }

// The least v whose exact quotient rounds to at least n.
static float first_of(const requantiser *r, int n) {
    float v = (float)((n - 0.5) * (double)r->divisor);
    while (rintf(v / r->divisor) >= (float)n) v = nextafterf(v, -INFINITY);
    while (rintf(v / r->divisor) < (float)n) v = nextafterf(v, INFINITY);
    return v;
}

static double rounded_quotient(const requantiser *r, float v) { return rintf(quotient(r, v)); }

static bool has_same_steps(const requantiser *r, double (*rounded)(const requantiser *, float)) {
    for (int j = 1; j < BYTES; j++) {
        int n = r->least - r->zero + j;
        float v = first_of(r, n);
        if (!(rounded(r, v) >= n) || !(rounded(r, nextafterf(v, -INFINITY)) < n)) return false;
    }
    return true;
}

// Where rounding saturates, c' is no negative number: infinite v have infinite quotients.
static bool find_inverse(requantiser *r, bool saturates) {
    if (r->divisor == 1) return true;
    r->inverse = 1 / r->divisor;
    r->rest = 0;
    if (has_same_steps(r, rounded_quotient)) return true;
    r->rest = (float)(1 / (double)r->divisor - (double)r->inverse);
    if (saturates && r->rest < 0) {
        float inverse = r->inverse;
        r->inverse = nextafterf(inverse, 0);
        r->rest = (float)(1 / (double)r->divisor - (double)r->inverse);
        if (has_same_steps(r, rounded_quotient)) return true;
        r->inverse = inverse;
    }
    r->rest = (float)(1 / (double)r->divisor - (double)r->inverse);
    return has_same_steps(r, rounded_quotient);
}

// ---------------------------------------------------------------- one operand, in integers
//   mantissa of v, 32 bits  *  reciprocal  =  32 bits, which are rounded to the 24 of a float and then to an integer
// Magnitudes from 2^10 on are clamped anyway, and those below 1/4 are 0.

enum { EXPONENT_BIAS = 127, MANTISSA_BITS = 23, LEAST_DISTANCE = 13, MOST_DISTANCE = 25, TOP_BIT = 31 };

static double integer_quotient(const requantiser *r, float v) {
    union {
        float f;
        uint32_t u;
    } bits = {v};
    int e = (int)(bits.u >> MANTISSA_BITS & 255);
    uint64_t mantissa = bits.u << 8 | 1u << TOP_BIT;
    uint32_t p = (uint32_t)((mantissa * r->reciprocal + (mantissa * r->more >> 32)) >> 32);
    int top = (int)(p >> TOP_BIT), distance = EXPONENT_BIAS + MANTISSA_BITS + r->exponent - top - e;
    p <<= 1 - top;
    p = (p >> 8) + (p >> 7 & 1);
    distance = distance < LEAST_DISTANCE  ? LEAST_DISTANCE
               : distance > MOST_DISTANCE ? MOST_DISTANCE
                                          : distance;
    p = (p + (1u << (distance - 1)) - 1 + (p >> distance & 1)) >> distance;
    return signbit(v) ? -(double)p : p;
}

static bool find_reciprocal(requantiser *r) {
    int e;
    double words = ldexp(frexp(1 / (double)r->divisor, &e), 32); // from 2^31 on
    r->reciprocal = (uint32_t)words;
    r->exponent = 1 - e;
    if (has_same_steps(r, integer_quotient)) return true;
    r->more = (uint32_t)ldexp(words - r->reciprocal, 32);
    return has_same_steps(r, integer_quotient);
}

// ---------------------------------------------------------------- sums of two bytes
// Operands whose sum is near a step, and what it rounds to.
typedef struct near_step {
    float a, b, rounded;
} near_step;
typedef VEC(near_step) near_steps;

static float limited(const requantiser *r, float v) {
    float lo = (float)(r->least - r->zero), hi = lo + BYTES - 1;
    return v < lo ? lo : v > hi ? hi : v;
}

static float rounded_sum(const requantiser *r, int a, int b) {
    float x = (float)(a + r->a.shift) * r->a.scale, y = (float)(b + r->b.shift) * r->b.scale, sum = x + y;
    return limited(r, rintf(sum / r->divisor));
}

static near_steps find_near_steps(arena *scratch, const requantiser *r) {
    near_steps all = {0};
    double p = (double)r->a.scale / (double)r->divisor, q = (double)r->b.scale / (double)r->divisor;
    double largest = 2 * BYTES * (fabs(p) + fabs(q)), near = largest * 0x1p-18;
    for (int a = r->a.least; a < r->a.least + BYTES; a++)
        for (int b = r->b.least; b < r->b.least + BYTES; b++) {
            double v = (a + r->a.shift) * p + (b + r->b.shift) * q;
            if (fabs(fabs(v - rint(v)) - 0.5) > near) continue;
            near_step s = {(float)a, (float)b, rounded_sum(r, a, b)};
            VEC_PUSH(scratch, &all, s);
        }
    return all;
}

static bool agrees(const requantiser *r, const near_steps *all) {
    for (int j = 0; j < all->n; j++) {
        const near_step *s = &all->at[j];
        float sum = fmaf(s->a, r->a.product, fmaf(s->b, r->b.product, r->constant));
        if (limited(r, rintf(sum)) != s->rounded) return false;
    }
    return true;
}

static float moved(double v, int steps) {
    float f = (float)v;
    for (; steps > 0; steps--) f = nextafterf(f, INFINITY);
    for (; steps < 0; steps++) f = nextafterf(f, -INFINITY);
    return f;
}

// Constants near the exact ones, all of them within a few units in the last place.
static bool find_products(arena *scratch, requantiser *r) {
    enum { TRIED = 7 };
    near_steps all = find_near_steps(scratch, r);
    double p = (double)r->a.scale / (double)r->divisor, q = (double)r->b.scale / (double)r->divisor;
    double constant = r->a.shift * p + r->b.shift * q, step = 0x1p-20 * (fabs(p) + fabs(q));
    for (int i = 0; i < TRIED; i++)
        for (int j = 0; j < TRIED; j++)
            for (int k = 0; k < 3 * TRIED; k++) {
                r->a.product = moved(p, alternate(i)), r->b.product = moved(q, alternate(j));
                r->constant = (float)(constant + alternate(k) * step);
                if (agrees(r, &all)) return true;
            }
    return false;
}

static requantiser *requantiser_of(emitter *e, const expr *x);

// The form in which the byte is emitted: as it is read, or without its zero point if it is quantised here.
static void set_form(emitter *e, factor *f) {
    const requantiser *inner = requantiser_of(e, f->byte);
    bool quantised = inner && isfinite(inner->bound);
    f->least = f->byte->dtype == DT_I8 ? -BYTES / 2 : 0;
    f->shift = f->offset;
    if (quantised) f->least -= inner->zero, f->shift += inner->zero;
}

static void find_sum(emitter *e, requantiser *r) {
    const expr *v = r->value;
    if (v->op != X_ADD || !take_product(&r->a, v->arg[0]) || !take_product(&r->b, v->arg[1])) return;
    if (r->a.byte->op == X_READ) { // the operand that is computed is added last
        factor f = r->a;
        r->a = r->b, r->b = f;
    }
    set_form(e, &r->a), set_form(e, &r->b);
    r->is_sum = find_products(e->scratch, r);
}

static requantiser *requantiser_of(emitter *e, const expr *x) {
    requantiser *known = map_get_number(&e->requantisers->list, (uint64_t)x->id), r;
    if (!known) {
        known = ARENA_NEW(e->module->arena, requantiser); // without a value: none
        if (take_quotient(&r, x)) {
            r.bound = bound_of(r.value);
            bool soft = soft_floats(e->t);
            if (!soft && !r.run_zero) find_sum(e, &r);
            if (soft ? find_reciprocal(&r) : r.is_sum || find_inverse(&r, rounding_saturates(e->t)))
                *known = r;
        }
        map_put_number(&e->requantisers->list, (uint64_t)x->id, known);
    }
    return known->value ? known : NULL;
}

// ---------------------------------------------------------------- instructions
static ins *fused(lbuild *b, ins *x, ins *y, ins *z) {
    return lb_op(b, L_FMA, x->type, 3, (ins *[]){x, y, z});
}

// A NaN becomes the least number, which is 0 of unsigned bytes.
static ins *clamped(emitter *e, const requantiser *r, ins *v, double scale, double more) {
    lbuild *b = &e->b;
    double lo = r->run_zero ? -2 * BYTES : r->least - r->zero, hi = r->run_zero ? 2 * BYTES : lo + BYTES - 1;
    v = lb_bin(b, L_FMAX, v, lb_f32_like(b, v, (lo - more) * scale));
    return lb_bin(b, L_FMIN, lb_f32_like(b, v, (hi + more) * scale), v);
}

static ins *whole_quotient(emitter *e, const requantiser *r);

static ins *emit_byte(emitter *e, const factor *f) {
    const requantiser *inner = requantiser_of(e, f->byte);
    if (inner && isfinite(inner->bound) && !inner->run_zero) return whole_quotient(e, inner);
    ins *v = emit_vector(e, f->byte);
    v = lb_conv(&e->b, f->byte->dtype == DT_I8 ? L_SEXT : L_ZEXT, LK_I32, v);
    return lb_conv(&e->b, L_SITOF, LK_F32, v);
}

// Of NaN, which becomes the byte 0.
static ins *minus_zero(emitter *e, const requantiser *r, const ins *v) {
    lbuild *b = &e->b;
    if (!r->run_zero || r->least == 0) return lb_f32_like(b, v, -r->zero * (double)r->divisor);
    ins *zero = emit_vector(e, (expr *)r->run_zero);
    zero = lb_bin(b, L_SUB, lb_f32_like(b, zero, 0), zero);
    return lb_splat(b, zero, v->type.lanes);
}

static ins *zero_point(emitter *e, const requantiser *r, const ins *v) {
    lbuild *b = &e->b;
    if (!r->run_zero) return lb_int(b, v->type, r->zero);
    const expr *byte = r->run_zero->arg[0];
    return lb_splat(b,
                    lb_conv(b, byte->dtype == DT_I8 ? L_SEXT : L_ZEXT, LK_I32, emit_vector(e, (expr *)byte)),
                    v->type.lanes);
}

static ins *multiplied(lbuild *b, const requantiser *r, ins *v) {
    if (r->rest != 0)
        return fused(b, v, lb_f32_like(b, v, r->inverse), lb_bin(b, L_MUL, v, lb_f32_like(b, v, r->rest)));
    return r->inverse == 1 ? v : lb_bin(b, L_MUL, v, lb_f32_like(b, v, r->inverse));
}

// The quotient before it is rounded.
static ins *emit_quotient(emitter *e, const requantiser *r) {
    lbuild *b = &e->b;
    if (r->is_sum) {
        ins *y = emit_byte(e, &r->b), *x = emit_byte(e, &r->a);
        y = fused(b, y, lb_f32_like(b, y, r->b.product), lb_f32_like(b, y, r->constant));
        return fused(b, x, lb_f32_like(b, x, r->a.product), y);
    }
    ins *v = emit_vector(e, r->value);
    if (!is_bounded(r)) {
        ins *of_nan = minus_zero(e, r, v), *is_nan = lb_cmp(b, L_NE, v, v);
        v = clamped(e, r, v, r->divisor, 1);
        if (r->least < 0 && !isfinite(r->bound)) v = lb_select(b, is_nan, of_nan, v); // the byte 0
    }
    return multiplied(b, r, v);
}

// Rounded and clamped, as a float; never -0.
static ins *whole_quotient(emitter *e, const requantiser *r) {
    lbuild *b = &e->b;
    ins *v = clamped(e, r, emit_quotient(e, r), 1, 0),
        *ones = lb_f32_like(b, v, 0x1.8p23); // whose last place is 1
    return lb_bin(b, L_SUB, lb_bin(b, L_ADD, v, ones), ones);
}

// The quotient is rounded to an integer of 16 bits, to which zero can be added.
static ins *emit_saturated(emitter *e, const requantiser *r) {
    lbuild *b = &e->b;
    ins *v = emit_vector(e, r->value), *n = lb_conv(b, L_RINTSAT, LK_I32, multiplied(b, r, v));
    if (!r->zero && !r->run_zero) return n;
    n = lb_bin(b, L_SMIN, lb_bin(b, L_SMAX, n, lb_int(b, n->type, INT16_MIN)), lb_int(b, n->type, INT16_MAX));
    if (isfinite(r->bound)) return n;
    ins *minus_zero = lb_bin(b, L_SUB, lb_int(b, n->type, 0), zero_point(e, r, n));
    return lb_select(b, lb_cmp(b, L_NE, v, v), minus_zero, n);
}

static ins *emit_quantised(emitter *e, const expr *x, const requantiser *r) {
    lbuild *b = &e->b;
    bool saturates = rounding_saturates(e->t) && !r->is_sum && !is_bounded(r) && r->rest >= 0;
    ins *v = saturates ? emit_saturated(e, r) : lb_conv(b, L_RINTI, LK_I32, emit_quotient(e, r));
    if (r->zero || r->run_zero) v = lb_bin(b, L_ADD, v, zero_point(e, r, v));
    return lb_conv(b, x->dtype == DT_I8 ? L_SATS8 : L_SATU8, LK_I8, v);
}

// The value of integer_quotient(), as a byte.
static ins *emit_integer_quotient(emitter *e, const expr *x, const requantiser *r) {
    lbuild *b = &e->b;
    ins *v = lb_conv(b, L_BITCAST, LK_I32, emit_value(e, r->value));
#define INT(n) lb_int_like(b, v, n)
    ins *minus = lb_bin(b, L_ASHR, v, INT(TOP_BIT)), *magnitude = lb_bin(b, L_AND, v, INT(INT32_MAX));
    ins *mantissa = lb_bin(b, L_OR, lb_bin(b, L_SHL, v, INT(8)), INT(INT32_MIN));
    ins *factor = lb_conv(b, L_ZEXT, LK_I64, mantissa), *bits = lb_int_like(b, factor, 32);
    ins *wide = lb_bin(b, L_MUL, factor, lb_int_like(b, factor, r->reciprocal));
    if (r->more) {
        ins *rest = lb_bin(b, L_MUL, factor, lb_int_like(b, factor, r->more));
        wide = lb_bin(b, L_ADD, wide, lb_bin(b, L_LSHR, rest, bits));
    }
    wide = lb_bin(b, L_LSHR, wide, bits);
    ins *p = lb_conv(b, L_ITRUNC, LK_I32, wide), *top = lb_bin(b, L_LSHR, p, INT(TOP_BIT));
    ins *distance = lb_bin(b, L_SUB, INT(EXPONENT_BIAS + MANTISSA_BITS + r->exponent), top);
    distance = lb_bin(b, L_SUB, distance, lb_bin(b, L_LSHR, magnitude, INT(MANTISSA_BITS)));
    distance = lb_bin(b, L_SMIN, lb_bin(b, L_SMAX, distance, INT(LEAST_DISTANCE)), INT(MOST_DISTANCE));
    p = lb_bin(b, L_SHL, p, lb_bin(b, L_XOR, top, INT(1)));
    p = lb_bin(b, L_ADD, lb_bin(b, L_LSHR, p, INT(8)),
               lb_bin(b, L_AND, lb_bin(b, L_LSHR, p, INT(7)), INT(1)));
    ins *half = lb_bin(b, L_LSHR, lb_bin(b, L_SHL, INT(1), distance), INT(1));
    half = lb_bin(b, L_ADD, lb_bin(b, L_SUB, half, INT(1)),
                  lb_bin(b, L_AND, lb_bin(b, L_LSHR, p, distance), INT(1)));
    p = lb_bin(b, L_LSHR, lb_bin(b, L_ADD, p, half), distance);
    p = lb_bin(b, L_SUB, lb_bin(b, L_XOR, p, minus), minus);
    p = lb_bin(b, L_SMAX, lb_bin(b, L_ADD, p, zero_point(e, r, p)), INT(r->least));
    p = lb_bin(b, L_SMIN, p, INT(r->least + BYTES - 1));
    ins *is_nan = lb_cmp(b, L_SLT, INT(255ll << MANTISSA_BITS), magnitude);
    p = lb_select(b, is_nan, INT(0), p);
#undef INT
    return lb_conv(b, L_ITRUNC, lkind_of(x->dtype), p);
}

static ins *emit_dequantised(emitter *e, const expr *x) {
    factor f;
    if (!take_byte(&f, x) || entry_of(e, f.byte)->value) return NULL;
    const requantiser *r = requantiser_of(e, f.byte);
    if (!r || !isfinite(r->bound) || r->run_zero) return NULL;
    ins *v = whole_quotient(e, r);
    int shift = r->zero + f.offset;
    return shift ? lb_bin(&e->b, L_ADD, v, lb_f32_like(&e->b, v, shift)) : v;
}

static bool has_instructions(const emitter *e) {
    return e->t->fma && e->t->fp != FP_STRICT && rounds_to_int(e->t, e->lanes);
}

bool emit_saturates(emitter *e, const expr *x) {
    return dtype_is_byte(x->dtype) && has_instructions(e) && requantiser_of(e, x);
}

ins *emit_requantised(emitter *e, expr *x) {
    if (soft_floats(e->t) && e->lanes == 1 && dtype_is_byte(x->dtype)) {
        const requantiser *r = requantiser_of(e, x);
        return r ? emit_integer_quotient(e, x, r) : NULL;
    }
    if (!has_instructions(e)) return NULL;
    if (x->dtype == DT_F32) return emit_dequantised(e, x);
    return emit_saturates(e, x) ? emit_quantised(e, x, requantiser_of(e, x)) : NULL;
}

static bool computes_floats(const expr *x) {
    return x->op != X_READ && x->op != X_CONST && dtype_is_float(x->dtype);
}

// Without instructions for floats, a value that takes many is computed only where it is selected.
ins *emit_selected(emitter *e, expr *x) {
    lbuild *b = &e->b;
    if (e->lanes != 1 || e->t->f32 || !expr_any(x->arg[1], computes_floats)) return NULL;
    ins *condition = emit_value(e, x->arg[0]), *result = lb_var(b, "selected", emit_value(e, x->arg[2]));
    scope branch = scope_if(e, condition);
    lb_set(b, result, emit_value(e, x->arg[1]));
    scope_close(e, branch);
    return lb_get(b, result);
}

static ins *join_vectors(lbuild *b, ins *x, ins *y) {
    int in_order[MOST_LANES], lanes = x->type.lanes + y->type.lanes;
    for (int j = 0; j < lanes; j++) in_order[j] = j;
    return lb_shuffle(b, x, y, in_order, lanes);
}

ins *pack_saturated(lbuild *b, ins *const part[4]) {
    ins *words[2];
    for (int j = 0; j < 2; j++) words[j] = join_vectors(b, part[2 * j]->args[0], part[2 * j + 1]->args[0]);
    return lb_conv(b, part[0]->op, LK_I8, join_vectors(b, words[0], words[1]));
}

ins *half_of_vector(lbuild *b, ins *x, int half) {
    int mask[MOST_LANES], lanes = x->type.lanes / 2;
    for (int j = 0; j < lanes; j++) mask[j] = half * lanes + j;
    return lb_shuffle(b, x, x, mask, lanes);
}
