// Transposition of square tiles in registers. With L lanes:
//
//   for other axes, for pairs of u0 in steps of L, for v0 in steps of L, for u0 of the pair:
//     row[j] = read[v0 + j][u0 .. u0 + L]
//     transpose row[] in log2 L steps: within blocks of 128 bits the lanes of two rows are zipped, which is one
//         instruction everywhere; further steps swap bit b of the row's number with bit b of the lane's
//     for i < L: write[u0 + i][v0 .. v0 + L] = f(row[i])
//
// Where one instruction loads elements that are equally far apart, a tile is one row:
// write[u][v0 .. v0 + L] = f(read[v0 .. v0 + L][u]).
// Few elements that lie side by side in both buffers, such as the four bytes of a pixel, are one wide lane.
// A tail tile that would exceed the extent starts earlier and writes some elements again.
#include "passes/schedule/cpu/schedule_transpose.h"
#include "ir/kernel/program.h"
#include "ir/loops/convert.h"
#include "passes/memory/memory_plan.h"
#include <math.h>

// The distances of bytes in Helium's loads and stores have 8 bits for 16 lanes, and 16 bits for 8.
enum {
    MOST_LANES = 16,
    HELIUM_LANES = 8,
    LEAST_LANES = 4,
    LEAST_BITS = 64,
    MOST_UNIT_BITS = 64,
    BLOCK_BITS = 128,
    LINE_BYTES = 64,
    CROWDED_BYTES = 2048
};

// ---------------------------------------------------------------- recognition
static int unit_axis(const nest *n, const access *a) {
    for (int j = 0; j < n->nparallel; j++)
        if (steps_by_one(a, n->parallel[j])) return n->parallel[j];
    return -1;
}

// Whether all of a row is inside or outside, as the rows of a partial panel are.
static bool guards_rows(const emitter *e, const expr *x, int u) {
    bool whole = !expr_uses_axis(x->guard, u) && !expr_uses_axis(x->fill, u);
    return whole && !e->t->arch.strided_loads && !expr_any(x->guard, expr_is_read) &&
           !expr_any(x->fill, expr_is_read);
}

// The only transposed read: others are contiguous along v or invariant. False: another form.
static bool find_read(transpose *t, expr *value) {
    emitter *e = t->n->e;
    expr_list all = expr_nodes(e->scratch, value);
    for (int j = 0; j < all.n; j++) {
        expr *x = all.at[j];
        if (x->op == X_CHECK) return false;
        if (x->op != X_READ) continue;
        const access *a = entry_of(e, x)->read;
        if (!a || !a->affine || x->buffer->role == BUF_LOCAL) return false;
        if (!x->guard && (steps_by_one(a, t->v) || expr_is_int(a->coef[t->v], 0))) continue;
        int u = unit_axis(t->n, a), bits = dtype_bits(x->buffer->dtype);
        if (t->read || u < 0 || u == t->v || bits < 8 || bits > 64 || x->buffer->dtype == DT_C64 ||
            kernel_writes(e->k, x->buffer) || (x->guard && !guards_rows(e, x, u)))
            return false;
        t->read = x, t->u = u;
    }
    return t->read != NULL;
}

// The axis whose step is that long, other than w.
static int axis_of_step(const nest *n, const access *a, int64_t step, int w) {
    for (int j = 0; j < n->nparallel; j++)
        if (n->parallel[j] != w && expr_is_int(a->coef[n->parallel[j]], step)) return n->parallel[j];
    return -1;
}

// Units that are moved unchanged, whose number of bits is that of an element. False: another form.
static bool find_units(transpose *t) {
    nest *n = t->n;
    emitter *e = n->e;
    const write *to = &n->s->writes.at[0];
    expr *x = to->value;
    dtype type = to->to->dtype;
    bool plain = x->op == X_READ && !x->guard && x->buffer->dtype == type && x->buffer->role != BUF_LOCAL;
    bool whole = type == emit_moved(e, n->s) || type == DT_F32 || type == DT_F64 || dtype_is_int(type);
    if (!plain || !whole || e->t->arch.strided_loads || e->t->dot_across || kernel_writes(e->k, x->buffer))
        return false;
    const access *from = entry_of(e, x)->read;
    int w = unit_axis(n, n->writes[0]);
    if (!from || !from->affine || w < 0 || !steps_by_one(from, w) || !dim_is_const(e->extent[w]))
        return false;
    int64_t unit = dim_value(e->extent[w]), most = MOST_UNIT_BITS / dtype_bits(type);
    if (unit < 2 || unit > most || unit & (unit - 1)) return false;
    t->read = x, t->w = w, t->unit = (int)unit;
    t->u = axis_of_step(n, from, unit, w), t->v = axis_of_step(n, n->writes[0], unit, w);
    return t->u >= 0 && t->v >= 0 && t->u != t->v;
}

