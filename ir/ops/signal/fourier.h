// Transforms of signals along one axis, of which `read` gives the elements, into a buffer of real and imaginary
// parts.
#ifndef ONNXC_IR_OPS_SIGNAL_FOURIER_H
#define ONNXC_IR_OPS_SIGNAL_FOURIER_H
#include "ir/ops/runtime_args.h"

typedef struct transform transform;
struct transform {
    lowering *l;
    node *n;
    dtype t;
    int rank, axis; // of the signal, without the axis of real and imaginary parts
    dim *dims[MAX_RANK], *length;
    bool inverse;
    dim *kept; // frequencies in the output
    bool real; // the output has only the real part
    buffer *out, *cosine, *sine;
    // The signal at index; *im is NULL if it is real.
    void (*read)(const transform *f, kernel *k, expr *const *index, expr **re, expr **im);
    buffer *x, *window; // for read
    dim *step;
};

typedef struct complex_expr {
    expr *re, *im; // im NULL: real
} complex_expr;

void run_transform(transform *f);

#endif
