// Widening of columns. In: panels of f16 or bf16 constants, whose elements every tile of rows would convert
// again. Out: code that stores the columns of a tile as f32 before its rows, for one block of K:
//
//   for k in block, v < NV: wide[k][v] = f32(B[k][n0 + v L ...])
//
// so that tiles of rows read f32 from a cache, and memory is read at half its size. Pairs of bf16, which are for CPUs
// with units for them, are widened like this on others, where A is f32. Constants of a byte or less are unpacked
// (contract_factor.h): then wide[k][v] is B's whole factor, with its scales.
//
// A large matrix that is not a constant is copied in the same way, for all tiles of a chunk of columns: its rows are pages
// apart, so as much as possible is read from a page at a time.
#include "ir/kernel/program.h"
#include "ir/loops/convert.h"
#include "ir/loops/loops_tiles.h"
#include "passes/schedule/cpu/contract_tiling.h"
#include "passes/schedule/cpu/schedule_groups.h"

enum { HALF_BYTES = 2 };
static bool is_half(dtype t) { return t == DT_F16 || t == DT_BF16; }

// More than one tile unpacks every element again, in registers: the more instructions that takes, the fewer rows gain by memory.
int64_t least_unpacked_rows(const target *t, const contraction *c) {
    enum { CONVERTED = 2 * MAX_ROWS + 1, LOOKED_UP = 12, CODES = 5, SHIFTED = 3 };
    dtype type = c->b->buffer->dtype;
    bool rounds = t->bf16_pairs &&
                  (t->precision == PRECISION_BF16 || t->precision == PRECISION_INT8); // which the rows see
    if (rounds) return CONVERTED;
    if (dtype_bits(type) < 8) return t->permuted_words >= 1 << 4 ? LOOKED_UP : SHIFTED;
    return dtype_bits(type) == 8 && dtype_is_float(type) ? CODES : CONVERTED;
}

bool has_many_rows(const target *t, const contraction *c) {
    const dim *rows = axes_extent(c->k, c->m.at, c->m.n);
    int64_t least = least_unpacked_rows(t, c);
    return rows->min >= least || rows->divisor >= least;
}

// Two versions would be too much code for old CPUs.
static bool gains(const target *t, const contraction *c) {
    const dim *rows = axes_extent(c->k, c->m.at, c->m.n);
    return has_many_rows(t, c) || (!t->compact && rows->max >= least_unpacked_rows(t, c));
}

bool widens_pairs(const target *t, const contraction *c) {
    int axis;
    return !has_bf16_unit(t) && t->fp != FP_STRICT && c->n >= 0 && group_elements(c) == 2 && !are_halves(c) &&
           grouped_operand(c, &axis) == 2 && gains(t, c) && positions(c->k, &c->k_axes) != INT64_MAX;
}

static bool widens_columns(const target *t, const contraction *c) {
    return c->n >= 0 && c->term_b == c->b && !c->b->guard && is_half(c->b->buffer->dtype) &&
           !group_elements(c) && is_packed_operand(c->b, c->n) && gains(t, c) &&
           positions(c->k, &c->k_axes) != INT64_MAX;
}

// Rows that may be many: at run time, few of them leave B as it is. Microcontrollers unpack B for each tile instead: memory
// is dearer there, and columns outside of all rows would keep a result from overwriting its operand.
bool unpacks_for_rows(const target *t, const contraction *c) {
    return t->fp != FP_STRICT && t->vector_bits >= 128 && !is_microcontroller(t) && can_unpack(c) &&
           axes_extent(c->k, c->m.at, c->m.n)->max >= least_unpacked_rows(t, c);
}

