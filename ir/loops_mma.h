// What tensor cores compute: the meaning of calls of mma_* in loops (codegen/cuda.h). In: the registers of a
// warp's threads. Out: one thread's results.
#ifndef ONNXC_LOOPS_MMA_H
#define ONNXC_LOOPS_MMA_H
#include "ir/dtype.h"

// Results are m x 8, sums run over k; na, nb, nd: registers of a thread.
typedef struct lmma {
    const char *name;
    dtype a, b;
    int m, k, na, nb, nd;
} lmma;

const lmma *lmma_named(const char *name); // NULL: none
// d += a * b for thread `lane`; registers[i]: a and, behind it, b of the warp's thread i.
// What ldmatrix gives a lane: words of four squares of 8 rows, of which lane i of the warp brings row i % 8
// of square i / 8, 16 bytes; turned: columns of 16-bit elements instead of rows.
void lmma_squares(int lane, const uint32_t *const *rows, bool turned, uint32_t *d);
void lmma_apply(const lmma *t, int lane, const uint32_t *const *registers, uint32_t *d);
#endif
