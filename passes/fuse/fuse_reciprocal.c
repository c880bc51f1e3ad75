// Strength reduction: division by a value of the row becomes multiplication by its reciprocal, as in the
// operators' own kernels: x[j] / scale[] for all j, with scale[] = v, becomes x[j] * scale[] with scale[] = 1
// / v.
#include "passes/fuse/fuse_impl.h"

typedef struct divisor {
    int divides, else_used; // uses as the divisor in a loop of a stage, and all others
    int writes;
    bool reciprocal;
} divisor;

typedef struct divide {
    const kernel *k;
    bool steps;     // something rounds to integers, where the last bit of a quotient matters
    divisor *local; // by id of the local
} divide;

static divisor *divisor_of(const divide *d, const expr *e) {
    bool scalar = e && e->op == X_READ && e->buffer->role == BUF_LOCAL && e->buffer->rank == 0;
    return scalar ? &d->local[e->buffer->id] : NULL;
}

static bool varies_in_stage(const kernel *k, expr *e) {
    for (int a = k->nouter; a < k->axes.n; a++)
        if (expr_uses_axis(e, a)) return true;
    return false;
}

static void examine_use(divide *d, const expr *e) {
    expr *operand[MAX_RANK + 3];
    bool to_int = e->op == X_CAST && !dtype_is_float(e->dtype) && dtype_is_float(e->arg[0]->dtype);
    d->steps |= to_int || expr_op_class(e->op) == XC_ROUND;
    int n = expr_operands(e, operand);
    for (int j = 0; j < n; j++) {
        divisor *v = divisor_of(d, operand[j]);
        if (!v) continue;
        bool divides =
            e->op == X_DIV && j == 1 && operand[0] != operand[1] && varies_in_stage(d->k, operand[0]);
        if (divides) v->divides++;
        else v->else_used++;
    }
}

static void examine_root(const divide *d, const expr *e) {
    divisor *v = divisor_of(d, e);
    if (v) v->else_used++;
}

static void examine_stage(divide *d, const stage *s) {
    for (int j = 0; j < s->states.n; j++) {
        examine_root(d, s->states.at[j].init);
        examine_root(d, s->states.at[j].step);
    }
    for (int j = 0; j < s->writes.n; j++) {
        const write *w = &s->writes.at[j];
        examine_root(d, w->value);
        if (w->to->role != BUF_LOCAL || w->to->rank) continue;
        divisor *v = &d->local[w->to->id];
        v->writes +=
            write_is_plain(w) && dtype_is_float(w->to->dtype) && dtype_compute(w->to->dtype) == w->to->dtype
                ? 1
                : 2;
    }
}

static expr *multiply(cloning *g, const expr *e) {
    divide *d = g->user;
    divisor *v = e->op == X_DIV ? divisor_of(d, e->arg[1]) : NULL;
    return v && v->reciprocal ? x_mul(g->to, g->done[e->arg[0]->id], g->done[e->arg[1]->id]) : NULL;
}

static void remake(kernel *k, divide *d, arena *scratch) {
    cloning *g = clone_same(scratch, k, kernel_begin(k));
    g->node = multiply;
    g->user = d;
    clone_all(g);
    write_list all = kernel_write_list(k);
    for (int j = 0; j < all.n; j++) {
        write *w = all.at[j];
        bool scalar = w->to->role == BUF_LOCAL && w->to->rank == 0;
        if (scalar && d->local[w->to->id].reciprocal)
            w->value = x_div(k, x_float(k, w->value->dtype, 1), w->value);
    }
}

static void divide_kernel(kernel *k) {
    arena *scratch = arena_new();
    divide d = {.k = k, .local = ARENA_ARRAY(scratch, divisor, k->locals.n + 1)};
    for (int j = 0; j < k->stages.n; j++) examine_stage(&d, k->stages.at[j]);
    expr_list all = kernel_nodes(scratch, k, PART_ALL);
    for (int j = 0; j < all.n; j++) examine_use(&d, all.at[j]);
    bool any = false;
    for (int j = 0; j < k->locals.n; j++) {
        divisor *v = &d.local[j];
        v->reciprocal = v->writes == 1 && v->divides > 0 && v->else_used == 0;
        any |= v->reciprocal;
    }
    if (any && !d.steps) remake(k, &d, scratch);
    arena_destroy(scratch);
}

void fuse_divide(fuse *f) {
    for (int j = 0; j < f->order.n; j++) {
        kernel *k = f->order.at[j]->s->kernel;
        if (k->locals.n && k->stages.n > 1 && !is_fixed(f->order.at[j]) && !is_contraction(k))
            divide_kernel(k);
    }
}
