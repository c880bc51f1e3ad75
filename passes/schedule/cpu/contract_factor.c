// Vectors of columns of B's factor: its element with what else it reads along N, such as scales and zero points (sides).
// And their unpacking: columns of a panel whose factors are computed once for all rows of a call, by
//
//   for k, v < NV: store(k, v, factor(B[k][n0 + v L ...]))
#include "passes/schedule/cpu/contract_factor.h"
#include "ir/loops/convert.h"
#include "passes/match/form.h"
#include "passes/schedule/cpu/contract_tiling.h"
#include "passes/schedule/cpu/schedule_groups.h"

// ---------------------------------------------------------------- places in panels
// Half as many while these hold all.
int panel_for(const target *t, const dim *columns) {
    int panel = t->panel > PANEL ? t->panel : PANEL, least = t->scalar_panels ? LEAST_PANEL : PANEL;
    while (panel > least && columns->max <= panel / 2) panel /= 2;
    return panel;
}

bool interleaves(const layout *l) {
    const struct layout_entry *last = l->order + l->n - 1;
    return l->n >= 4 && last->tile && last[-2].tile && last[-2].axis == last->axis;
}

static int axis_of_columns(const layout *l, bool groups) {
    return l->order[l->n - (groups && !interleaves(l) ? 2 : 1)].axis;
}

int panel_of(const buffer *b, bool groups) {
    int axis = axis_of_columns(b->layout, groups), columns = 1;
    for (int j = 0; j < b->layout->n; j++) {
        const struct layout_entry *at = &b->layout->order[j];
        if (at->axis == axis && at->tile) columns *= (int)at->tile;
    }
    return columns;
}

// The entry of the layout that counts panels, whose columns, or groups of columns, are innermost.
static int panel_entry(const buffer *b, bool groups) {
    int axis = axis_of_columns(b->layout, groups), j = 0;
    while (b->layout->order[j].axis != axis) j++;
    return j;
}

void find_panel_stride(tiling *t) {
    const buffer *b = t->c->b->buffer;
    t->panel_stride = emit_dim(t->e, layout_stride(b, panel_entry(b, t->group > 1)));
}

// Elements before vector v of a tile in panels of groups of `wide` elements.
static ins *panel_offset(const tiling *t, ins *stride, int v, int wide) {
    lbuild *b = &t->e->b;
    int64_t column = (int64_t)v * t->lanes;
    if (column < t->panel) return lb_idx(b, column * wide);
    return idx_addk(b, idx_mulk(b, stride, column / t->panel), column % t->panel * wide);
}
ins *column_offset(const tiling *t, int v) {
    if (!t->packed) return lb_idx(&t->e->b, (int64_t)v * t->lanes);
    return panel_offset(t, t->panel_stride, v, t->group);
}

// Elements before column n0 in such panels.
static ins *panel_start(tiling *t, const tile *x, ins *stride, int wide) {
    lbuild *b = &t->e->b;
    ins *panel = emit_int_op(b, X_FLOORDIV, x->n0, lb_idx(b, t->panel)),
        *inside = emit_int_op(b, X_MOD, x->n0, lb_idx(b, t->panel));
    ins *start = lb_mul(b, panel, stride);
    if (wide > 1) inside = idx_mulk(b, inside, wide);
    return t->lanes * x->vectors % t->panel == 0 ? start : lb_add(b, start, inside);
}
ins *first_column(tiling *t, const tile *x) {
    if (!t->packed) return lb_idx(&t->e->b, 0); // the access includes the axis
    return panel_start(t, x, t->panel_stride, t->group);
}

// Where a row of a panel begins is the row's number times the width of the panel. That of the first panel is the access's.
bool find_last_panel(tiling *t) {
    kernel *k = t->e->k;
    const access *at = t->b;
    if (!t->packed || !at->buffer->layout->last) return true;
    last_panel last = layout_last_panel(at->buffer);
    if (!last.number) return true;
    if (!at->affine || at->base->op != X_CONST) return false;
    t->narrow = last;
    t->narrow_row = x_i64(k, at->base->i / t->panel);
    for (int j = 0; j < k->axes.n; j++) {
        if (at->coef[j]->op != X_CONST) return false;
        t->narrow_row = x_add(k, t->narrow_row, x_mul(k, x_axis(k, j), x_i64(k, at->coef[j]->i / t->panel)));
    }
    return true;
}

// Whether vector v of a tile is in a last panel of narrower rows. Tiles in a loop are in others unless they say so.
static bool is_narrow(const tiling *t, const tile *x, int v) {
    if (!t->narrow.rows || x->narrow) return x->narrow;
    return x->n0->op == L_CONST && x->n0->i + (int64_t)v * t->lanes >= t->narrow.number * t->panel;
}

