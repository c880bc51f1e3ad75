// What tensor cores compute: the meaning of calls of mma_* and group_* in loops (codegen/c/cuda.h). In: the
// registers of a warp's threads, or shared memory. Out: one thread's results.
#ifndef ONNXC_IR_LOOPS_LOOPS_MMA_H
#define ONNXC_IR_LOOPS_LOOPS_MMA_H
#include "ir/graph/dtype.h"

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

// Products of a group of four warps from shared memory, 64 x n results: calls named group_n128_f16_km and
// the like, where the letters say how a and b lie there.
typedef enum lgroup_order {
    GROUP_K,     // letter k: lines of 128 bytes along K
    GROUP_M,     // m: along 64 rows (columns)
    GROUP_CORES, // c: core matrices of 8 rows x 16 bytes along K, eight side by side along K
} lgroup_order;
typedef struct lgroup {
    dtype a, b;
    int n;
    lgroup_order order_a, order_b;
} lgroup;
bool lgroup_named(const char *name, lgroup *g);
int lgroup_registers(const lgroup *g); // of a thread's results
int lgroup_depth(const lgroup *g);     // elements of K: 32 bytes
// Where element (row, k) of an operand that begins at p lies. Lines of 128 bytes hold 8 chunks of 16, which
// change places with the lowest three bits of the line's number (PTX ISA, "128-Byte swizzle"); those along
// rows have 64 of them, the next 64 begin `lead` bytes later. Core matrices have no swizzle.
uintptr_t lgroup_place(uintptr_t p, lgroup_order order, int64_t lead, int bytes, int row, int k);
// d += a * b of the group's thread number `thread`; a: 64 rows, b: n rows, each of lgroup_depth numbers.
void lgroup_apply(const lgroup *g, int thread, const double *a, const double *b, uint32_t *d);
#endif
