// Rounding of f32 constants to tf32, as tensor cores do.
#ifndef ONNXC_PASSES_REWRITE_ROUND_CONSTANTS_H
#define ONNXC_PASSES_REWRITE_ROUND_CONSTANTS_H
#include "ir/kernel/program.h"

const constant *tf32_constant(arena *a, const constant *c);
// c with elements rounded to the type as, f16 or bf16.
const constant *round_constant(arena *a, const constant *c, dtype as);
#endif
