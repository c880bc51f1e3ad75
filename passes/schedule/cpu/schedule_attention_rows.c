// Attention of few queries, such as the step of a decoder: keys and values are read in place, as packing them
// would take longer than using them.
//
//   for i:
//     for j in vectors of keys:  S[j] = f(q . k[j]), m = max            a vector of partial sums for each key
//     for j: P[j] = exp(S[j] - m), l += P[j]
//     for j: acc += P[j] v[j]
//
// Query heads that share keys and values follow each other within a block of keys; each requests its share of the next
// block from memory:
//
//   for i:
//     for blocks of keys:  for g:  S[g][j] = f(q[g] . k[j]), m[g] = max
//     for g:               P[g][j] = exp(S[g][j] - m[g])
//     for blocks of keys:  for g:  acc[g] += P[g][j] v[j]
//
// Keys that f excludes by comparing j with something known before (the filled part of a cache, causality, a window) are
// not read.
#include "compiler/base/integers.h"
#include "ir/kernel/program.h"
#include "passes/match/form.h"
#include "passes/schedule/cpu/schedule_attention_impl.h"
#include "passes/schedule/cpu/schedule_range.h"
#include <math.h>

enum { MOST_LANES = 16, MOST_CHUNKS = 8, SPREAD = 2, MOST_SHARED = 64, BLOCK_FLOATS = 4096, LINE = 64 };

// ---------------------------------------------------------------- applicability
// Whether rows of packed elements begin with a byte.
static bool begins_in_bytes(const buffer *b) {
    int bits = dtype_bits(b->dtype);
    return bits >= 8 || (!b->layout && dim_divisible(b->dims[b->rank - 1], 8 / bits));
}

// Whether the factor reads memory along the axis, and nothing else varies with it.
static bool is_contiguous_along(const expr *factor, int axis) {
    arena *scratch = arena_new();
    expr_list reads = reads_only(expr_nodes(scratch, (expr *)factor));
    bool found = false, fits = true;
    for (int j = 0; j < reads.n && fits; j++) {
        const buffer *b = reads.at[j]->buffer;
        if (!expr_uses_axis(reads.at[j], axis)) continue;
        const layout *l = b->layout;
        int last = l ? l->order[l->n - 1].axis : b->rank - 1;
        fits = b->rank && !(l && l->order[l->n - 1].tile) && reads.at[j]->index[last]->op == X_AXIS &&
               reads.at[j]->index[last]->axis == axis && begins_in_bytes(b);
        for (int i = 0; i < b->rank && fits; i++)
            fits = i == last || !expr_uses_axis(reads.at[j]->index[i], axis);
        found = true;
    }
    arena_destroy(scratch);
    return found && fits;
}

bool attention_reads_rows(const attention *a) {
    return is_contiguous_along(a->key, a->d) && is_contiguous_along(a->v, a->e);
}

// The axis of query heads with the same keys, values and excluded scores; -1: none.
static int shared_axis(const attention *a) {
    int axis = a->i - 1;
    if (axis < 0 || expr_uses_axis(a->key, axis) || expr_uses_axis(a->v, axis)) return -1;
    const dim *heads = a->k->axes.at[axis].extent;
    const expr *score = a->score->writes.at[0].value;
    bool alike = score->op != X_SELECT || !expr_uses_axis(score->arg[0], axis);
    return alike && dim_is_const(heads) && dim_value(heads) > 1 && dim_value(heads) <= MOST_SHARED ? axis
                                                                                                   : -1;
}

// ---------------------------------------------------------------- blocks of keys
static int64_t keys_of_block(const flash *f) {
    int64_t keys = BLOCK_FLOATS / f->depth / f->a->lanes * f->a->lanes;
    return keys > f->a->lanes ? keys : f->a->lanes;
}

// What x reads along both axes, in rows of whole bytes; NULL: nothing, or not at affine positions.
static const expr *row_read(flash *f, expr *x, int row, int column) {
    expr_list reads = reads_only(expr_nodes(f->e->scratch, x));
    for (int j = 0; j < reads.n; j++) {
        const expr *r = reads.at[j];
        bool rows = dtype_bits(r->buffer->dtype) >= 8 && expr_uses_axis(r, row) && expr_uses_axis(r, column);
        if (rows && entry_of(f->e, r)->read->affine) return r;
    }
    return NULL;
}

