// Contractions with a register-tiled micro-kernel. With MR rows and NV vectors of L columns:
//
//   for batch axes, for n0 in steps of NV * L, for outer M axes, for m0 in steps of MR:
//     acc[MR][NV] = 0
//     for k axes:
//       b[NV] = B[k][n0 ...]                      packed panels of 16 columns, or rows in place
//       for r < MR: acc[r][v] += broadcast(A[m0 + r][k]) * b[v]
//     for r, v: write f(acc[r][v])                the epilogue: bias, activation, residual ...
//
// If B's panel for all of K exceeds a cache, cache blocking surrounds this (contract_tiling.h):
//
//   for columns in chunks, for M in blocks, for K in blocks, for n0 ..., for m0 ...:
//     acc = first block of K ? 0 : partial[n0][m0];  add this block's products
//     last block of K ? write f(acc) : partial[n0][m0] = acc
//
// If the length of an image's rows is known only at run time, a block is as many short rows as fit, or a part
// of a long one. With K whole only M is blocked, so that several tiles of columns find A in the cache.
//
// Register blocking needs MR * NV + NV + 1 vector registers: 6 x 4 of 32, 6 x 2 of 16 reach the FMA peak.
#include "passes/schedule/cpu/schedule_contract.h"
#include "ir/kernel/edit.h"
#include "ir/loops/convert.h"
#include "passes/schedule/cpu/contract_digits.h"
#include "passes/schedule/cpu/contract_tiling.h"
#include "passes/schedule/cpu/schedule_groups.h"
#include <string.h>

// ---------------------------------------------------------------- does it fit
bool is_packed_operand(const expr *read, int n_axis) {
    const layout *l = read->buffer->layout;
    if (!l || l->n < 2 || l->order[l->n - 1].tile < LEAST_PANEL) return false;
    const expr *i = read->index[l->order[l->n - 1].axis];
    return i->op == X_AXIS && i->axis == n_axis;
}

// B's access at the first group of four: with K blocked by 4, element k + 1 is a panel's row of columns further.
static access *group_access(emitter *e, access *a, int k) {
    a->coef[k] = x_i64(e->k, panel_of(a->buffer, true));
    a->offset = x_add(e->k, a->offset, x_mul(e->k, x_axis(e->k, k), a->coef[k]));
    return a;
}

// B's access at n = 0 (and the first group of four), which is affine in the other axes under the panel
// layout.
access *access_at_first_column(emitter *e, const expr *read, int n, int dot4) {
    expr *index[MAX_RANK], *zero = x_i64(e->k, 0);
    for (int j = 0; j < read->buffer->rank; j++) {
        index[j] = expr_substitute_axis(e->k, read->index[j], n, zero);
        if (dot4 >= 0) index[j] = expr_substitute_axis(e->k, index[j], dot4, zero);
    }
    access *a = access_make(e, read->buffer, index);
    return dot4 >= 0 ? group_access(e, a, dot4) : a;
}

// Positions along the outer loops may be data: they select a matrix, as those of experts do.
static bool is_linear(const tiling *t, const access *a) {
    const contraction *c = t->c;
    for (int j = 0; j < t->e->k->axes.n && !a->affine; j++)
        if (!a->coef[j] && !axis_in(&c->batch, j) && (a == t->a || !axis_in(&c->other_n, j))) return false;
    return true;
}

bool contraction_operands(tiling *t) {
    emitter *e = t->e;
    const contraction *c = t->c;
    const state *st = &c->s->states.at[0];
    bool zero_init = st->init->op == X_CONST && st->init->i == 0;
    bool type =
        st->dtype == DT_F32 || st->dtype == DT_F64 || st->dtype == DT_I32 || multiplies_words(e->t, c);
    if (c->n < 0 || !zero_init || !type || c->a->guard || c->b->guard) return false;
    if (dtype_bits(c->a->buffer->dtype) < 8 || dtype_bits(c->w->to->dtype) < 8) return false;
    int packed = grouped_operand(c, &t->group_axis);
    t->group = packed ? packed : 1;
    t->words = packed && word_elements(c);
    t->halves = packed && adds_halves(e->t, c);
    t->packed = t->group_axis >= 0 || is_packed_operand(c->b, c->n);
    t->panel = t->packed ? panel_of(c->b->buffer, packed) : panel_for(e->t, e->extent[c->n]);
    if (dtype_bits(c->b->buffer->dtype) < 8 && !t->packed) return false;
    t->a = entry_of(e, c->a)->read;
    t->b = t->packed ? access_at_first_column(e, c->b, c->n, t->group_axis) : entry_of(e, c->b)->read;
    t->write = access_make(e, c->w->to, c->w->index);
    if (!is_linear(t, t->a) || !is_linear(t, t->b) || !t->write->affine) return false;
    if (t->pairs) t->group_axis = -1; // they become ordinary columns
    return (t->packed || steps_by_one(t->b, c->n)) && steps_by_one(t->write, c->n);
}

