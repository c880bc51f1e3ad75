// Arithmetic, comparison, logic and mathematical functions, element by element: types, symbolic values and
// one pointwise kernel each.
#include "ir/ops/pointwise.h"
#include "ir/ops/text/string.h"
#include <math.h>
#include <string.h>

// ---------------------------------------------------------------- symbolic values
static bool float_output(const node *n) { return dtype_is_float(n->out[0]->type.elem); }
static dim *one_minus(dim *a) { return dim_addk(dim_neg(a), 1); }

// Folds the dims of all inputs: sum, maximum, minimum.
static dim *fold_all(const node *n, dim *const *a, dim *(*op)(dim *a, dim *b)) {
    dim *all = a[0];
    for (int i = 1; i < n->nin; i++) all = op(all, a[i]);
    return all;
}
// With a divisor that may be 0, the quotient is known only if the divisor cancels.
static dim *fold_div(const node *n, dim *const *a) {
    if (dim_is(a[1], 0)) return NULL;
    if (!float_output(n) && dim_nonzero(a[1])) return dim_truncdiv(a[0], a[1]);
    dim *quotient = dim_floordiv(a[0], a[1]);
    return dim_equal(dim_mul(quotient, a[1]), a[0]) == TRI_YES ? quotient : NULL;
}
static dim *fold_mod(const node *n, dim *const *a) {
    if (!dim_nonzero(a[1])) return NULL;
    if (!node_flag(n, "fmod", false)) return dim_mod(a[0], a[1]);
    return dim_sub(a[0], dim_mul(a[1], dim_truncdiv(a[0], a[1])));
}
static dim *fold_pow(const node *n, dim *const *a) {
    enum { MOST = 4 }; // shape arithmetic has no larger powers
    if (!dim_is_const(a[1]) || dim_value(a[1]) < 0 || dim_value(a[1]) > MOST) return NULL;
    dim *p = infer_k(n, 1);
    for (int64_t i = 0; i < dim_value(a[1]); i++) p = dim_mul(p, a[0]);
    return p;
}
static dim *fold_sign(const node *n, dim *a) {
    dim *zero = infer_k(n, 0);
    return dim_sub(dim_lt(zero, a), dim_lt(a, zero));
}

// ---------------------------------------------------------------- values
static expr *fold_values(kernel *k, expr_op op, const node *n, expr *const *x) {
    expr *all = x[0];
    for (int i = 1; i < n->nin; i++) all = x_bin(k, op, all, x[i]);
    return all;
}

// Kernels are limited in their number of operands: more are combined in blocks, and then the blocks.
enum { OPERANDS_MOST = 64 };

static bool block_values(node *n, const char *op) {
    if (n->nin <= OPERANDS_MOST) return false;
    int blocks = (n->nin + OPERANDS_MOST - 1) / OPERANDS_MOST;
    value **parts = ARENA_ARRAY(infer_arena(n), value *, blocks);
    for (int i = 0; i < blocks; i++) {
        int first = i * OPERANDS_MOST, left = n->nin - first;
        parts[i] = insert_before(n, op, left < OPERANDS_MOST ? left : OPERANDS_MOST, n->in + first, NULL);
    }
    value *all = insert_before(n, op, blocks, parts, NULL);
    if (node_is(n, "Mean")) all = NODE(n, "Div", all, insert_scalar(n, infer_in(n, 0)->elem, n->nin));
    replace_output(n, 0, all);
    node_delete(n);
    return true;
}
static bool block_sum(node *n) { return block_values(n, "Sum"); }
static bool block_max(node *n) { return block_values(n, "Max"); }
static bool block_min(node *n) { return block_values(n, "Min"); }

static expr *mean_value(kernel *k, const node *n, expr *const *x) {
    expr *sum = fold_values(k, X_ADD, n, x);
    return x_div(k, sum, x_number(k, sum->dtype, n->nin));
}

