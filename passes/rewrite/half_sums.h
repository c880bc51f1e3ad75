// Sums and products of two integers of 16 bits, rounded to such an integer, without floating point.
#ifndef ONNXC_PASSES_REWRITE_HALF_SUMS_H
#define ONNXC_PASSES_REWRITE_HALF_SUMS_H
#include "ir/kernel/kernel.h"

// The expression in integers that gives x, or its neighbours where x's floats round; NULL: x has another form.
expr *half_of_sum(kernel *k, expr *x);
#endif
