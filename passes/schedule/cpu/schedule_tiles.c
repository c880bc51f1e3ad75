// Contractions with matrix tiles (ir/loops/loops_tiles.h), in blocks of two tiles of rows by two of columns:
//
//   for batch axes, for n1 in steps of some blocks, for outer M axes, for m0 in steps of both tiles' rows,
//   for n0 in steps of 32:
//     for k in steps of a tile's width:
//       load A[m0 ..][k ..], A[m0 + rows ..][k ..], B[k ..][n0 ..], B[k ..][n0 + 16 ..];  four products
//     scratch = sums;  write f(scratch)
//
// Reading the sums at once and computing f after them would stall the unit. So the first step of a block
// stores each sum of the block before just before its first product, and the other steps write some rows of that
// block's results each, between their products.
//
// Rows of a block are two parts of one axis. If that axis is short, they are two positions of the next one, or all
// positions of an image in memory, with those between its rows, whose sums are not written. A last block
// that is not full begins earlier and writes only the rows that are left: another pass over B would take longer.
// If all rows fill no block, tiles have fewer.
#include "passes/schedule/cpu/schedule_tiles.h"
#include "ir/loops/convert.h"
#include "passes/schedule/cpu/schedule_groups.h"
#include "passes/schedule/cpu/schedule_tiles_impl.h"
#include "passes/schedule/cpu/schedule_words.h"
#include <string.h>

// ---------------------------------------------------------------- does it fit
static lop product_of(const emitter *e, const contraction *c) {
    static const lop by_sign[2][2] = {{L_TILE_UU8, L_TILE_US8}, {L_TILE_SU8, L_TILE_SS8}};
    dtype a = c->a->buffer->dtype, b = c->b->buffer->dtype;
    int elements = word_elements(c) ? 0 : group_elements(c);
    if (elements == 2) return e->t->amx_bf16 ? L_TILE_BF16 : L_COUNT;
    return elements && e->t->amx_int8 ? by_sign[a == DT_I8][b == DT_I8] : L_COUNT;
}

// The largest part of the innermost K axis that fits a row of a tile and divides the axis; 0: none.
static int chunk_of(const tiles *x, int64_t extent) {
    int most = TILE_BYTES / x->size, group = TILE_GROUP / x->size;
    if (extent < most) return extent % group == 0 ? (int)extent : 0;
    for (int n = most; n >= most / 2; n -= group)
        if (extent % n == 0) return n;
    return 0;
}

static bool k_fits(tiles *x) {
    const tiling *t = &x->t;
    x->steps = 1;
    for (int j = 0; j < t->k.n; j++) {
        const dim *d = t->e->extent[t->k.at[j]];
        if (!dim_is_const(d) || dim_value(d) < 1) return false;
        x->steps *= dim_value(d);
    }
    int last = t->k.n < 1 ? -1 : t->k.at[t->k.n - 1];
    if (last < 0 || (!x->parts && last != t->group_axis) || !steps_by_one(t->a, last)) return false;
    x->chunk = chunk_of(x, dim_value(t->e->extent[last]));
    if (!x->chunk) return false;
    x->steps /= x->chunk;
    return true;
}

static bool fits(tiles *x) {
    tiling *t = &x->t;
    const dim *n = t->e->extent[t->c->n];
    if (!dim_is_const(n) || t->tile_m < 0 || !t->packed || (t->group_axis < 0 && !x->parts)) return false;
    if (t->e->extent[t->tile_m]->max < LEAST_ROWS) return false;
    return (!x->parts || tile_parts_fit(x->parts, t)) && k_fits(x);
}

// ---------------------------------------------------------------- configuration
static int64_t in_each(int from, int n) {
    int64_t v = 0;
    for (int j = from; j < from + n; j++) v |= (int64_t)1 << 8 * j;
    return v;
}