// The overhead of tiles with this number of lanes: overlapping tails are computed twice, if allowed.
static double tile_waste(const emitter *e, int axis, int lanes, bool twice) {
    const dim *n = e->extent[axis];
    if (!dim_is_const(n)) return twice ? 1 : INFINITY;
    double size = (double)dim_value(n);
    if (size < lanes || (!twice && dim_value(n) % lanes)) return INFINITY;
    return ceil(size / lanes) * lanes / size;
}

// Whether one of Helium's instructions moves a register of bytes this far apart.
static bool moves_registers(const target *t, const access *a, int axis) {
    const expr *step = a->coef[axis];
    int64_t last = t->vector_bits / 8 - 1;
    bool bytes = t->dot_across && dtype_bits(a->buffer->dtype) == 8;
    return bytes && step->op == X_CONST && step->i > 0 && step->i * last <= UINT8_MAX;
}

static void choose_lanes(transpose *t) {
    const emitter *e = t->n->e;
    double best = INFINITY;
    const buffer *from = t->read->buffer, *to = t->n->s->writes.at[0].to;
    int bits = t->unit * dtype_bits(from->dtype), most = target_lanes(e->t, bits);
    bool twice = !may_be_in_place(e->k, to), strided = e->t->arch.strided_loads;
    if (strided && dtype_bits(to->dtype) > bits) most = target_lanes(e->t, dtype_bits(to->dtype));
    if (!strided && most > MOST_LANES) most = MOST_LANES;
    bool far = e->t->dot_across && !moves_registers(e->t, entry_of(t->n->e, t->read)->read, t->v);
    if (far && most > HELIUM_LANES) most = HELIUM_LANES;
    t->lanes = 0;
    int least = e->t->dot_across ? LEAST_LANES * bits : LEAST_BITS; // Helium's lanes may be wider than bytes
    for (int lanes = most; lanes >= LEAST_LANES && lanes * bits >= least; lanes /= 2) {
        int rows = strided ? 1 : lanes;
        double steps = strided ? 2 : 2 + log2(lanes);
        double cost = tile_waste(e, t->u, rows, twice) * tile_waste(e, t->v, lanes, twice) * steps / lanes;
        if (cost >= best) continue;
        best = cost;
        t->lanes = lanes, t->rows = rows;
    }
}

static void find_whether_always(transpose *t) {
    const emitter *e = t->n->e;
    t->always = e->extent[t->u]->min >= t->rows && e->extent[t->v]->min >= t->lanes;
}

bool transpose_narrow(transpose *t) {
    const emitter *e = t->n->e;
    int bits = t->unit * dtype_bits(t->read->buffer->dtype);
    int least = LEAST_BITS / bits > LEAST_LANES ? LEAST_BITS / bits : LEAST_LANES;
    if (t->rows != t->lanes || t->lanes <= least || e->t->dot_across || e->t->size_level) return false;
    t->rows = t->lanes = least;
    find_whether_always(t);
    return true;
}

bool transpose_find(nest *n, transpose *t) {
    *t = (transpose){.n = n, .u = -1, .w = -1, .unit = 1};
    emitter *e = n->e;
    if (n->s->states.n || n->ninner || n->s->writes.n != 1 || n->nparallel < 2 || !e->t->vector_bits)
        return false;
    const write *w = &n->s->writes.at[0];
    const access *to = n->writes[0];
    if (w->guard || w->combine != COMBINE_SET || dtype_bits(w->to->dtype) < 8 || w->to->dtype == DT_C128 ||
        !to->affine)
        return false;
    t->v = unit_axis(n, to);
    bool found = t->v >= 0 && find_read(t, w->value) && !steps_by_one(to, t->u);
    if (!found && (t->read || !find_units(t))) return false;
    if (moves_registers(e->t, to, t->u)) return false; // whole registers of an operand are scattered
    choose_lanes(t);
    find_whether_always(t);
    return t->lanes > 0;
}

