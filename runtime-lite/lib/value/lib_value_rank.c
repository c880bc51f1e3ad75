// Written: the rank of a tensor (int64). Read: its handle.
#include "runtime-lite/lib/lib.h"
#include "runtime-lite/lib/lib_value.h"

ONNXC_LIB int onnxc_lib_value_rank(void **call, void *const *data, const int64_t *numbers) {
    (void)call, (void)numbers;
    *(int64_t *)data[0] = lib_value(*(const int64_t *)data[1])->rank;
    return 0;
}
