// Gradients of pointwise operators.
#include "ir/ops/training/gradient.h"
#include <math.h>

static value *add(gradient *g, value *a, value *b) { return G("Add", a, b); }
static value *sub(gradient *g, value *a, value *b) { return G("Sub", a, b); }
static value *mul(gradient *g, value *a, value *b) { return G("Mul", a, b); }
static value *quotient(gradient *g, value *a, value *b) { return G("Div", a, b); }
static value *square(gradient *g, value *a) { return G("Mul", a, a); }
static value *number(gradient *g, double x) { return gradient_number(g, x); }
static value *root(gradient *g, value *a) { return G("Sqrt", a); }
static value *where(gradient *g, value *c, value *a, value *b) { return G("Where", c, a, b); }
static value *less(gradient *g, value *a, value *b) { return G("Less", a, b); }
static double attribute(const gradient *g, const char *name) { return node_float(g->of, name, 0); }

static void no_gradient(gradient *g) { (void)g; }

// ---- One input: dx from x, y and dy
#define UNARY(op, gradient_of_x)                                                                             \
    static void op(gradient *g) {                                                                            \
        value *x = g->of->in[0], *y = g->of->out[0], *dy = g->dy[0];                                         \
        (void)x, (void)y;                                                                                    \
        g->dx[0] = gradient_of_x;                                                                            \
    }

UNARY(identity, dy)
UNARY(negation, G("Neg", dy))
UNARY(absolute, mul(g, dy, G("Sign", x)))
UNARY(reciprocal, G("Neg", mul(g, dy, square(g, y))))
UNARY(square_root, quotient(g, dy, mul(g, number(g, 2), y)))
UNARY(exponential, mul(g, dy, y))
UNARY(logarithm, quotient(g, dy, x))
UNARY(sine, mul(g, dy, G("Cos", x)))
UNARY(cosine, G("Neg", mul(g, dy, G("Sin", x))))
UNARY(tangent, mul(g, dy, add(g, number(g, 1), square(g, y))))
UNARY(arc_sine, quotient(g, dy, root(g, sub(g, number(g, 1), square(g, x)))))
UNARY(arc_cosine, G("Neg", quotient(g, dy, root(g, sub(g, number(g, 1), square(g, x))))))
UNARY(arc_tangent, quotient(g, dy, add(g, number(g, 1), square(g, x))))
UNARY(sinh_rule, mul(g, dy, G("Cosh", x)))
UNARY(cosh_rule, mul(g, dy, G("Sinh", x)))
UNARY(tanh_rule, mul(g, dy, sub(g, number(g, 1), square(g, y))))
UNARY(asinh_rule, quotient(g, dy, root(g, add(g, square(g, x), number(g, 1)))))
UNARY(acosh_rule, quotient(g, dy, root(g, sub(g, square(g, x), number(g, 1)))))
UNARY(atanh_rule, quotient(g, dy, sub(g, number(g, 1), square(g, x))))
UNARY(erf_rule, mul(g, dy, mul(g, number(g, 2 / sqrt(acos(-1))), G("Exp", G("Neg", square(g, x))))))
UNARY(sigmoid, mul(g, dy, mul(g, y, sub(g, number(g, 1), y))))
UNARY(softplus, mul(g, dy, G("Sigmoid", x)))
UNARY(softsign, quotient(g, dy, square(g, add(g, number(g, 1), G("Abs", x)))))
UNARY(relu, where(g, less(g, number(g, 0), x), dy, number(g, 0)))
UNARY(thresholded_relu, where(g, less(g, number(g, attribute(g, "alpha")), x), dy, number(g, 0)))
UNARY(leaky_relu, where(g, less(g, x, number(g, 0)), mul(g, dy, number(g, attribute(g, "alpha"))), dy))
UNARY(cast, with_int(G("Cast", dy), "to", x->type.elem))
UNARY(shrink, where(g, less(g, number(g, attribute(g, "lambd")), G("Abs", x)), dy, number(g, 0)))

// alpha * (exp(x) - 1) below 0
UNARY(elu, where(g, less(g, x, number(g, 0)), mul(g, dy, add(g, y, number(g, attribute(g, "alpha")))), dy))

// alpha * (exp(x / alpha) - 1) below 0
UNARY(celu, where(g, less(g, x, number(g, 0)),
                  mul(g, dy, add(g, quotient(g, y, number(g, attribute(g, "alpha"))), number(g, 1))), dy))

