// Compares values as numpy.testing.assert_allclose does: |got - want| <= atol + rtol * |want|, NaN equals
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
    int64_t first;            // index of the first such element
    const char *got, *want;   // its values as text
    const char *at;           // its position, "[1, 0]"
    double max_abs, max_rel;  // largest errors anywhere
    const char *why;          // difference of kind, dtype or shape; NULL: none
} comparison;
comparison compare_tensors(arena *a, const tensor *got, const tensor *want, tolerance t);
// Compares sequences, optionals and maps item by item: reports the first that differs.
comparison compare_values(arena *a, const import_value *got, const import_value *want, tolerance t);
// "max abs 1e-07, max rel 2e-06", or the difference.
const char *comparison_text(arena *a, const comparison *c);
#endif
