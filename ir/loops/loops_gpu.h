// Instructions of GPUs that loops say as one (L_GPU): copies, barriers and products of matrices, as the PTX ISA
// has them. In: what an instruction's fields and operands are. Out: its name, and whether it is a valid one.
#ifndef ONNXC_IR_LOOPS_LOOPS_GPU_H
#define ONNXC_IR_LOOPS_LOOPS_GPU_H
#include "ir/loops/loops.h"

// X(enumerator, name, fields, operands)
// Fields, in the order in which names have them: t transposed, c count, k shape with m and k, n shape with n,
// e element types, o orders. Operands: r registers, an array of the thread (of GPU_MMA and GPU_WGMMA* the first is
// the sums, f32 or i32); s shared memory; g other memory; p any of them; i a number of 32 bits.
//
// All of them are right from sm_75 on: the text for CUDA says older devices the same by what they have.
//
//   GPU_COPY           to, from: count bytes (4, 8, 16), both at multiples of so many, in one go
//   GPU_LDMATRIX       to, row: four words, each of an 8x8 matrix of 16-bit elements, of which lane i of the warp
//                      brings row i % 8 of matrix i / 8: lane 4 g + t gets word t of row g. transposed: rows 2 t
//                      and 2 t + 1 of column g instead
//   GPU_MMA            d, a, b: d += a * b by a warp (PTX ISA, "Matrix fragments")
//   GPU_CP_ASYNC       to, from: 16 bytes, there when the thread has waited for their group;
//                      _ZFILL: zeros where the third operand is 0, without a look at from
//   GPU_CP_ASYNC_COMMIT, _WAIT   closes a group; waits until count groups are on their way at most
//   GPU_MBARRIER_INIT, _FENCE    at: 8 bytes, once; after the next barrier of the block it may be waited for
//   GPU_MBARRIER_EXPECT          at, bytes: so many come in this phase of it
//   GPU_MBARRIER_WAIT  at, parity: they came. Parity is 0 for the first phase, 1 for the next, and so on. Devices
//                      without bulk copies wait for count groups of cp.async, as these shared the copies
//   GPU_BULK_COPY      to, from, bytes, at, threads: multiples of 16; all `threads` of the block call it
//   GPU_PROXY_FENCE    what this thread wrote to shared memory may be multiplied after the next barrier
//   GPU_WGMMA          d, a, leading byte offset, b, leading byte offset: d += a * b by a warpgroup, 64 rows by n
//                      columns, 32 bytes along K, from shared memory (ir/loops/loops_mma.h has the layout)
//   GPU_WGMMA_FENCE    d: the registers take part in what follows
//   GPU_WGMMA_COMMIT, _WAIT      closes a group; waits as for copies. The results are there when count is 0
#define GPU_OPS(X)                                                                                           \
    X(GPU_COPY, "copy", "c", "pp")                                                                           \
    X(GPU_LDMATRIX, "ldmatrix_x4", "t", "rs")                                                                \
    X(GPU_MMA, "mma", "ke", "rrr")                                                                           \
    X(GPU_CP_ASYNC, "cp_async", "", "sg")                                                                    \
    X(GPU_CP_ASYNC_ZFILL, "cp_async_zfill", "", "sgi")                                                       \
    X(GPU_CP_ASYNC_COMMIT, "cp_async_commit", "", "")                                                        \
    X(GPU_CP_ASYNC_WAIT, "cp_async_wait", "c", "")                                                           \
    X(GPU_MBARRIER_INIT, "mbarrier_init", "", "s")                                                           \
    X(GPU_MBARRIER_FENCE, "mbarrier_fence", "", "")                                                          \
    X(GPU_MBARRIER_EXPECT, "mbarrier_expect", "", "si")                                                      \
    X(GPU_MBARRIER_WAIT, "mbarrier_wait", "c", "si")                                                         \
    X(GPU_BULK_COPY, "bulk_copy", "", "sgisi")                                                               \
    X(GPU_PROXY_FENCE, "proxy_fence", "", "")                                                                \
    X(GPU_WGMMA, "wgmma", "neo", "rsisi")                                                                    \
    X(GPU_WGMMA_FENCE, "wgmma_fence", "ne", "r")                                                             \
    X(GPU_WGMMA_COMMIT, "wgmma_commit", "", "")                                                              \
    X(GPU_WGMMA_WAIT, "wgmma_wait", "cne", "r")

typedef enum gpu_op {
#define X(e, name, fields, operands) e,
    GPU_OPS(X)
#undef X
        GPU_OP_COUNT
} gpu_op;

// Layout of an operand of GPU_WGMMA in shared memory.
typedef enum gpu_order {
    ORDER_K,     // lines of 128 bytes along K
    ORDER_M,     // along 64 rows (columns), 16-bit elements
    ORDER_CORES, // core matrices of 8 rows x 16 bytes along K, eight side by side along K
} gpu_order;

// Unused fields are 0. All are ints, so that instructions can be compared as bytes.
struct gpu_ins {
    gpu_op op;
    dtype a, b; // DT_F32: TF32
    int m, n, k;
    gpu_order order_a, order_b;
    int transposed, count;
};

const char *gpu_ins_name(arena *a, const gpu_ins *g); // "wgmma_n128_f16_km": all of its fields
const char *gpu_types_name(const gpu_ins *g);         // "f16", "u8s8"; NULL: they are not multiplied
char gpu_order_letter(gpu_order o);                   // k, m, c
const char *gpu_ins_error(const ins *x);              // an error in it or its operands; NULL: none
// GPU_MMA and GPU_WGMMA*: registers per thread for the sums, a and b.
int gpu_sums(const gpu_ins *g);
int gpu_words_a(const gpu_ins *g);
int gpu_words_b(const gpu_ins *g);
void lb_gpu(lbuild *b, gpu_ins g, ins *const *args); // with the operands that the instruction takes
#endif
