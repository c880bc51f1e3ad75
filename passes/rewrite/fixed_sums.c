// Sums and products of two quantised tensors in integers. In: a byte that is computed in f32 from two bytes and constants, such as
// the quantised sum of a residual connection, or product with a gate. Out:
//
//   int8(rint(max(float(a - za) * sa + float(b - zb) * sb, 0) / d) + z)
//       = int8(min(max((a * A + b * B + C) >> p, least), most))
//   int8(rint(float(a - za) * sa * (float(b - zb) * sb) / d) + z)
//       = int8(min(max((a * (b * D + A) + b * B + C) >> p, least), most))
//
// All 65,536 pairs are evaluated by ir/kernel/eval.c, in f32 as ONNX defines it. For A and B near the exact factors, each
// pair bounds C. Most A and B leave none, because roundings to integers and roundings of f32 move different pairs across a
// step; only those pairs near a step decide, so many A and B can be tried. The constants that are found are compared
// with all pairs. On targets without floating point, where no constants give all bytes, pairs near a step are left to f32: few in a
// hundred.
#include "passes/rewrite/fixed_sums.h"
#include "compiler/base/integers.h"
#include "ir/kernel/eval.h"
#include <math.h>

enum { BYTES = 256, TERMS = 40, TRIED = 33, SHIFT_MOST = 24, OPERANDS = 2 };

// An operation of the function; operands are terms before it.
typedef struct term {
    const expr *x;
    int arg[OPERANDS];
    double factor[OPERANDS], both, constant; // about: both * a * b + factor[0] * a + factor[1] * b + constant
    cell *value;                             // for one a and all b
} term;

typedef struct pair_sum {
    arena *scratch;
    const expr *leaf[OPERANDS];
    int leaves, n;
    term terms[TERMS];
    int least[OPERANDS];            // of the 256 bytes of a leaf
    int64_t factor[OPERANDS], both; // A, B and D
    int64_t added, lo, hi;          // C, and the clamp
    int shift;                      // p
    int64_t band;                   // of sums around a step whose bytes may differ; 0: nowhere
    int16_t *result;                // by a and b
} pair_sum;

// ---------------------------------------------------------------- matching
static bool is_constant(const term *n) { return n->factor[0] == 0 && n->factor[1] == 0 && n->both == 0; }

static int push(pair_sum *s, term n) {
    if (s->n == TERMS) return -1;
    n.value = ARENA_ARRAY(s->scratch, cell, BYTES);
    s->terms[s->n] = n;
    return s->n++;
}

static int push_leaf(pair_sum *s, const expr *x) {
    int j = 0;
    while (j < s->leaves && s->leaf[j] != x) j++;
    if (j == OPERANDS) return -1;
    if (j == s->leaves) {
        s->leaf[s->leaves++] = x;
        s->least[j] = x->dtype == DT_I8 ? -BYTES / 2 : 0;
    }
    term n = {.x = x};
    n.factor[j] = 1;
    return push(s, n);
}

static bool scale_line(term *n, const term *by, bool divides) {
    double v = divides ? 1 / by->constant : by->constant;
    for (int j = 0; j < OPERANDS; j++) n->factor[j] *= v;
    n->both *= v, n->constant *= v;
    return is_constant(by) && isfinite(v);
}

// Combines a function of one leaf with a function of the other.
static bool multiply_lines(term *n, const term *a, const term *b) {
    for (int j = 0; j < OPERANDS; j++) {
        if (a->factor[j] != 0 && b->factor[j] != 0) return false;
        n->factor[j] = a->constant * b->factor[j] + a->factor[j] * b->constant;
    }
    n->both = a->factor[0] * b->factor[1] + a->factor[1] * b->factor[0];
    n->constant = a->constant * b->constant;
    return a->both == 0 && b->both == 0;
}

// The surface near the result of an operation. False: it is unknown.
static bool set_line(term *n, const term *a, const term *b) {
    expr_op op = n->x->op;
    if ((op == X_MUL && is_constant(a)) || ((op == X_MIN || op == X_MAX) && is_constant(a))) {
        const term *t = a;
        a = b, b = t;
    }
    if (op == X_MUL && !is_constant(b)) return multiply_lines(n, a, b);
    for (int j = 0; j < OPERANDS; j++) n->factor[j] = a->factor[j];
    n->both = a->both, n->constant = a->constant;
    if (op == X_CAST || op == X_RINT) return true;
    if (op == X_MIN || op == X_MAX) return is_constant(b);
    if (op == X_MUL || op == X_DIV) return scale_line(n, b, op == X_DIV);
    if (op != X_ADD && op != X_SUB) return false;
    double sign = op == X_ADD ? 1 : -1;
    for (int j = 0; j < OPERANDS; j++) n->factor[j] += sign * b->factor[j];
    n->both += sign * b->both, n->constant += sign * b->constant;
    return true;
}

static bool is_number(dtype t) { return t == DT_F32 || t == DT_I32; }

