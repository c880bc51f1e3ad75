// Requantisation in integers. In: kernels that round a rising function of an integer to bytes, such as the scaled sum of
// a quantised product. Out: for microcontrollers, the same bytes by one product:
//
//   int8(rint(max(float(s - sum[m]) * scale[m] + b[m], 0) / d) + z)
//       = int8(min(max(((s << p) + B[m]) * M[m] >> (32 + k), least), most))
//
// That they are the same is not assumed: both sides never decrease with s, so it suffices that they step at the same s
// from each byte to the next. The steps of the first are searched for by ir/kernel/eval.c, in f32 as ONNX defines it. They
// bound B for every M near the exact factor. Where no pair satisfies all of them, because roundings of f32 move a step
// past an integer, one sum of a channel may be corrected by one. Averages have many sums halfway between two bytes, which
// rounding to even ones moves up or down: a table of bits tells at which bytes of a channel the form steps one sum too early.
// Where that does not suffice, sums near a step are left to the first form: a few in a thousand. Targets with floating
// point take a line in f32 instead (byte_lines.h).
#include "compiler/base/integers.h"
#include "ir/target.h"
#include "passes/match/form.h"
#include "passes/passes.h"
#include "passes/rewrite/byte_lines.h"
#include "passes/rewrite/byte_steps.h"
#include "passes/rewrite/fixed_sums.h"
#include "passes/rewrite/half_lines.h"
#include "passes/rewrite/half_sums.h"
#include <math.h>
#include <stdlib.h>

enum { HALF = 32, MOST_SHIFT = 21, FACTOR_BITS = 31, TRIED = 160 };
enum { NONE_ODD = INT32_MIN, NO_STEP = INT32_MIN };
enum { EARLY_BYTES = BYTES / 8, EARLY_CHANNELS = 64 };

// A step of a channel that the integer form takes one sum too late, or too early.
typedef enum odd_step { ODD_NONE, ODD_LATE, ODD_EARLY } odd_step;

typedef struct form {
    int shift_in, shift_out;        // p and k
    int64_t zero;                   // added at the end
    span clamp, bytes;              // that is applied, and of the results
    int64_t count, *factor, *added; // M and B
    int64_t *odd;     // twice the sum that gives one more, or that and 1: one less; NONE_ODD: none
    bool some_odd[2]; // whether there are such channels, of each kind
    uint8_t *early;   // by channel: a bit for each byte, whether its step is one sum too early; NULL: none is
    int64_t *rest;    // of high halves of a channel: at less, the sum is the first of its byte
    int64_t band;     // of high halves around a step within which both sides may differ; 0: nowhere
} form;

// ---------------------------------------------------------------- sums of whole floats
// s += float(i), i an integer: exact as long as sums stay below 2^24, hence the same as float(sum of i). A constant
// factor of the integer is left out of the sum, as of those of products, where roundings may differ.
typedef struct integer_sum {
    kernel *k;
    expr *scale; // NULL: 1
} integer_sum;

static expr *as_integer_sum(void *user, expr *x) {
    const integer_sum *sum = user;
    kernel *k = sum->k;
    if (x->op != X_STATE) return NULL;
    expr *v = x_cast(k, x_state(k, 0, DT_I32), DT_F32, true);
    return sum->scale ? x_mul(k, v, sum->scale) : v;
}

// i where an element counts, else 0: outside of an image, a byte is its zero point.
static expr *counted(kernel *k, expr *counts, expr *i) {
    if (!counts) return i;
    expr *zero = i->op == X_SUB ? i->arg[1] : x_int(k, i->dtype, 0), *byte = i->op == X_SUB ? i->arg[0] : i;
    const expr *read = byte->op == X_CAST ? byte->arg[0] : byte;
    bool padded = read->op == X_READ && read->guard == counts && is_small(read->dtype) && zero->op == X_CONST;
    if (!padded || zero->i < dtype_int_min(read->dtype) || zero->i > dtype_int_max(read->dtype))
        return x_select(k, counts, i, x_int(k, i->dtype, 0));
    byte = x_read_guarded(k, read->buffer, read->index, counts, x_int(k, read->dtype, zero->i));
    return x_sub(k, x_cast(k, byte, i->dtype, false), zero);
}

