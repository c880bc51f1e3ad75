// The meaning of every scalar operation. Backends are checked against this file.
#include "ir/kernel/eval.h"
#include <math.h>
#include <string.h>

static int64_t wrap(dtype t, int64_t v) {
    switch (dtype_bits(t)) {
    case 8: return t == DT_BOOL ? v != 0 : t == DT_I8 ? (int8_t)v : (uint8_t)v;
    case 16: return dtype_is_signed(t) ? (int16_t)v : (uint16_t)v;
    case 32: return dtype_is_signed(t) ? (int32_t)v : (int64_t)(uint32_t)v;
    }
    return v;
}

static double round_to(dtype t, double v) { return t == DT_F32 ? (double)(float)v : v; }

static double small_float(dtype t, double v, bool saturate) {
    uint8_t raw[8] = {0};
    dtype_store_float(t, raw, 0, v, saturate);
    return dtype_load_float(t, raw, 0);
}

static cell float_to_int(double v, dtype to) {
    if (isnan(v)) return (cell){.i = 0};
    v = trunc(v);
    if (to == DT_U64) {
        if (v <= 0) return (cell){.i = 0};
        if (v >= 18446744073709551616.0) return (cell){.i = -1};
        return (cell){.i = (int64_t)(uint64_t)v};
    }
    double lo = (double)dtype_int_min(to), hi = (double)dtype_int_max(to);
    if (v <= lo) return (cell){.i = dtype_int_min(to)};
    if (v >= hi) return (cell){.i = dtype_int_max(to)};
    return (cell){.i = (int64_t)v};
}

// An integer as a double, with its last bit set if bits are lost: rounded again to a shorter float it is as if rounded once.
static double double_to_odd(int64_t v, bool is_unsigned) {
    bool negative = !is_unsigned && v < 0;
    uint64_t u = negative ? 0 - (uint64_t)v : (uint64_t)v, low = (1 << 11) - 1;
    if (u >> 53) u = (u & ~low) | (u & low ? low + 1 : 0);
    return negative ? -(double)u : (double)u;
}

cell eval_cast(cell v, dtype from, dtype to, bool saturate) {
    if (dtype_is_float(from)) {
        if (to == DT_BOOL) return (cell){.i = v.f != 0};
        if (dtype_is_int(to)) return float_to_int(v.f, to);
        if (!dtype_is_float(to)) return v;
        return (cell){.f = small_float(to, v.f, saturate)};
    }
    if (to == DT_BOOL) return (cell){.i = v.i != 0};
    if (dtype_is_float(to)) {
        // Straight to f32: through double would round twice.
        if (to == DT_F32) return (cell){.f = from == DT_U64 ? (float)(uint64_t)v.i : (float)v.i};
        if (to == DT_F64) return (cell){.f = from == DT_U64 ? (double)(uint64_t)v.i : (double)v.i};
        return (cell){.f = small_float(to, double_to_odd(v.i, from == DT_U64), saturate)};
    }
    if (dtype_bits(to) < 8) { // wraps into the packed type's own width
        int unused = 64 - dtype_bits(to);
        uint64_t bits = (uint64_t)v.i << unused;
        return (cell){.i = dtype_is_signed(to) ? (int64_t)bits >> unused : (int64_t)(bits >> unused)};
    }
    return (cell){.i = wrap(to, v.i)};
}

cell eval_load(dtype t, const void *data, int64_t i) {
    if (t == DT_F32) { // as most elements are
        float v;
        memcpy(&v, (const char *)data + 4 * i, 4);
        return (cell){.f = v};
    }
    if (dtype_is_float(t)) return (cell){.f = dtype_load_float(t, data, i)};
    if (t == DT_C64) {
        cell v;
        memcpy(&v, (const char *)data + 8 * i, 8);
        return v;
    }
    if (t == DT_BOOL) return (cell){.i = ((const uint8_t *)data)[i] != 0};
    return (cell){.i = dtype_load_int(t, data, i)};
}

void eval_store(dtype t, void *data, int64_t i, cell v) {
    float f = (float)v.f;
    // A float8 was saturated, or not, by the cast that made it: its infinity stays.
    if (t == DT_F32) memcpy((char *)data + 4 * i, &f, 4);
    else if (dtype_is_float(t)) dtype_store_float(t, data, i, v.f, dtype_bits(t) != 8);
    else if (t == DT_C64) memcpy((char *)data + 8 * i, &v, 8);
    else if (t == DT_BOOL) ((uint8_t *)data)[i] = v.i != 0;
    else dtype_store_int(t, data, i, v.i);
}

