// Scalar expressions as instructions. In: an expression node and its operands in registers, with any number
// of lanes. Out: its value, as ir/kernel/eval.c defines it.
#include "ir/loops/convert.h"
#include "ir/loops/math.h"
#include "ir/target.h"
#include <math.h>

static ins *is_value(lbuild *b, ins *x, int64_t v) { return lb_cmp(b, L_EQ, x, lb_int_like(b, x, v)); }
static ins *invert(lbuild *b, ins *x) {
    return lb_bin(b, L_XOR, x, lb_int_like(b, x, x->type.kind == LK_I1 ? 1 : -1));
}
static ins *negate(lbuild *b, ins *x) { return lb_bin(b, L_SUB, lb_int_like(b, x, 0), x); }

static bool known_not(const ins *x, int64_t v) { return x->op == L_CONST && x->i != v; }

// ---------------------------------------------------------------- integer division
// The instruction gets a safe divisor; results for the special cases are selected afterwards.

typedef struct division {
    ins *x, *y, *safe; // dividend, divisor, divisor without 0 and -1
    ins *zero, *minus; // where y is 0 or -1; NULL: nowhere
} division;

static division prepare(lbuild *b, bool is_signed, ins *x, ins *y) {
    division d = {.x = x, .y = y, .safe = y};
    if (!known_not(y, 0)) d.zero = is_value(b, y, 0);
    if (is_signed && !known_not(y, -1)) d.minus = is_value(b, y, -1);
    ins *one = lb_int_like(b, y, 1);
    if (d.zero) d.safe = lb_select(b, d.zero, one, d.safe);
    if (d.minus) d.safe = lb_select(b, d.minus, one, d.safe);
    return d;
}

static ins *finish(lbuild *b, division d, ins *r, ins *of_minus) {
    if (d.minus) r = lb_select(b, d.minus, of_minus, r);
    return d.zero ? lb_select(b, d.zero, lb_int_like(b, r, 0), r) : r;
}

// LLVM multiplies by the inverses of constants.
static bool divides_as_floats(const lbuild *b, const ins *y) {
    const target *t = b->target;
    return t->arch.divides_floats && !t->sve_bits && t->f64 && y->type.lanes > 1 && y->op != L_CONST &&
           lkind_bits(y->type.kind) <= 32;
}

static ins *as_float(lbuild *b, bool is_signed, lkind f, ins *x) {
    if (x->type.kind == LK_I32) return lb_conv(b, is_signed ? L_SITOF : L_UITOF, f, x);
    return lb_conv(b, L_SITOF, f, lb_conv(b, is_signed ? L_SEXT : L_ZEXT, LK_I32, x));
}

// A quotient of integers of n bits is an integer or at least 2^-n of itself below the next one: rounded to more than n bits, it
// does not reach it.
static ins *divide_as_floats(lbuild *b, bool is_signed, ins *x, ins *y) {
    bool wide = x->type.kind == LK_I32;
    lkind f = wide ? LK_F64 : LK_F32;
    ins *q = lb_bin(b, L_FDIV, as_float(b, is_signed, f, x), as_float(b, is_signed, f, y));
    ins *whole = lb_conv(b, wide && !is_signed ? L_FTOUI : L_FTOSI, LK_I32, q);
    return wide ? whole : lb_conv(b, L_ITRUNC, x->type.kind, whole);
}

static ins *divide(lbuild *b, bool is_signed, ins *x, ins *y) {
    if (divides_as_floats(b, y)) return divide_as_floats(b, is_signed, x, y);
    return lb_bin(b, is_signed ? L_SDIV : L_UDIV, x, y);
}

static ins *divide_rest(lbuild *b, bool is_signed, ins *x, ins *y) {
    if (divides_as_floats(b, y))
        return lb_bin(b, L_SUB, x, lb_bin(b, L_MUL, divide_as_floats(b, is_signed, x, y), y));
    return lb_bin(b, is_signed ? L_SREM : L_UREM, x, y);
}

static ins *quotient(lbuild *b, bool is_signed, ins *x, ins *y) {
    division d = prepare(b, is_signed, x, y);
    return finish(b, d, divide(b, is_signed, x, d.safe), d.minus ? negate(b, x) : NULL);
}

static ins *remainder_of(lbuild *b, bool is_signed, ins *x, ins *y) {
    division d = prepare(b, is_signed, x, y);
    return finish(b, d, divide_rest(b, is_signed, x, d.safe), lb_int_like(b, x, 0));
}

// Whether the remainder and the divisor have opposite signs.
static ins *signs_differ(lbuild *b, ins *r, ins *y) {
    ins *zero = lb_int_like(b, r, 0);
    ins *differ = lb_cmp(b, L_SLT, lb_bin(b, L_XOR, r, y), zero);
    return lb_bin(b, L_AND, differ, lb_cmp(b, L_NE, r, zero));
}

