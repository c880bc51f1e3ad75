// Queries this machine's GPUs through the CUDA driver. A process that has done so cannot use them after
// fork().
#include "compiler/driver/gpu_native.h"
#include "codegen/gpu/nvrtc.h"
#include "runtime-lite/cuda/cuda.h"

static int arch_for(const nvrtc *n, int sm) {
    enum { HOPPER = 90 };
    int best = n->narchs ? 0 : sm;
    for (int i = 0; i < n->narchs; i++)
        if (n->archs[i] <= sm && n->archs[i] > best) best = n->archs[i];
    return sm == HOPPER && nvrtc_knows(n, GPU_OWN + HOPPER) ? GPU_OWN + HOPPER : best;
}

int gpu_native_archs(arena *a, const char *nvrtc_path, int **archs) {
    const char *why;
    const cuda_driver *d = cuda_driver_open(&why);
    const nvrtc *nvrtc = d ? nvrtc_open(a, nvrtc_path, NULL) : NULL;
    int gpus = 0, n = 0;
    if (!nvrtc || d->device_count(&gpus)) return 0;
    *archs = ARENA_ARRAY(a, int, gpus + 1);
    for (int i = 0; i < gpus; i++) {
        int device, sm, j = 0;
        if (d->device_get(&device, i) || cuda_capability(d, device, &sm)) continue;
        (*archs)[n] = arch_for(nvrtc, sm);
        while ((*archs)[j] != (*archs)[n]) j++;
        n += j == n && (*archs)[n];
    }
    return n;
}

void gpu_native_hold(void) {
    const char *why;
    const cuda_driver *d = cuda_driver_open(&why);
    int device;
    if (d && !d->device_get(&device, 0)) d->retain(&(cuda_context){0}, device);
}
