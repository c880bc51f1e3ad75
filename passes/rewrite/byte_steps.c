// In: a kernel's expression. Out: the chain of operations that makes a byte of it, and the sums at which the byte steps.
#include "passes/rewrite/byte_steps.h"
#include "passes/match/form.h"
#include <math.h>

// ---------------------------------------------------------------- ranges
static span product_span(span a, span b) {
    int64_t all[4] = {a.lo * b.lo, a.lo * b.hi, a.hi * b.lo, a.hi * b.hi};
    span s = {all[0], all[0]};
    for (int j = 1; j < 4; j++) {
        if (all[j] < s.lo) s.lo = all[j];
        if (all[j] > s.hi) s.hi = all[j];
    }
    return s;
}

static bool add_span(span *to, span other) {
    *to = (span){to->lo + other.lo, to->hi + other.hi};
    return to->lo >= INT32_MIN && to->hi <= INT32_MAX;
}

// Of integers that bytes determine, and sums of stage s, if it is not NULL. False: not known to be within 32 bits.
static bool span_of(const kernel *k, const stage *s, const expr *x, span *out) {
    span a, b;
    dtype t = x->dtype;
    if (x->op == X_CONST) {
        *out = (span){x->i, x->i};
    } else if (is_small(t)) {
        *out = (span){dtype_int_min(t), dtype_int_max(t)};
    } else if (x->op == X_STATE && s) {
        const state *st = &s->states.at[x->axis];
        if (!sum_span(k, s, st, st->step, out)) return false;
    } else if (x->op == X_CAST && dtype_is_int(x->arg[0]->dtype)) {
        if (!span_of(k, s, x->arg[0], out)) return false;
    } else if (x->op == X_ADD || x->op == X_SUB || x->op == X_MUL) {
        if (!span_of(k, s, x->arg[0], &a) || !span_of(k, s, x->arg[1], &b)) return false;
        if (x->op == X_MUL) *out = product_span(a, b);
        else *out = x->op == X_ADD ? (span){a.lo + b.lo, a.hi + b.hi} : (span){a.lo - b.hi, a.hi - b.lo};
    } else {
        return false;
    }
    return t == DT_I32 ? out->lo >= INT32_MIN && out->hi <= INT32_MAX : is_small(t);
}

static int64_t reduced_positions(const kernel *k, const stage *s) {
    int64_t n = 1;
    for (int j = 0; j < s->axes.n; j++) {
        const axis *a = &k->axes.at[s->axes.at[j]];
        if (a->kind != AXIS_PARALLEL && __builtin_mul_overflow(n, a->extent->max, &n)) return INT64_MAX;
    }
    return n;
}

// Of a sum of such integers in any order.
bool sum_span(const kernel *k, const stage *s, const state *st, const expr *term, span *out) {
    int64_t n = reduced_positions(k, s);
    if (st->op != RED_SUM || !state_begins_neutral(st) || !span_of(k, NULL, term, out) || n > INT32_MAX)
        return false;
    *out = (span){out->lo < 0 ? n * out->lo : 0, out->hi > 0 ? n * out->hi : 0};
    return out->lo >= INT32_MIN && out->hi <= INT32_MAX;
}

// ---------------------------------------------------------------- matching
bool rises_alone(const expr *x) {
    dtype from = x->arg[0]->dtype, to = x->dtype;
    if (x->op == X_RINT || x->op == X_FLOOR || x->op == X_CEIL || x->op == X_TRUNC) return to == DT_F32;
    if (x->op != X_CAST) return false;
    if (dtype_is_int(from) && dtype_is_int(to))
        return dtype_int_min(to) <= dtype_int_min(from) && dtype_int_max(to) >= dtype_int_max(from);
    return dtype_is_int(from) ? to == DT_F32 : from == DT_F32 && dtype_is_int(to);
}

// The operand of x that is not known for each channel, -1: none.
static int open_side(chain *c, const expr *x) {
    bool falls = x->op == X_SUB || x->op == X_DIV; // with the second operand
    if (x->op != X_ADD && x->op != X_MUL && x->op != X_MIN && x->op != X_MAX && !falls) return -1;
    if (x->dtype != DT_F32 && (x->dtype != DT_I32 || (x->op != X_ADD && x->op != X_SUB))) return -1;
    if (channel_join(&c->channels, x->arg[1])) return 0;
    return !falls && channel_join(&c->channels, x->arg[0]) ? 1 : -1;
}

