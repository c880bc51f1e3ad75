// Winograd convolutions: F(4x4, 3x3), tiles of 4 x 4 results from 36 products instead of 144, and F(2x2,
// 3x3), 2 x 2 results from 16 instead of 36. Lavin and Gray, "Fast Algorithms for Convolutional Neural
// Networks", 2015.
#ifndef ONNXC_PASSES_REWRITE_WINOGRAD_H
#define ONNXC_PASSES_REWRITE_WINOGRAD_H
#include "passes/rewrite/algorithm.h"

extern const algorithm winograd_algorithm, small_winograd_algorithm; // tiles of 4 x 4, of 2 x 2
// The logical axis of b that the Winograd kernel k vectorises, so that b should be stored with it innermost;
// -1: none, or k is not such a kernel, or the algorithm itself lays out b.
int winograd_channel(const kernel *k, const buffer *b);
#endif
