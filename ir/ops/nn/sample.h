// Reading a tensor at positions between its elements.
#ifndef ONNXC_IR_OPS_NN_SAMPLE_H
#define ONNXC_IR_OPS_NN_SAMPLE_H
#include "ir/ops/runtime_args.h"

// A neighbour on one axis: where, whether it is inside (NULL: it is), and its weight.
typedef struct tap {
    expr *at, *inside, *weight;
} tap;
// The sum over neighbours on axes first.. of b, `count` for each axis, of their weights' product times the
// element; index holds the axes before. Neighbours that are not inside count as 0. In type t.
expr *sample_taps(kernel *k, buffer *b, expr **index, int first, const tap *const *taps, int count, dtype t);
// The two neighbours of x (a float) on an axis.
void sample_linear(kernel *k, expr *x, tap *out);
// inside: 0 <= at < extent.
void sample_mark(kernel *k, tap *out, int count, dim *extent);
#endif
