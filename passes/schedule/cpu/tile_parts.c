// Parts of operands for tiles of bf16.
#include "passes/schedule/cpu/tile_parts.h"
#include "ir/kernel/program.h"
#include "ir/kernel/uses.h"
#include "ir/loops/convert.h"
#include "ir/loops/loops_tiles.h"
#include "passes/match/form.h"
#include "passes/schedule/cpu/contract_tiling.h"

enum {
    LANES = 16,
    BLOCK = 2 * LANES,
    LEAST_ROWS = 16,
    LEAST_ROUNDED_ROWS = 6,
    BEYOND_BYTES = 12,
    BF16_BYTES = 2,
    MOST_PAIRS = 8
};

// Tasks of columns all take the same parts of A: a thread makes them once and marks its scratch memory.
typedef enum mark_of_parts { NOT_MADE, MADE, NOT_FINITE } mark_of_parts;

// ---------------------------------------------------------------- applicability
static bool is_exact(dtype t, double v) {
    uint16_t bits;
    dtype_store_float(t, &bits, 0, v, false);
    return dtype_load_float(t, &bits, 0) == v;
}

// Whether a value is always one of type t.
static bool is_value_of(const expr *x, dtype t) {
    if (x->op == X_ROUND_TO) return x->to == t;
    if (x->op == X_READ && (!x->guard || is_value_of(x->fill, t))) return x->buffer->dtype == t;
    if (x->op == X_CONST) return dtype_is_float(x->dtype) && is_exact(t, x->f);
    if (x->op == X_SELECT) return is_value_of(x->arg[1], t) && is_value_of(x->arg[2], t);
    return (x->op == X_MAX || x->op == X_MIN) && is_value_of(x->arg[0], t) && is_value_of(x->arg[1], t);
}

static bool holds_only(const program *p, const buffer *root, dtype t) {
    for (int j = 0; j < p->kernels.n; j++) {
        write_list all = kernel_write_list(p->kernels.at[j]);
        for (int i = 0; i < all.n; i++)
            if (all.at[i]->to->role != BUF_LOCAL && buffer_root(all.at[i]->to) == root &&
                !(all.at[i]->combine == COMBINE_SET && is_value_of(all.at[i]->value, t)))
                return false;
    }
    return true;
}

// The narrow type whose values a buffer holds: its own, or that of widened temporaries (passes/rewrite/widen.c). Two
// parts have 16 of the bits of any f32, which --precision=f16 allows.
static dtype type_of_values(arena *scratch, const target *t, const program *p, const buffer *b) {
    const buffer *root = buffer_root(b);
    if (b->dtype == DT_F16 || b->dtype == DT_BF16) return b->dtype;
    if (b->dtype == DT_F32 && t->precision == PRECISION_F16) return DT_F32;
    if (b->dtype != DT_F32 || root->dtype != DT_F32 || (root->role != BUF_TEMP && root->role != BUF_HEAP))
        return DT_NONE;
    dtype held = holds_only(p, root, DT_BF16) ? DT_BF16 : holds_only(p, root, DT_F16) ? DT_F16 : DT_NONE;
    return held && !uses_build(scratch, p)->of[root->id].by_others ? held : DT_NONE;
}

static int parts_of(dtype t) { return t == DT_F16 || t == DT_F32 ? 2 : t == DT_BF16 ? 1 : 0; }

static bool has_enough_rows(const contraction *c, int least) {
    return axes_extent(c->k, c->m.at, c->m.n)->max >= least;
}

// Fewer rows are faster by vectors; with rows of bytes that is true of more.
static int least_rounded_rows(const target *t) {
    return t->precision == PRECISION_INT8 ? BEYOND_BYTES : LEAST_ROUNDED_ROWS;
}

// Both operands in one rounded part.
static tile_parts *rounded_parts(arena *scratch, const target *t, const contraction *c) {
    dtype a = c->a->buffer->dtype;
    int64_t k = positions(c->k, &c->k_axes);
    bool floats = a == DT_F32 || a == DT_BF16 || a == DT_F16;
    bool allowed = t->precision == PRECISION_BF16 || t->precision == PRECISION_INT8;
    if (!allowed || !can_unpack(c) || !floats || c->term_a != c->a || k % 2 ||
        !has_enough_rows(c, least_rounded_rows(t)))
        return NULL;
    tile_parts *p = ARENA_NEW(scratch, tile_parts);
    *p = (tile_parts){.a = 1, .b = 1, .rounds = true, .depth = k};
    return p;
}

