// CUDA text from loops: kernels with the device's indices for grid and thread loops. In: a module for
// ARCH_CUDA. Out: text that NVRTC takes without an include path, nvcc takes, and test/shim runs on a CPU.
//
// Functions with .kernel set become extern "C" __global__, others __device__. A thread or grid loop is
// guarded by `if (i < end)` unless .threads / .grid say that it covers exactly the launch. A barrier or
// shuffle inside a guarded thread loop is a defect: not all threads would come.
//
// Tensor cores are calls (L_CALL, result LK_VOID) of these names; d, a, b point to private arrays of
// registers with the fragment layout of mma.sync (PTX ISA, "Matrix fragments"), d += a * b:
//   mma_m16n8k8_f16    float d[4], a: 2 x 32 bits, b: 1        sm_75
//   mma_m16n8k16_f16   float d[4], a: 4, b: 2                  sm_80
//   mma_m16n8k16_bf16  float d[4], a: 4, b: 2                  sm_80
//   mma_m16n8k8_tf32   float d[4], a: 4, b: 2                  sm_80
//   mma_m8n8k16_s8     int32_t d[2], a: 1, b: 1                sm_75
//   mma_m16n8k32_s8    int32_t d[4], a: 4, b: 2                sm_80
//   mma_m16n8k32_u8s8  int32_t d[4], a: 4 unsigned, b: 2       sm_80
#ifndef ONNXC_CUDA_H
#define ONNXC_CUDA_H
#include "codegen/sink.h"
#include "ir/loops.h"

void cuda_write(const lmodule *m, const sink *out, diag *d);
#endif
