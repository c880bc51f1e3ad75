// Windows that slide along a row whose columns the same kernel has just reduced (pooling; passes/rewrite/row_windows.c): the columns
// stay in vector registers, of which shuffles make the operands of each element of the window. In memory, a vector that spans what
// two stores wrote would wait for both.
//
//   columns: K neutral ones, then E of the image, then neutral ones     for x in steps of lanes:
//   for x < n:                                                            load c, the vectors of columns from x * S on, and next
//     for j < w: s max= columns[x * S + j * D]                            for j < w: s max= lanes i * S + j * D - K of prev, c, next
//     y[x] = f(s)                                                         y[x ..] = f(s); prev = last of c; c = next ...
#include "passes/schedule/cpu/schedule_slide.h"
#include "ir/kernel/edit.h"
#include "passes/match/window.h"
#include "passes/schedule/cpu/schedule_range.h"

enum { MOST_STEP = 2, MOST_WINDOW = 8, MOST_TAPS = 16, MOST_LANES = 64 };

struct slide {
    emitter *e;
    stage *columns, *windows;
    nest *reduce, *slide;        // their nests
    int c, x, j;                 // axes: columns of the image, results, elements of the window
    int row, result_row;         // axes of the rows in the array, of columns and results, -1: one row
    int64_t before, step, apart; // K, S, D
    int64_t size;                // of the window
    int lanes;
    bool has_prev, has_next; // whether windows reach beyond the vectors that begin at their own positions
    expr *read;              // of the columns
    bool small;              // the window of a column
    bool inside;             // of the rows under construction: the windows do not leave the image
    ins *neutral, *prev,
        *first; // all lanes; variables: the vectors before, and the first one, if there is a next
};

// ---------------------------------------------------------------- matching
static bool slope_is(kernel *k, expr *e, int axis, int64_t *v) {
    expr *slope = expr_slope(k, e, axis);
    return slope && expr_known_int(slope, v);
}

static bool is_own_axis(const stage *s, const expr *x) {
    for (int j = 0; j < s->axes.n; j++)
        if (x->op == X_AXIS && s->axes.at[j] == x->axis) return true;
    return false;
}

// The one write of a stage into the array.
static const write *write_to(const stage *of, const buffer *array) {
    const write *w = of->writes.n == 1 ? &of->writes.at[0] : NULL;
    return w && w->to == array && write_is_plain(w) ? w : NULL;
}

// The columns that a stage writes: an axis, its first column and their number; false: another form.
typedef struct column_range {
    int axis;
    dim *begin, *n;
} column_range;

static bool find_range(const slide *s, const stage *of, const buffer *array, column_range *r) {
    kernel *k = s->e->k;
    const write *w = write_to(of, array);
    if (!w || (array->rank == 2 && !is_own_axis(of, w->index[0]))) return false;
    int row = array->rank == 2 ? w->index[0]->axis : -1;
    expr *at = w->index[array->rank - 1];
    *r = (column_range){.axis = -1};
    for (int j = 0; j < of->axes.n; j++) {
        int a = of->axes.at[j];
        int64_t step;
        if (a == row || k->axes.at[a].kind != AXIS_PARALLEL) continue;
        bool one = dim_is(k->axes.at[a].extent, 1);
        if (r->axis >= 0 || !slope_is(k, at, a, &step) || (step != 1 && !one)) return false;
        r->axis = a, r->n = k->axes.at[a].extent, at = expr_substitute_axis(k, at, a, x_i64(k, 0));
    }
    r->begin = r->axis < 0 ? NULL : expr_known_dim(k, at);
    return r->begin;
}

// Columns outside of the image: what the windows ignore.
static bool is_edge(const slide *s, const stage *of, const column_range *inside) {
    const buffer *array = s->read->buffer;
    const state *st = &s->windows->states.at[0];
    column_range r;
    if (of->states.n || !find_range(s, of, array, &r)) return false;
    if (of->writes.at[0].value != reduce_neutral(s->e->k, st->op, st->dtype)) return false;
    return dim_equal(dim_add(r.begin, r.n), inside->begin) == TRI_YES ||
           dim_equal(r.begin, dim_add(inside->begin, inside->n)) == TRI_YES;
}

