// Attention with matrix tiles (--precision=bf16). Q, K, V and the weights P are bf16 in the layout of tiles
// (ir/loops/loops_tiles.h): pairs along d in Kt and along j in V, in panels of 16 columns.
//
//   for i0 in steps of two tiles' rows:
//     pack Q
//     for j0 in steps of `span` keys:
//       S = Q Kt                                 f32
//       for rows: S = f(S), m = max S;  with several blocks m = max(m, old m), l and acc times exp(old m - m)
//       for rows: P = exp(S - m), l += sum P     P in the memory of S
//       acc += P V
//
// If all keys fit one block, nothing is scaled again. Reading the sums of a product stalls the unit: those of two
// tiles of columns are stored between the first products of the next two.
#include "compiler/base/integers.h"
#include "ir/kernel/program.h"
#include "ir/loops/convert.h"
#include "passes/schedule/cpu/schedule_attention_impl.h"
#include "passes/schedule/cpu/schedule_transpose.h"
#include <math.h>

// bf16 elements of a tile's row; columns of a panel; keys in a block: S, P and the tiles of V fit the L1 cache.
enum { PAIRED = 2 * TILE_ROWS, PANEL_COLUMNS = TILE_BYTES / TILE_GROUP, MOST_KEYS = 256 };

bool attention_has_tiles(const attention *a, const target *t) {
    return t->amx_bf16 && t->precision == PRECISION_BF16 && a->lanes == PANEL_COLUMNS;
}

// ---------------------------------------------------------------- sizes
static dim *keys_of(const attention *a) { return a->k->axes.at[a->j].extent; }

static int64_t span_of(const attention *a) {
    int64_t most = keys_of(a)->max;
    if (most <= MOST_KEYS) return round_up(most > 0 ? most : 1, PAIRED);
    if (!dim_is_const(keys_of(a))) return MOST_KEYS;
    int64_t blocks = (most + MOST_KEYS - 1) / MOST_KEYS;
    return round_up((most + blocks - 1) / blocks, PAIRED);
}

static bool is_one_block(const attention *a) { return keys_of(a)->min > 0 && keys_of(a)->max <= span_of(a); }

// Elements of a row of S: rows that are a power of two apart would share few sets of the cache.
static int64_t pitch_of(const attention *a) { return span_of(a) + a->lanes; }

static int64_t depth_of(const attention *a) {
    return round_up(dim_value(a->k->axes.at[a->d].extent), PAIRED);
}
static int64_t width_of(const attention *a) {
    return round_up(dim_value(a->k->axes.at[a->e].extent), a->lanes);
}

dim *attention_tiles_scratch(const attention *a) {
    int64_t fixed = FLASH_ROWS * (4 * (pitch_of(a) + width_of(a) + 2 * a->lanes) + 2 * depth_of(a));
    dim *blocks = dim_ceildiv(keys_of(a), dim_const(a->k->program->dims, PAIRED));
    return dim_addk(dim_mulk(blocks, 2 * PAIRED * (width_of(a) + depth_of(a))), fixed);
}

static ins *padded_keys(flash *f) {
    ins *blocks = emit_int_op(f->b, X_FLOORDIV, idx_addk(f->b, f->nj, PAIRED - 1), lb_idx(f->b, PAIRED));
    return idx_mulk(f->b, blocks, PAIRED);
}

static ins *bytes_from(flash *f, ins *p, ins *bytes) { return lb_offset(f->b, p, bytes, 1); }

void attention_tiles_begin(flash *f, ins *scratch) {
    const attention *a = f->a;
    int64_t at = 0;
    struct {
        ins **to;
        int64_t bytes;
    } fixed[] = {{&f->scores, 4 * pitch_of(a)},
                 {&f->acc, 4 * f->padded},
                 {&f->query, 2 * depth_of(a)},
                 {&f->top, 4 * a->lanes},
                 {&f->sum, 4 * a->lanes}};
    for (int j = 0; j < 5; at += FLASH_ROWS * fixed[j++].bytes)
        *fixed[j].to = bytes_from(f, scratch, lb_idx(f->b, at));
    f->values = bytes_from(f, scratch, lb_idx(f->b, at));
    f->keys = bytes_from(f, f->values, idx_mulk(f->b, padded_keys(f), 2 * f->padded));
    static const tile_shape whole = {TILE_ROWS, TILE_BYTES};
    tile_shape shapes[TILES];
    for (int j = 0; j < TILES; j++) shapes[j] = whole;
    ins *config = lb_local(f->b, LK_I64, TILE_CONFIG_BYTES / 8, TILE_CONFIG_BYTES, false);
    lb_tile_shapes(f->b, config, shapes);
    f->e->code->has_tiles = true;
}

