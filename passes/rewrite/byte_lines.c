// Requantisation by one product and one sum. In: a byte that is a rising function of an integer. Out: with two constants of
// each channel instead of three or four, and less arithmetic:
//
//   int8(rint((float(s - sum[m]) * scale[m] + b[m]) / d) + z)   =   int8(rint(float(s) * A[m] + B[m]))
//
// Both sides never decrease with s, so they agree if they step at the same s from each byte to the next. Roundings of f32
// differ from one A and B to the next, so several near the exact ones are tried; those with the most steps in common
// remain. With --fp strict all steps must agree. Otherwise a few may be one sum off, as they are when the first form has its
// product and sum fused. The line is rounded both fused and not, because targets differ.
#include "passes/rewrite/byte_lines.h"
#include "compiler/base/integers.h"
#include <math.h>

enum { FACTORS_TRIED = 9, SUMS_TRIED = 9, AGREE_MOST = 64, NEVER = INT32_MAX };

// The order in which the steps of a channel are examined: first those that some line did not have, which are most likely
// not to agree with the next one either.
typedef struct step_order {
    uint8_t step[BYTES]; // from the least byte
    int doubtful;        // number of these at the front
} step_order;

typedef struct lines {
    const chain *c;
    const byte_steps *all;    // of the channels
    step_order *orders;       // of the channels
    int64_t count, least;     // least: of the byte's type
    cell *factor, *added;     // A and B
    bool one_factor, one_sum; // several channels have the same
} lines;

static float moved(double v, int steps) {
    float f = (float)v;
    return f + (float)steps * (nextafterf(fabsf(f), INFINITY) - fabsf(f));
}

// Adding 1.5 * 2^52 leaves no bit of a fraction.
static int64_t rounded(const lines *l, float v) {
    const double whole = 0x1.8p52, lo = (double)l->least, hi = lo + BYTES - 1, x = (double)v;
    return (int64_t)(((x > lo ? x < hi ? x : hi : lo) + whole) - whole);
}

// Of the byte, fused and not.
static span bytes_at(const lines *l, int64_t s, float factor, float added) {
    float x = (float)s, product = x * factor, sum = product + added;
    int64_t apart = rounded(l, sum), fused = rounded(l, fmaf(x, factor, added));
    return apart < fused ? (span){apart, fused} : (span){fused, apart};
}

// 0: from s on bytes are at least n; 1: from the sum before or after it. NEVER: further away.
static int step_off(const lines *l, int64_t n, int64_t s, float factor, float added) {
    bool late = bytes_at(l, s, factor, added).lo < n;
    bool early = s != l->c->range.lo && bytes_at(l, s - 1, factor, added).hi >= n;
    if (late && bytes_at(l, s + 1, factor, added).lo < n) return NEVER;
    if (early && bytes_at(l, s - 2, factor, added).hi >= n) return NEVER;
    return late || early;
}

static bool is_at(const lines *l, int64_t s, int64_t n, float factor, float added) {
    span v = bytes_at(l, s, factor, added);
    return v.lo == n && v.hi == n;
}

// The number of steps that do not agree, at most `most`.
static int steps_off(const lines *l, int64_t channel, float factor, float added, int most) {
    const span *in = &l->c->range;
    const byte_steps *st = &l->all[channel];
    step_order *o = &l->orders[channel];
    if (!is_at(l, in->lo, st->out.lo, factor, added) || !is_at(l, in->hi, st->out.hi, factor, added))
        return most;
    int off = 0;
    for (int64_t j = 0; j < st->out.hi - st->out.lo && off < most; j++) {
        uint8_t step = o->step[j];
        int more = step_off(l, st->out.lo + step, st->first[step], factor, added);
        if (more && j >= o->doubtful) o->step[j] = o->step[o->doubtful], o->step[o->doubtful++] = step;
        off = more == NEVER ? most : off + more;
    }
    return off;
}

