// Written: the handle of a sequence. Read: handles of its items. Numbers: their number.
#include "runtime-lite/lib/lib.h"
#include "runtime-lite/lib/lib_value.h"

ONNXC_LIB int onnxc_lib_sequence_new(void **call, void *const *data, const int64_t *numbers) {
    onnxc_value *s = lib_sequence(call, numbers[0]);
    int64_t i;
    if (!s) return LIB_NO_MEMORY;
    for (i = 0; i < numbers[0]; i++) ((onnxc_value *)s->data)[i] = *lib_value(*(const int64_t *)data[1 + i]);
    *(int64_t *)data[0] = lib_handle(s);
    return 0;
}
