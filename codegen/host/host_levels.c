// Host code for all CPU levels: one function, whose steps call the kernels of the level that runs.
//
//     run_v2: conv_v2(y, x, 0, 8)              run(level):
//     run_v3: conv_v3(y, x, 0, 4)   becomes      tasks = level == 0 ? 8 : 4
//                                                if level == 0: conv_v2(y, x, 0, tasks) else: conv_v3(y, x, 0, tasks)
#include "codegen/host/host_impl.h"
#include <string.h>

// Whether steps other than kernels are the same at all levels: they are unless the sizes of buffers differ.
bool share_host_code(const host *variants, int n) {
    const program *p = variants[0].builder->p;
    bool alike = true;
    for (int j = 1; j < n; j++) alike &= has_bf16_unit(variants[j].t) == has_bf16_unit(variants[0].t);
    for (int j = 0; j < p->buffers.n && !alike; j++)
        if (buffer_root(p->buffers.at[j])->rounded) return false;
    return true;
}

static int count_levels(const host *h) { return h->level ? h->builder->nvariants : 1; }

static const kernel_code *code_of(const host *h, int kernel, int level) {
    return h->level ? h->builder->h[level].code[kernel] : h->code[kernel];
}

const kernel_code *next_code(const host *h, int kernel, int *level) {
    while (*level < count_levels(h)) {
        const kernel_code *c = code_of(h, kernel, (*level)++);
        if (c) return c;
    }
    return NULL;
}

ins *is_level(host *h, const callees *all, int j) {
    return lb_cmp(&h->b, L_EQ, h->level, lb_int(&h->b, i32(), all->level[j]));
}

dim *tasks_of(const kernel_code *c) { return c->tasks; }

ins *dim_of_level(host *h, const callees *all, dim *(*of)(const kernel_code *c)) {
    const dim *last = NULL;
    ins *v = NULL;
    for (int j = all->n - 1; j >= 0; j--) {
        const dim *own = of(all->code[j]);
        if (!own || own == last) continue;
        ins *value = host_dim(h, own);
        v = last ? lb_select(&h->b, is_level(h, all, j), value, v) : value;
        if (!last) last = own;
    }
    return v;
}

// ---------------------------------------------------------------- ways of calls
static bool same_call(const host *h, const kernel_code *x, const kernel_code *y) {
    return x->nbuffers == y->nbuffers &&
           !memcmp(x->buffers, y->buffers, (size_t)x->nbuffers * sizeof *x->buffers) &&
           x->marks_scratch == y->marks_scratch && !x->tasks == !y->tasks && x->has_status == y->has_status &&
           runs_parallel(h, x) == runs_parallel(h, y);
}

int place_of_dim(const callees *all, const dim *d) {
    int j = 0;
    while (j < all->ndims && all->dims[j] != d) j++;
    return j;
}

static void add_callee(arena *a, callees *all, const kernel_code *c, int level) {
    dim **dims = ARENA_ARRAY(a, dim *, all->ndims + c->ndims + 1);
    if (all->ndims) memcpy(dims, all->dims, (size_t)all->ndims * sizeof *dims);
    all->dims = dims;
    for (int j = 0; j < c->ndims; j++)
        if (place_of_dim(all, c->dims[j]) == all->ndims) dims[all->ndims++] = c->dims[j];
    all->code[all->n] = c;
    all->level[all->n++] = level;
}

// The first level that is left, and the levels that call their kernels in the same way.
static callees take_callees(host *h, const kernel *k, bool *taken) {
    arena *a = h->builder->arena;
    int n = count_levels(h);
    callees all = {.code = ARENA_ARRAY(a, const kernel_code *, n), .level = ARENA_ARRAY(a, int, n)};
    for (int j = 0; j < n; j++) {
        const kernel_code *c = code_of(h, k->id, j);
        if (taken[j] || (all.n && !same_call(h, all.code[0], c))) continue;
        taken[j] = true;
        all.nlevels++;
        if (!all.n || c != all.code[0]) add_callee(a, &all, c, j);
    }
    return all;
}

static ins *is_any_level(host *h, const callees *all) {
    ins *any = is_level(h, all, 0);
    for (int j = 1; j < all->n; j++) any = lb_bin(&h->b, L_OR, any, is_level(h, all, j));
    return any;
}

// Different ways are in branches.
void call_by_levels(host *h, const kernel *k, void (*call)(host *h, const callees *all)) {
    int levels = count_levels(h), left = levels;
    bool *taken = ARENA_ARRAY(h->builder->arena, bool, levels);
    while (left) {
        callees all = take_callees(h, k, taken);
        ins *branch = all.nlevels < levels ? lb_if(&h->b, is_any_level(h, &all)) : NULL;
        call(h, &all);
        if (branch) lb_end(&h->b, branch);
        left -= all.nlevels;
    }
}