static void configure(tiles *x) {
    lbuild *b = &x->t.e->b;
    int bytes = x->chunk * x->size;
    ins *heights = lb_idx(b, bytes / TILE_GROUP * in_each(TILE_B, 2));
    for (int j = 0; j < 2; j++) {
        ins *high = x->region->high[j] ? x->region->high[j] : lb_idx(b, 1);
        heights = lb_add(b, heights, idx_mulk(b, high, in_each(2 * j, 2) | in_each(TILE_A + j, 1)));
    }
    int64_t wide = TILE_BYTES * 0x1000100010001,
            narrow = bytes * 0x10001 | (int64_t)TILE_BYTES << 32 | (int64_t)TILE_BYTES << 48;
    const int64_t words[] = {1, 0, wide, narrow, 0, 0, 0, 0};
    for (int j = 0; j < 8; j++)
        lb_store(b, x->config, lb_idx(b, j), j == TILE_CONFIG_HEIGHTS / 8 ? heights : lb_idx(b, words[j]), 0);
    lb_tile_config(b, x->config);
}

// ---------------------------------------------------------------- a block
// Pairs of rows to write in a step.
static int64_t pairs_in_a_step(const tiles *x) {
    return x->steps < 2 ? TILE_ROWS : (TILE_ROWS + x->steps - 2) / (x->steps - 1);
}

typedef struct operands {
    ins *a[MOST_PARTS][2], *b[MOST_PARTS][2], *stride_a, *stride_b; // pointers by part, bytes
} operands;

static ins *bytes_at(tiles *x, const buffer *of, ins *at) {
    return lb_offset(&x->t.e->b, pointer_of(x->t.e, of), at, x->size);
}

// The distance from the first tile of rows to the second, in elements.
static ins *second_rows(tiles *x) {
    emitter *e = x->t.e;
    if (x->region->across) return emit_index(e, x->t.a->coef[x->r.pair_axis]);
    return lb_mul(&e->b, emit_index(e, x->t.row_stride), x->region->high[0]);
}

// The same in rows of parts, which may be closer than A's.
static ins *second_part(tiles *x, ins *first, ins *stride) {
    lbuild *b = &x->t.e->b;
    if (!x->parts->in_blocks) return lb_offset(b, first, second_rows(x), x->size);
    return lb_offset(b, first, lb_mul(b, x->region->high[0], stride), 1);
}

// Operands of which parts were made.
static operands operands_in_parts(tiles *x) {
    emitter *e = x->t.e;
    lbuild *b = &e->b;
    operands o = {.stride_a = stride_of_rows(x->parts, &x->t), .stride_b = lb_idx(b, TILE_BYTES)};
    for (int j = 0; j < x->parts->a; j++) {
        o.a[j][0] = part_of_rows(x->parts, &x->t, j);
        if (x->region->high[1]) o.a[j][1] = second_part(x, o.a[j][0], o.stride_a);
    }
    for (int j = 0; j < x->parts->b; j++)
        for (int i = 0; i < x->columns; i++) o.b[j][i] = part_of_panel(x->parts, &x->t, j, x->n0, i);
    return o;
}

static operands operands_of(tiles *x) {
    emitter *e = x->t.e;
    lbuild *b = &e->b;
    const tiling *t = &x->t;
    if (x->parts) return operands_in_parts(x);
    ins *a = emit_index(e, t->a->offset), *at = emit_index(e, t->b->offset);
    ins *panel = emit_int_op(b, X_FLOORDIV, x->n0, lb_idx(b, PANEL));
    at = lb_add(b, at, lb_mul(b, panel, t->panel_stride));
    operands o = {.stride_a = idx_mulk(b, emit_index(e, t->row_stride), x->size),
                  .stride_b = lb_idx(b, TILE_BYTES)};
    o.a[0][0] = bytes_at(x, t->c->a->buffer, a);
    o.b[0][0] = bytes_at(x, t->c->b->buffer, at);
    if (x->region->high[1]) o.a[0][1] = bytes_at(x, t->c->a->buffer, lb_add(b, a, second_rows(x)));
    if (x->columns > 1) o.b[0][1] = bytes_at(x, t->c->b->buffer, lb_add(b, at, t->panel_stride));
    return o;
}