// ---------------------------------------------------------------- the micro-kernel
ins *factor_a(tiling *t, ins *at) {
    emitter *e = t->e;
    const contraction *c = t->c;
    if (t->widens) return byte_of_a(t, at);
    scope mark = scope_open(e);
    use_value(e, c->a, load_element(&e->b, c->a->buffer->dtype, pointer_of(e, c->a->buffer), at, 1));
    ins *factor = emit_value(e, c->term_a);
    scope_close(e, mark);
    return lb_splat(&e->b, factor, t->lanes);
}

// A's element of row r at `at`: a lane of the register that the first of ROW_WORDS steps loads.
static ins *row_factor(tiling *t, int r, ins *at) {
    lbuild *b = &t->e->b;
    if (t->lane < 0) return factor_a(t, at);
    if (!t->lane)
        t->row_words[r] = lb_load(b, lt(LK_F32, ROW_WORDS), pointer_of(t->e, t->c->a->buffer), at, 4);
    return lb_splat(b, lb_extract(b, t->row_words[r], t->lane), t->lanes);
}

// One step of k.
static void accumulate(tiling *t, const tile *x, ins **acc, ins *start_b) {
    emitter *e = t->e;
    lbuild *b = &e->b;
    ins *fb[MAX_VECTORS], *at_b = lb_add(b, emit_index(e, t->b->offset), start_b),
                          *at_a = emit_index(e, t->a->offset);
    emit_prefetch(t, at_b);
    if (t->rounded_rows) {
        accumulate_pairs(t, x, acc, at_a, at_b);
        return;
    }
    emit_request(t, x, at_b, 1);
    acc += t->set * x->rows * x->vectors;
    for (int v = 0; v < x->vectors; v++)
        fb[v] = t->copies    ? load_copied(t, x, v)
                : t->is_wide ? load_widened(t, x, at_b, v)
                             : factor_b(t, x, column_place(t, x, at_b, start_b, v), v);
    for (int r = 0; r < x->rows; r++) {
        ins *fa = row_factor(t, r, lb_add(b, at_a, row_offset(t, x, r)));
        for (int v = 0; v < x->vectors; v++) {
            ins *var = acc[r * x->vectors + v], *old = lb_get(b, var);
            lb_set(b, var, emit_muladd(b, fa, fb[v], old));
        }
    }
}

static void k_loops(tiling *t, const tile *x, ins **acc, ins *start_b, int depth);

// Whether the u-th step of K from the beginning of a cache line of B is in that line, too.
static bool shares_line(const tiling *t, int u) {
    enum { LINE_BITS = 512 };
    return u * t->panel * dtype_bits(t->c->b->buffer->dtype) % LINE_BITS;
}

// Positions of the K axis at `depth` in a step.
static int step_width(const tiling *t, int depth) { return t->rounded_rows && depth == t->k.n - 1 ? 2 : 1; }

// Positions [begin, end) of an axis, in a loop that is unrolled by this number.
typedef struct k_part {
    ins *begin, *end;
    int unroll;
} k_part;

// A loop over a part of the K axis at `depth`. If every part of B's next tile takes more
// iterations than it has cache lines, only the first step of an iteration prefetches.
static void k_range(tiling *t, const tile *x, ins **acc, ins *start_b, int depth, k_part of) {
    emitter *e = t->e;
    int a = t->k.at[depth], unroll = of.unroll;
    if (of.begin->op == L_CONST && of.end->op == L_CONST && of.begin->i >= of.end->i) return;
    int width = step_width(t, depth);
    scope loop = scope_axis(e, a, of.begin, of.end, unroll * width, LOOP_SERIAL);
    for (int u = 0; u < unroll; u++) {
        e->counter[a] = idx_addk(&e->b, loop.head, u * width);
        t->lane = t->by_lanes && unroll == ROW_WORDS ? u : -1;
        if (depth == t->k.n - 1) t->set = u % t->sets;
        t->prefetch_done = u > 0 && t->prefetch_parts >= unroll;
        t->ahead_done = shares_line(t, u);
        scope step = scope_open(e);
        k_loops(t, x, acc, start_b, depth + 1);
        scope_close(e, step);
    }
    t->lane = -1;
    t->set = 0;
    scope_close(e, loop);
}

// Whether each block of the K axis is a multiple of this number of positions.
static bool goes_in_steps(const tiling *t, int a, int steps) {
    const dim *n = t->e->extent[a];
    return dim_is_const(n) && dim_value(n) % steps == 0 && t->block.k_step % steps == 0;
}