// The longer axis of the tiles, of which an open one is the longest.
static int long_axis(const transpose *t) {
    const dim *u = t->n->e->extent[t->u], *v = t->n->e->extent[t->v];
    if (!dim_is_const(u) || !dim_is_const(v)) return dim_is_const(u) ? t->v : t->u;
    return dim_value(v) > dim_value(u) ? t->v : t->u;
}

// Tasks are positions of an axis outside of the tiles; or pieces of an axis of the tiles, if there is none or only that of a batch
// that may have a single sample. No two tasks write the same elements: the last tile of a piece begins earlier if there are too
// few positions, and a piece has enough for a tile.
void transpose_tasks(const transpose *t) {
    enum { LEAST_TASKS = 4, PIECE = 64 };
    emitter *e = t->n->e;
    task_axes all = {.least = LEAST_TASKS, .chunked = -1, .single = -1};
    for (int j = 0; j < t->n->nparallel; j++) {
        int a = t->n->parallel[j];
        bool few = dim_is_const(e->extent[a]) && dim_value(e->extent[a]) < LEAST_TASKS;
        if (a != t->u && a != t->v && a != t->w && !few) all.axes[all.n++] = a;
    }
    int outer = all.n ? all.axes[0] : -1, inner = long_axis(t);
    const dim *n = e->extent[inner];
    bool tiles = all.n == 0 || (all.n == 1 && may_be_single(e->extent[outer]));
    if (tiles && (!dim_is_const(n) || dim_value(n) >= 2 * PIECE)) emitter_task_pieces(e, outer, inner, PIECE);
    else if (all.n) emitter_choose_tasks(e, &all);
}

ins *transpose_fits(const transpose *t) {
    emitter *e = t->n->e;
    lbuild *b = &e->b;
    return lb_bin(b, L_AND, lb_cmp(b, L_SLE, lb_idx(b, t->rows), emit_dim(e, e->extent[t->u])),
                  lb_cmp(b, L_SLE, lb_idx(b, t->lanes), emit_dim(e, e->extent[t->v])));
}

// ---------------------------------------------------------------- building
// Step `bit` on each pair of rows: the lanes of the first by `low`, of the second by `high`.
static void shuffle_pairs(lbuild *b, ins **row, int lanes, int bit, const int *low, const int *high) {
    for (int r = 0; r < lanes; r++) {
        if (r & bit) continue;
        ins *x = row[r], *y = row[r + bit];
        row[r] = lb_shuffle(b, x, y, low, lanes), row[r + bit] = lb_shuffle(b, x, y, high, lanes);
    }
}

void transpose_rows(lbuild *b, ins **row, int lanes) {
    int low[MOST_LANES], high[MOST_LANES], block = BLOCK_BITS / lkind_bits(row[0]->type.kind);
    if (block > lanes) block = lanes;
    for (int bit = block / 2; bit; bit /= 2) {
        for (int j = 0; j < lanes; j++) {
            low[j] = j / block * block + j % block / 2 + (j % 2 ? lanes : 0);
            high[j] = low[j] + block / 2;
        }
        shuffle_pairs(b, row, lanes, bit, low, high);
    }
    for (int bit = block; bit < lanes; bit *= 2) {
        for (int j = 0; j < lanes; j++) {
            low[j] = j & bit ? lanes + j - bit : j;
            high[j] = j & bit ? lanes + j : j + bit;
        }
        shuffle_pairs(b, row, lanes, bit, low, high);
    }
}

// Row j of a tile; instead of one outside, `apart` is read, since the buffer may have no elements, and the fill used.
static ins *load_row(const transpose *t, ins *at, ins *inside, ins *apart, ins *fill) {
    emitter *e = t->n->e;
    lbuild *b = &e->b;
    ins *from = pointer_of(e, t->read->buffer);
    if (inside) from = lb_select(b, inside, from, apart), at = lb_select(b, inside, at, lb_idx(b, 0));
    ins *row = load_element(b, t->read->buffer->dtype, from, at, t->lanes);
    return inside ? lb_select(b, lb_splat(b, inside, t->lanes), row, lb_splat(b, fill, t->lanes)) : row;
}

