// Adagrad, Adam and Momentum: one optimiser step per tensor. In: learning rate R, count T, then lists of
// tensors X, their gradients G and one or two states; out: lists of new X and new states.
#include "ir/ops/runtime_args.h"

// The length of the lists, which follow the two scalars.
static int list_length(const node *n, int lists, int outputs) {
    int given = n->nin - 2;
    if (given < lists || given % lists)
        infer_error(n, "%d tensors cannot be divided into %d lists of equal length", given, lists);
    if (n->nout > given / lists * outputs)
        infer_error(n, "%d outputs are requested for %d tensors", n->nout, given / lists);
    return given / lists;
}

static void infer_optimiser(node *n, int lists, int outputs) {
    int length = list_length(n, lists, outputs);
    infer_one_element(n, 0, "learning rates");
    infer_one_element(n, 1, "training iteration counts");
    for (int i = 0; i < length; i++) {
        const type *x = infer_in(n, 2 + i);
        int rank = infer_rank(n, 2 + i);
        for (int j = 1; j < lists; j++) {
            const type *other = infer_in(n, 2 + i + j * length);
            if (infer_rank(n, 2 + i + j * length) != rank || other->elem != x->elem)
                infer_error(n, "tensor %d differs in rank or type from the others that belong to it", i);
            for (int a = 0; a < rank; a++) infer_same_dim(n, x->dims[a], other->dims[a], "sizes of a tensor");
        }
        for (int j = 0; j < outputs; j++) infer_set(n, i + j * length, x->elem, rank, x->dims);
    }
}

// One element for the formulas: in, v[j] of list j; out, result[j] for output list j.
typedef struct element {
    kernel *k;
    const node *n;
    dtype t;
    expr *rate, *count, *v[4], *result[3];
} element;
typedef void formula(element *e);

static expr *attribute(element *e, const char *name) {
    return x_float(e->k, e->t, node_float(e->n, name, 0));
}

// norm_coefficient * X + G
static expr *regularised(element *e) {
    return x_add(e->k, x_mul(e->k, attribute(e, "norm_coefficient"), e->v[0]), e->v[1]);
}

static expr *square_root_plus(element *e, expr *v) {
    return x_add(e->k, x_un(e->k, X_SQRT, v), attribute(e, "epsilon"));
}

// The exponential moving average a * old + (1 - a) * new
static expr *average(element *e, const char *name, expr *old, expr *new) {
    expr *a = attribute(e, name), *rest = x_sub(e->k, x_float(e->k, e->t, 1), a);
    return x_add(e->k, x_mul(e->k, a, old), x_mul(e->k, rest, new));
}

static void adagrad(element *e) {
    kernel *k = e->k;
    expr *g = regularised(e), *h = x_add(k, e->v[2], x_mul(k, g, g));
    expr *slower = x_add(k, x_float(k, e->t, 1), x_mul(k, e->count, attribute(e, "decay_factor")));
    expr *step = x_div(k, x_mul(k, x_div(k, e->rate, slower), g), square_root_plus(e, h));
    e->result[0] = x_sub(k, e->v[0], step);
    e->result[1] = h;
}

// 1 - a ^ T
static expr *bias_of(element *e, const char *name) {
    return x_sub(e->k, x_float(e->k, e->t, 1), x_bin(e->k, X_POW, attribute(e, name), e->count));
}

static void adam(element *e) {
    kernel *k = e->k;
    expr *g = regularised(e), *zero = x_zero(k, e->t);
    expr *v = average(e, "alpha", e->v[2], g), *h = average(e, "beta", e->v[3], x_mul(k, g, g));
    expr *corrected = x_div(k, x_mul(k, e->rate, x_un(k, X_SQRT, bias_of(e, "beta"))), bias_of(e, "alpha"));
    expr *rate = x_select(k, x_lt(k, zero, e->count), corrected, e->rate);
    expr *x = x_sub(k, e->v[0], x_div(k, x_mul(k, rate, v), square_root_plus(e, h)));
    e->result[0] = x_mul(k, x_sub(k, x_float(k, e->t, 1), attribute(e, "norm_coefficient_post")), x);
    e->result[1] = v;
    e->result[2] = h;
}

static void momentum(element *e) {
    kernel *k = e->k;
    expr *g = regularised(e), *alpha = attribute(e, "alpha");
    expr *beta = x_select(k, x_lt(k, x_zero(k, e->t), e->count), attribute(e, "beta"), x_float(k, e->t, 1));
    expr *v = x_add(k, x_mul(k, alpha, e->v[2]), x_mul(k, beta, g));
    bool nesterov = node_choice(e->n, "mode", "standard nesterov") == 1;
    expr *direction = nesterov ? x_add(k, g, x_mul(k, alpha, v)) : v;
    e->result[0] = x_sub(k, e->v[0], x_mul(k, e->rate, direction));
    e->result[1] = v;
}

static void lower_optimiser(lowering *l, node *n, int lists, int outputs, formula *f) {
    int length = list_length(n, lists, outputs);
    buffer *rate = lower_in(l, n, 0), *count = lower_in(l, n, 1);
    for (int i = 0; i < length; i++) {
        kernel *k;
        expr *at[MAX_RANK];
        buffer *x = lower_in(l, n, 2 + i), *out[3];
        for (int j = 0; j < outputs; j++) out[j] = lower_out(l, n, i + j * length);
        stage *s = suffixed_stage(l, n, arena_printf(l->program->arena, "%d", i), x, &k, at);
        element e = {.k = k, .n = n, .t = dtype_compute(x->dtype)};
        e.rate = x_cast(k, x_read_first(k, rate), e.t, false);
        e.count = x_cast(k, x_read_first(k, count), e.t, false);
        for (int j = 0; j < lists; j++) e.v[j] = x_read(k, lower_in(l, n, 2 + i + j * length), at);
        f(&e);
        for (int j = 0; j < outputs; j++)
            if (out[j]) stage_write(k, s, out[j], at, e.result[j]);
    }
}

static void infer_momentum(node *n) {
    node_choice(n, "mode", "standard nesterov");
    infer_optimiser(n, 3, 2);
}
static void infer_adagrad(node *n) { infer_optimiser(n, 3, 2); }
static void infer_adam(node *n) { infer_optimiser(n, 4, 3); }
static void lower_adagrad(lowering *l, node *n) { lower_optimiser(l, n, 3, 2, adagrad); }
static void lower_adam(lowering *l, node *n) { lower_optimiser(l, n, 4, 3, adam); }
static void lower_momentum(lowering *l, node *n) { lower_optimiser(l, n, 3, 2, momentum); }

#define OPTIMISER(op, stem)                                                                                  \
    OPERATOR_OF("ai.onnx.preview.training", op, .infer = infer_##stem, .lower = lower_##stem)
OPTIMISER(Adagrad, adagrad);
OPTIMISER(Adam, adam);
OPTIMISER(Momentum, momentum);
