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
// With matrix tiles (--precision=bf16), the blocks are those of schedule_attention_tiles.c.
#include "passes/schedule/cpu/schedule_attention.h"
#include "compiler/base/integers.h"
#include "ir/kernel/program.h"
#include "ir/loops/convert.h"
#include "passes/schedule/cpu/schedule_attention_impl.h"
#include "passes/schedule/cpu/schedule_rows.h"
#include "passes/schedule/cpu/schedule_transpose.h"
#include <math.h>

enum {
    ROWS = FLASH_ROWS,
    KEYS = FLASH_KEYS,
    REGISTER_ROWS = 4,
    MANY = 8,
    FEW_ROWS = 4,
    BLOCK_REGISTERS = 16
};

static dim *blocks_scratch(const attention *a) {
    const kernel *k = a->k;
    int64_t d = dim_value(k->axes.at[a->d].extent),
            e = round_up(dim_value(k->axes.at[a->e].extent), a->lanes);
    dim *blocks = dim_ceildiv(k->axes.at[a->j].extent, dim_const(k->program->dims, KEYS));
    return dim_addk(dim_mulk(blocks, 4 * KEYS * (d + e)), 4 * (ROWS * (d + e + KEYS) + 2 * ROWS + 64));
}

bool attention_find(kernel *k, const target *t, attention *a) {
    if (!t->vector_bits || t->fp == FP_STRICT || !attention_match(k, a) || a->kept) return false;
    const dim *columns = k->axes.at[a->e].extent, *depth = k->axes.at[a->d].extent;
    a->lanes = target_lanes(t, 32);
    if (!dim_is_const(columns) || dim_value(columns) > FLASH_COLUMNS || !dim_is_const(depth) ||
        dim_value(depth) > FLASH_COLUMNS || a->lanes < 4 || KEYS % a->lanes)
        return false;
    bool small = t->freestanding &&
                 t->vector_regs < BLOCK_REGISTERS; // Helium: blocks take kilobytes, and save nothing
    a->many = k->axes.at[a->i].extent->max >= MANY && !small;
    a->few = (small || k->axes.at[a->i].extent->min < FEW_ROWS) && attention_reads_rows(a);
    a->tiles = a->many && attention_has_tiles(a, t);
    a->blocks = a->many && !a->tiles && attention_has_blocks(a, t); // half of the scratch memory
    if (!a->many && !a->few) return false;
    dim *few = attention_few_scratch(a), *many = !a->many   ? few
                                                 : a->tiles ? attention_tiles_scratch(a)
                                                            : blocks_scratch(a);
    a->scratch = a->few ? dim_max(few, many) : many;
    return true;
}

// ---------------------------------------------------------------- building
static ins *serial(flash *f, const char *name, ins *begin, ins *end, int64_t step) {
    return flash_loop(f, name, begin, end, step);
}

ins *flash_first_lanes(flash *f, ins *n) {
    int lanes = f->a->lanes;
    ltype index = lt(lindex_kind(f->e->t), lanes);
    return lb_cmp(f->b, L_SLT, lb_iota(f->b, index), lb_splat(f->b, n, lanes));
}

ins *flash_elements(flash *f, const stage *s, expr *x, int axis, int64_t column, int64_t left) {
    emitter *e = f->e;
    if (left <= 0) return lb_float(f->b, f->vec, 0);
    emitter_stage(e, s, axis, f->a->lanes, false);
    scope mark = scope_open(e);
    e->counter[axis] = lb_idx(f->b, column);
    e->active = left < f->a->lanes ? lb_idx(f->b, left) : NULL;
    ins *v = emit_vector(e, x);
    if (e->active) // inactive lanes are undefined
        v = lb_select(f->b, flash_first_lanes(f, e->active), v, lb_float(f->b, f->vec, 0));
    e->active = NULL;
    e->counter[axis] = NULL;
    scope_close(e, mark);
    return v;
}

