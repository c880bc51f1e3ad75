// CUDA text from loops: kernels with the device's indices for grid and thread loops. In: a module for
// a CUDA target. Out: text that NVRTC takes without an include path, nvcc takes, and test/shim runs on a CPU.
//
// Functions with .kernel set become extern "C" __global__, others __device__. Each block runs one round of a
// grid loop, under a guard `if (i < end)`: the launch covers the loop, unless .grid says that it is smaller.
// A thread loop has no guard when .threads says that the block is as large, a guard when it is larger, and
// else runs on in steps of the block. A barrier or shuffle inside a thread loop that is not as large as the
// block is a defect: not all threads would come.
//
// Instructions of GPUs (ir/loops/loops_gpu.h) are functions of the prelude, or of ctext_warpgroup.c.
#ifndef ONNXC_CODEGEN_C_CUDA_H
#define ONNXC_CODEGEN_C_CUDA_H
#include "compiler/base/sink.h"
#include "ir/loops/loops.h"

// What the text asks wherever code for sm_90a is another than for sm_90.
#define CUDA_HAS_OWN "__CUDA_ARCH_FEAT_SM90_ALL"

void cuda_write(const lmodule *m, const sink *out, diag *d);
#endif
