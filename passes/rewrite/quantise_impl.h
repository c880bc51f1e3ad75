// Integer contractions: sums of products of dequantised values become sums of products of the stored
// integers. After fusion (which brings the dequantisation into the contraction) and before layouts.
//
//   quantise.c          products of two integers
//   quantise_weights.c  products of floats and dequantised weights
#ifndef ONNXC_PASSES_REWRITE_QUANTISE_IMPL_H
#define ONNXC_PASSES_REWRITE_QUANTISE_IMPL_H
#include "ir/kernel/program.h"
#include "ir/target.h"
#include "passes/passes.h"

// How the result rounds. The standard defines a QDQ chain by its operators: fl((q - z) * s) for each operand,
// Conv or MatMul of those, QuantizeLinear. Here the sum is that of the integers, which is exact; what follows
// it (scales, bias, activation, division, rounding) stays in float32 as the operators say.
//
// Sums of integers (QLinearConv, QLinearMatMul, MatMulInteger, ConvInteger) keep every bit.
//
// Scales of at most 12 significant bits (powers of two and such) have exact products with bytes and with each
// other: while sums stay below 2^24 steps the result is the exact sum rounded once, as the standard's
// operators give it. Only these are rewritten where target->fp is FP_STRICT.
//
// Other scales differ from the exact sum of the rounded products by at most 2^-22 of the sum of its products'
// magnitudes, seen after QuantizeLinear only where a value lies that close to the middle of two steps.
//
// The result is the same bits on every target: integers have no order of summation.

// k has one stage with one sum that starts at 0, written when it is done.
void quantise_weights(kernel *k, bool strict);
#endif
