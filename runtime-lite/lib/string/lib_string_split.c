// Written: handles [n, width], the pieces of each string, then empty strings. Read: n handles, the
// delimiter's handle. Numbers: n, maximum number of splits (-1: no limit), width.
#include "runtime-lite/lib/lib.h"
#include "runtime-lite/lib/lib_split.h"

ONNXC_LIB int onnxc_lib_string_split(void **call, void *const *data, const int64_t *numbers) {
    int64_t *out = (int64_t *)data[0], i, j;
    for (i = 0; i < numbers[0]; i++) {
        onnxc_string piece, *own;
        lib_pieces p = lib_pieces_of(lib_string(((const int64_t *)data[1])[i]),
                                     lib_string(*(const int64_t *)data[2]), numbers[1]);
        for (j = 0; j < numbers[2]; j++, out++) {
            *out = 0;
            if (!lib_next_piece(&p, &piece)) continue;
            own = (onnxc_string *)lib_alloc(call, (int64_t)sizeof *own);
            if (!own) return LIB_NO_MEMORY;
            *own = piece;
            *out = lib_handle(own);
        }
    }
    return 0;
}