// The columns before the image are K wherever there are windows, none of which ends before it.
static bool find_before(slide *s, const dim *before) {
    const buffer *array = s->read->buffer;
    dim *all = array->dims[array->rank - 1];
    if (before->max > s->lanes) return false;
    s->before = before->max;
    bool known = dim_equal(before, dim_min(dim_const(all->table, s->before), all)) == TRI_YES;
    return known && (s->size - 1) * s->apart + 1 >= s->before;
}

static bool writes_allow(const slide *s) {
    const state *st = &s->windows->states.at[0];
    for (int j = 0; j < s->windows->writes.n; j++) {
        const write *w = &s->windows->writes.at[j];
        bool whole = dtype_bits(w->to->dtype) == dtype_bits(st->dtype) && w->to->dtype != DT_C128;
        if (!whole || !write_is_plain(w) || !steps_by_one(s->slide->writes[j], s->x)) return false;
    }
    return s->windows->writes.n > 0;
}

// The windows: a reduction along one axis of elements of the array.
static bool find_windows(slide *s) {
    kernel *k = s->e->k;
    const stage *of = s->windows;
    if (of->states.n != 1 || of->states.at[0].op == RED_CUSTOM || of->states.at[0].step->op != X_READ)
        return false;
    s->read = of->states.at[0].step, s->j = s->x = s->result_row = -1;
    const buffer *array = s->read->buffer;
    if (array->role != BUF_LOCAL || array->rank < 1 || array->rank > 2 || s->read->guard) return false;
    expr *at = s->read->index[array->rank - 1];
    if (array->rank == 2 && !is_own_axis(of, s->read->index[0])) return false;
    if (array->rank == 2) s->result_row = s->read->index[0]->axis;
    for (int i = 0; i < of->axes.n; i++) {
        int a = of->axes.at[i], *to = k->axes.at[a].kind == AXIS_REDUCE ? &s->j : &s->x;
        if (a == s->result_row) continue;
        if (*to >= 0 || k->axes.at[a].kind == AXIS_SCAN) return false;
        *to = a;
    }
    if (s->j < 0 || s->x < 0 || !slope_is(k, at, s->x, &s->step) || !slope_is(k, at, s->j, &s->apart))
        return false;
    int64_t first;
    at = expr_substitute_axis(k, expr_substitute_axis(k, at, s->x, x_i64(k, 0)), s->j, x_i64(k, 0));
    const dim *size = k->axes.at[s->j].extent;
    if (!expr_known_int(at, &first) || first || !dim_is_const(size)) return false;
    s->size = dim_value(size);
    return s->size > 1 && s->size <= MOST_WINDOW && s->step >= 1 && s->step <= MOST_STEP && s->apart >= 1;
}

// The stage of the image's columns: the one that reads; all others but the windows are edges.
static bool find_columns(slide *s) {
    const kernel *k = s->e->k;
    const buffer *array = s->read->buffer;
    column_range inside;
    for (int j = 0; j < k->stages.n - 1; j++)
        if (stage_any(k->stages.at[j], expr_is_read)) s->columns = k->stages.at[j];
    const stage *of = s->columns;
    if (!of || of->states.n > 1 || !find_range(s, of, array, &inside)) return false;
    for (int j = 0; j < k->stages.n - 1; j++)
        if (k->stages.at[j] != of && !is_edge(s, k->stages.at[j], &inside)) return false;
    if (of->states.n && (of->states.at[0].op == RED_CUSTOM || !stage_writes_at_end(of))) return false;
    s->c = inside.axis, s->row = array->rank == 2 ? of->writes.at[0].index[0]->axis : -1;
    return find_before(s, inside.begin);
}

// Whether a window's elements are in the vector before, those of the same positions, and the one after them.
static bool reaches(slide *s) {
    int64_t last = (s->lanes - 1) * s->step + (s->size - 1) * s->apart - s->before;
    s->has_prev = s->before > 0, s->has_next = last >= s->lanes * s->step;
    return last < s->lanes * (s->step + 1);
}

