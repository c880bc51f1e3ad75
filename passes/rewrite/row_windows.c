// In: a kernel that reduces windows of an image whose rows are adjacent in memory (pooling). Out: a kernel over rows that
// reduces each column of the windows once, into an array of the row, and then windows of that array.
//
//   for p, for x < n:                                      for p:
//     for i < h, for j < w:                                  for c < (n - 1) * S + (w - 1) * D + 1:
//       s max= image[p, i, x * S + j * D]                      for i < h: s max= image[p, i, c]
//     y[p, x] = f(s)                                           columns[c] = s
//                                                            for x < n:
//                                                              for j < w: s max= columns[x * S + j * D]
//                                                              y[p, x] = f(s)
//
// The array has the columns of all rows of a small image, or of a few rows if sizes are open: a vector that spans two stores is
// not forwarded, and would wait for both if these were the last.
//
// Guards that keep the columns within the image become the bounds of three ranges of c, so that vectors need no guard
// where there are many columns.
#include "ir/kernel/clone.h"
#include "ir/kernel/edit.h"
#include "ir/target.h"
#include "passes/match/form.h"
#include "passes/match/window.h"
#include "passes/passes.h"
#include <string.h>

enum { ROW_BYTES = 256 << 10, MOST_STEP = 4, MOST_AXES = 60, BLOCK_ROWS = 4 };

typedef struct row_windows {
    kernel *k;
    const kernel *old;
    const stage *s;
    int x, j;            // axes: positions along the row, elements of the window along it
    int row;             // axis of the rows whose columns are in the array together, -1: one row at a time
    dim *rows;           // their number
    bool blocks;         // these are a block; otherwise all
    expr *block;         // its number, NULL before it is known
    int64_t step, apart; // S, D: columns from one of them to the next
    bool guarded;        // whether conditions use the column
    dim *columns;
    buffer *kept;
    int64_t gap; // elements behind the columns of a row
} row_windows;

// ---------------------------------------------------------------- matching
static bool slope_of(kernel *k, expr *e, int axis, int64_t *v) {
    expr *slope = e->dtype == DT_I64 ? expr_slope(k, e, axis) : NULL;
    return slope && expr_known_int(slope, v);
}

// Whether e uses x and j only in sums of whole multiples of the column x * S + j * D.
static bool uses_columns(const row_windows *r, expr *e, bool *seen) {
    expr *operand[MAX_RANK + 3];
    int64_t p, q;
    if (seen[e->id] || !(expr_uses_axis(e, r->x) || expr_uses_axis(e, r->j))) return true;
    seen[e->id] = true;
    if (slope_of(r->k, e, r->x, &p) && slope_of(r->k, e, r->j, &q) && p * r->apart == q * r->step)
        return true;
    int n = expr_operands(e, operand);
    for (int i = 0; i < n; i++)
        if (!uses_columns(r, operand[i], seen)) return false;
    return n > 0;
}

// The last dim in memory is the axis's own, of an array without another order of dims.
static expr *index_in_row(const buffer *b, expr *const *index) {
    return b->rank && !b->layout && dtype_bits(b->dtype) >= 8 ? index[b->rank - 1] : NULL;
}

static bool reads_window(row_windows *r, const expr *read) {
    expr *at = index_in_row(read->buffer, read->index);
    if (!at || !slope_of(r->k, at, r->x, &r->step) || !slope_of(r->k, at, r->j, &r->apart)) return false;
    return r->step > 0 && r->apart > 0 && r->step <= MOST_STEP && (r->step == 1 || r->apart == 1);
}

static bool uses_axis_of(const expr *e, int axis) { return e && expr_uses_axis(e, axis); }

static bool finds_window(row_windows *r, arena *scratch) {
    expr *step = r->s->states.at[0].step;
    expr_list all = expr_nodes(scratch, step);
    bool found = false;
    r->guarded = false;
    for (int i = 0; i < all.n; i++) {
        const expr *e = all.at[i];
        if (e->op == X_CHECK || e->op == X_STATE) return false;
        if (e->op != X_READ) continue;
        if (e->buffer->role == BUF_LOCAL) return false;
        found = found || reads_window(r, e);
        r->guarded |= uses_axis_of(e->guard, r->x);
    }
    bool *seen = ARENA_ARRAY(scratch, bool, r->k->exprs.n + 64);
    return found && uses_columns(r, step, seen);
}