// Stores a scalar value of the kernel at the current counters as f32.
static void pack_value(flash *f, const stage *s, expr *x, ins *to, ins *at) {
    emitter *e = f->e;
    emitter_stage(e, s, -1, 1, false);
    scope mark = scope_open(e);
    lb_store(f->b, to, at, emit_value(e, x), 4);
    scope_close(e, mark);
}

static int vectors_of_tile(const flash *f) { return f->e->t->vector_regs >= 32 ? 4 : 2; }

// Columns that are computed for n keys: whole vectors or, if n is not known, narrow tiles.
static ins *round_columns(flash *f, ins *n) {
    int64_t step = f->a->lanes;
    if (n->op != L_CONST) step *= vectors_of_tile(f) / 2;
    return emit_int_floor(f->b, idx_addk(f->b, n, step - 1), step);
}

// Whether neighbours along the axis are neighbours in memory where x reads.
static bool reads_along(flash *f, const stage *s, expr *x, int axis) {
    emitter *e = f->e;
    emitter_stage(e, s, -1, 1, false);
    expr_list reads = reads_only(expr_nodes(e->scratch, x));
    bool along = false;
    for (int j = 0; j < reads.n; j++) {
        const access *a = entry_of(e, reads.at[j])->read;
        along |= a && steps_by_one(a, axis);
    }
    return along;
}

// A vector of x along the axis from `from` on; its first `left` elements are needed.
static ins *vector_along(flash *f, const stage *s, expr *x, int axis, ins *from, int64_t left) {
    emitter *e = f->e;
    emitter_stage(e, s, axis, f->a->lanes, false);
    scope mark = scope_open(e);
    e->counter[axis] = from;
    e->active = left < f->a->lanes ? lb_idx(f->b, left) : NULL;
    ins *v = emit_vector(e, x);
    e->active = NULL;
    e->counter[axis] = NULL;
    scope_close(e, mark);
    return v;
}

// A square of keys from j and elements from d on (`left` exist), transposed. Keys past the end repeat the last one.
static void pack_square(flash *f, ins *j, ins *base, ins *d, int64_t left) {
    const attention *a = f->a;
    ins *row[16], *last = idx_addk(f->b, f->nj, -1);
    for (int i = 0; i < a->lanes; i++) {
        f->e->counter[a->j] = lb_bin(f->b, L_SMIN, idx_addk(f->b, j, i), last);
        row[i] = vector_along(f, a->score, a->key, a->d, d, left);
        f->e->counter[a->j] = NULL;
    }
    transpose_rows(f->b, row, a->lanes);
    ins *at = lb_add(f->b, base, idx_mulk(f->b, d, KEYS));
    for (int i = 0; i < a->lanes && i < left; i++)
        lb_store(f->b, f->keys, idx_addk(f->b, at, i * KEYS), row[i], 4);
}

static void pack_squares(flash *f, ins *j, ins *base) {
    int64_t lanes = f->a->lanes, whole = f->depth / lanes * lanes;
    ins *d = serial(f, "d", lb_idx(f->b, 0), lb_idx(f->b, whole), lanes);
    pack_square(f, j, base, d, lanes);
    lb_end(f->b, d);
    if (whole < f->depth) pack_square(f, j, base, lb_idx(f->b, whole), f->depth - whole);
}

static void pack_elements(flash *f, ins *j, ins *base) {
    emitter *e = f->e;
    const attention *a = f->a;
    ins *d = serial(f, "d", lb_idx(f->b, 0), lb_idx(f->b, f->depth), 1);
    e->counter[a->j] = lb_bin(f->b, L_SMIN, j, idx_addk(f->b, f->nj, -1)), e->counter[a->d] = d;
    pack_value(f, a->score, a->key, f->keys, lb_add(f->b, base, idx_mulk(f->b, d, KEYS)));
    e->counter[a->j] = e->counter[a->d] = NULL;
    lb_end(f->b, d);
}

