// Building graphs of standard operators in place of a node, for op_def.decompose: an operator outside of the standard
// is written as a graph, so that fusion and schedules see nothing new. New nodes come before n, in the order in which
// they are made, and are inferred after the decomposition ends: only the types of n's own inputs are known while it runs.
#ifndef ONNXC_IR_OPS_DECOMPOSE_H
#define ONNXC_IR_OPS_DECOMPOSE_H
#include "ir/graph/op.h"

// The output of a new node of operator `op` (insert_before). Inputs may be NULL: left out.
#define NODE(n, op, ...)                                                                                     \
    insert_node(n, op, sizeof((value *[]){__VA_ARGS__}) / sizeof(value *), (value *[]){__VA_ARGS__})
value *insert_node(node *n, const char *op, size_t nin, value *const *in);

// Attributes of the node that defines v, which is returned.
value *with_int(value *v, const char *name, int64_t i);
value *with_float(value *v, const char *name, double f);
value *with_string(value *v, const char *name, const char *s);
value *with_ints(value *v, const char *name, int count, const int64_t *ints);
#define INTS(...)                                                                                            \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]) { __VA_ARGS__ }
// Attribute `name` of n, if it is there.
value *with_attr_of(value *v, const node *n, const char *name);
// Output i of the node that defines v.
value *output_of(value *v, int i);

value *cast_to(node *n, value *v, dtype t);   // v itself when n's input v already has that type
value *number_like(node *n, double x, int i); // a scalar of the element type of n's input i
value *transposed(node *n, value *v, int rank, const int64_t *order);
// v with these sizes; 0 copies the size of v at the same place, one may be -1.
value *reshaped(node *n, value *v, int rank, const int64_t *sizes);
value *sliced(node *n, value *v, int64_t axis, int64_t from, int64_t to);

// v takes the place of n's output i, if that is wanted.
void give_output(node *n, int i, value *v);
// The operator com.microsoft.NAME as such a graph.
#define MICROSOFT_OP(NAME, function)                                                                         \
    const op_def op_microsoft_##NAME = {.name = #NAME, .domain = "com.microsoft", .decompose = function}
// n as operator `op` with the same inputs, outputs and attributes.
void decompose_to(node *n, const char *op);
#endif