tile_parts *tile_parts_find(arena *scratch, const target *t, const contraction *c) {
    const buffer *a = c->a->buffer, *b = c->b->buffer;
    int64_t k = positions(c->k, &c->k_axes);
    if (!t->amx_bf16 || t->fp == FP_STRICT || c->n < 0 || c->s->states.at[0].dtype != DT_F32) return NULL;
    tile_parts *rounded = rounded_parts(scratch, t, c);
    if (rounded) return rounded;
    if (c->term_a != c->a || c->term_b != c->b || c->a->guard || c->b->guard) return NULL;
    if (b->role != BUF_CONST || !b->data || (b->dtype != DT_F16 && b->dtype != DT_BF16) ||
        !is_packed_operand(c->b, c->n))
        return NULL;
    if (k == INT64_MAX || k % 2 || !has_enough_rows(c, LEAST_ROWS)) return NULL;
    dtype held = type_of_values(scratch, t, c->k->program, a);
    if (!held || !constant_is_finite(b->data)) return NULL;
    tile_parts *p = ARENA_NEW(scratch, tile_parts);
    *p = (tile_parts){.a = parts_of(held), .b = parts_of(b->dtype), .rest = held == DT_F32, .depth = k};
    return p;
}

static int64_t panel_elements(const tile_parts *p) { return p->depth * PANEL; }
static int64_t bytes_of_panels(const tile_parts *p) {
    return parts_columns(p) / PANEL * panel_elements(p) * BF16_BYTES;
}

// Unpacked columns stay in the L2 cache while all rows pass; those of products in the order of K are two panels.
int64_t parts_columns(const tile_parts *p) {
    int64_t two = 2 * panel_elements(p) * BF16_BYTES, n = p->rounds ? L2_BYTES / 4 * 3 / two : 1;
    return 2 * PANEL * (n < 1 ? 1 : n > MOST_PAIRS ? MOST_PAIRS : n);
}
static dim *bytes_of_rows(const contraction *c) {
    dim *n = dim_addk(buffer_physical_count(c->a->buffer), 2 * BLOCK);
    return dim_mulk(dim_ceildiv(n, dim_const(n->table, BLOCK)), (int64_t)BLOCK * BF16_BYTES);
}

dim *tile_parts_scratch(const tile_parts *p, const contraction *c) {
    int64_t overlap = p->rounds ? 2 * TILE_ROWS * p->depth * BF16_BYTES : 0; // of the last two blocks
    return dim_addk(dim_mulk(bytes_of_rows(c), p->a), overlap + p->b * bytes_of_panels(p));
}

static bool goes_in_blocks(const tiling *t) {
    int last = t->k.at[t->k.n - 1];
    for (int j = 0; j < t->e->k->axes.n; j++) {
        const expr *step = t->a->coef[j];
        if (j != last && (step->op != X_CONST || step->i % BLOCK)) return false;
    }

    return t->a->base->op == X_CONST && t->a->base->i % BLOCK == 0 &&
           dim_value(t->e->extent[last]) % BLOCK == 0;
}

bool find_unpacked_parts(tile_parts *p, const emitter *e, const contraction *c) {
    emitter *own = ARENA_NEW(e->scratch, emitter);
    *own = emitter_apart(e);
    p->unpacked = ARENA_NEW(e->scratch, tiling);
    *p->unpacked = (tiling){.e = own, .c = c, .tile_m = -1, .group_axis = -1};
    return find_unpacking(p->unpacked) && p->unpacked->lanes == LANES && unpacks_pairs(p->unpacked);
}

int64_t columns_of_rounded_task(const contraction *c) {
    enum { TASKS = 32, UNIT = MAX_VECTORS * PANEL };
    const dim *n = c->k->axes.at[c->n].extent;
    int64_t piece = dim_is_const(n) ? (dim_value(n) + TASKS - 1) / TASKS : 0;
    return (piece + UNIT - 1) / UNIT * UNIT;
}

