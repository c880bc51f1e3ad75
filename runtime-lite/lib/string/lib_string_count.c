// Written: the number of pieces of each string (int64), and their maximum. Read: n handles, the delimiter's
// handle. Numbers: n, maximum number of splits (-1: no limit).
#include "runtime-lite/lib/lib.h"
#include "runtime-lite/lib/lib_split.h"

ONNXC_LIB int onnxc_lib_string_count(void **call, void *const *data, const int64_t *numbers) {
    int64_t *counts = (int64_t *)data[0], most = 0, i;
    (void)call;
    for (i = 0; i < numbers[0]; i++) {
        onnxc_string piece;
        lib_pieces p = lib_pieces_of(lib_string(((const int64_t *)data[2])[i]),
                                     lib_string(*(const int64_t *)data[3]), numbers[1]);
        for (counts[i] = 0; lib_next_piece(&p, &piece);) counts[i]++;
        if (counts[i] > most) most = counts[i];
    }
    *(int64_t *)data[1] = most;
    return 0;
}
