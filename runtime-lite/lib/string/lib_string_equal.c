// Written: whether pairs of strings are equal (bool). Read: two tensors of handles. Numbers: see
// lib_broadcast.h.
#include "runtime-lite/lib/lib.h"
#include "runtime-lite/lib/lib_broadcast.h"
#include "runtime-lite/lib/lib_value.h"

ONNXC_LIB int onnxc_lib_string_equal(void **call, void *const *data, const int64_t *numbers) {
    unsigned char *out = (unsigned char *)data[0];
    const int64_t *a = (const int64_t *)data[1], *b = (const int64_t *)data[2];
    lib_pairs p;
    (void)call;
    for (lib_pairs_start(&p, numbers); p.left > 0; lib_pairs_next(&p))
        *out++ = (unsigned char)(lib_string_compare(a[p.a], b[p.b]) == 0);
    return 0;
}