// Floats: fmod with the result moved to the divisor's sign (version 28); zeros take that sign, too.
static expr *floor_mod_float(kernel *k, expr *a, expr *b) {
    expr *zero = x_zero(k, a->dtype), *rest = x_bin(k, X_FMOD, a, b);
    expr *b_negative = x_lt(k, b, zero);
    expr *other_sign = x_bin(k, X_NE, x_lt(k, rest, zero), b_negative);
    expr *signed_zero = x_select(k, b_negative, x_float(k, a->dtype, -0.0), zero);
    rest = x_select(k, x_bin(k, X_EQ, rest, zero), signed_zero,
                    x_select(k, other_sign, x_add(k, rest, b), rest));
    // fmod(x, 0) and fmod(inf, y) are NaN, which passes both selects unchanged.
    return rest;
}

static expr *mod_value(kernel *k, const node *n, expr *const *x) {
    if (node_flag(n, "fmod", false)) return x_bin(k, X_FMOD, x[0], x[1]);
    if (dtype_is_float(x[0]->dtype)) return floor_mod_float(k, x[0], x[1]);
    return x_bin(k, X_MOD, x[0], x[1]);
}

// base ** exponent by squaring, with wrap-around. An exponent outside 0..63 overflows unless the base is 0, 1
// or -1.
static expr *pow_int(kernel *k, expr *base, expr *exponent) {
    dtype t = base->dtype;
    expr *e = x_as(k, exponent, DT_I64), *one = x_number(k, t, 1), *zero = x_i64(k, 0);
    expr *result = one, *square = base;
    for (int bit = 0; bit < 6; bit++) {
        expr *set = x_bin(k, X_NE, x_and(k, e, x_i64(k, INT64_C(1) << bit)), zero);
        result = x_select(k, set, x_mul(k, result, square), result);
        square = x_mul(k, square, square);
    }
    expr *odd = x_bin(k, X_NE, x_and(k, e, x_i64(k, 1)), zero);
    expr *minus_one = x_number(k, t, -1);
    expr *power_of_minus_one = x_select(k, odd, minus_one, one);
    expr *outside = x_select(k, x_bin(k, X_EQ, base, minus_one), power_of_minus_one,
                             x_select(k, x_bin(k, X_EQ, base, one), one, x_zero(k, t)));
    expr *inside = x_and(k, x_bin(k, X_LE, zero, e), x_lt(k, e, x_i64(k, 64)));
    return x_select(k, inside, result, outside);
}

expr *x_power(kernel *k, expr *x, double e) {
    dtype t = x->dtype;
    if (e == 1) return x;
    if (e == 2) return x_mul(k, x, x);
    if (e == 3) return x_mul(k, x_mul(k, x, x), x);
    if (e == 4) return x_power(k, x_mul(k, x, x), 2);
    if (e == -1) return x_div(k, x_float(k, t, 1), x);
    if (e == 0.5) return x_un(k, X_SQRT, x); // as in numpy: NaN for -inf
    return x_bin(k, X_POW, x, x_float(k, t, e));
}

static expr *pow_value(kernel *k, const node *n, expr *const *x) {
    dtype t = x[0]->dtype, te = x[1]->dtype;
    if (dtype_is_int(t) && dtype_is_int(te)) return pow_int(k, x[0], x[1]);
    const constant *c = infer_constant(n, 1);
    bool constant = c && c->count == 1 && dtype_is_float(t);
    // f32 has exponents of 32 bits only in part, and with the last bit goes the sign.
    bool exact = constant ? (float)constant_float(c, 0) == constant_float(c, 0)
                          : dtype_is_float(te) || dtype_bits(te) < 32;
    dtype in = t == DT_F32 && te != DT_F64 && exact ? DT_F32 : DT_F64;
    expr *base = x_as(k, x[0], in);
    expr *power =
        constant ? x_power(k, base, constant_float(c, 0)) : x_bin(k, X_POW, base, x_as(k, x[1], in));
    return x_as(k, power, t);
}

static expr *sign_value(kernel *k, expr *x) {
    expr *zero = x_zero(k, x->dtype);
    // Neither above nor below: zero or NaN, which are their own signs.
    expr *below = dtype_is_signed(x->dtype) ? x_select(k, x_lt(k, x, zero), x_number(k, x->dtype, -1), x) : x;
    return x_select(k, x_lt(k, zero, x), x_number(k, x->dtype, 1), below);
}

