// Attention with an online softmax (Milakov and Gimelshein 2018; Dao et al. 2022): only one block of ROWS x
// KEYS scores exists at a time.
//
//   for outer axes but i:
//     pack keys as Kt[block][d][KEYS], values as V[j][E]
//     for i0 in steps of ROWS:
//       pack Q[ROWS][d]; m[] = -inf, l[] = 0, acc[][] = 0
//       for j0 in steps of KEYS:
//         S = Q Kt                            register tile, as in contractions
//         S = f(S): scale, mask ...; m' = max(m, max S); P = exp(S - m')
//         l = l exp(m - m') + sum P; acc = acc exp(m - m') + P V
//       write g(acc, l)
//
// With matrix tiles (--precision=bf16), Q, Kt, V and P are bf16 in the layout of tiles (ir/loops/loops_tiles.h):
// pairs along d in Kt and along j in V, in panels of 16 columns.
#include "passes/schedule/cpu/schedule_attention.h"
#include "compiler/base/round.h"
#include "ir/kernel/program.h"
#include "ir/loops/convert.h"
#include "ir/loops/loops_tiles.h"
#include <math.h>

enum { ROWS = 2 * TILE_ROWS, KEYS = 64, REGISTER_ROWS = 4, MAX_COLUMNS = 512 };
// bf16 elements of a tile's row; columns of a panel.
enum { PAIRED = 2 * TILE_ROWS, PANEL_COLUMNS = TILE_BYTES / TILE_GROUP };

bool attention_find(kernel *k, const target *t, attention *a) {
    if (!t->vector_bits || t->fp == FP_STRICT || !attention_match(k, a) || a->kept) return false;
    const dim *columns = k->axes.at[a->e].extent, *depth = k->axes.at[a->d].extent;
    if (!dim_is_const(columns) || dim_value(columns) > MAX_COLUMNS || !dim_is_const(depth) ||
        dim_value(depth) > MAX_COLUMNS || k->axes.at[a->i].extent->max < 8)
        return false;
    a->lanes = target_lanes(t, 32);
    a->tiles = t->amx_bf16 && t->precision == PRECISION_BF16 && a->lanes == PANEL_COLUMNS;
    int64_t d = round_up(dim_value(depth), a->tiles ? PAIRED : 1), e = round_up(dim_value(columns), a->lanes);
    dim *blocks = dim_ceildiv(k->axes.at[a->j].extent, dim_const(k->program->dims, KEYS));
    a->scratch =
        dim_addk(dim_mulk(blocks, 4 * KEYS * (d + e)), 4 * (ROWS * (d + e + 2 * KEYS) + 2 * ROWS + 64));
    return a->lanes >= 4 && KEYS % a->lanes == 0;
}

// ---------------------------------------------------------------- building
typedef struct flash {
    emitter *e;
    const attention *a;
    lbuild *b;
    ltype vec;
    int64_t depth, width, padded;                          // d, E, E rounded up to whole vectors
    ins *keys, *values, *query, *scores, *acc, *top, *sum; // scratch
    ins *weights;                                          // P in bf16, with tiles
    ins *rows, *nj;                                        // rows of this block; number of keys
    access *out;
} flash;

static ins *serial(flash *f, const char *name, ins *begin, ins *end, int64_t step) {
    return lb_for(f->b, name, begin, end, lb_idx(f->b, step), LOOP_SERIAL);
}

// Stores a scalar value of the kernel at the current counters as f32.
static void pack_value(flash *f, const stage *s, expr *x, ins *to, ins *at) {
    emitter *e = f->e;
    emitter_stage(e, s, -1, 1, false);
    scope mark = scope_open(e);
    lb_store(f->b, to, at, emit_value(e, x), 4);
    scope_close(e, mark);
}