// A lane from each of as many rows.
static ins *load_column(transpose *t, ins *at, ins *stride) {
    emitter *e = t->n->e;
    lbuild *b = &e->b;
    ins *rows = lb_mul(b, lb_iota(b, lt(at->type.kind, t->lanes)), lb_splat(b, stride, t->lanes));
    const buffer *from = t->read->buffer;
    return load_element_gather(b, from->dtype, pointer_of(e, from),
                               lb_add(b, lb_splat(b, at, t->lanes), rows));
}

// Rows of as many units. Returns the kind of their elements.
static lkind load_units(const transpose *t, ins **row, ins *at, ins *stride) {
    lbuild *b = &t->n->e->b;
    const buffer *x = t->read->buffer;
    int bits = t->unit * dtype_bits(x->dtype);
    lkind wide = bits == 64 ? LK_I64 : bits == 32 ? LK_I32 : LK_I16, narrow = LK_I8;
    for (int j = 0; j < t->rows; j++) {
        ins *units = load_element(b, x->dtype, pointer_of(t->n->e, x), at, t->lanes * t->unit);
        narrow = units->type.kind;
        row[j] = lb_bitcast(b, lt(wide, t->lanes), units);
        at = lb_add(b, at, stride);
    }
    return narrow;
}

static void load_rows(transpose *t, ins **row, ins *at, ins *stride) {
    emitter *e = t->n->e;
    lbuild *b = &e->b;
    ins *inside = t->read->guard ? emit_vector(e, t->read->guard) : NULL;
    ins *fill = inside ? emit_vector(e, t->read->fill) : NULL;
    ins *apart = inside ? lb_local(b, lkind_of(t->read->buffer->dtype), t->lanes, 64, false) : NULL;
    if (t->rows == 1) row[0] = load_column(t, at, stride);
    for (int j = 0; j < t->rows && t->rows > 1; j++) {
        if (inside) row[j] = load_row(t, at, lb_extract(b, inside, j), apart, lb_extract(b, fill, j));
        else row[j] = load_row(t, at, NULL, NULL, NULL);
        at = lb_add(b, at, stride);
    }
}

static void store_row(transpose *t, ins *row, lkind narrow) {
    emitter *e = t->n->e;
    const write *w = &t->n->s->writes.at[0];
    if (t->unit == 1) {
        use_value(e, t->read, row);
        emit_write(e, w, t->n->writes[0], NULL);
        return;
    }
    int lanes = t->lanes * t->unit;
    ins *units = lb_bitcast(&e->b, lt(narrow, lanes), row);
    ins *at = emit_index(e, t->n->writes[0]->offset);
    store_element(&e->b, w->to->dtype, pointer_of(e, w->to), at, units, lanes);
}

static void one_tile(transpose *t, ins *u0, ins *v0) {
    emitter *e = t->n->e;
    lbuild *b = &e->b;
    const access *from = entry_of(e, t->read)->read;
    ins *row[MOST_LANES];
    scope outer = scope_open(e);
    e->counter[t->u] = u0, e->counter[t->v] = v0;
    if (t->unit > 1) e->counter[t->w] = lb_idx(b, 0);
    ins *at = emit_index(e, from->offset), *stride = emit_index(e, from->coef[t->v]);
    lkind narrow = LK_I8;
    if (t->unit > 1) narrow = load_units(t, row, at, stride);
    else load_rows(t, row, at, stride);
    scope_close(e, outer);
    transpose_rows(b, row, t->rows);
    for (int i = 0; i < t->rows; i++) {
        scope mark = scope_open(e);
        e->counter[t->u] = idx_addk(b, u0, i);
        store_row(t, row[i], narrow);
        scope_close(e, mark);
    }
    e->counter[t->u] = e->counter[t->v] = NULL;
    if (t->unit > 1) e->counter[t->w] = NULL;
}