// The matrix that tiles read in place, row by row; 0: not one.
static int64_t bytes_in_place(const contraction *c) {
    const buffer *b = c->b->buffer;
    const dim *n = c->n < 0 ? NULL : c->k->axes.at[c->n].extent;
    int64_t k = positions(c->k, &c->k_axes);
    bool plain = c->term_b == c->b && !c->b->guard && !c->a->guard && !b->layout && b->role != BUF_CONST;
    if (!n || !dim_is_const(n) || !plain || c->k_axes.n != 1 || k == INT64_MAX || !b->rank) return 0;
    const expr *last = c->b->index[b->rank - 1];
    return last->op == X_AXIS && last->axis == c->n ? k * dim_value(n) * dtype_bits(b->dtype) / 8 : 0;
}

// Whether several tiles of rows read such a matrix and the caches evict most of it before the next tile: it exceeds L2, or its
// rows begin in few sets. For more rows than MOST, a separate kernel packs it.
bool copies_columns(const target *t, const contraction *c) {
    enum { LEAST = 8, MOST = 256, CROWDED = 2048 };
    dtype type = c->s->states.at[0].dtype;
    int64_t m = positions(c->k, &c->m), bytes = bytes_in_place(c);
    if (m < LEAST || m > MOST || t->vector_bits < 128 || is_microcontroller(t)) return false;
    if (c->b->buffer->dtype != type || (type != DT_F32 && type != DT_F64) || !bytes) return false;
    bool crowded = bytes / positions(c->k, &c->k_axes) % CROWDED == 0;
    return bytes > (crowded ? L2_BYTES : 4 * L2_BYTES);
}

bool widens(const target *t, const contraction *c) {
    bool vectors = c->s->states.at[0].dtype == DT_F32 && t->vector_bits >= 128;
    return vectors && (widens_columns(t, c) || widens_pairs(t, c));
}

int64_t widened_bytes(const target *t, const contraction *c) {
    int bits = dtype_bits(c->s->states.at[0].dtype);
    int64_t tile = (int64_t)MAX_VECTORS * target_lanes(t, bits), columns = tile;
    if (copies_columns(t, c)) columns += CHUNK; // the last tile may be wider
    else if (!widens(t, c) && !(bits == 32 && unpacks_for_rows(t, c))) return 0;
    return block_depth(t, c) * columns * bits / 8;
}

// The first position of the current block of K, and the number of positions.
static ins *begin_block(tiling *t) {
    emitter *e = t->e;
    lbuild *b = &e->b;
    ins *n = lb_idx(b, 1);
    for (int j = t->k_begin ? t->block.k_at : 0; j < t->k.n; j++) {
        bool part = t->k_begin && j == t->block.k_at;
        e->counter[t->k.at[j]] = part ? t->k_begin : lb_idx(b, 0);
        n = lb_mul(b, n, part ? lb_sub(b, t->k_end, t->k_begin) : emit_dim(e, e->extent[t->k.at[j]]));
    }
    return n;
}

static void end_block(tiling *t) {
    for (int j = t->k_begin ? t->block.k_at : 0; j < t->k.n; j++) t->e->counter[t->k.at[j]] = NULL;
}

bool panels_are_dense(const tiling *t) {
    int64_t step = t->panel;
    for (int j = t->k.n - 1; j >= 0; j--) {
        if (!expr_is_int(t->b->coef[t->k.at[j]], step)) return false;
        step *= dim_value(t->e->extent[t->k.at[j]]);
    }
    return true;
}

static void store_wide(const tiling *t, ins *at, int v, ins *x) {
    lb_store(&t->e->b, t->wide, idx_addk(&t->e->b, at, (int64_t)v * t->lanes), x, 0);
}

typedef struct wide_place {
    const tiling *t;
    int64_t width; // of a row
} wide_place;

