// Constant factors of matrix products' right operands, such as the root of attention's scale times the keys. In: kernels that
// only multiply an operand by a constant. Out: the left operand has the factor, if it has one already, else the sum:
//
//   k2 = k * c;  s = sum of q2 * k2        ->   k2 = k;  s = (sum of q2 * k2) * c
//   q2 = q * d;  k2 = k * c;  s = ...      ->   q2 = q * (d * c);  k2 = k
//
// What is left of the operand moves data and is read through, as a transposed or repeated cache of keys is.
#include "ir/kernel/edit.h"
#include "ir/kernel/uses.h"
#include "passes/match/contract.h"
#include "passes/match/form.h"
#include "passes/passes.h"
#include <math.h>

typedef struct factor {
    kernel *k; // the kernel that multiplies, NULL: none
    expr *read, *by;
} factor;

static write *only_write(const kernel *k) {
    if (k->stages.n != 1) return NULL;
    stage *s = k->stages.at[0];
    return s->states.n == 0 && s->writes.n == 1 && write_is_plain(&s->writes.at[0]) ? &s->writes.at[0] : NULL;
}

// Whether sums overflow or lose denormal numbers with the factor as they do without it, but for a few bits.
static bool keeps_range(double factor) {
    enum { MOST = 1 << 16 };
    return fabs(factor) <= MOST && fabs(factor) * MOST >= 1;
}

static bool is_product_by_constant(const expr *x, factor *f) {
    if (x->op != X_MUL || x->dtype != DT_F32) return false;
    for (int j = 0; j < 2; j++) {
        f->read = x->arg[j], f->by = x->arg[1 - j];
        if (f->read->op == X_READ && !f->read->guard && f->by->op == X_CONST && keeps_range(f->by->f))
            return true;
    }
    return false;
}

// The kernel that writes what only this kernel reads, if it multiplies by a constant.
static factor factor_of(const uses *u, const kernel *reader, const expr *read) {
    factor f = {0};
    const buffer *b = read->buffer;
    const buffer_uses *of = &u->of[b->id];
    if (b->role != BUF_TEMP || b->view_of || b->dtype != DT_F32 || read->guard || of->by_others ||
        of->output || !uses_are_direct(u, b, 2))
        return f;
    const step *s = of->sites.at[0]->s, *t = of->sites.at[1]->s;
    if (s->kind != STEP_KERNEL || t->kind != STEP_KERNEL || t->kernel != reader) return f;
    const write *w = only_write(s->kernel);
    if (w && w->to == b && is_product_by_constant(w->value, &f)) f.k = s->kernel;
    return f;
}

static bool sums_from_zero(const contraction *c) {
    const state *s = &c->s->states.at[0];
    return c->s->states.n == 1 && s->dtype == DT_F32 && s->op == RED_SUM && s->init->op == X_CONST &&
           s->init->f == 0 && c->term_a == c->a && c->term_b == c->b && c->a->buffer != c->b->buffer;
}

static expr *times(void *user, expr *x) {
    const factor *f = user;
    return x->op == X_STATE ? x_mul(f->k, x, x_float(f->k, DT_F32, f->by->f)) : NULL;
}

static void move_factor(const uses *u, kernel *k) {
    contraction c;
    if (!contraction_find(k, &c) || c.n < 0 || !sums_from_zero(&c)) return;
    factor right = factor_of(u, k, c.b), left = factor_of(u, k, c.a);
    if (!right.k) return;
    only_write(right.k)->value = right.read;
    if (left.k) {
        expr *by = x_float(left.k, DT_F32, left.by->f * right.by->f);
        only_write(left.k)->value = x_mul(left.k, left.read, by);
        return;
    }
    factor at = {.k = k, .by = right.by};
    c.w->value = expr_rewrite(k, c.w->value, times, &at);
}

void pass_factors(pass_context *context) {
    program *p = context->program;
    arena *scratch = arena_new();
    const uses *u = uses_build(scratch, p);
    for (int j = 0; j < p->kernels.n; j++) move_factor(u, p->kernels.at[j]);
    arena_destroy(scratch);
}
