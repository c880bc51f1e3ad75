// Interpolation: reading a tensor at fractional positions.
#ifndef ONNXC_IR_OPS_NN_SAMPLE_H
#define ONNXC_IR_OPS_NN_SAMPLE_H
#include "ir/ops/runtime_args.h"

// A neighbour on one axis: its position, whether it is inside (NULL: always), and its weight (NULL: 1).
typedef struct tap {
    expr *at, *inside, *weight;
} tap;
// The weighted sum over the neighbours on axes first..end of b, `count` per axis; index holds the positions on
// the other axes. Neighbours outside count as 0. In type t.
expr *sample_taps(kernel *k, buffer *b, expr **index, int first, int end, const tap *const *taps, int count,
                  dtype t);
// The two neighbours of x (a float) on an axis.
void sample_linear(kernel *k, expr *x, tap *out);
// Sets inside: 0 <= at < extent.
void sample_mark(kernel *k, tap *out, int count, dim *extent);
#endif
