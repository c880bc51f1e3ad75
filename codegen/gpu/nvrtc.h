// NVIDIA's run-time compiler, opened when it is needed: nothing of CUDA is linked and no header is included.
// In: CUDA text. Out: PTX or a cubin for one architecture.
#ifndef ONNXC_CODEGEN_GPU_NVRTC_H
#define ONNXC_CODEGEN_GPU_NVRTC_H
#include "codegen/llvm/cache.h"
#include "compiler/base/arena.h"
#include "compiler/base/diag.h"

// Architectures are numbers: 80 for sm_80, GPU_OWN + 90 for sm_90a, whose code runs there alone.
enum { GPU_OWN = 1000 };
static inline int gpu_arch_number(int sm) { return sm % GPU_OWN; }
static inline const char *gpu_arch_letter(int sm) { return sm > GPU_OWN ? "a" : ""; }

typedef struct nvrtc {
    const char *path; // what was opened
    int major, minor;
    int narchs;
    const int *archs;   // it compiles for: 75, 80, 90 ...; narchs 0: too old to say
    const cache *cache; // what it made is kept there and taken from there; NULL: nowhere
    struct nvrtc_api *api;
} nvrtc;

// where: the library, or a folder that holds it (also a toolkit, or site-packages with PyPI's
// nvidia-cuda-nvrtc); NULL: /usr/local/cuda*, /opt/cuda, then the loader's own search. NULL when there is
// none, reported to d as missing unless d is NULL.
nvrtc *nvrtc_open(arena *a, const char *where, diag *d);
// For --list-targets: its version and architectures, or that there is none.
const char *nvrtc_list_text(arena *a, const char *where);
bool nvrtc_knows(const nvrtc *n, int sm);
// Nothing is contracted: the text says fmaf where products are fused into sums.
// One program for all kernels of a module: alone each costs several times as much. An unknown architecture is
// reported as missing, a compile error as a defect with NVRTC's log; both leave through d.
const char *nvrtc_ptx(const nvrtc *n, arena *a, const char *name, const char *cuda, int sm, diag *d);
typedef struct nvrtc_made {
    const void *code; // a cubin
    size_t size;
    const char *ptx;  // that the code was made from, NULL where the library does not give it
    const char *said; // by ptxas of the code's functions, "" where the library does not tell
} nvrtc_made;
nvrtc_made nvrtc_cubin(const nvrtc *n, arena *a, const char *name, const char *cuda, int sm, bool with_ptx,
                       diag *d);
#endif