static ins *floor_quotient(lbuild *b, bool is_signed, ins *x, ins *y) {
    ins *q = quotient(b, is_signed, x, y);
    if (!is_signed) return q;
    ins *less = signs_differ(b, remainder_of(b, true, x, y), y);
    return lb_select(b, less, lb_bin(b, L_SUB, q, lb_int_like(b, q, 1)), q);
}

static ins *floor_remainder(lbuild *b, bool is_signed, ins *x, ins *y) {
    ins *r = remainder_of(b, is_signed, x, y);
    return is_signed ? lb_select(b, signs_differ(b, r, y), lb_bin(b, L_ADD, r, y), r) : r;
}

// ---------------------------------------------------------------- integers and bool

static ins *shifted(lbuild *b, expr_op op, bool is_signed, ins *x, ins *y) {
    int width = 8 * lkind_bytes(x->type.kind);
    ins *fits = lb_cmp(b, L_ULT, y, lb_int_like(b, y, width)),
        *n = lb_bin(b, L_AND, y, lb_int_like(b, y, width - 1));
    ins *zero = lb_int_like(b, x, 0);
    if (op == X_SHL) return lb_select(b, fits, lb_bin(b, L_SHL, x, n), zero);
    if (!is_signed) return lb_select(b, fits, lb_bin(b, L_LSHR, x, n), zero);
    return lb_bin(b, L_ASHR, x, lb_select(b, fits, n, lb_int_like(b, x, width - 1)));
}

static ins *int_extreme(lbuild *b, expr_op op, dtype t, ins *x, ins *y) {
    if (t == DT_BOOL) return lb_bin(b, op == X_MIN ? L_AND : L_OR, x, y);
    if (dtype_is_signed(t)) return lb_bin(b, op == X_MIN ? L_SMIN : L_SMAX, x, y);
    return lb_bin(b, op == X_MIN ? L_UMIN : L_UMAX, x, y);
}

static ins *compare(lbuild *b, expr_op op, dtype t, ins *x, ins *y) {
    bool order = dtype_is_float(t) || dtype_is_signed(t);
    if (op == X_EQ) return lb_cmp(b, L_EQ, x, y);
    if (op == X_NE) return lb_cmp(b, L_NE, x, y);
    if (op == X_LT) return lb_cmp(b, order ? L_SLT : L_ULT, x, y);
    return lb_cmp(b, order ? L_SLE : L_ULE, x, y);
}

static ins *int_arithmetic(lbuild *b, expr_op op, dtype t, ins *x, ins *y) {
    bool is_signed = dtype_is_signed(t);
    switch (op) {
    case X_NEG: return negate(b, x);
    case X_ABS: return is_signed ? lb_bin(b, L_SMAX, x, negate(b, x)) : x;
    case X_ADD: return lb_bin(b, L_ADD, x, y);
    case X_SUB: return lb_bin(b, L_SUB, x, y);
    case X_MUL: return lb_bin(b, L_MUL, x, y);
    case X_DIV: return quotient(b, is_signed, x, y);
    case X_FMOD: return remainder_of(b, is_signed, x, y);
    case X_FLOORDIV: return floor_quotient(b, is_signed, x, y);
    case X_MOD: return floor_remainder(b, is_signed, x, y);
    case X_MIN:
    case X_MAX: return int_extreme(b, op, t, x, y);
    case X_NOT: return invert(b, x);
    case X_AND: return lb_bin(b, L_AND, x, y);
    case X_OR: return lb_bin(b, L_OR, x, y);
    case X_XOR: return lb_bin(b, L_XOR, x, y);
    case X_SHL:
    case X_SHR: return shifted(b, op, is_signed, x, y);
    case X_COUNT:
#define ARITHMETIC(...)
#define INTEGER(...)
#define BITS(...)
#define OP(op, ...) case op:
#include "ir/kernel/expr_ops.def"
        break;
    }
    diag_defect(b->diag, NULL, "function %s: %s of integers", b->f->name, expr_op_name(op));
}

// ---------------------------------------------------------------- floats

// L_FMIN and L_FMAX return their second operand if one is NaN. A constant (not NaN) as the first operand
// suffices; otherwise a NaN in x is restored. (Of equal zeros, the sign may differ from ir/kernel/eval.c for
// a constant.)
static ins *float_extreme(lbuild *b, expr_op op, ins *x, ins *y) {
    lop two = op == X_MIN ? L_FMIN : L_FMAX;
    if (x->op == L_CONST && x->f == x->f) return lb_bin(b, two, x, y);
    if (y->op == L_CONST && y->f == y->f) return lb_bin(b, two, y, x);
    return lb_select(b, lb_cmp(b, L_EQ, x, x), lb_bin(b, two, x, y), x);
}

