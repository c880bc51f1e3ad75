// Memory for tensors whose size only the run knows.
#include "runtime-lite/runtime.h"
#include <stdlib.h>

void *onnxc_rt_alloc(int64_t bytes) {
    if (bytes < 0 || bytes > PTRDIFF_MAX - 128) return NULL;
    return aligned_alloc(64, ((size_t)bytes + 64) / 64 * 64);
}

void onnxc_rt_free(void *block) { free(block); }
