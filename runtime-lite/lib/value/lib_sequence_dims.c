// The dims of a sequence's tensors, concatenated along an axis. Written: dims. Read: the sequence's handle.
// Numbers: dtype, axis, whether the axis is new, rank of the result. Returns 1: the sequence is empty; 2:
// shapes do not match.
#include "runtime-lite/lib/lib.h"
#include "runtime-lite/lib/lib_join.h"

ONNXC_LIB int onnxc_lib_sequence_dims(void **call, void *const *data, const int64_t *numbers) {
    const onnxc_value *s = lib_items(*(const int64_t *)data[1]), *item = (const onnxc_value *)s->data;
    (void)call;
    if (s->count && (item->dtype != numbers[0] || item->rank != numbers[3] - numbers[2])) return 2;
    return lib_join_dims(s, numbers[1], numbers[2], (int64_t *)data[0]);
}