// x / y for a constant y: the quotient of x and the reciprocal, corrected by its remainder, which is exact
// (Markstein, Computation of elementary functions on the IBM RISC System/6000 processor). Infinite quotients
// have no remainder. Tiny ones, whose remainder is denormal, may be off by one in the last place, and the largest
// ones too, which makes them infinite. The signs are such that a remainder of zero becomes a correction of -0,
// which keeps the sign of a quotient of zero.
static ins *divided_by_constant(lbuild *b, ins *x, ins *y) {
    float inverse = 1 / (float)y->f, size = fabsf((float)y->f);
    ins *q = lb_bin(b, L_MUL, x, lb_float(b, x->type, inverse));
    int exponent;
    if (frexp(size, &exponent) == 0.5) return q; // a power of two
    ins *from = y->f > 0 ? lb_un(b, L_FNEG, x) : x;
    ins *rest = lb_op(b, L_FMA, x->type, 3, (ins *[]){q, lb_float(b, x->type, size), from});
    ins *exact = lb_op(b, L_FMA, x->type, 3, (ins *[]){rest, lb_float(b, x->type, -fabsf(inverse)), q});
    return lb_select(b, lb_cmp(b, L_EQ, exact, exact), exact, q);
}

static bool divides_by_products(const lbuild *b, const ins *x, const ins *y) {
    enum { WIDE = 60 }; // binary exponents that are far from those of denormal numbers
    if (y->op != L_CONST || x->type.kind != LK_F32 || x->type.lanes < 4) return false;
    double size = fabs(y->f);
    return b->target->fma && b->target->fp != FP_STRICT && size >= ldexp(1, -WIDE) && size <= ldexp(1, WIDE);
}

static ins *float_arithmetic(lbuild *b, expr_op op, ins *x, ins *y) {
    switch (op) {
    case X_NEG: return lb_un(b, L_FNEG, x);
    case X_ABS: return lb_un(b, L_FABS, x);
    case X_ADD: return lb_bin(b, L_ADD, x, y);
    case X_SUB: return lb_bin(b, L_SUB, x, y);
    case X_MUL: return lb_bin(b, L_MUL, x, y);
    case X_DIV: return divides_by_products(b, x, y) ? divided_by_constant(b, x, y) : lb_bin(b, L_FDIV, x, y);
    case X_FMOD: return math_binary(b, op, x, y);
    case X_MIN:
    case X_MAX: return float_extreme(b, op, x, y);
    case X_COUNT:
#define ARITHMETIC(...)
#define OP(op, ...) case op:
#include "ir/kernel/expr_ops.def"
        break;
    }
    diag_defect(b->diag, NULL, "function %s: %s of floats", b->f->name, expr_op_name(op));
}

static ins *rounded(lbuild *b, expr_op op, ins *x) {
    if (!lkind_is_float(x->type.kind)) return x;
    return lb_un(b, op == X_FLOOR ? L_FLOOR : op == X_CEIL ? L_CEIL : op == X_TRUNC ? L_TRUNC : L_RINT, x);
}

static ins *tested(lbuild *b, expr_op op, ins *x) {
    if (!lkind_is_float(x->type.kind)) return lb_int(b, lt(LK_I1, x->type.lanes), 0);
    if (op == X_ISNAN) return lb_cmp(b, L_NE, x, x);
    return lb_cmp(b, L_EQ, lb_un(b, L_FABS, x), lb_float(b, x->type, INFINITY));
}

// ---------------------------------------------------------------- operations

static ins *converted(lbuild *b, const expr *e, dtype t, ins *x) {
    if (e->op == X_BITCAST) return lb_conv(b, L_BITCAST, compute_kind(e->dtype), x);
    bool saturate = e->saturate || (e->op == X_ROUND_TO && !dtype_is_float(t));
    return convert_value(b, t, e->to, x, saturate);
}

ins *expr_apply(lbuild *b, const expr *e, ins *const *args) {
    dtype t = e->arg[0]->dtype;
    ins *x = args[0], *y = NULL;
    if (expr_arity(e->op) == 2) {
        int lanes = x->type.lanes > args[1]->type.lanes ? x->type.lanes : args[1]->type.lanes;
        x = lb_splat(b, x, lanes), y = lb_splat(b, args[1], lanes);
    }
    switch (expr_op_class(e->op)) {
    case XC_CONVERT: return converted(b, e, t, x);
    case XC_ARITHMETIC:
    case XC_INTEGER:
    case XC_BITS:
        return dtype_is_float(t) ? float_arithmetic(b, e->op, x, y) : int_arithmetic(b, e->op, t, x, y);
    case XC_FUNCTION: return y ? math_binary(b, e->op, x, y) : math_unary(b, e->op, x);
    case XC_ROUND: return rounded(b, e->op, x);
    case XC_TEST: return tested(b, e->op, x);
    case XC_COMPARE: return compare(b, e->op, t, x, y);
    case XC_SELECT: return lb_select(b, args[0], args[1], args[2]);
    case XC_LEAF:
    case XC_CHECK: break;
    }
    diag_defect(b->diag, NULL, "function %s: %s is not an operation on values", b->f->name,
                expr_op_name(e->op));
}
