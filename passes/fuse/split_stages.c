// In: a kernel of several independent stages without states, such as a concatenation. Out: a kernel per
// stage.
//
//   for n: for c: y[n, c] = a[n, c]             for n, c: y[n, c] = a[n, c]
//          for c: y[n, c + 64] = f(b[n, c])     for n, c: y[n, c + 64] = f(b[n, c])
//
// On a GPU one block runs a kernel of several stages for each position of the outer axes, of which a
// concatenation of images has only one.
#include "passes/fuse/split_stages.h"
#include "ir/kernel/clone.h"
#include "ir/kernel/edit.h"
#include "passes/match/form.h"
#include "passes/passes.h"

static bool writes_root(const kernel *k, const buffer *root) {
    write_list all = kernel_write_list(k);
    for (int j = 0; j < all.n; j++)
        if (root_of(all.at[j]->to) == root) return true;
    return false;
}

static bool may_split(const kernel *k) {
    if (k->stages.n < 2 || k->locals.n) return false;
    for (int j = 0; j < k->stages.n; j++)
        if (k->stages.at[j]->states.n) return false;
    write_list all = kernel_write_list(k);
    for (int j = 0; j < all.n; j++)
        if (all.at[j]->combine != COMBINE_SET) return false;
    expr_list reads = reads_only(kernel_nodes(k->arena, k, PART_ALL));
    for (int j = 0; j < reads.n; j++)
        if (writes_root(k, root_of(reads.at[j]->buffer))) return false;
    return true;
}

// The outer axes of the original kernel become axes of the stage.
static void copy_axis(cloning *g, stage *made, int axis) {
    const struct axis *a = &g->from->axes.at[axis];
    g->number[axis] = kernel_axis(g->to, a->kind, a->name, a->extent);
    g->axis[axis] = x_axis(g->to, g->number[axis]);
    stage_axis(g->to, made, g->number[axis]);
}

static kernel *kernel_of_stage(program *p, const kernel *from, const stage *s) {
    arena *scratch = arena_new();
    kernel *k = kernel_new(p, from->name, NULL);
    cloning *g = clone_new(scratch, k, from);
    stage *made = kernel_stage(k);
    k->loc = from->loc, k->nodes = from->nodes;
    for (int a = 0; a < from->nouter; a++) copy_axis(g, made, a);
    for (int j = 0; j < s->axes.n; j++) copy_axis(g, made, s->axes.at[j]);
    for (int j = 0; j < s->writes.n; j++) clone_write(g, made, &s->writes.at[j]);
    arena_destroy(scratch);
    return k;
}

void split_stages(program *p, region *r, step *s) {
    const kernel *k = s->kernel;
    if (!may_split(k)) return;
    for (int i = 0; i < k->stages.n - 1; i++)
        step_insert(p, r, step_index(r, s), STEP_KERNEL, s->loc)->kernel =
            kernel_of_stage(p, k, k->stages.at[i]);
    s->kernel = kernel_of_stage(p, k, k->stages.at[k->stages.n - 1]);
}

void pass_split_stages(pass_context *c) {
    program *p = c->program;
    step_list steps = program_steps(p->arena, p);
    for (int j = 0; j < steps.n; j++) {
        step *s = steps.at[j].s;
        if (s->kind == STEP_KERNEL) split_stages(p, steps.at[j].region, s);
    }
    program_compact(p);
}