static void count_in_integers(kernel *k, stage *s, bool strict) {
    enum { EXACT = 1 << 24 };
    if (s->states.n != 1 || !stage_writes_at_end(s)) return;
    state *st = &s->states.at[0];
    integer_sum sum = {.k = k};
    expr *x = st->step, *counts = NULL;
    span all;
    if (x->op == X_SELECT && x->arg[2]->op == X_CONST && x->arg[2]->f == 0) counts = x->arg[0], x = x->arg[1];
    if (st->dtype == DT_F32 && x->op == X_MUL && x->arg[1]->op == X_CONST && !strict)
        sum.scale = x->arg[1], x = x->arg[0];
    if (st->dtype != DT_F32 || x->op != X_CAST || x->arg[0]->dtype != DT_I32) return;
    if (!sum_span(k, s, st, x->arg[0], &all) || all.lo < -EXACT || all.hi > EXACT) return;
    *st = (state){
        .dtype = DT_I32, .op = RED_SUM, .init = x_int(k, DT_I32, 0), .step = counted(k, counts, x->arg[0])};
    for (int j = 0; j < s->writes.n; j++)
        s->writes.at[j].value = expr_rewrite(k, s->writes.at[j].value, as_integer_sum, &sum);
}

// ---------------------------------------------------------------- the integer form
static int64_t divide_up(int64_t a, int64_t b) { return a / b + (a % b > 0); }

// The least (s << p) + B that gives n.
static int64_t least_operand(const form *f, int64_t n, int64_t factor) {
    return divide_up((n - f->zero) * ((int64_t)1 << (HALF + f->shift_out)), factor);
}

// Of B for this M, such that all steps agree, and the steps that set the bounds.
typedef struct bounds {
    int64_t lo, hi, lo_step, hi_step;
} bounds;

// The integer form may take step `late` one sum too late, and step `early` one too early.
static bounds find_bounds(const form *f, const chain *c, const byte_steps *st, int64_t factor, int64_t late,
                          int64_t early) {
    int64_t one = (int64_t)1 << f->shift_in;
    bounds r = {.lo = INT32_MIN - c->range.lo * one, .hi = INT32_MAX - c->range.hi * one, NO_STEP, NO_STEP};
    for (int64_t n = st->out.lo + 1; n <= st->out.hi; n++) {
        int64_t b = least_operand(f, n, factor) - st->first[n - st->out.lo] * one,
                lo = n == late ? b - one : b, hi = b + one - 1 + (n == early ? one : 0);
        if (lo > r.lo) r.lo = lo, r.lo_step = n;
        if (hi < r.hi) r.hi = hi, r.hi_step = n;
    }
    if (st->out.lo > f->clamp.lo)
        r.lo = int_max(r.lo, least_operand(f, st->out.lo, factor) - c->range.lo * one);
    if (st->out.hi < f->clamp.hi)
        r.hi = int_min(r.hi, least_operand(f, st->out.hi + 1, factor) - 1 - c->range.hi * one);
    return r;
}

// B for this M, where one step may be late or early. False: none fits.
static bool find_added(form *f, const chain *c, const byte_steps *st, int64_t channel, int64_t factor,
                       odd_step kind) {
    bounds r = find_bounds(f, c, st, factor, NO_STEP, NO_STEP);
    f->odd[channel] = NONE_ODD;
    if (r.lo > r.hi && kind == ODD_LATE && r.lo_step != NO_STEP) {
        f->odd[channel] = 2 * st->first[r.lo_step - st->out.lo];
        r = find_bounds(f, c, st, factor, r.lo_step, NO_STEP);
    } else if (r.lo > r.hi && kind == ODD_EARLY && r.hi_step != NO_STEP) {
        f->odd[channel] = 2 * (st->first[r.hi_step - st->out.lo] - 1) + 1;
        r = find_bounds(f, c, st, factor, NO_STEP, r.hi_step);
    }
    f->added[channel] = r.lo + (r.hi - r.lo) / 2;
    return r.lo <= r.hi;
}