// Kt[j / KEYS][d][j % KEYS], keys past the end 0.
static void pack_keys(flash *f) {
    emitter *e = f->e;
    const attention *a = f->a;
    ins *zero = lb_idx(f->b, 0),
        *blocks = emit_int_op(f->b, X_FLOORDIV, idx_addk(f->b, f->nj, KEYS - 1), lb_idx(f->b, KEYS));
    ins *j = serial(f, "j", zero, idx_mulk(f->b, blocks, KEYS), 1);
    ins *block = emit_int_op(f->b, X_FLOORDIV, j, lb_idx(f->b, KEYS)),
        *inside = emit_int_op(f->b, X_MOD, j, lb_idx(f->b, KEYS));
    ins *base = lb_add(f->b, idx_mulk(f->b, block, KEYS * f->depth), inside);
    ins *valid = lb_if(f->b, lb_cmp(f->b, L_SLT, j, f->nj));
    ins *d = serial(f, "d", zero, lb_idx(f->b, f->depth), 1);
    e->counter[a->j] = j, e->counter[a->d] = d;
    pack_value(f, a->score, a->key, f->keys, lb_add(f->b, base, idx_mulk(f->b, d, KEYS)));
    e->counter[a->j] = e->counter[a->d] = NULL;
    lb_end(f->b, d);
    lb_else(f->b, valid);
    d = serial(f, "d", zero, lb_idx(f->b, f->depth), 1);
    lb_store(f->b, f->keys, lb_add(f->b, base, idx_mulk(f->b, d, KEYS)), lb_float(f->b, lt(LK_F32, 1), 0), 4);
    lb_end(f->b, d);
    lb_end(f->b, valid);
    lb_end(f->b, j);
}

// V[j][E padded], columns past the end 0.
static void pack_values(flash *f) {
    emitter *e = f->e;
    const attention *a = f->a;
    ins *j = serial(f, "j", lb_idx(f->b, 0), f->nj, 1), *row = idx_mulk(f->b, j, f->padded);
    e->counter[a->jv] = j;
    for (int64_t c = 0; c < f->padded; c += a->lanes) {
        int64_t left = f->width - c;
        emitter_stage(e, a->value, a->e, a->lanes, false);
        scope mark = scope_open(e);
        e->counter[a->e] = lb_idx(f->b, c);
        e->active = left < a->lanes ? lb_idx(f->b, left) : NULL;
        lb_store(f->b, f->values, idx_addk(f->b, row, c), emit_vector(e, a->v), 4);
        scope_close(e, mark);
    }
    e->active = NULL;
    e->counter[a->e] = e->counter[a->jv] = NULL;
    lb_end(f->b, j);
}

static void pack_query(flash *f, ins *i0) {
    emitter *e = f->e;
    const attention *a = f->a;
    ins *r = serial(f, "row", lb_idx(f->b, 0), f->rows, 1),
        *d = serial(f, "d", lb_idx(f->b, 0), lb_idx(f->b, f->depth), 1);
    e->counter[a->i] = lb_add(f->b, i0, r), e->counter[a->d] = d;
    pack_value(f, a->score, a->q, f->query, lb_add(f->b, idx_mulk(f->b, r, f->depth), d));
    e->counter[a->i] = e->counter[a->d] = NULL;
    lb_end(f->b, d);
    lb_end(f->b, r);
}

// c[rows][...] (+)= a[rows][n] b[n][...] on `vectors` columns from `column`.
typedef struct product {
    ins *a, *b, *c;
    int64_t lda, ldb, ldc;
    ins *n, *row, *column, *b_offset;
    int rows, vectors;
    bool add;
} product;

static ins *result_at(flash *f, const product *p, int j) {
    ins *column = idx_addk(f->b, p->column, j / p->vectors * p->ldc + j % p->vectors * f->a->lanes);
    return lb_add(f->b, idx_mulk(f->b, p->row, p->ldc), column);
}

