// Evaluates pure instructions. In: an instruction and the bits of its operands. Out: the bits of the result,
// which every emitter must reproduce wherever the language defines them.
#include "ir/loops/loops_eval.h"
#include "ir/loops/loops_blocks.h"
#include <math.h>
#include <string.h>

uint64_t leval_fit(lkind k, uint64_t v) {
    int w = lkind_bits(k);
    return w == 0 || w == 64 ? v : v & ((1ull << w) - 1);
}

int64_t leval_signed(lkind k, uint64_t v) {
    int w = lkind_bits(k);
    return w <= 1 || w == 64 ? (int64_t)v : (int64_t)(v << (64 - w)) >> (64 - w);
}

// Like leval_signed, but the bit of I1 is a sign.
static int64_t sign_of(lkind k, uint64_t v) { return k == LK_I1 ? -(int64_t)(v & 1) : leval_signed(k, v); }

static uint64_t pattern(lkind k) { return leval_fit(k, 0x0101010101010101u * LEVAL_PATTERN); }

double leval_float(lkind k, uint64_t v) {
    float f;
    double d;
    uint16_t h = (uint16_t)v;
    if (k == LK_F64) return memcpy(&d, &v, 8), d;
    if (k == LK_F32) return memcpy(&f, &v, 4), f;
    return dtype_load_float(k == LK_F16 ? DT_F16 : DT_BF16, &h, 0);
}

