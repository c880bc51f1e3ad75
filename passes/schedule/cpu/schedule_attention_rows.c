// Attention of few queries, such as the step of a decoder: keys and values are read where they lie, as packing them
// would take longer than using them.
//
//   for i:
//     for j in vectors of keys:  S[j] = f(q . k[j]), m = max            a vector of partial sums for each key
//     for j: P[j] = exp(S[j] - m), l += P[j]
//     for j: acc += P[j] v[j]
//
// Keys that f excludes by comparing j with something known before (the filled part of a cache, causality, a window) are
// not read.
#include "compiler/base/round.h"
#include "ir/kernel/program.h"
#include "passes/match/form.h"
#include "passes/schedule/cpu/schedule_attention_impl.h"
#include "passes/schedule/cpu/schedule_range.h"
#include <math.h>

enum { MOST_LANES = 16, MOST_CHUNKS = 8, SPREAD = 2 };

// ---------------------------------------------------------------- which
// Whether the factor reads memory along the axis, and nothing else varies with it.
static bool lies_along(const expr *factor, int axis) {
    arena *scratch = arena_new();
    expr_list reads = reads_only(expr_nodes(scratch, (expr *)factor));
    bool found = false, fits = true;
    for (int j = 0; j < reads.n && fits; j++) {
        const buffer *b = reads.at[j]->buffer;
        if (!expr_uses_axis(reads.at[j], axis)) continue;
        const layout *l = b->layout;
        int last = l ? l->order[l->n - 1].axis : b->rank - 1;
        fits = b->rank && !(l && l->order[l->n - 1].tile) && reads.at[j]->index[last]->op == X_AXIS &&
               reads.at[j]->index[last]->axis == axis && dtype_bits(b->dtype) >= 8;
        for (int i = 0; i < b->rank && fits; i++)
            fits = i == last || !expr_uses_axis(reads.at[j]->index[i], axis);
        found = true;
    }
    arena_destroy(scratch);
    return found && fits;
}

bool attention_reads_rows(const attention *a) { return lies_along(a->key, a->d) && lies_along(a->v, a->e); }

// ---------------------------------------------------------------- scores
typedef struct few {
    flash *f;
    ins *begin, *end, *query[FLASH_COLUMNS / 4]; // the keys to be read; vectors of q
    int chunks;                                  // of q and a key
} few;

// Chunk c of q or of the key at the current counters.
static ins *chunk_of(const few *w, expr *x, int c) {
    flash *f = w->f;
    int64_t column = (int64_t)c * f->a->lanes;
    return flash_elements(f, f->a->score, x, f->a->d, column, f->depth - column);
}

static ins *partial_sums(const few *w, ins *j) {
    flash *f = w->f;
    ins *sum = NULL;
    f->e->counter[f->a->j] = j;
    for (int c = 0; c < w->chunks; c++) {
        ins *k = chunk_of(w, f->a->key, c);
        sum = sum ? lb_muladd(f->b, w->query[c], k, sum) : lb_mul(f->b, w->query[c], k);
    }
    f->e->counter[f->a->j] = NULL;
    return sum;
}

// Sums of neighbours: those of x, then those of y.
static ins *pair_sums(flash *f, ins *x, ins *y) {
    int mask[2][MOST_LANES], lanes = f->a->lanes;
    for (int j = 0; j < lanes; j++)
        for (int odd = 0; odd < 2; odd++) mask[odd][j] = 2 * j + odd;
    return lb_add(f->b, lb_shuffle(f->b, x, y, mask[0], lanes), lb_shuffle(f->b, x, y, mask[1], lanes));
}

// Lane u: the sum of x[u].
static ins *sums_of_all(flash *f, ins **x) {
    for (int n = f->a->lanes; n > 1; n /= 2)
        for (int j = 0; j < n / 2; j++) x[j] = pair_sums(f, x[2 * j], x[2 * j + 1]);
    return x[0];
}

