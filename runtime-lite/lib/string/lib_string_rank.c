// Written: the place of each string among all in ascending order, equal ones the same (int64). Read: n
// handles. Numbers: n.
#include "runtime-lite/lib/lib.h"
#include "runtime-lite/lib/lib_value.h"

ONNXC_LIB int onnxc_lib_string_rank(void **call, void *const *data, const int64_t *numbers) {
    const int64_t *x = (const int64_t *)data[1];
    int64_t n = numbers[0], width, i, j, k, *ranks = (int64_t *)data[0];
    int64_t *from = (int64_t *)lib_alloc(call, 8 * n), *to = (int64_t *)lib_alloc(call, 8 * n), *other;
    if (!from || !to) return LIB_NO_MEMORY;
    for (i = 0; i < n; i++) from[i] = i;
    for (width = 1; width < n; width *= 2) {
        for (k = 0; k < n;) {
            int64_t middle = n - k < width ? n : k + width, end = n - k < 2 * width ? n : k + 2 * width;
            for (i = k, j = middle; k < end; k++)
                to[k] = i < middle && (j == end || lib_string_compare(x[from[i]], x[from[j]]) <= 0)
                            ? from[i++]
                            : from[j++];
        }
        other = from, from = to, to = other;
    }
    for (i = 0, k = 0; i < n; i++) {
        k += i && lib_string_compare(x[from[i - 1]], x[from[i]]) != 0;
        ranks[from[i]] = k;
    }
    return 0;
}