static void register_tile(flash *f, const product *p) {
    lbuild *b = f->b;
    ins *acc[REGISTER_ROWS * 4];
    int lanes = f->a->lanes;
    for (int j = 0; j < p->rows * p->vectors; j++) {
        ins *at = result_at(f, p, j);
        acc[j] = lb_var(b, "acc", p->add ? lb_load(b, f->vec, p->c, at, 4) : lb_float(b, f->vec, 0));
    }
    ins *k = serial(f, "k", lb_idx(b, 0), p->n, 1), *fb[4];
    ins *at_b = lb_add(b, lb_add(b, p->b_offset, p->column), idx_mulk(b, k, p->ldb)),
        *at_a = lb_add(b, idx_mulk(b, p->row, p->lda), k);
    for (int v = 0; v < p->vectors; v++)
        fb[v] = lb_load(b, f->vec, p->b, idx_addk(b, at_b, (int64_t)v * lanes), 4);
    for (int r = 0; r < p->rows; r++) {
        ins *fa = lb_splat(b, lb_load(b, lt(LK_F32, 1), p->a, idx_addk(b, at_a, r * p->lda), 4), lanes);
        for (int v = 0; v < p->vectors; v++) {
            ins *var = acc[r * p->vectors + v];
            lb_set(b, var, lb_muladd(b, fa, fb[v], lb_get(b, var)));
        }
    }
    lb_end(b, k);
    for (int j = 0; j < p->rows * p->vectors; j++) {
        ins *at = result_at(f, p, j);
        lb_store(b, p->c, at, lb_get(b, acc[j]), 4);
    }
}

static void product_rows(flash *f, product p, ins *begin, ins *end, int rows, int64_t columns) {
    int64_t wide = (int64_t)p.vectors * f->a->lanes;
    p.rows = rows;
    ins *r = serial(f, "row", begin, end, rows);
    p.row = r;
    if (columns >= wide) {
        ins *c = serial(f, "col", lb_idx(f->b, 0), lb_idx(f->b, columns / wide * wide), wide);
        p.column = c;
        register_tile(f, &p);
        lb_end(f->b, c);
    }
    if (columns % wide) {
        p.column = lb_idx(f->b, columns / wide * wide);
        p.vectors = (int)(columns % wide / f->a->lanes);
        register_tile(f, &p);
    }
    lb_end(f->b, r);
}

static void block_product(flash *f, product p, int64_t columns) {
    p.vectors = f->e->t->vector_regs >= 32 ? 4 : 2;
    ins *full = emit_int_floor(f->b, f->rows, REGISTER_ROWS);
    product_rows(f, p, lb_idx(f->b, 0), full, REGISTER_ROWS, columns);
    product_rows(f, p, full, f->rows, 1, columns);
}

// ---------------------------------------------------------------- softmax of one block
static ins *row_base(flash *f, ins *r) { return idx_mulk(f->b, r, KEYS); }

// f(S) for one row and the block's maximum; lanes past the last key are -inf.
static ins *mask_row(flash *f, ins *i, ins *r, ins *j0, bool last) {
    emitter *e = f->e;
    lbuild *b = f->b;
    const attention *a = f->a;
    ins *lowest = lb_float(b, f->vec, -INFINITY), *best = lb_var(b, "best", lowest);
    emitter_stage(e, a->score, a->j, a->lanes, true);
    ins *c = serial(f, "col", lb_idx(b, 0), lb_idx(b, KEYS), a->lanes), *at = lb_add(b, row_base(f, r), c);
    scope mark = scope_open(e);
    ins *j = lb_add(b, j0, c), *left = lb_sub(b, f->nj, j);
    left = lb_bin(b, L_SMAX, lb_bin(b, L_SMIN, left, lb_idx(b, a->lanes)), lb_idx(b, 0));
    e->counter[a->i] = i, e->counter[a->j] = j;
    e->active = last ? left : NULL;
    e->state[0] = lb_load(b, f->vec, f->scores, at, 4);
    ins *s = emit_vector(e, a->score->writes.at[0].value);
    if (last) {
        ltype index = lt(lindex_kind(e->t), a->lanes);
        s = lb_select(b, lb_cmp(b, L_SLT, lb_iota(b, index), lb_splat(b, left, a->lanes)), s, lowest);
    }
    lb_store(b, f->scores, at, s, 4);
    lb_set(b, best, emit_reduce(e, RED_MAX, DT_F32, lb_get(b, best), s));
    e->active = NULL;
    e->counter[a->i] = e->counter[a->j] = NULL;
    scope_close(e, mark);
    lb_end(b, c);
    return emit_horizontal(e, RED_MAX, DT_F32, lb_get(b, best));
}

static ins *as_bf16(flash *f, ins *x) { return lb_conv(f->b, L_FTRUNC, LK_BF16, x); }
static ins *exp_of(flash *f, ins *x) { return emit_operation(f->b, X_EXP, DT_F32, x, NULL); }

