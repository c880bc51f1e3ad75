// GPU code of a program. In: a program after its passes. Out: a module with one function for each different
// kernel, the launches that refer to them, and their PTX or cubin.
#ifndef ONNXC_CODEGEN_GPU_GPU_H
#define ONNXC_CODEGEN_GPU_GPU_H
#include "codegen/gpu/nvrtc.h"
#include "ir/kernel/program.h"
#include "passes/schedule/common/schedule.h"

// What a thread and a block of a function take, as ptxas counts it.
typedef struct gpu_use {
    int registers;   // of a thread, of 32 bits; 0: it is not known
    int64_t stack;   // of a thread, bytes
    int64_t spilled; // bytes that instructions put there and take from there, for want of registers
    int64_t shared;  // of a block, bytes, with what a launch brings
} gpu_use;
typedef struct gpu_uses {
    int sm;
    gpu_use *of; // by number of the function
} gpu_uses;
typedef VEC(gpu_uses) gpu_use_list;

typedef struct gpu_code {
    lmodule *module;
    kernel_code **kernels; // by kernel id, NULL for those that no step runs; equal kernels share a function
    int nkernels;
    map *by_size;       // instructions -> the latest function of the module with so many
    gpu_use_list *uses; // for each architecture that gpu_cubin made code for
} gpu_code;

// t: a CUDA target. Without host code what has no kernel (library functions) is reported to d as missing.
gpu_code *gpu_schedule(program *p, const char *name, const target *t, bool with_host, diag *d);
// The same into the module of `before`, for a version of the program; names end in suffix. NULL: a new one.
gpu_code *gpu_schedule_version(const gpu_code *before, program *p, const char *name, const char *suffix,
                               const target *t, bool with_host, diag *d);
// Large modules go through NVRTC in several programs of GPU_BATCH functions; their PTX is joined.
enum { GPU_BATCH = 50 };
const char *gpu_ptx(const gpu_code *g, arena *a, const nvrtc *n, int sm, diag *d);
// One program: cubins cannot be joined without NVIDIA's linker. Notes what its functions use.
nvrtc_made gpu_cubin(const gpu_code *g, arena *a, const nvrtc *n, int sm, bool with_ptx, diag *d);
gpu_use *gpu_read_uses(const lmodule *m, const char *said); // by ptxas with -v
// A number for gpu_uses.
int gpu_function_number(const gpu_code *g, const lfunc *f);
// Code for sm_90a differs from that for sm_90.
bool gpu_has_own(const gpu_code *g, arena *a, diag *d);

// The code that an object brings along, for one architecture each; PTX for newer ones too.
typedef struct gpu_image {
    int sm;      // codegen/gpu/nvrtc.h
    bool is_ptx; // text that ends with a NUL, which size counts
    const void *code;
    size_t size;
} gpu_image;
const char *gpu_images_symbol(arena *a, const char *name); // of the model of that name
ldata *gpu_images_data(const gpu_code *g, arena *a, const char *name, const gpu_image *images, int n);
#endif
