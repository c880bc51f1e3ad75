// Gradients of reductions and of softmax.
#include "ir/ops/training/gradient.h"

// The same reduction as `of` by another operator, with axes of size 1 in place of the reduced ones.
static value *kept(gradient *g, const char *op) {
    value *v = G(op, g->of->in[0], node_in(g->of, 1));
    with_attr_of(v, g->of, "noop_with_empty_axes");
    return with_int(v, "keepdims", 1);
}

// dy in the shape of `kept`, to be broadcast along the reduced axes.
static value *spread(gradient *g, value *d) {
    if (node_int(g->of, "keepdims", 1)) return d;
    return with_int(G("Reshape", d, gradient_shape(g, kept(g, "ReduceSum"))), "allowzero", 1);
}

static value *expanded(gradient *g, value *v) { return G("Expand", v, gradient_shape(g, g->of->in[0])); }

static void sum(gradient *g) { g->dx[0] = expanded(g, spread(g, g->dy[0])); }

static void mean(gradient *g) {
    dtype t = g->of->in[0]->type.elem;
    value *many = with_int(G("Cast", G("Size", g->of->in[0])), "to", t);
    value *few = with_int(G("Cast", G("Size", g->of->out[0])), "to", t);
    g->dx[0] = expanded(g, G("Mul", spread(g, g->dy[0]), G("Div", few, many)));
}

// ReduceMax, ReduceMin: elements of equal value share the gradient.
static void extremum(gradient *g) {
    value *x = g->of->in[0], *hit = G("Equal", x, spread(g, g->of->out[0]));
    hit = with_int(G("Cast", hit), "to", x->type.elem);
    value *count = with_int(G("ReduceSum", hit, node_in(g->of, 1)), "keepdims", 1);
    with_attr_of(count, g->of, "noop_with_empty_axes");
    g->dx[0] = G("Mul", hit, G("Div", spread(g, g->dy[0]), count));
}

static void sum_of_squares(gradient *g) {
    g->dx[0] = G("Mul", G("Mul", spread(g, g->dy[0]), gradient_number(g, 2)), g->of->in[0]);
}

static void norm_1(gradient *g) { g->dx[0] = G("Mul", spread(g, g->dy[0]), G("Sign", g->of->in[0])); }

static void norm_2(gradient *g) {
    value *each = G("Div", g->dy[0], g->of->out[0]);
    g->dx[0] = G("Mul", spread(g, each), g->of->in[0]);
}

static void log_sum(gradient *g) {
    g->dx[0] = expanded(g, G("Div", spread(g, g->dy[0]), kept(g, "ReduceSum")));
}

static void log_sum_exp(gradient *g) {
    value *weight = G("Exp", G("Sub", g->of->in[0], spread(g, g->of->out[0])));
    g->dx[0] = G("Mul", spread(g, g->dy[0]), weight);
}

static value *sum_along_axis(gradient *g, value *v) {
    int64_t axis = node_int(g->of, "axis", -1);
    return with_int(G("ReduceSum", v, insert_ints(g->at, &axis, 1)), "keepdims", 1);
}

// y * (dy - sum(y * dy))
static void softmax(gradient *g) {
    value *y = g->of->out[0], *dy = g->dy[0];
    g->dx[0] = G("Mul", y, G("Sub", dy, sum_along_axis(g, G("Mul", y, dy))));
}

// dy - exp(y) * sum(dy)
static void log_softmax(gradient *g) {
    value *dy = g->dy[0];
    g->dx[0] = G("Sub", dy, G("Mul", G("Exp", g->of->out[0]), sum_along_axis(g, dy)));
}

const gradient_rule gradient_reduce_rules[] = {
    {.op = "ReduceSum", .apply = sum},
    {.op = "ReduceMean", .apply = mean},
    {.op = "ReduceMax", .apply = extremum},
    {.op = "ReduceMin", .apply = extremum},
    {.op = "ReduceSumSquare", .apply = sum_of_squares},
    {.op = "ReduceL1", .apply = norm_1},
    {.op = "ReduceL2", .apply = norm_2},
    {.op = "ReduceLogSum", .apply = log_sum},
    {.op = "ReduceLogSumExp", .apply = log_sum_exp},
    {.op = "Softmax", .apply = softmax},
    {.op = "LogSoftmax", .apply = log_softmax},
    {0},
};