// Panels that come from memory or a shared cache are fetched while the panels before them are multiplied, some
// lines in each step: here those of one of the parts of a step.
static void prefetch_part(tiles *x, int part, int parts) {
    lbuild *b = &x->t.e->b;
    int64_t begin = x->lines * part / parts, end = x->lines * (part + 1) / parts;
    if (begin == end) return;
    ins *at = lb_get(b, x->ahead), *from = pointer_of(x->t.e, x->t.c->b->buffer);
    for (int64_t j = 0; j < end - begin; j++) lb_prefetch(b, from, idx_addk(b, at, j * TILE_BYTES));
    lb_set(b, x->ahead, idx_addk(b, at, (end - begin) * TILE_BYTES));
}

// Of blocks that follow each other.
static int64_t columns_together(const tiles *x) {
    int64_t block = (int64_t)x->columns * COLUMNS;
    return x->wide > block ? x->wide : block;
}

// end: of the columns of the task. After the last panels of all there are those of the next product, as a rule.
static void begin_prefetch(tiles *x, ins *end) {
    emitter *e = x->t.e;
    lbuild *b = &e->b;
    if (!x->lines) return;
    ins *next = idx_addk(b, x->n1, columns_together(x));
    if (end->op != L_CONST) { // another thread multiplies by the panels after the last ones of this task
        ins *whole = lb_idx(b, dim_value(e->extent[x->t.c->n])), *own = lb_cmp(b, L_SLT, next, end);
        own = lb_bin(b, L_OR, own, lb_cmp(b, L_EQ, end, whole));
        next = lb_select(b, own, next, x->n1);
    }
    ins *panel = emit_int_op(b, X_FLOORDIV, next, lb_idx(b, PANEL));
    ins *bits = idx_mulk(b, lb_mul(b, panel, x->t.panel_stride), dtype_bits(x->t.c->b->buffer->dtype));
    lb_set(b, x->ahead, emit_int_op(b, X_FLOORDIV, bits, lb_idx(b, 8)));
}

// Lines of two panels, shared out to the steps of all blocks of rows; 0 if B fits the L2 cache.
static int64_t lines_ahead(const tiles *x) {
    enum { MOST = 4 };
    const tiling *t = &x->t;
    int64_t n = dim_value(t->e->extent[t->c->n]),
            panels = 2 * x->steps * x->chunk * dtype_bits(t->c->b->buffer->dtype) / 8 * COLUMNS,
            blocks = row_blocks(&x->t, &x->r);
    if (blocks == 0 || n <= WIDTH || panels / WIDTH * n <= L2_BYTES / 2) return 0;
    int64_t lines = (panels / TILE_BYTES + blocks * x->steps - 1) / (blocks * x->steps);
    return lines < MOST ? lines : MOST;
}

static part_products products_of(const tiles *x) {
    return x->parts ? products_of_parts(x->parts) : (part_products){.n = 1};
}

// Rows of pairs to be made after each product, so that each step makes those of the next one.
static int pairs_in_turn(const tiles *x, int products) {
    int all = x->chunk / 2, rows = (all + products - 1) / products;
    while (all % rows) rows++;
    return rows;
}

// The products of a step in the order in which their operands arrive: (0,0) (1,0) (0,1) (1,1).
static void step(tiles *x, bool first) {
    emitter *e = x->t.e;
    lbuild *b = &e->b;
    scope mark = scope_open(e);
    operands o = operands_of(x);
    part_products of = products_of(x);
    int64_t pairs = pairs_in_a_step(x), written = 0;
    int nrows = x->region->high[1] ? 2 : 1, products = of.n * nrows * x->columns;
    for (int j = 0; j < products; j++) {
        prefetch_part(x, j, products);
        int turn = j / (nrows * x->columns), column = j / nrows % x->columns, row = j % nrows;
        int c = accumulator(row, column), pa = of.part_a[turn], pb = of.part_b[turn];
        if (!column && !(turn && pa == of.part_a[turn - 1]))
            lb_tile_load(b, TILE_A + row, o.a[pa][row], o.stride_a);
        if (!row && !(turn && pb == of.part_b[turn - 1]))
            lb_tile_load(b, TILE_B + column, o.b[pb][column], o.stride_b);
        if (first && !turn) {
            store_sums(x, row, column);
            lb_tile_zero(b, c);
        }
        lb_tile_dot(b, x->product, c, TILE_A + row, TILE_B + column);
        if (x->parts) split_next_pairs(x->parts, &x->t, pairs_in_turn(x, products));
        int64_t due = pairs * (j + 1) / products;
        if (!first && due > written) write_rows(x, 2 * (due - written));
        written = due;
    }
    scope_close(e, mark);
}