static void store_factors(void *user, ins *place, int v, ins *const *factors, int n) {
    const wide_place *w = user;
    lbuild *b = &w->t->e->b;
    int64_t panel = w->t->panel;
    ins *at = w->width % panel == 0
                  ? idx_mulk(b, place, w->width / panel)
                  : idx_mulk(b, emit_int_op(b, X_FLOORDIV, place, lb_idx(b, panel)), w->width);
    if (w->t->rounded_rows) {
        at = lb_bin(b, L_SDIV, at, lb_idx(b, 2));
        for (int j = 0; j < n; j += 2)
            store_wide(w->t, idx_addk(b, at, j / 2 * w->width), v,
                       pair_of_factors(b, factors[j], factors[j + 1]));
        return;
    }
    for (int j = 0; j < n; j++) store_wide(w->t, idx_addk(b, at, j * w->width), v, factors[j]);
}

void widen_columns(tiling *t, const tile *x, ins *first_column) {
    emitter *e = t->e;
    lbuild *b = &e->b;
    int64_t width = (int64_t)x->vectors * t->lanes, together = t->pairs ? 2 : 1;
    const buffer *of = t->c->b->buffer;
    t->is_wide = panels_are_dense(t);
    if (!t->is_wide) return;
    if (t->unpacks) {
        wide_place w = {t, width};
        t->wide_from = unpack_columns(t, x, &(factor_store){store_factors, &w});
        return;
    }
    scope mark = scope_open(e);
    ins *n = begin_block(t);
    t->wide_from = lb_add(b, emit_index(e, t->b->offset), first_column);
    end_block(t);
    scope_close(e, mark);
    ins *k = lb_for(b, "wide", lb_idx(b, 0), n, lb_idx(b, together), LOOP_SERIAL);
    ins *from = lb_add(b, t->wide_from, idx_mulk(b, k, t->panel)), *to = idx_mulk(b, k, width);
    for (int v = 0; v < x->vectors; v++) {
        ins *at = lb_add(b, from, column_offset(t, v));
        if (!t->pairs) {
            store_wide(t, to, v, load_element(b, of->dtype, pointer_of(e, of), at, t->lanes));
            continue;
        }
        ins *place = lb_offset(b, pointer_of(e, of), at, HALF_BYTES);
        ins *words = lb_load(b, lt(LK_I32, t->lanes), place, lb_idx(b, 0), 4);
        for (int high = 0; high < 2; high++)
            store_wide(t, idx_addk(b, to, high * width), v, half_of_pairs(b, words, high));
    }
    lb_end(b, k);
}

ins *load_widened(tiling *t, const tile *x, ins *at, int v) {
    lbuild *b = &t->e->b;
    int64_t width = (int64_t)x->vectors * t->lanes;
    ins *place = lb_sub(b, at, t->wide_from);
    int64_t step = t->rounded_rows ? 2 * t->panel : t->panel;
    if (width % step == 0) place = idx_mulk(b, place, width / step);
    else place = idx_mulk(b, emit_int_op(b, X_FLOORDIV, place, lb_idx(b, step)), width);
    return lb_load(b, lt(t->rounded_rows ? LK_I32 : LK_F32, t->lanes), t->wide,
                   idx_addk(b, place, (int64_t)v * t->lanes), 0);
}

// ---------------------------------------------------------------- copies
// The elements of the copy before row k of the tile whose first column is n0.
static ins *copied_place(tiling *t, ins *k, ins *n0, int64_t width) {
    lbuild *b = &t->e->b;
    ins *tiles = lb_mul(b, lb_sub(b, n0, t->chunk), lb_sub(b, t->k_end, t->k_begin));
    return lb_add(b, tiles, idx_mulk(b, lb_sub(b, k, t->k_begin), width));
}

