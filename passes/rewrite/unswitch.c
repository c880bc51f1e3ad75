// Unswitching: conditions on sizes within kernels become branches of the host code. In: kernels whose innermost axis takes steps
// through an operand that are 0 where a run broadcasts it and 1 where not, or whose indices are selected by sizes alone,
//
//   for j < select(eq(N, 1), M, N): y[j] = x[j * {1 - eq(N, 1)}] + z[j]
//
// Out: a branch on that condition with a kernel for either value, so that schedules see contiguous or invariant operands:
//
//   if {1 - eq(N, 1)}: for j: y[j] = x[j] + z[j]
//   else:              for j: y[j] = x[0] + z[j]
//
// The same where a condition decides whether the innermost axis is reduced, as axes do that only the run knows: either the axis or
// the reduction has one position.
//
// Of many conditions all are true, or the kernel stays as it is. Where size matters, it always does.
#include "ir/kernel/clone.h"
#include "ir/kernel/edit.h"
#include "ir/target.h"
#include "passes/match/form.h"
#include "passes/passes.h"

enum { MOST_CONDITIONS = 8, FEW_CONDITIONS = 2 }; // each of a few has kernels for both values

typedef struct conditions {
    dim *at[MOST_CONDITIONS];
    int n;
} conditions;

// The axis along which the kernel's last write is contiguous; -1: none.
static int innermost_axis(const kernel *k) {
    write_list all = kernel_write_list(k);
    const write *w = all.n ? all.at[all.n - 1] : NULL;
    const expr *last = w && w->to->rank ? w->index[w->to->rank - 1] : NULL;
    return last && last->op == X_AXIS && k->axes.at[last->axis].kind == AXIS_PARALLEL ? last->axis : -1;
}

static bool is_condition(const expr *e) {
    return e->op == X_DIM && !dim_is_const(e->dim) && e->dim->min == 0 && e->dim->max == 1;
}

// The condition by which this node chooses a step or a position along the axis; NULL: another node.
static dim *condition_of(const expr *e, int axis) {
    if (e->op == X_SELECT && e->dtype == DT_I64 && expr_uses_axis(e, axis)) {
        const expr *c = e->arg[0];
        return c->op == X_LT && c->arg[0]->op == X_CONST && is_condition(c->arg[1]) ? c->arg[1]->dim : NULL;
    }
    for (int j = 0; j < 2 && e->op == X_MUL; j++)
        if (is_condition(e->arg[j]) && expr_uses_axis(e->arg[1 - j], axis)) return e->arg[j]->dim;
    return NULL;
}

static void add_condition(conditions *all, dim *d) {
    for (int j = 0; j < all->n; j++)
        if (all->at[j] == d) return;
    if (all->n < MOST_CONDITIONS) all->at[all->n++] = d;
}

static bool is_selected(const dim *d, const dim *condition) {
    return d->kind == DIM_SELECT && (!condition || d->c == condition) && d->c->min == 0 && d->c->max == 1;
}

// The condition under which a reduction takes the place of the axis; NULL: none.
static dim *condition_of_reduction(const kernel *k, int axis) {
    const dim *extent = k->axes.at[axis].extent;
    if (k->locals.n || !is_selected(extent, NULL)) return NULL;
    for (int a = 0; a < k->axes.n; a++)
        if (k->axes.at[a].kind == AXIS_REDUCE && is_selected(k->axes.at[a].extent, extent->c))
            return extent->c;
    return NULL;
}

static conditions find_conditions(const kernel *k, int axis) {
    conditions found = {.n = 0};
    dim *reduced = condition_of_reduction(k, axis);
    if (reduced) add_condition(&found, reduced);
    expr_list all = kernel_nodes(k->arena, k, PART_ALL);
    for (int j = 0; j < all.n; j++) {
        dim *d = condition_of(all.at[j], axis);
        if (d) add_condition(&found, d);
    }
    return found;
}

typedef struct known_condition {
    kernel *k;
    dim *condition;
    int64_t value;
} known_condition;

static expr *put_known(void *user, expr *e) {
    const known_condition *known = user;
    if (e->op == X_AXIS && dim_is(known->k->axes.at[e->axis].extent, 1)) return x_i64(known->k, 0);
    return e->op == X_DIM && e->dim == known->condition ? x_i64(known->k, known->value) : NULL;
}

static kernel *with_value(const kernel *k, dim *condition, int64_t value) {
    known_condition known = {kernel_copy(k), condition, value};
    for (int a = 0; a < k->axes.n; a++) {
        axis *of = &known.k->axes.at[a];
        if (is_selected(of->extent, condition)) of->extent = value ? of->extent->a : of->extent->b;
    }
    kernel_rewrite(known.k, put_known, &known);
    return known.k;
}

static void branch_on_each(program *p, step *s, const conditions *all, int first) {
    if (first == all->n) return;
    const kernel *k = s->kernel;
    step_branch(p, s, all->at[first]);
    for (int value = 0; value < 2; value++)
        branch_on_each(p, step_kernel(p, s->body[!value], with_value(k, all->at[first], value)), all,
                       first + 1);
}

static void branch_on_all(program *p, step *s, const conditions *all) {
    kernel *old = s->kernel, *k = old;
    dim *least = dim_const(p->dims, 1);
    for (int j = 0; j < all->n; j++) {
        k = with_value(k, all->at[j], 1);
        least = dim_min(least, all->at[j]);
    }
    step_branch(p, s, least);
    step_kernel(p, s->body[0], k);
    step_kernel(p, s->body[1], old);
}

void pass_unswitch(pass_context *c) {
    program *p = c->program;
    if (!c->target->vector_bits || c->target->freestanding || c->target->size_level) return;
    step_list steps = program_steps(p->arena, p);
    for (int j = 0; j < steps.n; j++) {
        step *s = steps.at[j].s;
        int axis = s->kind == STEP_KERNEL ? innermost_axis(s->kernel) : -1;
        if (axis < 0) continue;
        conditions all = find_conditions(s->kernel, axis);
        if (all.n > FEW_CONDITIONS) branch_on_all(p, s, &all);
        else branch_on_each(p, s, &all, 0);
    }
    program_compact(p);
}