// 0, 1, -1, 2, -2 ... and then further apart.
static int64_t nth_distance(int j) {
    int64_t step = (j + 1) / 2, far = step <= 32 ? step : step * step / 32;
    return j % 2 ? far : -far;
}

static bool solve_channel(form *f, const chain *c, const byte_steps *st, int64_t channel, odd_step kind) {
    double exact = ldexp(st->slope, HALF + f->shift_out - f->shift_in);
    for (int j = 0; j < TRIED; j++) {
        int64_t factor = (int64_t)rint(exact) + nth_distance(j);
        if (factor < 1 || factor > INT32_MAX) continue;
        if (!find_added(f, c, st, channel, factor, kind)) continue;
        f->factor[channel] = factor;
        if (f->odd[channel] != NONE_ODD) f->some_odd[f->odd[channel] & 1] = true;
        return true;
    }
    return false;
}

// The largest shifts for which operands and factors have 32 bits. False: none fits.
static bool choose_shifts(form *f, const chain *c, const byte_steps *all) {
    double operand = 1, slope = 0;
    for (int64_t j = 0; j < f->count; j++) {
        double middle = (all[j].offset + 0.5 - (double)f->zero) / all[j].slope;
        operand = fmax(operand, fmax(fabs((double)c->range.lo + middle), fabs((double)c->range.hi + middle)));
        slope = fmax(slope, all[j].slope * (1 + 0x1p-24)); // which may not round up to 2^FACTOR_BITS
    }
    int room = FACTOR_BITS - 1 - ilogb(operand), most;
    for (f->shift_in = room; f->shift_in > 0; f->shift_in--) {
        most = FACTOR_BITS - 1 - ilogb(slope) - HALF + f->shift_in;
        if (most < 0) continue;
        f->shift_out = most < MOST_SHIFT ? most : MOST_SHIFT;
        if (most <= MOST_SHIFT || f->shift_in == 1) return true;
    }
    return false;
}

static int64_t high_at(const form *f, int64_t channel, int64_t s) {
    int64_t a = s * ((int64_t)1 << f->shift_in) + f->added[channel];
    return a * f->factor[channel] >> HALF;
}

static int64_t result_at(const form *f, int64_t channel, int64_t s) {
    return (high_at(f, channel, s) >> f->shift_out) + f->zero;
}

// The exact factor, and the distance from a step of sums that are on its other side.
static bool find_band(form *f, const chain *c, const byte_steps *st, int64_t channel) {
    int64_t one = (int64_t)1 << f->shift_in, *added = &f->added[channel];
    f->factor[channel] = (int64_t)rint(ldexp(st->slope, HALF + f->shift_out - f->shift_in));
    *added = (int64_t)rint((st->offset + 0.5 - (double)f->zero) / st->slope * (double)one);
    if (f->factor[channel] < 1 || f->factor[channel] > INT32_MAX) return false;
    if (c->range.lo * one + *added < INT32_MIN || c->range.hi * one + *added > INT32_MAX) return false;
    int64_t begin = st->out.lo + (st->out.lo == f->clamp.lo),
            end = st->out.hi + (st->out.hi == f->clamp.hi ? 0 : 1);
    for (int64_t n = begin; n <= end; n++) {
        int64_t want = n == st->out.lo  ? c->range.lo
                       : n > st->out.hi ? c->range.hi + 1
                                        : st->first[n - st->out.lo];
        int64_t got = (least_operand(f, n, f->factor[channel]) - *added + one - 1) >> f->shift_in;
        int64_t from = int_max(int_min(want, got), c->range.lo),
                to = int_min(int_max(want, got), c->range.hi + 1);
        if (from >= to) continue;
        int64_t border = (n - f->zero) * ((int64_t)1 << f->shift_out);
        f->band = int_max(f->band, llabs(high_at(f, channel, from) - border) + 1);
        f->band = int_max(f->band, llabs(high_at(f, channel, to - 1) - border) + 1);
    }
    return true;
}