// Of integers that one kernel writes into a temporary.
static bool written_span(const uses *u, const buffer *b, span *out) {
    if (b->role != BUF_TEMP || b->dtype != DT_I32 || b->id >= u->nof) return false;
    const buffer_uses *of = &u->of[b->id];
    const write *found = NULL;
    if (of->viewed || of->by_others || of->output) return false;
    for (int j = 0; j < of->sites.n; j++) {
        const kernel *k = of->sites.at[j]->s->kernel;
        for (int i = 0; k && i < k->stages.n; i++)
            for (int w = 0; w < k->stages.at[i]->writes.n; w++) {
                const write *one = &k->stages.at[i]->writes.at[w];
                if (one->to != b || found == one) continue;
                if (found || one->guard || one->when != WRITE_END || one->combine != COMBINE_SET)
                    return false;
                if (!span_of(k, k->stages.at[i], one->value, out)) return false;
                found = one;
            }
    }
    return found;
}

// Of the sum of a row, perhaps times the zero point of a column.
static bool row_span(const chain *c, const expr *x, span *out) {
    span row, zero;
    if (x->op == X_READ) return !x->guard && written_span(c->uses, x->buffer, out);
    if (x->op != X_MUL || !row_span(c, x->arg[0], &row) || !span_of(c->k, NULL, x->arg[1], &zero))
        return false;
    *out = product_span(row, zero);
    return out->lo >= INT32_MIN && out->hi <= INT32_MAX;
}

static bool find_leaf(chain *c, expr *x);

// s + r and s - r, where r is such a sum, which is known in the run only: links below apply to all of it.
static bool find_row_sum(chain *c, expr *x) {
    span row;
    if ((x->op != X_ADD && x->op != X_SUB) || x->dtype != DT_I32 || !row_span(c, x->arg[1], &row))
        return false;
    if (!find_leaf(c, x->arg[0]) || c->leaf->dtype != DT_I32) return false;
    c->leaf = x_bin(c->k, x->op, c->leaf, x->arg[1]);
    return add_span(&c->range, x->op == X_SUB ? (span){-row.hi, -row.lo} : row);
}

// Whether x is a byte that was rounded: where links above it step does not follow from where it does.
static bool is_rounded_byte(const expr *x) {
    return x->op == X_CAST && dtype_is_byte(x->dtype) && x->to == x->dtype && x->arg[0]->dtype == DT_F32;
}

static bool find_leaf(chain *c, expr *x) {
    if (c->above_byte && c->n && is_rounded_byte(x)) {
        c->leaf = x;
        return span_of(c->k, NULL, x, &c->range);
    }
    if (x->op == X_STATE) {
        const state *st = &c->s->states.at[x->axis];
        c->leaf = x;
        return x->dtype == DT_I32 && sum_span(c->k, c->s, st, st->step, &c->range);
    }
    if (x->op == X_READ) {
        c->leaf = x;
        return is_small(x->dtype) && span_of(c->k, NULL, x, &c->range);
    }
    if (c->n == LINKS || !expr_arity(x->op)) return false;
    link l = {.op = x};
    if (!rises_alone(x)) {
        l.side = open_side(c, x);
        if (l.side < 0) return find_row_sum(c, x);
        l.other = x->arg[1 - l.side];
    }
    c->links[c->n++] = l;
    return find_leaf(c, x->arg[l.side]);
}

static bool find(chain *c, expr *x) {
    if (x->op != X_CAST || !is_small(x->dtype) || x->arg[0]->dtype != DT_F32 || !find_leaf(c, x))
        return false;
    return chain_channels(c) > 0;
}

bool chain_find(chain *c, kernel *k, const stage *s, const uses *u, expr *x) {
    *c = (chain){.k = k, .s = s, .uses = u, .channels = {.k = k}};
    return find(c, x);
}

bool chain_find_above(chain *c, kernel *k, const stage *s, const uses *u, expr *x) {
    *c = (chain){.k = k, .s = s, .uses = u, .channels = {.k = k}, .above_byte = true};
    return find(c, x) && is_rounded_byte(c->leaf);
}

int64_t chain_channels(const chain *c) { return channel_count(&c->channels); }

expr *chain_numbers(const chain *c, const char *name, dtype t, const cell *v) {
    return channel_numbers(&c->channels, c->k, name, t, v);
}

