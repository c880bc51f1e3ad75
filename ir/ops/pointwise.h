// Pointwise operators: one output element from one element of each (broadcast) input. An operator is one
// POINTWISE line: its type rule, its symbolic value and its value as an expression.
#ifndef ONNXC_IR_OPS_POINTWISE_H
#define ONNXC_IR_OPS_POINTWISE_H
#include "ir/ops/contents.h"
#include "ir/ops/runtime_args.h"
#include "ir/ops/upgrade.h"

// The output element; x holds one element of each input, NULL for an input left out.
typedef expr *pointwise_value(kernel *k, const node *n, expr *const *x);
// out[i...] = value(in0[i...], in1[i...], ...)
void lower_pointwise(lowering *l, node *n, pointwise_value *value);

void infer_like_first(node *n);           // output 0 has the type of input 0
void infer_like_ranked_first(node *n);    // the same, once its rank is known
void infer_bool_like_first(node *n);      // the shape of input 0, bool
void infer_elementwise(node *n);          // all inputs of one element type, broadcast
void infer_comparison(node *n);           // the same, bool
void infer_like_first_broadcast(node *n); // element type of input 0, broadcast of all inputs
void infer_broadcast_to(node *n, dtype elem);

// Defines infer_OP, fold_OP and value_OP from the type rule and an output element as a dim (data propagation)
// and as an expression. `dims` sees n and a[], a known element of each input, and is NULL if the result is
// unknown; `value` sees k, n and x[].
#define POINTWISE_RULES(op, infer_type, dims, value)                                                         \
    static expr *value_##op(kernel *k, const node *n, expr *const *x) {                                      \
        (void)n;                                                                                             \
        return value;                                                                                        \
    }                                                                                                        \
    static dim *fold_##op(const node *n, dim *const *a) {                                                    \
        (void)n, (void)a;                                                                                    \
        return dims;                                                                                         \
    }                                                                                                        \
    static void infer_##op(node *n) {                                                                        \
        infer_type(n);                                                                                       \
        contents_map(n, fold_##op);                                                                          \
    }
// Defines the operator; further fields of op_def may follow.
#define POINTWISE(op, infer_type, dims, value, ...)                                                          \
    POINTWISE_RULES(op, infer_type, dims, value)                                                             \
    static void lower_##op(lowering *l, node *n) { lower_pointwise(l, n, value_##op); }                      \
    OPERATOR(op, .infer = infer_##op, .lower = lower_##op, __VA_ARGS__)

expr *x_attr(kernel *k, const node *n, const char *name, double fallback, dtype t); // float attribute
// e in compute type t.
expr *x_as(kernel *k, expr *e, dtype t);
// x ** e, as products or a root where that is one of few.
expr *x_power(kernel *k, expr *x, double e);
// A buffer of complex numbers viewed as one of real numbers, with a last axis of two parts; others as they are.
buffer *lower_parts(lowering *l, buffer *b);
// Fails with "not supported yet" if a tensor of n holds strings or complex numbers.
void lower_numeric_only(lowering *l, const node *n);
#endif