// Whether A's elements lie along K as those of B's panels do.
static bool rows_are_dense(const tiling *t) {
    int64_t step = 1;
    for (int j = t->k.n - 1; j >= 0; j--) {
        if (!t->a->coef[t->k.at[j]] || !expr_is_int(t->a->coef[t->k.at[j]], step)) return false;
        step *= dim_value(t->e->extent[t->k.at[j]]);
    }
    return true;
}

// The blocks of B's scales do not matter to products of its factors.
static bool join_k(tiling *t) {
    emitter *e = t->e;
    int last = t->k.at[t->k.n - 1];
    if (!rows_are_dense(t) || !panels_are_dense(t) || !rows_are_compact(t)) return false;
    for (int j = 0; j < t->k.n - 1; j++) {
        int axis = t->k.at[j];
        e->extent[last] = dim_mul(e->extent[axis], e->extent[last]);
        e->extent[axis] = dim_const(e->extent[axis]->table, 1);
        e->counter[axis] = lb_idx(&e->b, 0);
    }
    t->k = (axis_list){1, {last}};
    return true;
}

// Whether A is a matrix of rows of K elements.
static bool is_matrix(const tile_parts *p, const tiling *t) {
    for (int j = 0; j < t->e->k->axes.n; j++) {
        bool moves = !expr_is_int(t->a->coef[j], 0) && !dim_is(t->e->extent[j], 1);
        if (moves && j != t->k.at[0] && j != t->tile_m) return false;
    }
    return t->m.n == 1 && expr_is_int(t->row_stride, p->depth) && t->a->base->op == X_CONST &&
           p->depth % BLOCK == 0;
}

bool tile_parts_fit(tile_parts *p, tiling *t) {
    if (p->rounds) {
        if (!t->b->affine || !t->packed || t->k.n < 1 || !join_k(t)) return false;
        p->in_blocks = is_matrix(p, t);
        return true;
    }
    if (!t->b->affine || !t->packed || t->k.n < 1 || t->group_axis >= 0 || !rows_are_compact(t)) return false;
    int last = t->k.at[t->k.n - 1];
    if (!steps_by_one(t->a, last) || !panels_are_dense(t)) return false;
    p->apart = goes_in_blocks(t);
    return true;
}

// ---------------------------------------------------------------- vectors
static ins *bits_of(lbuild *b, ins *x) { return lb_conv(b, L_BITCAST, LK_I32, x); }
static ins *word(lbuild *b, int64_t v) { return lb_int(b, lt(LK_I32, LANES), v); }
static ins *upper(lbuild *b, ins *bits) { return lb_bin(b, L_AND, bits, word(b, (int32_t)0xffff0000)); }

// Bits of the parts, each in the upper half of its lanes. rest: there may be more bits than those of the parts.
static void split_vector(lbuild *b, ins *x, int parts, bool rounds, bool rest, ins **to) {
    ins *bits = bits_of(b, x);
    to[0] = bits;
    if (parts < 2) return;
    to[0] = upper(b, rounds ? lb_add(b, bits, word(b, 0x8000)) : bits);
    to[1] = bits_of(b, lb_sub(b, x, lb_conv(b, L_BITCAST, LK_F32, to[0])));
    if (rest) to[1] = upper(b, to[1]);
}

static ins *paired(lbuild *b, ins *x, ins *y) {
    return lb_bin(b, L_OR, lb_bin(b, L_LSHR, x, word(b, 16)), y);
}

// ---------------------------------------------------------------- rows
static ins *magnitude(lbuild *b, ins *x) { return lb_bin(b, L_AND, bits_of(b, x), word(b, 0x7fffffff)); }