// The term of x, -1: not such a function.
static int find_terms(pair_sum *s, const expr *x, bool root) {
    if (dtype_is_byte(x->dtype) && !root) return push_leaf(s, x);
    if (!root && !is_number(x->dtype)) return -1;
    term n = {.x = x};
    int arity = expr_arity(x->op);
    if (x->op == X_CONST) {
        n.constant = dtype_is_float(x->dtype) ? x->f : (double)x->i;
        return push(s, n);
    }
    if (arity < 1 || arity > OPERANDS) return -1;
    for (int j = 0; j < arity; j++) {
        n.arg[j] = find_terms(s, x->arg[j], false);
        if (n.arg[j] < 0) return -1;
    }
    if (!set_line(&n, &s->terms[n.arg[0]], &s->terms[n.arg[arity - 1]])) return -1;
    return push(s, n);
}

// ---------------------------------------------------------------- all pairs
static void set_leaf(const pair_sum *s, const term *n, int a) {
    for (int j = 0; j < BYTES; j++) n->value[j].i = n->x == s->leaf[0] ? a : s->least[1] + j;
}

static void evaluate_for(const pair_sum *s, int a) {
    for (int j = 0; j < s->n; j++) {
        const term *n = &s->terms[j];
        const cell *x = s->terms[n->arg[0]].value, *y = s->terms[n->arg[1]].value;
        bool leaf = n->x == s->leaf[0] || n->x == s->leaf[1];
        if (leaf) set_leaf(s, n, a);
        else if (n->x->op != X_CONST) eval_op(n->x, BYTES, (cells[]){{x, 1}, {y, 1}, {x, 1}}, n->value);
        else
            for (int i = 0; i < BYTES; i++)
                if (dtype_is_float(n->x->dtype)) n->value[i].f = n->x->f;
                else n->value[i].i = n->x->i;
    }
}

static void evaluate(pair_sum *s) {
    s->result = ARENA_ARRAY(s->scratch, int16_t, BYTES *BYTES);
    s->lo = INT64_MAX, s->hi = INT64_MIN;
    for (int a = 0; a < BYTES; a++) {
        evaluate_for(s, s->least[0] + a);
        for (int b = 0; b < BYTES; b++) {
            int64_t v = s->terms[s->n - 1].value[b].i;
            s->result[a * BYTES + b] = (int16_t)v;
            if (v < s->lo) s->lo = v;
            if (v > s->hi) s->hi = v;
        }
    }
}

// ---------------------------------------------------------------- constants
static int64_t sum_at(const pair_sum *s, int pair) {
    int64_t a = s->least[0] + pair / BYTES, b = s->least[1] + pair % BYTES;
    return a * (b * s->both + s->factor[0]) + b * s->factor[1];
}

static double surface_at(const pair_sum *s, int pair) {
    const term *all = &s->terms[s->n - 1];
    double a = s->least[0] + pair / BYTES, b = s->least[1] + pair % BYTES;
    return a * (b * all->both + all->factor[0]) + b * all->factor[1] + all->constant;
}

typedef VEC(int) pairs;

// Pairs whose exact sums are so near a step that A and B may move them across it.
static pairs near_steps(const pair_sum *s) {
    double near = ldexp(2 * TRIED * BYTES, -s->shift);
    pairs found = {0};
    for (int j = 0; j < BYTES * BYTES; j++) {
        double v = surface_at(s, j) + 0.5;
        if (fabs(v - rint(v)) <= near) VEC_PUSH(s->scratch, &found, j);
    }
    return found;
}

// The numbers C that give these pairs their bytes.
static bool find_added(pair_sum *s, const pairs *some) {
    const term *all = &s->terms[s->n - 1];
    int64_t step = (int64_t)1 << s->shift, middle = (int64_t)rint((all->constant + 0.5) * (double)step),
            lo = middle - step / 2, hi = middle + step / 2;
    for (int j = 0; j < some->n && lo <= hi; j++) {
        int64_t v = s->result[some->at[j]], sum = sum_at(s, some->at[j]);
        int64_t least = v * step - sum, most = least + step - 1;
        if (v > s->lo && least > lo) lo = least;
        if (v < s->hi && most < hi) hi = most;
    }
    s->added = lo + (hi - lo) / 2;
    return lo <= hi;
}

static bool gives(const pair_sum *s, int64_t sum, int pair) {
    int64_t v = sum >> s->shift;
    return (v < s->lo ? s->lo : v > s->hi ? s->hi : v) == s->result[pair];
}

// Whether the integer form gives all bytes, but for pairs in the band, which is made so wide if `widens`.
static bool gives_all(pair_sum *s, bool widens) {
    int64_t step = (int64_t)1 << s->shift;
    for (int j = 0; j < BYTES * BYTES; j++) {
        int64_t sum = sum_at(s, j) + s->added, low = sum & (step - 1),
                far = low < step - low ? low : step - low;
        if (sum < INT32_MIN || sum > INT32_MAX) return false;
        if (gives(s, sum, j)) continue;
        if (!widens) return false;
        if (far >= s->band) s->band = far + 1;
    }
    return true;
}