static bool solve(form *f, const chain *c, const byte_steps *all, int64_t zero, bool odd) {
    f->zero = zero, f->band = 0, f->some_odd[0] = f->some_odd[1] = false;
    if (!choose_shifts(f, c, all)) return false;
    for (int64_t j = 0; j < f->count; j++) {
        bool found = solve_channel(f, c, &all[j], j, ODD_NONE);
        if (odd && !found)
            found = solve_channel(f, c, &all[j], j, ODD_LATE) || solve_channel(f, c, &all[j], j, ODD_EARLY);
        if (!found) return false;
    }
    return true;
}

static int64_t first_sum(const form *f, int64_t channel, int64_t n) {
    int64_t one = (int64_t)1 << f->shift_in;
    return (least_operand(f, n, f->factor[channel]) - f->added[channel] + one - 1) >> f->shift_in;
}

// Which steps of the channel are too early, and below which rests of high halves are the sums of these steps alone.
static bool find_early(form *f, const chain *c, const byte_steps *st, int64_t channel) {
    int64_t last = ((int64_t)1 << f->shift_out) - 1, most = last + 1, *rest = &f->rest[channel];
    if (int_max(result_at(f, channel, c->range.lo), f->clamp.lo) != st->out.lo ||
        int_min(result_at(f, channel, c->range.hi), f->clamp.hi) != st->out.hi)
        return false;
    for (int64_t n = st->out.lo + 1; n <= st->out.hi; n++) {
        int64_t s = first_sum(f, channel, n), less = n - chain_at(c, s), bit = n - f->bytes.lo;
        if (result_at(f, channel, s) != n || less == 0) continue; // larger bytes have this sum
        if (less != 1) return false;
        f->early[channel * EARLY_BYTES + bit / 8] |= (uint8_t)(1 << bit % 8);
        *rest = int_max(*rest, (high_at(f, channel, s) & last) + 1);
        if (result_at(f, channel, s + 1) == n) most = int_min(most, high_at(f, channel, s + 1) & last);
    }
    return *rest <= most;
}

// M and the least B for which no step is too late, nor more than one sum too early.
static bool solve_early_channel(form *f, chain *c, const byte_steps *st, int64_t channel) {
    byte_steps line;
    int64_t one = (int64_t)1 << f->shift_in, lo = INT32_MIN - c->range.lo * one,
            hi = INT32_MAX - c->range.hi * one, count = st->out.hi - st->out.lo,
            factor = (int64_t)rint(ldexp(st->slope, HALF + f->shift_out - f->shift_in));
    if (factor < 1 || factor > INT32_MAX) return false;
    for (int64_t j = 1; j <= count; j++) {
        int64_t b = least_operand(f, st->out.lo + j, factor) - st->first[j] * one;
        lo = int_max(lo, b), hi = int_min(hi, b + 2 * one - 1);
    }
    if (lo > hi) return false;
    f->factor[channel] = factor, f->added[channel] = lo;
    return line_find(c, &line, channel) && find_early(f, c, st, channel);
}

static bool solve_early(arena *scratch, form *f, chain *c, const byte_steps *all, int64_t zero) {
    f->zero = zero, f->band = 0, f->some_odd[0] = f->some_odd[1] = false;
    bool averages = f->count == 1 || (c->channels.number && f->count <= EARLY_CHANNELS);
    if (!averages || !choose_shifts(f, c, all)) return false;
    f->early = ARENA_ARRAY(scratch, uint8_t, EARLY_BYTES * f->count);
    f->rest = ARENA_ARRAY(scratch, int64_t, f->count);
    for (int64_t j = 0; j < f->count; j++)
        if (!solve_early_channel(f, c, &all[j], j)) return false;
    return true;
}

static bool solve_in_bands(form *f, const chain *c, const byte_steps *all, int64_t zero) {
    enum { BANDS_LEAST = 64 }; // from one step to the next
    f->zero = zero, f->band = 0, f->some_odd[0] = f->some_odd[1] = false;
    f->early = NULL;
    if (!choose_shifts(f, c, all)) return false;
    for (int64_t j = 0; j < f->count; j++)
        if (!find_band(f, c, &all[j], j)) return false;
    return f->band * BANDS_LEAST <= (int64_t)1 << f->shift_out;
}