// Row k of the tile. Rows that follow are requested, as those of a wide matrix are in other pages.
static void copy_row(tiling *t, const tile *x, ins *k) {
    enum { AHEAD = 8 };
    emitter *e = t->e;
    lbuild *b = &e->b;
    const buffer *of = t->c->b->buffer;
    int row = t->k.at[0];
    scope mark = scope_open(e);
    e->counter[row] = k, e->counter[t->c->n] = x->n0;
    ins *from = emit_index(e, t->b->offset), *step = emit_index(e, t->b->coef[row]),
        *to = copied_place(t, k, x->n0, (int64_t)x->vectors * t->lanes);
    for (int v = 0; v < x->vectors; v++) {
        ins *at = lb_add(b, from, column_offset(t, v));
        ins *ahead = lb_add(b, at, idx_mulk(b, step, AHEAD));
        lb_prefetch(b, pointer_of(e, of), idx_mulk(b, ahead, dtype_bits(of->dtype) / 8));
        store_wide(t, to, v, factor_b(t, x, at, v));
    }
    e->counter[row] = e->counter[t->c->n] = NULL;
    scope_close(e, mark);
}

void copy_columns(tiling *t, tile x, ins *end) {
    lbuild *b = &t->e->b;
    ins *k = lb_for(b, "copy", t->k_begin, t->k_end, lb_idx(b, 1), LOOP_SERIAL);
    ins *n = end ? lb_for(b, "n", x.n0, end, lb_idx(b, (int64_t)x.vectors * t->lanes), LOOP_SERIAL) : NULL;
    if (n) x.n0 = n;
    copy_row(t, &x, k);
    if (n) lb_end(b, n);
    lb_end(b, k);
}

ins *load_copied(tiling *t, const tile *x, int v) {
    lbuild *b = &t->e->b;
    int64_t width = (int64_t)x->vectors * t->lanes;
    ins *at = copied_place(t, t->e->counter[t->k.at[0]], x->n0, width);
    return lb_load(b, lt(compute_kind(t->c->b->buffer->dtype), t->lanes), t->wide,
                   idx_addk(b, at, (int64_t)v * t->lanes), 0);
}

// ---------------------------------------------------------------- rows
bool rows_are_compact(const tiling *t) {
    const buffer *a = t->a->buffer;
    if (!t->a->affine) return false;
    for (int j = 0; a->layout && j < a->layout->n; j++)
        if (layout_gap(a->layout, j)) return false;
    for (int j = 0; j < t->e->k->axes.n; j++)
        if (t->a->coef[j]->op == X_CONST && t->a->coef[j]->i < 0) return false;
    return true;
}

// Counters of all axes at the first or last position of this call; those in *changed were unset.
static void set_counters(tiling *t, bool last, bool *changed) {
    emitter *e = t->e;
    for (int j = 0; j < e->k->axes.n; j++) {
        ins *begin, *end;
        if (!changed[j] && e->counter[j]) continue;
        if (j == t->tile_m) piece_range(e, j, t->row_piece, &begin, &end);
        else axis_range(e, j, &begin, &end);
        changed[j] = true;
        // The last block of tiles may begin before the first row of a task.
        if (begin->op != L_CONST && j == t->tile_m)
            begin = lb_bin(&e->b, L_SMAX, idx_subk(&e->b, begin, 2 * TILE_ROWS), lb_idx(&e->b, 0));
        e->counter[j] = last ? idx_subk(&e->b, end, 1) : begin;
    }
    e->counter[t->c->n] = lb_idx(&e->b, 0);
}

ins *range_of_rows(tiling *t, int64_t unit, ins **from) {
    emitter *e = t->e;
    lbuild *b = &e->b;
    bool *changed = ARENA_ARRAY(e->scratch, bool, e->k->axes.n + 1);
    changed[t->c->n] = true;
    ins *at[2];
    for (int last = 0; last < 2; last++) {
        scope mark = scope_open(e);
        set_counters(t, last, changed);
        at[last] = emit_index(e, t->a->offset);
        scope_close(e, mark);
    }
    for (int j = 0; j < e->k->axes.n; j++)
        if (changed[j]) e->counter[j] = NULL;
    *from = emit_int_floor(b, at[0], unit);
    return idx_addk(b, lb_sub(b, at[1], *from), 1);
}
