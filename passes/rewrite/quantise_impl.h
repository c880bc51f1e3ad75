// Quantised contractions: sums of products of dequantised values become sums of products of the stored
// integers. After fusion (which moves the dequantisation into the contraction) and before layout assignment.
//
//   quantise.c          products of two integers
//   quantise_weights.c  products of floats and dequantised weights
#ifndef ONNXC_PASSES_REWRITE_QUANTISE_IMPL_H
#define ONNXC_PASSES_REWRITE_QUANTISE_IMPL_H
#include "ir/kernel/program.h"
#include "ir/target.h"
#include "passes/passes.h"

// Rounding of the result. The standard defines a QDQ chain by its operators: fl((q - z) * s) for each
// operand, Conv or MatMul of these, QuantizeLinear. Here the sum is an exact sum of integers; scales, bias,
// activation, division and rounding stay in float32 as the operators define them.
//
// Sums of integers (QLinearConv, QLinearMatMul, MatMulInteger, ConvInteger) are exact.
//
// Scales of at most 12 significant bits (powers of two and such) have exact products with bytes and with each
// other: while sums stay below 2^24 steps, the result is the exact sum rounded once, as with the standard's
// operators. With FP_STRICT only these are rewritten.
//
// With other scales the difference from the exact sum of rounded products is at most 2^-22 of the sum of the
// products' magnitudes. After QuantizeLinear it is visible only if a value is that close to the middle
// between two steps.
//
// The result is bit-identical on all targets, because integer sums do not depend on their order.

// k has one stage with one sum that starts at 0 and is written at its end.
void quantise_weights(kernel *k, bool strict);
#endif
