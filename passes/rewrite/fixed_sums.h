// Rounded sums of two bytes with factors, in integers.
#ifndef ONNXC_PASSES_REWRITE_FIXED_SUMS_H
#define ONNXC_PASSES_REWRITE_FIXED_SUMS_H
#include "ir/kernel/edit.h"

// The same byte in integers; NULL: x is not such a sum, or no integers give the same bytes.
expr *sum_in_integers(kernel *k, const expr *x);
#endif