void attention_tiles_end(flash *f) { lb_tile_release(f->b); }

// ---------------------------------------------------------------- packing
// The bits of bf16 that load_element has widened to x; NULL: another x.
static ins *widened_bits(const ins *x) {
    const ins *up = x->op == L_BITCAST ? x->args[0] : x;
    if (up->op != L_SHL || up->args[1]->op != L_CONST || up->args[1]->i != 16) return NULL;
    const ins *from = up->args[0];
    return from->op == L_ZEXT && from->args[0]->type.kind == LK_I16 ? from->args[0] : NULL;
}

static ins *as_bf16(flash *f, ins *x) {
    ins *bits = widened_bits(x);
    return bits ? lb_conv(f->b, L_BITCAST, LK_BF16, bits) : lb_conv(f->b, L_FTRUNC, LK_BF16, x);
}

// Two vectors of f32 as one of pairs of bf16: the elements of x, then those of y; or interleaved.
static ins *as_pairs(flash *f, ins *x, ins *y, bool interleaved) {
    int lanes = f->a->lanes, *mask = ARENA_ARRAY(f->b->arena, int, 2 * lanes);
    for (int j = 0; j < 2 * lanes; j++) mask[j] = interleaved ? j / 2 + j % 2 * lanes : j;
    ins *both = lb_shuffle(f->b, as_bf16(f, x), as_bf16(f, y), mask, 2 * lanes);
    return lb_bitcast(f->b, lt(LK_I32, lanes), both);
}

// Pairs d .. d + PAIRED of a key.
static ins *key_pairs(flash *f, int64_t d) {
    const attention *a = f->a;
    int64_t next = d + a->lanes;
    ins *low = flash_elements(f, a->score, a->key, a->d, d, f->depth - d);
    return as_pairs(f, low, flash_elements(f, a->score, a->key, a->d, next, f->depth - next), false);
}

// A row of Kt's panel is a pair of d for 16 keys. Past the end, the last key is repeated: nobody looks at its
// scores there.
static void pack_keys(flash *f) {
    emitter *e = f->e;
    lbuild *b = f->b;
    const attention *a = f->a;
    ins *j0 = flash_loop(f, "j", lb_idx(b, 0), f->stored, PANEL_COLUMNS), *last = idx_addk(b, f->nj, -1),
        *panel = idx_mulk(b, j0, depth_of(a) / 2), *row[PANEL_COLUMNS];
    for (int64_t d = 0; d < f->depth; d += PAIRED) {
        for (int j = 0; j < PANEL_COLUMNS; j++) {
            e->counter[a->j] = lb_bin(b, L_SMIN, idx_addk(b, j0, j), last);
            row[j] = key_pairs(f, d);
        }
        transpose_rows(b, row, PANEL_COLUMNS);
        for (int j = 0; j < PANEL_COLUMNS; j++)
            lb_store(b, f->keys, idx_addk(b, panel, (d / 2 + j) * PANEL_COLUMNS), row[j], 0);
    }
    e->counter[a->j] = NULL;
    lb_end(b, j0);
}

// Words (pairs) from one panel of V to the next.
static ins *value_panel(flash *f) { return idx_mulk(f->b, f->stored, PANEL_COLUMNS / 2); }

// Rows j and j + 1 of V interleaved; rows that do not exist (`rows` do) are 0.
static void pack_value_pair(flash *f, ins *j, int rows) {
    emitter *e = f->e;
    lbuild *b = f->b;
    const attention *a = f->a;
    ins *pair = emit_int_op(b, X_FLOORDIV, j, lb_idx(b, 2)), *panel = value_panel(f);
    for (int64_t c = 0; c < f->padded; c += a->lanes) {
        ins *row[2];
        for (int i = 0; i < 2; i++) {
            e->counter[a->jv] = idx_addk(b, j, i);
            row[i] = flash_elements(f, a->value, a->v, a->e, c, i < rows ? f->width - c : 0);
        }
        ins *at = lb_add(b, idx_mulk(b, panel, c / a->lanes), idx_mulk(b, pair, PANEL_COLUMNS));
        lb_store(b, f->values, at, as_pairs(f, row[0], row[1], true), 0);
    }
    e->counter[a->jv] = NULL;
}