// Bounds that no result passes become the bounds of the type, for which targets have instructions.
static void widen_clamp(form *f, const chain *c, dtype t) {
    bool low = true, high = true;
    for (int64_t j = 0; j < f->count; j++) {
        low &= result_at(f, j, c->range.lo) >= f->clamp.lo;
        high &= result_at(f, j, c->range.hi) <= f->clamp.hi;
    }
    if (low) f->clamp.lo = dtype_int_min(t);
    if (high) f->clamp.hi = dtype_int_max(t);
}

static bool find_form(arena *scratch, form *f, chain *c, dtype t) {
    int64_t n = chain_channels(c);
    byte_steps *all = ARENA_ARRAY(scratch, byte_steps, n);
    *f = (form){.count = n, .clamp = {INT64_MAX, INT64_MIN}};
    f->factor = ARENA_ARRAY(scratch, int64_t, n), f->added = ARENA_ARRAY(scratch, int64_t, n);
    f->odd = ARENA_ARRAY(scratch, int64_t, n);
    for (int64_t j = 0; j < n; j++) {
        if (!steps_find(c, &all[j], j)) return false;
        f->clamp.lo = int_min(f->clamp.lo, all[j].out.lo);
        f->clamp.hi = int_max(f->clamp.hi, all[j].out.hi);
    }
    f->bytes = f->clamp;
    // The zero point within B saves an addition, but takes bits of the operand.
    int64_t zero = (int64_t)fmin(fmax(rint(all[0].offset), -BYTES), BYTES);
    bool found = solve(f, c, all, 0, false) || solve(f, c, all, zero, false) || solve(f, c, all, 0, true) ||
                 solve(f, c, all, zero, true) || solve_early(scratch, f, c, all, 0) ||
                 solve_early(scratch, f, c, all, zero) || solve_in_bands(f, c, all, 0) ||
                 solve_in_bands(f, c, all, zero);
    if (!found) return false;
    widen_clamp(f, c, t);
    return true;
}

// ---------------------------------------------------------------- rewriting
static expr *number_of(const chain *c, const char *name, const int64_t *v) {
    int64_t count = chain_channels(c);
    cell *all = ARENA_ARRAY(c->k->program->arena, cell, count);
    for (int64_t j = 0; j < count; j++) all[j].i = v[j];
    return chain_numbers(c, name, DT_I32, all);
}

// One more or less at the odd sum of the channel.
static expr *correct(const chain *c, const form *f, expr *s, expr *y) {
    kernel *k = c->k;
    if (!f->some_odd[0] && !f->some_odd[1]) return y;
    expr *from = x_sub(k, number_of(c, "odd", f->odd), x_mul(k, s, x_int(k, DT_I32, 2)));
    for (int j = 0; j < 2; j++) {
        expr *is_odd = x_bin(k, X_EQ, from, x_int(k, DT_I32, j)), *one = x_int(k, DT_I32, j ? -1 : 1);
        if (f->some_odd[j]) y = x_add(k, y, x_select(k, is_odd, one, x_int(k, DT_I32, 0)));
    }
    return y;
}

static expr *limited(const form *f, kernel *k, expr *y) {
    y = x_bin(k, X_MAX, y, x_int(k, DT_I32, f->clamp.lo));
    return x_bin(k, X_MIN, y, x_int(k, DT_I32, f->clamp.hi));
}

// One less at the first sum of byte y where its step is too early.
static expr *delay(const chain *c, const form *f, expr *high, expr *y) {
    if (!f->early) return y;
    kernel *k = c->k;
    expr *index[CHANNEL_AXES + 1];
    int64_t sizes[CHANNEL_AXES + 1], last = ((int64_t)1 << f->shift_out) - 1;
    int rank = channel_index(&c->channels, k, index, sizes);
    sizes[rank] = EARLY_BYTES;
    constant *data = constant_new(k->program->arena, DT_U8, rank + 1, sizes);
    for (int64_t j = 0; j < f->count * EARLY_BYTES; j++)
        eval_store(DT_U8, (void *)data->data, j, (cell){.i = f->early[j]});
    expr *bit = x_sub(k, limited(f, k, y), x_int(k, DT_I32, f->bytes.lo));
    index[rank] = x_cast(k, x_bin(k, X_SHR, bit, x_int(k, DT_I32, 3)), DT_I64, true);
    expr *early = x_cast(k, x_read(k, program_constant(k->program, "early", data), index), DT_I32, true);
    early = x_bin(k, X_SHR, early, x_bin(k, X_AND, bit, x_int(k, DT_I32, 7)));
    early = x_bin(k, X_AND, early, x_int(k, DT_I32, 1));
    expr *first = x_lt(k, x_bin(k, X_AND, high, x_int(k, DT_I32, last)), number_of(c, "rest", f->rest));
    return x_sub(k, y, x_select(k, first, early, x_int(k, DT_I32, 0)));
}