// A loop over tiles of the axis from begin to end; *start: the first position of the tile.
static scope open_tiles(transpose *t, int axis, int size, ins *begin, ins *end, ins **start) {
    emitter *e = t->n->e;
    lbuild *b = &e->b;
    ins *extent = emit_dim(e, e->extent[axis]);
    scope loop = scope_axis(e, axis, begin, end, size, LOOP_PARALLEL);
    bool whole = extent->op == L_CONST && extent->i % size == 0;
    *start = whole ? loop.head : lb_bin(b, L_SMIN, loop.head, idx_subk(b, extent, size));
    return loop;
}

// Two tiles side by side read whole lines, of which the memory fetches two at a time. Lines that two tiles write one after the
// other must stay in the L1 cache between them: rows that are a multiple of 2 kB apart share a few sets of it.
static bool pairs_tiles(const transpose *t) {
    const emitter *e = t->n->e;
    const buffer *to = t->n->s->writes.at[0].to;
    const expr *step = t->n->writes[0]->coef[t->u];
    int bytes = dtype_bits(to->dtype) / 8;
    bool crowded = step->op == X_CONST && step->i * bytes % CROWDED_BYTES == 0;
    bool part = t->lanes * t->unit * bytes < LINE_BYTES;
    return t->rows > 1 && e->extent[t->u]->max > t->rows && !(crowded && part);
}

// One row after the other, the last tile of a long row apart, so that it is not computed for each tile where it begins.
static void row_tiles(transpose *t, ins *begin, ins *end, ins *first, ins *last) {
    enum { LONG_ROW = 4 };
    emitter *e = t->n->e;
    lbuild *b = &e->b;
    ins *u0, *v0;
    scope u = open_tiles(t, t->u, t->rows, begin, end, &u0);
    bool known = first->op == L_CONST && last->op == L_CONST;
    int64_t size = known ? last->i - first->i : 0, rest = size >= LONG_ROW * t->lanes ? size % t->lanes : 0;
    ins *whole = rest ? idx_subk(b, last, rest) : last;
    scope v = rest ? scope_axis(e, t->v, first, whole, t->lanes, LOOP_PARALLEL)
                   : open_tiles(t, t->v, t->lanes, first, last, &v0);
    one_tile(t, u0, rest ? v.head : v0);
    scope_close(e, v);
    if (rest) one_tile(t, u0, idx_subk(b, last, t->lanes));
    scope_close(e, u);
}

static void tile_loops(transpose *t) {
    emitter *e = t->n->e;
    lbuild *b = &e->b;
    ins *begin, *end, *first, *last, *u0, *v0;
    bool pairs = pairs_tiles(t);
    piece_range(e, t->u, t->rows, &begin, &end);
    piece_range(e, t->v, t->lanes, &first, &last);
    if (t->rows == 1) {
        row_tiles(t, begin, end, first, last);
        return;
    }
    scope outer = pairs ? scope_for(e, "pair", begin, end, 2 * t->rows, LOOP_PARALLEL)
                        : open_tiles(t, t->u, t->rows, begin, end, &u0);
    scope v = open_tiles(t, t->v, t->lanes, first, last, &v0), u = {.axis = -1};
    if (pairs) {
        ins *next = idx_addk(b, outer.head, 2 * t->rows);
        bool whole = end->op == L_CONST && end->i % (2 * t->rows) == 0; // not where tasks are single tiles
        u = open_tiles(t, t->u, t->rows, outer.head, whole ? next : lb_bin(b, L_SMIN, next, end), &u0);
    }
    one_tile(t, u0, v0);
    if (pairs) scope_close(e, u);
    scope_close(e, v);
    scope_close(e, outer);
}

static void other_loops(transpose *t, int depth) {
    emitter *e = t->n->e;
    if (depth == t->n->nparallel) {
        tile_loops(t);
        return;
    }
    int a = t->n->parallel[depth];
    if (a == t->u || a == t->v || a == t->w) {
        other_loops(t, depth + 1);
        return;
    }
    scope loop = scope_parallel(e, a);
    other_loops(t, depth + 1);
    scope_close(e, loop);
}

void schedule_transpose(transpose *t) {
    emitter *e = t->n->e;
    scope mark = scope_open(e);
    emitter_stage(e, t->n->s, t->v, t->lanes, false);
    other_loops(t, 0);
    emitter_stage(e, t->n->s, -1, 1, false);
    scope_close(e, mark);
}
