// Written: the handle of an item. Read: the sequence's handle, the item's position. Numbers: the position's
// dtype. Returns 1: the position is out of range.
#include "runtime-lite/lib/lib.h"
#include "runtime-lite/lib/lib_value.h"

ONNXC_LIB int onnxc_lib_sequence_at(void **call, void *const *data, const int64_t *numbers) {
    const onnxc_value *s = lib_items(*(const int64_t *)data[1]);
    int64_t at = lib_int(numbers[0], data[2]);
    (void)call;
    if (at < -s->count || at >= s->count) return 1;
    if (at < 0) at += s->count;
    *(int64_t *)data[0] = lib_handle((const onnxc_value *)s->data + at);
    return 0;
}
