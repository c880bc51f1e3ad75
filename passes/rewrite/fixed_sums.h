// Rounded sums and products of two bytes with factors, in integers.
#ifndef ONNXC_PASSES_REWRITE_FIXED_SUMS_H
#define ONNXC_PASSES_REWRITE_FIXED_SUMS_H
#include "ir/kernel/edit.h"

// The same byte in integers, or with `bands` as x for few operands only; NULL: x is no such sum or product, or no integers give the
// same bytes.
expr *sum_in_integers(kernel *k, expr *x, bool bands);
#endif