// Stores the parts of 32 elements from number j on; n: only the first n exist. *most: a variable, the largest
// magnitudes.
static void split_block(const tile_parts *p, const tiling *t, ins *j, ins *n, ins *most) {
    lbuild *b = &t->e->b;
    dtype type = t->c->a->buffer->dtype;
    ins *from = pointer_of(t->e, t->c->a->buffer), *part[2][MOST_PARTS];
    for (int half = 0; half < 2; half++) {
        ins *at = idx_addk(b, lb_add(b, p->from, j), half * LANES);
        ins *left = n ? lb_bin(b, L_SMIN, lb_bin(b, L_SMAX, idx_subk(b, n, half * LANES), lb_idx(b, 0)),
                               lb_idx(b, LANES))
                      : NULL;
        ins *x = n ? load_element_n(b, type, from, at, LANES, left) : load_element(b, type, from, at, LANES);
        lb_set(b, most, lb_bin(b, L_UMAX, lb_get(b, most), magnitude(b, x)));
        split_vector(b, x, p->a, true, p->rest, part[half]);
    }
    for (int i = 0; i < p->a; i++) {
        ins *to = lb_offset(b, p->plane_a[i], j, BF16_BYTES);
        if (p->apart) lb_store(b, to, lb_idx(b, 0), paired(b, part[0][i], part[1][i]), 4);
        for (int half = 0; half < 2 && !p->apart; half++) {
            ins *high = lb_conv(b, L_ITRUNC, LK_I16, lb_bin(b, L_LSHR, part[half][i], word(b, 16)));
            lb_store(b, to, lb_idx(b, (int64_t)half * LANES), high, BF16_BYTES);
        }
    }
}

static void split_blocks(const tile_parts *p, tiling *t, ins *n, ins *most) {
    emitter *e = t->e;
    lbuild *b = &e->b;
    ins *whole = emit_int_floor(b, n, BLOCK);
    ins *j = lb_for(b, "element", lb_idx(b, 0), whole, lb_idx(b, BLOCK), LOOP_SERIAL);
    split_block(p, t, j, NULL, most);
    lb_end(b, j);
    if (p->apart) return;
    scope rest = scope_if(e, lb_cmp(b, L_SLT, whole, n));
    split_block(p, t, whole, lb_sub(b, n, whole), most);
    scope_close(e, rest);
}

// Rounds 32 elements from number j on to bf16, stored from number `place` on; n: only the first n exist.
static void round_block(const tile_parts *p, const tiling *t, ins *j, ins *place, ins *n) {
    lbuild *b = &t->e->b;
    dtype type = t->c->a->buffer->dtype;
    ins *from = pointer_of(t->e, t->c->a->buffer), *to = lb_offset(b, p->plane_a[0], place, BF16_BYTES);
    for (int half = 0; half < 2; half++) {
        ins *at = idx_addk(b, j, half * LANES);
        ins *left = n ? lb_bin(b, L_SMIN, lb_bin(b, L_SMAX, idx_subk(b, n, half * LANES), lb_idx(b, 0)),
                               lb_idx(b, LANES))
                      : NULL;
        ins *x = n ? load_element_n(b, type, from, at, LANES, left) : load_element(b, type, from, at, LANES);
        lb_store(b, to, lb_idx(b, (int64_t)half * LANES), lb_conv(b, L_FTRUNC, LK_BF16, x), BF16_BYTES);
    }
}

void find_part_rows(tile_parts *p, tiling *t) {
    piece_range(t->e, t->tile_m, t->row_piece, &p->first_row, &p->end_row);
}

void find_part_blocks(tile_parts *p, tiling *t, int rows, ins *full) {
    lbuild *b = &t->e->b;
    dim *extent = t->e->extent[t->tile_m];
    ins *all = lb_sub(b, p->end_row, p->first_row);
    p->rows = extent->max < rows ? all : full;
    if (extent->min >= rows || extent->max < rows) return;
    p->rows = lb_select(b, lb_cmp(b, L_SLE, lb_idx(b, rows), emit_dim(t->e, extent)), full, all);
}

// The last block begins earlier if it would not be full.
static void round_blocks(tile_parts *p, tiling *t, ins *end) {
    lbuild *b = &t->e->b;
    ins *m = lb_for(b, "m", p->first_row, end, p->rows, LOOP_SERIAL);
    ins *start = lb_bin(b, L_SMIN, m, lb_sub(b, p->end_row, p->rows)),
        *to = idx_mulk(b, lb_sub(b, m, p->first_row), p->depth);
    ins *row = lb_for(b, "row", lb_idx(b, 0), p->rows, lb_idx(b, 1), LOOP_SERIAL);
    ins *from = idx_addk(b, idx_mulk(b, lb_add(b, start, row), p->depth), t->a->base->i);
    ins *k = lb_for(b, "k", lb_idx(b, 0), lb_idx(b, p->depth), lb_idx(b, BLOCK), LOOP_SERIAL);
    ins *place = lb_add(b, lb_add(b, to, lb_mul(b, k, p->rows)), idx_mulk(b, row, BLOCK));
    round_block(p, t, lb_add(b, from, k), place, NULL);
    lb_end(b, k);
    lb_end(b, row);
    lb_end(b, m);
}