static bool may_reorder(const state *s, const target *t) {
    bool rounds = dtype_is_float(s->dtype) && (s->op == RED_SUM || s->op == RED_PROD);
    return s->op != RED_CUSTOM && !(rounds && t->fp == FP_STRICT) && dtype_bits(s->dtype) >= 8;
}

// The axis along which the results are adjacent; -1: none.
static int axis_of_writes(const kernel *k, const stage *s) {
    int axis = -1;
    for (int i = 0; i < s->writes.n; i++) {
        const write *w = &s->writes.at[i];
        const expr *at = index_in_row(w->to, w->index);
        if (!write_is_plain(w) || !at || at->op != X_AXIS || (i && at->axis != axis)) return -1;
        axis = at->axis;
    }
    return axis >= 0 && k->axes.at[axis].kind == AXIS_PARALLEL ? axis : -1;
}

// The number of columns of the windows of a row: (n - 1) * S + (w - 1) * D + 1, and 0 without windows.
static dim *columns_of(const row_windows *r) {
    dim *n = r->k->axes.at[r->x].extent, *w = r->k->axes.at[r->j].extent;
    dim *more = dim_addk(dim_mulk(dim_addk(w, -1), r->apart), 1 - r->step);
    return dim_add(dim_mulk(n, r->step), dim_mul(more, dim_min(n, dim_const(n->table, 1))));
}

// Whether windows overlap, or have conditions in which the lanes of a vector would differ.
static bool is_worthwhile(const row_windows *r) {
    const dim *w = r->k->axes.at[r->j].extent, *n = r->k->axes.at[r->x].extent;
    bool rows = false, images = false;
    for (int a = 0; a < r->k->axes.n; a++) {
        if (dim_is(r->k->axes.at[a].extent, 1) || a == r->x || a == r->j) continue;
        if (r->k->axes.at[a].kind == AXIS_REDUCE) rows = true;
        else images = true;
    }
    if (!dim_is_const(w)) return false; // a reduction along axes that only the run knows
    int64_t size = dim_value(w);
    bool fits = !dim_is_const(r->columns) ||
                dim_value(r->columns) * dtype_bits(r->s->states.at[0].dtype) / 8 <= ROW_BYTES;
    bool profitable = r->guarded ? r->step <= size : rows && r->step < size;
    return images && fits && profitable && !dim_is(n, 1) && size > 1;
}

static bool find(row_windows *r, const target *t) {
    const kernel *k = r->k;
    if (k->stages.n != 1 || k->locals.n || k->axes.n > MOST_AXES) return false;
    r->s = k->stages.at[0];
    if (r->s->states.n != 1 || !may_reorder(&r->s->states.at[0], t)) return false;
    r->x = axis_of_writes(k, r->s);
    for (int a = 0; a < k->axes.n; a++)
        if (k->axes.at[a].kind == AXIS_SCAN) return false;
    arena *scratch = arena_new();
    bool found = false;
    for (r->j = 0; r->x >= 0 && r->j < k->axes.n && !found; r->j += !found)
        found = k->axes.at[r->j].kind == AXIS_REDUCE && finds_window(r, scratch);
    arena_destroy(scratch);
    if (!found || expr_uses_axis(r->s->states.at[0].init, r->x)) return false;
    r->columns = columns_of(r);
    return is_worthwhile(r);
}

static int innermost_rows(const row_windows *r) {
    int row = -1;
    for (int a = 0; a < r->k->axes.n; a++)
        if (r->k->axes.at[a].kind == AXIS_PARALLEL && a != r->x) row = a;
    return row;
}

// The array has all rows if their columns stay in L1, one if they do not, and a block of them if that is not known.
static void choose_rows(row_windows *r) {
    int row = innermost_rows(r);
    r->row = -1;
    if (row < 0) return;
    dim *rows = r->k->axes.at[row].extent, *all = dim_mul(r->columns, rows);
    int bytes = dtype_bits(r->s->states.at[0].dtype) / 8;
    if (dim_is_const(all) && dim_value(all) > L1_BYTES / 2 / bytes) return;
    r->row = row, r->blocks = !dim_is_const(all);
    r->rows = r->blocks ? dim_const(rows->table, BLOCK_ROWS) : rows;
}

// ---------------------------------------------------------------- ranges of columns
// Conditions of reads that bound the columns, and the columns between them; NULL: unbounded.
typedef struct bounds {
    const expr *low, *high;
    dim *begin, *end;
} bounds;

