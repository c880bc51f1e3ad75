// Narrowing of loops. Of reductions: if the term is selected by comparing the position with a loop-invariant
// value, the loop covers only these positions.
//
//   for r < extent:                              for max(0, ceil(a)) <= r < min(extent, ceil(b)):
//     s op= select(a <= r & r < b, x, neutral)     s op= select(a <= r & r < b, x, neutral)
//
// The same for the guard of a window that reaches far beyond its image, whose read has no conditions inside of the loop that the
// bounds imply.
//
// Of updates in place, where `from` has the memory of the result:
//
//   for i < extent:                                for max(0, a) <= i < min(extent, b):
//     to[i] = select(a <= i & i < b, x, from[i])     to[i] = select(a <= i & i < b, x, from[i])
//
// The comparison remains: the range may contain more positions than satisfy it, never fewer.
#include "passes/schedule/cpu/schedule_range.h"
#include "ir/kernel/edit.h"
#include "ir/kernel/program.h"
#include "ir/loops/convert.h"
#include "passes/match/contract.h"

typedef struct range {
    emitter *e;
    int axis;
    ins *begin, *end;
    bool narrowed;
    bool open;             // bounds may use all axes whose loops are open, and evaluate checks
    const row_block *rows; // they may also use this axis, NULL: none
} range;

// ---------------------------------------------------------------- bounds
// Whether x depends on elements of tensors: bounds of these are clamped.
static bool is_data(const expr *x) { return x->op == X_READ || x->op == X_CAST; }

// Clamps runtime data so that the sum of two values does not overflow.
static ins *bounded(emitter *e, ins *v) {
    enum { BITS = 60 };
    lbuild *b = &e->b;
    ins *most = lb_int(b, v->type, INT64_C(1) << BITS), *least = lb_int(b, v->type, -(INT64_C(1) << BITS));
    return lb_bin(b, L_SMAX, lb_bin(b, L_SMIN, v, most), least);
}

// Whether the loops over all axes of x are open.
static bool has_counters(const emitter *e, const expr *x) {
    for (int a = 0; a < e->k->axes.n; a++)
        if (expr_uses_axis(x, a) && !e->counter[a] && !dim_is(e->extent[a], 1)) return false;
    return true;
}

// A loop-invariant value, uniform over the lanes; NULL: it is not. Reductions leave checks where they are.
static ins *invariant_value(range *r, expr *x) {
    emitter *e = r->e;
    bool known = r->open ? has_counters(e, x) : emit_is_invariant(e, x);
    return known ? emit_value(e, x) : NULL;
}

// The least (low) or largest value of limit - base for the rows; NULL: unknown.
static ins *difference(range *r, expr *limit, expr *base, bool low) {
    emitter *e = r->e;
    expr *all = base ? x_sub(e->k, limit, base) : limit, *slope = NULL;
    bool by_row = r->rows && expr_uses_axis(all, r->rows->axis);
    if (by_row) slope = expr_slope(e->k, all, r->rows->axis);
    if (by_row && (!slope || slope->op != X_CONST)) return NULL;
    scope mark = scope_open(e);
    if (by_row) e->counter[r->rows->axis] = (slope->i >= 0) == low ? r->rows->first : r->rows->last;
    ins *v = invariant_value(r, limit), *from = base ? invariant_value(r, base) : NULL;
    if (by_row) e->counter[r->rows->axis] = NULL;
    scope_close(e, mark);
    if (!v || (base && !from)) return NULL;
    if (expr_any(all, is_data)) v = bounded(e, v), from = from ? bounded(e, from) : NULL;
    return from ? lb_sub(&e->b, v, from) : v;
}

static ins *to_extent(range *r, ins *v) {
    emitter *e = r->e;
    lbuild *b = &e->b;
    ins *extent = emit_dim(e, e->extent[r->axis]), *zero = lb_int(b, v->type, 0);
    lkind index = extent->type.kind;
    if (index != LK_I64) extent = lb_conv(b, L_SEXT, LK_I64, extent);
    v = lb_bin(b, L_SMAX, lb_bin(b, L_SMIN, v, extent), zero);
    return index == LK_I64 ? v : lb_conv(b, L_ITRUNC, index, v);
}

