// Storage of halves: buffers of 16-bit floats that products read many times.
#ifndef ONNXC_PASSES_REWRITE_WIDEN_H
#define ONNXC_PASSES_REWRITE_WIDEN_H
#include "ir/kernel/program.h"

// Temporaries of f16 and bf16 that a product reads once for each of many results hold f32 instead, rounded as
// before; of inputs there are copies. For processors that compute in f32. Before layouts are assigned.
void widen_halves(program *p);
#endif