// Requests what x reads for `keys` keys a block after key j: this head's share of the cache lines.
static void request_keys(flash *f, const stage *s, expr *x, int row, int column, ins *j, int keys) {
    emitter *e = f->e;
    lbuild *b = f->b;
    emitter_stage(e, s, column, f->a->lanes, false);
    const expr *read = f->shared < 0 ? NULL : row_read(f, x, row, column);
    if (!read) return;
    int bytes = dtype_bits(read->buffer->dtype) / 8, heads = (int)dim_value(e->extent[f->shared]);
    int64_t lines = (dim_value(e->extent[column]) * bytes + LINE - 1) / LINE;
    for (int64_t first = 0; first < keys * lines; first += heads) {
        ins *line = idx_addk(b, e->counter[f->shared], first), *n = lb_idx(b, lines);
        scope mark = scope_open(e);
        e->counter[row] = lb_add(b, idx_addk(b, j, keys_of_block(f)), emit_int_op(b, X_FLOORDIV, line, n));
        e->counter[column] = lb_idx(b, 0);
        ins *at = idx_mulk(b, emit_index(e, entry_of(e, read)->read->offset), bytes);
        at = lb_add(b, at, idx_mulk(b, emit_int_op(b, X_MOD, line, n), LINE));
        lb_prefetch(b, pointer_of(e, read->buffer), at);
        e->counter[row] = e->counter[column] = NULL;
        scope_close(e, mark);
    }
}

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

// Of keys begin .. end; returns the largest score.
static ins *all_scores(few *w, ins *i, ins *begin, ins *end) {
    flash *f = w->f;
    lbuild *b = f->b;
    int lanes = f->a->lanes;
    ins *lowest = lb_float(b, lt(LK_F32, 1), -INFINITY),
        *best = lb_var(b, "best", lb_splat(b, lowest, lanes)), *rest = lb_var(b, "rest", lowest);
    ins *full = lb_add(b, begin, emit_int_floor(b, lb_sub(b, end, begin), lanes));
    ins *j = flash_loop(f, "j", begin, full, lanes), *part[MOST_LANES];
    request_keys(f, f->a->score, f->a->key, f->a->j, f->a->d, j, lanes);
    for (int u = 0; u < lanes; u++) part[u] = partial_sums(w, idx_addk(b, j, u));
    ins *s = score(w, i, j, sums_of_all(f, part), lanes);
    lb_set(b, best, emit_reduce(f->e, RED_NUMBER_MAX, DT_F32, lb_get(b, best), s));
    lb_end(b, j);
    j = flash_loop(f, "j", full, end, 1);
    s = score(w, i, j, lb_hreduce(b, L_HADD, partial_sums(w, j)), 1);
    lb_set(b, rest, emit_reduce(f->e, RED_NUMBER_MAX, DT_F32, lb_get(b, rest), s));
    lb_end(b, j);
    ins *most = emit_horizontal(f->e, RED_NUMBER_MAX, DT_F32, lb_get(b, best));
    return emit_reduce(f->e, RED_NUMBER_MAX, DT_F32, most, lb_get(b, rest));
}

