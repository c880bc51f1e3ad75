// NVRTC at work. In: the kernels of a program. Out: PTX and cubins, as files or in the object.
#include "compiler/lib/gpu_images.h"
#include "codegen/gpu.h"
#include "codegen/host.h"
#include "codegen/llvm.h"
#include <string.h>

static const nvrtc *open_nvrtc(pipeline *p) {
    nvrtc *n = nvrtc_open(p->arena, p->options->nvrtc, p->diag);
    diag_check(p->diag);
    n->cache = pipeline_means(p).cache;
    return n;
}

// PTX is compiled for newer architectures when it is loaded, so that the oldest serves all.
static int oldest_arch(const nvrtc *n) {
    enum { OLDEST = 75 };
    return n->narchs && n->archs[0] > OLDEST ? n->archs[0] : OLDEST;
}

void write_ptx(pipeline *p, const sink *to) {
    const nvrtc *n = open_nvrtc(p);
    int *archs, count = options_gpu_archs(p->arena, p->diag, p->options, &archs);
    sink_add(to, gpu_ptx(p->gpu, p->arena, n, count ? archs[0] : oldest_arch(n), p->diag));
}

void write_cubin(pipeline *p, const sink *to) {
    int *archs;
    size_t size;
    options_gpu_archs(p->arena, p->diag, p->options, &archs);
    const void *code = gpu_cubin(p->gpu, p->arena, open_nvrtc(p), archs[0], &size, NULL, p->diag);
    sink_addn(to, code, size);
}

// PTX for newer architectures is that of the newest one asked for, which its code brings along.
typedef struct images {
    gpu_image *at;
    int n, newest;
    const char *ptx;
} images;

static void add_cubin(pipeline *p, const nvrtc *n, int sm, images *to) {
    gpu_image i = {.sm = sm};
    for (int j = 0; j < to->n; j++)
        if (to->at[j].sm == sm) return;
    i.code = gpu_cubin(p->gpu, p->arena, n, sm, &i.size, sm == to->newest ? &to->ptx : NULL, p->diag);
    to->at[to->n++] = i;
}

static void add_ptx(pipeline *p, const nvrtc *n, images *to) {
    const char *text = to->ptx ? to->ptx : gpu_ptx(p->gpu, p->arena, n, to->newest, p->diag);
    to->at[to->n++] = (gpu_image){to->newest, true, text, strlen(text) + 1};
}

void add_gpu_images(pipeline *p) {
    int *archs, count = options_gpu_archs(p->arena, p->diag, p->options, &archs);
    images all = {.at = ARENA_ARRAY(p->arena, gpu_image, count + 1)};
    if (p->gpu->module->funcs.n) {
        const nvrtc *n = open_nvrtc(p);
        bool own = gpu_has_own(p->gpu, p->arena, p->diag);
        for (int i = 0; i < count; i++)
            if (gpu_arch_number(archs[i]) > all.newest) all.newest = gpu_arch_number(archs[i]);
        for (int i = 0; i < count; i++) add_cubin(p, n, own ? archs[i] : gpu_arch_number(archs[i]), &all);
        if (!count) all.newest = oldest_arch(n);
        add_ptx(p, n, &all);
    }
    ldata *d = gpu_images_data(p->gpu, p->arena, p->build->io->name, all.at, all.n);
    VEC_PUSH(p->arena, &p->loops->data, d);
}
