// Axes of which indices take quotients and remainders. In: a kernel that reads a transposed or reshaped view,
//
//   for j < 128: for k < 384: y[j, k] = f(x[floordiv(k, 32), j, mod(k, 32)])
//
// Out: the same over two axes, so that vectors are contiguous in x as well:
//
//   for j < 128: for q < 12: for r < 32: y[j, 32 * q + r] = f(x[q, j, r])
//
// The remainders must fill whole vectors, or be as many as an open size. Rows that are repeated, whose quotients do not matter,
// need fill one vector, or none where elements only move. Contractions choose their axes themselves.
#include "ir/kernel/edit.h"
#include "ir/target.h"
#include "passes/match/contract.h"
#include "passes/passes.h"

typedef struct splitting {
    int axis;
    dim *by, *count; // extent = count * by
    bool repeats;    // indices take the remainder only, as those of repeated rows do
    expr *whole, *quotient, *remainder;
} splitting;

static bool takes_part(const expr *e, expr_op op, int axis) {
    bool known = e->op == op && (e->arg[1]->op == X_CONST || e->arg[1]->op == X_DIM);
    return known && e->arg[0]->op == X_AXIS && e->arg[0]->axis == axis;
}

// The number by which indices divide the axis, and whether they take remainders only; NULL: they do not, or by several numbers.
static dim *divisor_of(const kernel *k, int axis, bool *repeats) {
    expr_list all = kernel_nodes(k->arena, k, PART_ALL);
    dim *by = NULL;
    *repeats = true;
    for (int j = 0; j < all.n; j++) {
        const expr *e = all.at[j];
        if (!takes_part(e, X_FLOORDIV, axis) && !takes_part(e, X_MOD, axis)) continue;
        dim *d = e->arg[1]->op == X_DIM ? e->arg[1]->dim : dim_const(k->program->dims, e->arg[1]->i);
        if (by && d != by) return NULL;
        if (e->op == X_FLOORDIV) *repeats = false;
        by = d;
    }
    return by;
}

static bool only_moves(const stage *s) {
    bool moves = !s->states.n;
    for (int j = 0; j < s->writes.n; j++) moves &= s->writes.at[j].value->op == X_READ;
    return moves;
}

static bool is_splittable(const kernel *k, const target *t, splitting *x) {
    contraction c;
    if (k->stages.n != 1 || !k->stages.at[0]->axes.n || contraction_find(k, &c)) return false;
    const stage *s = k->stages.at[0];
    x->axis = s->axes.at[s->axes.n - 1];
    dim *extent = k->axes.at[x->axis].extent;
    if (k->axes.at[x->axis].kind == AXIS_SCAN || k->axes.n >= MAX_AXES - 1) return false;
    x->by = divisor_of(k, x->axis, &x->repeats);
    if (!x->by || x->by == extent || (dim_is_const(x->by) && dim_value(x->by) < 2)) return false;
    x->count = dim_quotient(extent, x->by);
    if (!x->count) return false;
    int64_t lanes = t->vector_bits / dtype_bits(DT_F32);
    bool fills = dim_is_const(x->by) && x->repeats && (dim_value(x->by) >= lanes || only_moves(s));
    return !dim_is_const(x->by) || fills || (dim_is_const(extent) && dim_value(x->by) % lanes == 0);
}

static expr *part(void *user, expr *e) {
    const splitting *x = user;
    if (takes_part(e, X_FLOORDIV, x->axis)) return x->quotient;
    if (takes_part(e, X_MOD, x->axis)) return x->remainder;
    return e->op == X_AXIS && e->axis == x->axis ? x->whole : NULL;
}

static void rewrite(kernel *k, expr **e, splitting *x) {
    if (*e) *e = expr_rewrite(k, *e, part, x);
}

static void split_axis(kernel *k, splitting *x) {
    stage *s = k->stages.at[0];
    int outer = kernel_axis(k, k->axes.at[x->axis].kind, k->axes.at[x->axis].name, x->count);
    k->axes.at[x->axis].extent = x->by;
    s->axes.at[s->axes.n - 1] = outer;
    VEC_PUSH(k->arena, &s->axes, x->axis);
    x->quotient = x_axis(k, outer), x->remainder = x_axis(k, x->axis);
    x->whole = x_add(k, x_mul(k, x->quotient, x_dim(k, x->by)), x->remainder);
    for (int j = 0; j < s->states.n; j++) {
        state *st = &s->states.at[j];
        rewrite(k, &st->init, x), rewrite(k, &st->step, x), rewrite(k, &st->merge, x);
    }
    for (int j = 0; j < s->writes.n; j++) {
        write *w = &s->writes.at[j];
        for (int i = 0; i < w->to->rank; i++) rewrite(k, &w->index[i], x);
        rewrite(k, &w->value, x), rewrite(k, &w->guard, x);
    }
}

void pass_split_axes(pass_context *c) {
    program *p = c->program;
    splitting x;
    if (!c->target->vector_bits) return;
    for (int j = 0; j < p->kernels.n; j++)
        if (is_splittable(p->kernels.at[j], c->target, &x)) split_axis(p->kernels.at[j], &x);
}
