// Makes a tensor. Written: its handle. Read: elements. Numbers: dtype, rank, dims.
#include "runtime-lite/lib/lib.h"
#include "runtime-lite/lib/lib_value.h"

ONNXC_LIB int onnxc_lib_value_new(void **call, void *const *data, const int64_t *numbers) {
    onnxc_value *v = lib_tensor(call, numbers[0], numbers[1], numbers + 2);
    if (!v) return LIB_NO_MEMORY;
    lib_store(v, data[1]);
    *(int64_t *)data[0] = lib_handle(v);
    return 0;
}
