// Transforms of signals along one axis: `read` gives the elements, `write` takes the frequencies.
#ifndef ONNXC_IR_OPS_SIGNAL_FOURIER_H
#define ONNXC_IR_OPS_SIGNAL_FOURIER_H
#include "ir/ops/runtime_args.h"

typedef struct complex_expr {
    expr *re, *im; // im NULL: real
} complex_expr;

typedef struct transform transform;
struct transform {
    lowering *l;
    node *n;
    const char *prefix; // of the names of kernels and buffers
    dtype t;
    int rank, axis; // of the signal, without the axis of real and imaginary parts
    dim *dims[MAX_RANK], *length;
    dim *given; // elements from there on are 0; NULL: unknown
    bool inverse;
    dim *kept; // frequencies in the output
    bool real; // the output has only the real part
    buffer *out, *cosine, *sine;
    // The signal at index, 0 if there is a guard that does not hold.
    complex_expr (*read)(const transform *f, kernel *k, expr *const *index, expr *guard);
    // Takes frequency index[axis].
    void (*write)(const transform *f, kernel *k, stage *s, expr *const *index, complex_expr v);
    buffer *x, *window; // for read
    dim *step;
    // Of the transforms that make another one, `whole`: pairs of real and imaginary parts.
    const transform *whole;
    buffer *chirp[2], *spectrum[2], *product[2];
};

void run_transform(transform *f);

// ---- For fourier_chirp.c and fourier_library.c
// Transforms f with one kernel per factor of its length.
void transform_by_factors(transform *f);
// The factors of a constant length, MOST_FACTORS at most; their number.
enum { MOST_FACTORS = 64, LARGEST_TABLE = 1 << 20 };
int length_factors(int64_t length, int64_t *factors);
// Kernel operations of passes of these factors, in products of complex numbers.
int64_t factors_cost(int64_t length);
// exp(2 pi i turn / n) for 0 <= turn < n, to the last place.
void exact_turn(int64_t turn, int64_t n, double *re, double *im);
complex_expr complex_multiply(kernel *k, complex_expr a, complex_expr b);
complex_expr complex_read(kernel *k, buffer *const *parts, expr *const *index, expr *guard);
void write_spectrum(const transform *f, kernel *k, stage *s, expr *const *index, complex_expr v);

// Transforms f as a convolution with a chirp, if that takes far fewer operations.
bool transform_by_chirp(transform *f);
// Transforms f by a library function, if the length is known only at run time and the function runs where kernels do.
bool transform_by_library(transform *f);

#endif
