// Reverse-mode differentiation of graphs. An operator has a rule, which builds the gradients of its inputs from
// those of its outputs; or a body, which rewrites a copy of its node as operators that have rules.
#ifndef ONNXC_IR_OPS_TRAINING_GRADIENT_H
#define ONNXC_IR_OPS_TRAINING_GRADIENT_H
#include "ir/ops/decompose.h"

// One application of a rule. Gradients have the type of the value to which they belong; their own types are not
// inferred yet, so rules ask for those of the inputs and outputs of `of`.
typedef struct gradient {
    node *at;              // new nodes come before this one
    node *of;              // the node that is differentiated
    value **dy;            // by output: its gradient, NULL: zero
    value **dx;            // by input, set by the rule; NULL: zero
    const bool *wanted;    // by input: whether dx is read
    void (*body)(node *n); // set by a rule that leaves the work to a body
} gradient;

typedef struct gradient_rule {
    const char *op; // of ai.onnx
    void (*apply)(gradient *g);
    void (*body)(node *n); // as op_def.expand
} gradient_rule;

// Tables that end with op = NULL.
extern const gradient_rule gradient_pointwise_rules[], gradient_move_rules[], gradient_reduce_rules[],
    gradient_product_rules[], gradient_window_rules[], gradient_bodies[];

// ---- For rules
#define G(op, ...) NODE(g->at, op, __VA_ARGS__)
_Noreturn void gradient_missing(const gradient *g,
                                const char *what);          // "Gradient cannot differentiate OP with WHAT"
value *gradient_number(gradient *g, double x);              // scalar of the type of input 0
value *gradient_shape(gradient *g, value *v);               // Shape(v)
value *gradient_filled(gradient *g, double x, value *like); // x, with the type of `like`
// d, of these sizes, summed over the axes along which `to` was broadcast to them.
value *gradient_reduced(gradient *g, value *d, int rank, dim *const *dims, value *to);
// The same with the sizes of output 0.
value *gradient_unbroadcast(gradient *g, value *d, value *to);
// Zeros with the shape of `like`, plus d[i] at the flat position places[i].
value *gradient_scattered(gradient *g, value *d, value *places, value *like);
#endif
