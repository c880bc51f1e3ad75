// Semantics of tensor cores: products and loads of matrices in loops. In: registers of the threads of a warp,
// or shared memory. Out: the results of one thread.
#ifndef ONNXC_IR_LOOPS_LOOPS_MMA_H
#define ONNXC_IR_LOOPS_LOOPS_MMA_H
#include "ir/loops/loops_gpu.h"

// GPU_LDMATRIX: the words of a lane, where lane i of the warp provides rows[i].
void mma_load_matrices(int lane, const uint32_t *const *rows, bool transposed, uint32_t *d);
// GPU_MMA for thread `lane`; registers[i]: a, followed by b, of thread i of the warp.
void mma_apply(const gpu_ins *g, int lane, const uint32_t *const *registers, uint32_t *d);
// GPU_WGMMA: where element (row, k) of an operand that begins at p lies. Lines of 128 bytes hold 8 chunks of 16,
// which change places with the lowest three bits of the line's number (PTX ISA, "128-Byte swizzle"); those along
// rows have 64 of them, the next 64 begin `lead` bytes later. Core matrices have no swizzle.
uintptr_t wgmma_address(uintptr_t p, gpu_order order, int64_t lead, int bytes, int row, int k);
// d += a * b for thread `thread` of the warpgroup; a has 64 rows, b n rows, of k numbers each.
void wgmma_apply(const gpu_ins *g, int thread, const double *a, const double *b, uint32_t *d);
#endif