// Whether each comparison is of a position that grows by steps along at most one axis of the window: if it holds at both ends, it
// holds in between.
static bool holds_between(const slide *s, const expr *guard) {
    kernel *k = s->e->k;
    if (guard->op == X_AND) return holds_between(s, guard->arg[0]) && holds_between(s, guard->arg[1]);
    if (guard->op != X_LT && guard->op != X_LE) return false;
    int axes = 0;
    for (int j = 0; j < s->columns->axes.n; j++) {
        int a = s->columns->axes.at[j];
        int64_t step;
        if (k->axes.at[a].kind != AXIS_REDUCE || !expr_uses_axis(guard, a)) continue;
        for (int i = 0; i < 2; i++)
            if (!slope_is(k, guard->arg[i], a, &step)) return false;
        axes++;
    }
    return axes <= 1;
}

// The window of a column, if it is small and read once. Whether it leaves the image depends on the row alone.
static bool is_small_window(const slide *s) {
    int64_t taps = 1;
    for (int j = 0; j < s->reduce->ninner; j++) {
        const dim *extent = s->e->extent[s->reduce->inner[j]];
        if (!dim_is_const(extent) || dim_value(extent) < 1 || dim_value(extent) > MOST_WINDOW) return false;
        taps *= dim_value(extent);
    }
    const expr *step = s->columns->states.n ? s->columns->states.at[0].step : NULL;
    if (!step || step->op != X_READ || taps > MOST_TAPS) return false;
    bool of_row = !step->guard || s->c < 0 || !expr_uses_axis(step->guard, s->c);
    return of_row && (!step->guard || holds_between(s, step->guard));
}

slide *slide_find(emitter *e) {
    kernel *k = e->k;
    slide *s = ARENA_NEW(e->scratch, slide);
    *s = (slide){.e = e};
    if (!e->t->masked || e->t->dot_across || e->t->size_level || k->stages.n < 2 || k->locals.n != 1)
        return NULL;
    s->windows = k->stages.at[k->stages.n - 1];
    if (!find_windows(s)) return NULL;
    dtype t = s->windows->states.at[0].dtype;
    bool whole = (dtype_bits(t) == 32 || dtype_bits(t) == 64) && dtype_compute(t) == t;
    s->lanes = target_lanes(e->t, dtype_bits(t));
    if (!whole || t != s->read->buffer->dtype || s->lanes < 4 || s->lanes > MOST_LANES) return NULL;
    if (!find_columns(s) || !reaches(s)) return NULL;
    s->reduce = nest_new(e, s->columns, false), s->slide = nest_new(e, s->windows, false);
    s->reduce->narrows = true;
    s->slide->vaxis = s->x, s->reduce->vaxis = s->c, s->slide->lanes = s->reduce->lanes = s->lanes;
    s->small = is_small_window(s);
    bool masks = nest_masks(s->slide) && nest_masks(s->reduce);
    return masks && writes_allow(s) ? s : NULL;
}

// ---------------------------------------------------------------- rows inside of the image
static void at_end_of_window(slide *s, bool last) {
    emitter *e = s->e;
    for (int j = 0; j < s->reduce->ninner; j++) {
        int a = s->reduce->inner[j];
        e->counter[a] = lb_idx(&e->b, last ? dim_value(e->extent[a]) - 1 : 0);
    }
}

static void leave_window(slide *s) {
    for (int j = 0; j < s->reduce->ninner; j++) s->e->counter[s->reduce->inner[j]] = NULL;
}

// Whether all columns of the row have whole windows.
static ins *is_inside(slide *s) {
    emitter *e = s->e;
    expr *guard = s->columns->states.at[0].step->guard;
    ins *all = NULL;
    emitter_stage(e, s->columns, -1, 1, false);
    for (int last = 0; last < 2 && guard; last++) {
        scope mark = scope_open(e);
        at_end_of_window(s, last);
        ins *holds = emit_value(e, guard);
        all = all ? lb_bin(&e->b, L_AND, all, holds) : holds;
        scope_close(e, mark);
    }
    leave_window(s);
    return all;
}