// Vector v of the current row of B, in whole panels at `at`; start: of the tile's first column.
ins *column_place(const tiling *t, const tile *x, ins *at, ins *start, int v) {
    lbuild *b = &t->e->b;
    if (!x->width && !is_narrow(t, x, v)) return lb_add(b, at, column_offset(t, v));
    ins *width = x->width ? x->width : lb_idx(b, t->narrow.columns);
    ins *row = lb_mul(b, emit_index(t->e, t->narrow_row), width);
    return lb_add(b, lb_add(b, start, column_offset(t, v)), row);
}

// ---------------------------------------------------------------- columns
// Vector v of an expression, given the value of a part of it, such as B's read; NULL: none.
ins *emit_column(tiling *t, const tile *x, int v, expr *what, const expr *part, ins *value) {
    emitter *e = t->e;
    if (what == part) return value;
    saved_values a = values_save(e, what, t->c->n);
    e->counter[t->c->n] = idx_addk(&e->b, x->n0, (int64_t)v * t->lanes);
    e->active = v == x->vectors - 1 ? x->last : NULL;
    scope mark = scope_open(e);
    if (part) use_value(e, part, value);
    for (int s = 0; s < t->nsides; s++)
        if (t->side_value[s][v]) use_value(e, t->side[s], t->side_value[s][v]);
    ins *made = emit_vector(e, what);
    scope_close(e, mark);
    values_restore(&a);
    e->counter[t->c->n] = x->n0;
    e->active = NULL;
    return made;
}

static bool has_counters(const tiling *t, int s) {
    const expr *read = t->side[s];
    const access *at = t->side_panel[s] ? t->side_panel[s] : entry_of(t->e, read)->read;
    for (int a = 0; a < t->e->k->axes.n; a++) {
        bool moves = at->affine ? !expr_is_int(at->coef[a], 0) : index_uses_axis(read, a);
        if (moves && !t->e->counter[a]) return false;
    }
    return true;
}

static ins *load_side(tiling *t, const tile *x, int s, int v) {
    const buffer *from = t->side[s]->buffer;
    const access *a = t->side_panel[s];
    if (!a) return emit_column(t, x, v, t->side[s], NULL, NULL);
    lbuild *b = &t->e->b;
    ins *stride = emit_dim(t->e, layout_stride(from, panel_entry(from, false)));
    ins *at = lb_add(b, emit_index(t->e, a->offset), panel_start(t, x, stride, 1));
    at = lb_add(b, at, panel_offset(t, stride, v, 1));
    if (v * t->lanes % t->panel == 0) request_side(t, x, from, at, stride);
    return load_lanes(b, from->dtype, pointer_of(t->e, from), at, t->lanes, NULL);
}

// Loads the side operands that are invariant in the remaining loops; returns which, for the end of the
// current loop.
unsigned load_sides(tiling *t, const tile *x) {
    unsigned done = 0;
    for (int s = 0; s < t->nsides; s++) {
        if (t->side_value[s][0] || !has_counters(t, s)) continue;
        for (int v = 0; v < x->vectors; v++) t->side_value[s][v] = load_side(t, x, s, v);
        done |= 1u << s;
    }
    return done;
}
void forget_sides(tiling *t, unsigned which) {
    for (int s = 0; s < t->nsides; s++)
        for (int v = 0; v < MAX_VECTORS && which >> s & 1; v++) t->side_value[s][v] = NULL;
}

void find_sides(tiling *t) {
    const contraction *c = t->c;
    expr_list reads = reads_only(expr_nodes(t->e->scratch, c->term_b));
    for (int j = 0; j < reads.n && t->nsides < MAX_SIDES; j++) {
        expr *x = reads.at[j];
        if (x == c->b || x->guard || !index_uses_axis(x, c->n)) continue;
        if (is_packed_operand(x, c->n)) t->side_panel[t->nsides] = access_at_first_column(t->e, x, c->n, -1);
        t->side[t->nsides++] = x;
    }
}

// A byte as 16 bits and then 32: an instruction multiplies 16 bits.
static ins *widened_byte(lbuild *b, const expr *read, ins *byte, int lanes) {
    ins *half = lb_conv(b, dtype_is_signed(read->buffer->dtype) ? L_SEXT : L_ZEXT, LK_I16, byte);
    return lb_conv(b, L_SEXT, LK_I32, lb_splat(b, half, lanes));
}

ins *byte_of_a(tiling *t, ins *at) {
    lbuild *b = &t->e->b;
    ins *byte = lb_load(b, lt(LK_I8, 1), pointer_of(t->e, t->c->a->buffer), at, 1);
    return widened_byte(b, t->c->a, byte, t->lanes);
}