// f(S) for `lanes` keys from j on, stored.
static ins *score(const few *w, ins *i, ins *j, ins *sum, int lanes) {
    flash *f = w->f;
    emitter *e = f->e;
    emitter_stage(e, f->a->score, lanes > 1 ? f->a->j : -1, lanes, true);
    scope mark = scope_open(e);
    e->counter[f->a->i] = i, e->counter[f->a->j] = j;
    e->state[0] = sum;
    ins *s = emit_vector(e, f->a->score->writes.at[0].value);
    lb_store(f->b, f->scores, lb_sub(f->b, j, w->begin), s, 4);
    e->counter[f->a->j] = NULL;
    scope_close(e, mark);
    return s;
}

// Returns the largest score.
static ins *all_scores(few *w, ins *i) {
    flash *f = w->f;
    lbuild *b = f->b;
    int lanes = f->a->lanes;
    ins *lowest = lb_float(b, lt(LK_F32, 1), -INFINITY),
        *best = lb_var(b, "best", lb_splat(b, lowest, lanes)), *rest = lb_var(b, "rest", lowest);
    ins *full = lb_add(b, w->begin, emit_int_floor(b, lb_sub(b, w->end, w->begin), lanes));
    ins *j = flash_loop(f, "j", w->begin, full, lanes), *part[MOST_LANES];
    for (int u = 0; u < lanes; u++) part[u] = partial_sums(w, idx_addk(b, j, u));
    ins *s = score(w, i, j, sums_of_all(f, part), lanes);
    lb_set(b, best, emit_reduce(f->e, RED_MAX, DT_F32, lb_get(b, best), s));
    lb_end(b, j);
    j = flash_loop(f, "j", full, w->end, 1);
    s = score(w, i, j, lb_hreduce(b, L_HADD, partial_sums(w, j)), 1);
    lb_set(b, rest, emit_reduce(f->e, RED_MAX, DT_F32, lb_get(b, rest), s));
    lb_end(b, j);
    ins *most = emit_horizontal(f->e, RED_MAX, DT_F32, lb_get(b, best));
    return emit_reduce(f->e, RED_MAX, DT_F32, most, lb_get(b, rest));
}

// ---------------------------------------------------------------- weights
static ins *weight(few *w, ins *at, ins *top, int lanes) {
    flash *f = w->f;
    ins *s = lb_load(f->b, lt(LK_F32, lanes), f->scores, at, 4);
    ins *p = emit_operation(f->b, X_EXP, DT_F32, lb_sub(f->b, s, lb_splat(f->b, top, lanes)), NULL);
    lb_store(f->b, f->scores, at, p, 4);
    return p;
}

// exp(S - top) in place of S; returns their sum. Without a key allowed, any finite top gives weights of 0.
static ins *all_weights(few *w, ins *top) {
    flash *f = w->f;
    lbuild *b = f->b;
    int lanes = f->a->lanes;
    ltype one = lt(LK_F32, 1);
    ins *zero = lb_float(b, one, 0), *n = lb_sub(b, w->end, w->begin), *full = emit_int_floor(b, n, lanes);
    top = lb_select(b, lb_cmp(b, L_EQ, top, lb_float(b, one, -INFINITY)), zero, top);
    ins *total = lb_var(b, "total", lb_splat(b, zero, lanes)), *rest = lb_var(b, "rest", zero);
    ins *at = flash_loop(f, "j", lb_idx(b, 0), full, lanes);
    lb_set(b, total, lb_add(b, lb_get(b, total), weight(w, at, top, lanes)));
    lb_end(b, at);
    at = flash_loop(f, "j", full, n, 1);
    lb_set(b, rest, lb_add(b, lb_get(b, rest), weight(w, at, top, 1)));
    lb_end(b, at);
    return lb_add(b, lb_hreduce(b, L_HADD, lb_get(b, total)), lb_get(b, rest));
}

