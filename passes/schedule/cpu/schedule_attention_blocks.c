// Attention of schedule_attention.c with products of blocks in vector registers (ir/loops/loops_blocks.h), where
// --precision=bf16 allows it: queries, keys, values and weights are bf16, in rows or in groups of four:
//
//   Q[ROWS][d], Kt[block][d / 4][KEYS][4], V[j / 4][E][4], P[ROWS][KEYS] in the memory of the scores
#include "compiler/base/integers.h"
#include "ir/loops/convert.h"
#include "ir/loops/loops_blocks.h"
#include "passes/schedule/cpu/schedule_attention_impl.h"

// Elements of a group, of a step along K: a register of bf16.
enum { GROUP = 2 * BLOCK_WORDS, STEP = 2 * GROUP, TILE_ROWS_MOST = 4, TILE_VECTORS = 4 };

bool attention_has_blocks(const attention *a, const target *t) {
    const dim *depth = a->k->axes.at[a->d].extent;
    return t->bf16mm && rounds_to_bf16(t, BLOCK_LANES) && t->precision == PRECISION_BF16 &&
           a->lanes == BLOCK_LANES && dim_is_const(depth) && dim_value(depth) % STEP == 0;
}

// ---------------------------------------------------------------- packing
static ins *as_bf16(flash *f, ins *x) { return lb_conv(f->b, L_FTRUNC, LK_BF16, x); }

// Elements column .. column + 4 of x along its axis in bf16; active: how many exist, NULL: all.
static ins *rounded(flash *f, const stage *s, expr *x, int axis, ins *column, ins *active) {
    emitter *e = f->e;
    emitter_stage(e, s, axis, BLOCK_LANES, false);
    scope mark = scope_open(e);
    e->counter[axis] = column;
    e->active = active;
    ins *v = as_bf16(f, emit_vector(e, x));
    e->active = NULL;
    e->counter[axis] = NULL;
    scope_close(e, mark);
    return v;
}

// Past the end, the last key is repeated: its scores there are replaced.
static void pack_keys(flash *f) {
    lbuild *b = f->b;
    const attention *a = f->a;
    ins *all = idx_mulk(
        b, emit_int_op(b, X_FLOORDIV, idx_addk(b, f->nj, FLASH_KEYS - 1), lb_idx(b, FLASH_KEYS)), FLASH_KEYS);
    ins *j = flash_loop(f, "j", lb_idx(b, 0), all, 1);
    ins *block = emit_int_op(b, X_FLOORDIV, j, lb_idx(b, FLASH_KEYS)),
        *inside = emit_int_op(b, X_MOD, j, lb_idx(b, FLASH_KEYS));
    ins *base = lb_add(b, idx_mulk(b, block, FLASH_KEYS * f->depth), idx_mulk(b, inside, GROUP));
    ins *d = flash_loop(f, "d", lb_idx(b, 0), lb_idx(b, f->depth), GROUP);
    f->e->counter[a->j] = lb_bin(b, L_SMIN, j, idx_addk(b, f->nj, -1));
    ins *group = rounded(f, a->score, a->key, a->d, d, NULL);
    lb_store(b, f->keys, lb_add(b, base, idx_mulk(b, d, FLASH_KEYS)), group, 0);
    f->e->counter[a->j] = NULL;
    lb_end(b, d);
    lb_end(b, j);
}

// Columns c .. c + 4 of rows j .. j + 4, those past the last key 0.
static void pack_group(flash *f, ins *j, int64_t c) {
    lbuild *b = f->b;
    const attention *a = f->a;
    ins *row[GROUP], *pair[2];
    for (int r = 0; r < GROUP; r++) {
        ins *at = idx_addk(b, j, r), *zero = as_bf16(f, lb_float(b, f->vec, 0));
        f->e->counter[a->jv] = lb_bin(b, L_SMIN, at, idx_addk(b, f->nj, -1));
        ins *active = f->width - c < BLOCK_LANES ? lb_idx(b, f->width - c) : NULL;
        row[r] = rounded(f, a->value, a->v, a->e, lb_idx(b, c), active);
        row[r] = lb_select(b, lb_cmp(b, L_SLT, at, f->nj), row[r], zero);
        f->e->counter[a->jv] = NULL;
    }
    for (int p = 0; p < 2; p++)
        pair[p] =
            lb_bitcast(b, lt(LK_I32, BLOCK_LANES),
                       lb_shuffle(b, row[2 * p], row[2 * p + 1], (int[]){0, 4, 1, 5, 2, 6, 3, 7}, STEP));
    ins *to = lb_offset(b, f->values, lb_add(b, idx_mulk(b, j, f->padded), lb_idx(b, c * GROUP)), 2);
    lb_store(b, to, lb_idx(b, 0), lb_shuffle(b, pair[0], pair[1], (int[]){0, 4, 1, 5}, BLOCK_LANES), 4);
    lb_store(b, to, lb_idx(b, BLOCK_LANES), lb_shuffle(b, pair[0], pair[1], (int[]){2, 6, 3, 7}, BLOCK_LANES),
             4);
}

