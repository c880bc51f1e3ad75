// In: a memory plan. Out: the memory in use by step.
#include "passes/memory/memory_peak.h"
#include "ir/kernel/uses.h"
#include <stdlib.h>

static int by_offset(const void *a, const void *b) {
    const allocation *x = *(const allocation *const *)a, *y = *(const allocation *const *)b;
    int64_t m = dim_value(x->offset), n = dim_value(y->offset);
    if (x->pool != y->pool) return x->pool - y->pool;
    return (m > n) - (m < n);
}

static int64_t live_at(const allocation *const *sorted, int n, int step) {
    int64_t live = 0, end = 0;
    int pool = 0;
    for (int i = 0; i < n; i++) {
        if (step < sorted[i]->first || step > sorted[i]->last) continue;
        if (sorted[i]->pool != pool) pool = sorted[i]->pool, end = 0;
        int64_t from = dim_value(sorted[i]->offset), to = from + dim_value(sorted[i]->size);
        if (to <= end) continue;
        live += to - (from > end ? from : end);
        end = to;
    }
    return live;
}

static void find_kernels(patch_loop *l, const region *r) {
    for (int j = 0; j < r->steps.n; j++) {
        const step *s = r->steps.at[j];
        if (s->kind == STEP_KERNEL && s->kernel->id < l->first) l->first = s->kernel->id;
        if (s->kind == STEP_KERNEL && s->kernel->id > l->last) l->last = s->kernel->id;
        for (int b = 0; b < 2; b++)
            if (s->body[b]) find_kernels(l, s->body[b]);
    }
}

patch_loops memory_patches(arena *a, const program *p) {
    patch_loops all = {0};
    for (int j = 0; j < p->main->steps.n; j++) {
        const step *s = p->main->steps.at[j];
        if (s->kind != STEP_LOOP || !s->rows) continue;
        patch_loop l = {p->kernels.n, 0, dim_value(s->dim), s->rows};
        find_kernels(&l, s->body[0]);
        VEC_PUSH(a, &all, l);
    }
    return all;
}

static int most_first(const void *a, const void *b) {
    const memory_use *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    return x->step - y->step;
}

memory_uses memory_peaks(arena *a, const program *p, const memory_plan *plan) {
    memory_uses all = {0};
    int n = plan->allocations.n;
    const allocation **sorted = ARENA_ARRAY(a, const allocation *, n + 1);
    const uses *u = uses_build(a, p);
    for (int i = 0; i < n; i++) {
        const allocation *m = sorted[i] = &plan->allocations.at[i];
        if (!dim_is_const(m->size) || !dim_is_const(m->offset)) return all;
    }
    if (n) qsort(sorted, (size_t)n, sizeof *sorted, by_offset);
    for (int j = 0; j < u->n; j++) {
        const site *at = &u->sites[j];
        bool begins = false;
        for (int i = 0; i < n && !begins; i++) begins = sorted[i]->first == at->time;
        const kernel *k = at->s->kind == STEP_KERNEL ? at->s->kernel : NULL;
        if (begins) VEC_PUSH(a, &all, (memory_use){live_at(sorted, n, at->time), at->time, k});
    }
    if (all.n) qsort(all.at, (size_t)all.n, sizeof *all.at, most_first);
    return all;
}