// The only step of a block: the results of a row of tiles are written after its products, so that the unit works
// meanwhile. Long chains of arithmetic on other operands fill the processor's window as they are.
static void only_step(tiles *x) {
    emitter *e = x->t.e;
    lbuild *b = &e->b;
    scope mark = scope_open(e);
    operands o = operands_of(x);
    int rows = x->region->high[1] ? 2 : 1;
    prefetch_part(x, 0, 1);
    for (int row = 0; row < rows; row++) {
        lb_tile_load(b, TILE_A + row, o.a[0][row], o.stride_a);
        for (int column = 0; column < x->columns; column++) {
            int c = accumulator(row, column);
            if (!row) lb_tile_load(b, TILE_B + column, o.b[0][column], o.stride_b);
            store_sums(x, row, column);
            lb_tile_zero(b, c);
            lb_tile_dot(b, x->product, c, TILE_A + row, TILE_B + column);
        }
        if (row == rows - 1) write_rows_before(x, NULL);
        else if (x->simple) write_first_rows(x);
    }
    scope_close(e, mark);
}

// Position k of K from the end at which the block begins.
static ins *turned(tiles *x, ins *k, int64_t end) {
    lbuild *b = &x->t.e->b;
    return lb_select(b, x->back, lb_sub(b, lb_idx(b, end - x->chunk), k), k);
}

static void other_steps(tiles *x, int depth, int64_t begin);

// The positions of K from depth on; first: its first step is that of the block.
static void k_steps(tiles *x, int depth, bool first) {
    emitter *e = x->t.e;
    int axis = x->t.k.at[depth];
    bool inner = depth == x->t.k.n - 1;
    if (!first) {
        other_steps(x, depth, 0);
        return;
    }
    scope mark = scope_open(e);
    e->counter[axis] = lb_idx(&e->b, 0);
    if (x->back) e->counter[axis] = turned(x, e->counter[axis], dim_value(e->extent[axis]));
    if (inner && x->steps < 2 && !x->parts) only_step(x);
    else if (inner) step(x, true);
    else k_steps(x, depth + 1, true);
    scope_close(e, mark);
    e->counter[axis] = NULL;
    other_steps(x, depth, inner ? x->chunk : 1);
}

static void other_steps(tiles *x, int depth, int64_t begin) {
    emitter *e = x->t.e;
    int axis = x->t.k.at[depth];
    bool inner = depth == x->t.k.n - 1;
    int64_t end = dim_value(e->extent[axis]);
    if (begin >= end) return;
    scope loop =
        scope_axis(e, axis, lb_idx(&e->b, begin), lb_idx(&e->b, end), inner ? x->chunk : 1, LOOP_SERIAL);
    if (x->back) e->counter[axis] = turned(x, loop.head, end);
    if (inner) step(x, false);
    else k_steps(x, depth + 1, false);
    scope_close(e, loop);
}

// The rows of a block.
static ins *block_rows(const tiles *x) {
    const region *r = x->region;
    return r->high[1] ? lb_add(&x->t.e->b, r->high[0], r->high[1]) : r->high[0];
}

static void block(tiles *x) {
    emitter *e = x->t.e;
    lbuild *b = &e->b;
    scope mark = scope_open(e);
    k_steps(x, 0, true);
    if (x->parts && x->steps < 2) write_rows_before(x, NULL);
    scope_close(e, mark);
    for (int j = 0; j < e->k->axes.n; j++)
        if (x->old[j] && e->counter[j]) lb_set(b, x->old[j], e->counter[j]);
    lb_set(b, x->old_n, x->n0);
    lb_set(b, x->row, x->skip);
    lb_set(b, x->rows_left, block_rows(x));
}

// The last block of a region.
static void flush(tiles *x) {
    lbuild *b = &x->t.e->b;
    scope some = scope_if(x->t.e, lb_cmp(b, L_SLT, lb_get(b, x->row), lb_get(b, x->rows_left)));
    for (int column = 0; column < x->columns; column++)
        for (int row = 0; row < (x->region->high[1] ? 2 : 1); row++) store_sums(x, row, column);
    write_rows_before(x, NULL);
    scope_close(x->t.e, some);
}