static void round_rows(const tile_parts *p, tiling *t, ins *n) {
    emitter *e = t->e;
    lbuild *b = &e->b;
    ins *whole = emit_int_floor(b, n, BLOCK);
    ins *j = lb_for(b, "element", lb_idx(b, 0), whole, lb_idx(b, BLOCK), LOOP_SERIAL);
    round_block(p, t, lb_add(b, p->from, j), j, NULL);
    lb_end(b, j);
    scope rest = scope_if(e, lb_cmp(b, L_SLT, whole, n));
    round_block(p, t, lb_add(b, p->from, whole), whole, lb_sub(b, n, whole));
    scope_close(e, rest);
}

// Memory for parts: those of A, then those of two panels of B.
static void place(tile_parts *p, const tiling *t, ins *scratch) {
    emitter *e = t->e;
    int64_t overlap = p->rounds ? 2 * TILE_ROWS * p->depth * BF16_BYTES : 0;
    ins *rows = idx_addk(&e->b, emit_dim(e, bytes_of_rows(t->c)), overlap);
    for (int j = 0; j < p->a; j++) p->plane_a[j] = lb_offset(&e->b, scratch, idx_mulk(&e->b, rows, j), 1);
    ins *panels = lb_offset(&e->b, scratch, idx_mulk(&e->b, rows, p->a), 1);
    for (int j = 0; j < p->b; j++)
        p->plane_b[j] = lb_offset(&e->b, panels, lb_idx(&e->b, j * bytes_of_panels(p)), 1);
}

// Opens a branch for calls that have to make A's parts.
static scope scope_unmade(tile_parts *p, tiling *t) {
    lbuild *b = &t->e->b;
    if (!p->mark) return scope_if(t->e, NULL);
    ins *mark = lb_load(b, lt(LK_I32, 1), p->mark, lb_idx(b, 0), 4);
    return scope_if(t->e, lb_cmp(b, L_EQ, mark, lb_int(b, lt(LK_I32, 1), NOT_MADE)));
}

static void set_mark(tile_parts *p, tiling *t, ins *mark) {
    if (p->mark) lb_store(&t->e->b, p->mark, lb_idx(&t->e->b, 0), mark, 4);
}

static void round_once(tile_parts *p, tiling *t, ins *n, ins *enough) {
    lbuild *b = &t->e->b;
    p->unpacked->e->b = *b;
    prepare_factors(p->unpacked);
    *b = p->unpacked->e->b;
    scope unmade = scope_unmade(p, t);
    ins *end = enough && p->in_blocks ? lb_select(b, enough, p->end_row, p->first_row) : p->end_row;
    if (p->in_blocks) round_blocks(p, t, end);
    else round_rows(p, t, n);
    set_mark(p, t, lb_int(b, lt(LK_I32, 1), MADE));
    scope_close(t->e, unmade);
}

// Returns whether all elements are finite.
static ins *split_once(tile_parts *p, tiling *t, ins *n) {
    enum { INFINITE = 0x7f800000 };
    lbuild *b = &t->e->b;
    ltype one = lt(LK_I32, 1);
    ins *most = lb_var(b, "most", word(b, 0)), *made = lb_int(b, one, MADE),
        *unmade = lb_int(b, one, NOT_MADE);
    ins *mark = lb_var(b, "mark", p->mark ? lb_load(b, one, p->mark, lb_idx(b, 0), 4) : unmade);
    scope some = scope_if(t->e, p->mark ? lb_cmp(b, L_EQ, lb_get(b, mark), unmade) : NULL);
    split_blocks(p, t, n, most);
    ins *largest = lb_hreduce(b, L_HUMAX, lb_get(b, most));
    ins *finite = lb_cmp(b, L_ULT, largest, lb_int(b, largest->type, INFINITE));
    lb_set(b, mark, lb_select(b, finite, made, lb_int(b, one, NOT_FINITE)));
    set_mark(p, t, lb_get(b, mark));
    scope_close(t->e, some);
    return lb_cmp(b, L_EQ, lb_get(b, mark), made);
}

