// Core matrices, 8 rows of 16 bytes, eight of them along K to a slice: how warpgroups of a GPU read an operand
// from shared memory.
#ifndef ONNXC_PASSES_MATCH_CORES_H
#define ONNXC_PASSES_MATCH_CORES_H
#include "ir/kernel/kernel.h"

enum { CORE_ROWS = 8, SLICE_BYTES = 128, SLICE_CORES = 8 };
// Axes of an operand's buffer that are the rows and K, and the kernel's axis of K.
typedef struct core_axes {
    int row, k, reduced;
} core_axes;
layout layout_of_cores(const buffer *b, const core_axes *x);
#endif