static expr *build(const chain *c, const form *f, expr *x) {
    kernel *k = c->k;
    int64_t one = (int64_t)1 << f->shift_out;
    expr *s = x_cast(k, c->leaf, DT_I32, true);
    expr *a =
        x_add(k, x_mul(k, s, x_int(k, DT_I32, (int64_t)1 << f->shift_in)), number_of(c, "added", f->added));
    expr *m = number_of(c, "factor", f->factor);
    expr *wide = x_mul(k, x_cast(k, a, DT_I64, true), x_cast(k, m, DT_I64, true));
    expr *high = x_cast(k, x_bin(k, X_SHR, wide, x_i64(k, HALF)), DT_I32, true);
    expr *y = x_bin(k, X_SHR, high, x_int(k, DT_I32, f->shift_out));
    y = delay(c, f, high, x_add(k, y, x_int(k, DT_I32, f->zero)));
    y = x_cast(k, correct(c, f, s, limited(f, k, y)), x->dtype, true);
    if (!f->band) return y;
    expr *near = x_bin(k, X_AND, x_add(k, high, x_int(k, DT_I32, f->band)), x_int(k, DT_I32, one - 1));
    return x_select(k, x_lt(k, near, x_int(k, DT_I32, 2 * f->band)), x, y);
}

// ---------------------------------------------------------------- limits
// The nearest maximum or minimum with a constant below x, and the operations after it; NULL: none.
static const expr *find_limit(chain *c, const expr *x) {
    for (*c = (chain){0}; c->n < LINKS && expr_arity(x->op); x = x->arg[0]) {
        bool two = expr_arity(x->op) == 2, falls = x->op == X_SUB || x->op == X_DIV;
        if (two && (x->arg[1]->op != X_CONST || x->dtype != DT_F32)) return NULL;
        if (x->op == X_MAX || x->op == X_MIN) return x;
        if (two ? !falls && x->op != X_ADD && x->op != X_MUL : !rises_alone(x)) return NULL;
        if (two && (x->op == X_MUL || x->op == X_DIV) && !(x->arg[1]->f > 0)) return NULL;
        if (two) c->constant[c->n] = (cell){.f = x->arg[1]->f};
        c->links[c->n++] = (link){.op = x, .other = two ? x->arg[1] : NULL};
    }
    return NULL;
}

typedef struct replaced {
    const expr *from;
    expr *to;
} replaced;

static expr *replace_node(void *user, expr *x) {
    const replaced *r = user;
    return x == r->from ? r->to : NULL;
}

// byte(f(max(v, c)))   =   max(byte(f(v)), byte(f(c))), for a rising f; nothing remains of it if that is the least byte.
static expr *limit_bytes(kernel *k, expr *x) {
    chain c;
    const expr *limit = find_limit(&c, x);
    if (!limit) return x;
    int64_t at = chain_apply(&c, (cell){.f = limit->arg[1]->f});
    bool most = limit->op == X_MAX;
    expr *rest = expr_rewrite(k, x, replace_node, &(replaced){limit, limit->arg[0]});
    rest = limit_bytes(k, rest);
    bool whole = at == (most ? dtype_int_min(x->dtype) : dtype_int_max(x->dtype));
    return whole ? rest : x_bin(k, limit->op, rest, x_int(k, x->dtype, at));
}

static expr *limit_node(void *user, expr *x) {
    if (x->op != X_CAST || x->to != x->dtype || !is_small(x->dtype) || x->arg[0]->dtype != DT_F32)
        return NULL;
    expr *now = limit_bytes(user, x);
    return now == x ? NULL : now;
}

