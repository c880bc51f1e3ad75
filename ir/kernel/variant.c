// Kernels that replace another one. In: a step and kernels that compute the same. Out: the program with
// these, or with a branch between both.
#include "ir/kernel/variant.h"

kernel *variant_new(program *p, const kernel *old, const char *name, const char *algorithm) {
    kernel *k = kernel_new(p, name, old->loc);
    k->algorithm = algorithm;
    for (int j = 0; j < old->nodes.n; j++) VEC_PUSH(k->arena, &k->nodes, old->nodes.at[j]);
    for (int j = 0; j < old->messages.n; j++) VEC_PUSH(k->arena, &k->messages, old->messages.at[j]);
    return k;
}

void variant_replace(program *p, region *r, step *at, kernel *first, kernel *last, dim *condition) {
    if (!condition) {
        step_insert(p, r, step_index(r, at), STEP_KERNEL, at->kernel->loc)->kernel = first;
        at->kernel = last;
        return;
    }
    kernel *old = at->kernel;
    step_branch(p, at, condition);
    step_kernel(p, at->body[0], first);
    step_kernel(p, at->body[0], last);
    step_kernel(p, at->body[1], old);
}

expr *variant_position(kernel *k, const kernel *old, const int *axes, int n, expr *const *index) {
    expr *position = x_i64(k, 0);
    for (int j = 0; j < n; j++) {
        expr *extent = x_dim(k, old->axes.at[axes ? axes[j] : j].extent);
        position = x_add(k, x_mul(k, position, extent), index[axes ? axes[j] : j]);
    }
    return position;
}