ins *split_rows(tile_parts *p, tiling *t, ins *scratch) {
    emitter *e = t->e;
    lbuild *b = &e->b;
    place(p, t, scratch);
    p->next = lb_var(b, "pair", lb_idx(b, 0));
    ins *n = range_of_rows(t, BLOCK, &p->from), *enough = NULL;
    int least = p->rounds ? least_rounded_rows(e->t) : LEAST_ROWS;
    dim *rows = axes_extent(e->k, t->c->m.at, t->c->m.n);
    if (rows->min < least) {
        enough = lb_cmp(b, L_SLE, lb_idx(b, least), emit_dim(e, rows));
        n = lb_select(b, enough, n, lb_idx(b, 0));
    }
    if (p->rounds) {
        round_once(p, t, n, enough);
        return enough;
    }
    ins *finite = split_once(p, t, n);
    return enough ? lb_bin(b, L_AND, enough, finite) : finite;
}

ins *stride_of_rows(const tile_parts *p, tiling *t) {
    if (p->in_blocks) return lb_idx(&t->e->b, BLOCK * BF16_BYTES);
    return idx_mulk(&t->e->b, emit_index(t->e, t->row_stride), BF16_BYTES);
}

ins *part_of_rows(const tile_parts *p, tiling *t, int j) {
    lbuild *b = &t->e->b;
    if (p->in_blocks) {
        ins *block = idx_mulk(b, lb_sub(b, p->row, p->first_row), p->depth),
            *panel = lb_mul(b, t->e->counter[t->k.at[0]], p->rows);
        return lb_offset(b, p->plane_a[0], lb_add(b, block, panel), BF16_BYTES);
    }
    return lb_offset(b, p->plane_a[j], lb_sub(b, emit_index(t->e, t->a->offset), p->from), BF16_BYTES);
}

// ---------------------------------------------------------------- panels
// Row j of pairs of a panel: positions 2 j and 2 j + 1 of K, or j and j + 16 of 32.
static void split_pair(const tile_parts *p, const tiling *t, ins *from, int64_t panel, ins *first,
                       ins *second, ins *to) {
    lbuild *b = &t->e->b;
    dtype type = t->c->b->buffer->dtype;
    ins *x[MOST_PARTS], *y[MOST_PARTS], *at = idx_addk(b, to, panel * panel_elements(p) / 2);
    split_vector(b, load_element(b, type, from, first, LANES), p->b, false, false, x);
    split_vector(b, load_element(b, type, from, second, LANES), p->b, false, false, y);
    for (int i = 0; i < p->b; i++) lb_store(b, p->plane_b[i], at, paired(b, x[i], y[i]), 4);
}

// This number of rows of pairs of all panels, from row `row` on; all of them in one block of pairs that are apart.
static void split_pairs(const tile_parts *p, const tiling *t, ins *row, int rows) {
    lbuild *b = &t->e->b;
    ins *k = idx_mulk(b, row, 2);
    if (p->apart) k = lb_sub(b, k, lb_bin(b, L_AND, row, lb_idx(b, LANES - 1)));
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < p->panels; j++) {
            ins *first = idx_addk(b, idx_mulk(b, k, PANEL), (p->apart ? i : 2 * i) * PANEL);
            ins *second = idx_addk(b, first, (p->apart ? LANES : 1) * PANEL);
            split_pair(p, t, p->source[j], j, first, second, idx_mulk(b, idx_addk(b, row, i), PANEL));
        }
}

void split_next_pairs(tile_parts *p, tiling *t, int rows) {
    if (p->rounds) return;
    emitter *e = t->e;
    lbuild *b = &e->b;
    ins *row = lb_get(b, p->next);
    scope more = scope_if(e, lb_cmp(b, L_SLT, row, lb_idx(b, p->depth / 2)));
    split_pairs(p, t, row, rows);
    lb_set(b, p->next, idx_addk(b, row, rows));
    scope_close(e, more);
}

