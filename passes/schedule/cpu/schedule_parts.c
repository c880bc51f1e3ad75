// Reads whose positions are piecewise linear along the vector axis, such as those of padding and of repeated tiles: each
// part becomes a separate loop, so that its elements lie side by side and no position is clamped in it.
//
//   for v < 34:                            for v < 4: y[v] = x[0]
//     y[v] = x[max(min(v - 3, 27), 0)]     for 4 <= v < 31: y[v] = x[v - 3]
//                                          for 31 <= v < 34: y[v] = x[27]
//
// Numbers that depend on the position alone are evaluated for all positions: parts are found for any operations.
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

// Whether the value at `at` continues the line of the part that began at `begin`.
static bool continues(const cell *value, int64_t begin, int64_t at) {
    return at < begin + 2 || slope_at(value, at - 1) == slope_at(value, begin);
}

// Adds the beginnings of parts to the marked ones; false: there are too many.
static bool mark_parts(const piecewise *v, const expr *x, bool *begins) {
    const cell *value = eval_over((eval_span *)&v->span, x);
    int parts = 1;
    int64_t begin = 0;
    for (int64_t at = 1; at < v->span.count; at++) {
        if (continues(value, begin, at)) continue;
        begins[begin = at] = true;
        if (++parts > NEST_PARTS) return false;
    }
    return true;
}

// Of nested numbers, only the outermost matters.
static bool mark_offset(piecewise *v, expr *offset, bool *begins) {
    expr_list all = nodes_of(v, offset);
    bool *inner = ARENA_ARRAY(v->n->e->scratch, bool, offset->id + 1);
    for (int j = all.n - 1; j >= 0; j--) {
        const expr *x = all.at[j];
        for (int i = 0; i < expr_arity(x->op) && v->alone[x->id]; i++) inner[x->arg[i]->id] = true;
        if (v->alone[x->id] && !inner[x->id] && x->op != X_CONST && x->dtype == DT_I64 &&
            !mark_parts(v, x, begins))
            return false;
    }
    return true;
}

static expr_list piecewise_reads(const nest *n, int axis) {
    expr_list reads = reads_only(stage_nodes(n->e->scratch, n->s, PART_ALL));
    int kept = 0;
    for (int j = 0; j < reads.n; j++) {
        const access *a = entry_of(n->e, reads.at[j])->read;
        bool is_piecewise = a && !a->coef[axis] && expr_uses_axis(a->offset, axis);
        if (is_piecewise) reads.at[kept++] = reads.at[j];
    }
    reads.n = kept;
    return reads;
}

static bool may_have_parts(const nest *n, int axis) {
    const dim *extent = n->e->extent[axis];
    return !n->s->states.n && !n->ninner && !n->by_row && n->waxis < 0 && !n->e->t->size_level &&
           dim_is_const(extent) && dim_value(extent) <= MOST_POSITIONS;
}

// ---------------------------------------------------------------- reads in a part
static expr *straight_node(void *user, expr *x) {
    piecewise *v = user;
    if (!v->alone[x->id] || x->op == X_CONST || x->dtype != DT_I64) return NULL;
    const cell *value = eval_over(&v->span, x);
    int64_t step = v->end - v->begin > 1 ? slope_at(value, v->begin) : 0;
    for (int64_t at = v->begin + 2; at < v->end; at++)
        if (!continues(value, v->begin, at)) return NULL;
    kernel *k = v->n->e->k;
    uint64_t base = (uint64_t)value[v->begin].i - (uint64_t)step * (uint64_t)v->begin;
    return x_add(k, x_mul(k, (expr *)v->span.source, x_i64(k, step)), x_i64(k, (int64_t)base));
}

static expr *straight_offset(piecewise *v, const nest_parts *p, int part, expr *offset) {
    v->begin = p->begin[part], v->end = p->begin[part + 1];
    nodes_of(v, offset);
    return expr_rewrite(v->n->e->k, offset, straight_node, v);
}

void nest_part_enter(nest *n, const nest_parts *p, int part) {
    piecewise v = piecewise_over(n, n->vaxis);
    for (int j = 0; j < p->reads.n; j++) {
        expr *offset = straight_offset(&v, p, part, p->whole[j]->offset);
        access *a = access_at(n->e, p->whole[j], offset); // may move the entries
        entry_of(n->e, p->reads.at[j])->read = a;
    }
}

void nest_parts_leave(nest *n, const nest_parts *p) {
    for (int j = 0; j < p->reads.n; j++) entry_of(n->e, p->reads.at[j])->read = p->whole[j];
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
    *p = (nest_parts){.reads = may_have_parts(n, axis) ? piecewise_reads(n, axis) : (expr_list){0}};
    if (!p->reads.n) return false;
    piecewise v = piecewise_over(n, axis);
    bool *begins = ARENA_ARRAY(e->scratch, bool, v.span.count);
    p->whole = ARENA_ARRAY(e->scratch, access *, p->reads.n);
    for (int j = 0; j < p->reads.n; j++) {
        p->whole[j] = entry_of(e, p->reads.at[j])->read;
        if (!mark_offset(&v, p->whole[j]->offset, begins)) return false;
    }
    if (!gather_parts(&v, begins, p)) return false;
    for (int j = 0; j < p->reads.n; j++) // data may bend them as well
        if (!expr_slope(e->k, straight_offset(&v, p, 0, p->whole[j]->offset), axis)) return false;
    return true;
}