// ---------------------------------------------------------------- the pass
typedef struct rewriting {
    kernel *k;
    const stage *s;
    const uses *uses;
    arena *scratch;
    const target *t;
} rewriting;

static expr *rewrite_node(void *user, expr *x);

// A byte that rounds another one, of which few forms have the steps of both.
static expr *rewrite_twice(const rewriting *r, expr *x) {
    chain c;
    form f;
    if (!chain_find_above(&c, r->k, r->s, r->uses, x) || !dtype_is_byte(x->dtype)) return NULL;
    c.leaf = expr_rewrite(r->k, c.leaf, rewrite_node, (void *)r);
    if (r->t->f32) return byte_of_line(r->scratch, &c, x, true);
    return find_form(r->scratch, &f, &c, x->dtype) ? build(&c, &f, x) : NULL;
}

static expr *rewrite_once(const rewriting *r, expr *x) {
    chain c;
    form f;
    if (!chain_find(&c, r->k, r->s, r->uses, x)) return NULL;
    if (!dtype_is_byte(x->dtype))
        return r->t->fp == FP_STRICT ? NULL : half_of_line(r->scratch, &c, x, r->t->f32);
    expr *line = r->t->f32 ? byte_of_line(r->scratch, &c, x, r->t->fp == FP_STRICT) : NULL;
    // Averages of different numbers of elements round up as often as down: no line of floats does.
    if (r->t->f32 && (line || !c.channels.number || r->t->vector_bits)) return line;
    return find_form(r->scratch, &f, &c, x->dtype) ? build(&c, &f, x) : NULL;
}

static expr *rewrite_node(void *user, expr *x) {
    if (x->op == X_CAST && x->to != x->dtype) return NULL; // to elements of less than a byte
    expr *once = rewrite_once(user, x);
    return once ? once : rewrite_twice(user, x);
}

// Operands of a sum may be sums.
static expr *rewrite_sum(void *user, expr *x) {
    const rewriting *r = user;
    bool half = x->dtype == DT_I16 && !r->t->f32 && r->t->fp != FP_STRICT;
    if (x->op != X_CAST || x->to != x->dtype || (!dtype_is_byte(x->dtype) && !half) ||
        x->arg[0]->dtype != DT_F32)
        return NULL;
    x = x_cast(r->k, expr_rewrite(r->k, x->arg[0], rewrite_sum, user), x->dtype, x->saturate);
    expr *y = half ? half_of_sum(r->k, x) : sum_in_integers(r->k, x, !r->t->f32);
    return y ? y : x;
}

static void rewrite_value(rewriting *r, expr **value) {
    *value = expr_rewrite(r->k, *value, limit_node, r->k);
    if (!r->t->vector_bits) *value = expr_rewrite(r->k, *value, rewrite_sum, r);
    *value = expr_rewrite(r->k, *value, rewrite_node, r);
}

static void rewrite_kernel(kernel *k, const uses *u, const target *t) {
    rewriting r = {.k = k, .uses = u, .scratch = arena_new(), .t = t};
    for (int j = 0; j < k->stages.n; j++) {
        stage *s = k->stages.at[j];
        r.s = s;
        for (int w = 0; w < s->writes.n; w++) rewrite_value(&r, &s->writes.at[w].value);
        for (int i = 0; i < s->states.n; i++)
            if (s->states.at[i].op == RED_SUM) rewrite_value(&r, &s->states.at[i].step);
    }
    arena_destroy(r.scratch);
}

void pass_integer_sums(pass_context *c) {
    program *p = c->program;
    for (int j = 0; j < p->kernels.n; j++) {
        kernel *k = p->kernels.at[j];
        for (int s = 0; s < k->stages.n; s++)
            count_in_integers(k, k->stages.at[s], c->target->fp == FP_STRICT);
    }
}

void pass_fixed_point(pass_context *c) {
    program *p = c->program;
    if (c->target->vector_bits && !c->target->dot_across) return;
    arena *scratch = arena_new();
    const uses *u = uses_build(scratch, p);
    for (int j = 0; j < p->kernels.n; j++) rewrite_kernel(p->kernels.at[j], u, c->target);
    arena_destroy(scratch);
    program_compact(p);
}
