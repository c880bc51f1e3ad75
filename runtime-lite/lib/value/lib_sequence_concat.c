// Written: the elements of a sequence's tensors, concatenated along an axis. Read: the sequence's handle.
// Numbers: axis.
#include "runtime-lite/lib/lib.h"
#include "runtime-lite/lib/lib_join.h"

ONNXC_LIB int onnxc_lib_sequence_concat(void **call, void *const *data, const int64_t *numbers) {
    (void)call;
    lib_join(data[0], lib_items(*(const int64_t *)data[1]), numbers[0], 1);
    return 0;
}