static void pack_values(flash *f) {
    lbuild *b = f->b;
    ins *even = emit_int_floor(b, f->nj, 2), *after = idx_addk(b, even, 2);
    ins *j = flash_loop(f, "j", lb_idx(b, 0), even, 2);
    pack_value_pair(f, j, 2);
    lb_end(b, j);
    ins *odd = lb_cmp(b, L_SLT, even, f->nj), *one = lb_if(b, odd);
    pack_value_pair(f, even, 1);
    lb_end(b, one);
    j = flash_loop(f, "j", lb_select(b, odd, after, even), f->stored, 2);
    pack_value_pair(f, j, 0);
    lb_end(b, j);
}

void attention_tiles_pack(flash *f) {
    f->stored = padded_keys(f);
    pack_keys(f);
    pack_values(f);
}

static void pack_query(flash *f, ins *i0) {
    emitter *e = f->e;
    lbuild *b = f->b;
    const attention *a = f->a;
    int64_t depth = depth_of(a);
    ins *r = flash_loop(f, "row", lb_idx(b, 0), f->rows, 1), *row = idx_mulk(b, r, depth);
    e->counter[a->i] = lb_add(b, i0, r);
    for (int64_t d = 0; d < depth; d += a->lanes)
        lb_store(b, f->query, idx_addk(b, row, d),
                 as_bf16(f, flash_elements(f, a->score, a->q, a->d, d, f->depth - d)), 0);
    e->counter[a->i] = NULL;
    lb_end(b, r);
}

// ---------------------------------------------------------------- products
// c (+)= a b for two tiles of rows: steps of PAIRED along K, b in panels.
typedef struct tile_product {
    ins *a, *b, *c, *panel; // pointers; bytes from one panel of b to the next
    int64_t lda, ldc;       // bytes
    ins *steps, *panels;    // at least one of each
    bool add;
} tile_product;

enum { TILE_A = 4, TILE_B = 6 };
// Of the sum of a tile of rows by a tile of columns.
static int sum_of(int row, int column) { return 2 * column + row; }
static ins *sum_at(flash *f, const tile_product *p, ins *first, int row, int column) {
    ins *at = idx_mulk(f->b, first, TILE_BYTES);
    return bytes_from(f, p->c, idx_addk(f->b, at, row * TILE_ROWS * p->ldc + column * TILE_BYTES));
}

static void store_sum(flash *f, const tile_product *p, ins *first, int row, int column) {
    lb_tile_store(f->b, sum_of(row, column), sum_at(f, p, first, row, column), lb_idx(f->b, p->ldc));
}

// Step k of panels first .. first + columns. In the first step (`begins`), each sum of the panels `before`
// (NULL: none) is stored before its tile is used again.
static void tile_step(flash *f, const tile_product *p, ins *first, int columns, ins *k, bool begins,
                      ins *before) {
    lbuild *b = f->b;
    ins *in_panel = idx_mulk(b, k, TILE_ROWS * TILE_BYTES), *in_row = idx_mulk(b, k, TILE_BYTES);
    for (int column = 0; column < columns; column++)
        for (int row = 0; row < 2; row++) {
            int c = sum_of(row, column);
            ins *panel = lb_mul(b, idx_addk(b, first, column), p->panel);
            if (!column)
                lb_tile_load(b, TILE_A + row,
                             bytes_from(f, p->a, idx_addk(b, in_row, row * TILE_ROWS * p->lda)),
                             lb_idx(b, p->lda));
            if (!row)
                lb_tile_load(b, TILE_B + column, bytes_from(f, p->b, lb_add(b, panel, in_panel)),
                             lb_idx(b, TILE_BYTES));
            if (before) store_sum(f, p, before, row, column);
            if (begins && p->add) lb_tile_load(b, c, sum_at(f, p, first, row, column), lb_idx(b, p->ldc));
            else if (begins) lb_tile_zero(b, c);
            lb_tile_dot(b, L_TILE_BF16, c, TILE_A + row, TILE_B + column);
        }
}

static void tile_columns(flash *f, const tile_product *p, ins *first, int columns, ins *before) {
    lbuild *b = f->b;
    ins *one = lb_idx(b, 1);
    tile_step(f, p, first, columns, lb_idx(b, 0), true, before);
    if (same_index(p->steps, one)) return;
    ins *k = flash_loop(f, "k", one, p->steps, 1);
    tile_step(f, p, first, columns, k, false, NULL);
    lb_end(b, k);
}

