// Written: the handle of a sequence without one item. Read: the sequence's handle, the item's position (NULL:
// the last). Numbers: the position's dtype. Returns 1: the position is out of range.
#include "runtime-lite/lib/lib.h"
#include "runtime-lite/lib/lib_value.h"

ONNXC_LIB int onnxc_lib_sequence_erase(void **call, void *const *data, const int64_t *numbers) {
    const onnxc_value *s = lib_items(*(const int64_t *)data[1]), *items = (const onnxc_value *)s->data;
    int64_t n = s->count, at = data[2] ? lib_int(numbers[0], data[2]) : n - 1;
    onnxc_value *out;
    if (at < -n || at >= n) return 1;
    if (at < 0) at += n;
    out = lib_sequence(call, n - 1);
    if (!out) return LIB_NO_MEMORY;
    memcpy(out->data, items, (size_t)at * sizeof *items);
    memcpy((onnxc_value *)out->data + at, items + at + 1, (size_t)(n - 1 - at) * sizeof *items);
    *(int64_t *)data[0] = lib_handle(out);
    return 0;
}
