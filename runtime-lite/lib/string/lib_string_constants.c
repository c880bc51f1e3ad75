// Handles of constant strings. Written: n handles. Read: a block of n offsets (int64), each of a size (int64)
// and bytes in the block. Numbers: n.
#include "runtime-lite/lib/lib.h"
#include "runtime-lite/lib/lib_value.h"

ONNXC_LIB int onnxc_lib_string_constants(void **call, void *const *data, const int64_t *numbers) {
    int64_t *handles = (int64_t *)data[0], i, offset;
    const char *block = (const char *)data[1];
    (void)call;
    for (i = 0; i < numbers[0]; i++) {
        memcpy(&offset, block + 8 * i, sizeof offset);
        handles[i] = lib_handle(block + offset) | 1;
    }
    return 0;
}
