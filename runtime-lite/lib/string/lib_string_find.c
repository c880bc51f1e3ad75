// Binary search. Written: the index of each string among the keys, -1: not found (int64). Read: n handles, m
// handles of keys in ascending order. Numbers: n, m.
#include "runtime-lite/lib/lib.h"
#include "runtime-lite/lib/lib_value.h"

ONNXC_LIB int onnxc_lib_string_find(void **call, void *const *data, const int64_t *numbers) {
    int64_t *out = (int64_t *)data[0], i;
    const int64_t *x = (const int64_t *)data[1], *keys = (const int64_t *)data[2];
    (void)call;
    for (i = 0; i < numbers[0]; i++) {
        int64_t low = 0, high = numbers[1];
        while (low < high) {
            int64_t middle = low + (high - low) / 2;
            if (lib_string_compare(keys[middle], x[i]) < 0) low = middle + 1;
            else high = middle;
        }
        out[i] = low < numbers[1] && lib_string_compare(keys[low], x[i]) == 0 ? low : -1;
    }
    return 0;
}
