// Written: the elements of a sequence's tensors, put together along an axis. Read: the sequence's handle.
// Numbers: axis, whether it is a new one.
#include "runtime-lite/lib.h"
#include "runtime-lite/lib_value.h"

static int64_t concat_row(const onnxc_value *v, int64_t axis) {
    int64_t n = 1, j;
    for (j = axis; j < v->rank; j++) n *= v->dims[j];
    return n;
}

ONNXC_LIB int onnxc_lib_sequence_concat(void **call, void *const *data, const int64_t *numbers) {
    const onnxc_value *s = lib_items(*(const int64_t *)data[1]), *item = (const onnxc_value *)s->data;
    int64_t axis = numbers[0], outer = 1, o, i, j, at = 0;
    (void)call;
    for (j = 0; j < axis; j++) outer *= item->dims[j];
    for (o = 0; o < outer; o++)
        for (i = 0; i < s->count; i++) {
            int64_t row = concat_row(&item[i], axis), size = lib_bytes(item->dtype, 1);
            if (item->dtype == LIB_STRING)
                for (j = 0; j < row; j++, at++)
                    ((int64_t *)data[0])[at] = lib_handle((const onnxc_string *)item[i].data + o * row + j);
            else if (row) {
                memcpy((char *)data[0] + at * size, (const char *)item[i].data + o * row * size,
                       (size_t)(row * size));
                at += row;
            }
        }
    return 0;
}
