// Shared by the GPU schedules.
#ifndef ONNXC_PASSES_SCHEDULE_GPU_SCHEDULE_GPU_IMPL_H
#define ONNXC_PASSES_SCHEDULE_GPU_SCHEDULE_GPU_IMPL_H
#include "ir/loops/loops_gpu.h"
#include "passes/match/attention.h"
#include "passes/match/contract.h"
#include "passes/schedule/common/emit.h"

typedef struct gpu {
    emitter *e;
    lbuild *b;
    ins *grid, *thread; // loops
} gpu;

dim *gpu_product_of(const emitter *e, const int *axes, int n); // product of the extents
// Opens the loops over blocks and over the threads of a block; subsequent code runs in every thread.
void gpu_launch(gpu *g, dim *blocks, int threads);
void gpu_land(gpu *g); // closes them
// Sets the counters of the axes from a position >= 0 in their row-major product, which is not empty where
// this runs.
void gpu_set_counters(gpu *g, const int *axes, int n, ins *position);
void gpu_clear_counters(gpu *g, const int *axes, int n);
// A loop of n iterations that is unrolled.
static inline ins *gpu_unroll(lbuild *b, const char *name, int n) {
    return lb_for(b, name, lb_idx(b, 0), lb_idx(b, n), lb_idx(b, 1), LOOP_UNROLL);
}
// Unsigned remainder and quotient of x >= 0; 0 if `by` is the constant 0.
ins *gpu_mod(lbuild *b, ins *x, ins *by);
ins *gpu_div(lbuild *b, ins *x, ins *by);
static inline ins *gpu_modk(lbuild *b, ins *x, int64_t by) { return gpu_mod(b, x, lb_idx(b, by)); }
static inline ins *gpu_divk(lbuild *b, ins *x, int64_t by) { return gpu_div(b, x, lb_idx(b, by)); }

// schedule_gpu_index.c: whether every position and byte offset, and all intermediate values, fit 32 bits.
bool gpu_index_fits_32(const emitter *e);
// schedule_gpu_attention.c: in kernels whose signature has no memory for locals
bool gpu_attention_fits(const emitter *e, attention *a);
void gpu_schedule_attention(gpu *g, const attention *a);
// schedule_gpu_product.c
bool gpu_product_fits(const contraction *c);
void gpu_schedule_product(gpu *g, const contraction *c);
#endif
