// Imports strings from the caller. Written: n handles. Read: n onnxc_string. Numbers: n.
#include "runtime-lite/lib/lib.h"
#include "runtime-lite/lib/lib_value.h"

ONNXC_LIB int onnxc_lib_string_import(void **call, void *const *data, const int64_t *numbers) {
    int64_t *handles = (int64_t *)data[0], i;
    (void)call;
    for (i = 0; i < numbers[0]; i++) handles[i] = lib_handle((const onnxc_string *)data[1] + i);
    return 0;
}
