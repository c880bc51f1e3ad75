// Frees all strings and values of a run.
#include "runtime-lite/lib/lib.h"
#include "runtime-lite/lib/lib_value.h"

ONNXC_LIB int onnxc_lib_release(void **call, void *const *data, const int64_t *numbers) {
    lib_block *b = (lib_block *)*call, *next;
    (void)data, (void)numbers;
    for (; b; b = next) {
        next = b->next;
        free(b);
    }
    *call = NULL;
    return 0;
}
