// Weights that take up what follows their sum. In: kernels that sum products with constant weights and then compute a linear
// function of the sum whose numbers are constant for a channel, such as a batch normalisation or a layer's scale. Out: weights
// times the channel's factor, and one number that is added:
//
//   s = sum of x * w[m];   ((s + b[m]) - mean[m]) * factor[m] + beta[m]   ->   s = sum of x * w2[m];   s + b2[m]
#include "ir/kernel/edit.h"
#include "ir/kernel/uses.h"
#include "passes/match/contract.h"
#include "passes/passes.h"
#include "passes/rewrite/channel_values.h"
#include <math.h>

// sum * factor[channel] + added[channel]
typedef struct linear {
    kernel *k;
    arena *scratch;
    contraction c;
    channel_axes channels;
    expr *of_sum; // the largest expression that is such a function of the sum
    cell *factor, *added;
} linear;

// ---------------------------------------------------------------- the function
static expr *only_user(const expr_list *nodes, const expr *of) {
    expr *user = NULL;
    for (int j = 0; j < nodes->n; j++) {
        expr *operands[MAX_RANK + 3];
        int n = expr_operands(nodes->at[j], operands), uses = 0;
        for (int i = 0; i < n; i++) uses += operands[i] == of;
        if (uses > 1 || (uses && user)) return NULL;
        if (uses) user = nodes->at[j];
    }
    return user;
}

// The other operand of an operation that keeps a function of the sum linear; NULL: it does not.
static expr *number_beside(const expr *operation, const expr *x) {
    expr_op op = operation->op;
    if (op != X_ADD && op != X_SUB && op != X_MUL && op != X_DIV) return NULL;
    if (operation->arg[0] == x) return operation->arg[1];
    return op == X_DIV ? NULL : operation->arg[0];
}

static bool join_channels(linear *l, const expr *number) {
    channel_axes joined = l->channels;
    if (!channel_join(&joined, number) || joined.number || !channel_count(&joined)) return false;
    l->channels = joined;
    return true;
}

static void apply(linear *l, const expr *operation, const expr *x, const expr *number) {
    expr_op op = operation->op;
    double sign = op == X_SUB && operation->arg[0] != x ? -1 : 1, added = op == X_SUB ? -sign : 1;
    for (int64_t j = 0; j < channel_count(&l->channels); j++) {
        double v = channel_value(&l->channels, number, j).f, by = op == X_MUL   ? v
                                                                  : op == X_DIV ? 1 / v
                                                                                : sign;
        l->factor[j].f *= by;
        l->added[j].f = l->added[j].f * by + (op == X_ADD || op == X_SUB ? added * v : 0);
    }
}

// Whether the sum is multiplied by some number before it is used otherwise.
static bool find_function(linear *l) {
    enum { MOST = 16 };
    const state *sum = &l->c.s->states.at[0];
    expr_list nodes = expr_nodes(l->scratch, l->c.w->value);
    expr *x = NULL, *operation, *number, *chain[MOST], *numbers[MOST];
    int n = 0;
    bool scaled = false;
    for (int j = 0; j < nodes.n; j++)
        if (nodes.at[j]->op == X_STATE) x = nodes.at[j];
    if (!x || x->dtype != sum->dtype || !join_channels(l, sum->init)) return false;
    for (l->of_sum = x; n < MOST; n++, l->of_sum = operation) {
        operation = only_user(&nodes, l->of_sum);
        number = operation ? number_beside(operation, l->of_sum) : NULL;
        if (!number || operation->dtype != x->dtype || !join_channels(l, number)) break;
        chain[n] = operation, numbers[n] = number;
        scaled |= operation->op == X_MUL || operation->op == X_DIV;
    }
    if (!scaled) return false;
    int64_t count = channel_count(&l->channels);
    l->factor = ARENA_ARRAY(l->scratch, cell, count), l->added = ARENA_ARRAY(l->scratch, cell, count);
    for (int64_t j = 0; j < count; j++)
        l->factor[j].f = 1, l->added[j] = channel_value(&l->channels, sum->init, j);
    for (int j = 0; j < n; j++) apply(l, chain[j], j ? chain[j - 1] : x, numbers[j]);
    return true;
}

