// Runs CUDA text on this machine's CPU with test/shim: threads are fibers.
#ifndef ONNXC_COMPILER_RUN_GPU_SHIM_H
#define ONNXC_COMPILER_RUN_GPU_SHIM_H
#include "codegen/gpu/gpu_run.h"

typedef struct gpu_shim {
    void *library;
    void *launch; // shim_launch of the library
    linterp_order order;
} gpu_shim;

// Compiles the text of the module with the system's C++ compiler; folder: that of the shim, with cuda_shim.o
// or cuda_shim.c. A compile error is a defect.
gpu_shim *gpu_shim_open(arena *a, diag *d, const lmodule *m, const char *folder, linterp_order order);
// A gpu_launcher; user: a gpu_shim.
const char *gpu_shim_launch(void *user, arena *a, const gpu_launch *l);
#endif
