// Requantisation to integers of 16 bits. In: such an integer that is a rising function of a sum. Out: with floating point
//
//   int16(rint(max(float(s) * scale[m] + b[m], 0) / d) + z)   =   int16(rint(float(s) * A[m] + B[m]))
//
// and without
//
//   = int16(min(max((s * M[m] + C[m]) >> (32 + k), least), most))      with products and C of 64 bits
//
// These have too many steps to examine each, as byte_steps.h does, and roundings of the first form move some of them anyway where sums
// have more than 24 bits. So samples of each channel must show that the function is the line, and that both forms differ by one
// at most. Not with --fp strict.
#include "passes/rewrite/half_lines.h"
#include <math.h>
#include <stdlib.h>

enum { HALF_WORD = 32, FACTOR_BITS = 31, SAMPLES = 64 };
static const double GOLDEN = 0.6180339887498949;

typedef struct line {
    chain *c;
    bool floats;
    byte_steps *all; // of the channels: slope, offset, out
    span clamp;
    int shift;            // k
    cell *factor, *added; // A and B, or M and C
    bool ties;            // some M is exact, so halves occur, which round to even
} line;

// The greatest shift for which the factors of all channels have 31 bits. False: none fits.
static bool choose_shift(line *l, int64_t channels) {
    double slope = 0;
    for (int64_t m = 0; m < channels; m++) slope = fmax(slope, l->all[m].slope);
    l->shift = FACTOR_BITS - 1 - ilogb(slope) - HALF_WORD;
    return l->shift >= 0 && l->shift < HALF_WORD - 1;
}

static bool set_channel(line *l, int64_t channel) {
    const byte_steps *st = &l->all[channel];
    if (l->floats) {
        l->factor[channel].f = (float)st->slope, l->added[channel].f = (float)st->offset;
        return true;
    }
    double one = ldexp(1, HALF_WORD + l->shift), factor = st->slope * one, added = (st->offset + 0.5) * one;
    l->factor[channel].i = (int64_t)rint(factor);
    l->ties |= factor == rint(factor);
    l->added[channel].i = (int64_t)rint(added);
    return l->factor[channel].i > 0 && fabs(added) < 0x1p61;
}

static int64_t value_at(const line *l, int64_t channel, int64_t s) {
    if (!l->floats) {
        int64_t y = (s * l->factor[channel].i + l->added[channel].i) >> (HALF_WORD + l->shift);
        return y < l->clamp.lo ? l->clamp.lo : y > l->clamp.hi ? l->clamp.hi : y;
    }
    double y = rint((double)((float)s * (float)l->factor[channel].f + (float)l->added[channel].f));
    return (int64_t)fmin(fmax(y, (double)l->clamp.lo), (double)l->clamp.hi);
}

// Whether the function, with the constants of its channel, rounds to the nearest integer and then adds integers at most: others,
// such as truncation, are as near to a line.
static bool rounds_to_nearest(const chain *c) {
    bool rounded = false;
    for (int j = c->n - 1; j >= 0; j--) {
        const expr *x = c->links[j].op;
        bool cuts = x->op == X_FLOOR || x->op == X_CEIL || x->op == X_TRUNC ||
                    (x->op == X_CAST && dtype_is_float(x->arg[0]->dtype) && dtype_is_int(x->dtype));
        bool adds = x->op == X_ADD || x->op == X_SUB,
             whole = x->dtype != DT_F32 || c->constant[j].f == rint(c->constant[j].f);
        if (!rounded && cuts) return false;
        if (rounded && (x->op == X_MUL || x->op == X_DIV || (adds && !whole))) return false;
        rounded |= x->op == X_RINT;
    }
    return rounded;
}

static bool is_line(line *l, int64_t channel) {
    const span *in = &l->c->range;
    byte_steps st;
    line_find(l->c, &st, channel); // the constants of the channel
    if (!rounds_to_nearest(l->c)) return false;
    double from = ((double)l->clamp.lo - st.offset) / st.slope,
           to = ((double)l->clamp.hi - st.offset) / st.slope;
    for (int j = 0; j <= SAMPLES; j++) {
        double part = j < SAMPLES ? fmod(j * GOLDEN, 1) : 1; // in step with no stairs
        double s = from + (to - from) * part;
        int64_t at = (int64_t)fmin(fmax(s, (double)in->lo), (double)in->hi);
        if (llabs(value_at(l, channel, at) - chain_at(l->c, at)) > 1) return false;
    }
    return true;
}

static bool find_line(line *l, arena *scratch, dtype t) {
    int64_t n = chain_channels(l->c);
    l->all = ARENA_ARRAY(scratch, byte_steps, n);
    l->factor = ARENA_ARRAY(scratch, cell, n), l->added = ARENA_ARRAY(scratch, cell, n);
    l->clamp = (span){dtype_int_min(t), dtype_int_max(t)};
    for (int64_t m = 0; m < n; m++)
        if (!line_find(l->c, &l->all[m], m)) return false;
    if (!l->floats && !choose_shift(l, n)) return false;
    for (int64_t m = 0; m < n; m++)
        if (!set_channel(l, m) || !is_line(l, m)) return false;
    return true;
}

// Halves were rounded up, and leave no bits below the result: the even one of both numbers.
static expr *round_ties(const line *l, expr *wide, expr *y) {
    kernel *k = l->c->k;
    if (!l->ties) return y;
    expr *below = x_bin(k, X_AND, wide, x_i64(k, ((int64_t)1 << (HALF_WORD + l->shift)) - 1));
    return x_select(k, x_bin(k, X_EQ, below, x_i64(k, 0)), x_bin(k, X_AND, y, x_int(k, DT_I32, -2)), y);
}

static expr *build_integers(const line *l, expr *x) {
    chain *c = l->c;
    kernel *k = c->k;
    expr *s = x_cast(k, x_cast(k, c->leaf, DT_I32, true), DT_I64, true);
    expr *factor = x_cast(k, chain_numbers(c, "factor", DT_I32, l->factor), DT_I64, true);
    expr *wide = x_add(k, x_mul(k, s, factor), chain_numbers(c, "added", DT_I64, l->added));
    expr *high = x_cast(k, x_bin(k, X_SHR, wide, x_i64(k, HALF_WORD)), DT_I32, true);
    expr *y = round_ties(l, wide, x_bin(k, X_SHR, high, x_int(k, DT_I32, l->shift)));
    y = x_bin(k, X_MIN, x_bin(k, X_MAX, y, x_int(k, DT_I32, l->clamp.lo)), x_int(k, DT_I32, l->clamp.hi));
    return x_cast(k, y, x->dtype, true);
}

static expr *build_floats(const line *l, expr *x) {
    chain *c = l->c;
    kernel *k = c->k;
    expr *v = x_mul(k, x_cast(k, c->leaf, DT_F32, false), chain_numbers(c, "factor", DT_F32, l->factor));
    v = x_add(k, v, chain_numbers(c, "added", DT_F32, l->added));
    return x_cast(k, x_un(k, X_RINT, v), x->dtype, x->saturate);
}

expr *half_of_line(arena *scratch, chain *c, expr *x, bool floats) {
    line l = {.c = c, .floats = floats};
    if (!find_line(&l, scratch, x->dtype)) return NULL;
    return floats ? build_floats(&l, x) : build_integers(&l, x);
}
