/* Rows that leave at the front of caches. Written: the caches of data[1], which may be the same memory, without the
 * first rows of each; as many rows at its end stay as they are. Read: the caches, how many rows leave each (int64).
 * Numbers: n caches, rows, bytes of a row. */
#include "runtime-lite/lib/lib.h"

ONNXC_LIB int onnxc_lib_slide(void **call, void *const *data, const int64_t *numbers) {
    int64_t rows = numbers[1], row = numbers[2], i;
    (void)call;
    if (data[0] != data[1]) memcpy(data[0], data[1], (size_t)(numbers[0] * rows * row));
    for (i = 0; i < numbers[0]; i++) {
        char *cache = (char *)data[0] + i * rows * row;
        int64_t by = ((const int64_t *)data[2])[i];
        if (by > 0 && by < rows) memmove(cache, cache + by * row, (size_t)((rows - by) * row));
    }
    return 0;
}