static void store_sums(flash *f, const tile_product *p, ins *first, int columns) {
    for (int column = 0; column < columns; column++)
        for (int row = 0; row < 2; row++) store_sum(f, p, first, row, column);
}

// All panels but an odd one at the end.
static void pairs_of_panels(flash *f, const tile_product *p, ins *panels) {
    lbuild *b = f->b;
    ins *two = lb_idx(b, 2);
    tile_columns(f, p, lb_idx(b, 0), 2, NULL);
    if (!same_index(panels, two)) {
        ins *c = flash_loop(f, "panel", two, panels, 2);
        tile_columns(f, p, c, 2, idx_addk(b, c, -2));
        lb_end(b, c);
    }
    store_sums(f, p, idx_addk(b, panels, -2), 2);
}

static void multiply_tiles(flash *f, const tile_product *p, bool odd) {
    lbuild *b = f->b;
    ins *last = idx_addk(b, p->panels, -1), *pairs = odd ? last : p->panels;
    if (!same_index(pairs, lb_idx(b, 0))) pairs_of_panels(f, p, pairs);
    if (!odd) return;
    tile_columns(f, p, last, 1, NULL);
    store_sums(f, p, last, 1);
}

// ---------------------------------------------------------------- softmax of one block
typedef struct keys_block {
    flash *f;
    ins *j0, *n;    // first key, how many
    ins *i, *row;   // query and its row in the block
    ins *top, *sum; // of this row: variables of vectors, then a vector
    bool changed;   // f(S) is stored
} keys_block;

static ins *score_at(keys_block *x, ins *c) {
    return lb_add(x->f->b, idx_mulk(x->f->b, x->row, pitch_of(x->f->a)), c);
}

// After less than a microsecond without products the unit slows down, and the next hundred take several times as
// long: one for nothing keeps it awake. No sum is in a tile between two products of blocks.
static void stay_awake(flash *f) { lb_tile_dot(f->b, L_TILE_BF16, sum_of(0, 0), TILE_A, TILE_B); }

// Calls do_vector for all vectors of a row of scores; left: elements of a last one that is not full.
static void each_vector(keys_block *x, void (*do_vector)(keys_block *x, ins *c, ins *left)) {
    enum { JAM = 4 };
    flash *f = x->f;
    lbuild *b = f->b;
    int64_t lanes = f->a->lanes;
    ins *many = emit_int_floor(b, x->n, JAM * lanes), *full = emit_int_floor(b, x->n, lanes);
    ins *c = flash_loop(f, "col", lb_idx(b, 0), many, JAM * lanes);
    for (int v = 0; v < JAM; v++) do_vector(x, idx_addk(b, c, v * lanes), NULL);
    lb_end(b, c);
    c = flash_loop(f, "col", many, full, lanes);
    do_vector(x, c, NULL);
    lb_end(b, c);
    if (same_index(full, x->n)) return;
    ins *some = lb_if(b, lb_cmp(b, L_SLT, full, x->n));
    do_vector(x, full, lb_sub(b, x->n, full));
    lb_end(b, some);
}

// f(S) and its maximum but for NaN, which reaches the sum; lanes past the last key are -inf.
static void mask_vector(keys_block *x, ins *c, ins *left) {
    flash *f = x->f;
    emitter *e = f->e;
    lbuild *b = f->b;
    const attention *a = f->a;
    ins *at = score_at(x, c);
    scope mark = scope_open(e);
    e->counter[a->j] = lb_add(b, x->j0, c);
    e->active = left;
    e->state[0] = lb_load(b, f->vec, f->scores, at, 0);
    ins *s = emit_vector(e, a->score->writes.at[0].value);
    if (left) s = lb_select(b, flash_first_lanes(f, left), s, lb_float(b, f->vec, -INFINITY));
    if (s != e->state[0]) lb_store(b, f->scores, at, s, 0);
    lb_set(b, x->top, lb_bin(b, L_FMAX, s, lb_get(b, x->top)));
    e->active = NULL;
    e->counter[a->j] = NULL;
    scope_close(e, mark);
}

static void weigh_vector(keys_block *x, ins *c, ins *left) {
    (void)left;
    flash *f = x->f;
    lbuild *b = f->b;
    ins *s = lb_load(b, f->vec, f->scores, score_at(x, c), 0), *p = math_weight(b, lb_sub(b, s, x->top));
    ins *at = lb_add(b, idx_mulk(b, x->row, 2 * pitch_of(f->a)), c);
    lb_store(b, f->scores, at, as_bf16(f, p), 0);
    lb_set(b, x->sum, lb_add(b, lb_get(b, x->sum), p));
}