ins *factor_b(tiling *t, const tile *x, ins *at, int v) {
    emitter *e = t->e;
    const contraction *c = t->c;
    dtype dt = c->b->buffer->dtype;
    ins *p = pointer_of(e, c->b->buffer);
    ins *left = !t->packed && v == x->vectors - 1 ? x->last : NULL;
    ins *loaded = load_lanes(&e->b, dt, p, at, t->lanes, left);
    if (t->widens) return widened_byte(&e->b, c->b, loaded, t->lanes);
    return emit_column(t, x, v, t->sums_block ? t->word.term : c->term_b, c->b, loaded);
}

// ---------------------------------------------------------------- unpacking
enum { MOST_NEIGHBOURS = 16 };

typedef struct unpacking {
    tiling *t;
    const tile *x;
    const factor_store *to;
    ins *start, *from; // elements before the columns; of the first position
    int n;             // neighbours along K at a time
} unpacking;

bool can_unpack(const contraction *c) {
    const buffer *b = c->b->buffer;
    int axis;
    bool panels = is_packed_operand(c->b, c->n) || (word_elements(c) && grouped_operand(c, &axis));
    return c->n >= 0 && c->s->states.at[0].dtype == DT_F32 && b->role == BUF_CONST && !b->view_of &&
           dtype_bits(b->dtype) <= 8 && !c->a->guard && !c->b->guard && panels &&
           positions(c->k, &c->k_axes) != INT64_MAX;
}

// Whole words; otherwise as many as divide the axis and its blocks.
static int neighbours(const tiling *t) {
    int last = t->k.at[t->k.n - 1], n = 8;
    int64_t extent = dim_value(t->e->extent[last]), step = 0;
    if (t->words) return t->group;
    if (t->k_begin && t->block.k_at == t->k.n - 1) step = t->block.k_step;
    while (extent % n || step % n) n /= 2;
    return n;
}

bool unpacks_pairs(const tiling *t) { return neighbours(t) % 2 == 0; }

// Neighbours from the current position on, column by column.
static void unpack_step(unpacking *u) {
    tiling *t = u->t;
    emitter *e = t->e;
    lbuild *b = &e->b;
    int axis = t->k.at[t->k.n - 1];
    ins *begin = e->counter[axis], *at = lb_add(b, emit_index(e, t->b->offset), u->start);
    ins *place = lb_sub(b, at, u->from);
    for (int v = 0; v < u->x->vectors; v++) {
        ins *made[MOST_NEIGHBOURS], *column = lb_add(b, at, column_offset(t, v));
        ins *words = t->words ? load_packed(e, t->c, column, t->lanes) : NULL;
        for (int j = 0; j < u->n; j++) {
            scope step = scope_open(e);
            const expr *part;
            e->counter[axis] = idx_addk(b, begin, j);
            if (words) {
                ins *value = word_element(e, t->c, &t->word, words, j, &part);
                made[j] = emit_column(t, u->x, v, t->word.whole, part, value);
            } else {
                made[j] = factor_b(t, u->x, idx_addk(b, column, (int64_t)j * t->panel), v);
            }
            scope_close(e, step);
        }
        e->counter[axis] = begin;
        u->to->store(u->to->user, place, v, made, u->n);
    }
}

static void unpack_loops(unpacking *u, int depth) {
    tiling *t = u->t;
    emitter *e = t->e;
    int axis = t->k.at[depth];
    bool part = t->k_begin && depth == t->block.k_at, inner = depth == t->k.n - 1;
    unsigned sides = load_sides(t, u->x);
    ins *begin = part ? t->k_begin : lb_idx(&e->b, 0), *end = part ? t->k_end : emit_dim(e, e->extent[axis]);
    scope loop = scope_axis(e, axis, begin, end, inner ? u->n : 1, LOOP_SERIAL);
    if (inner) {
        unpack_step(u);
    } else {
        unpack_loops(u, depth + 1);
    }
    scope_close(e, loop);
    e->counter[axis] = NULL;
    forget_sides(t, sides);
}

ins *unpack_columns(tiling *t, const tile *x, const factor_store *to) {
    emitter *e = t->e;
    unpacking u = {.t = t, .x = x, .to = to, .start = first_column(t, x), .n = neighbours(t)};
    int first = t->k_begin ? t->block.k_at : 0;
    scope mark = scope_open(e);
    e->counter[t->c->n] = x->n0;
    scope origin = scope_open(e);
    for (int j = first; j < t->k.n; j++)
        e->counter[t->k.at[j]] = t->k_begin && j == first ? t->k_begin : lb_idx(&e->b, 0);
    u.from = lb_add(&e->b, emit_index(e, t->b->offset), u.start);
    for (int j = first; j < t->k.n; j++) e->counter[t->k.at[j]] = NULL;
    scope_close(e, origin);
    unpack_loops(&u, first);
    e->counter[t->c->n] = NULL;
    scope_close(e, mark);
    return u.from;
}