// ---------------------------------------------------------------- loops
// By its position, so that the order of sums depends on no thread.
static ins *is_odd_block(tiles *x, ins *m) {
    lbuild *b = &x->t.e->b;
    ins *rows = block_rows(x), *one = lb_idx(b, 1);
    if (!x->alternates || x->region->across || (rows->op != L_CONST && !x->region->overlaps)) return NULL;
    if (x->wide > WIDTH) m = x->n0, rows = lb_idx(b, WIDTH);
    return lb_cmp(b, L_EQ, lb_bin(b, L_AND, emit_int_op(b, X_FLOORDIV, m, rows), one), one);
}

static void blocks_of_columns(tiles *x, ins *m) {
    emitter *e = x->t.e;
    int64_t step = (int64_t)x->columns * COLUMNS;
    scope loop =
        columns_together(x) > step ? scope_for(e, "n", x->n1, x->n_end, step, LOOP_SERIAL) : scope_open(e);
    x->n0 = loop.head ? loop.head : x->n1;
    x->back = is_odd_block(x, m);
    block(x);
    scope_close(e, loop);
}

static void m_loops(tiles *x, int depth) {
    emitter *e = x->t.e;
    const tiling *t = &x->t;
    if (depth < t->m.n && t->m.at[depth] != t->tile_m) {
        ins *begin = x->region->pair_begin, *end = x->region->pair_end;
        int axis = t->m.at[depth];
        bool pairs = axis == x->r.pair_axis;
        if (pairs && x->r.pitch) {
            e->counter[axis] = lb_idx(&e->b, 0);
            m_loops(x, depth + 1);
            e->counter[axis] = NULL;
            return;
        }
        if (!pairs) axis_range(e, axis, &begin, &end);
        scope loop = scope_axis(e, axis, begin, end, pairs && x->region->across ? 2 : 1, LOOP_PARALLEL);
        m_loops(x, depth + 1);
        scope_close(e, loop);
        return;
    }
    lbuild *b = &e->b;
    ins *rows = x->region->across ? x->region->high[0] : block_rows(x);
    ins *loop = lb_for(b, "m", x->region->begin, x->region->end, rows, LOOP_SERIAL);
    scope mark = scope_open(e);
    e->counter[t->tile_m] = loop, x->skip = lb_idx(b, 0);
    if (x->parts) x->parts->row = loop;
    if (x->region->overlaps) {
        e->counter[t->tile_m] = lb_bin(b, L_SMIN, loop, lb_sub(b, x->region->end, rows));
        x->skip = lb_sub(b, loop, e->counter[t->tile_m]);
    }
    blocks_of_columns(x, loop);
    scope_close(e, mark);
    e->counter[t->tile_m] = NULL;
    lb_end(b, loop);
}

// Blocks of this number of tiles of columns, from begin to end.
static void column_range(tiles *x, ins *begin, ins *end, int columns, ins *last) {
    emitter *e = x->t.e;
    lbuild *b = &e->b;
    x->columns = columns, x->last = last;
    lb_set(b, x->row, lb_idx(b, 0));
    lb_set(b, x->rows_left, lb_idx(b, 0));
    scope loop = scope_for(e, "n", begin, end, columns_together(x), LOOP_PARALLEL);
    x->n1 = loop.head;
    x->n_end = lb_bin(b, L_SMIN, idx_addk(b, x->n1, columns_together(x)), end);
    begin_prefetch(x, end);
    if (x->parts) begin_panels(x->parts, &x->t, x->n1, x->n_end, columns, last, x->chunk);
    m_loops(x, 0);
    scope_close(e, loop);
    flush(x);
}

