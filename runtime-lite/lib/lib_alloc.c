// Memory for tensors of data-dependent size, aligned to 64 bytes; NULL: out of memory. For emitted C; the
// runtime has memory.c.
#ifdef ONNXC_LIB
#include "runtime-lite/lib/lib_base.h"
#include <stdlib.h>

ONNXC_LIB void *onnxc_rt_alloc(int64_t bytes);
ONNXC_LIB void onnxc_rt_free(void *aligned);

// The address of the block from malloc is stored before the aligned memory.
ONNXC_LIB void *onnxc_rt_alloc(int64_t bytes) {
    char *block, *aligned;
    if (bytes < 0 || (uint64_t)bytes > SIZE_MAX / 2) return NULL;
    block = (char *)malloc((size_t)bytes + 64 + sizeof block);
    if (!block) return NULL;
    aligned = block + sizeof block;
    aligned += (64 - (uintptr_t)aligned % 64) % 64;
    memcpy(aligned - sizeof block, &block, sizeof block);
    return aligned;
}

ONNXC_LIB void onnxc_rt_free(void *aligned) {
    char *block;
    if (!aligned) return;
    memcpy(&block, (char *)aligned - sizeof block, sizeof block);
    free(block);
}
#endif