static void unrolled(slide *s, int depth) {
    emitter *e = s->e;
    if (depth == s->reduce->ninner) {
        nest_step(s->reduce);
        return;
    }
    int a = s->reduce->inner[depth];
    for (int64_t i = 0; i < dim_value(e->extent[a]); i++) {
        scope mark = scope_open(e);
        e->counter[a] = lb_idx(&e->b, i);
        unrolled(s, depth + 1);
        scope_close(e, mark);
    }
    e->counter[a] = NULL;
}

// ---------------------------------------------------------------- columns
static void reduce_columns(slide *s) {
    emitter *e = s->e;
    if (!s->inside) {
        nest_reduce(s->reduce);
        return;
    }
    struct emit_entry *entry = entry_of(e, s->columns->states.at[0].step);
    entry->guard = x_int(e->k, DT_BOOL, 1);
    nest_init(s->reduce);
    unrolled(s, 0);
    nest_use_states(s->reduce);
    entry_of(e, s->columns->states.at[0].step)->guard = NULL;
}

static ins *reduced(slide *s) {
    reduce_columns(s);
    return emit_vector(s->e, s->columns->writes.at[0].value);
}

// The first `left` columns, of at most as many as there are lanes; whole: as many.
static void some_columns(slide *s, ins *left, ins *v, bool whole) {
    emitter *e = s->e;
    lbuild *b = &e->b;
    scope some = whole ? scope_open(e) : scope_if(e, lb_cmp(b, L_SLT, lb_idx(b, 0), left));
    e->active = whole ? NULL : lb_bin(b, L_SMIN, left, lb_idx(b, s->lanes));
    ins *value = reduced(s);
    if (!whole) {
        ins *n = lb_conv(b, L_ITRUNC, LK_I32, e->active);
        ins *inside = lb_cmp(b, L_SLT, lb_iota(b, lt(LK_I32, s->lanes)), lb_splat(b, n, s->lanes));
        value = lb_select(b, inside, value, s->neutral);
    }
    lb_set(b, v, value);
    e->active = NULL;
    scope_close(e, some);
}

// The vector of columns from `begin` on.
static ins *column_vector(slide *s, ins *begin) {
    emitter *e = s->e;
    lbuild *b = &e->b;
    emitter_stage(e, s->columns, s->c, s->lanes, true);
    ins *left = lb_sub(b, emit_dim(e, e->extent[s->c]), begin), *v = lb_var(b, "columns", s->neutral);
    scope all = scope_if(e, lb_cmp(b, L_SLE, lb_idx(b, s->lanes), left));
    e->counter[s->c] = begin;
    some_columns(s, left, v, true);
    scope_else(e, all);
    some_columns(s, left, v, false);
    e->counter[s->c] = NULL;
    scope_close(e, all);
    return lb_get(b, v);
}

// Lanes i * S + offset of the vectors, of which the second one has lane 0.
static ins *lanes_at(slide *s, ins *const *v, int64_t offset) {
    int mask[MOST_LANES], lanes = s->lanes;
    int64_t first = offset + lanes, last = first + (lanes - 1) * s->step;
    int from = (int)(first / lanes), to = (int)(last / lanes);
    if (s->step == 1 && from == to) return v[from];
    ins *all = v[from];
    for (int q = from + 1; q <= to || q == from + 1; q++) {
        for (int i = 0; i < lanes; i++) {
            int at = (int)(first + i * s->step);
            bool earlier = at / lanes < q;
            mask[i] = at / lanes == q ? at % lanes + lanes : earlier && q > from + 1 ? i : at % lanes;
        }
        all = lb_shuffle(&s->e->b, all, q <= to ? v[q] : all, mask, lanes);
    }
    return all;
}

