// The sizes of a sequence's tensors, put together along an axis. Written: dims. Read: the sequence's handle.
// Numbers: dtype, axis, whether it is a new one, rank of the result. Answers 1: the sequence is empty, 2: its
// items do not fit.
#include "runtime-lite/lib.h"
#include "runtime-lite/lib_value.h"

ONNXC_LIB int onnxc_lib_sequence_dims(void **call, void *const *data, const int64_t *numbers) {
    const onnxc_value *s = lib_items(*(const int64_t *)data[1]), *item = (const onnxc_value *)s->data;
    int64_t *dims = (int64_t *)data[0], axis = numbers[1], fresh = numbers[2], rank = numbers[3], i, j,
            sum = 0;
    (void)call;
    if (!s->count) return 1;
    for (i = 0; i < s->count; i++) {
        if (item[i].dtype != numbers[0] || item[i].rank != rank - fresh) return 2;
        for (j = 0; j < item->rank; j++)
            if ((j != axis || fresh) && item[i].dims[j] != item->dims[j]) return 2;
        sum += fresh ? 1 : item[i].dims[axis];
    }
    for (j = 0; j < rank; j++) dims[j] = j == axis ? sum : item->dims[j - (fresh && j > axis)];
    return 0;
}
