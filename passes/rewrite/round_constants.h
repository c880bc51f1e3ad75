// Compile-time rounding of constants that GPU products would round at run time. Before layout assignment.
#ifndef ONNXC_PASSES_REWRITE_ROUND_CONSTANTS_H
#define ONNXC_PASSES_REWRITE_ROUND_CONSTANTS_H
#include "ir/kernel/program.h"
#include "ir/target.h"

void round_constants(program *p, const target *t);
const constant *tf32_constant(arena *a, const constant *c);
#endif