static ins *in_steps(flash *f, ins *n) { return emit_int_floor(f->b, idx_addk(f->b, n, STEP - 1), STEP); }

static void pack_values(flash *f) {
    ins *j = flash_loop(f, "j", lb_idx(f->b, 0), in_steps(f, f->nj), GROUP);
    for (int64_t c = 0; c < f->padded; c += BLOCK_LANES) pack_group(f, j, c);
    lb_end(f->b, j);
}

void attention_blocks_pack(flash *f) {
    pack_keys(f);
    pack_values(f);
}

void attention_blocks_pack_query(flash *f, ins *i0) {
    lbuild *b = f->b;
    const attention *a = f->a;
    ins *r = flash_loop(f, "row", lb_idx(b, 0), f->rows, 1),
        *d = flash_loop(f, "d", lb_idx(b, 0), lb_idx(b, f->depth), GROUP);
    f->e->counter[a->i] = lb_add(b, i0, r);
    ins *group = rounded(f, a->score, a->q, a->d, d, NULL);
    lb_store(b, f->query, lb_add(b, idx_mulk(b, r, f->depth), d), group, 0);
    f->e->counter[a->i] = NULL;
    lb_end(b, d);
    lb_end(b, r);
}

void attention_blocks_store_weights(flash *f, ins *row, ins *column, ins *weights) {
    ins *at = lb_add(f->b, idx_mulk(f->b, row, 2 * FLASH_KEYS), column);
    lb_store(f->b, f->scores, at, as_bf16(f, weights), 0);
}

// ---------------------------------------------------------------- products
// c[rows][...] (+)= a[rows][n] b[n / 4][...][4] on `vectors` columns from `column`; a and b in bf16.
typedef struct product {
    ins *a, *b, *c;
    int64_t lda, ldb, ldc;
    ins *n, *b_offset, *row, *column;
    int rows, vectors;
    bool add;
} product;

static const int left_half[BLOCK_LANES] = {0, 1, 4, 5}, right_half[BLOCK_LANES] = {2, 3, 6, 7};

static ins *result_at(flash *f, const product *p, int r, int v) {
    ins *row = idx_mulk(f->b, idx_addk(f->b, p->row, r), p->ldc);
    return lb_add(f->b, row, idx_addk(f->b, p->column, (int64_t)v * BLOCK_LANES));
}

static int second_row(const product *p, int r) { return r + 1 < p->rows ? r + 1 : r; }

static void begin_sums(flash *f, const product *p, ins **acc) {
    lbuild *b = f->b;
    for (int r = 0; r < p->rows; r += 2)
        for (int v = 0; v < p->vectors; v++) {
            ins *zero = lb_float(b, f->vec, 0), *one = zero, *two = zero;
            if (p->add) {
                one = lb_load(b, f->vec, p->c, result_at(f, p, r, v), 4);
                two = lb_load(b, f->vec, p->c, result_at(f, p, second_row(p, r), v), 4);
            }
            acc[r * p->vectors + v] = lb_var(b, "left", lb_shuffle(b, one, two, left_half, BLOCK_LANES));
            acc[(r + 1) * p->vectors + v] =
                lb_var(b, "right", lb_shuffle(b, one, two, right_half, BLOCK_LANES));
        }
}