// The largest shift for which sums have 32 bits.
static bool choose_shift(pair_sum *s) {
    double most = 0;
    for (int j = 0; j < OPERANDS * OPERANDS; j++) { // it is largest in a corner
        int pair = (j / OPERANDS * BYTES + j % OPERANDS) * (BYTES - 1);
        most = fmax(most, fabs(surface_at(s, pair)) + 1);
    }
    if (!(most < 0x1p16)) return false;
    s->shift = 30 - ilogb(most) < SHIFT_MOST ? 30 - ilogb(most) : SHIFT_MOST;
    return true;
}

static bool find_factors(pair_sum *s) {
    const term *all = &s->terms[s->n - 1];
    if (s->lo == s->hi || !choose_shift(s)) return false;
    pairs some = near_steps(s);
    for (int i = 0; i < TRIED; i++)
        for (int j = 0; j < TRIED; j++) {
            s->factor[0] = (int64_t)rint(ldexp(all->factor[0], s->shift)) + alternate(i);
            s->factor[1] = (int64_t)rint(ldexp(all->factor[1], s->shift)) + alternate(j);
            if (find_added(s, &some) && gives_all(s, false)) return true;
        }
    return false;
}

// A multiple of D for a factor that is a multiple of `both`, as of zero points: rounded alone, it would not fit D, which is rounded.
static int64_t factor_beside(const pair_sum *s, double factor, double both) {
    double zero = both != 0 ? factor / both : 0.5;
    bool whole = fabs(zero) <= BYTES && fabs(zero - rint(zero)) < 0x1p-12;
    return whole ? (int64_t)rint(zero) * s->both : (int64_t)rint(ldexp(factor, s->shift));
}

// Share of the pairs that may be left to f32.
static bool few_in_band(const pair_sum *s) {
    enum { SHARE = 4 };
    int64_t step = (int64_t)1 << s->shift;
    int near = 0;
    if (4 * s->band >= step) return false;
    for (int j = 0; j < BYTES * BYTES; j++)
        near += ((sum_at(s, j) + s->added + s->band) & (step - 1)) < 2 * s->band;
    return near * SHARE <= BYTES * BYTES;
}

static bool find_band(pair_sum *s) {
    const term *all = &s->terms[s->n - 1];
    if (s->lo == s->hi || !choose_shift(s)) return false;
    s->both = (int64_t)rint(ldexp(all->both, s->shift));
    for (int j = 0; j < OPERANDS; j++) s->factor[j] = factor_beside(s, all->factor[j], all->both);
    double exact = 0.5 + surface_at(s, 0);
    s->added = (int64_t)rint(ldexp(exact, s->shift)) - sum_at(s, 0), s->band = 0;
    return gives_all(s, true) && few_in_band(s);
}

// ---------------------------------------------------------------- rewriting
// Bounds that no result passes become the bounds of the type, for which targets have instructions.
static void widen_clamp(pair_sum *s, dtype t) {
    bool low = true, high = true;
    for (int j = 0; j < BYTES * BYTES; j++) {
        int64_t v = (sum_at(s, j) + s->added) >> s->shift;
        low &= v >= s->lo, high &= v <= s->hi;
    }
    if (low) s->lo = dtype_int_min(t);
    if (high) s->hi = dtype_int_max(t);
}

static expr *build(const pair_sum *s, kernel *k, expr *x) {
    expr *byte[OPERANDS], *y = x_int(k, DT_I32, s->added), *b = x_int(k, DT_I32, s->factor[0]);
    for (int j = 0; j < OPERANDS; j++) byte[j] = x_cast(k, (expr *)s->leaf[j], DT_I32, true);
    if (s->both) b = x_add(k, x_mul(k, byte[1], x_int(k, DT_I32, s->both)), b);
    y = x_add(k, y, x_mul(k, byte[0], b));
    y = x_add(k, y, x_mul(k, byte[1], x_int(k, DT_I32, s->factor[1])));
    expr *sum = y, *last = x_int(k, DT_I32, ((int64_t)1 << s->shift) - 1);
    y = x_bin(k, X_SHR, y, x_int(k, DT_I32, s->shift));
    y = x_bin(k, X_MAX, y, x_int(k, DT_I32, s->lo));
    y = x_cast(k, x_bin(k, X_MIN, y, x_int(k, DT_I32, s->hi)), x->dtype, true);
    if (!s->band) return y;
    expr *near = x_bin(k, X_AND, x_add(k, sum, x_int(k, DT_I32, s->band)), last);
    return x_select(k, x_lt(k, near, x_int(k, DT_I32, 2 * s->band)), x, y);
}

expr *sum_in_integers(kernel *k, expr *x, bool bands) {
    if (x->op != X_CAST || !dtype_is_byte(x->dtype) || x->arg[0]->dtype != DT_F32) return NULL;
    pair_sum s = {.scratch = arena_new()};
    expr *y = NULL;
    if (find_terms(&s, x, true) >= 0 && s.leaves == OPERANDS) {
        bool product = s.terms[s.n - 1].both != 0;
        evaluate(&s);
        if ((!product && find_factors(&s)) || (bands && find_band(&s)))
            widen_clamp(&s, x->dtype), y = build(&s, k, x);
    }
    arena_destroy(s.scratch);
    return y;
}
