// CUDA text from loops: grid and thread loops become the device's indices. In: a module for a CUDA target.
// Out: text that NVRTC compiles without an include path, nvcc compiles, and test/shim runs on a CPU.
//
// Functions with .kernel set become extern "C" __global__, others __device__. Each block executes one
// iteration of a grid loop, under a guard `if (i < end)`: the launch covers the loop, unless .grid says that
// it is smaller. A thread loop has no guard if .threads says that it is as large as the block, a guard if it
// is smaller, and otherwise advances by the size of the block. A barrier or shuffle inside a thread loop of
// another size than the block is a defect, because not all threads would reach it.
//
// GPU instructions (ir/loops/loops_gpu.h) are functions of the prelude, or of ctext_warpgroup.c.
#ifndef ONNXC_CODEGEN_C_CUDA_H
#define ONNXC_CODEGEN_C_CUDA_H
#include "compiler/base/sink.h"
#include "ir/loops/loops.h"

// The macro by which text for sm_90a and for sm_90 differs.
#define CUDA_HAS_OWN "__CUDA_ARCH_FEAT_SM90_ALL"

void cuda_write(const lmodule *m, const sink *out, diag *d);
#endif
