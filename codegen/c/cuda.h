// CUDA text from loops: kernels with the device's indices for grid and thread loops. In: a module for
// ARCH_CUDA. Out: text that NVRTC takes without an include path, nvcc takes, and test/shim runs on a CPU.
//
// Functions with .kernel set become extern "C" __global__, others __device__. Each block runs one round of a
// grid loop, under a guard `if (i < end)`: the launch covers the loop, unless .grid says that it is smaller.
// A thread loop has no guard when .threads says that the block is as large, a guard when it is larger, and
// else runs on in steps of the block. A barrier or shuffle inside a thread loop that is not as large as the
// block is a defect: not all threads would come.
//
// Tensor cores are calls (L_CALL, result LK_VOID) of these names; d, a, b point to private arrays of
// registers with the fragment layout of mma.sync (PTX ISA, "Matrix fragments"), d += a * b:
//   mma_m16n8k8_f16    float d[4], a: 2 x 32 bits, b: 1
//   mma_m16n8k16_f16   float d[4], a: 4, b: 2
//   mma_m16n8k16_bf16  float d[4], a: 4, b: 2
//   mma_m16n8k8_tf32   float d[4], a: 4, b: 2
//   mma_m8n8k16_s8     int32_t d[2], a: 1, b: 1
//   mma_m16n8k32_s8    int32_t d[4], a: 4, b: 2; also _u8, _u8s8 (a without sign), _s8u8
// copy_16, copy_8 and copy_4 (to, from) copy as many bytes, both at multiples of so many, in one go.
// fragment_x4 (to, row): ldmatrix. Four words to private memory, each of a square of 8 rows of 16 bytes of
// shared memory, of which lane i of the warp names row i % 8 of square i / 8: lane 4 g + t gets word t of row
// g. fragment_x4_turned: rows 2 t and 2 t + 1 of column g instead, of 16-bit elements. async_16 (to, from)
// copies 16 bytes from global to shared memory, which are there when the thread has called async_wait_N and
// no more than N of its later groups, which async_commit ends, may be on their way; async_16_or_0 (to, from,
// there) zeros where there is 0, without a look at from. All of these are right from sm_75 on, where copies
// are over at once: shapes that it lacks are several smaller ones there, and bf16 and tf32 are multiply-adds
// of values that the warp exchanges.
//
// Groups of 128 threads multiply 64 rows by N columns from dynamic shared memory (ir/loops/loops_mma.h has
// the layout), wgmma where the code is for sm_90a, else fragment_x4 and mma_*; N: 16 to 256, T: f16, bf16,
// tf32, s8, u8s8, s8u8, u8, all of N / 2 registers d:
//   group_show()            what this thread wrote to shared memory may be multiplied after the next barrier
//   group_fence_nN_T(d)     the registers take part in what follows
//   group_nN_T_XY(d, a, lead_a, b, lead_b)   d += a * b of 32 bytes along K; X, Y: k, m where lines of shared
//                           memory run along the rows (columns) and 64 more begin lead bytes later, or c for
//                           core matrices
//   group_commit()          ends what is waited for together
//   group_wait_nN_T(d)      the results are there
//   group_leave_nN_T(d)     but for those of the latest products; the registers are not, before group_wait
//
// Bulk copies to shared memory, which all threads of the block call together: from sm_90 on one of them does
// it, else they share the copy as async_16, of which async_commit must end the group. at: a barrier, 8 bytes
// of shared memory.
//   bulk_init(at), bulk_show()     once; after the next barrier of the block it may be waited for
//   bulk_expect(at, bytes)         so many bytes come in this phase of it
//   bulk_copy(to, from, bytes, at, threads)   16-byte multiples all three; threads: of the block
//   bulk_wait_N(at, parity)        they came: parity is 0 for the first phase, 1 for the next, and so on;
//                                  N: as of async_wait_N
#ifndef ONNXC_CODEGEN_C_CUDA_H
#define ONNXC_CODEGEN_C_CUDA_H
#include "compiler/base/sink.h"
#include "ir/loops/loops.h"

// What the text asks wherever code for sm_90a is another than for sm_90.
#define CUDA_HAS_OWN "__CUDA_ARCH_FEAT_SM90_ALL"

void cuda_write(const lmodule *m, const sink *out, diag *d);
#endif
