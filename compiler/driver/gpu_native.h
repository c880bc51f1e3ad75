// What code for GPUs that runs at once is compiled for.
#ifndef ONNXC_COMPILER_DRIVER_GPU_NATIVE_H
#define ONNXC_COMPILER_DRIVER_GPU_NATIVE_H
#include "compiler/base/arena.h"

// The architectures of this machine's GPUs, each once and as codegen/gpu/nvrtc.h numbers them, as far as that
// NVRTC knows them: of a newer GPU the newest that it does. 0: no GPU or no NVRTC.
int gpu_native_archs(arena *a, const char *nvrtc, int **archs);
// Until the process ends the first GPU's primary context is there: making it takes longer than many a run.
void gpu_native_hold(void);
#endif