static void region_blocks(tiles *x, const region *r) {
    emitter *e = x->t.e;
    lbuild *b = &e->b;
    int64_t n = dim_value(e->extent[x->t.c->n]), rest = n % WIDTH;
    ins *begin, *end;
    x->region = r;
    scope mark = scope_open(e);
    configure(x);
    piece_range(e, x->t.c->n, columns_of_task(&x->t), &begin, &end);
    ins *whole = n - rest == 0 ? lb_idx(b, 0) : lb_bin(b, L_SMIN, end, lb_idx(b, n - rest));
    if (n >= WIDTH) column_range(x, begin, whole, 2, NULL);
    if (rest) {
        int last = (int)(rest % COLUMNS), columns = rest > COLUMNS ? 2 : 1;
        scope some = scope_if(e, end->op == L_CONST ? NULL : lb_cmp(b, L_SLT, lb_idx(b, n - rest), end));
        column_range(x, lb_idx(b, n - rest), lb_idx(b, n), columns, last ? lb_idx(b, last) : NULL);
        scope_close(e, some);
    }
    scope_close(e, mark);
}

// Rows begin to end, fewer than two full tiles.
static void rest_of_rows(tiles *x, ins *begin, ins *end) {
    emitter *e = x->t.e;
    lbuild *b = &e->b;
    ins *n = lb_sub(b, end, begin);
    if (n->op == L_CONST) {
        ins *low = lb_idx(b, n->i / 2), *high = lb_idx(b, n->i - n->i / 2);
        if (n->i > TILE_ROWS) region_blocks(x, &(region){.begin = begin, .end = end, .high = {high, low}});
        else if (n->i > 0) region_blocks(x, &(region){.begin = begin, .end = end, .high = {n, NULL}});
        return;
    }
    ins *half = lb_bin(b, L_LSHR, n, lb_idx(b, 1));
    scope many = scope_if(e, lb_cmp(b, L_SLT, lb_idx(b, TILE_ROWS), n));
    region_blocks(x, &(region){.begin = begin, .end = end, .high = {lb_sub(b, n, half), half}});
    scope_close(e, many);
    scope few = scope_if(
        e, lb_bin(b, L_AND, lb_cmp(b, L_SLT, lb_idx(b, 0), n), lb_cmp(b, L_SLE, n, lb_idx(b, TILE_ROWS))));
    region_blocks(x, &(region){.begin = begin, .end = end, .high = {n, NULL}});
    scope_close(e, few);
}

// As many for each block as balanced_rows, at run time; tasks have whole blocks of fixed size.
static ins *rows_of_a_tile(tiles *x, ins *begin) {
    emitter *e = x->t.e;
    lbuild *b = &e->b;
    dim *extent = e->extent[x->t.tile_m];
    if (dim_is_const(extent) || begin->op != L_CONST) return lb_idx(b, x->r.rows / 2);
    ins *n = emit_dim(e, extent), *width = lb_idx(b, WIDTH),
        *blocks = emit_int_op(b, X_FLOORDIV, idx_addk(b, n, WIDTH - 1), width);
    blocks = lb_bin(b, L_SMAX, blocks, lb_idx(b, 1));
    ins *rows = emit_int_op(b, X_FLOORDIV, idx_addk(b, lb_add(b, n, blocks), -1), blocks);
    return emit_int_op(b, X_FLOORDIV, idx_addk(b, rows, 1), lb_idx(b, 2));
}

static void row_regions(tiles *x) {
    emitter *e = x->t.e;
    lbuild *b = &e->b;
    ins *begin, *end;
    piece_range(e, x->t.tile_m, x->t.row_piece, &begin, &end);
    const dim *extent = e->extent[x->t.tile_m];
    bool never = extent->max < x->r.rows, always = extent->min >= x->r.rows,
         exact = dim_is_const(extent) && dim_value(extent) % x->r.rows == 0;
    ins *rows = lb_idx(b, x->r.rows), *high = rows_of_a_tile(x, begin);
    scope full =
        scope_if(e, never || always ? NULL : lb_cmp(b, L_SLE, rows, emit_dim(e, e->extent[x->t.tile_m])));
    if (!never) region_blocks(x, &(region){begin, end, {high, high}, .overlaps = !exact});
    if (!never && !always) full = scope_else(e, full);
    if (!always) rest_of_rows(x, begin, end);
    scope_close(e, full);
}