// The condition as column + *offset >= *limit (*low) or column + *offset < *limit.
static bool is_bound(const row_windows *r, expr *e, bool *low, dim **limit, int64_t *offset) {
    kernel *k = r->k;
    int64_t slope;
    if ((e->op != X_LE && e->op != X_LT) || e->arg[0]->dtype != DT_I64) return false;
    *low = expr_uses_axis(e->arg[1], r->x);
    expr *column = e->arg[*low], *other = e->arg[!*low], *base = column;
    *limit = expr_known_dim(k, other);
    if (!*limit || !slope_of(k, column, r->x, &slope) || slope != r->step) return false;
    for (int a = 0; a < k->axes.n; a++) base = expr_substitute_axis(k, base, a, x_i64(k, 0));
    if (!expr_known_int(base, offset)) return false;
    for (int a = 0; a < k->axes.n; a++)
        if (a != r->x && a != r->j && expr_uses_axis(column, a)) return false;
    if (*low == (e->op == X_LT)) *limit = dim_addk(*limit, 1);
    return true;
}

static void add_bounds(const row_windows *r, expr *guard, bounds *b) {
    bool low;
    dim *limit;
    int64_t offset;
    if (guard->op == X_AND) {
        add_bounds(r, guard->arg[0], b);
        add_bounds(r, guard->arg[1], b);
    } else if (expr_uses_axis(guard, r->x) && is_bound(r, guard, &low, &limit, &offset)) {
        if (low && !b->low) b->low = guard, b->begin = dim_addk(limit, -offset);
        if (!low && !b->high) b->high = guard, b->end = dim_addk(limit, -offset);
    }
}

static bounds bounds_of(const row_windows *r, arena *scratch) {
    dim *none = dim_const(r->columns->table, 0);
    bounds b = {.begin = none, .end = r->columns};
    expr_list reads = reads_only(expr_nodes(scratch, r->s->states.at[0].step));
    for (int i = 0; i < reads.n; i++)
        if (reads.at[i]->guard) add_bounds(r, reads.at[i]->guard, &b);
    b.begin = dim_min(dim_max(b.begin, none), r->columns);
    b.end = dim_max(dim_min(b.end, r->columns), b.begin);
    return b;
}

// ---------------------------------------------------------------- building
// What is known of the two conditions: 1 true, -1 false, 0 unknown.
typedef struct knowledge {
    const bounds *b;
    int low, high;
} knowledge;

static expr *known_condition(cloning *g, const expr *e) {
    const knowledge *known = g->user;
    int holds = e == known->b->low ? known->low : e == known->b->high ? known->high : 0;
    return holds ? x_int(g->to, DT_BOOL, holds > 0) : NULL;
}

static cloning *begin_clone(row_windows *r, arena *scratch, expr *const *outer) {
    cloning *g = clone_new(scratch, r->k, r->old);
    memcpy(g->axis, outer, (size_t)r->old->axes.n * sizeof *outer);
    return g;
}

// An axis of the stage for the row in the array; NULL: the rows are outside. Rows of the last block past those of the image are
// its last one again.
static expr *own_row(row_windows *r, cloning *g, stage *s) {
    if (r->row < 0) return NULL;
    kernel *k = r->k;
    const axis *row = &r->old->axes.at[r->row];
    expr *own = g->axis[r->row] = stage_own_axis(k, s, AXIS_PARALLEL, row->name, r->rows);
    if (r->block) {
        expr *at = x_add(k, x_mul(k, r->block, x_dim(k, r->rows)), own);
        g->axis[r->row] = x_bin(k, X_MIN, at, x_dim(k, dim_addk(row->extent, -1)));
    }
    return own;
}

