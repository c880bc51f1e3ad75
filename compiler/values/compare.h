// Comparing values as numpy.testing.assert_allclose does: |got - want| <= atol + rtol * |want|, NaN equals
// NaN.
#ifndef ONNXC_COMPILER_VALUES_COMPARE_H
#define ONNXC_COMPILER_VALUES_COMPARE_H
#include "compiler/import/import.h"
#include "ir/graph/tensor.h"

typedef struct tolerance {
    double rtol, atol;
} tolerance;
typedef struct comparison {
    bool same;
    int64_t differing, count; // elements out of tolerance, elements in all
    int64_t first;            // index of the first that differs
    const char *got, *want;   // there, as text
    const char *at;           // "[1, 0]"
    double max_abs, max_rel;  // largest errors anywhere
    const char *why;          // of a difference of kind, dtype or shape, NULL otherwise
} comparison;
comparison compare_tensors(arena *a, const tensor *got, const tensor *want, tolerance t);
// Sequences, optionals and maps item by item: the first that differs.
comparison compare_values(arena *a, const import_value *got, const import_value *want, tolerance t);
// "max abs 1e-07, max rel 2e-06", or what differs.
const char *comparison_text(arena *a, const comparison *c);
#endif