// Of scalars, beside which the counters of a loop take many instructions.
static bool has_few_products(const tiling *t, const tile *x) {
    enum { FEW = 4 };
    const target *of = t->e->t;
    return is_microcontroller(of) && !of->size_level && of->f32 && !of->vector_bits &&
           t->c->s->states.at[0].dtype == DT_F32 && x->rows * x->vectors <= FEW;
}

static void k_loops(tiling *t, const tile *x, ins **acc, ins *start_b, int depth) {
    emitter *e = t->e;
    if (t->group_axis >= 0 && depth == t->k.n - 1) {
        emit_hoist(e, t->a->offset);
        emit_hoist(e, t->b->offset);
        (t->bytes ? add_byte_block : t->words ? add_packed : add_groups)(t, x, acc, start_b);
        return;
    }
    unsigned sides = load_sides(t, x);
    if (depth == t->k.n) {
        accumulate(t, x, acc, start_b);
        forget_sides(t, sides);
        return;
    }
    int a = t->k.at[depth];
    emit_hoist(e, t->a->offset);
    emit_hoist(e, t->b->offset);
    if (t->narrow_row) emit_hoist(e, t->narrow_row);
    emit_hoist(e, t->c->term_a);
    emit_hoist(e, t->c->term_b);
    bool part = t->k_begin && depth == t->block.k_at;
    ins *begin = part ? t->k_begin : lb_idx(&e->b, 0), *end = part ? t->k_end : emit_dim(e, e->extent[a]);
    if (depth < t->k.n - 1) skip_taps(t, x, a, &begin, &end);
    ins *of_block[MAX_ROWS * MAX_VECTORS], **sums = acc;
    t->sums_block = depth == t->k.n - 1 && sums_blocks(t, x);
    if (t->sums_block) begin_block_sums(t, x, acc = of_block);
    // Unrolled: the instructions around the multiply-adds take issue slots that narrow tiles and 4-wide cores
    // lack. Where the code is compiled again, the loads of all steps would come first and spill; so they do from a narrow panel,
    // whose rows are not as far apart as those of the others.
    if (depth == t->k.n - 1 && unrolls_k(t) && (!t->narrow_row || has_room_for_steps(t, x))) {
        int steps = t->by_lanes && !t->rounded_rows ? ROW_WORDS
                    : t->sets > 2                   ? t->sets
                    : has_few_products(t, x)        ? 4
                                                    : 2,
            n = steps * step_width(t, depth);
        ins *whole = lb_add(&e->b, begin, emit_int_floor(&e->b, lb_sub(&e->b, end, begin), n));
        k_range(t, x, acc, start_b, depth, (k_part){begin, whole, steps});
        begin = part && goes_in_steps(t, a, n) ? end : whole;
    }
    bool around = t->group_axis >= 0 && depth == t->k.n - 2 && !t->bytes && !t->words;
    int steps = around && begin->op == L_CONST && end->op == L_CONST ? taps_in_step(t, end->i - begin->i) : 1;
    if (begin != end) k_range(t, x, acc, start_b, depth, (k_part){begin, end, steps});
    if (acc != sums) end_block_sums(t, x, sums, acc);
    t->sums_block = false;
    forget_sides(t, sides);
}

static void micro_kernel(tiling *t, const tile *x) {
    emitter *e = t->e;
    ins *acc[MAX_ROWS * MAX_VECTORS];
    scope mark = scope_open(e);
    place_rows(t, x);
    e->counter[t->c->n] = x->n0;
    ltype type = lt(compute_kind(t->c->s->states.at[0].dtype), t->lanes);
    ins *zero = emit_zero(&e->b, type);
    t->sets = sets_of(t, x);
    int sets = sums_blocks(t, x) ? 1 : t->sets;
    for (int j = 0; j < sets * sum_rows(t, x) * x->vectors; j++) acc[j] = lb_var(&e->b, "acc", zero);
    ins *at = t->k_begin ? partial_place(t, x) : NULL;
    t->prefetch = prefetch_offset(t, x);
    if (at) load_partial(t, x, acc, at);
    k_loops(t, x, acc, first_column(t, x), t->k_begin ? t->block.k_at : 0);
    scope_close(e, mark);
    for (int j = 0; j < x->rows * x->vectors && sets > 1; j++)
        lb_set(&e->b, acc[j], sum_of_sets(t, acc, x->rows * x->vectors, j));
    split_blocks_of_sums(t, x, acc);
    if (!at) {
        write_tile(t, x, acc);
        return;
    }
    scope done = scope_if(e, t->last);
    write_tile(t, x, acc);
    scope_else(e, done);
    store_partial(t, x, acc, at);
    scope_close(e, done);
}

// ---------------------------------------------------------------- loops around it
static scope open_loop(emitter *e, const char *name, ins *begin, ins *end, int64_t step) {
    return scope_for(e, name, begin, end, step, LOOP_PARALLEL);
}