static uint64_t float_bits(float f) {
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

float leval_flush(float v) { return isnormal(v) || !isfinite(v) ? v : copysignf(0, v); }

uint64_t leval_float_word(lkind k, double d) {
    uint64_t v = 0;
    uint16_t h = 0;
    if (k == LK_F64) return memcpy(&v, &d, 8), v;
    if (k == LK_F32) return float_bits((float)d);
    return dtype_store_float(k == LK_F16 ? DT_F16 : DT_BF16, &h, 0, d, false), h;
}

// ---------------------------------------------------------------- two operands

// Narrower kinds are computed in double: 53 >= 2 * 24 + 2 bits make the second rounding harmless. Minimum and
// maximum select an operand, so a NaN keeps its bits.
static uint64_t float_bin(lop op, lkind k, uint64_t a, uint64_t b) {
    double x = leval_float(k, a), y = leval_float(k, b);
    if (op == L_FMIN) return x < y ? a : b;
    if (op == L_FMAX) return x > y ? a : b;
    if (op == L_SCALE)
        return leval_float_word(k, isnan(y) ? y : ldexp(x, y > 4096 ? 4096 : y < -4096 ? -4096 : (int)y));
    return leval_float_word(k, op == L_ADD ? x + y : op == L_SUB ? x - y : op == L_MUL ? x * y : x / y);
}

static bool compare(lop op, lkind k, uint64_t x, uint64_t y) {
    if (lkind_is_float(k)) {
        double a = leval_float(k, x), b = leval_float(k, y);
        return op == L_EQ ? a == b : op == L_NE ? a != b : op == L_SLT ? a < b : op == L_SLE ? a <= b : false;
    }
    int64_t a = sign_of(k, x), b = sign_of(k, y);
    if (op == L_EQ) return x == y;
    if (op == L_NE) return x != y;
    if (op == L_SLT) return a < b;
    if (op == L_SLE) return a <= b;
    return op == L_ULT ? x < y : x <= y;
}

static uint64_t shift(lop op, lkind k, uint64_t x, uint64_t n) {
    if (n >= (uint64_t)lkind_bits(k)) return pattern(k);
    if (op == L_SHL) return x << n;
    return op == L_LSHR ? x >> n : (uint64_t)(sign_of(k, x) >> n);
}

static uint64_t int_bin(lop op, lkind k, uint64_t x, uint64_t y) {
    int64_t a = sign_of(k, x), b = sign_of(k, y);
    if (op == L_ADD) return x + y;
    if (op == L_SUB) return x - y;
    if (op == L_MUL) return x * y;
    if (op == L_AND) return x & y;
    if (op == L_OR) return x | y;
    if (op == L_XOR) return x ^ y;
    if (op == L_SMIN) return a < b ? x : y;
    if (op == L_SMAX) return a > b ? x : y;
    if (op == L_UMIN) return x < y ? x : y;
    if (op == L_UMAX) return x > y ? x : y;
    return shift(op, k, x, y);
}

uint64_t leval_bin(lop op, lkind k, uint64_t x, uint64_t y) {
    if (lop_class(op) == LC_COMPARE) return compare(op, k, x, y);
    return lkind_is_float(k) ? float_bin(op, k, x, y) : leval_fit(k, int_bin(op, k, x, y));
}

static const char *divide(lop op, lkind k, uint64_t x, uint64_t y, uint64_t *out) {
    int64_t a = leval_signed(k, x), b = leval_signed(k, y);
    bool is_signed = op == L_SDIV || op == L_SREM;
    if (y == 0) return "division by zero";
    if (is_signed && b == -1 && x == leval_fit(k, 1ull << (lkind_bits(k) - 1)))
        return "division of the minimum by -1";
    *out = leval_fit(k, op == L_SDIV   ? (uint64_t)(a / b)
                        : op == L_SREM ? (uint64_t)(a % b)
                        : op == L_UDIV ? x / y
                                       : x % y);
    return NULL;
}

// ---------------------------------------------------------------- one operand

static double half_to_even(double v) {
    double r = round(v);
    if (fabs(v - trunc(v)) == 0.5) r = 2 * round(v / 2);
    return copysign(r, v);
}

static uint64_t float_un(lop op, lkind k, uint64_t v) {
    uint64_t top = 1ull << (lkind_bits(k) - 1);
    if (op == L_FNEG) return v ^ top;
    if (op == L_FABS) return v & ~top;
    double d = leval_float(k, v);
    return leval_float_word(k, op == L_SQRT    ? sqrt(d)
                               : op == L_FLOOR ? floor(d)
                               : op == L_CEIL  ? ceil(d)
                               : op == L_TRUNC ? trunc(d)
                                               : half_to_even(d));
}

static uint64_t float_to_int(lop op, lkind to, double d) {
    int w = lkind_bits(to);
    bool is_signed = op != L_FTOUI;
    double most = ldexp(1, is_signed ? w - 1 : w), least = is_signed ? -most : 0;
    d = op == L_RINTI || op == L_RINTSAT ? half_to_even(d) : trunc(d);
    if (op == L_RINTSAT) d = d < least ? least : d < most ? d : d >= most ? most - 1 : 0;
    if (!(d >= least && d < most)) return pattern(to);
    return leval_fit(to, is_signed ? (uint64_t)(int64_t)d : (uint64_t)d);
}

// 64-bit integers are converted to narrow floats by one machine conversion, to round once.
static uint64_t int_to_float(lop op, lkind from, lkind to, uint64_t v) {
    int64_t s = sign_of(from, v);
    if (to == LK_F32) return float_bits(op == L_SITOF ? (float)s : (float)v);
    return leval_float_word(to, op == L_SITOF ? (double)s : (double)v);
}

static uint64_t saturated(lop op, int64_t v) {
    int64_t lo = op == L_SATU8 ? 0 : INT8_MIN, hi = op == L_SATU8 ? UINT8_MAX : INT8_MAX;
    return leval_fit(LK_I8, (uint64_t)(v < lo ? lo : v > hi ? hi : v));
}

static uint64_t convert(lop op, lkind from, lkind to, uint64_t v) {
    if (op == L_SEXT) return leval_fit(to, (uint64_t)sign_of(from, v));
    if (op == L_ZEXT) return v;
    if (op == L_ITRUNC) return leval_fit(to, v);
    if (op == L_SATU8 || op == L_SATS8) return saturated(op, sign_of(from, v));
    if (op == L_SITOF || op == L_UITOF) return int_to_float(op, from, to, v);
    if (lop_class(op) == LC_TO_INT) return float_to_int(op, to, leval_float(from, v));
    return leval_float_word(to, leval_float(from, v));
}

static void put_bits(uint8_t *bytes, int64_t at, int n, uint64_t v) {
    for (int i = 0; i < n; i++)
        if (v >> i & 1) bytes[(at + i) / 8] |= (uint8_t)(1 << (at + i) % 8);
}

static uint64_t get_bits(const uint8_t *bytes, int64_t at, int n) {
    uint64_t v = 0;
    for (int i = 0; i < n; i++) v |= (uint64_t)(bytes[(at + i) / 8] >> (at + i) % 8 & 1) << i;
    return v;
}

// Low lanes and low bits first.
static void bitcast(ltype from, ltype to, const uint64_t *a, uint64_t *out) {
    if (from.lanes == to.lanes) {
        memcpy(out, a, from.lanes * sizeof *a);
        return;
    }
    uint8_t bytes[1 << 12] = {0};
    for (int l = 0; l < from.lanes; l++)
        put_bits(bytes, (int64_t)l * lkind_bits(from.kind), lkind_bits(from.kind), a[l]);
    for (int l = 0; l < to.lanes; l++)
        out[l] = get_bits(bytes, (int64_t)l * lkind_bits(to.kind), lkind_bits(to.kind));
}

// ---------------------------------------------------------------- across lanes

// Upper half onto lower half, until one lane is left.
static uint64_t across(lop op, ltype t, const uint64_t *a) {
    uint64_t v[1 << 10];
    lop two = lop_across(op, t.kind);
    memcpy(v, a, t.lanes * sizeof *a);
    for (int n = t.lanes; n > 1; n = (n + 1) / 2)
        for (int i = 0; i < n / 2; i++) v[i] = leval_bin(two, t.kind, v[i], v[(n + 1) / 2 + i]);
    return v[0];
}

static uint64_t dot(lop op, uint64_t acc, uint32_t x, uint32_t y) {
    bool halves = op == L_DOT2 || op == L_DOT2_S8 || op == L_DOT2_U8;
    bool unsigned_x = op == L_DOT4_US || op == L_DOT4_UU, unsigned_y = op == L_DOT4_UU || op == L_DOT2_U8;
    lkind kx = halves ? LK_I16 : LK_I8, ky = op == L_DOT2 ? LK_I16 : LK_I8;
    for (int up = 0; up < 32; up += halves ? 16 : 8) {
        uint64_t a = leval_fit(kx, x >> up), b = leval_fit(ky, y >> up);
        int64_t left = unsigned_x ? (int64_t)a : leval_signed(kx, a);
        acc += (uint64_t)(left * (unsigned_y ? (int64_t)b : leval_signed(ky, b)));
    }
    return leval_fit(LK_I32, acc);
}

static uint64_t multiply_add(lkind k, bool fused, uint64_t a, uint64_t b, uint64_t c) {
    double x = leval_float(k, a), y = leval_float(k, b), z = leval_float(k, c);
    if (!fused) return leval_bin(L_ADD, k, leval_bin(L_MUL, k, a, b), c);
    return k == LK_F64 ? leval_float_word(k, fma(x, y, z))
                       : leval_float_word(k, fmaf((float)x, (float)y, (float)z));
}

// ---------------------------------------------------------------- instructions

static uint64_t constant(const ins *x, int lane) {
    lkind k = x->type.kind;
    if (x->op == L_IOTA) return leval_fit(k, (uint64_t)lane);
    return lkind_is_float(k) ? leval_float_word(k, x->f) : leval_fit(k, (uint64_t)x->i); // L_NULL: 0
}

static uint64_t moved(const ins *x, int lanes, const uint64_t *const *a, int lane) {
    if (x->op == L_SPLAT) return a[0][0];
    if (x->op == L_EXTRACT) return a[0][x->i];
    if (x->op == L_INSERT) return lane == x->i ? a[1][0] : a[0][lane];
    if (x->op == L_PERMUTE) return a[0][a[1][lane] % (uint64_t)lanes];
    return x->mask[lane] < lanes ? a[0][x->mask[lane]] : a[1][x->mask[lane] - lanes];
}

static uint64_t eval_lane(const ins *x, const ltype *types, const uint64_t *const *a, bool fused, int l) {
    lkind to = x->type.kind;
    switch (lop_class(x->op)) {
    case LC_CONST: return constant(x, l);
    case LC_LANES: return moved(x, types[0].lanes, a, l);
    case LC_ARITHMETIC:
    case LC_FLOAT:
    case LC_MIN_MAX:
    case LC_BITS:
    case LC_SHIFT:
    case LC_COMPARE: return leval_bin(x->op, types[0].kind, a[0][l], a[1][l]);
    case LC_MULADD: return multiply_add(to, fused || x->op == L_FMA, a[0][l], a[1][l], a[2][l]);
    case LC_SIGN:
    case LC_SQRT:
    case LC_ROUND: return float_un(x->op, to, a[0][l]);
    case LC_SELECT: return a[a[0][types[0].lanes == 1 ? 0 : l] ? 1 : 2][l];
    case LC_RESIZE:
    case LC_TO_FLOAT:
    case LC_TO_INT:
    case LC_PRECISION: return convert(x->op, types[0].kind, to, a[0][l]);
    case LC_DOT: return dot(x->op, a[0][l], (uint32_t)a[1][l], (uint32_t)a[2][l]);
    case LC_BLOCK: return block_lane(x->op, a, l);
    case LC_REDUCE: return across(x->op, types[0], a[0]);
    case LC_DIVIDE:
    case LC_BITCAST: // below
    case LC_PLACE:
    case LC_MEMORY:
    case LC_POINTER:
    case LC_VARIABLE:
    case LC_CONTROL:
    case LC_CALL:
    case LC_TILE:
    case LC_THREADS:
    case LC_GPU:
    case LC_COMMENT: break;
    }
    return 0;
}

const char *leval(const ins *x, const ltype *types, const uint64_t *const *args, bool fused, uint64_t *out) {
    lclass c = lop_class(x->op);
    const char *error = NULL;
    if (c == LC_BITCAST) return bitcast(types[0], x->type, args[0], out), NULL;
    for (int l = 0; l < x->type.lanes && !error; l++)
        if (c == LC_DIVIDE) error = divide(x->op, x->type.kind, args[0][l], args[1][l], &out[l]);
        else out[l] = eval_lane(x, types, args, fused, l);
    return error;
}

static bool is_integer(ltype t) { return t.lanes == 1 && !lkind_is_float((lkind)t.kind) && t.kind != LK_PTR; }

bool leval_integer(const ins *x, const int64_t *args, int64_t *out) {
    enum { OPERANDS = 3 };
    ltype types[OPERANDS];
    uint64_t words[OPERANDS], result = 0;
    const uint64_t *of[OPERANDS];
    if (!is_integer(x->type) || x->nargs > OPERANDS) return false;
    for (int i = 0; i < x->nargs; i++) {
        types[i] = x->args[i]->type;
        if (!is_integer(types[i])) return false;
        words[i] = leval_fit((lkind)types[i].kind, (uint64_t)args[i]);
        of[i] = &words[i];
    }
    if (leval(x, types, of, false, &result)) return false;
    *out = leval_signed((lkind)x->type.kind, result);
    return true;
}
