// A sequence's tensors of dynamic rank, concatenated along an axis. Written: the handle of the tensor. Read:
// the sequence's handle. Numbers: axis (negative: from the end), whether the axis is new. Returns 1: the
// sequence is empty; 2: shapes do not match.
#include "runtime-lite/lib/lib.h"
#include "runtime-lite/lib/lib_join.h"

ONNXC_LIB int onnxc_lib_sequence_join(void **call, void *const *data, const int64_t *numbers) {
    const onnxc_value *s = lib_items(*(const int64_t *)data[1]), *item = (const onnxc_value *)s->data;
    int64_t dims[65], rank, axis;
    onnxc_value *v;
    int failed;
    if (!s->count) return 1;
    if (item->rank > 64) return 2;
    rank = item->rank + numbers[1];
    axis = numbers[0] < 0 ? numbers[0] + rank : numbers[0];
    failed = lib_join_dims(s, axis, numbers[1], dims);
    if (failed) return failed;
    v = lib_tensor(call, item->dtype, rank, dims);
    if (!v) return LIB_NO_MEMORY;
    lib_join(v->data, s, axis, 0);
    *(int64_t *)data[0] = lib_handle(v);
    return 0;
}