// Neighbours in pairs, in the upper halves of words rounded to nearest.
static void store_pairs(void *user, ins *place, int v, ins *const *factors, int n) {
    const tile_parts *p = user;
    lbuild *b = &p->unpacked->e->b;
    ins *at = idx_addk(b, emit_int_op(b, X_FLOORDIV, place, lb_idx(b, 2)), v * panel_elements(p) / 2);
    at = lb_add(b, at, idx_mulk(b, p->column, p->depth / 2));
    for (int j = 0; j < n; j += 2) {
        ins *x = lb_add(b, bits_of(b, factors[j]), word(b, 0x8000)),
            *y = lb_add(b, bits_of(b, factors[j + 1]), word(b, 0x8000));
        lb_store(b, p->plane_b[0], idx_addk(b, at, (int64_t)j / 2 * PANEL), paired(b, x, upper(b, y)), 4);
    }
}

static void unpack_panels(tile_parts *p, tiling *t, ins *n0, int panels, ins *last) {
    lbuild *b = &t->e->b;
    p->column = lb_sub(b, n0, p->first_column);
    tiling *u = p->unpacked;
    const contraction *c = t->c;
    u->e->b = t->e->b;
    for (int j = 0; j < c->batch.n; j++) u->e->counter[c->batch.at[j]] = t->e->counter[c->batch.at[j]];
    for (int j = 0; j < c->other_n.n; j++) u->e->counter[c->other_n.at[j]] = t->e->counter[c->other_n.at[j]];
    scope mark = scope_open(u->e);
    tile x = {.vectors = panels, .n0 = n0, .last = last};
    unpack_columns(u, &x, &(factor_store){store_pairs, p});
    scope_close(u->e, mark);
    t->e->b = u->e->b;
}

static void unpack_range(tile_parts *p, tiling *t, ins *n0, ins *end, int panels, ins *last) {
    lbuild *b = &t->e->b;
    p->first_column = n0;
    ins *n = lb_for(b, "n", n0, end, lb_idx(b, (int64_t)panels * PANEL), LOOP_SERIAL);
    unpack_panels(p, t, n, panels, last);
    lb_end(b, n);
}

void begin_panels(tile_parts *p, tiling *t, ins *n0, ins *end, int panels, ins *last, int chunk) {
    if (p->rounds) {
        unpack_range(p, t, n0, end, panels, last);
        return;
    }
    p->first_column = n0;
    emitter *e = t->e;
    lbuild *b = &e->b;
    scope mark = scope_open(e);
    for (int j = 0; j < t->k.n; j++) e->counter[t->k.at[j]] = lb_idx(b, 0);
    ins *panel = emit_int_op(b, X_FLOORDIV, n0, lb_idx(b, PANEL));
    ins *at = lb_add(b, emit_index(e, t->b->offset), lb_mul(b, panel, t->panel_stride));
    for (int j = 0; j < t->k.n; j++) e->counter[t->k.at[j]] = NULL;
    scope_close(e, mark);
    p->panels = panels;
    for (int j = 0; j < panels; j++) {
        p->source[j] = lb_offset(b, pointer_of(e, t->c->b->buffer), at, BF16_BYTES);
        at = lb_add(b, at, t->panel_stride);
    }
    ins *j = lb_for(b, "pair", lb_idx(b, 0), lb_idx(b, chunk / 2), lb_idx(b, 1), LOOP_SERIAL);
    split_pairs(p, t, j, 1);
    lb_end(b, j);
    lb_set(b, p->next, lb_idx(b, chunk / 2));
}

ins *part_of_panel(const tile_parts *p, tiling *t, int j, ins *n0, int panel) {
    lbuild *b = &t->e->b;
    ins *at = idx_addk(b, idx_mulk(b, lb_sub(b, n0, p->first_column), p->depth), panel * panel_elements(p));
    for (int i = 0; i < t->k.n; i++) {
        int axis = t->k.at[i];
        at = lb_add(b, at, idx_mulk(b, t->e->counter[axis], t->b->coef[axis]->i));
    }
    return lb_offset(b, p->plane_b[j], at, BF16_BYTES);
}

part_products products_of_parts(const tile_parts *p) {
    part_products r = {0};
    for (int j = p->b - 1; j > 0; j--) r.part_a[r.n] = 0, r.part_b[r.n++] = j;
    for (int j = 0; j < p->a; j++) r.part_a[r.n] = j, r.part_b[r.n++] = 0;
    return r;
}