// The middle of the sums with which the exact line steps as it should, or nearly so.
static double middle_sum(const byte_steps *st, double factor) {
    double lo = -INFINITY, hi = INFINITY;
    for (int64_t n = st->out.lo + 1; n <= st->out.hi; n++) {
        double s = (double)st->first[n - st->out.lo], border = (double)n - 0.5;
        lo = fmax(lo, border - s * factor), hi = fmin(hi, border - (s - 1) * factor);
    }
    return st->out.lo < st->out.hi ? lo + (hi - lo) / 2 : st->offset;
}

// The best B for this A, if fewer than `most` steps are off then: their number.
static int find_sum(const lines *l, int64_t channel, float factor, int most) {
    const byte_steps *st = &l->all[channel];
    double middle = l->one_sum ? st->offset : middle_sum(st, (double)factor);
    for (int j = 0; j < (l->one_sum ? 1 : SUMS_TRIED) && most; j++) {
        float added = moved(middle, alternate(j));
        int off = steps_off(l, channel, factor, added, most);
        if (off < most) l->added[channel].f = (double)added, most = off;
    }
    return most;
}

// The best A for channels from..to - 1. Out: the number of their steps that are off; NEVER: there is none.
static int find_factor(const lines *l, int64_t from, int64_t to) {
    int least = NEVER;
    float best = 0;
    for (int j = 0; j < FACTORS_TRIED && least; j++) {
        float factor = moved(l->all[from].slope, alternate(j));
        int off = 0;
        if (!isnormal(factor) || factor < 0) continue;
        for (int64_t m = from; m < to && off < least; m++) off += find_sum(l, m, factor, least - off);
        if (off < least) least = off, best = factor;
    }
    for (int64_t m = from; m < to && least < NEVER; m++) {
        l->factor[m].f = (double)best;
        find_sum(l, m, best, NEVER);
    }
    return least;
}

// All channels. Each byte that begins one off takes AGREE_MOST others, or with `exact` none may.
static bool find_lines(const lines *l, bool exact) {
    int64_t off = 0, bytes = 0, group = l->one_factor ? l->count : 1;
    for (int64_t m = 0; m < l->count; m += group) off += find_factor(l, m, m + group);
    for (int64_t m = 0; m < l->count; m++) bytes += l->all[m].out.hi - l->all[m].out.lo + 1;
    return off <= (exact ? 0 : bytes / AGREE_MOST);
}

// A line has two operations with constants.
static bool takes_more(const chain *c) {
    int operations = 0;
    for (int j = 0; j < c->n; j++) operations += c->links[j].other != NULL;
    return operations > 2;
}

expr *byte_of_line(arena *scratch, chain *c, expr *x, bool exact) {
    kernel *k = c->k;
    int64_t n = chain_channels(c);
    byte_steps *all = ARENA_ARRAY(scratch, byte_steps, n);
    lines l = {.c = c,
               .all = all,
               .count = n,
               .least = dtype_int_min(x->dtype),
               .one_factor = true,
               .one_sum = n > 1};
    if (!takes_more(c)) return NULL;
    l.orders = ARENA_ARRAY(scratch, step_order, n);
    for (int64_t m = 0; m < n; m++)
        for (int j = 0; j + 1 < BYTES; j++) l.orders[m].step[j] = (uint8_t)(j + 1);
    l.factor = ARENA_ARRAY(scratch, cell, n), l.added = ARENA_ARRAY(scratch, cell, n);
    for (int64_t m = 0; m < n; m++) {
        if (!steps_find(c, &all[m], m)) return NULL;
        l.one_factor &= all[m].slope == all[0].slope, l.one_sum &= all[m].offset == all[0].offset;
    }
    if (!find_lines(&l, exact)) return NULL;
    expr *v = x_mul(k, x_cast(k, c->leaf, DT_F32, false), chain_numbers(c, "factor", DT_F32, l.factor));
    v = x_add(k, v, chain_numbers(c, "added", DT_F32, l.added));
    return x_cast(k, x_un(k, X_RINT, v), x->dtype, x->saturate);
}