static void softmax_row(flash *f, ins *i, ins *r, ins *j0, bool last) {
    lbuild *b = f->b;
    int lanes = f->a->lanes;
    ltype scalar = lt(LK_F32, 1);
    ins *zero = lb_float(b, scalar, 0), *lowest = lb_float(b, scalar, -INFINITY);
    ins *block = mask_row(f, i, r, j0, last), *old = lb_load(b, scalar, f->top, r, 4);
    ins *top = emit_reduce(f->e, RED_MAX, DT_F32, old, block);
    // No key allowed so far: any finite number keeps exp(-inf - top) = 0.
    ins *safe = lb_select(b, lb_cmp(b, L_EQ, top, lowest), zero, top);
    ins *rescale = lb_select(b, lb_cmp(b, L_EQ, old, lowest), zero, exp_of(f, lb_sub(b, old, safe)));
    ins *total = lb_var(b, "total", lb_float(b, f->vec, 0)),
        *c = serial(f, "col", lb_idx(b, 0), lb_idx(b, KEYS), lanes);
    ins *at = lb_add(b, row_base(f, r), c);
    ins *p = exp_of(f, lb_sub(b, lb_load(b, f->vec, f->scores, at, 4), lb_splat(b, safe, lanes)));
    if (f->a->tiles) lb_store(b, f->weights, at, as_bf16(f, p), 0);
    else lb_store(b, f->scores, at, p, 4);
    lb_set(b, total, lb_add(b, lb_get(b, total), p));
    lb_end(b, c);
    ins *sum =
        lb_muladd(b, lb_load(b, scalar, f->sum, r, 4), rescale, lb_hreduce(b, L_HADD, lb_get(b, total)));
    lb_store(b, f->sum, r, sum, 4);
    lb_store(b, f->top, r, top, 4);
    ins *changed = lb_if(b, lb_cmp(b, L_NE, rescale, lb_float(b, scalar, 1)));
    c = serial(f, "col", lb_idx(b, 0), lb_idx(b, f->padded), lanes);
    at = lb_add(b, idx_mulk(b, r, f->padded), c);
    lb_store(b, f->acc, at, lb_mul(b, lb_load(b, f->vec, f->acc, at, 4), lb_splat(b, rescale, lanes)), 4);
    lb_end(b, c);
    lb_end(b, changed);
}

static void softmax_rows(flash *f, ins *i0, ins *j0, bool last) {
    ins *r = serial(f, "row", lb_idx(f->b, 0), f->rows, 1);
    softmax_row(f, lb_add(f->b, i0, r), r, j0, last);
    lb_end(f->b, r);
}

static void key_block(flash *f, ins *i0, ins *j0, bool last) {
    lbuild *b = f->b;
    product scores = {.a = f->query,
                      .b = f->keys,
                      .c = f->scores,
                      .lda = f->depth,
                      .ldb = KEYS,
                      .ldc = KEYS,
                      .n = lb_idx(b, f->depth),
                      .b_offset = idx_mulk(b, j0, f->depth)};
    block_product(f, scores, KEYS);
    softmax_rows(f, i0, j0, last);
    ins *n = last ? lb_sub(b, f->nj, j0) : lb_idx(b, KEYS);
    product values = {.a = f->scores,
                      .b = f->values,
                      .c = f->acc,
                      .lda = KEYS,
                      .ldb = f->padded,
                      .ldc = f->padded,
                      .n = n,
                      .b_offset = idx_mulk(b, j0, f->padded),
                      .add = true};
    block_product(f, values, f->padded);
}

// ---------------------------------------------------------------- matrix tiles
static void begin_tiles(flash *f) {
    static const tile_shape whole = {TILE_ROWS, TILE_BYTES};
    tile_shape shapes[TILES];
    for (int j = 0; j < TILES; j++) shapes[j] = whole;
    ins *config = lb_local(f->b, LK_I64, TILE_CONFIG_BYTES / 8, TILE_CONFIG_BYTES, false);
    lb_tile_shapes(f->b, config, shapes);
    f->e->code->has_tiles = true;
}

