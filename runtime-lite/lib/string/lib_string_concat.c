// Written: concatenated pairs of strings (handles). Read: two tensors of handles. Numbers: see
// lib_broadcast.h.
#include "runtime-lite/lib/lib.h"
#include "runtime-lite/lib/lib_broadcast.h"
#include "runtime-lite/lib/lib_value.h"

ONNXC_LIB int onnxc_lib_string_concat(void **call, void *const *data, const int64_t *numbers) {
    int64_t *out = (int64_t *)data[0];
    const int64_t *a = (const int64_t *)data[1], *b = (const int64_t *)data[2];
    lib_pairs p;
    for (lib_pairs_start(&p, numbers); p.left > 0; lib_pairs_next(&p)) {
        onnxc_string x = lib_string(a[p.a]), y = lib_string(b[p.b]);
        char *bytes;
        *out = lib_string_new(call, x.size + y.size, &bytes);
        if (!*out++) return LIB_NO_MEMORY;
        memcpy(bytes, x.data, x.size);
        memcpy(bytes + x.size, y.data, y.size);
    }
    return 0;
}