// gamma * x; gamma * alpha * (exp(x) - 1) below 0
static void selu(gradient *g) {
    double gamma = attribute(g, "gamma"), alpha = attribute(g, "alpha");
    value *below = add(g, g->of->out[0], number(g, gamma * alpha));
    value *slope = where(g, less(g, g->of->in[0], number(g, 0)), below, number(g, gamma));
    g->dx[0] = mul(g, g->dy[0], slope);
}

static void hard_sigmoid(gradient *g) {
    value *y = g->of->out[0];
    value *inside = G("And", less(g, number(g, 0), y), less(g, y, number(g, 1)));
    g->dx[0] = where(g, inside, mul(g, g->dy[0], number(g, attribute(g, "alpha"))), number(g, 0));
}

// ---- Several inputs, broadcast

static void give(gradient *g, int i, value *d) {
    if (d && g->wanted[i]) g->dx[i] = gradient_unbroadcast(g, d, g->of->in[i]);
}

static void addition(gradient *g) {
    for (int i = 0; i < g->of->nin; i++) give(g, i, g->dy[0]);
}

static void mean(gradient *g) {
    for (int i = 0; i < g->of->nin; i++) give(g, i, quotient(g, g->dy[0], number(g, g->of->nin)));
}

static void subtraction(gradient *g) {
    give(g, 0, g->dy[0]);
    if (g->wanted[1]) give(g, 1, G("Neg", g->dy[0]));
}

static void multiplication(gradient *g) {
    if (g->wanted[0]) give(g, 0, mul(g, g->dy[0], g->of->in[1]));
    if (g->wanted[1]) give(g, 1, mul(g, g->dy[0], g->of->in[0]));
}

static void division(gradient *g) {
    value *each = quotient(g, g->dy[0], g->of->in[1]);
    give(g, 0, each);
    if (g->wanted[1]) give(g, 1, G("Neg", mul(g, each, g->of->out[0])));
}

// da = b * a^(b - 1), which is 0 for b = 0 and any a; db = a^b * log(a), 0 where a is not positive.
static void power(gradient *g) {
    value *a = g->of->in[0], *b = g->of->in[1], *dy = g->dy[0], *zero = number(g, 0), *one = number(g, 1);
    value *exponent = cast_to(g->at, b, a->type.elem);
    if (g->wanted[0]) {
        value *constant = G("Equal", exponent, zero);
        value *lower = sub(g, where(g, constant, one, exponent), one);
        give(g, 0, mul(g, dy, mul(g, exponent, G("Pow", a, lower))));
    }
    if (!g->wanted[1]) return;
    value *positive = less(g, zero, a);
    value *logarithm_of_a = G("Log", where(g, positive, a, one));
    value *d = mul(g, mul(g, dy, g->of->out[0]), where(g, positive, logarithm_of_a, zero));
    give(g, 1, a->type.elem == b->type.elem ? d : with_int(G("Cast", d), "to", b->type.elem));
}

// Max, Min: operands of equal value share the gradient.
static void extremum(gradient *g) {
    value *y = g->of->out[0], *count = NULL;
    value **hit = ARENA_ARRAY(infer_arena(g->of), value *, g->of->nin + 1);
    for (int i = 0; i < g->of->nin; i++) {
        hit[i] = with_int(G("Cast", G("Equal", g->of->in[i], y)), "to", y->type.elem);
        count = count ? add(g, count, hit[i]) : hit[i];
    }
    value *share = quotient(g, g->dy[0], count);
    for (int i = 0; i < g->of->nin; i++)
        if (g->wanted[i]) give(g, i, mul(g, share, hit[i]));
}

static void clip(gradient *g) {
    value *x = g->of->in[0], *low = node_in(g->of, 1), *high = node_in(g->of, 2);
    value *dy = g->dy[0], *zero = number(g, 0), *below = low ? less(g, x, low) : NULL;
    value *above = high ? less(g, high, x) : NULL;
    value *inside = dy;
    if (above) inside = where(g, above, zero, inside);
    if (below) inside = where(g, below, zero, inside);
    give(g, 0, inside);
    if (low && g->wanted[1]) {
        value *d = where(g, below, dy, zero);
        give(g, 1, above ? where(g, above, zero, d) : d);
    }
    if (high && g->wanted[2]) give(g, 2, where(g, above, dy, zero));
}

static void selection(gradient *g) {
    value *c = g->of->in[0], *zero = insert_scalar(g->at, g->of->out[0]->type.elem, 0);
    if (g->wanted[1]) give(g, 1, where(g, c, g->dy[0], zero));
    if (g->wanted[2]) give(g, 2, where(g, c, zero, g->dy[0]));
}

