// Shared by the math files: their working type, and double-word arithmetic with unevaluated sums of two
// (Dekker 1971). Emitters must not contract or reassociate any of it: only L_MULADD may be fused.
#ifndef ONNXC_IR_LOOPS_MATH_INTERNAL_H
#define ONNXC_IR_LOOPS_MATH_INTERNAL_H
#include "ir/loops/math.h"

typedef struct mctx {
    lbuild *b;
    ltype t, it;    // float type and the integer type of its width
    int mant, bias; // 23 and 127, or 52 and 1023
    bool f64, fma;
    bool coarse; // f32: errors of 2^-15 are allowed (--precision=bf16)
} mctx;
typedef struct pair { // h + l with |l| <= ulp(h) / 2
    ins *h, *l;
} pair;

static inline ins *mf(const mctx *m, double v) { return lb_float(m->b, m->t, v); }
static inline ins *mi(const mctx *m, int64_t v) { return lb_int(m->b, m->it, v); }
static inline ins *add(const mctx *m, ins *x, ins *y) { return lb_bin(m->b, L_ADD, x, y); }
static inline ins *sub(const mctx *m, ins *x, ins *y) { return lb_bin(m->b, L_SUB, x, y); }
static inline ins *mul(const mctx *m, ins *x, ins *y) { return lb_bin(m->b, L_MUL, x, y); }
static inline ins *divide(const mctx *m, ins *x, ins *y) { return lb_bin(m->b, L_FDIV, x, y); }
static inline ins *muladd(const mctx *m, ins *x, ins *y, ins *z) { return lb_muladd(m->b, x, y, z); }
static inline ins *neg(const mctx *m, ins *x) { return lb_un(m->b, L_FNEG, x); }
static inline ins *mabs(const mctx *m, ins *x) { return lb_un(m->b, L_FABS, x); }
static inline ins *pick(const mctx *m, ins *c, ins *x, ins *y) { return lb_select(m->b, c, x, y); }
static inline ins *less(const mctx *m, ins *x, ins *y) { return lb_cmp(m->b, L_SLT, x, y); }
static inline ins *equal(const mctx *m, ins *x, ins *y) { return lb_cmp(m->b, L_EQ, x, y); }
static inline ins *bits(const mctx *m, ins *x) { return lb_bitcast(m->b, m->it, x); }
static inline ins *from_bits(const mctx *m, ins *x) { return lb_bitcast(m->b, m->t, x); }
static inline ins *iop(const mctx *m, lop op, ins *x, ins *y) { return lb_bin(m->b, op, x, y); }
static inline double by_width(const mctx *m, double f32, double f64) { return m->f64 ? f64 : f32; }

ins *poly_of(const mctx *m, ins *z, const double *c, int n); // c[0] + c[1] z + ...
#define LENGTH(array) ((int)(sizeof(array) / sizeof *(array)))
#define POLY(m, name, z)                                                                                     \
    ((m)->f64 ? poly_of(m, z, name##_64, LENGTH(name##_64)) : poly_of(m, z, name##_32, LENGTH(name##_32)))
#define PART(m, name, i) ((m)->f64 ? name##_64[i] : name##_32[i])

ins *at_most(const mctx *m, double limit, ins *x);        // NaN stays
ins *at_least(const mctx *m, double limit, ins *x);       // NaN stays
ins *with_sign(const mctx *m, ins *magnitude, ins *sign); // magnitude's own sign bit must be clear
ins *is_inf(const mctx *m, ins *abs_x);
// x rounded to an integer (|x| < 2^(mant-1)); *low gets a word whose low bits are that integer's.
ins *round_magic(const mctx *m, ins *x, ins *scale, ins **low);

pair two_sum(const mctx *m, ins *x, ins *y);
pair fast_two_sum(const mctx *m, ins *x, ins *y); // |x| >= |y| or x = 0
pair two_prod(const mctx *m, ins *x, ins *y);
pair pair_add(const mctx *m, pair x, pair y);
pair pair_mul(const mctx *m, pair x, pair y);
pair pair_div(const mctx *m, pair x, pair y);
pair pair_sqrt(const mctx *m, pair x);
static inline pair pair_of(const mctx *m, ins *x) { return (pair){x, mf(m, 0)}; }
static inline pair pair_scale(const mctx *m, pair x, ins *power_of_2) {
    return (pair){mul(m, x.h, power_of_2), mul(m, x.l, power_of_2)};
}
static inline pair pair_pick(const mctx *m, ins *c, pair x, pair y) {
    return (pair){pick(m, c, x.h, y.h), pick(m, c, x.l, y.l)};
}

// e^(x.h + x.l) / 2^down as a sum; x.l may be NULL. Full range; NaN stays. down: 0 or 1.
pair exp_pair(const mctx *m, ins *x, ins *low, int down);
ins *exp_of_negative(const mctx *m, ins *x); // x <= 0
ins *exp_of_small(const mctx *m, ins *x);    // |x| <= 80
// x = 2^e * m with sqrt(1/2) <= m < sqrt(2), x positive and normal; e as a float.
typedef struct split {
    ins *e, *m;
} split;
split split_exponent(const mctx *m, ins *x);
// log(2) * e + 2 atanh(s), |s| <= 0.1717.
pair log_series(const mctx *m, ins *e, pair s);
pair log_pair(const mctx *m, ins *positive);       // any positive number, denormals too
pair log1p_pair(const mctx *m, pair x, ins *more); // log(1 + x) + more * log(2), x > -1

ins *math_trig(const mctx *m, expr_op op, ins *x); // sin, cos, tan
ins *math_arc(const mctx *m, expr_op op, ins *x);  // asin, acos, atan
ins *math_atan2(const mctx *m, ins *y, ins *x);
ins *math_hyper(const mctx *m, expr_op op, ins *x); // sinh ... atanh
ins *math_erf(const mctx *m, ins *x);
ins *math_pow(const mctx *m, ins *x, ins *y);
ins *math_fmod(const mctx *m, ins *x, ins *y);
ins *math_fixed(const mctx *m, expr_op op,
                ins *x); // in integers, or NULL: floats are better, or no form of op
#endif