static double eval_float(expr_op op, double x, double y) {
    switch (op) {
    case X_NEG: return -x;
    case X_ABS: return fabs(x);
    case X_SQRT: return sqrt(x);
    case X_EXP: return exp(x);
    case X_LOG: return log(x);
    case X_LOG1P: return log1p(x);
    case X_EXPM1: return expm1(x);
    case X_SIN: return sin(x);
    case X_COS: return cos(x);
    case X_TAN: return tan(x);
    case X_ASIN: return asin(x);
    case X_ACOS: return acos(x);
    case X_ATAN: return atan(x);
    case X_SINH: return sinh(x);
    case X_COSH: return cosh(x);
    case X_TANH: return tanh(x);
    case X_ASINH: return asinh(x);
    case X_ACOSH: return acosh(x);
    case X_ATANH: return atanh(x);
    case X_ERF: return erf(x);
    case X_SIGMOID: return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x));
    case X_FLOOR: return floor(x);
    case X_CEIL: return ceil(x);
    case X_TRUNC: return trunc(x);
    case X_RINT: return rint(x);
    case X_ADD: return x + y;
    case X_SUB: return x - y;
    case X_MUL: return x * y;
    case X_DIV: return x / y;
    case X_FMOD: return fmod(x, y);
    case X_POW: return pow(x, y);
    case X_ATAN2: return atan2(x, y);
    case X_MIN: return isnan(x) || isnan(y) ? NAN : x < y ? x : y;
    case X_MAX: return isnan(x) || isnan(y) ? NAN : x > y ? x : y;
    case X_COUNT:
#define ARITHMETIC(...)
#define FUNCTION(...)
#define ROUND(...)
#define OP(op, ...) case op:
#include "ir/kernel/expr_ops.def"
        break;
    }
    return x;
}

static int64_t divide(int64_t x, int64_t y, bool is_unsigned, bool remainder) {
    if (y == 0) return 0;
    if (is_unsigned) {
        uint64_t u = (uint64_t)x, v = (uint64_t)y;
        return (int64_t)(remainder ? u % v : u / v);
    }
    if (y == -1) return remainder ? 0 : (int64_t)(0 - (uint64_t)x);
    return remainder ? x % y : x / y;
}

static int64_t floor_divide(int64_t x, int64_t y, bool is_unsigned, bool remainder) {
    int64_t r = divide(x, y, is_unsigned, true);
    bool adjust = !is_unsigned && r != 0 && (r < 0) != (y < 0);
    if (remainder) return adjust ? r + y : r;
    return divide(x, y, is_unsigned, false) - adjust;
}

static int64_t shift_right(dtype t, int64_t x, uint64_t n) {
    bool over = n >= (uint64_t)dtype_bits(t);
    if (dtype_is_signed(t)) return over ? (x < 0 ? -1 : 0) : x >> n;
    return over ? 0 : (int64_t)((uint64_t)x >> n);
}

static int64_t eval_int(expr_op op, dtype t, int64_t x, int64_t y) {
    bool u = t == DT_U64;
    bool less = u ? (uint64_t)x < (uint64_t)y : x < y;
    switch (op) {
    case X_NEG: return (int64_t)(0 - (uint64_t)x);
    case X_ABS: return dtype_is_signed(t) && x < 0 ? (int64_t)(0 - (uint64_t)x) : x;
    case X_NOT: return t == DT_BOOL ? !x : ~x;
    case X_ADD: return (int64_t)((uint64_t)x + (uint64_t)y);
    case X_SUB: return (int64_t)((uint64_t)x - (uint64_t)y);
    case X_MUL: return (int64_t)((uint64_t)x * (uint64_t)y);
    case X_DIV: return divide(x, y, u, false);
    case X_FMOD: return divide(x, y, u, true);
    case X_FLOORDIV: return floor_divide(x, y, u, false);
    case X_MOD: return floor_divide(x, y, u, true);
    case X_MIN: return less ? x : y;
    case X_MAX: return less ? y : x;
    case X_AND: return x & y;
    case X_OR: return x | y;
    case X_XOR: return x ^ y;
    case X_SHL: return (uint64_t)y >= (uint64_t)dtype_bits(t) ? 0 : (int64_t)((uint64_t)x << y);
    case X_SHR: return shift_right(t, x, (uint64_t)y);
    case X_COUNT:
#define ARITHMETIC(...)
#define INTEGER(...)
#define BITS(...)
#define OP(op, ...) case op:
#include "ir/kernel/expr_ops.def"
        break;
    }
    return x; // an integer is rounded
}

static bool eval_compare(expr_op op, dtype t, cell x, cell y) {
    bool eq, less;
    if (dtype_is_float(t)) eq = x.f == y.f, less = x.f < y.f;
    else if (t == DT_U64) eq = x.i == y.i, less = (uint64_t)x.i < (uint64_t)y.i;
    else eq = x.i == y.i, less = x.i < y.i;
    return op == X_EQ ? eq : op == X_NE ? !eq : op == X_LT ? less : less || eq;
}

