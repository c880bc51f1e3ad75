// Widening of 16-bit floats that products read many times.
#ifndef ONNXC_PASSES_REWRITE_WIDEN_H
#define ONNXC_PASSES_REWRITE_WIDEN_H
#include "ir/kernel/program.h"

// Temporaries of f16 and bf16 that products read many times become f32, rounded as before; inputs are copied.
// For processors that compute in f32. Before layout assignment.
void widen_halves(program *p);
#endif
