// Large products of matrices that the run computes or gets. In: a contraction of f32 or f64,
//
//   for batch, m, n: out = f(sum over k of a * b)
//
// Out: the product alone, which its schedule (passes/schedule/cpu/schedule_cblas.c) makes calls of, and what becomes of
// its sums, unless that is nothing:
//
//   for batch, m, n: sums[batch, m, n] = sum over k of a * b      as cblas
//   for batch, m, n: out = f(sums[batch, m, n])
//
// Where only the run knows sizes, it chooses: these where the product is large, else the kernel as it was.
#include "ir/kernel/edit.h"
#include "passes/match/contract.h"
#include "passes/passes.h"

// Multiply-adds of a call, and each side of a matrix, at least: below, calls and copies cost more than they gain.
enum { MANY = 1 << 21, SIDE = 32 };

typedef struct product {
    program *p;
    contraction c;
    kernel *old;
    axis_list all; // parallel axes: batch, m, n
    buffer *sums;  // NULL: the output takes them as they are
    kernel *k;     // being made
    expr **axes;   // of the old kernel, in it
} product;

// ---------------------------------------------------------------- applicability
// A tensor that is not constant, by axes as they are, the last of them along rows or columns.
static bool is_matrix(const contraction *c, const expr *term, const expr *read) {
    buffer_role role = buffer_root(read->buffer)->role;
    if (term != read || read->guard || read->buffer->dtype != c->s->states.at[0].dtype) return false;
    if (role == BUF_CONST || role == BUF_LOCAL) return false;
    int last = -1;
    uint64_t seen = 0;
    for (int j = 0; j < read->buffer->rank; j++) {
        const expr *i = read->index[j];
        if (i->op == X_CONST) continue;
        if (i->op != X_AXIS || i->axis > 62 || (seen >> i->axis & 1)) return false;
        seen |= UINT64_C(1) << (last = i->axis);
    }
    return last >= 0 && !axis_in(&c->batch, last);
}

static bool takes_sums(const product *x) {
    const write *w = x->c.w;
    bool plain = w->value->op == X_STATE && w->to->dtype == w->value->dtype && x->c.n >= 0;
    for (int j = 0; j < w->to->rank; j++) plain &= w->index[j]->op == X_AXIS || w->index[j]->op == X_CONST;
    return plain;
}

static void add_axes(axis_list *to, const axis_list *from) {
    for (int j = 0; j < from->n; j++) to->at[to->n++] = from->at[j];
}

static bool find(product *x) {
    contraction *c = &x->c;
    if (!contraction_find(x->old, c)) return false;
    const state *st = &c->s->states.at[0];
    if ((st->dtype != DT_F32 && st->dtype != DT_F64) || !state_begins_neutral(st)) return false;
    if (!is_matrix(c, c->term_a, c->a) || !is_matrix(c, c->term_b, c->b)) return false;
    add_axes(&x->all, &c->batch);
    add_axes(&x->all, &c->m);
    add_axes(&x->all, &c->other_n);
    if (c->n >= 0) x->all.at[x->all.n++] = c->n;
    bool opaque = false;
    for (int a = 0; a < x->old->axes.n; a++) opaque |= dim_is_opaque(x->old->axes.at[a].extent);
    return c->m.n && c->k_axes.n == 1 && x->all.n <= MAX_RANK && !axis_in(&c->m, x->all.at[x->all.n - 1]) &&
           !opaque;
}

static dim *extent(const product *x, int axis) { return x->old->axes.at[axis].extent; }

// 1 where the product is large, and sizes and strides of its matrices are ints.
static dim *is_large(const product *x) {
    dims *t = x->p->dims;
    int call[3] = {x->c.m.at[x->c.m.n - 1], x->all.at[x->all.n - 1], x->c.k_axes.at[0]};
    dim *work = dim_const(t, 1), *yes = work, *sums = work;
    for (int j = 0; j < 3; j++) {
        yes = dim_mul(yes, dim_lt(dim_const(t, SIDE - 1), extent(x, call[j])));
        work = dim_mul(work, extent(x, call[j]));
    }
    for (int j = 0; j < x->all.n; j++) sums = dim_mul(sums, extent(x, x->all.at[j]));
    dim *count[3] = {buffer_count(x->c.a->buffer), buffer_count(x->c.b->buffer), sums};
    for (int j = 0; j < 3; j++) yes = dim_mul(yes, dim_lt(count[j], dim_const(t, INT32_MAX)));
    return dim_mul(yes, dim_lt(dim_const(t, MANY - 1), work));
}