static void store_sums(flash *f, const product *p, ins **acc) {
    lbuild *b = f->b;
    for (int r = 0; r < p->rows; r++)
        for (int v = 0; v < p->vectors; v++) {
            ins *left = lb_get(b, acc[r / 2 * 2 * p->vectors + v]),
                *right = lb_get(b, acc[(r / 2 * 2 + 1) * p->vectors + v]);
            ins *row = lb_shuffle(b, left, right, r % 2 ? right_half : left_half, BLOCK_LANES);
            lb_store(b, p->c, result_at(f, p, r, v), row, 4);
        }
}

static ins *load_words(flash *f, ins *from, ins *at) {
    return lb_load(f->b, lt(LK_I32, BLOCK_LANES), lb_offset(f->b, from, at, 2), lb_idx(f->b, 0), 4);
}

static void add_step(flash *f, const product *p, ins **acc, ins *k) {
    lbuild *b = f->b;
    ins *a[TILE_ROWS_MOST];
    ins *at_a = lb_add(b, idx_mulk(b, p->row, p->lda), k),
        *at_b = lb_add(b, lb_add(b, p->b_offset, idx_mulk(b, p->column, GROUP)), idx_mulk(b, k, p->ldb));
    for (int r = 0; r < p->rows; r++) a[r] = load_words(f, p->a, idx_addk(b, at_a, r * p->lda));
    for (int g = 0; g < STEP / GROUP; g++)
        for (int v = 0; v < 2 * p->vectors; v++) { // halves of vectors
            ins *fb = load_words(f, p->b, idx_addk(b, at_b, g * GROUP * p->ldb + (int64_t)v * STEP));
            for (int r = 0; r < p->rows; r += 2) {
                ins *fa = lb_shuffle(b, a[r], a[second_row(p, r)], g ? right_half : left_half, BLOCK_LANES);
                ins *var = acc[(r + v % 2) * p->vectors + v / 2];
                lb_set(b, var, lb_dot(b, L_BLOCK_BF16, lb_get(b, var), fa, fb));
            }
        }
}

static void register_tile(flash *f, const product *p) {
    ins *acc[TILE_ROWS_MOST * TILE_VECTORS];
    begin_sums(f, p, acc);
    ins *k = flash_loop(f, "k", lb_idx(f->b, 0), p->n, STEP);
    add_step(f, p, acc, k);
    lb_end(f->b, k);
    store_sums(f, p, acc);
}

static void product_rows(flash *f, product p, ins *begin, ins *end, int rows, int64_t columns) {
    int64_t wide = TILE_VECTORS * BLOCK_LANES, whole = columns / wide * wide;
    p.rows = rows;
    p.row = flash_loop(f, "row", begin, end, rows);
    if (whole) {
        p.vectors = TILE_VECTORS;
        p.column = flash_loop(f, "col", lb_idx(f->b, 0), lb_idx(f->b, whole), wide);
        register_tile(f, &p);
        lb_end(f->b, p.column);
    }
    if (columns > whole) {
        p.vectors = (int)(columns - whole) / BLOCK_LANES;
        p.column = lb_idx(f->b, whole);
        register_tile(f, &p);
    }
    lb_end(f->b, p.row);
}

static void all_rows(flash *f, const product *p, int64_t columns) {
    ins *full = emit_int_floor(f->b, f->rows, TILE_ROWS_MOST);
    product_rows(f, *p, lb_idx(f->b, 0), full, TILE_ROWS_MOST, columns);
    product_rows(f, *p, full, f->rows, 1, columns);
}

void attention_blocks_scores(flash *f, ins *j0) {
    lbuild *b = f->b;
    const product scores = {.a = f->query,
                            .b = f->keys,
                            .c = f->scores,
                            .lda = f->depth,
                            .ldb = FLASH_KEYS,
                            .ldc = FLASH_KEYS,
                            .n = lb_idx(b, f->depth),
                            .b_offset = idx_mulk(b, j0, f->depth)};
    all_rows(f, &scores, FLASH_KEYS);
}

void attention_blocks_values(flash *f, ins *j0, ins *n) {
    lbuild *b = f->b;
    const product values = {.a = f->scores,
                            .b = f->values,
                            .c = f->acc,
                            .lda = 2 * FLASH_KEYS,
                            .ldb = f->padded,
                            .ldc = f->padded,
                            .n = in_steps(f, n),
                            .b_offset = idx_mulk(b, j0, f->padded),
                            .add = true};
    all_rows(f, &values, f->padded);
}