static void prelu(gradient *g) {
    value *x = g->of->in[0], *slope = g->of->in[1], *negative = less(g, x, number(g, 0));
    if (g->wanted[0]) give(g, 0, where(g, negative, mul(g, g->dy[0], slope), g->dy[0]));
    if (g->wanted[1]) give(g, 1, where(g, negative, mul(g, g->dy[0], x), number(g, 0)));
}

// In training mode, by the mask of the forward pass: a copy of the node would draw another one.
static void dropout(gradient *g) {
    value *dy = g->dy[0], *training = node_in(g->of, 2), *ratio = node_in(g->of, 1);
    const constant *known = training ? training->constant : NULL;
    g->dx[0] = dy;
    if (!training || (known && known->count == 1 && constant_int(known, 0) == 0)) return;
    bool has_mask = node_out(g->of, 1) != NULL;
    value *mask = output_of(g->of->out[0], 1), *one = number(g, 1);
    if (!has_mask) infer_node(g->of);
    ratio = ratio ? with_int(G("Cast", ratio), "to", g->of->in[0]->type.elem) : number(g, 0.5);
    value *scale = where(g, training, quotient(g, one, sub(g, one, ratio)), one);
    g->dx[0] = where(g, mask, mul(g, dy, scale), number(g, 0));
}

// fmod(a, b) = a - b * trunc(a / b)
static void modulus(gradient *g) {
    value *a = g->of->in[0], *b = g->of->in[1];
    give(g, 0, g->dy[0]);
    if (!g->wanted[1]) return;
    value *q = quotient(g, a, b);
    value *whole = mul(g, G("Sign", q), G("Floor", G("Abs", q)));
    give(g, 1, G("Neg", mul(g, g->dy[0], whole)));
}

const gradient_rule gradient_pointwise_rules[] = {
    {.op = "Identity", .apply = identity},
    {.op = "Dropout", .apply = dropout},
    {.op = "Neg", .apply = negation},
    {.op = "Abs", .apply = absolute},
    {.op = "Reciprocal", .apply = reciprocal},
    {.op = "Sqrt", .apply = square_root},
    {.op = "Exp", .apply = exponential},
    {.op = "Log", .apply = logarithm},
    {.op = "Sin", .apply = sine},
    {.op = "Cos", .apply = cosine},
    {.op = "Tan", .apply = tangent},
    {.op = "Asin", .apply = arc_sine},
    {.op = "Acos", .apply = arc_cosine},
    {.op = "Atan", .apply = arc_tangent},
    {.op = "Sinh", .apply = sinh_rule},
    {.op = "Cosh", .apply = cosh_rule},
    {.op = "Tanh", .apply = tanh_rule},
    {.op = "Asinh", .apply = asinh_rule},
    {.op = "Acosh", .apply = acosh_rule},
    {.op = "Atanh", .apply = atanh_rule},
    {.op = "Erf", .apply = erf_rule},
    {.op = "Sigmoid", .apply = sigmoid},
    {.op = "Softplus", .apply = softplus},
    {.op = "Softsign", .apply = softsign},
    {.op = "Relu", .apply = relu},
    {.op = "ThresholdedRelu", .apply = thresholded_relu},
    {.op = "LeakyRelu", .apply = leaky_relu},
    {.op = "Cast", .apply = cast},
    {.op = "CastLike", .apply = cast},
    {.op = "Shrink", .apply = shrink},
    {.op = "Elu", .apply = elu},
    {.op = "Celu", .apply = celu},
    {.op = "Selu", .apply = selu},
    {.op = "HardSigmoid", .apply = hard_sigmoid},
    {.op = "Floor", .apply = no_gradient},
    {.op = "Ceil", .apply = no_gradient},
    {.op = "Round", .apply = no_gradient},
    {.op = "Sign", .apply = no_gradient},
    {.op = "Hardmax", .apply = no_gradient},
    {.op = "Add", .apply = addition},
    {.op = "Sum", .apply = addition},
    {.op = "Mean", .apply = mean},
    {.op = "Sub", .apply = subtraction},
    {.op = "Mul", .apply = multiplication},
    {.op = "Div", .apply = division},
    {.op = "Pow", .apply = power},
    {.op = "Max", .apply = extremum},
    {.op = "Min", .apply = extremum},
    {.op = "Clip", .apply = clip},
    {.op = "Where", .apply = selection},
    {.op = "PRelu", .apply = prelu},
    {.op = "Mod", .apply = modulus},
    {0},
};
