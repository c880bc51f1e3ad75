// Requantised sums and products. In: an integer of at most 16 bits, x = int16(rint(e)), where e in f32 consists of two such integers
// u and v, constants, sums and products, and is a + b u + c v + d u v. Out, with products and A of 64 bits:
//
//   x = int16(min(max(((u << 8) * B + (v << 8) * C + (u * v) * D + A) >> (32 + k), least), most))
//
// Samples must show that both differ by one at most, as they do where f32 rounds to another integer. Not with --fp strict.
#include "passes/rewrite/half_sums.h"
#include "ir/kernel/eval.h"
#include "ir/kernel/program.h"
#include <math.h>
#include <stdlib.h>

enum {
    LEAVES = 2,
    TERMS = 4,
    BOTH = 3,
    HALF_WORD = 32,
    FACTOR_BITS = 31,
    UP = 8,
    SUM_BITS = 61,
    SAMPLES = 200,
    MOST_NODES = 64
};

// Coefficients of 1, u, v and u v.
typedef struct bilinear {
    double at[TERMS];
} bilinear;

typedef struct sums {
    kernel *k;
    const expr *leaf[LEAVES]; // floats
    expr *of[LEAVES];         // the integers
    int n, nodes, shift;
    int64_t value[LEAVES]; // of a sample
    int64_t factor[TERMS];
    bool ties; // all factors are exact, so halves occur, which round to even
} sums;

// ---------------------------------------------------------------- the form
// An integer of at most 16 bits, so that products with another one fit 32 bits; NULL: e is something else.
static expr *short_integer(expr *e) {
    if (e->op != X_CAST || e->dtype != DT_F32 || !dtype_is_int(e->arg[0]->dtype)) return NULL;
    expr *i = e->arg[0];
    while (i->op == X_CAST && dtype_is_int(i->arg[0]->dtype) && dtype_bits(i->dtype) > 16) i = i->arg[0];
    bool fits = dtype_bits(i->dtype) < 16 || i->dtype == DT_I16;
    return fits && i->op != X_CONST ? i : NULL;
}

static bool note_leaf(sums *h, const expr *e, expr *of, bilinear *out) {
    int j = 0;
    while (j < h->n && h->leaf[j] != e) j++;
    if (j == LEAVES) return false;
    if (j == h->n) h->leaf[h->n] = e, h->of[h->n++] = of;
    out->at[1 + j] = 1;
    return true;
}

static bool is_constant(const bilinear *p) { return !p->at[1] && !p->at[2] && !p->at[BOTH]; }

// False: a square, or a product of more than two.
static bool multiply(const bilinear *x, const bilinear *y, bilinear *out) {
    for (int i = 0; i < TERMS; i++)
        for (int j = 0; j < TERMS; j++) {
            double v = x->at[i] * y->at[j];
            if (v != 0 && (i & j)) return false;
            if (v != 0) out->at[i | j] += v;
        }
    return true;
}

static bool find_form(sums *h, expr *e, bilinear *out) {
    bilinear x, y;
    *out = (bilinear){{0}};
    expr *of = short_integer(e);
    if (of) return note_leaf(h, e, of, out);
    if (e->dtype != DT_F32 || h->nodes++ > MOST_NODES) return false;
    if (e->op == X_CONST) return out->at[0] = e->f, isfinite(e->f);
    if (e->op != X_ADD && e->op != X_SUB && e->op != X_MUL && e->op != X_DIV) return false;
    if (!find_form(h, e->arg[0], &x) || !find_form(h, e->arg[1], &y)) return false;
    if (e->op == X_DIV) {
        if (!is_constant(&y) || y.at[0] == 0) return false;
        y.at[0] = 1 / y.at[0];
    }
    if (e->op == X_MUL || e->op == X_DIV) return multiply(&x, &y, out);
    for (int i = 0; i < TERMS; i++) out->at[i] = x.at[i] + (e->op == X_SUB ? -y.at[i] : y.at[i]);
    return true;
}

// ---------------------------------------------------------------- factors
// Term i's operand is shifted left by this number of bits; the largest number of bits it has afterwards.
static int up_of(int i) { return i == 1 || i == 2 ? UP : 0; }
static int operand_bits(int i) { return i == BOTH ? 30 : i ? 15 + UP : 0; }