static int64_t padded_depth(const flash *f) { return round_up(f->depth, PAIRED); }

// Elements column .. column + lanes of x along its axis as f32, those past `extent` 0.
static ins *some_elements(flash *f, const stage *s, expr *x, int axis, ins *column, int64_t left) {
    emitter *e = f->e;
    if (left <= 0) return lb_float(f->b, f->vec, 0);
    emitter_stage(e, s, axis, f->a->lanes, false);
    scope mark = scope_open(e);
    e->counter[axis] = column;
    e->active = left < f->a->lanes ? lb_idx(f->b, left) : NULL;
    ins *v = emit_vector(e, x);
    if (e->active) { // inactive lanes are undefined
        ins *inside = lb_cmp(f->b, L_SLT, lb_iota(f->b, lt(lindex_kind(e->t), f->a->lanes)),
                             lb_splat(f->b, e->active, f->a->lanes));
        v = lb_select(f->b, inside, v, lb_float(f->b, f->vec, 0));
    }
    e->active = NULL;
    e->counter[axis] = NULL;
    scope_close(e, mark);
    return v;
}

// Two vectors of f32 as one of pairs of bf16: the elements of x, then those of y; or interleaved.
static ins *as_pairs(flash *f, ins *x, ins *y, bool interleaved) {
    int lanes = f->a->lanes, *mask = ARENA_ARRAY(f->b->arena, int, 2 * lanes);
    for (int j = 0; j < 2 * lanes; j++) mask[j] = interleaved ? j / 2 + j % 2 * lanes : j;
    ins *both = lb_shuffle(f->b, as_bf16(f, x), as_bf16(f, y), mask, 2 * lanes);
    return lb_bitcast(f->b, lt(LK_I32, lanes), both);
}

// A row of Kt's panel is a pair of d for 16 keys: a key's pairs are one row apart each.
static void pack_key(flash *f, ins *j, bool exists) {
    emitter *e = f->e;
    lbuild *b = f->b;
    const attention *a = f->a;
    ltype index = lt(lindex_kind(e->t), a->lanes);
    ins *panel = emit_int_op(b, X_FLOORDIV, j, lb_idx(b, PANEL_COLUMNS)),
        *inside = emit_int_op(b, X_MOD, j, lb_idx(b, PANEL_COLUMNS));
    ins *base = lb_add(b, idx_mulk(b, panel, padded_depth(f) / 2 * PANEL_COLUMNS), inside);
    e->counter[a->j] = j;
    for (int64_t d = 0; d < f->depth; d += PAIRED) {
        ins *pairs = lb_int(b, lt(LK_I32, a->lanes), 0);
        if (exists) {
            ins *low = some_elements(f, a->score, a->key, a->d, lb_idx(b, d), f->depth - d);
            int64_t next = d + a->lanes;
            pairs = as_pairs(
                f, low, some_elements(f, a->score, a->key, a->d, lb_idx(b, next), f->depth - next), false);
        }
        ins *at = lb_splat(b, idx_addk(b, base, d / 2 * PANEL_COLUMNS), a->lanes);
        ins *rows = lb_mul(b, lb_iota(b, index), lb_splat(b, lb_idx(b, PANEL_COLUMNS), a->lanes));
        lb_scatter(b, f->keys, lb_add(b, at, rows), pairs);
    }
    e->counter[a->j] = NULL;
}

static void pack_keys_in_pairs(flash *f) {
    lbuild *b = f->b;
    ins *blocks = emit_int_op(b, X_FLOORDIV, idx_addk(b, f->nj, KEYS - 1), lb_idx(b, KEYS));
    ins *j = serial(f, "j", lb_idx(b, 0), f->nj, 1);
    pack_key(f, j, true);
    lb_end(b, j);
    j = serial(f, "j", f->nj, idx_mulk(b, blocks, KEYS), 1);
    pack_key(f, j, false);
    lb_end(b, j);
}

