// Layout assignment over the whole program, after fusion and before scheduling: which buffers lie
// channels-last and with a halo, which operands are packed in panels; explicit copies where a boundary needs
// another layout.
#ifndef ONNXC_PASSES_LAYOUT_LAYOUT_H
#define ONNXC_PASSES_LAYOUT_LAYOUT_H
#include "ir/kernel/program.h"
#include "ir/target.h"

void assign_channels(program *p); // channels-last, with copies at the boundaries
void make_halos(program *p);      // after parts of concatenations were joined (concat_elision.h)
void pack_panels(program *p);
void assign_gpu_layouts(program *p, const target *t); // layout_gpu.c
void round_constants(program *p, const target *t);    // round_constants.c, for GPUs, before layouts
const constant *tf32_constant(arena *a, const constant *c);

// Core matrices, 8 rows of 16 bytes, eight of them along K to a slice: how warpgroups of a GPU read an
// operand from shared memory. Axes of its buffer that are the rows and K, and the kernel's axis of K.
enum { CORE_ROWS = 8, SLICE_BYTES = 128, SLICE_CORES = 8 };
typedef struct core_axes {
    int row, k, reduced;
} core_axes;
struct contraction;
// schedule_gpu_bulk.c: whether an operand (its read) may lie so, and whether the product would make use of
// it.
bool gpu_find_cores(const target *t, const struct contraction *c, const expr *read, core_axes *found);
bool gpu_prefers_warpgroups(const target *t, const struct contraction *c);
layout layout_of_cores(const buffer *b, const core_axes *x); // layout_gpu.c
#endif
