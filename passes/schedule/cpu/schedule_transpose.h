// The schedule of pointwise kernels that read along one axis and write along another.
#ifndef ONNXC_PASSES_SCHEDULE_CPU_SCHEDULE_TRANSPOSE_H
#define ONNXC_PASSES_SCHEDULE_CPU_SCHEDULE_TRANSPOSE_H
#include "passes/schedule/common/nest.h"

typedef struct transpose {
    nest *n;
    expr *read;  // the one that lies along u
    int u, v;    // the write lies along v
    int lanes;   // of a square tile
    bool always; // both axes are known to hold a tile
} transpose;

bool transpose_find(nest *n, transpose *t);
void transpose_tasks(const transpose *t); // for the whole kernel
// The loops. Not always: only for when transpose_fits holds at run time.
void schedule_transpose(transpose *t);
ins *transpose_fits(const transpose *t); // I1
#endif