// Short rows: two at a time, one position of the axis outside of them each.
static void pairs_of_rows(tiles *x) {
    emitter *e = x->t.e;
    lbuild *b = &e->b;
    ins *begin, *end, *zero = lb_idx(b, 0), *high = emit_dim(e, e->extent[x->t.tile_m]);
    axis_range(e, x->r.pair_axis, &begin, &end);
    ins *even = lb_add(b, begin, emit_int_floor(b, lb_sub(b, end, begin), 2));
    region two = {zero, high, {high, high}, .across = true, .pair_begin = begin, .pair_end = even},
           one = {zero, high, {high, NULL}, .pair_begin = even, .pair_end = end};
    scope some = scope_if(e, even->op == L_CONST ? NULL : lb_cmp(b, L_SLT, begin, even));
    region_blocks(x, &two);
    scope_close(e, some);
    if (same_index(even, end)) return;
    scope odd = scope_if(e, even->op == L_CONST ? NULL : lb_cmp(b, L_SLT, even, end));
    region_blocks(x, &one);
    scope_close(e, odd);
}

// Short rows as one axis.
static void image_as_rows(tiles *x) {
    lbuild *b = &x->t.e->b;
    int64_t n = image_positions(&x->t, x->r.pair_axis, x->r.pitch);
    ins *begin = lb_idx(b, 0), *end = lb_idx(b, n), *half = lb_idx(b, x->r.rows / 2);
    region_blocks(x, &(region){begin, end, {half, half}, .overlaps = n % x->r.rows != 0});
}

static void outer_loops(tiles *x, const axis_list *axes, int depth) {
    emitter *e = x->t.e;
    if (depth == axes->n) {
        if (x->r.pitch) image_as_rows(x);
        else if (x->r.pair_axis >= 0) pairs_of_rows(x);
        else row_regions(x);
        return;
    }
    scope loop = scope_parallel(e, axes->at[depth]);
    outer_loops(x, axes, depth + 1);
    scope_close(e, loop);
}

// ---------------------------------------------------------------- entry
enum { L1_OF_TILES = 48 << 10 }; // of every CPU with tiles so far

// Bytes of K for this number of rows or columns.
static int64_t bytes_of(const tiles *x, int64_t n) { return n * x->steps * x->chunk * x->size; }

// If a block of A and one of B together exceed the L1 cache, what it still holds of one of them is used first.
static bool alternates_direction(const tiles *x) {
    return x->t.k.n == 1 && x->steps > 1 && bytes_of(x, WIDTH + x->r.rows) > L1_OF_TILES;
}

// Rows of A are apart in memory, which suits the L1 cache, and B is one stream, which suits the L2 cache: a block of
// A that fits the former is multiplied by all columns that fit a part of the latter.
static int64_t columns_of_rows(const tiles *x) {
    int64_t n = dim_value(x->t.e->extent[x->t.c->n]), pairs = n / WIDTH,
            most = L2_BYTES / 4 / bytes_of(x, WIDTH);
    if (x->t.k.n != 1 || x->t.m.n != 1 || bytes_of(x, x->r.rows) > L1_BYTES || most < 2 || !pairs)
        return WIDTH;
    if (bytes_of(x, n) <= L2_BYTES / 2) return pairs * WIDTH;
    int64_t parts = (pairs + most - 1) / most;
    return (pairs + parts - 1) / parts * WIDTH;
}

static void declare(tiles *x) {
    emitter *e = x->t.e;
    lbuild *b = &e->b;
    ins *zero = lb_idx(b, 0);
    x->config = lb_local(b, LK_I64, TILE_CONFIG_BYTES / 8, TILE_CONFIG_BYTES, false);
    x->scratch = lb_local(b, compute_kind(x->t.c->s->states.at[0].dtype), 2 * SCRATCH_COLUMN, 64, false);
    x->row = lb_var(b, "row", zero);
    x->rows_left = lb_var(b, "rows", zero);
    x->simple = !epilogue_reads_rows(e->scratch, x->t.c);
    x->lines = lines_ahead(x);
    if (x->lines) x->ahead = lb_var(b, "ahead", zero);
    bool in_order = x->parts && !x->parts->rounds; // parts are made in the order of K
    x->alternates = !in_order && alternates_direction(x);
    x->wide = x->parts ? parts_columns(x->parts) : columns_of_rows(x);
    x->old_n = lb_var(b, "old_n", zero);
    x->old = ARENA_ARRAY(e->scratch, ins *, e->k->axes.n);
    for (int j = 0; j < x->t.m.n; j++) x->old[x->t.m.at[j]] = lb_var(b, "old_m", zero);
    x->writer = ARENA_NEW(e->scratch, emitter);
}