// ---------------------------------------------------------------- results
static void begin_row(slide *s) {
    emitter *e = s->e;
    const state *st = &s->windows->states.at[0];
    emitter_stage(e, s->windows, s->x, s->lanes, true);
    s->neutral = emit_vector(e, reduce_neutral(e->k, st->op, st->dtype));
    s->prev = s->has_prev ? lb_var(&e->b, "prev", s->neutral) : NULL;
    s->first = s->has_next ? lb_var(&e->b, "first", column_vector(s, lb_idx(&e->b, 0))) : NULL;
}

// A vector of results, whose axis has its counter.
static void results(slide *s, ins *active) {
    emitter *e = s->e;
    lbuild *b = &e->b;
    ins *v[MOST_STEP + 2], *x = e->counter[s->x];
    e->active = NULL;
    v[0] = s->prev ? lb_get(b, s->prev) : s->neutral;
    for (int m = 0; m <= s->step; m++) {
        ins *begin = idx_addk(b, idx_mulk(b, x, s->step), (int64_t)m * s->lanes);
        bool kept = m == 0 && s->first, unused = m == s->step && !s->first;
        v[m + 1] = kept ? lb_get(b, s->first) : unused ? s->neutral : column_vector(s, begin);
    }
    if (s->prev) lb_set(b, s->prev, v[s->step]);
    if (s->first) lb_set(b, s->first, v[s->step + 1]);
    emitter_stage(e, s->windows, s->x, s->lanes, true);
    e->active = active;
    scope mark = scope_open(e);
    nest_init(s->slide);
    for (int64_t j = 0; j < s->size; j++) {
        scope element = scope_open(e);
        e->counter[s->j] = lb_idx(b, j);
        use_value(e, s->read, lanes_at(s, v, j * s->apart - s->before));
        nest_step(s->slide);
        scope_close(e, element);
    }
    e->counter[s->j] = NULL;
    nest_use_states(s->slide);
    nest_write(s->slide, WRITE_END);
    scope_close(e, mark);
}

static void row_of_vectors(slide *s) {
    emitter *e = s->e;
    lbuild *b = &e->b;
    begin_row(s);
    ins *zero = lb_idx(b, 0), *n = emit_dim(e, e->extent[s->x]), *full = emit_int_floor(b, n, s->lanes);
    scope loop = scope_axis(e, s->x, zero, full, s->lanes, LOOP_SERIAL);
    results(s, NULL);
    scope_close(e, loop);
    if (same_index(full, n)) return;
    scope part = open_partial_vector(e, s->x, full, n);
    results(s, e->active);
    close_partial_vector(e, part);
    e->counter[s->x] = NULL;
}

static void one_row(slide *s) {
    emitter *e = s->e;
    ins *all = s->small ? is_inside(s) : NULL;
    s->inside = s->small;
    scope branch = scope_if(e, all);
    row_of_vectors(s);
    if (all) {
        scope_else(e, branch);
        s->inside = false;
        row_of_vectors(s);
    }
    scope_close(e, branch);
}

// The last row of a block that is more than a repetition of the image's last row: index[d] = min(position, last).
static void distinct_rows(slide *s, ins **begin, ins **end) {
    emitter *e = s->e;
    kernel *k = e->k;
    const write *w = &s->windows->writes.at[0];
    for (int d = 0; d < w->to->rank; d++) {
        const expr *at = w->index[d];
        for (int i = 0; at->op == X_MIN && i < 2; i++)
            if (expr_uses_axis(at->arg[i], s->result_row) && expr_known_dim(k, at->arg[!i]))
                range_of_condition(e, x_bin(k, X_LE, at->arg[i], at->arg[!i]), s->result_row, NULL, begin,
                                   end);
    }
}

void schedule_slide(slide *s) {
    emitter *e = s->e;
    if (s->row < 0) {
        one_row(s);
        return;
    }
    ins *begin, *end;
    axis_range(e, s->result_row, &begin, &end);
    distinct_rows(s, &begin, &end);
    scope rows = scope_axis(e, s->result_row, begin, end, 1, LOOP_SERIAL);
    e->counter[s->row] = rows.head;
    one_row(s);
    e->counter[s->row] = NULL;
    scope_close(e, rows);
}
