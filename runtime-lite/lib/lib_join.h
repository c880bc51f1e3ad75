/* Concatenates the tensors of a sequence along an axis. */
#ifndef ONNXC_LIB_JOIN_H
#define ONNXC_LIB_JOIN_H
#include "runtime-lite/lib/lib_value.h"

/* The dims of the result; fresh: the axis is new. Returns 1: the sequence is empty; 2: shapes do not
 * match. */
ONNXC_MAYBE_UNUSED static int lib_join_dims(const onnxc_value *s, int64_t axis, int64_t fresh,
                                            int64_t *dims) {
    const onnxc_value *item = (const onnxc_value *)s->data;
    int64_t i, j, sum = 0, rank;
    if (!s->count) return 1;
    rank = item->rank + fresh;
    if (axis < 0 || axis >= rank) return 2;
    for (i = 0; i < s->count; i++) {
        if (item[i].dtype != item->dtype || item[i].rank != item->rank) return 2;
        for (j = 0; j < item->rank; j++)
            if ((j != axis || fresh) && item[i].dims[j] != item->dims[j]) return 2;
        sum += fresh ? 1 : item[i].dims[axis];
    }
    for (j = 0; j < rank; j++) dims[j] = j == axis ? sum : item->dims[j - (fresh && j > axis)];
    return 0;
}

static int64_t lib_join_row(const onnxc_value *v, int64_t axis) {
    int64_t n = 1, j;
    for (j = axis; j < v->rank; j++) n *= v->dims[j];
    return n;
}

/* handles: strings become handles instead of onnxc_string. */
ONNXC_MAYBE_UNUSED static void lib_join(void *to, const onnxc_value *s, int64_t axis, int handles) {
    const onnxc_value *item = (const onnxc_value *)s->data;
    int64_t outer = 1, o, i, j, at = 0;
    for (j = 0; j < axis; j++) outer *= item->dims[j];
    for (o = 0; o < outer; o++)
        for (i = 0; i < s->count; i++) {
            int64_t row = lib_join_row(&item[i], axis), size = lib_bytes(item->dtype, 1);
            if (item->dtype == DT_STRING && handles) {
                for (j = 0; j < row; j++, at++)
                    ((int64_t *)to)[at] = lib_handle((const onnxc_string *)item[i].data + o * row + j);
            } else if (row) {
                memcpy((char *)to + at * size, (const char *)item[i].data + o * row * size,
                       (size_t)(row * size));
                at += row;
            }
        }
}
#endif