// ---------------------------------------------------------------- weights
// The read of weights that no other kernel reads, or reads otherwise; NULL: none.
static expr *weights_of(const linear *l, const uses *u) {
    for (int j = 0; j < 2; j++) {
        expr *read = j ? l->c.b : l->c.a, *term = j ? l->c.term_b : l->c.term_a;
        const buffer *b = read->buffer;
        if (term != read || read->guard || b->role != BUF_CONST || b->view_of || b->layout ||
            b->data->kind != CONST_BYTES || b->dtype != l->c.s->states.at[0].dtype ||
            !uses_are_direct(u, b, 1))
            continue;
        expr_list reads = reads_only(kernel_nodes(l->scratch, l->k, PART_ALL));
        int same = 0;
        for (int i = 0; i < reads.n; i++) same += reads.at[i]->buffer == b;
        if (same == 1) return read;
    }
    return NULL;
}

static bool is_uniform(const linear *l) {
    for (int64_t j = 1; j < channel_count(&l->channels); j++)
        if (l->factor[j].f != l->factor[0].f) return false;
    return true;
}

// The factors of the positions on a dimension of the weights, which it decides alone, if they differ; NULL: it does not.
static double *factors_along(const linear *l, const expr *read, int dimension) {
    channel_axes channels = l->channels;
    const expr *index = read->index[dimension];
    int64_t size = read->buffer->data->dims[dimension];
    bool same = is_uniform(l);
    double *by = ARENA_ARRAY(l->scratch, double, size);
    for (int64_t i = 0; i < size; i++) by[i] = same ? l->factor[0].f : NAN;
    if (same) return by;
    if (!channel_join(&channels, index) || channels.n != l->channels.n || channels.number) return NULL;
    for (int64_t j = 0; j < channel_count(&channels); j++) {
        int64_t at = channel_value(&channels, index, j).i;
        if (at < 0 || at >= size || (!isnan(by[at]) && by[at] != l->factor[j].f)) return NULL;
        by[at] = l->factor[j].f;
    }
    for (int64_t i = 0; i < size; i++)
        if (isnan(by[i])) by[i] = 1; // not read
    return by;
}

// NULL: some weight would not be finite.
static constant *scaled_weights(const linear *l, const constant *w, int dimension, const double *by) {
    constant *scaled = constant_new(l->k->program->arena, w->elem, w->rank, w->dims);
    int64_t inner = 1, size = w->dims[dimension];
    for (int j = dimension + 1; j < w->rank; j++) inner *= w->dims[j];
    for (int64_t j = 0; j < w->count; j++) {
        cell v = {.f = eval_load(w->elem, w->data, j).f * by[j / inner % size]};
        eval_store(w->elem, (void *)scaled->data, j, v);
        if (!isfinite(eval_load(w->elem, scaled->data, j).f)) return NULL;
    }
    return scaled;
}

static constant *weights_with_factors(const linear *l, const expr *read) {
    const constant *w = read->buffer->data;
    for (int d = 0; d < w->rank; d++) {
        double *by = factors_along(l, read, d);
        if (by) return scaled_weights(l, w, d, by);
    }
    return NULL;
}

// ---------------------------------------------------------------- rewriting
static expr *sum_and_number(void *user, expr *x) {
    linear *l = user;
    if (x != l->of_sum) return NULL;
    expr *sum = x_state(l->k, 0, x->dtype);
    expr *added = channel_numbers(&l->channels, l->k, "bias", x->dtype, l->added);
    return added->op == X_CONST && added->f == 0 ? sum : x_add(l->k, sum, added);
}

static bool numbers_are_finite(const linear *l) {
    for (int64_t j = 0; j < channel_count(&l->channels); j++)
        if (!isfinite(l->factor[j].f) || !isfinite((float)l->added[j].f)) return false;
    return true;
}

static void scale_weights(arena *scratch, const uses *u, kernel *k) {
    linear l = {.k = k, .scratch = scratch, .channels = {.k = k}};
    if (!contraction_find(k, &l.c)) return;
    state *sum = &l.c.s->states.at[0];
    if (sum->op != RED_SUM || !dtype_is_float(sum->dtype)) return;
    expr *read = weights_of(&l, u);
    if (!read || !find_function(&l) || !numbers_are_finite(&l)) return;
    constant *scaled = weights_with_factors(&l, read);
    if (!scaled) return;
    read->buffer->data = scaled;
    l.c.w->value = expr_rewrite(k, l.c.w->value, sum_and_number, &l);
    sum->init = x_zero(k, sum->dtype);
}

void pass_weight_scales(pass_context *context) {
    program *p = context->program;
    arena *scratch = arena_new();
    const uses *u = uses_build(scratch, p);
    for (int j = 0; j < p->kernels.n; j++) scale_weights(scratch, u, p->kernels.at[j]);
    arena_destroy(scratch);
    program_compact(p);
}
