// Reads whose positions are piecewise linear along the vector axis, such as those of padding and of repeated tiles: each
// part becomes a separate loop, so that its elements lie side by side and no position is clamped in it.
//
//   for v < 34:                            for v < 4: y[v] = x[0]
//     y[v] = x[max(min(v - 3, 27), 0)]     for 4 <= v < 31: y[v] = x[v - 3]
//                                          for 31 <= v < 34: y[v] = x[27]
//
// Numbers that depend on the position alone are evaluated for all positions: parts are found for any operations. So are
// conditions under which elements are read. Where only a run knows the size of the axis, the longest part is found instead, from the
// operations: minima, maxima, choices and remainders of linear numbers, and comparisons of these. The run computes where it begins and ends.
//
//   for v < P + 6:                           for v < 3: y[v] = x[max(min(v - 3, P - 1), 0)]
//     y[v] = x[max(min(v - 3, P - 1), 0)]    for 3 <= v < P + 3: y[v] = x[v - 3]
//                                            for P + 3 <= v < P + 6: as the first one
#include "ir/kernel/eval.h"
#include "passes/schedule/common/nest.h"

enum { LEAST_PART = 8, MOST_POSITIONS = 1 << 16 };

typedef struct piecewise {
    const nest *n;
    eval_span span;     // over the vector axis
    bool *alone;        // by expression: whether it depends on the position alone
    int64_t begin, end; // of a part
} piecewise;

// ---------------------------------------------------------------- numbers that depend on the position alone
static bool is_alone(const piecewise *v, const expr *x) {
    if (expr_op_class(x->op) == XC_LEAF) return x->op == X_CONST || x == v->span.source;
    bool alone = x->op != X_CHECK;
    for (int j = 0; j < expr_arity(x->op) && alone; j++) alone = v->alone[x->arg[j]->id];
    return alone;
}

static piecewise piecewise_over(const nest *n, int axis) {
    emitter *e = n->e;
    int ids = e->k->exprs.n + 1;
    piecewise v = {.n = n, .alone = ARENA_ARRAY(e->scratch, bool, ids)};
    v.span = (eval_span){e->scratch, x_axis(e->k, axis), 0, dim_value(e->extent[axis]),
                         ARENA_ARRAY(e->scratch, cell *, ids)};
    return v;
}

// The offset's nodes; sets v->alone for those that depend on the position alone.
static expr_list nodes_of(piecewise *v, expr *offset) {
    expr_list all = expr_nodes(v->n->e->scratch, offset);
    for (int j = 0; j < all.n; j++) v->alone[all.at[j]->id] = is_alone(v, all.at[j]);
    return all;
}

// ---------------------------------------------------------------- boundaries of the parts
static int64_t slope_at(const cell *value, int64_t at) {
    return (int64_t)((uint64_t)value[at + 1].i - (uint64_t)value[at].i);
}

// Whether the value at `at` continues the part that began at `begin`: a line of numbers, or a truth.
static bool continues(const expr *x, const cell *value, int64_t begin, int64_t at) {
    if (x->dtype == DT_BOOL) return value[at].i == value[begin].i;
    return at < begin + 2 || slope_at(value, at - 1) == slope_at(value, begin);
}

// Adds the beginnings of parts to the marked ones; false: there are too many.
static bool mark_parts(const piecewise *v, const expr *x, bool *begins) {
    const cell *value = eval_over((eval_span *)&v->span, x);
    int parts = 1;
    int64_t begin = 0;
    for (int64_t at = 1; at < v->span.count; at++) {
        if (continues(x, value, begin, at)) continue;
        begins[begin = at] = true;
        if (++parts > NEST_PARTS) return false;
    }
    return true;
}

static bool is_straightened(const piecewise *v, const expr *x) {
    return v->alone[x->id] && x->op != X_CONST && (x->dtype == DT_I64 || x->dtype == DT_BOOL);
}

// Of nested numbers and conditions, only the outermost matters.
static bool mark_value(piecewise *v, expr *value, bool *begins) {
    expr_list all = nodes_of(v, value);
    bool *inner = ARENA_ARRAY(v->n->e->scratch, bool, value->id + 1);
    for (int j = all.n - 1; j >= 0; j--) {
        const expr *x = all.at[j];
        for (int i = 0; i < expr_arity(x->op) && v->alone[x->id]; i++) inner[x->arg[i]->id] = true;
        if (is_straightened(v, x) && !inner[x->id] && !mark_parts(v, x, begins)) return false;
    }
    return true;
}

// Lanes that exist are a register of such CPUs: a condition on the position costs less there than loops for its parts.
static bool masks_lanes(const target *t) { return t->avx512 || t->dot_across || t->arch.vector_lengths; }

static expr_list piecewise_reads(const nest *n, int axis) {
    expr_list reads = reads_only(stage_nodes(n->e->scratch, n->s, PART_ALL));
    int kept = 0;
    for (int j = 0; j < reads.n; j++) {
        const access *a = entry_of(n->e, reads.at[j])->read;
        const expr *guard = reads.at[j]->guard;
        bool bends = a && !a->coef[axis] && expr_uses_axis(a->offset, axis);
        bool some = a && guard && !masks_lanes(n->e->t) && expr_uses_axis(guard, axis);
        if (bends || some) reads.at[kept++] = reads.at[j];
    }
    reads.n = kept;
    return reads;
}

