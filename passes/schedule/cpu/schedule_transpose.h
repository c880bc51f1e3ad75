// The schedule of pointwise kernels that read along one axis and write along another.
#ifndef ONNXC_PASSES_SCHEDULE_CPU_SCHEDULE_TRANSPOSE_H
#define ONNXC_PASSES_SCHEDULE_CPU_SCHEDULE_TRANSPOSE_H
#include "passes/schedule/common/nest.h"

typedef struct transpose {
    nest *n;
    expr *read; // the read that is contiguous along u
    int u, v;   // the write is contiguous along v
    int w,
        unit; // or that many elements, which both have side by side along w, move as one, and w is -1 otherwise
    int lanes;   // of a tile
    int rows;    // of it: as many, or 1 where lanes are loaded from as many rows at once
    bool always; // both axes always contain a tile
} transpose;

// row[j] lane i becomes row[i] lane j; `lanes` rows of as many lanes, a power of two, 16 at most.
void transpose_rows(lbuild *b, ins **row, int lanes);
bool transpose_find(nest *n, transpose *t);
void transpose_tasks(const transpose *t); // for the whole kernel
// Emits the loops; if not `always`, valid only if transpose_fits holds at run time.
void schedule_transpose(transpose *t);
ins *transpose_fits(const transpose *t); // I1
enum { TRANSPOSE_TILES = 2 };            // sizes of tiles, at most
// The smallest tiles, for what does not fit larger ones; false: these are the smallest.
bool transpose_narrow(transpose *t);
#endif
