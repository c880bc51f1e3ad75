// GPU code of a program. In: a program after its passes. Out: a module with one function for each different
// kernel, the launches that refer to them, and their PTX or cubin.
#ifndef ONNXC_CODEGEN_GPU_GPU_H
#define ONNXC_CODEGEN_GPU_GPU_H
#include "codegen/gpu/nvrtc.h"
#include "ir/kernel/program.h"
#include "passes/schedule/common/schedule.h"

// Resources of a function's threads and blocks, as ptxas reports them.
typedef struct gpu_use {
    int registers;   // 32-bit registers of a thread; 0: not known
    int64_t stack;   // bytes of a thread
    int64_t spilled; // bytes of spill stores and loads
    int64_t shared;  // bytes of a block, including dynamic shared memory
} gpu_use;
typedef struct gpu_uses {
    int sm;
    gpu_use *of; // by function number
} gpu_uses;
typedef VEC(gpu_uses) gpu_use_list;

typedef struct gpu_code {
    lmodule *module;
    kernel_code **kernels; // by kernel id; NULL: no step runs it. Equal kernels share a function
    int nkernels;
    map *by_size;       // number of instructions -> the latest function of that size
    gpu_use_list *uses; // one for each architecture of gpu_cubin
} gpu_code;

// t: a CUDA target. Without host code, library functions are reported to d as missing.
gpu_code *gpu_schedule(program *p, const char *name, const target *t, bool with_host, diag *d);
// The same for a version of the program, into the module of `before` (NULL: a new one). Names end in suffix.
gpu_code *gpu_schedule_version(const gpu_code *before, program *p, const char *name, const char *suffix,
                               const target *t, bool with_host, diag *d);
// Compiles large modules as several programs of GPU_BATCH functions and joins their PTX.
enum { GPU_BATCH = 50 };
const char *gpu_ptx(const gpu_code *g, arena *a, const nvrtc *n, int sm, diag *d);
// Compiles one program, since joining cubins requires NVIDIA's linker. Records the use of its functions.
nvrtc_made gpu_cubin(const gpu_code *g, arena *a, const nvrtc *n, int sm, bool with_ptx, diag *d);
gpu_use *gpu_read_uses(const lmodule *m, const char *log); // of ptxas -v
int gpu_function_number(const gpu_code *g, const lfunc *f);
// Whether code for sm_90a differs from that for sm_90.
bool gpu_has_own(const gpu_code *g, arena *a, diag *d);

// Code in an object for one architecture; PTX also serves newer ones.
typedef struct gpu_image {
    int sm;      // codegen/gpu/nvrtc.h
    bool is_ptx; // NUL-terminated text; size includes the NUL
    const void *code;
    size_t size;
} gpu_image;
const char *gpu_images_symbol(arena *a, const char *name); // of the model of that name
ldata *gpu_images_data(const gpu_code *g, arena *a, const char *name, const gpu_image *images, int n);
#endif
