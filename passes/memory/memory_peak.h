// Where a memory plan needs most.
#ifndef ONNXC_PASSES_MEMORY_MEMORY_PEAK_H
#define ONNXC_PASSES_MEMORY_MEMORY_PEAK_H
#include "passes/memory/memory_plan.h"

typedef struct memory_use {
    int64_t bytes; // in use; results in place share the memory of their operand
    int step;
    const kernel *kernel; // of that step; NULL: it is another one
} memory_use;
typedef VEC(memory_use) memory_uses;

// A loop over patches: kernels first to last, by id.
typedef struct patch_loop {
    int first, last;
    int64_t steps, rows;
} patch_loop;
typedef VEC(patch_loop) patch_loops;
patch_loops memory_patches(arena *a, const program *p);

// Steps at which memory comes into use, those with most of it first. None: sizes are symbolic, or there are no temporaries.
memory_uses memory_peaks(arena *a, const program *p, const memory_plan *plan);
#endif
