// Makes a map of each row of a table. Written: the handle of a sequence of maps. Read: the table, m keys in
// ascending order (strings: handles), the columns of the keys (int64). Numbers: dtype, rows, columns, dtype
// of keys, m.
#include "runtime-lite/lib/lib.h"
#include "runtime-lite/lib/lib_value.h"

static int rows_map(void **call, onnxc_value *to, const onnxc_value *keys, const char *row,
                    const int64_t *columns, int64_t elem) {
    int64_t i, size = lib_bytes(elem, 1), n = keys->count;
    onnxc_value *parts = (onnxc_value *)lib_alloc(call, 2 * (int64_t)sizeof *parts);
    onnxc_value *values = lib_tensor(call, elem, 1, &n);
    if (!parts || !values) return 0;
    for (i = 0; i < n; i++) memcpy((char *)values->data + i * size, row + columns[i] * size, (size_t)size);
    parts[0] = *keys;
    parts[1] = *values;
    memset(to, 0, sizeof *to);
    to->kind = LIB_MAP;
    to->count = n;
    to->data = parts;
    return 1;
}

ONNXC_LIB int onnxc_lib_map_rows(void **call, void *const *data, const int64_t *numbers) {
    int64_t elem = numbers[0], rows = numbers[1], i, size = lib_bytes(elem, 1);
    onnxc_value *keys = lib_tensor(call, numbers[3], 1, numbers + 4), *s = lib_sequence(call, rows);
    if (!keys || !s) return LIB_NO_MEMORY;
    lib_store(keys, data[2]);
    for (i = 0; i < rows; i++)
        if (!rows_map(call, (onnxc_value *)s->data + i, keys, (const char *)data[1] + i * numbers[2] * size,
                      (const int64_t *)data[3], elem))
            return LIB_NO_MEMORY;
    *(int64_t *)data[0] = lib_handle(s);
    return 0;
}
