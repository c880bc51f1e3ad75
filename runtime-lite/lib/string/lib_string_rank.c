// Written: the rank of each string among all, equal ones the same (int64). Read: n handles. Numbers: n.
#include "runtime-lite/lib/lib.h"
#include "runtime-lite/lib/lib_value.h"

static int rank_compare(const void *user, int64_t i, int64_t j) {
    return lib_string_compare(((const int64_t *)user)[i], ((const int64_t *)user)[j]);
}

ONNXC_LIB int onnxc_lib_string_rank(void **call, void *const *data, const int64_t *numbers) {
    int64_t i, rank = 0, *ranks = (int64_t *)data[0];
    const int64_t *order = lib_order(call, numbers[0], rank_compare, data[1]);
    if (!order) return LIB_NO_MEMORY;
    for (i = 0; i < numbers[0]; i++) {
        rank += i && rank_compare(data[1], order[i - 1], order[i]) != 0;
        ranks[order[i]] = rank;
    }
    return 0;
}
