// Written: the number of items. Read: the sequence's handle.
#include "runtime-lite/lib/lib.h"
#include "runtime-lite/lib/lib_value.h"

ONNXC_LIB int onnxc_lib_sequence_length(void **call, void *const *data, const int64_t *numbers) {
    (void)call, (void)numbers;
    *(int64_t *)data[0] = lib_items(*(const int64_t *)data[1])->count;
    return 0;
}