// A negative count shifts out all bits, like one that is too large.
static expr *shift_value(kernel *k, const node *n, expr *const *x) {
    bool left = node_choice(n, "direction", "LEFT RIGHT") == 0;
    expr *count = x[1];
    if (dtype_is_signed(count->dtype)) {
        expr *width = x_number(k, count->dtype, dtype_bits(count->dtype));
        count = x_select(k, x_lt(k, count, x_zero(k, count->dtype)), width, count);
    }
    return x_bin(k, left ? X_SHL : X_SHR, x[0], count);
}

static void infer_shift(node *n) {
    node_choice(n, "direction", "LEFT RIGHT");
    infer_elementwise(n);
}

static expr *isinf_value(kernel *k, const node *n, expr *x) {
    bool negative = node_int(n, "detect_negative", 1), positive = node_int(n, "detect_positive", 1);
    if (negative && positive) return x_un(k, X_ISINF, x);
    if (!negative && !positive) return x_int(k, DT_BOOL, 0);
    return x_bin(k, X_EQ, x, x_float(k, x->dtype, negative ? -INFINITY : INFINITY));
}

// Before version 28 floats had fmod only.
static bool undo_mod(node *as) {
    const type *t = &as->in[0]->type; // not known where the file alone is read
    return node_int(as, "fmod", 0) || t->kind != TYPE_TENSOR || !dtype_is_float(t->elem);
}

// ---------------------------------------------------------------- arithmetic
#define BINARY(op, x_op, dims)                                                                               \
    POINTWISE(op, infer_elementwise, dims, x_bin(k, x_op, x[0], x[1]), UPGRADE_BROADCAST)
BINARY(Add, X_ADD, dim_add(a[0], a[1]));
BINARY(Sub, X_SUB, dim_sub(a[0], a[1]));
BINARY(Mul, X_MUL, dim_mul(a[0], a[1]));
BINARY(Div, X_DIV, fold_div(n, a));
POINTWISE(Mod, infer_elementwise, fold_mod(n, a), mod_value(k, n, x), .upgrades = {{28, NULL, undo_mod}});
POINTWISE(Pow, infer_like_first_broadcast, fold_pow(n, a), pow_value(k, n, x), UPGRADE_BROADCAST);
POINTWISE(Sum, infer_elementwise, fold_all(n, a, dim_add), fold_values(k, X_ADD, n, x), UPGRADE_VARIADIC,
          .canonicalise = block_sum);
POINTWISE(Max, infer_elementwise, fold_all(n, a, dim_max), fold_values(k, X_MAX, n, x), UPGRADE_VARIADIC,
          .canonicalise = block_max);
POINTWISE(Min, infer_elementwise, fold_all(n, a, dim_min), fold_values(k, X_MIN, n, x), UPGRADE_VARIADIC,
          .canonicalise = block_min);
POINTWISE(Mean, infer_elementwise, NULL, mean_value(k, n, x), UPGRADE_VARIADIC, .canonicalise = block_sum);

// ---------------------------------------------------------------- comparison and logic
#define COMPARE(op, x_op, first, second, dims)                                                               \
    POINTWISE(op, infer_comparison, dims, x_bin(k, x_op, x[first], x[second]), UPGRADE_BROADCAST)