static bool may_have_parts(const nest *n) {
    return !n->s->states.n && !n->ninner && !n->by_row && n->waxis < 0 && !n->e->t->size_level;
}
static bool is_short(const dim *extent) {
    return dim_is_const(extent) && dim_value(extent) <= MOST_POSITIONS;
}

// ---------------------------------------------------------------- reads in a part
static expr *straight_node(void *user, expr *x) {
    piecewise *v = user;
    if (!is_straightened(v, x)) return NULL;
    const cell *value = eval_over(&v->span, x);
    for (int64_t at = v->begin + 1; at < v->end; at++)
        if (!continues(x, value, v->begin, at)) return NULL;
    kernel *k = v->n->e->k;
    if (x->dtype == DT_BOOL) return x_int(k, DT_BOOL, value[v->begin].i);
    int64_t step = v->end - v->begin > 1 ? slope_at(value, v->begin) : 0;
    uint64_t base = (uint64_t)value[v->begin].i - (uint64_t)step * (uint64_t)v->begin;
    return x_add(k, x_mul(k, (expr *)v->span.source, x_i64(k, step)), x_i64(k, (int64_t)base));
}

static expr *straight_value(piecewise *v, const nest_parts *p, int part, expr *value) {
    v->begin = p->begin[part], v->end = p->begin[part + 1];
    nodes_of(v, value);
    return expr_rewrite(v->n->e->k, value, straight_node, v);
}

static void change_read(emitter *e, const expr *read, const access *whole, expr *offset, expr *guard) {
    access *a = access_at(e, whole, offset); // may move the entries
    entry_of(e, read)->read = a;
    entry_of(e, read)->guard = guard;
}

void nest_part_enter(nest *n, const nest_parts *p, int part) {
    piecewise v = piecewise_over(n, n->vaxis);
    for (int j = 0; j < p->reads.n; j++) {
        expr *offset = straight_value(&v, p, part, p->whole[j]->offset), *guard = p->reads.at[j]->guard;
        change_read(n->e, p->reads.at[j], p->whole[j], offset,
                    guard ? straight_value(&v, p, part, guard) : NULL);
    }
}

void nest_parts_leave(nest *n, const expr_list *reads, access *const *whole) {
    for (int j = 0; j < reads->n; j++) {
        entry_of(n->e, reads->at[j])->read = whole[j];
        entry_of(n->e, reads->at[j])->guard = NULL;
    }
}

// ---------------------------------------------------------------- applicability
// Whether the beginnings of parts are few enough and far apart.
static bool gather_parts(const piecewise *v, const bool *begins, nest_parts *p) {
    for (int64_t at = 0; at < v->span.count; at++) {
        if (at && !begins[at]) continue;
        if (p->n == NEST_PARTS) return false;
        p->begin[p->n++] = at;
    }
    p->begin[p->n] = v->span.count;
    return p->n > 1 && v->span.count >= p->n * LEAST_PART;
}

bool nest_parts_find(const nest *n, int axis, nest_parts *p) {
    emitter *e = n->e;
    *p = (nest_parts){0};
    if (may_have_parts(n) && is_short(e->extent[axis])) p->reads = piecewise_reads(n, axis);
    if (!p->reads.n) return false;
    piecewise v = piecewise_over(n, axis);
    bool *begins = ARENA_ARRAY(e->scratch, bool, v.span.count);
    p->whole = ARENA_ARRAY(e->scratch, access *, p->reads.n);
    for (int j = 0; j < p->reads.n; j++) {
        p->whole[j] = entry_of(e, p->reads.at[j])->read;
        if (!mark_value(&v, p->whole[j]->offset, begins)) return false;
        if (p->reads.at[j]->guard && !mark_value(&v, p->reads.at[j]->guard, begins)) return false;
    }
    if (!gather_parts(&v, begins, p)) return false;
    for (int j = 0; j < p->reads.n; j++) // data may bend them as well
        if (!expr_slope(e->k, straight_value(&v, p, 0, p->whole[j]->offset), axis)) return false;
    return true;
}

// ---------------------------------------------------------------- the longest part of an open axis
typedef struct straightening {
    kernel *k;
    int axis;
    nest_run *run;
    bool failed;
} straightening;

static expr *axis_is_0(void *user, expr *x) {
    const straightening *v = user;
    return x->op == X_AXIS && x->axis == v->axis ? x_i64(v->k, 0) : NULL;
}

// The part has only positions at which x, which is linear along the axis, is not negative.
static void require(straightening *v, expr *x) {
    kernel *k = v->k;
    nest_run *r = v->run;
    const expr *slope = expr_slope(k, x, v->axis);
    v->failed |= !slope || slope->op != X_CONST || !slope->i || slope->i == INT64_MIN ||
                 expr_any(x, expr_reads_or_checks) || r->nfrom == NEST_PARTS || r->nto == NEST_PARTS;
    if (v->failed) return;
    bool rises = slope->i > 0;
    expr *first = expr_rewrite(k, x, axis_is_0, v),
         *steps = x_bin(k, X_FLOORDIV, first, x_i64(k, rises ? slope->i : -slope->i));
    if (rises) r->from[r->nfrom++] = x_sub(k, x_i64(k, 0), steps);
    else r->to[r->nto++] = x_add(k, steps, x_i64(k, 1));
}