// Rows j and j + 1 of V interleaved; keys past the end are 0.
static void pack_value_pair(flash *f, ins *j, int rows, ins *panel_words) {
    emitter *e = f->e;
    lbuild *b = f->b;
    const attention *a = f->a;
    ins *pair = emit_int_op(b, X_FLOORDIV, j, lb_idx(b, 2));
    for (int64_t c = 0; c < f->padded; c += a->lanes) {
        ins *row[2];
        for (int i = 0; i < 2; i++) {
            e->counter[a->jv] = idx_addk(b, j, i);
            row[i] = some_elements(f, a->value, a->v, a->e, lb_idx(b, c), i < rows ? f->width - c : 0);
        }
        ins *at = lb_add(b, idx_mulk(b, panel_words, c / a->lanes), idx_mulk(b, pair, PANEL_COLUMNS));
        lb_store(b, f->values, at, as_pairs(f, row[0], row[1], true), 0);
    }
    e->counter[a->jv] = NULL;
}

// Words (pairs) from one panel of V to the next.
static ins *value_panel(flash *f) {
    ins *blocks = emit_int_op(f->b, X_FLOORDIV, idx_addk(f->b, f->nj, KEYS - 1), lb_idx(f->b, KEYS));
    return idx_mulk(f->b, blocks, KEYS / 2 * PANEL_COLUMNS);
}

static void pack_values_in_pairs(flash *f) {
    lbuild *b = f->b;
    ins *panel = value_panel(f), *even = emit_int_floor(b, f->nj, 2), *after = idx_addk(b, even, 2);
    ins *j = serial(f, "j", lb_idx(b, 0), even, 2);
    pack_value_pair(f, j, 2, panel);
    lb_end(b, j);
    ins *odd = lb_cmp(b, L_SLT, even, f->nj), *one = lb_if(b, odd);
    pack_value_pair(f, even, 1, panel);
    lb_end(b, one);
    ins *blocks = emit_int_op(b, X_FLOORDIV, idx_addk(b, f->nj, KEYS - 1), lb_idx(b, KEYS));
    j = serial(f, "j", lb_select(b, odd, after, even), idx_mulk(b, blocks, KEYS), 2);
    pack_value_pair(f, j, 0, panel);
    lb_end(b, j);
}

static void pack_query_in_bf16(flash *f, ins *i0) {
    emitter *e = f->e;
    lbuild *b = f->b;
    const attention *a = f->a;
    ins *r = serial(f, "row", lb_idx(b, 0), f->rows, 1), *row = idx_mulk(b, r, padded_depth(f));
    e->counter[a->i] = lb_add(b, i0, r);
    for (int64_t d = 0; d < padded_depth(f); d += a->lanes)
        lb_store(b, f->query, idx_addk(b, row, d),
                 as_bf16(f, some_elements(f, a->score, a->q, a->d, lb_idx(b, d), f->depth - d)), 0);
    e->counter[a->i] = NULL;
    lb_end(b, r);
}

// c (+)= a b for two tiles of rows: steps of 32 along K, b in panels.
typedef struct tile_product {
    ins *a, *b, *c, *panel; // pointers; bytes from one panel of b to the next
    int64_t lda, ldc;       // bytes
    int64_t steps, panels;
    bool add;
} tile_product;

static ins *bytes_from(flash *f, ins *p, ins *bytes) { return lb_offset(f->b, p, bytes, 1); }

static void tile_columns(flash *f, const tile_product *p, ins *first, int columns) {
    enum { TILE_A = 4, TILE_B = 6 };
    lbuild *b = f->b;
    for (int j = 0; j < 2 * columns; j++) {
        ins *at =
            idx_addk(b, idx_mulk(b, first, TILE_BYTES), j % 2 * TILE_ROWS * p->ldc + j / 2 * TILE_BYTES);
        if (p->add) lb_tile_load(b, j, bytes_from(f, p->c, at), lb_idx(b, p->ldc));
        else lb_tile_zero(b, j);
    }
    for (int64_t k = 0; k < p->steps; k++) {
        for (int column = 0; column < columns; column++) {
            ins *panel = lb_mul(b, idx_addk(b, first, column), p->panel);
            lb_tile_load(b, TILE_B + column,
                         bytes_from(f, p->b, idx_addk(b, panel, k * TILE_ROWS * TILE_BYTES)),
                         lb_idx(b, TILE_BYTES));
            for (int row = 0; row < 2; row++) {
                ins *at = lb_idx(b, row * TILE_ROWS * p->lda + k * TILE_BYTES);
                if (!column) lb_tile_load(b, TILE_A + row, bytes_from(f, p->a, at), lb_idx(b, p->lda));
                lb_tile_dot(b, L_TILE_BF16, 2 * column + row, TILE_A + row, TILE_B + column);
            }
        }
    }
    for (int j = 0; j < 2 * columns; j++) {
        ins *at =
            idx_addk(b, idx_mulk(b, first, TILE_BYTES), j % 2 * TILE_ROWS * p->ldc + j / 2 * TILE_BYTES);
        lb_tile_store(b, j, bytes_from(f, p->c, at), lb_idx(b, p->ldc));
    }
}

