// Rounding of f32 constants to tf32, as tensor cores do.
#ifndef ONNXC_PASSES_REWRITE_ROUND_CONSTANTS_H
#define ONNXC_PASSES_REWRITE_ROUND_CONSTANTS_H
#include "ir/kernel/program.h"

const constant *tf32_constant(arena *a, const constant *c);
#endif