static cell eval_bitcast(cell v, dtype from, dtype to) {
    union {
        float f;
        double d;
        int64_t i;
    } raw = {.i = v.i};
    if (from == DT_F32) raw.i = 0, raw.f = (float)v.f;
    else if (from == DT_F64) raw.d = v.f;
    if (to == DT_F32) return (cell){.f = raw.f};
    if (to == DT_F64) return (cell){.f = raw.d};
    return (cell){.i = wrap(to, from == DT_F32 ? (int32_t)raw.i : raw.i)};
}

static cell eval_convert(const expr *e, dtype from, cell x) {
    if (e->op == X_BITCAST) return eval_bitcast(x, from, e->dtype);
    if (e->op == X_CAST || !dtype_is_float(from))
        return eval_cast(x, from, e->to, e->op == X_ROUND_TO || e->saturate);
    return (cell){.f = small_float(e->to, x.f, e->saturate)};
}

static cell eval_one(const expr *e, dtype t, bool is_float, cell x, cell y, cell z) {
    switch (expr_op_class(e->op)) {
    case XC_CONVERT: return eval_convert(e, t, x);
    case XC_TEST: return (cell){.i = is_float && (e->op == X_ISNAN ? isnan(x.f) : isinf(x.f))};
    case XC_COMPARE: return (cell){.i = eval_compare(e->op, t, x, y)};
    case XC_SELECT: return x.i ? y : z;
    case XC_ARITHMETIC:
    case XC_INTEGER:
    case XC_BITS:
    case XC_FUNCTION:
    case XC_ROUND:
        if (is_float) return (cell){.f = round_to(t, eval_float(e->op, x.f, y.f))};
        return (cell){.i = wrap(t, eval_int(e->op, t, x.i, y.i))};
    case XC_LEAF:
    case XC_CHECK: break;
    }
    return x;
}

// The operations that nearly all time goes to.
static bool eval_often(expr_op op, dtype t, int64_t n, cells a, cells b, cell *out) {
#define LANES(MEMBER, VALUE)                                                                                 \
    for (int64_t j = 0; j < n; j++) {                                                                        \
        cell x = a.at[j * a.stride], y = b.at[j * b.stride];                                                 \
        out[j].MEMBER = VALUE;                                                                               \
    }                                                                                                        \
    return true
    if (t == DT_F32 && op == X_MUL) {
        LANES(f, (float)(x.f * y.f));
    }
    if (t == DT_F32 && op == X_ADD) {
        LANES(f, (float)(x.f + y.f));
    }
    if (t == DT_F32 && op == X_SUB) {
        LANES(f, (float)(x.f - y.f));
    }
    if (t == DT_I64 && op == X_MUL) {
        LANES(i, (int64_t)((uint64_t)x.i * (uint64_t)y.i));
    }
    if (t == DT_I64 && op == X_ADD) {
        LANES(i, (int64_t)((uint64_t)x.i + (uint64_t)y.i));
    }
    if (t == DT_I64 && op == X_LT) {
        LANES(i, x.i < y.i);
    }
    if (t == DT_I64 && op == X_LE) {
        LANES(i, x.i <= y.i);
    }
    if (t == DT_BOOL && op == X_AND) {
        LANES(i, (x.i & y.i) != 0);
    }
#undef LANES
    return false;
}

void eval_op(const expr *e, int64_t n, const cells in[3], cell *out) {
    static const cell none;
    dtype t = e->arg[0]->dtype;
    cells a = in[0], b = in[1].at ? in[1] : (cells){&none, 0}, c = in[2].at ? in[2] : (cells){&none, 0};
    if (eval_often(e->op, t, n, a, b, out)) return;
    bool is_float = dtype_is_float(t);
    for (int64_t j = 0; j < n; j++)
        out[j] = eval_one(e, t, is_float, a.at[j * a.stride], b.at[j * b.stride], c.at[j * c.stride]);
}

cell eval_scalar(const expr *e, const cell operands[3]) {
    dtype t = e->arg[0]->dtype;
    return eval_one(e, t, dtype_is_float(t), operands[0], operands[1], operands[2]);
}

const cell *eval_over(eval_span *s, const expr *e) {
    if (s->done[e->id]) return s->done[e->id];
    cell *out = ARENA_ARRAY(s->scratch, cell, s->count);
    cells in[3] = {{NULL, 1}, {NULL, 1}, {NULL, 1}};
    for (int j = 0; j < expr_arity(e->op) && e != s->source; j++) in[j].at = eval_over(s, e->arg[j]);
    if (e == s->source)
        for (int64_t j = 0; j < s->count; j++) out[j].i = s->first + j;
    else if (e->op == X_CONST)
        for (int64_t j = 0; j < s->count; j++) out[j].i = e->i;
    else eval_op(e, s->count, in, out);
    return s->done[e->id] = out;
}
