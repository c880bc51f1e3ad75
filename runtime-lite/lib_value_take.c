// A sequence or optional from the caller. Written: its handle. Read: an onnxc_value. Numbers: the kind that
// it may have, the dtype of its tensors, whether it may be nothing (else that is an empty sequence). Answers
// 1: it is of another kind.
#include "runtime-lite/lib.h"
#include "runtime-lite/lib_value.h"

static int take_fits(const onnxc_value *v, const int64_t *numbers) {
    const onnxc_value *items = (const onnxc_value *)v->data;
    int64_t i;
    if (v->kind == LIB_NOTHING) return numbers[2] || numbers[0] == LIB_SEQUENCE;
    if (v->kind != numbers[0] || v->count < 0 || (v->count && !v->data)) return 0;
    if (v->kind == LIB_TENSOR) return v->dtype == numbers[1];
    for (i = 0; i < v->count; i++)
        if (items[i].kind != LIB_TENSOR || items[i].dtype != numbers[1]) return 0;
    return 1;
}

ONNXC_LIB int onnxc_lib_value_take(void **call, void *const *data, const int64_t *numbers) {
    const onnxc_value *v = (const onnxc_value *)data[1];
    onnxc_value *own = (onnxc_value *)lib_alloc(call, (int64_t)sizeof *own);
    if (!own) return LIB_NO_MEMORY;
    if (!take_fits(v, numbers)) return 1;
    *own = *v;
    if (v->kind != LIB_TENSOR)
        own->kind = LIB_SEQUENCE, own->rank = 0; /* which the run's own sequences use */
    if (v->kind == LIB_NOTHING) own->count = 0;
    *(int64_t *)data[0] = v->kind == LIB_NOTHING && numbers[2] ? 0 : lib_handle(own);
    return 0;
}
