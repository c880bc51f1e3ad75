// Symbolic values (`contents`): small integer and bool tensors, and float tensors of whole numbers, as dims.
// Propagating them (ONNX: data propagation) keeps shape arithmetic symbolic: Shape -> Gather -> Mul -> Concat
// -> Reshape.
#ifndef ONNXC_IR_OPS_CONTENTS_H
#define ONNXC_IR_OPS_CONTENTS_H
#include "ir/graph/op.h"

// Larger tensors have no symbolic value.
enum { CONTENTS_MAX = 64 };

// One element of output 0 from the elements of the inputs (NULL: input left out); NULL: unknown.
typedef dim *contents_fold(const node *n, dim *const *a);
// Sets the symbolic value of output 0, whose type must be set, element by element, if those of all inputs are
// known. Inputs of one element are broadcast.
void contents_map(node *n, contents_fold *fold);
// For float Floor, Ceil and casts to int of a quotient (Div, or Mul by a fraction whose denominator is a
// power of two): the symbolic value of output 0 is round(numerator, denominator).
void contents_of_quotient(node *n, dim *(*round)(dim *a, dim *b));
#endif
