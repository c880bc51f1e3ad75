// Written: the handle of a map's keys or values, a tensor of rank 1. Read: the map's handle. Numbers: 0
// (keys), 1 (values).
#include "runtime-lite/lib/lib.h"
#include "runtime-lite/lib/lib_value.h"

ONNXC_LIB int onnxc_lib_map_part(void **call, void *const *data, const int64_t *numbers) {
    const onnxc_value *map = lib_value(*(const int64_t *)data[1]);
    (void)call;
    *(int64_t *)data[0] = map ? lib_handle((const onnxc_value *)map->data + numbers[0]) : 0;
    return 0;
}