// The rows up to `end` of a tile that may have less than all, but those that are sure.
static void limit_rows(tiling *t, tile *x, ins *end) {
    x->left = x->sure && x->sure < x->rows ? lb_sub(&t->e->b, end, x->m0) : NULL;
}

static void row_range(tiling *t, tile x, ins *begin, ins *end, int rows) {
    scope loop = open_loop(t->e, "m", begin, end, rows);
    x.rows = rows;
    x.m0 = loop.head;
    limit_rows(t, &x, end);
    micro_kernel(t, &x);
    scope_close(t->e, loop);
}

// The last tile begins earlier.
static void overlapping_rows(tiling *t, tile x, ins *begin, int64_t m, int rows) {
    emitter *e = t->e;
    ins *end = idx_addk(&e->b, begin, m);
    scope loop = open_loop(e, "m", begin, end, rows);
    x.rows = rows;
    x.m0 = lb_bin(&e->b, L_SMIN, loop.head, idx_subk(&e->b, end, rows));
    micro_kernel(t, &x);
    scope_close(e, loop);
}

// All rows in tiles of one height.
static void repeated_rows(tiling *t, tile x, ins *begin, ins *end) {
    x.sure = 1;
    row_range(t, x, begin, end, t->rows);
}

static void rows_known(tiling *t, tile x, ins *begin, int64_t m) {
    lbuild *b = &t->e->b;
    known_tiles k = tiles_of(t, m);
    if (m <= 0) return;
    if (k.high < k.tiles && has_one_height(t)) {
        repeated_rows(t, x, begin, idx_addk(b, begin, m));
        return;
    }
    if (last_tile_overlaps(t, &k, m)) {
        overlapping_rows(t, x, begin, m, k.rows);
        return;
    }
    ins *middle = idx_addk(b, begin, k.high * k.rows);
    row_range(t, x, begin, middle, k.rows);
    if (k.high < k.tiles) row_range(t, x, middle, idx_addk(b, begin, m), k.rows - 1);
}

static void rows_of_block(tiling *t, tile x) {
    known_tiles k = tiles_of(t, dim_value(t->e->extent[t->tile_m]));
    row_range(t, x, t->m_begin, t->m_middle, k.rows);
    if (k.high < k.tiles) row_range(t, x, t->m_middle, t->m_end, k.rows - 1);
}

// The rows that a tile always has.
static int sure_rows(const tiling *t, int rows) {
    if (may_repeat_rows(t)) return fewer_rows(t, rows) + 1;
    return rows_are_pixels(t) && can_repeat_rows(t) ? 1 : rows;
}

// The last tile begins earlier, or has some rows twice; of fewer rows than it has, so do lower ones.
static void low_rows(tiling *t, tile x, ins *begin, ins *end, int rows, ins *m) {
    emitter *e = t->e;
    lbuild *b = &e->b;
    for (; rows > 1; rows = fewer_rows(t, rows)) {
        x.sure = sure_rows(t, rows);
        ins *few = lb_cmp(b, L_SLT, m, lb_idx(b, x.sure)),
            *middle = x.sure > 1 ? lb_select(b, few, begin, end) : end;
        scope loop = open_loop(e, "m", begin, middle, rows);
        x.rows = rows;
        x.m0 = lb_bin(b, L_SMIN, loop.head, idx_subk(b, end, rows));
        if (x.sure < rows) x.m0 = lb_bin(b, L_SMAX, x.m0, lb_sub(b, end, m));
        limit_rows(t, &x, end);
        if (writes_once(t)) x.done = lb_sub(b, loop.head, x.m0);
        micro_kernel(t, &x);
        scope_close(e, loop);
        if (x.sure == 1) return;
        begin = middle;
    }
    x.done = NULL, x.sure = 0;
    row_range(t, x, begin, end, 1);
}

static ins *bit_of(lbuild *b, int64_t bits, ins *at) {
    return lb_bin(b, L_AND, lb_bin(b, L_LSHR, lb_idx(b, bits), at), lb_idx(b, 1));
}

// Single rows have a separate tile where they are likely.
static void rows_of_one_height(tiling *t, tile x, ins *begin, ins *end) {
    lbuild *b = &t->e->b;
    if (t->rows < 2 || !may_be_few(t)) {
        repeated_rows(t, x, begin, end);
        return;
    }
    ins *several = lb_cmp(b, L_SLT, lb_idx(b, 1), lb_sub(b, end, begin));
    ins *middle = lb_select(b, several, end, begin);
    repeated_rows(t, x, begin, middle);
    row_range(t, x, middle, end, 1);
}