static void narrow(range *r, ins *v, bool low) {
    lbuild *b = &r->e->b;
    ins *at = to_extent(r, v);
    if (low) r->begin = lb_bin(b, L_SMAX, r->begin, at);
    else r->end = lb_bin(b, L_SMIN, r->end, at);
    r->narrowed = true;
}

// Whether x is the axis, in any numeric type, or a multiple of it plus an invariant (*base; NULL: 0).
static bool is_position(const range *r, expr *x, expr **base, int64_t *step) {
    kernel *k = r->e->k;
    *base = NULL, *step = 1;
    if (x->op == X_CAST && (x->dtype == DT_F32 || x->dtype == DT_F64))
        return x->arg[0]->op == X_AXIS && x->arg[0]->axis == r->axis;
    if (x->op == X_AXIS) return x->axis == r->axis;
    expr *slope = x->dtype == DT_I64 ? expr_slope(k, x, r->axis) : NULL;
    if (!slope || slope->op != X_CONST || slope->i < 1) return false;
    *base = expr_substitute_axis(k, x, r->axis, x_i64(k, 0)), *step = slope->i;
    return true;
}

// v / by, rounded up, or less than 1 where v is.
static ins *steps_to(lbuild *b, ins *v, int64_t by) {
    if (by == 1) return v;
    ins *least = lb_bin(b, L_SMAX, lb_add(b, v, lb_int(b, v->type, by - 1)), lb_int(b, v->type, 0));
    return lb_bin(b, L_SDIV, least, lb_int(b, v->type, by));
}

// position >= limit + (strict) bounds the range from below, position < limit + !strict from above.
static bool bound_whole(range *r, expr *base, int64_t step, expr *limit, bool low, bool strict) {
    lbuild *b = &r->e->b;
    ins *v = difference(r, limit, base, low);
    if (!v) return false;
    narrow(r, steps_to(b, lb_add(b, v, lb_int(b, v->type, low == strict)), step), low);
    return true;
}

// f32 represents integers up to 2^24 exactly: longer axes keep their range.
static void bound_float(range *r, expr *limit, bool low, bool strict) {
    enum { EXACT = 1 << 24 };
    kernel *k = r->e->k;
    bool exact = limit->dtype == DT_F64 || r->e->extent[r->axis]->max <= EXACT;
    if (!exact || !emit_is_invariant(r->e, limit)) return;
    bool up = low != strict;
    expr *whole = x_cast(k, x_un(k, up ? X_CEIL : X_FLOOR, limit), DT_I64, true);
    ins *v = bounded(r->e, emit_value(r->e, whole));
    narrow(r, lb_add(&r->e->b, v, lb_int(&r->e->b, v->type, !up)), low);
}

// True: the bounds imply the condition.
static bool add_comparison(range *r, expr *c) {
    expr *base;
    int64_t step;
    if (c->op != X_LT && c->op != X_LE && c->op != X_EQ) return false;
    for (int j = 0; j < 2; j++) {
        expr *limit = c->arg[1 - j];
        if (!is_position(r, c->arg[j], &base, &step) || expr_uses_axis(limit, r->axis)) continue;
        bool both = c->op == X_EQ, strict = c->op == X_LT, whole = c->arg[j]->dtype == DT_I64, all = whole;
        for (int low = 0; low < 2; low++) {
            if (!both && low != j) continue; // limit < position: a lower bound
            if (whole) all &= bound_whole(r, base, step, limit, low, strict);
            else bound_float(r, limit, low, strict);
        }
        return all && !expr_any(c, is_data);
    }
    return false;
}

// The rest of the condition, which the bounds do not imply; NULL: they imply all of it.
static expr *add_condition(range *r, expr *c) {
    if (c->op != X_AND) return add_comparison(r, c) ? NULL : c;
    expr *a = add_condition(r, c->arg[0]), *b = add_condition(r, c->arg[1]);
    return a && b ? x_bin(r->e->k, X_AND, a, b) : a ? a : b;
}