// Collapses axes in a copy of the emitter, which replaces it if tiles can be used.
static bool prepare(tiles *x, emitter *e, const contraction *c) {
    emitter own = emitter_apart(e);
    if (x->parts && x->parts->rounds && !find_unpacked_parts(x->parts, e, c)) return false;
    x->size = x->parts ? dtype_bits(DT_BF16) / 8 : dtype_bits(c->a->buffer->dtype) / 8;
    x->t = (tiling){.e = &own, .c = c, .tile_m = -1, .group_axis = -1, .lanes = COLUMNS, .vectors = 2};
    if (x->parts && x->parts->rounds) {
        x->t.vectors = MAX_VECTORS; // of the schedule for few rows
        x->t.column_piece = columns_of_rounded_task(c);
    }
    emitter_stage(&own, c->s, -1, 1, false);
    if (!contraction_operands(&x->t)) return false;
    choose_axes(&x->t);
    if (!fits(x)) return false;
    *e = own;
    x->t.e = e;
    return true;
}

// The same by vectors, in the same tasks, with an emitter as it was before.
static void by_vectors(tiles *x, const emitter *before, ins *scratch) {
    emitter *e = x->t.e, v = *before;
    v.b = e->b;
    v.task_axis = e->task_axis;
    schedule_contraction_in_tasks(&v, x->t.c, &x->t, scratch);
    e->b.block = v.b.block;
}

static void by_parts(tiles *x, const axis_list *outer, const emitter *before, ins *scratch) {
    emitter *e = x->t.e;
    if (x->parts->in_blocks) {
        find_part_rows(x->parts, &x->t);
        find_part_blocks(x->parts, &x->t, x->r.rows,
                         idx_mulk(&e->b, rows_of_a_tile(x, x->parts->first_row), 2));
    }
    if (e->task_begin && e->task_axis == x->t.c->n) {
        x->parts->mark = scratch;
        e->code->marks_scratch = true;
    }
    scratch = lb_offset(&e->b, scratch, lb_idx(&e->b, MARK_BYTES), 1);
    ins *fit = split_rows(x->parts, &x->t, scratch);
    scope some = scope_if(e, fit);
    outer_loops(x, outer, 0);
    lb_tile_release(&e->b);
    if (!fit) {
        scope_close(e, some);
        return;
    }
    scope_else(e, some);
    by_vectors(x, before, scratch);
    scope_close(e, some);
}

bool schedule_tiles(emitter *e, const contraction *c, tile_parts *parts, ins *scratch) {
    tiles x = {.product = parts ? L_TILE_BF16 : product_of(e, c), .parts = parts, .r.pair_axis = -1};
    emitter before = *e;
    if (x.product == L_COUNT || !prepare(&x, e, c)) return false;
    const dim *extent = e->extent[x.t.tile_m];
    x.r.pair_axis = pair_axis_of(&x.t);
    x.r.rows = dim_is_const(extent) ? balanced_rows(dim_value(extent)) : 2 * TILE_ROWS;
    x.t.row_piece = (3 * TILE_ROWS + x.r.rows - 1) / x.r.rows * x.r.rows;
    find_panel_stride(&x.t);
    emitter_stage(e, c->s, c->n, COLUMNS, true);
    e->state = ARENA_ARRAY(e->scratch, ins *, 1);
    axis_list outer = c->batch;
    for (int j = 0; j < c->other_n.n; j++) outer.at[outer.n++] = c->other_n.at[j];
    choose_tasks(&x.t, &outer);
    x.r.pitch = parts ? 0 : image_pitch(&x.t, x.r.pair_axis);
    if (x.r.pitch) x.r.rows = balanced_rows(image_positions(&x.t, x.r.pair_axis, x.r.pitch));
    declare(&x);
    e->code->has_tiles = true;
    if (parts) {
        by_parts(&x, &outer, &before, scratch);
        return true;
    }
    outer_loops(&x, &outer, 0);
    lb_tile_release(&e->b);
    return true;
}