static void rows_dynamic(tiling *t, tile x, ins *begin, ins *end) {
    emitter *e = t->e;
    lbuild *b = &e->b;
    if (has_one_height(t)) {
        rows_of_one_height(t, x, begin, end);
        return;
    }
    ins *m = lb_sub(b, end, begin), *rows = lb_idx(b, t->rows);
    if (t->flat.n) {
        low_rows(t, x, begin, end, t->rows, m);
        return;
    }
    low_tiles low = low_tiles_of(t, x.vectors);
    ins *whole = emit_int_op(b, X_FLOORDIV, m, rows), *left = lb_sub(b, m, idx_mulk(b, whole, t->rows));
    if (low.sooner) whole = lb_sub(b, whole, lb_bin(b, L_SMIN, whole, bit_of(b, low.sooner, left)));
    ins *middle = lb_add(b, begin, idx_mulk(b, whole, t->rows));
    if (low.alone) {
        ins *alone = bit_of(b, low.alone, lb_bin(b, L_SMIN, m, rows));
        middle = lb_select(b, lb_cmp(b, L_EQ, alone, lb_idx(b, 1)), end, middle);
        while (!(low.alone >> x.sure & 1)) x.sure++;
    }
    row_range(t, x, begin, middle, t->rows);
    if (t->rows > 1) low_rows(t, x, middle, end, low.rows, m);
}

static void tile_range(tiling *t, tile x) {
    emitter *e = t->e;
    ins *begin, *end;
    if (t->tile_m < 0) {
        micro_kernel(t, &x);
        return;
    }
    if (t->m_middle) {
        rows_of_block(t, x);
        return;
    }
    if (t->m_begin && t->m.at[t->block.m_at] == t->tile_m) begin = t->m_begin, end = t->m_end;
    else piece_range(e, t->tile_m, t->row_piece, &begin, &end);
    if (begin->op == L_CONST && end->op == L_CONST) rows_known(t, x, begin, end->i - begin->i);
    else if (!same_index(begin, end)) rows_dynamic(t, x, begin, end);
}

static void m_loops(tiling *t, tile x, int depth) {
    emitter *e = t->e;
    if (depth == t->m.n) {
        x.m0 = lb_idx(&e->b, 0);
        x.rows = 1;
        tile_range(t, x);
        return;
    }
    int a = t->m.at[depth];
    if (a == t->tile_m) {
        m_loops(t, x, depth + 1);
        return;
    }
    ins *begin = t->m_begin, *end = t->m_end;
    if (begin && t->block.nested && depth == t->block.m_at - 1) begin = t->outer_begin, end = t->outer_end;
    else if (!begin || depth != t->block.m_at) axis_range(e, a, &begin, &end);
    scope loop = scope_axis(e, a, begin, end, 1, LOOP_PARALLEL);
    m_loops(t, x, depth + 1);
    scope_close(e, loop);
}

// ---------------------------------------------------------------- blocks
typedef struct column_range { // whole tiles of `vectors` vectors, or one whose last vector has `last` columns
    ins *begin, *end;         // end NULL: one tile
    int vectors;
    ins *last;
    bool narrow; // all are in a last panel of narrower rows
    bool both;   // some tiles are there, the others are not
} column_range;

static ins *width_of_panel(const tiling *t, ins *n0) {
    lbuild *b = &t->e->b;
    ins *wide = lb_cmp(b, L_SLT, n0, lb_idx(b, t->narrow.number * t->panel));
    return lb_select(b, wide, lb_idx(b, t->panel), lb_idx(b, t->narrow.columns));
}

static void column_tiles(tiling *t, const column_range *r) {
    emitter *e = t->e;
    tile x = {.vectors = r->vectors, .n0 = r->begin, .last = r->last, .narrow = r->narrow};
    if (t->copies) copy_columns(t, x, r->end);
    scope loop = scope_open(e);
    if (r->end) {
        loop = open_loop(e, "n", r->begin, r->end, (int64_t)r->vectors * t->lanes);
        x.n0 = loop.head;
        if (r->both) x.width = width_of_panel(t, x.n0);
    }
    if (t->wide && t->packed) widen_columns(t, &x, first_column(t, &x));
    m_loops(t, x, t->m_begin ? t->block.m_at - t->block.nested : 0);
    e->counter[t->c->n] = NULL;
    scope_close(e, loop);
}

static ins *least(lbuild *b, ins *x, ins *y) {
    return x->op == L_CONST && y->op == L_CONST ? lb_idx(b, x->i < y->i ? x->i : y->i)
                                                : lb_bin(b, L_SMIN, x, y);
}