static bool is_steeper(straightening *v, expr *x, expr *y) {
    const expr *a = expr_slope(v->k, x, v->axis), *b = expr_slope(v->k, y, v->axis);
    v->failed |= !a || !b || a->op != X_CONST || b->op != X_CONST;
    return !v->failed && a->i > b->i;
}

static expr *straight(straightening *v, expr *x);

// The greater operand of a maximum, or the lesser of a minimum, is the one that rises: the other one is a bound.
static expr *straight_bound(straightening *v, expr *x) {
    expr *a = straight(v, x->arg[0]), *b = straight(v, x->arg[1]);
    if (v->failed) return x;
    expr *kept = is_steeper(v, a, b) ? a : b, *bound = kept == a ? b : a;
    require(v, x->op == X_MAX ? x_sub(v->k, kept, bound) : x_sub(v->k, bound, kept));
    return kept;
}

// Choices name the exceptions first.
static expr *straight_choice(straightening *v, expr *x) {
    const expr *when = x->arg[0];
    v->failed |= when->op != X_LT && when->op != X_LE;
    v->failed |= when->arg[0]->dtype != DT_I64;
    if (v->failed) return x;
    expr *over = x_sub(v->k, straight(v, when->arg[0]), straight(v, when->arg[1]));
    require(v, when->op == X_LT ? over : x_sub(v->k, over, x_i64(v->k, 1)));
    return straight(v, x->arg[2]);
}

static expr *straight_remainder(straightening *v, expr *x) {
    expr *a = straight(v, x->arg[0]), *by = x->arg[1];
    v->failed |= expr_uses_axis(by, v->axis);
    if (v->failed) return x;
    require(v, a);
    require(v, x_sub(v->k, x_sub(v->k, by, x_i64(v->k, 1)), a));
    return a;
}

// x as it is in the part, within which it is linear along the axis.
static expr *straight(straightening *v, expr *x) {
    if (v->failed || !expr_uses_axis(x, v->axis) || x->op == X_AXIS) return x;
    v->failed |= x->dtype != DT_I64;
    if (x->op == X_MIN || x->op == X_MAX) return straight_bound(v, x);
    if (x->op == X_SELECT) return straight_choice(v, x);
    if (x->op == X_MOD) return straight_remainder(v, x);
    v->failed |= x->op != X_ADD && x->op != X_SUB && x->op != X_MUL;
    return v->failed ? x : x_bin(v->k, x->op, straight(v, x->arg[0]), straight(v, x->arg[1]));
}

// The condition in the part: of its comparisons along the axis, what is left if they are true.
static expr *straight_guard(straightening *v, expr *x) {
    if (v->failed || !x || !expr_uses_axis(x, v->axis)) return x;
    v->failed |= x->op != X_AND && x->op != X_LT && x->op != X_LE;
    v->failed |= x->op != X_AND && x->arg[0]->dtype != DT_I64;
    if (v->failed) return x;
    if (x->op == X_AND) return x_and(v->k, straight_guard(v, x->arg[0]), straight_guard(v, x->arg[1]));
    expr *less = straight(v, x->arg[0]), *more = straight(v, x->arg[1]), *room = x_sub(v->k, more, less);
    require(v, x->op == X_LT ? x_sub(v->k, room, x_i64(v->k, 1)) : room);
    return x_int(v->k, DT_BOOL, 1);
}

bool nest_run_find(const nest *n, int axis, nest_run *r) {
    emitter *e = n->e;
    *r = (nest_run){0};
    if (may_have_parts(n) && !dim_is_const(e->extent[axis])) r->reads = piecewise_reads(n, axis);
    r->whole = ARENA_ARRAY(e->scratch, access *, r->reads.n + 1);
    r->offset = ARENA_ARRAY(e->scratch, expr *, r->reads.n + 1);
    r->guard = ARENA_ARRAY(e->scratch, expr *, r->reads.n + 1);
    straightening v = {e->k, axis, r, !r->reads.n};
    for (int j = 0; j < r->reads.n; j++) {
        r->whole[j] = entry_of(e, r->reads.at[j])->read;
        r->offset[j] = straight(&v, r->whole[j]->offset);
        r->guard[j] = straight_guard(&v, r->reads.at[j]->guard);
        const expr *slope = v.failed ? NULL : expr_slope(e->k, r->offset[j], axis);
        v.failed |= !slope || (!expr_is_int(slope, 1) && !r->whole[j]->coef[axis]);
    }
    return !v.failed;
}

void nest_run_enter(nest *n, const nest_run *r) {
    for (int j = 0; j < r->reads.n; j++)
        change_read(n->e, r->reads.at[j], r->whole[j], r->offset[j], r->guard[j]);
}