// The columns from begin on: a reduction over all axes of the window but one.
static void columns_stage(row_windows *r, expr *const *outer, dim *begin, dim *end, knowledge known) {
    kernel *k = r->k;
    const state *old = &r->s->states.at[0];
    if (dim_equal(begin, end) == TRI_YES) return;
    arena *scratch = arena_new();
    cloning *g = begin_clone(r, scratch, outer);
    g->node = known_condition, g->user = &known;
    stage *s = kernel_stage(k);
    expr *row = own_row(r, g, s);
    expr *column = x_add(k, stage_own_axis(k, s, AXIS_PARALLEL, "c", dim_sub(end, begin)), x_dim(k, begin));
    g->axis[r->x] = r->apart == 1 ? x_i64(k, 0) : column;
    g->axis[r->j] = r->apart == 1 ? column : x_i64(k, 0);
    for (int i = 0; i < r->s->axes.n; i++) {
        const axis *a = &r->old->axes.at[r->s->axes.at[i]];
        if (a->kind == AXIS_REDUCE && r->s->axes.at[i] != r->j)
            g->axis[r->s->axes.at[i]] = stage_own_axis(k, s, AXIS_REDUCE, a->name, a->extent);
    }
    expr *term = clone_expr(g, old->step), *sum = term;
    int own = row ? 2 : 1;
    if (term == reduce_neutral(k, old->op, old->dtype)) s->axes.n = own;
    else if (s->axes.n > own) sum = stage_reduce(k, s, old->op, term);
    stage_write(k, s, r->kept, row ? (expr *[]){row, column} : &column, sum);
    arena_destroy(scratch);
}

static void windows_stage(row_windows *r, expr *const *outer) {
    kernel *k = r->k;
    arena *scratch = arena_new();
    cloning *g = begin_clone(r, scratch, outer);
    stage *s = kernel_stage(k);
    const axis *x = &r->old->axes.at[r->x], *j = &r->old->axes.at[r->j];
    expr *row = own_row(r, g, s);
    g->axis[r->x] = stage_own_axis(k, s, AXIS_PARALLEL, x->name, x->extent);
    g->axis[r->j] = stage_own_axis(k, s, AXIS_REDUCE, j->name, j->extent);
    expr *column =
        x_add(k, x_mul(k, g->axis[r->x], x_i64(k, r->step)), x_mul(k, g->axis[r->j], x_i64(k, r->apart)));
    state st = r->s->states.at[0];
    st.init = clone_expr(g, st.init), st.step = x_read(k, r->kept, row ? (expr *[]){row, column} : &column);
    VEC_PUSH(k->arena, &s->states, st);
    for (int i = 0; i < r->s->writes.n; i++) clone_write(g, s, &r->s->writes.at[i]);
    arena_destroy(scratch);
}

// Rows of open length end in a part of a vector. A gap lets it be a whole one: masked stores take long on some CPUs, and what they
// store is not forwarded.
static void make_columns(row_windows *r) {
    kernel *k = r->k;
    dim *dims[] = {r->row < 0 ? r->columns : r->rows, r->columns};
    r->kept = kernel_local(k, "columns", r->s->states.at[0].dtype, r->row < 0 ? 1 : 2, dims);
    if (r->row < 0 || dim_is_const(r->columns)) return;
    layout *l = ARENA_NEW(k->arena, layout);
    *l = (layout){.n = 2, .order = {{0, 0}, {1, 0}}, .gap = r->gap};
    r->kept->layout = l;
}

static void build(row_windows *r) {
    kernel *k = r->k;
    expr *outer[MOST_AXES] = {0};
    arena *scratch = arena_new();
    bounds b = bounds_of(r, scratch);
    choose_rows(r);
    r->old = kernel_begin(k);
    memset(&k->axes, 0, sizeof k->axes);
    for (int a = 0; a < r->old->axes.n; a++) {
        const axis *from = &r->old->axes.at[a];
        if (from->kind == AXIS_PARALLEL && a != r->x && a != r->row)
            outer[a] = x_axis(k, kernel_axis(k, AXIS_PARALLEL, from->name, from->extent));
    }
    if (r->blocks) {
        const axis *row = &r->old->axes.at[r->row];
        r->block = x_axis(k, kernel_axis(k, AXIS_PARALLEL, row->name, dim_ceildiv(row->extent, r->rows)));
    }
    k->nouter = k->axes.n;
    make_columns(r);
    dim *none = dim_const(r->columns->table, 0);
    columns_stage(r, outer, none, b.begin, (knowledge){&b, -1, 0});
    columns_stage(r, outer, b.begin, b.end, (knowledge){&b, 1, 1});
    columns_stage(r, outer, b.end, r->columns, (knowledge){&b, 0, -1});
    windows_stage(r, outer);
    arena_destroy(scratch);
}

void pass_row_windows(pass_context *c) {
    if (!c->target->vector_bits) return;
    for (int j = 0; j < c->program->kernels.n; j++) {
        row_windows r = {.k = c->program->kernels.at[j]};
        if (!find(&r, c->target)) continue;
        r.gap = c->target->widest_bits / dtype_bits(r.s->states.at[0].dtype) * r.step;
        build(&r);
    }
}
