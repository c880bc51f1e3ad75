// Costs by counting. In: a kernel. Out: dims.
#include "ir/kernel/kernel_cost.h"
#include "ir/kernel/program.h"

static bool is_arithmetic(expr_op op) {
    expr_class c = expr_op_class(op);
    return c == XC_ARITHMETIC || c == XC_INTEGER || c == XC_FUNCTION || c == XC_ROUND;
}

static int64_t one(expr_op op) { return is_arithmetic(op); }
static int64_t cost(expr_op op) { return is_arithmetic(op) ? expr_op_cost(op) : 0; }

// Operations under e, except those that compute indices; of(op): what one of them counts.
static int64_t count(const expr *e, bool *seen, int64_t (*of)(expr_op op)) {
    if (seen[e->id]) return 0;
    seen[e->id] = true;
    int64_t n = of(e->op);
    for (int j = 0; j < expr_arity(e->op); j++) n += count(e->arg[j], seen, of);
    return n;
}

static dim *extent_of(const kernel *k, const stage *s, bool all) {
    dim *n = dim_const(k->program->dims, 1);
    for (int a = 0; a < k->nouter; a++) n = dim_mul(n, k->axes.at[a].extent);
    for (int j = 0; j < s->axes.n; j++) {
        const axis *x = &k->axes.at[s->axes.at[j]];
        if (all || x->kind == AXIS_PARALLEL) n = dim_mul(n, x->extent);
    }
    return n;
}

static dim *stage_operations(const kernel *k, const stage *s, int64_t (*of)(expr_op op)) {
    arena *a = arena_within(k->arena);
    bool *seen = ARENA_ARRAY(a, bool, k->exprs.n + 1);
    int64_t inner = 0, outer = 0;
    for (int j = 0; j < s->states.n; j++) {
        inner += count(s->states.at[j].step, seen, of);
        if (s->states.at[j].op != RED_CUSTOM) inner++;
    }
    for (int j = 0; j < s->writes.n; j++) {
        const write *w = &s->writes.at[j];
        int64_t n = count(w->value, seen, of) + (w->combine != COMBINE_SET);
        if (w->when == WRITE_END) outer += n;
        else inner += n;
    }
    arena_destroy(a);
    return dim_add(dim_mulk(extent_of(k, s, true), inner), dim_mulk(extent_of(k, s, false), outer));
}

static const expr *without_casts(const expr *e) {
    while (e->op == X_CAST) e = e->arg[0];
    return e;
}

// Products among the terms of sums under e.
static int64_t count_macs(const expr *e, bool *seen) {
    if (seen[e->id]) return 0;
    seen[e->id] = true;
    int64_t n = 0;
    for (int j = 0; j < expr_arity(e->op); j++) {
        n += e->op == X_ADD && without_casts(e->arg[j])->op == X_MUL;
        n += count_macs(e->arg[j], seen);
    }
    return n;
}

static dim *stage_macs(const kernel *k, const stage *s) {
    arena *a = arena_within(k->arena);
    bool *seen = ARENA_ARRAY(a, bool, k->exprs.n + 1);
    int64_t n = 0;
    for (int j = 0; j < s->states.n; j++) {
        const state *x = &s->states.at[j];
        if (x->op == RED_CUSTOM) n += count_macs(x->step, seen);
        else n += x->op == RED_SUM && without_casts(x->step)->op == X_MUL;
    }
    arena_destroy(a);
    return dim_mulk(extent_of(k, s, true), n);
}

// At most the bytes accessed: a gather does not read its whole table.
static dim *traffic(const buffer *b, dim *accesses) {
    dim *all = buffer_bytes(b), *touched = dim_mulk(accesses, (dtype_bits(b->dtype) + 7) / 8);
    return dim_is_const(all) && dim_is_const(touched) && dim_value(touched) < dim_value(all) ? touched : all;
}

kernel_cost kernel_cost_of(const kernel *k) {
    dim *zero = dim_const(k->program->dims, 0), *accesses = zero;
    kernel_cost c = {zero, zero, zero, zero, zero};
    buffer **all;
    for (int j = 0; j < k->stages.n; j++) {
        c.flops = dim_add(c.flops, stage_operations(k, k->stages.at[j], one));
        c.work = dim_add(c.work, stage_operations(k, k->stages.at[j], cost));
        c.macs = dim_add(c.macs, stage_macs(k, k->stages.at[j]));
        accesses = dim_add(accesses, extent_of(k, k->stages.at[j], true));
    }
    int n = kernel_buffers(k, &all);
    for (int j = 0; j < n; j++) {
        dim *bytes = traffic(all[j], accesses);
        if (kernel_reads(k, all[j])) c.read = dim_add(c.read, bytes);
        if (kernel_writes(k, all[j])) c.written = dim_add(c.written, bytes);
    }
    return c;
}

bool is_counted_loop(const step *s) { return s->kind == STEP_LOOP && s->dim && !s->buffer; }

static dim *region_macs(const program *p, const region *r) {
    dim *sum = dim_const(p->dims, 0);
    for (int j = 0; r && j < r->steps.n; j++) {
        const step *s = r->steps.at[j];
        dim *macs = dim_max(region_macs(p, s->body[0]), region_macs(p, s->body[1]));
        if (is_counted_loop(s)) macs = dim_mul(s->dim, macs);
        sum = dim_add(sum, s->kind == STEP_KERNEL ? kernel_cost_of(s->kernel).macs : macs);
    }
    return sum;
}

dim *program_macs(const program *p) { return region_macs(p, p->main); }

static void add_macs(const region *r, dim *times, dim **of) {
    for (int j = 0; r && j < r->steps.n; j++) {
        const step *s = r->steps.at[j];
        dim *inside = is_counted_loop(s) ? dim_mul(times, s->dim) : times;
        for (int b = 0; b < 2; b++) add_macs(s->body[b], inside, of);
        if (s->kind != STEP_KERNEL) continue;
        dim **sum = &of[s->kernel->id];
        *sum = dim_add(*sum, dim_mul(times, kernel_cost_of(s->kernel).macs));
    }
}

dim **kernel_macs(arena *a, const program *p) {
    dim **of = ARENA_ARRAY(a, dim *, p->kernels.n + 1);
    for (int j = 0; j < p->kernels.n; j++) of[j] = dim_const(p->dims, 0);
    add_macs(p->main, dim_const(p->dims, 1), of);
    return of;
}

int value_work(arena *scratch, expr *value) {
    expr_list all = expr_nodes(scratch, value);
    int work = 0;
    for (int j = 0; j < all.n; j++)
        if (all.at[j]->dtype != DT_I64) work += expr_op_cost(all.at[j]->op);
    return work;
}