// begun: 0 at the first position of all axes so far; left: 0 at their last. An empty sum is written too: an
// axis without positions has one iteration, in which nothing is added.
static void k_blocks(tiling *t, const column_range *r, int depth, ins *begun, ins *left) {
    emitter *e = t->e;
    lbuild *b = &e->b;
    int a = t->k.at[depth];
    dim *size = extent_within(e->extent, t->k.at, depth);
    ins *extent = emit_dim(e, size);
    ins *turns = size->min > 0 ? extent : emit_dim(e, dim_max(size, dim_const(size->table, 1)));
    bool split = depth == t->block.k_at;
    int64_t step = split ? t->block.k_step : 1;
    scope loop = scope_axis(e, a, lb_idx(b, 0), turns, step, LOOP_SERIAL);
    ins *end = least(b, idx_addk(b, loop.head, step), extent);
    begun = lb_bin(b, L_OR, begun, loop.head);
    left = lb_bin(b, L_OR, left, lb_sub(b, extent, end));
    if (split) {
        e->counter[a] = NULL; // set by the loop over the block
        t->k_begin = loop.head, t->k_end = end;
        t->further = lb_cmp(b, L_NE, begun, lb_idx(b, 0));
        t->last = lb_cmp(b, L_EQ, left, lb_idx(b, 0));
        column_tiles(t, r);
        t->k_begin = NULL;
    } else {
        k_blocks(t, r, depth + 1, begun, left);
    }
    scope_close(e, loop);
}

static void in_block(tiling *t, const column_range *r, ins *begin, ins *end) {
    lbuild *b = &t->e->b;
    scope mark = scope_open(t->e);
    t->m_begin = begin, t->m_end = end;
    if (t->block.splits) k_blocks(t, r, 0, lb_idx(b, 0), lb_idx(b, 0));
    else column_tiles(t, r);
    t->m_begin = NULL;
    scope_close(t->e, mark);
}

static ins *row_of_tile(lbuild *b, const known_tiles *k, ins *tile) {
    ins *low = idx_subk(b, tile, k->high);
    ins *fewer = k->high < k->tiles ? lb_bin(b, L_SMAX, low, lb_idx(b, 0)) : lb_idx(b, 0);
    return lb_sub(b, idx_mulk(b, tile, k->rows), fewer);
}

// Constant M: balanced blocks of whole tiles, so that the code of a tile is shared by all blocks.
static void blocks_of_tiles(tiling *t, const column_range *r, const known_tiles *k) {
    lbuild *b = &t->e->b;
    int64_t most = t->block.m_step / k->rows, blocks = (k->tiles + most - 1) / most,
            step = (k->tiles + blocks - 1) / blocks;
    scope loop = open_loop(t->e, "block", lb_idx(b, 0), lb_idx(b, k->tiles), step);
    ins *next = least(b, idx_addk(b, loop.head, step), lb_idx(b, k->tiles)),
        *middle = lb_bin(b, L_SMAX, loop.head, least(b, next, lb_idx(b, k->high)));
    t->m_middle = row_of_tile(b, k, k->high < k->tiles ? middle : next);
    in_block(t, r, row_of_tile(b, k, loop.head), row_of_tile(b, k, next));
    t->m_middle = NULL;
    scope_close(t->e, loop);
}

// Rows of an open number: one block if they are few enough.
static void open_blocks(tiling *t, const column_range *r, ins *begin, ins *end) {
    lbuild *b = &t->e->b;
    ins *rows = lb_bin(b, L_SMAX, lb_sub(b, end, begin), lb_idx(b, 1)),
        *one = lb_cmp(b, L_SLE, rows, lb_idx(b, t->block.whole)),
        *step = lb_select(b, one, rows, lb_idx(b, t->block.m_step)),
        *loop = lb_for(b, "block", begin, end, step, LOOP_PARALLEL);
    scope mark = scope_open(t->e);
    in_block(t, r, loop, least(b, lb_add(b, loop, step), end));
    scope_close(t->e, mark);
    lb_end(b, loop);
}

static void split_blocks(tiling *t, const column_range *r, ins *begin, ins *end) {
    lbuild *b = &t->e->b;
    int64_t step = t->block.m_step, n = begin->op == L_CONST && end->op == L_CONST ? end->i - begin->i : -1;
    if (n >= 0 && n <= step) {
        in_block(t, r, begin, end);
        return;
    }
    known_tiles k = tiles_of(t, n);
    if (n >= 0 && t->m.at[t->block.m_at] == t->tile_m && k.rows <= step && !has_one_height(t)) {
        blocks_of_tiles(t, r, &k);
        return;
    }
    if (n < 0 && t->m.at[t->block.m_at] == t->tile_m && t->block.whole > step) {
        open_blocks(t, r, begin, end);
        return;
    }
    scope loop = open_loop(t->e, "block", begin, end, step);
    ins *next = idx_addk(b, loop.head, step);
    in_block(t, r, loop.head, n >= 0 && n % step == 0 ? next : least(b, next, end));
    scope_close(t->e, loop);
}