static void multiply_tiles(flash *f, const tile_product *p) {
    lbuild *b = f->b;
    ins *c = serial(f, "panel", lb_idx(b, 0), lb_idx(b, p->panels / 2 * 2), 2);
    tile_columns(f, p, c, 2);
    lb_end(b, c);
    if (p->panels % 2) tile_columns(f, p, lb_idx(b, p->panels - 1), 1);
}

// Rows past the last query are multiplied, too, and not written.
static void key_block_of_tiles(flash *f, ins *i0, ins *j0, bool last) {
    lbuild *b = f->b;
    int64_t key_row = 2 * padded_depth(f); // bytes of a key or query
    multiply_tiles(f, &(tile_product){.a = f->query,
                                      .b = bytes_from(f, f->keys, idx_mulk(b, j0, key_row)),
                                      .c = f->scores,
                                      .panel = lb_idx(b, PANEL_COLUMNS * key_row),
                                      .lda = key_row,
                                      .ldc = 4 * KEYS,
                                      .steps = padded_depth(f) / PAIRED,
                                      .panels = KEYS / PANEL_COLUMNS});
    softmax_rows(f, i0, j0, last);
    multiply_tiles(f, &(tile_product){.a = f->weights,
                                      .b = bytes_from(f, f->values, idx_mulk(b, j0, 2 * PANEL_COLUMNS)),
                                      .c = f->acc,
                                      .panel = idx_mulk(b, value_panel(f), TILE_GROUP),
                                      .lda = 2 * KEYS,
                                      .ldc = 4 * f->padded,
                                      .steps = KEYS / PAIRED,
                                      .panels = f->padded / PANEL_COLUMNS,
                                      .add = true});
}

static void clear_block(flash *f) {
    lbuild *b = f->b;
    ins *r = serial(f, "row", lb_idx(b, 0), f->rows, 1);
    lb_store(b, f->top, r, lb_float(b, lt(LK_F32, 1), -INFINITY), 4);
    lb_store(b, f->sum, r, lb_float(b, lt(LK_F32, 1), 0), 4);
    ins *c = serial(f, "col", lb_idx(b, 0), lb_idx(b, f->padded), f->a->lanes);
    lb_store(b, f->acc, lb_add(b, idx_mulk(b, r, f->padded), c), lb_float(b, f->vec, 0), 4);
    lb_end(b, c);
    lb_end(b, r);
}

// Columns c to c + lanes of row r, of which `left` exist.
static void write_columns(flash *f, ins *r, ins *c, int lanes, int64_t left) {
    emitter *e = f->e;
    const attention *a = f->a;
    emitter_stage(e, a->value, lanes > 1 ? a->e : -1, lanes, lanes > 1);
    scope mark = scope_open(e);
    e->counter[a->e] = c;
    e->active = left < lanes ? lb_idx(f->b, left) : NULL;
    e->state[0] = lb_load(f->b, lt(LK_F32, lanes), f->acc, lb_add(f->b, idx_mulk(f->b, r, f->padded), c), 4);
    emit_write(e, &a->value->writes.at[0], f->out, NULL);
    scope_close(e, mark);
    e->active = NULL;
}

