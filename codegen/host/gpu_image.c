// The block of the object that contains the GPU's code: a head, the names of the functions, and images. The
// runtime reads it (runtime-lite/core/runtime.h).
#include "codegen/gpu/gpu.h"
#include "runtime-lite/core/runtime.h"
#include <string.h>

const char *gpu_images_symbol(arena *a, const char *name) { return arena_printf(a, "%s_gpu_images", name); }

static size_t padded(size_t n) { return (n + 15) / 16 * 16; }

static text function_names(const gpu_code *g, arena *a) {
    text t = {.arena = a};
    for (int j = 0; j < g->module->funcs.n; j++) {
        const char *name = g->module->funcs.at[j]->name;
        text_addn(&t, name, strlen(name) + 1);
    }
    return t;
}

ldata *gpu_images_data(const gpu_code *g, arena *a, const char *name, const gpu_image *images, int n) {
    text names = function_names(g, a);
    size_t shared = sizeof(onnxc_gpu_images) + (size_t)n * sizeof(onnxc_gpu_image),
           head = shared + (size_t)g->module->funcs.n * sizeof(uint32_t), at = padded(head + names.n);
    size_t bytes = at;
    for (int j = 0; j < n; j++) bytes += padded(images[j].size);
    char *block = arena_alloc(a, bytes);
    onnxc_gpu_images *all = (void *)block;
    *all = (onnxc_gpu_images){.bytes = bytes,
                              .names = (uint32_t)head,
                              .nfunctions = (uint32_t)g->module->funcs.n,
                              .shared = (uint32_t)shared,
                              .nimages = (uint32_t)n};
    memcpy(all->magic, "onnxc-g", 8);
    for (int j = 0; j < g->module->funcs.n; j++) {
        uint32_t own = (uint32_t)lfunc_dynamic_shared(g->module->funcs.at[j]);
        memcpy(block + shared + (size_t)j * sizeof own, &own, sizeof own);
    }
    if (names.n) memcpy(block + head, names.s, names.n);
    for (int j = 0; j < n; j++) {
        int kind = images[j].is_ptx         ? ONNXC_GPU_PTX
                   : images[j].sm > GPU_OWN ? ONNXC_GPU_OWN_CODE
                                            : ONNXC_GPU_CODE;
        onnxc_gpu_image own = {gpu_arch_number(images[j].sm), kind, at, images[j].size};
        memcpy(block + sizeof *all + (size_t)j * sizeof own, &own, sizeof own);
        memcpy(block + at, images[j].code, images[j].size);
        at += padded(images[j].size);
    }
    ldata *d = ARENA_NEW(a, ldata);
    *d = (ldata){.name = gpu_images_symbol(a, name),
                 .bytes = (int64_t)bytes,
                 .align = 16,
                 .bytes_or_null = block,
                 .dtype = DT_U8};
    return d;
}
