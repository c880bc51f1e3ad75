// Comparing tensors as numpy.testing.assert_allclose does: |got - want| <= atol + rtol * |want|, NaN equals NaN.
#ifndef ONNXC_COMPARE_H
#define ONNXC_COMPARE_H
#include "ir/interp.h"

typedef struct comparison {
    bool same;
    int64_t differing, first; // elements out of tolerance; index of the first
    double got, want;         // there
    double max_abs, max_rel;  // largest errors anywhere
    const char *why;          // of a difference of dtype or shape, NULL otherwise
} comparison;
comparison compare_tensors(arena *a, const tensor *got, const tensor *want, double rtol, double atol);
#endif
