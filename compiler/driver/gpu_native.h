// Targets of GPU code that is run immediately.
#ifndef ONNXC_COMPILER_DRIVER_GPU_NATIVE_H
#define ONNXC_COMPILER_DRIVER_GPU_NATIVE_H
#include "compiler/base/arena.h"

// The architectures of this machine's GPUs, without duplicates and numbered as in codegen/gpu/nvrtc.h; for a
// GPU newer than NVRTC, the newest that NVRTC knows. 0: no GPU or no NVRTC.
int gpu_native_archs(arena *a, const char *nvrtc, int **archs);
// Keeps the primary context of the first GPU until the process ends: creating it takes longer than most runs.
void gpu_native_hold(void);
#endif
