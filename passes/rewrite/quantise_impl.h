// What the files of the quantisation pass share.
//
//   quantise.c          products of two integers
//   quantise_weights.c  products of floats and dequantised weights
#ifndef ONNXC_PASSES_REWRITE_QUANTISE_IMPL_H
#define ONNXC_PASSES_REWRITE_QUANTISE_IMPL_H
#include "passes/rewrite/quantise.h"

// k has one stage with one sum that starts at 0, written when it is done.
void quantise_weights(kernel *k, bool strict);
#endif