// ---------------------------------------------------------------- weights
static ins *weight(few *w, ins *at, ins *top, int lanes) {
    flash *f = w->f;
    ins *s = lb_load(f->b, lt(LK_F32, lanes), f->scores, at, 4);
    ins *p = math_weight(f->b, lb_sub(f->b, s, lb_splat(f->b, top, lanes)));
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
    if (!first && keys > 1) request_keys(f, f->a->value, f->a->v, f->a->jv, f->a->e, j, keys);
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

static void weighted_columns(few *w, ins *begin, ins *end, bool adds, int64_t first, int chunks) {
    flash *f = w->f;
    lbuild *b = f->b;
    ins *acc[SPREAD * MOST_CHUNKS];
    for (int j = 0; j < SPREAD * chunks; j++) {
        ins *at = lb_idx(b, first + (int64_t)j * f->a->lanes);
        bool old = adds && j < chunks;
        acc[j] = lb_var(b, "acc", old ? lb_load(b, f->vec, f->acc, at, 4) : lb_float(b, f->vec, 0));
    }
    ins *full = lb_add(b, begin, emit_int_floor(b, lb_sub(b, end, begin), SPREAD));
    add_values(w, begin, full, SPREAD, first, chunks, acc);
    add_values(w, full, end, 1, first, chunks, acc);
    for (int c = 0; c < chunks; c++) {
        ins *sum = lb_get(b, acc[c]);
        for (int u = 1; u < SPREAD; u++) sum = lb_add(b, sum, lb_get(b, acc[u * chunks + c]));
        lb_store(b, f->acc, lb_idx(b, first + (int64_t)c * f->a->lanes), sum, 4);
    }
}

// Those of keys begin .. end, added to the sums so far or not.
static void weighted_values(few *w, ins *begin, ins *end, bool adds) {
    const attention *a = w->f->a;
    for (int64_t c = 0; c < w->f->padded; c += (int64_t)MOST_CHUNKS * a->lanes) {
        int64_t left = (w->f->padded - c) / a->lanes;
        weighted_columns(w, begin, end, adds, c, left < MOST_CHUNKS ? (int)left : MOST_CHUNKS);
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
    int shared = shared_axis(a);
    dim *keys = dim_addk(dim_mulk(a->k->axes.at[a->j].extent, 4), 4 * (padded + 2 * MOST_LANES));
    return shared < 0 ? keys : dim_mul(keys, a->k->axes.at[shared].extent);
}

void attention_few_begin(flash *f, ins *scratch) {
    int shared = shared_axis(f->a);
    int64_t heads = shared < 0 ? 1 : dim_value(f->a->k->axes.at[shared].extent);
    f->shared = shared;
    f->acc = scratch;
    f->top = lb_offset(f->b, scratch, lb_idx(f->b, f->padded * heads), 4);
    f->sum = lb_offset(f->b, f->top, lb_idx(f->b, MOST_LANES * heads), 4);
    f->scores = lb_offset(f->b, f->sum, lb_idx(f->b, MOST_LANES * heads), 4);
}

static void load_query(few *w) {
    for (int c = 0; c < w->chunks; c++) w->query[c] = chunk_of(w, w->f->a->q, c);
}

static void one_head(few *w, ins *i) {
    flash *f = w->f;
    lbuild *b = f->b;
    load_query(w);
    ins *top = all_scores(w, i, w->begin, w->end);
    lb_store(b, f->top, lb_idx(b, 0), top, 4);
    lb_store(b, f->sum, lb_idx(b, 0), all_weights(w, top), 4);
    weighted_values(w, w->begin, w->end, false);
}

attention_head attention_head_begin(flash *f) {
    attention_head h = {.all = *f, .loop = scope_parallel(f->e, f->shared)};
    lbuild *b = f->b;
    ins *head = f->e->counter[f->shared];
    f->acc = lb_offset(b, f->acc, idx_mulk(b, head, f->padded), 4);
    f->top = lb_offset(b, f->top, head, 4);
    f->sum = lb_offset(b, f->sum, head, 4);
    f->scores = lb_offset(b, f->scores, lb_bin(b, L_MUL, head, f->nj), 4);
    return h;
}

void attention_head_end(flash *f, attention_head h) {
    scope_close(f->e, h.loop);
    *f = h.all;
}

static ins *block_of(few *w, ins **end) {
    lbuild *b = w->f->b;
    ins *step = lb_idx(b, keys_of_block(w->f));
    ins *j = lb_for(b, "block", w->begin, w->end, step, LOOP_SERIAL);
    *end = lb_bin(b, L_SMIN, lb_add(b, j, step), w->end);
    return j;
}

static void shared_heads(few *w, ins *i) {
    flash *f = w->f;
    lbuild *b = f->b;
    ltype one = lt(LK_F32, 1);
    ins *zero = lb_idx(b, 0), *end;
    attention_head h = attention_head_begin(f);
    lb_store(b, f->top, zero, lb_float(b, one, -INFINITY), 4);
    attention_head_end(f, h);
    ins *block = block_of(w, &end);
    h = attention_head_begin(f);
    load_query(w);
    ins *best = emit_reduce(f->e, RED_NUMBER_MAX, DT_F32, lb_load(b, one, f->top, zero, 4),
                            all_scores(w, i, block, end));
    lb_store(b, f->top, zero, best, 4);
    attention_head_end(f, h);
    lb_end(b, block);
    h = attention_head_begin(f);
    lb_store(b, f->sum, zero, all_weights(w, lb_load(b, one, f->top, zero, 4)), 4);
    for (int64_t c = 0; c < f->padded; c += f->a->lanes)
        lb_store(b, f->acc, lb_idx(b, c), lb_float(b, f->vec, 0), 4);
    attention_head_end(f, h);
    block = block_of(w, &end);
    h = attention_head_begin(f);
    weighted_values(w, block, end, true);
    attention_head_end(f, h);
    lb_end(b, block);
}

void attention_few_row(flash *f, ins *i) {
    const attention *a = f->a;
    few w = {.f = f, .chunks = (int)((f->depth + a->lanes - 1) / a->lanes)};
    f->e->counter[a->i] = i;
    emitter_stage(f->e, a->score, -1, 1, false);
    find_keys(&w);
    if (f->shared < 0) one_head(&w, i);
    else shared_heads(&w, i);
    f->e->counter[a->i] = NULL;
}
