// Requantisation to integers of 16 bits by a straight line, in floats or in integers.
#ifndef ONNXC_PASSES_REWRITE_HALF_LINES_H
#define ONNXC_PASSES_REWRITE_HALF_LINES_H
#include "passes/rewrite/byte_steps.h"

// Replaces x, the integer that chain c computes from its leaf; NULL: it is not a straight line.
expr *half_of_line(arena *scratch, chain *c, expr *x, bool floats);
#endif