POINTWISE_RULES(Equal, infer_comparison, dim_eq(a[0], a[1]), x_bin(k, X_EQ, x[0], x[1]))
static void lower_equal(lowering *l, node *n) {
    if (n->in[0]->type.elem == DT_STRING) lower_string_pairs(l, n, "string_equal");
    else lower_pointwise(l, n, value_Equal);
}
OPERATOR(Equal, .infer = infer_Equal, .lower = lower_equal, UPGRADE_BROADCAST);
COMPARE(Less, X_LT, 0, 1, dim_lt(a[0], a[1]));
COMPARE(Greater, X_LT, 1, 0, dim_lt(a[1], a[0]));
COMPARE(LessOrEqual, X_LE, 0, 1, one_minus(dim_lt(a[1], a[0])));
COMPARE(GreaterOrEqual, X_LE, 1, 0, one_minus(dim_lt(a[0], a[1])));
COMPARE(And, X_AND, 0, 1, dim_mul(a[0], a[1]));
COMPARE(Or, X_OR, 0, 1, dim_max(a[0], a[1]));
COMPARE(Xor, X_XOR, 0, 1, one_minus(dim_eq(a[0], a[1])));
POINTWISE(Not, infer_like_first, one_minus(a[0]), x_un(k, X_NOT, x[0]), );
POINTWISE(IsNaN, infer_bool_like_first, NULL, x_un(k, X_ISNAN, x[0]), );
POINTWISE(IsInf, infer_bool_like_first, NULL, isinf_value(k, n, x[0]), );

BINARY(BitwiseAnd, X_AND, NULL);
BINARY(BitwiseOr, X_OR, NULL);
BINARY(BitwiseXor, X_XOR, NULL);
POINTWISE(BitwiseNot, infer_like_first, NULL, x_un(k, X_NOT, x[0]), );
POINTWISE(BitShift, infer_shift, NULL, shift_value(k, n, x), );

static void infer_where(node *n) {
    dtype t = infer_in(n, 1)->elem;
    if (infer_in(n, 2)->elem != t)
        infer_error(n, "inputs X and Y have different element types: %s and %s", dtype_name(t),
                    dtype_name(infer_in(n, 2)->elem));
    infer_broadcast_to(n, t);
}
POINTWISE(Where, infer_where, dim_select(a[0], a[1], a[2]), x_select(k, x[0], x[1], x[2]), );

// ---------------------------------------------------------------- functions of one argument
#define UNARY(op, x_op)             POINTWISE(op, infer_like_first, NULL, x_un(k, x_op, x[0]), UPGRADE_FROM_1)
#define UNARY_WHOLE(op, x_op, dims) POINTWISE(op, infer_like_first, dims, x_un(k, x_op, x[0]), UPGRADE_FROM_1)
UNARY_WHOLE(Neg, X_NEG, dim_neg(a[0]));
UNARY_WHOLE(Abs, X_ABS, dim_max(a[0], dim_neg(a[0])));
UNARY_WHOLE(Round, X_RINT, a[0]);
POINTWISE(Sign, infer_like_first, fold_sign(n, a[0]), sign_value(k, x[0]), );
POINTWISE(Reciprocal, infer_like_first, NULL, x_div(k, x_float(k, x[0]->dtype, 1), x[0]), UPGRADE_FROM_1);
UNARY(Sqrt, X_SQRT);
UNARY(Exp, X_EXP);
UNARY(Log, X_LOG);
UNARY(Sin, X_SIN);
UNARY(Cos, X_COS);
UNARY(Tan, X_TAN);
UNARY(Asin, X_ASIN);
UNARY(Acos, X_ACOS);
UNARY(Atan, X_ATAN);
UNARY(Sinh, X_SINH);
UNARY(Cosh, X_COSH);
UNARY(Tanh, X_TANH);
UNARY(Asinh, X_ASINH);
UNARY(Acosh, X_ACOSH);
UNARY(Atanh, X_ATANH);
UNARY(Sigmoid, X_SIGMOID);
POINTWISE(Erf, infer_like_first, NULL, x_un(k, X_ERF, x[0]),
          .upgrades = {{13, upgrade_real_function, undo_nothing}});

// Floor and Ceil turn a quotient of sizes into a size again.
static void infer_floor(node *n) {
    infer_like_first(n);
    contents_of_quotient(n, dim_floordiv);
}
static void infer_ceil(node *n) {
    infer_like_first(n);
    contents_of_quotient(n, dim_ceildiv);
}
POINTWISE(Floor, infer_floor, a[0], x_un(k, X_FLOOR, x[0]), UPGRADE_FROM_1);
POINTWISE(Ceil, infer_ceil, a[0], x_un(k, X_CEIL, x[0]), UPGRADE_FROM_1);
