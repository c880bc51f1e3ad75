// Known contents: the values of small integer, bool and whole-number float tensors as dims, so that
// shape arithmetic stays symbolic (Shape -> Gather -> Mul -> Concat -> Reshape).
#ifndef ONNXC_IR_OPS_CONTENTS_H
#define ONNXC_IR_OPS_CONTENTS_H
#include "ir/graph/op.h"

// Tensors of more elements carry no contents.
enum { CONTENTS_MAX = 64 };

// One element of output 0 from the elements of the inputs (NULL for those left out); NULL: not known.
typedef dim *contents_fold(const node *n, dim *const *a);
// Sets output 0's contents element by element when those of all inputs are known; inputs of one element
// are repeated. The type of output 0 must be set.
void contents_map(node *n, contents_fold *fold);
// For float Floor, Ceil and casts to int of a quotient (Div, or Mul by a fraction of a power of two):
// output 0's contents are round(numerator, denominator).
void contents_of_quotient(node *n, dim *(*round)(dim *a, dim *b));
bool dim_never_zero(const dim *d);
#endif
