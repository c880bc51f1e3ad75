// NVIDIA's run-time compiler, opened on demand: onnxc does not link with CUDA or include its headers. In:
// CUDA text. Out: PTX or a cubin for one architecture.
#ifndef ONNXC_CODEGEN_GPU_NVRTC_H
#define ONNXC_CODEGEN_GPU_NVRTC_H
#include "codegen/llvm/cache.h"
#include "compiler/base/arena.h"
#include "compiler/base/diag.h"

// Architectures are numbers: 80 for sm_80, GPU_OWN + 90 for sm_90a, whose code runs only there.
enum { GPU_OWN = 1000 };
static inline int gpu_arch_number(int sm) { return sm % GPU_OWN; }
static inline const char *gpu_arch_letter(int sm) { return sm > GPU_OWN ? "a" : ""; }

typedef struct nvrtc {
    const char *path; // of the library
    int major, minor;
    int narchs;
    const int *archs;   // supported architectures: 75, 80, 90 ...; narchs 0: the library is too old to tell
    const cache *cache; // of results; NULL: none
    struct nvrtc_api *api;
} nvrtc;

// where: the library, or a folder that contains it (also a toolkit, or site-packages with PyPI's
// nvidia-cuda-nvrtc); NULL: /usr/local/cuda*, /opt/cuda, then the loader's search path. Returns NULL if there
// is none, which is reported to d unless d is NULL.
nvrtc *nvrtc_open(arena *a, const char *where, diag *d);
// For --list-targets: version and architectures, or that no library was found.
const char *nvrtc_list_text(arena *a, const char *where);
bool nvrtc_knows(const nvrtc *n, int sm);
// Compiles without contraction: the text calls fmaf for fused multiply-adds. All kernels of a module are one
// program, because separate programs take several times as long. An unknown architecture is reported as
// missing, a compile error as a defect with NVRTC's log; both are fatal.
const char *nvrtc_ptx(const nvrtc *n, arena *a, const char *name, const char *cuda, int sm, diag *d);
typedef struct nvrtc_made {
    const void *code; // a cubin
    size_t size;
    const char *ptx; // of the code; NULL: the library does not provide it
    const char *log; // ptxas -v about the functions; "": the library does not provide it
} nvrtc_made;
nvrtc_made nvrtc_cubin(const nvrtc *n, arena *a, const char *name, const char *cuda, int sm, bool with_ptx,
                       diag *d);
#endif
