// Compiles kernels with NVRTC. In: the kernels of a program. Out: PTX and cubins, as files or in the object.
#include "compiler/driver/gpu_images.h"
#include "codegen/gpu/gpu.h"
#include "codegen/host/host.h"
#include "codegen/llvm/llvm.h"
#include <string.h>

static const nvrtc *open_nvrtc(pipeline *p) {
    nvrtc *n = nvrtc_open(p->arena, p->options->nvrtc, p->diag);
    diag_check(p->diag);
    n->cache = pipeline_means(p).cache;
    return n;
}

// The driver compiles PTX for newer architectures, so the oldest serves all.
static int oldest_arch(const nvrtc *n) {
    enum { OLDEST = 75 };
    return n->narchs && n->archs[0] > OLDEST ? n->archs[0] : OLDEST;
}

bytes ptx_code(pipeline *p) {
    const nvrtc *n = open_nvrtc(p);
    int *archs, count = options_gpu_archs(p->arena, p->diag, p->options, &archs);
    const char *ptx = gpu_ptx(p->gpu, p->arena, n, count ? archs[0] : oldest_arch(n), p->diag);
    return (bytes){(char *)ptx, strlen(ptx)};
}

bytes cubin_code(pipeline *p) {
    int *archs;
    options_gpu_archs(p->arena, p->diag, p->options, &archs);
    nvrtc_made made = gpu_cubin(p->gpu, p->arena, open_nvrtc(p), archs[0], false, p->diag);
    return (bytes){(char *)made.code, made.size};
}

// The PTX for newer architectures is compiled for the newest one requested, which its cubin compilation also returns.
typedef struct images {
    gpu_image *at;
    int n, newest;
    const char *ptx;
} images;

static void add_cubin(pipeline *p, const nvrtc *n, int sm, images *to) {
    for (int j = 0; j < to->n; j++)
        if (to->at[j].sm == sm) return;
    nvrtc_made made = gpu_cubin(p->gpu, p->arena, n, sm, sm == to->newest, p->diag);
    if (made.ptx) to->ptx = made.ptx;
    to->at[to->n++] = (gpu_image){.sm = sm, .code = made.code, .size = made.size};
}

static void add_ptx(pipeline *p, const nvrtc *n, images *to) {
    const char *text = to->ptx ? to->ptx : gpu_ptx(p->gpu, p->arena, n, to->newest, p->diag);
    to->at[to->n++] = (gpu_image){to->newest, true, text, strlen(text) + 1};
}

// One for each --gpu-arch.
static void add_cubins(pipeline *p, const nvrtc *n, images *to) {
    int *archs, count = options_gpu_archs(p->arena, p->diag, p->options, &archs);
    bool own = gpu_has_own(p->gpu, p->arena, p->diag);
    to->at = ARENA_ARRAY(p->arena, gpu_image, count + 1);
    for (int i = 0; i < count; i++)
        if (gpu_arch_number(archs[i]) > to->newest) to->newest = gpu_arch_number(archs[i]);
    for (int i = 0; i < count; i++) add_cubin(p, n, own ? archs[i] : gpu_arch_number(archs[i]), to);
}

void add_gpu_images(pipeline *p) {
    images all = {0};
    if (p->gpu->module->funcs.n) {
        const nvrtc *n = open_nvrtc(p);
        add_cubins(p, n, &all);
        if (!all.n) all.newest = oldest_arch(n);
        add_ptx(p, n, &all);
    }
    ldata *d = gpu_images_data(p->gpu, p->arena, p->build->io->name, all.at, all.n);
    VEC_PUSH(p->arena, &p->loops->data, d);
}

void note_gpu_uses(pipeline *p) {
    images all = {0};
    int *archs;
    if (!options_gpu_archs(p->arena, p->diag, p->options, &archs) || !p->gpu->module->funcs.n) return;
    nvrtc *n = nvrtc_open(p->arena, p->options->nvrtc, NULL);
    if (!n) {
        diag_warning(p->diag, WARN_GPU_USAGE, NULL, "%s: registers and shared memory are not reported",
                     p->options->nvrtc ? arena_printf(p->arena, "no NVRTC library at %s", p->options->nvrtc)
                                       : "no NVRTC library was found");
        return;
    }
    n->cache = pipeline_means(p).cache;
    add_cubins(p, n, &all);
}
