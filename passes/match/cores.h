// Core matrices, 8 rows of 16 bytes, eight of them along K in a K tile: the order in which warpgroups of a
// GPU read an operand from shared memory.
#ifndef ONNXC_PASSES_MATCH_CORES_H
#define ONNXC_PASSES_MATCH_CORES_H
#include "ir/kernel/kernel.h"

enum { CORE_ROWS = 8, SLICE_BYTES = 128, SLICE_CORES = 8 };
// The row and K axes of an operand's buffer, and the kernel's K axis.
typedef struct core_axes {
    int row, k, reduced;
} core_axes;
layout layout_of_cores(const buffer *b, const core_axes *x);
#endif
