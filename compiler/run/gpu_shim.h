// CUDA text of GPU kernels on this machine's CPU, behind test/shim: threads are fibers.
#ifndef ONNXC_COMPILER_RUN_GPU_SHIM_H
#define ONNXC_COMPILER_RUN_GPU_SHIM_H
#include "codegen/gpu/gpu_run.h"

typedef struct gpu_shim {
    void *library;
    void *launch; // shim_launch of the library
    linterp_order order;
} gpu_shim;

// Writes the module's text and has the system's C++ compiler make a library of it; folder: that of the shim,
// with cuda_shim.o for cuda_shim.c where that is compiled. What does not compile is a defect.
gpu_shim *gpu_shim_open(arena *a, diag *d, const lmodule *m, const char *folder, linterp_order order);
// A gpu_launcher; user: a gpu_shim.
const char *gpu_shim_launch(void *user, arena *a, const gpu_launch *l);
#endif
