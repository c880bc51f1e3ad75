// NVRTC at work. In: the kernels of a program. Out: PTX and cubins, as files or in the object.
#include "compiler/lib/gpu_images.h"
#include "codegen/gpu.h"
#include "codegen/host.h"
#include <string.h>

static const nvrtc *open_nvrtc(pipeline *p) {
    const nvrtc *n = nvrtc_open(p->arena, p->options->nvrtc, p->diag);
    diag_check(p->diag);
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
    const void *code = gpu_cubin(p->gpu, p->arena, open_nvrtc(p), archs[0], &size, p->diag);
    sink_addn(to, code, size);
}

static gpu_image ptx_image(pipeline *p, const nvrtc *n, int sm) {
    const char *text = gpu_ptx(p->gpu, p->arena, n, sm, p->diag);
    return (gpu_image){sm, true, text, strlen(text) + 1};
}

static gpu_image cubin_image(pipeline *p, const nvrtc *n, int sm) {
    gpu_image i = {.sm = sm};
    i.code = gpu_cubin(p->gpu, p->arena, n, sm, &i.size, p->diag);
    return i;
}

void add_gpu_images(pipeline *p) {
    int *archs, count = options_gpu_archs(p->arena, p->diag, p->options, &archs), made = 0, newest = 0;
    gpu_image *images = ARENA_ARRAY(p->arena, gpu_image, count + 1);
    if (p->gpu->module->funcs.n) {
        const nvrtc *n = open_nvrtc(p);
        for (int i = 0; i < count; i++) {
            int sm = gpu_arch_number(archs[i]);
            newest = sm > newest ? sm : newest;
            images[made++] = cubin_image(p, n, archs[i]);
        }
        images[made++] = ptx_image(p, n, count ? newest : oldest_arch(n));
    }
    ldata *d = gpu_images_data(p->gpu, p->arena, p->build->io->name, images, made);
    VEC_PUSH(p->arena, &p->loops->data, d);
}
