// Attention over repeated heads of keys, and of one row, in the axes of an operator: groups of query heads that share keys and
// values, and rows.
//
//   for h < 8:                                                for h < 2:  for g < 4:  for i < 1:
//     score[j] = q[h, d] . k[floordiv(h, 4), j, d]              score[j] = q[h * 4 + g, d] . k[h, j, d]
//
// Heads of one row with keys of their own get an axis of rows, too.
#include "ir/kernel/edit.h"
#include "passes/fuse/fuse_impl.h"
#include "passes/match/attention.h"
#include "passes/passes.h"

typedef struct heads {
    int axis;       // of the query heads; -1: none share keys
    int64_t shared; // that many have the same keys
    int group, row; // axes of the result: within a group, of rows
} heads;

// An outer axis that indices divide by the same number everywhere but in the queries and the results.
static bool find_heads(const kernel *k, heads *h) {
    arena *scratch = arena_new();
    expr_list all = kernel_nodes(scratch, k, PART_ALL);
    *h = (heads){.axis = -1};
    bool same = true;
    for (int j = 0; j < all.n; j++) {
        const expr *x = all.at[j];
        if (x->op != X_FLOORDIV || x->arg[0]->op != X_AXIS || x->arg[1]->op != X_CONST) continue;
        if (x->arg[0]->axis >= k->nouter) continue;
        same &= h->axis < 0 || (h->axis == x->arg[0]->axis && h->shared == x->arg[1]->i);
        h->axis = x->arg[0]->axis, h->shared = x->arg[1]->i;
    }
    arena_destroy(scratch);
    if (h->axis < 0) return false;
    const dim *n = k->axes.at[h->axis].extent;
    return same && h->shared > 1 && dim_is_const(n) && dim_value(n) % h->shared == 0;
}

static expr *split_quotient(cloning *g, const expr *e) {
    const heads *h = g->user;
    bool here =
        (e->op == X_FLOORDIV || e->op == X_MOD) && e->arg[0]->op == X_AXIS && e->arg[0]->axis == h->axis;
    if (!here || e->arg[1]->op != X_CONST || e->arg[1]->i != h->shared) return NULL;
    return x_axis(g->to, e->op == X_MOD ? h->group : h->axis);
}

static int add_axis(cloning *g, int from, dim *extent) {
    const axis *x = &g->from->axes.at[from];
    return kernel_axis(g->to, x->kind, x->name, extent);
}

// Rebuilds k, in whose order all axes before the heads keep their numbers.
static void split_heads(kernel *k, heads *h, cloning *g) {
    const kernel *old = g->from;
    dims *d = k->program->dims;
    k->axes.n = 0;
    for (int a = 0; a < old->axes.n; a++) {
        if (a == old->nouter) {
            bool last = h->axis < 0 || h->axis == old->nouter - 1;
            h->row = last ? kernel_axis(k, AXIS_PARALLEL, "i", dim_const(d, 1)) : -1;
            k->nouter = k->axes.n;
        }
        dim *extent = old->axes.at[a].extent;
        g->number[a] = add_axis(g, a, a == h->axis ? dim_const(d, dim_value(extent) / h->shared) : extent);
        g->axis[a] = x_axis(k, g->number[a]);
        if (a != h->axis) continue;
        h->group = kernel_axis(k, AXIS_PARALLEL, "g", dim_const(d, h->shared));
        g->axis[a] = x_add(k, x_mul(k, g->axis[a], x_i64(k, h->shared)), x_axis(k, h->group));
    }
    g->node = split_quotient;
    g->user = h;
    clone_all(g);
}

static void visit(program *p, kernel *k) {
    enum { LEAST_STAGES = 4, MOST_AXES = 60 };
    heads h;
    attention a;
    if (k->stages.n < LEAST_STAGES || k->axes.n > MOST_AXES) return;
    if (!find_heads(k, &h) && (h.axis >= 0 || attention_match(k, &a))) return;
    kernel saved = *k;
    arena *scratch = arena_new();
    VEC(axis) axes = {0};
    for (int j = 0; j < k->axes.n; j++) VEC_PUSH(p->arena, &axes, k->axes.at[j]);
    kernel *old = kernel_begin(k);
    old->axes.at = axes.at;
    split_heads(k, &h, clone_same(scratch, k, old));
    arena_destroy(scratch);
    if (attention_match(k, &a)) return;
    *k = saved;
    k->axes.at = axes.at;
}

void pass_heads(pass_context *c) {
    step_list steps = program_steps(c->program->arena, c->program);
    for (int j = 0; j < steps.n; j++)
        if (steps.at[j].s->kind == STEP_KERNEL) visit(c->program, steps.at[j].s->kernel);
}
