// The dims of a tensor. Written: dims. Read: its handle. Numbers: dtype, rank, required size by axis (-1:
// any). Returns 1: the optional is empty; 2: another type or shape.
#include "runtime-lite/lib/lib.h"
#include "runtime-lite/lib/lib_value.h"

ONNXC_LIB int onnxc_lib_value_dims(void **call, void *const *data, const int64_t *numbers) {
    const onnxc_value *v = lib_value(*(const int64_t *)data[1]);
    int64_t *dims = (int64_t *)data[0], i;
    (void)call;
    if (!v) return 1;
    if (v->kind != LIB_TENSOR || v->dtype != numbers[0]) return 2;
    /* Exporters declare scalars that are lists of one. */
    if (v->rank != numbers[1]) return numbers[1] == 0 && v->count == 1 ? 0 : 2;
    for (i = 0; i < v->rank; i++) {
        dims[i] = v->dims[i];
        if (numbers[2 + i] >= 0 && dims[i] != numbers[2 + i]) return 2;
    }
    return 0;
}