// Kt[j / KEYS][d][j % KEYS]; what keys past the end are does not matter.
static void pack_keys(flash *f) {
    const attention *a = f->a;
    bool squares = a->lanes <= 16 && reads_along(f, a->score, a->key, a->d);
    int64_t step = squares ? a->lanes : 1;
    ins *j = serial(f, "j", lb_idx(f->b, 0), round_columns(f, f->nj), step);
    ins *block = emit_int_op(f->b, X_FLOORDIV, j, lb_idx(f->b, KEYS)),
        *inside = emit_int_op(f->b, X_MOD, j, lb_idx(f->b, KEYS));
    ins *base = lb_add(f->b, idx_mulk(f->b, block, KEYS * f->depth), inside);
    (squares ? pack_squares : pack_elements)(f, j, base);
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

// Query r, lanes at a time.
static void pack_query_row(flash *f, ins *r) {
    const attention *a = f->a;
    int64_t lanes = a->lanes, whole = f->depth / lanes * lanes, left = f->depth - whole;
    ins *row = idx_mulk(f->b, r, f->depth), *d = serial(f, "d", lb_idx(f->b, 0), lb_idx(f->b, whole), lanes);
    lb_store(f->b, f->query, lb_add(f->b, row, d), vector_along(f, a->score, a->q, a->d, d, lanes), 4);
    lb_end(f->b, d);
    if (!left) return;
    ins *rest = vector_along(f, a->score, a->q, a->d, lb_idx(f->b, whole), left);
    lb_storen(f->b, f->query, idx_addk(f->b, row, whole), rest, lb_idx(f->b, left));
}

static void pack_query(flash *f, ins *i0) {
    emitter *e = f->e;
    const attention *a = f->a;
    ins *r = serial(f, "row", lb_idx(f->b, 0), f->rows, 1);
    e->counter[a->i] = lb_add(f->b, i0, r);
    if (reads_along(f, a->score, a->q, a->d)) {
        pack_query_row(f, r);
    } else {
        ins *d = serial(f, "d", lb_idx(f->b, 0), lb_idx(f->b, f->depth), 1);
        e->counter[a->d] = d;
        pack_value(f, a->score, a->q, f->query, lb_add(f->b, idx_mulk(f->b, r, f->depth), d));
        lb_end(f->b, d);
    }
    e->counter[a->i] = e->counter[a->d] = NULL;
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

static void product_rows(flash *f, product p, ins *begin, ins *end, int rows, ins *columns) {
    int64_t wide = (int64_t)p.vectors * f->a->lanes, known = columns->op == L_CONST ? columns->i : -1;
    ins *whole = known < 0 ? columns : lb_idx(f->b, known / wide * wide);
    p.rows = rows;
    ins *r = serial(f, "row", begin, end, rows);
    p.row = r;
    if (known < 0 || known >= wide) {
        ins *c = serial(f, "col", lb_idx(f->b, 0), whole, wide);
        p.column = c;
        register_tile(f, &p);
        lb_end(f->b, c);
    }
    if (known >= 0 && known % wide) {
        p.column = whole;
        p.vectors = (int)(known % wide / f->a->lanes);
        register_tile(f, &p);
    }
    lb_end(f->b, r);
}

// Narrow tiles if the number of columns is not known, so that few are computed in vain.
static void block_product(flash *f, product p, ins *columns) {
    p.vectors = columns->op == L_CONST ? vectors_of_tile(f) : vectors_of_tile(f) / 2;
    ins *full = emit_int_floor(f->b, f->rows, REGISTER_ROWS);
    product_rows(f, p, lb_idx(f->b, 0), full, REGISTER_ROWS, columns);
    product_rows(f, p, full, f->rows, 1, columns);
}

// ---------------------------------------------------------------- softmax of one block
static ins *row_base(flash *f, ins *r) { return idx_mulk(f->b, r, KEYS); }

// f(S) for one row and the block's maximum; lanes past the last key are -inf.
static ins *mask_row(flash *f, ins *i, ins *r, ins *j0, ins *columns, bool last) {
    emitter *e = f->e;
    lbuild *b = f->b;
    const attention *a = f->a;
    ins *lowest = lb_float(b, f->vec, -INFINITY), *best = lb_var(b, "best", lowest);
    emitter_stage(e, a->score, a->j, a->lanes, true);
    ins *c = serial(f, "col", lb_idx(b, 0), columns, a->lanes), *at = lb_add(b, row_base(f, r), c);
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
    lb_set(b, best, emit_reduce(e, RED_NUMBER_MAX, DT_F32, lb_get(b, best), s));
    e->active = NULL;
    e->counter[a->i] = e->counter[a->j] = NULL;
    scope_close(e, mark);
    lb_end(b, c);
    return emit_horizontal(e, RED_NUMBER_MAX, DT_F32, lb_get(b, best));
}

static void softmax_row(flash *f, ins *i, ins *r, ins *j0, ins *columns, bool last) {
    lbuild *b = f->b;
    int lanes = f->a->lanes;
    ltype scalar = lt(LK_F32, 1);
    ins *zero = lb_float(b, scalar, 0), *lowest = lb_float(b, scalar, -INFINITY);
    ins *block = mask_row(f, i, r, j0, columns, last), *old = lb_load(b, scalar, f->top, r, 4);
    ins *top = emit_reduce(f->e, RED_NUMBER_MAX, DT_F32, old, block);
    // No key allowed so far: any finite number keeps exp(-inf - top) = 0.
    ins *safe = lb_select(b, lb_cmp(b, L_EQ, top, lowest), zero, top);
    ins *rescale = math_weight(b, lb_sub(b, old, safe)); // 0 if old is -inf
    ins *total = lb_var(b, "total", lb_float(b, f->vec, 0)),
        *c = serial(f, "col", lb_idx(b, 0), columns, lanes);
    ins *at = lb_add(b, row_base(f, r), c);
    ins *p = math_weight(b, lb_sub(b, lb_load(b, f->vec, f->scores, at, 4), lb_splat(b, safe, lanes)));
    if (f->a->blocks) attention_blocks_store_weights(f, r, c, p);
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

static void softmax_rows(flash *f, ins *i0, ins *j0, ins *columns, bool last) {
    ins *r = serial(f, "row", lb_idx(f->b, 0), f->rows, 1);
    softmax_row(f, lb_add(f->b, i0, r), r, j0, columns, last);
    lb_end(f->b, r);
}

static void block_scores(flash *f, ins *j0, ins *columns) {
    lbuild *b = f->b;
    product scores = {.a = f->query,
                      .b = f->keys,
                      .c = f->scores,
                      .lda = f->depth,
                      .ldb = KEYS,
                      .ldc = KEYS,
                      .n = lb_idx(b, f->depth),
                      .b_offset = idx_mulk(b, j0, f->depth)};
    block_product(f, scores, columns);
}

static void block_values(flash *f, ins *j0, ins *n) {
    lbuild *b = f->b;
    product values = {.a = f->scores,
                      .b = f->values,
                      .c = f->acc,
                      .lda = KEYS,
                      .ldb = f->padded,
                      .ldc = f->padded,
                      .n = n,
                      .b_offset = idx_mulk(b, j0, f->padded),
                      .add = true};
    block_product(f, values, lb_idx(b, f->padded));
}

static void key_block(flash *f, ins *i0, ins *j0, bool last) {
    ins *all = lb_idx(f->b, KEYS), *n = last ? lb_sub(f->b, f->nj, j0) : all;
    if (f->a->blocks) {
        attention_blocks_scores(f, j0);
        softmax_rows(f, i0, j0, all, last);
        attention_blocks_values(f, j0, n);
    } else {
        ins *columns = round_columns(f, n);
        block_scores(f, j0, columns);
        softmax_rows(f, i0, j0, columns, last);
        block_values(f, j0, n);
    }
}

// ---------------------------------------------------------------- rows of queries
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

// Columns c to c + lanes of row r (`left` exist).
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
    ltype one = lt(LK_F32, 1);
    lb_set(b, e->local[a->total->id], a->tiles ? attention_tiles_sum(f, r) : lb_load(b, one, f->sum, r, 4));
    lb_set(b, e->local[a->top->id], a->tiles ? attention_tiles_top(f, r) : lb_load(b, one, f->top, r, 4));
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

// Where it does not hold, a key is not seen; NULL: all are.
static expr *excluding_condition(const attention *a) {
    const expr *score = a->score->writes.at[0].value;
    bool excludes = score->op == X_SELECT && score->arg[2]->op == X_CONST && score->arg[2]->f == -INFINITY;
    return excludes ? score->arg[0] : NULL;
}

void flash_key_range(flash *f, const row_block *rows, ins **begin, ins **end) {
    expr *condition = excluding_condition(f->a);
    if (!condition) return;
    emitter_stage(f->e, f->a->score, -1, 1, false);
    range_of_condition(f->e, condition, f->a->j, rows, begin, end);
}

static void query_rows(flash *f, ins *i0) {
    lbuild *b = f->b;
    row_block rows = {f->a->i, i0, idx_addk(b, lb_add(b, i0, f->rows), -1)};
    ins *all = f->nj, *begin = lb_idx(b, 0);
    flash_key_range(f, &rows, &begin, &f->nj);
    (f->a->blocks ? attention_blocks_pack_query : pack_query)(f, i0);
    clear_block(f);
    ins *full = emit_int_floor(b, f->nj, KEYS),
        *j0 = serial(f, "j", emit_int_floor(b, begin, KEYS), full, KEYS);
    key_block(f, i0, j0, false);
    lb_end(b, j0);
    ins *some = lb_if(b, lb_cmp(b, L_SLT, full, f->nj));
    key_block(f, i0, full, true);
    lb_end(b, some);
    f->nj = all;
}

static void few_rows(flash *f) {
    lbuild *b = f->b;
    ins *first, *ni;
    axis_range(f->e, f->a->i, &first, &ni);
    ins *i = serial(f, "i", first, ni, 1);
    f->rows = lb_idx(b, 1);
    attention_few_row(f, i);
    if (f->shared < 0) {
        write_block(f, i);
    } else {
        attention_head h = attention_head_begin(f);
        write_block(f, i);
        attention_head_end(f, h);
    }
    lb_end(b, i);
}

// Keys before the first that none of the rows sees, but at least one.
static void pack_seen_keys(flash *f) {
    lbuild *b = f->b;
    ins *first, *end, *begin = lb_idx(b, 0), *all = f->nj;
    axis_range(f->e, f->a->i, &first, &end);
    row_block rows = {f->a->i, first, idx_addk(b, end, -1)};
    flash_key_range(f, &rows, &begin, &f->nj);
    if (f->nj != all) f->nj = lb_bin(b, L_SMIN, lb_bin(b, L_SMAX, f->nj, lb_idx(b, 1)), all);
    if (f->a->tiles) attention_tiles_pack(f);
    else if (f->a->blocks) attention_blocks_pack(f);
    else pack_keys(f), pack_values(f);
}

static void head(flash *f) {
    lbuild *b = f->b;
    const attention *a = f->a;
    ins *first, *ni;
    axis_range(f->e, a->i, &first, &ni); // the task axis if there is only one head
    ins *i0 = serial(f, "i", first, ni, ROWS);
    f->rows = lb_bin(b, L_SMIN, lb_sub(b, ni, i0), lb_idx(b, ROWS));
    (a->tiles ? attention_tiles_rows : query_rows)(f, i0);
    write_block(f, i0);
    lb_end(b, i0);
}

// The outermost axis from which on all queries have the same keys and values: those of grouped heads do.
static int shared_from(const attention *a) {
    const expr *condition = excluding_condition(a);
    int axis = a->i;
    while (axis > 0 && !expr_uses_axis(a->key, axis - 1) && !expr_uses_axis(a->v, axis - 1) &&
           !(condition && expr_uses_axis(condition, axis - 1)))
        axis--;
    return axis;
}

static void outer_loops(flash *f, int depth) {
    emitter *e = f->e;
    bool packs = !f->few && depth == f->packed_at;
    ins *all = f->nj;
    if (packs) pack_seen_keys(f);
    if (depth == f->a->i) {
        (f->few ? few_rows : head)(f);
    } else if (f->few && depth == f->shared) {
        outer_loops(f, depth + 1);
    } else {
        scope loop = scope_parallel(e, depth);
        outer_loops(f, depth + 1);
        scope_close(e, loop);
    }
    if (packs) f->nj = all;
}

// Fixed-size blocks first, then those that grow with the number of keys.
static void divide_scratch(flash *f, ins *scratch) {
    lbuild *b = f->b;
    int64_t at = 0;
    ins **fixed[] = {&f->scores, &f->acc, &f->query, &f->top, &f->sum};
    int64_t floats[] = {ROWS * KEYS, ROWS * f->padded, (ROWS * f->depth + 15) / 16 * 16, ROWS, ROWS};
    for (int j = 0; j < 5; at += 4 * floats[j++]) *fixed[j] = lb_offset(b, scratch, lb_idx(b, at), 1);
    f->values = lb_offset(b, scratch, lb_idx(b, at), 1);
    ins *blocks = emit_int_op(b, X_FLOORDIV, idx_addk(b, f->nj, KEYS - 1), lb_idx(b, KEYS));
    f->keys = lb_offset(b, f->values, idx_mulk(b, blocks, KEYS * f->padded), 4);
}

static flash flash_of(emitter *e, const attention *a) {
    flash f = {.e = e, .a = a, .b = &e->b, .vec = lt(LK_F32, a->lanes)};
    f.depth = dim_value(a->k->axes.at[a->d].extent), f.width = dim_value(a->k->axes.at[a->e].extent);
    f.padded = round_up(f.width, a->lanes);
    f.nj = emit_dim(e, a->k->axes.at[a->j].extent);
    f.packed_at = shared_from(a);
    e->state = ARENA_ARRAY(e->scratch, ins *, 1);
    emitter_stage(e, a->value, -1, 1, false);
    f.out = access_make(e, a->value->writes.at[0].to, a->value->writes.at[0].index);
    return f;
}

static void many_rows(emitter *e, const attention *a, ins *scratch) {
    flash f = flash_of(e, a);
    if (a->tiles) attention_tiles_begin(&f, scratch);
    else divide_scratch(&f, scratch);
    outer_loops(&f, 0);
    if (a->tiles) attention_tiles_end(&f);
}

// For few rows (decoding), packing the keys does not pay off.
static void rows_in_place(emitter *e, const attention *a, ins *scratch) {
    attention plain = *a;
    plain.tiles = plain.blocks = false;
    flash f = flash_of(e, &plain);
    f.few = true;
    if (!a->few) {
        schedule_rows_one_by_one(e);
        return;
    }
    attention_few_begin(&f, scratch);
    outer_loops(&f, 0);
}

void schedule_attention(emitter *e, const attention *a, ins *scratch) {
    dim *rows = e->k->axes.at[a->i].extent;
    if (a->many && rows->min >= FEW_ROWS) {
        many_rows(e, a, scratch);
        return;
    }
    if (!a->many) {
        rows_in_place(e, a, scratch);
        return;
    }
    scope many = scope_if(e, lb_cmp(&e->b, L_SLE, lb_idx(&e->b, FEW_ROWS), emit_dim(e, rows)));
    many_rows(e, a, scratch);
    scope_else(e, many);
    rows_in_place(e, a, scratch);
    scope_close(e, many);
}
