// Activation functions of com.microsoft, as graphs of the standard's operators.
#include "ir/ops/decompose.h"

static value *gelu(node *n, value *x, const char *approximate) {
    return with_string(NODE(n, "Gelu", x), "approximate", approximate);
}

// x * sigmoid(alpha * x)
static value *silu(node *n, value *x, double alpha) {
    return with_float(NODE(n, "Swish", x), "alpha", alpha);
}

static void gelu_decompose(node *n) { give_output(n, 0, gelu(n, n->in[0], "none")); }
static void bias_gelu_decompose(node *n) {
    give_output(n, 0, gelu(n, NODE(n, "Add", n->in[0], n->in[1]), "none"));
}
static void fast_gelu_decompose(node *n) {
    value *bias = node_in(n, 1);
    give_output(n, 0, gelu(n, bias ? NODE(n, "Add", n->in[0], bias) : n->in[0], "tanh"));
}
static void quick_gelu_decompose(node *n) {
    give_output(n, 0, silu(n, n->in[0], node_float(n, "alpha", 1.702f)));
}

// scale * x, from an input or an attribute, then x * sigmoid(x), rounded after each step.
static void scaled_silu_decompose(node *n) {
    value *scale = node_in(n, 1) ? cast_to(n, n->in[1], infer_in(n, 0)->elem)
                                 : number_like(n, node_float(n, "alpha", 1), 0);
    value *scaled = NODE(n, "Mul", n->in[0], scale);
    give_output(n, 0, NODE(n, "Mul", scaled, NODE(n, "Sigmoid", scaled)));
}

MICROSOFT_OP(Gelu, gelu_decompose);
MICROSOFT_OP(BiasGelu, bias_gelu_decompose);
MICROSOFT_OP(FastGelu, fast_gelu_decompose);
MICROSOFT_OP(QuickGelu, quick_gelu_decompose);
MICROSOFT_OP(ScaledSiLU, scaled_silu_decompose);