// ---------------------------------------------------------------- legality
// Whether the stage is a single reduction whose neutral terms may be skipped; checks: whether its invariant
// checks must still be evaluated.
static bool may_skip(const nest *n, int axis, bool *checks) {
    const state *st = &n->s->states.at[0];
    if (st->op == RED_CUSTOM || n->e->k->axes.at[axis].kind != AXIS_REDUCE) return false;
    if (!stage_writes_at_end(n->s)) return false;
    expr_list all = expr_nodes(n->e->scratch, st->step);
    *checks = false;
    for (int j = 0; j < all.n; j++) {
        if (all.at[j]->op != X_CHECK) continue;
        if (expr_uses_axis(all.at[j], axis)) return false;
        *checks = true;
    }
    return true;
}

// Keeps at least one position, if there is one, which evaluates all checks.
static void keep_one(range *r) {
    lbuild *b = &r->e->b;
    ins *extent = emit_dim(r->e, r->e->extent[r->axis]), *one = lb_idx(b, 1);
    r->begin = lb_bin(b, L_SMAX, lb_bin(b, L_SMIN, r->begin, lb_sub(b, extent, one)), lb_idx(b, 0));
    ins *next = lb_bin(b, L_SMIN, lb_add(b, r->begin, one), extent);
    r->end = lb_bin(b, L_SMAX, r->end, next);
}

static bool is_neutral(const nest *n, const expr *x) {
    const state *st = &n->s->states.at[0];
    return x == reduce_neutral(n->e->k, st->op, st->dtype);
}

// The read whose guard bounds the loop of a window; NULL: none.
static expr *window_that_bounds(const nest *n) {
    const state *st = &n->s->states.at[0];
    expr *x = st->step;
    if (!n->narrows) return far_window(n->e->k, n->s, n->e->t);
    return x->op == X_READ && x->guard && is_neutral(n, x->fill) ? x : NULL;
}

void nest_range(nest *n, int axis, ins **begin, ins **end) {
    bool checks;
    axis_range(n->e, axis, begin, end);
    if (n->s->states.n != 1 || !may_skip(n, axis, &checks)) return;
    range r = {.e = n->e, .axis = axis, .begin = *begin, .end = *end};
    expr *x = n->s->states.at[0].step;
    for (; x->op == X_SELECT && is_neutral(n, x->arg[2]); x = x->arg[1]) add_condition(&r, x->arg[0]);
    expr *read = checks ? NULL : window_that_bounds(n), *guard = read ? guard_of(n->e, read) : NULL;
    expr *rest = guard ? add_condition(&r, guard) : NULL;
    if (r.narrowed && checks) keep_one(&r);
    if (guard) n->guarded = read, entry_of(n->e, read)->guard = rest ? rest : x_int(n->e->k, DT_BOOL, 1);
    *begin = r.begin, *end = r.end;
}

void nest_leave_ranges(nest *n) {
    if (n->guarded) entry_of(n->e, n->guarded)->guard = NULL;
    n->guarded = NULL;
}

// ---------------------------------------------------------------- updates in place
static bool is_old_element(const kernel *k, const expr *x) {
    return x->op == X_READ && buffer_root(x->buffer) == buffer_root(k->in_place);
}

// The condition under which an element changes; NULL: unknown.
static expr *changed_where(kernel *k, const expr *value) {
    if (value->op == X_READ && value->guard && is_old_element(k, value->fill)) return value->guard;
    if (value->op != X_SELECT) return NULL;
    if (is_old_element(k, value->arg[2])) return value->arg[0];
    bool turns = is_old_element(k, value->arg[1]) && value->arg[0]->op == X_LT;
    return turns ? x_bin(k, X_LE, value->arg[0]->arg[1], value->arg[0]->arg[0]) : NULL;
}

void nest_update_range(nest *n, int axis, ins **begin, ins **end) {
    kernel *k = n->e->k;
    axis_range(n->e, axis, begin, end);
    if (!k->in_place || n->s->states.n || k->axes.at[axis].kind != AXIS_PARALLEL) return;
    expr *condition = changed_where(k, n->s->writes.at[0].value);
    if (condition) range_of_condition(n->e, condition, axis, NULL, begin, end);
}

// ---------------------------------------------------------------- any loop
void range_of_condition(emitter *e, expr *condition, int axis, const row_block *rows, ins **begin,
                        ins **end) {
    range r = {.e = e, .axis = axis, .begin = *begin, .end = *end, .open = true, .rows = rows};
    add_condition(&r, condition);
    *begin = r.begin, *end = r.end;
}