// The maximum of all lanes in each lane.
static ins *top_of_lanes(flash *f, ins *x) {
    int lanes = f->a->lanes, *mask = ARENA_ARRAY(f->b->arena, int, 4 * lanes);
    for (int bit = lanes / 2; bit; bit /= 2, mask += lanes) {
        for (int j = 0; j < lanes; j++) mask[j] = j ^ bit;
        x = lb_bin(f->b, L_FMAX, x, lb_shuffle(f->b, x, x, mask, lanes));
    }
    return x;
}

// No key allowed so far: any finite number keeps exp(-inf - top) = 0.
static ins *finite_top(flash *f, ins *top) {
    ins *none = lb_cmp(f->b, L_EQ, top, lb_float(f->b, f->vec, -INFINITY));
    return lb_select(f->b, none, lb_float(f->b, f->vec, 0), top);
}

static ins *lanes_of(flash *f, ins *row) { return idx_mulk(f->b, row, f->a->lanes); }

// Results of the blocks before, for the larger of both maxima.
static ins *rescale_row(flash *f, ins *row, ins *top) {
    lbuild *b = f->b;
    ins *at = lanes_of(f, row), *old = lb_load(b, f->vec, f->top, at, 0);
    top = lb_bin(b, L_FMAX, top, old);
    ins *factor = math_weight(b, lb_sub(b, old, finite_top(f, top)));
    lb_store(b, f->sum, at, lb_mul(b, lb_load(b, f->vec, f->sum, at, 0), factor), 0);
    for (int64_t c = 0; c < f->padded; c += f->a->lanes) {
        ins *to = idx_addk(b, idx_mulk(b, row, f->padded), c);
        lb_store(b, f->acc, to, lb_mul(b, lb_load(b, f->vec, f->acc, to, 0), factor), 0);
    }
    return top;
}

static void find_tops(keys_block *x, ins *i0) {
    flash *f = x->f;
    emitter *e = f->e;
    lbuild *b = f->b;
    emitter_stage(e, f->a->score, f->a->j, f->a->lanes, true);
    ins *r = flash_loop(f, "row", lb_idx(b, 0), f->rows, 1);
    scope mark = scope_open(e);
    x->row = r, e->counter[f->a->i] = lb_add(b, i0, r);
    x->top = lb_var(b, "top", lb_float(b, f->vec, -INFINITY));
    each_vector(x, mask_vector);
    ins *top = top_of_lanes(f, lb_get(b, x->top));
    stay_awake(f);
    if (!is_one_block(f->a)) top = rescale_row(f, r, top);
    lb_store(b, f->top, lanes_of(f, r), top, 0);
    e->counter[f->a->i] = NULL;
    scope_close(e, mark);
    lb_end(b, r);
}

// Weights past the last key are 0 up to whole tiles.
static void weigh_rows(keys_block *x) {
    flash *f = x->f;
    lbuild *b = f->b;
    int lanes = f->a->lanes;
    ins *r = flash_loop(f, "row", lb_idx(b, 0), f->rows, 1), *at = lanes_of(f, r);
    x->row = r;
    x->top = finite_top(f, lb_load(b, f->vec, f->top, at, 0));
    x->sum = lb_var(b, "sum", lb_float(b, f->vec, 0));
    each_vector(x, weigh_vector);
    if (x->n->op != L_CONST || x->n->i % PAIRED) {
        ins *after =
            idx_mulk(b, emit_int_op(b, X_FLOORDIV, idx_addk(b, x->n, lanes - 1), lb_idx(b, lanes)), lanes);
        ins *to = lb_add(b, idx_mulk(b, r, 2 * pitch_of(f->a)), after);
        lb_store(b, f->scores, to, as_bf16(f, lb_float(b, f->vec, 0)), 0);
    }
    stay_awake(f);
    ins *sum = lb_get(b, x->sum);
    if (!is_one_block(f->a)) sum = lb_add(b, sum, lb_load(b, f->vec, f->sum, at, 0));
    lb_store(b, f->sum, at, sum, 0);
    lb_end(b, r);
}

