// Binary search. Written: the index of each number among the keys, -1: not found (int64). NaN equals NaN.
// Read: n numbers, m keys in ascending order. Numbers: dtype, n, m.
#include "runtime-lite/lib/lib.h"
#include "runtime-lite/lib/lib_key.h"

ONNXC_LIB int onnxc_lib_number_find(void **call, void *const *data, const int64_t *numbers) {
    int64_t *out = (int64_t *)data[0], i;
    (void)call;
    for (i = 0; i < numbers[1]; i++) {
        uint64_t x = lib_key(numbers[0], data[1], i);
        int64_t low = 0, high = numbers[2];
        while (low < high) {
            int64_t middle = low + (high - low) / 2;
            if (lib_key(numbers[0], data[2], middle) < x) low = middle + 1;
            else high = middle;
        }
        out[i] = low < numbers[2] && lib_key(numbers[0], data[2], low) == x ? low : -1;
    }
    return 0;
}