// ---------------------------------------------------------------- the two kernels
static stage *begin_kernel(product *x, const char *name) {
    const kernel *old = x->old;
    x->k = kernel_new(x->p, name, old->loc);
    for (int j = 0; j < old->nodes.n; j++) VEC_PUSH(x->k->arena, &x->k->nodes, old->nodes.at[j]);
    for (int j = 0; j < old->messages.n; j++) VEC_PUSH(x->k->arena, &x->k->messages, old->messages.at[j]);
    x->axes = ARENA_ARRAY(x->k->arena, expr *, old->axes.n + 1);
    for (int a = 0; a < old->axes.n; a++) x->axes[a] = x_i64(x->k, 0);
    return kernel_stage(x->k);
}

static void take_axes(product *x, stage *s, const axis_list *l, axis_kind kind) {
    for (int j = 0; j < l->n; j++)
        x->axes[l->at[j]] =
            stage_own_axis(x->k, s, kind, x->old->axes.at[l->at[j]].name, extent(x, l->at[j]));
}

static void sum_index(const product *x, expr **index) {
    for (int j = 0; j < x->all.n; j++) index[j] = x->axes[x->all.at[j]];
}
static void out_index(const product *x, expr *state, expr **index) {
    for (int j = 0; j < x->c.w->to->rank; j++)
        index[j] = expr_substitute(x->k, x->c.w->index[j], x->axes, state);
}

static void make_product(product *x) {
    const state *st = &x->c.s->states.at[0];
    stage *s =
        begin_kernel(x, x->sums ? arena_printf(x->p->arena, "%s_product", x->old->name) : x->old->name);
    expr *index[MAX_RANK];
    x->k->algorithm = "cblas";
    take_axes(x, s, &x->all, AXIS_PARALLEL);
    take_axes(x, s, &x->c.k_axes, AXIS_REDUCE);
    expr *sum = stage_reduce(x->k, s, RED_SUM, expr_substitute(x->k, st->step, x->axes, NULL));
    if (x->sums) sum_index(x, index);
    else out_index(x, sum, index);
    stage_write(x->k, s, x->sums ? x->sums : x->c.w->to, index, sum);
}

static void make_rest(product *x) {
    stage *s = begin_kernel(x, x->old->name);
    expr *index[MAX_RANK];
    take_axes(x, s, &x->all, AXIS_PARALLEL);
    sum_index(x, index);
    expr *sum = x_read(x->k, x->sums, index);
    out_index(x, sum, index);
    stage_write(x->k, s, x->c.w->to, index, expr_substitute(x->k, x->c.w->value, x->axes, sum));
}

static void make_sums(product *x) {
    dim *dims[MAX_RANK];
    for (int j = 0; j < x->all.n; j++) dims[j] = extent(x, x->all.at[j]);
    x->sums = program_temp(x->p, arena_printf(x->p->arena, "%s.sums", x->c.w->to->name),
                           x->c.s->states.at[0].dtype, x->all.n, dims);
}

static void consider(program *p, step *at, region *r) {
    product x = {.p = p, .old = at->kernel};
    dim *large = find(&x) ? is_large(&x) : NULL;
    if (!large || dim_is(large, 0)) return;
    if (!dim_is(large, 1)) { // both
        step_branch(p, at, large);
        step_kernel(p, at->body[1], x.old);
        r = at->body[0];
        at = step_kernel(p, r, x.old);
    }
    if (!takes_sums(&x)) make_sums(&x);
    make_product(&x);
    if (x.sums) {
        step_insert(p, r, step_index(r, at), STEP_KERNEL, x.old->loc)->kernel = x.k;
        make_rest(&x);
    }
    at->kernel = x.k;
}

void pass_cblas(pass_context *c) {
    program *p = c->program;
    if (!c->algorithms.cblas) return;
    step_list steps = program_steps(p->arena, p);
    for (int j = 0; j < steps.n; j++)
        if (steps.at[j].s->kind == STEP_KERNEL && !steps.at[j].s->kernel->algorithm)
            consider(p, steps.at[j].s, steps.at[j].region);
    program_compact(p);
}