static void m_blocks(tiling *t, const column_range *r, int depth);

// The axis outside of rows of runtime length: a block is as many positions as fit.
static void nested_blocks(tiling *t, const column_range *r, int depth, ins *begin, ins *end) {
    emitter *e = t->e;
    lbuild *b = &e->b;
    ins *length = lb_bin(b, L_SMAX, emit_dim(e, e->extent[t->m.at[depth + 1]]), lb_idx(b, 1)),
        *fit = lb_bin(b, L_SDIV, lb_idx(b, t->block.m_step), length),
        *step = lb_bin(b, L_SMAX, fit, lb_idx(b, 1));
    t->outer_begin = lb_for(b, "block", begin, end, step, LOOP_PARALLEL);
    ins *loop = t->outer_begin;
    scope mark = scope_open(e);
    t->outer_end = least(b, lb_add(b, loop, step), end);
    m_blocks(t, r, depth + 1);
    scope_close(e, mark);
    lb_end(b, loop);
}

static void m_blocks(tiling *t, const column_range *r, int depth) {
    emitter *e = t->e;
    int a = t->m.at[depth];
    ins *begin, *end;
    if (a == t->tile_m) piece_range(e, a, t->row_piece, &begin, &end);
    else axis_range(e, a, &begin, &end);
    if (depth == t->block.m_at) {
        split_blocks(t, r, begin, end);
        return;
    }
    if (t->block.nested && depth == t->block.m_at - 1) {
        nested_blocks(t, r, depth, begin, end);
        return;
    }
    scope loop = scope_axis(e, a, begin, end, 1, LOOP_PARALLEL);
    m_blocks(t, r, depth + 1);
    scope_close(e, loop);
}

static void columns(tiling *t, column_range r) {
    lbuild *b = &t->e->b;
    t->rows = tile_rows(t, r.vectors);
    choose_prefetch(t, r.end ? r.vectors : 0);
    t->ahead = reads_ahead(t);
    if (!t->block.on) {
        column_tiles(t, &r);
        return;
    }
    scope loop = scope_open(t->e);
    if (r.end) {
        loop = open_loop(t->e, "chunk", r.begin, r.end, t->block.columns);
        r.begin = loop.head;
        r.end = least(b, idx_addk(b, r.begin, t->block.columns), r.end);
    }
    t->chunk = r.begin, t->chunk_end = r.end;
    if (t->m.n) m_blocks(t, &r, 0);
    else in_block(t, &r, lb_idx(b, 0), lb_idx(b, 1));
    scope_close(t->e, loop);
}

// The columns past the last whole tile: one tile with fewer vectors if their number is constant, otherwise
// vector by vector.
static void last_columns(tiling *t, ins *full, ins *end) {
    emitter *e = t->e;
    lbuild *b = &e->b;
    const dim *n = e->extent[t->c->n];
    if (dim_is_const(n)) {
        int64_t rest = dim_value(n) % ((int64_t)t->vectors * t->lanes),
                vectors = (rest + t->lanes - 1) / t->lanes, last = rest - (vectors - 1) * t->lanes;
        columns(t, (column_range){.begin = lb_idx(b, dim_value(n) - rest),
                                  .vectors = (int)vectors,
                                  .last = last == t->lanes ? NULL : lb_idx(b, last)});
        return;
    }
    scope loop = open_loop(e, "n", full, end, t->lanes);
    ins *left = lb_bin(b, L_SMIN, lb_sub(b, end, loop.head), lb_idx(b, t->lanes));
    columns(t, (column_range){.begin = loop.head, .vectors = 1, .last = left});
    scope_close(e, loop);
}

// Tiles that are parts of panels reach into the last one.
static void whole_tiles(tiling *t, ins *begin, ins *full) {
    lbuild *b = &t->e->b;
    column_range r = {.begin = begin, .end = full, .vectors = t->vectors};
    bool narrow = t->narrow.rows && (int64_t)t->vectors * t->lanes <= t->narrow.columns;
    r.both = narrow && has_one_height(t);
    if (narrow && !r.both) {
        ins *last = lb_idx(b, t->narrow.number * t->panel);
        r.end = least(b, full, last);
        columns(t, r);
        r = (column_range){lb_bin(b, L_SMAX, begin, last), full, t->vectors, .narrow = true};
    }
    columns(t, r);
}

static void columns_from(tiling *t, ins *begin, ins *end) {
    lbuild *b = &t->e->b;
    int64_t width = (int64_t)t->vectors * t->lanes;
    const dim *n = t->e->extent[t->c->n];
    ins *full;
    if (dim_is_const(n) && dim_value(n) % width == 0) full = end;
    else full = lb_add(b, begin, emit_int_floor(b, lb_sub(b, end, begin), width));
    if (!(full->op == L_CONST && full->i == 0)) whole_tiles(t, begin, full);
    if (same_index(full, end)) return;
    scope some = scope_if(t->e, end->op == L_CONST ? NULL : lb_cmp(b, L_SLT, full, end));
    last_columns(t, full, end);
    scope_close(t->e, some);
}