// Scalar stores if a row is not contiguous in the output.
static void write_block(flash *f, ins *i0) {
    emitter *e = f->e;
    lbuild *b = f->b;
    const attention *a = f->a;
    bool joined = f->out->affine && f->out->coef[a->e]->op == X_CONST && f->out->coef[a->e]->i == 1;
    ins *r = serial(f, "row", lb_idx(b, 0), f->rows, 1);
    e->counter[a->i] = lb_add(b, i0, r);
    lb_set(b, e->local[a->total->id], lb_load(b, lt(LK_F32, 1), f->sum, r, 4));
    lb_set(b, e->local[a->top->id], lb_load(b, lt(LK_F32, 1), f->top, r, 4));
    if (joined) {
        for (int64_t j = 0; j < f->width; j += a->lanes)
            write_columns(f, r, lb_idx(b, j), a->lanes, f->width - j);
    } else {
        ins *c = serial(f, "col", lb_idx(b, 0), lb_idx(b, f->width), 1);
        write_columns(f, r, c, 1, 1);
        lb_end(b, c);
    }
    e->counter[a->e] = e->counter[a->i] = NULL;
    lb_end(b, r);
}

static void head(flash *f) {
    lbuild *b = f->b;
    const attention *a = f->a;
    bool tiles = a->tiles;
    (tiles ? pack_keys_in_pairs : pack_keys)(f);
    (tiles ? pack_values_in_pairs : pack_values)(f);
    ins *first, *ni;
    axis_range(f->e, a->i, &first, &ni); // the task axis if there is only one head
    ins *i0 = serial(f, "i", first, ni, ROWS);
    f->rows = lb_bin(b, L_SMIN, lb_sub(b, ni, i0), lb_idx(b, ROWS));
    (tiles ? pack_query_in_bf16 : pack_query)(f, i0);
    clear_block(f);
    ins *full = emit_int_floor(b, f->nj, KEYS), *j0 = serial(f, "j", lb_idx(b, 0), full, KEYS);
    (tiles ? key_block_of_tiles : key_block)(f, i0, j0, false);
    lb_end(b, j0);
    ins *some = lb_if(b, lb_cmp(b, L_SLT, full, f->nj));
    (tiles ? key_block_of_tiles : key_block)(f, i0, full, true);
    lb_end(b, some);
    write_block(f, i0);
    lb_end(b, i0);
}

static void outer_loops(flash *f, int depth) {
    emitter *e = f->e;
    if (depth == f->a->i) {
        head(f);
        return;
    }
    scope loop = scope_parallel(e, depth);
    outer_loops(f, depth + 1);
    scope_close(e, loop);
}

void schedule_attention(emitter *e, const attention *a, ins *scratch) {
    flash f = {.e = e, .a = a, .b = &e->b, .vec = lt(LK_F32, a->lanes)};
    f.depth = dim_value(a->k->axes.at[a->d].extent), f.width = dim_value(a->k->axes.at[a->e].extent);
    f.padded = round_up(f.width, a->lanes);
    f.nj = emit_dim(e, a->k->axes.at[a->j].extent);
    e->state = ARENA_ARRAY(e->scratch, ins *, 1);
    emitter_stage(e, a->value, -1, 1, false);
    f.out = access_make(e, a->value->writes.at[0].to, a->value->writes.at[0].index);
    lbuild *b = f.b;
    // Fixed-size blocks first, then those that grow with the number of keys.
    int64_t at = 0;
    ins **fixed[] = {&f.scores, &f.acc, &f.query, &f.top, &f.sum, &f.weights};
    int64_t query = a->tiles ? ROWS * round_up(f.depth, PAIRED) : (ROWS * f.depth + 15) / 16 * 16;
    int64_t floats[] = {ROWS * KEYS, ROWS * f.padded, query, ROWS, ROWS, a->tiles ? ROWS * KEYS / 2 : 0};
    for (int j = 0; j < 6; at += 4 * floats[j++]) *fixed[j] = lb_offset(b, scratch, lb_idx(b, at), 1);
    f.values = lb_offset(b, scratch, lb_idx(b, at), 1);
    ins *blocks = emit_int_op(b, X_FLOORDIV, idx_addk(b, f.nj, KEYS - 1), lb_idx(b, KEYS));
    f.keys = lb_offset(b, f.values, idx_mulk(b, blocks, KEYS * f.padded), 4);
    if (a->tiles) begin_tiles(&f);
    outer_loops(&f, 0);
    if (a->tiles) lb_tile_release(b);
}