// ---------------------------------------------------------------- a block of queries
// Rows past the last query are multiplied, too, and not written.
static void block_of_keys(flash *f, ins *i0, ins *j0, ins *n) {
    lbuild *b = f->b;
    const attention *a = f->a;
    int64_t key_row = 2 * depth_of(a); // bytes of a key or query
    ins *steps = emit_int_op(b, X_FLOORDIV, idx_addk(b, n, PAIRED - 1), lb_idx(b, PAIRED));
    tile_product scores = {.a = f->query,
                           .b = bytes_from(f, f->keys, idx_mulk(b, j0, key_row)),
                           .c = f->scores,
                           .panel = lb_idx(b, PANEL_COLUMNS * key_row),
                           .lda = key_row,
                           .ldc = 4 * pitch_of(a),
                           .steps = lb_idx(b, depth_of(a) / PAIRED),
                           .panels = idx_mulk(b, steps, PAIRED / PANEL_COLUMNS)};
    multiply_tiles(f, &scores, false);
    keys_block x = {.f = f, .j0 = j0, .n = n};
    find_tops(&x, i0);
    weigh_rows(&x);
    int64_t panels = f->padded / PANEL_COLUMNS;
    tile_product values = {.a = f->scores,
                           .b = bytes_from(f, f->values, idx_mulk(b, j0, 2 * PANEL_COLUMNS)),
                           .c = f->acc,
                           .panel = idx_mulk(b, value_panel(f), TILE_GROUP),
                           .lda = 4 * pitch_of(a),
                           .ldc = 4 * f->padded,
                           .steps = steps,
                           .panels = lb_idx(b, panels),
                           .add = !is_one_block(a)};
    multiply_tiles(f, &values, panels % 2);
}

static void clear_rows(flash *f) {
    lbuild *b = f->b;
    ins *r = flash_loop(f, "row", lb_idx(b, 0), f->rows, 1), *zero = lb_float(b, f->vec, 0);
    lb_store(b, f->top, lanes_of(f, r), lb_float(b, f->vec, -INFINITY), 0);
    lb_store(b, f->sum, lanes_of(f, r), zero, 0);
    for (int64_t c = 0; c < f->padded; c += f->a->lanes)
        lb_store(b, f->acc, idx_addk(b, idx_mulk(b, r, f->padded), c), zero, 0);
    lb_end(b, r);
}

// The keys that these queries see, from whole tiles on; at least one, which shows rows that see none.
static void seen_keys(flash *f, ins *i0, ins **begin, ins **end) {
    lbuild *b = f->b;
    ins *zero = lb_idx(b, 0);
    row_block rows = {f->a->i, i0, idx_addk(b, lb_add(b, i0, f->rows), -1)};
    *begin = zero, *end = f->nj;
    flash_key_range(f, &rows, begin, end);
    if (*begin != zero) {
        ins *most = lb_bin(b, L_SMAX, idx_addk(b, f->nj, -1), zero);
        *begin = emit_int_floor(b, lb_bin(b, L_SMIN, *begin, most), PAIRED);
    }
    if (*end != f->nj) *end = lb_bin(b, L_SMIN, lb_bin(b, L_SMAX, *end, idx_addk(b, *begin, 1)), f->nj);
}

void attention_tiles_rows(flash *f, ins *i0) {
    lbuild *b = f->b;
    int64_t span = span_of(f->a);
    ins *begin, *end;
    seen_keys(f, i0, &begin, &end);
    pack_query(f, i0);
    if (is_one_block(f->a)) {
        block_of_keys(f, i0, lb_idx(b, 0), end);
        return;
    }
    clear_rows(f);
    ins *full = lb_add(b, begin, emit_int_floor(b, lb_sub(b, end, begin), span)),
        *j0 = flash_loop(f, "j", begin, full, span);
    block_of_keys(f, i0, j0, lb_idx(b, span));
    lb_end(b, j0);
    ins *some = lb_if(b, lb_cmp(b, L_SLT, full, end));
    block_of_keys(f, i0, full, lb_sub(b, end, full));
    lb_end(b, some);
}

// ---------------------------------------------------------------- results
ins *attention_tiles_sum(flash *f, ins *row) {
    return lb_hreduce(f->b, L_HADD, lb_load(f->b, f->vec, f->sum, lanes_of(f, row), 0));
}

// NaN where there is no other score, too.
ins *attention_tiles_top(flash *f, ins *row) {
    lbuild *b = f->b;
    ltype one = lt(LK_F32, 1);
    ins *top = lb_load(b, one, f->top, lanes_of(f, row), 4), *sum = attention_tiles_sum(f, row);
    ins *none = lb_cmp(b, L_EQ, top, lb_float(b, one, -INFINITY));
    return lb_select(b, lb_bin(b, L_AND, none, lb_cmp(b, L_NE, sum, sum)), sum, top);
}