static bool choose_factors(sums *h, const bilinear *p) {
    int room = SUM_BITS - HALF_WORD;
    for (int i = 0; i < TERMS; i++) {
        if (p->at[i] == 0) continue;
        if (!isfinite(p->at[i])) return false;
        int bits = ilogb(p->at[i]) + 1 - up_of(i), factor = FACTOR_BITS - HALF_WORD - bits,
            sum = SUM_BITS - 1 - HALF_WORD - operand_bits(i) - bits, most = i && factor < sum ? factor : sum;
        if (most < room) room = most;
    }
    h->shift = room < HALF_WORD - 1 ? room : HALF_WORD - 1;
    if (h->shift < 0) return false;
    h->ties = true;
    for (int i = 0; i < TERMS; i++) {
        double v = ldexp(p->at[i] + (i ? 0 : 0.5), HALF_WORD + h->shift - up_of(i));
        h->factor[i] = (int64_t)rint(v);
        h->ties &= v == rint(v);
    }
    return true;
}

static int64_t limited(const expr *x, int64_t y) {
    int64_t least = dtype_int_min(x->dtype), most = dtype_int_max(x->dtype);
    return y < least ? least : y > most ? most : y;
}

static int64_t sum_at(const sums *h) {
    int64_t u = h->value[0], v = h->value[1], wide = h->factor[0];
    wide += ((u * h->factor[1] + v * h->factor[2]) * (1 << UP)) + u * v * h->factor[BOTH];
    int64_t y = wide >> (HALF_WORD + h->shift), below = wide & (((int64_t)1 << (HALF_WORD + h->shift)) - 1);
    return h->ties && !below ? y & -2 : y;
}

// ---------------------------------------------------------------- samples
static cell value_of(const sums *h, const expr *e) {
    cell a[3] = {{0}};
    for (int j = 0; j < h->n; j++)
        if (e == h->leaf[j]) return (cell){.f = (double)h->value[j]};
    if (e->op == X_CONST) return dtype_is_float(e->dtype) ? (cell){.f = e->f} : (cell){.i = e->i};
    for (int j = 0; j < expr_arity(e->op); j++) a[j] = value_of(h, e->arg[j]);
    return eval_scalar(e, a);
}

static bool agrees(sums *h, const expr *x) {
    static const double step[LEAVES] = {0.6180339887498949, 0.7548776662466927}; // in step with no stairs
    for (int i = 0; i < SAMPLES; i++) {
        for (int j = 0; j < h->n; j++) {
            double least = (double)dtype_int_min(h->of[j]->dtype),
                   most = (double)dtype_int_max(h->of[j]->dtype);
            // The first ones are the corners, every second one is near the middle.
            double at = i < 4   ? i >> j & 1
                        : i % 2 ? fmod(i * step[j], 1)
                                : 0.5 + (fmod(i * step[j], 1) - 0.5) / 64;
            h->value[j] = (int64_t)rint(least + (most - least) * at);
        }
        if (llabs(limited(x, sum_at(h)) - value_of(h, x).i) > 1) return false;
    }
    return true;
}

// ---------------------------------------------------------------- the expression
static expr *wide_term(const sums *h, expr *operand, int i) {
    kernel *k = h->k;
    return x_mul(k, x_cast(k, operand, DT_I64, true), x_i64(k, h->factor[i]));
}

static expr *build(const sums *h, const expr *x) {
    kernel *k = h->k;
    expr *wide = x_i64(k, h->factor[0]), *of[LEAVES];
    for (int j = 0; j < h->n; j++) {
        of[j] = x_cast(k, h->of[j], DT_I32, true);
        expr *up = x_mul(k, of[j], x_int(k, DT_I32, 1 << UP));
        if (h->factor[1 + j]) wide = x_add(k, wide_term(h, up, 1 + j), wide);
    }
    if (h->factor[BOTH]) wide = x_add(k, wide_term(h, x_mul(k, of[0], of[1]), BOTH), wide);
    expr *high = x_cast(k, x_bin(k, X_SHR, wide, x_i64(k, HALF_WORD)), DT_I32, true);
    expr *y = x_bin(k, X_SHR, high, x_int(k, DT_I32, h->shift));
    if (h->ties) {
        expr *below = x_bin(k, X_AND, wide, x_i64(k, ((int64_t)1 << (HALF_WORD + h->shift)) - 1));
        y = x_select(k, x_bin(k, X_EQ, below, x_i64(k, 0)), x_bin(k, X_AND, y, x_int(k, DT_I32, -2)), y);
    }
    y = x_bin(k, X_MIN, x_bin(k, X_MAX, y, x_int(k, DT_I32, limited(x, INT64_MIN))),
              x_int(k, DT_I32, limited(x, INT64_MAX)));
    return x_cast(k, y, x->dtype, true);
}

expr *half_of_sum(kernel *k, expr *x) {
    sums h = {.k = k};
    bilinear p;
    if (x->op != X_CAST || x->dtype != DT_I16 || x->arg[0]->op != X_RINT) return NULL;
    if (!find_form(&h, x->arg[0]->arg[0], &p) || h.n < LEAVES) return NULL;
    return choose_factors(&h, &p) && agrees(&h, x) ? build(&h, x) : NULL;
}
