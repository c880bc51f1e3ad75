// Requantisation to integers of 16 bits by a straight line, in floats or in integers.
#ifndef ONNXC_PASSES_REWRITE_HALF_LINES_H
#define ONNXC_PASSES_REWRITE_HALF_LINES_H
#include "passes/rewrite/byte_steps.h"

// The integer that chain c makes of its leaf and x is; NULL: it is no line.
expr *half_of_line(arena *scratch, chain *c, expr *x, bool floats);
#endif