// ---------------------------------------------------------------- steps
static void apply_all(const chain *c, cell *v, int64_t n) {
    for (int j = c->n - 1; j >= 0; j--) {
        const link *l = &c->links[j];
        cells link = {v, 1}, constant = {&c->constant[j], 0}, first = l->side ? constant : link;
        eval_op(l->op, n, (cells[]){first, l->side ? link : constant, first}, v);
    }
}

int64_t chain_apply(const chain *c, cell v) {
    apply_all(c, &v, 1);
    return v.i;
}

int64_t chain_at(const chain *c, int64_t s) { return chain_apply(c, (cell){.i = s}); }

// An integer sum must not wrap.
static bool stays_integer(const link *l, int64_t v, span *r) {
    if (l->op->op == X_SUB) v = -v;
    *r = (span){r->lo + v, r->hi + v};
    return r->lo >= INT32_MIN && r->hi <= INT32_MAX;
}

// Takes the constants of a channel, and the straight line near the function.
static void load_channel(chain *c, byte_steps *st, int64_t channel) {
    span whole = c->range;
    *st = (byte_steps){.slope = 1, .rises = true};
    for (int j = c->n - 1; j >= 0; j--) {
        const link *l = &c->links[j];
        if (!l->other) continue;
        cell now = c->constant[j] = channel_value(&c->channels, l->other, channel);
        bool is_float = l->op->dtype == DT_F32;
        double v = is_float ? now.f : (double)now.i;
        st->rises &= is_float ? isfinite(v) : stays_integer(l, now.i, &whole);
        if (l->op->op == X_ADD) st->offset += v;
        if (l->op->op == X_SUB) st->offset -= v;
        if (l->op->op != X_MUL && l->op->op != X_DIV) continue;
        st->rises &= v > 0 && isnormal((float)v);
        if (l->op->op == X_DIV) v = 1 / v;
        st->slope *= v, st->offset *= v;
    }
}

// The least s above `from` that gives at least n; some s does. Searched for from the guess on, in growing strides.
static int64_t first_with(const chain *c, int64_t n, int64_t from, double guess) {
    int64_t no = from, yes = c->range.hi, stride = 1;
    int64_t s = guess > (double)yes ? yes : guess > (double)no ? (int64_t)guess : no + 1;
    while (yes - no > 1) {
        if (s <= no || s >= yes) s = no + (yes - no) / 2;
        if (chain_at(c, s) >= n) yes = s, s -= stride;
        else no = s, s += stride;
        stride *= 2;
    }
    return yes;
}

// Where the straight line steps to byte n, above the least sum.
static double guess_of(const byte_steps *st, int64_t n) {
    return ceil(((double)n - 0.5 - st->offset) / st->slope);
}

static int64_t nearest(const chain *c, double guess) {
    int64_t least = c->range.lo + 1, most = c->range.hi;
    return guess >= (double)most ? most : guess > (double)least ? (int64_t)guess : least;
}

// Nearly all steps are where the straight line has them: these are examined at once.
static void find_steps(const chain *c, byte_steps *st) {
    cell at[2 * BYTES]; // the byte below each guess, and there
    int64_t lo = st->out.lo, count = st->out.hi - lo, before = c->range.lo;
    for (int64_t j = 1; j <= count; j++) {
        int64_t guess = nearest(c, guess_of(st, lo + j));
        at[2 * j - 2].i = guess - 1, at[2 * j - 1].i = guess;
    }
    apply_all(c, at, 2 * count);
    for (int64_t j = 1; j <= count; j++) {
        int64_t n = lo + j, s = before;
        double guess = guess_of(st, n);
        if (at[2 * j - 2].i < n && at[2 * j - 1].i >= n) s = nearest(c, guess);
        else if (chain_at(c, before) < n) s = first_with(c, n, before, guess);
        st->first[j] = before = s;
    }
}

bool line_find(chain *c, byte_steps *st, int64_t channel) {
    load_channel(c, st, channel);
    if (st->rises) st->out = (span){chain_at(c, c->range.lo), chain_at(c, c->range.hi)};
    return st->rises;
}

bool steps_find(chain *c, byte_steps *st, int64_t channel) {
    if (!line_find(c, st, channel)) return false;
    find_steps(c, st);
    if (st->out.lo < st->out.hi) return true;
    // A constant: any line that stays between two steps.
    st->slope = 0.5 / (double)(c->range.hi - c->range.lo + 1);
    st->offset = (double)st->out.lo - 0.25 - st->slope * (double)c->range.lo;
    return true;
}