static void n_loops(tiling *t) {
    emitter *e = t->e;
    lbuild *b = &e->b;
    ins *begin, *end;
    if (!t->grid) {
        piece_range(e, t->c->n, columns_of_task(t), &begin, &end);
        columns_from(t, begin, end);
        return;
    }
    int64_t piece = columns_of_task(t), n = dim_value(e->extent[t->c->n]);
    grid_range(e, &begin, &end);
    scope loop = open_loop(e, "columns", begin, end, 1);
    e->task_at = loop.head;
    ins *first = idx_mulk(b, loop.head, piece), *last = idx_addk(b, first, piece);
    columns_from(t, first, n % piece ? lb_bin(b, L_SMIN, last, lb_idx(b, n)) : last);
    e->task_at = NULL;
    scope_close(e, loop);
}

// All rows and columns at the current position of the outer loops.
static void matrix_loops(tiling *t) {
    if (!t->digits.on) {
        n_loops(t);
        return;
    }
    bool ahead = t->ahead;
    scope mark = scope_if(t->e, digit_rows_split(t));
    t->ahead = true;
    digit_rows(t);
    mark = scope_else(t->e, mark);
    t->ahead = ahead;
    n_loops(t);
    scope_close(t->e, mark);
}

static void outer_loops(tiling *t, const axis_list *axes, int depth) {
    emitter *e = t->e;
    if (depth == axes->n) {
        matrix_loops(t);
        return;
    }
    scope loop = scope_parallel(e, axes->at[depth]);
    outer_loops(t, axes, depth + 1);
    scope_close(e, loop);
}

// ---------------------------------------------------------------- all of it
tiling tiling_of(emitter *e, const contraction *c, ins *scratch) {
    tiling t = {.e = e, .c = c, .tile_m = -1, .group_axis = -1, .row_piece = PIECE_ROWS};
    if (scratch && contraction_scratch(e->t, c)) t.partial = scratch;
    if (scratch && widened_bytes(e->t, c))
        t.wide = lb_offset(&e->b, scratch, lb_idx(&e->b, contraction_scratch(e->t, c)), 1);
    return t;
}

bool prepare_tiling(tiling *t) {
    emitter *e = t->e;
    const contraction *c = t->c;
    emitter_stage(e, c->s, -1, 1, false);
    if (!contraction_operands(t)) return false;
    choose_lanes(t);
    bool scalars = t->registers && (t->widens || c->s->states.at[0].dtype == DT_F32 ||
                                    multiplies_halves(e->t, c) || multiplies_words(e->t, c));
    if (t->lanes > t->panel || (t->lanes < 2 && t->group_axis < 0 && !scalars) ||
        (!t->words && t->lanes * dtype_bits(c->b->buffer->dtype) < 8))
        return false;
    choose_axes(t);
    t->heavy = is_heavy_epilogue(t);
    return find_last_panel(t);
}

void prepare_factors(tiling *t) {
    emitter *e = t->e;
    const contraction *c = t->c;
    find_sides(t);
    if (t->words) find_word_factor(e, c, word_axis(c), t->lanes, &t->word);
    else if (t->k.n && can_unpack(c) && t->e->t->fp != FP_STRICT)
        split_word_factor(e, c, t->k.at[t->k.n - 1], &t->word);
    e->state = ARENA_ARRAY(e->scratch, ins *, 1);
    e->active = NULL;
    if (t->packed) find_panel_stride(t);
    emitter_stage(e, c->s, c->n, t->lanes, true);
}

// What is the same for all results, such as a scale of the run: compilers read it again after each result that is stored. Vectors of
// it would take registers.
static void hoist_epilogue(tiling *t) {
    if (t->e->t->vector_bits) return;
    for (int j = 0; j < t->c->s->writes.n; j++) emit_hoist(t->e, t->c->s->writes.at[j].value);
}

void tiling_loops(tiling *t, ins *scratch) {
    const contraction *c = t->c;
    prepare_factors(t);
    hoist_epilogue(t);
    axis_list outer = c->batch;
    for (int j = 0; j < c->other_n.n; j++) outer.at[outer.n++] = c->other_n.at[j];
    t->pairs_tasks = !t->bytes && !t->rounded_rows;
    choose_tasks(t, &outer);
    if (t->bytes) round_to_bytes(t);
    if (t->rounded_rows) round_to_pairs(t);
    t->digits.on = !t->bytes && find_digits(t, scratch);
    outer_loops(t, &outer, 0);
}