// ---------------------------------------------------------------- values
// SPREAD sums for each vector of columns hide the latency of additions.
static void add_values(few *w, ins *begin, ins *end, int keys, int64_t first, int chunks, ins **acc) {
    flash *f = w->f;
    lbuild *b = f->b;
    int lanes = f->a->lanes;
    ins *j = flash_loop(f, "j", begin, end, keys);
    for (int u = 0; u < keys; u++) {
        ins *at = idx_addk(b, j, u);
        ins *p = lb_load(b, lt(LK_F32, 1), f->scores, lb_sub(b, at, w->begin), 4);
        f->e->counter[f->a->jv] = at;
        for (int c = 0; c < chunks; c++) {
            int64_t column = first + (int64_t)c * lanes;
            ins *v = flash_elements(f, f->a->value, f->a->v, f->a->e, column, f->width - column);
            ins *sum = acc[u * chunks + c];
            lb_set(b, sum, lb_muladd(b, lb_splat(b, p, lanes), v, lb_get(b, sum)));
        }
        f->e->counter[f->a->jv] = NULL;
    }
    lb_end(b, j);
}

static void weighted_values(few *w, int64_t first, int chunks) {
    flash *f = w->f;
    lbuild *b = f->b;
    ins *acc[SPREAD * MOST_CHUNKS];
    for (int j = 0; j < SPREAD * chunks; j++) acc[j] = lb_var(b, "acc", lb_float(b, f->vec, 0));
    ins *full = lb_add(b, w->begin, emit_int_floor(b, lb_sub(b, w->end, w->begin), SPREAD));
    add_values(w, w->begin, full, SPREAD, first, chunks, acc);
    add_values(w, full, w->end, 1, first, chunks, acc);
    for (int c = 0; c < chunks; c++) {
        ins *sum = lb_get(b, acc[c]);
        for (int u = 1; u < SPREAD; u++) sum = lb_add(b, sum, lb_get(b, acc[u * chunks + c]));
        lb_store(b, f->acc, lb_idx(b, first + (int64_t)c * f->a->lanes), sum, 4);
    }
}

// ---------------------------------------------------------------- a query
static void find_keys(few *w) {
    flash *f = w->f;
    lbuild *b = f->b;
    w->begin = lb_idx(b, 0), w->end = f->nj;
    flash_key_range(f, NULL, &w->begin, &w->end);
    w->end = lb_bin(b, L_SMAX, w->begin, w->end);
}

dim *attention_few_scratch(const attention *a) {
    const axis *columns = &a->k->axes.at[a->e];
    int64_t padded = round_up(dim_value(columns->extent), a->lanes);
    return dim_addk(dim_mulk(a->k->axes.at[a->j].extent, 4), 4 * (padded + 2 * MOST_LANES));
}

void attention_few_begin(flash *f, ins *scratch) {
    f->acc = scratch;
    f->top = lb_offset(f->b, scratch, lb_idx(f->b, f->padded), 4);
    f->sum = lb_offset(f->b, f->top, lb_idx(f->b, MOST_LANES), 4);
    f->scores = lb_offset(f->b, f->sum, lb_idx(f->b, MOST_LANES), 4);
}

void attention_few_row(flash *f, ins *i) {
    lbuild *b = f->b;
    const attention *a = f->a;
    few w = {.f = f, .chunks = (int)((f->depth + a->lanes - 1) / a->lanes)};
    f->e->counter[a->i] = i;
    emitter_stage(f->e, a->score, -1, 1, false);
    find_keys(&w);
    for (int c = 0; c < w.chunks; c++) w.query[c] = chunk_of(&w, a->q, c);
    ins *top = all_scores(&w, i);
    lb_store(b, f->top, lb_idx(b, 0), top, 4);
    lb_store(b, f->sum, lb_idx(b, 0), all_weights(&w, top), 4);
    for (int64_t c = 0; c < f->padded; c += (int64_t)MOST_CHUNKS * a->lanes) {
        int64_t left = (f->padded - c) / a->lanes;
        weighted_values(&w, c, left < MOST_CHUNKS ? (int)left : MOST_CHUNKS);
    }
    f->e->counter[a->i] = NULL;
}
