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
static inline dtype elem_of(const node *n) { return infer_in(n, 0)->elem; } // of the first input
// Output i of the node that defines v.
value *output_of(value *v, int i);

value *cast_to(node *n, value *v, dtype t);   // v itself when n's input v already has that type
value *as_scalar(node *n, value *v);          // v, of one element, as a scalar
value *one_int(node *n, int64_t i);           // a constant int64[1]
value *int64_scalar(node *n, int64_t i);      // a constant int64 scalar
value *number_like(node *n, double x, int i); // a scalar of the element type of n's input i
value *transposed(node *n, value *v, int rank, const int64_t *order);
// v with these sizes; 0 copies the size of v at the same place, one may be -1.
value *reshaped(node *n, value *v, int rank, const int64_t *sizes);
// v with the sizes of `shape` (int64), in which 0 means 0.
value *reshaped_to(node *n, value *v, value *shape);
value *sliced(node *n, value *v, int64_t axis, int64_t from, int64_t to);

// The sizes of v's axes from..to-1, which may count from the end (INT64_MAX: all the rest).
value *shape_part(node *n, value *v, int64_t from, int64_t to);
// One vector of int64 from several.
value *joined(node *n, size_t count, value *const *parts);
#define JOINED(n, ...) joined(n, sizeof((value *[]){__VA_ARGS__}) / sizeof(value *), (value *[]){__VA_ARGS__})
// float for f16 and bf16, in which most kernels of ONNX Runtime compute; other types stay.
dtype wide_type(dtype t);
value *widened(node *n, int i);              // n's input i in that type; NULL when it is left out
value *narrowed(node *n, value *v, dtype t); // v, computed in wide_type(t), rounded to t
value *reduced(node *n, const char *op, value *v, int64_t axis); // along one axis, which stays with size 1
value *split_last(node *n, value *v, value *rows); // (..., rows * H) as (..., rows, H); rows: a vector of one
value *as_shape_of(node *n, value *v, value *x);   // v with the sizes of x
value *swapped_last(node *n, value *v, int rank);  // the last two axes in the other order
value *channels_moved(node *n, value *v, int rank, bool last_to_second); // false: axis 1 becomes the last
value *insert_floats(node *n, const float *v, int count);                // a constant float[count]
// scores (rows, vocabulary) of floats, with `least` for tokens that would repeat `size` of the ids (rows, length).
value *without_repeated_ngrams(node *n, value *scores, value *ids, int64_t size, value *least);

value *inferred(value *v); // v, after inference of the node that defines it
// v takes the place of n's output i, if that is wanted.
void give_output(node *n, int i, value *v);
// The operator com.microsoft.NAME as such a graph.
#define MICROSOFT_OP(NAME, function)                                                                         \
    const op_def op_microsoft_##NAME = {.name = #NAME, .domain = "com.microsoft", .decompose = function}
#define QONNX_OP(NAME, function)                                                                             \
    const op_def op_qonnx_##NAME = {.name = #NAME, .domain = "qonnx.custom_op.general", .decompose = function}
// n as operator `op` with the same inputs, outputs and attributes.
void decompose_to(node *n, const char *op);
#endif
