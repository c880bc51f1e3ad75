// Written: the elements of a tensor. Read: its handle.
#include "runtime-lite/lib/lib.h"
#include "runtime-lite/lib/lib_value.h"

ONNXC_LIB int onnxc_lib_value_read(void **call, void *const *data, const int64_t *numbers) {
    (void)call, (void)numbers;
    lib_fetch(data[0], lib_value(*(const int64_t *)data[1]));
    return 0;
}
