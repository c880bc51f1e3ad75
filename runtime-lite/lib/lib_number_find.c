// Written: the index of each number among the keys, -1: not found (int64). NaN equals NaN.
// Read: n numbers, m keys, and slots of these (lib_slots.h), or NULL if the keys are in ascending order. Numbers: dtype, n, m.
#include "runtime-lite/lib/lib.h"
#include "runtime-lite/lib/lib_key.h"
#include "runtime-lite/lib/lib_slots.h"

enum { NUMBER_BLOCK = 8 };

static inline uint64_t number_key(int64_t elem, const void *p, int64_t i) {
    return elem == DT_I64 ? (uint64_t)((const int64_t *)p)[i] ^ (uint64_t)1 << 63 : lib_key(elem, p, i);
}

// Searches of several numbers are interleaved, because the steps of one depend on each other. The half in which a search
// continues is unpredictable, so it is selected without a branch.
static inline void number_find_block(int64_t elem, const void *keys, int64_t m, const void *numbers,
                                     int64_t first, int64_t n, int64_t *out) {
    uint64_t x[NUMBER_BLOCK];
    int64_t low[NUMBER_BLOCK], j;
    for (j = 0; j < NUMBER_BLOCK; j++) {
        x[j] = number_key(elem, numbers, first + (j < n ? j : 0));
        low[j] = 0;
    }
    while (m > 1) {
        int64_t half = m / 2;
        for (j = 0; j < NUMBER_BLOCK; j++)
            low[j] += -(int64_t)(number_key(elem, keys, low[j] + half - 1) < x[j]) & half;
        m -= half;
    }
    for (j = 0; j < n; j++) {
        int found = m && number_key(elem, keys, low[j]) == x[j];
        out[first + j] = low[j] | -(int64_t)!found;
    }
}

// Whether a number is a key is unpredictable: no branch depends on it.
static inline int64_t number_find_by_hash(int64_t elem, const void *keys, uint64_t key,
                                          const int64_t *slots) {
    int64_t word = (int64_t)key, at;
    at = lib_candidate(slots, lib_hash_words((uint64_t)slots[0], &word, 1, 1));
    return at | -(int64_t)(number_key(elem, keys, at & ~(at >> 63)) != key);
}

ONNXC_LIB int onnxc_lib_number_find(void **call, void *const *data, const int64_t *numbers) {
    int64_t *out = (int64_t *)data[0], elem = numbers[0], n = numbers[1], m = numbers[2], i;
    const int64_t *slots = m ? (const int64_t *)data[3] : NULL;
    (void)call;
    for (i = 0; slots && i < n; i++) {
        uint64_t key = number_key(elem, data[1], i);
        out[i] = elem == DT_I64 ? number_find_by_hash(DT_I64, data[2], key, slots)
                                : number_find_by_hash(elem, data[2], key, slots);
    }
    for (i = 0; !slots && i < n; i += NUMBER_BLOCK) {
        int64_t left = n - i < NUMBER_BLOCK ? n - i : NUMBER_BLOCK;
        if (elem == DT_I64) number_find_block(DT_I64, data[2], m, data[1], i, left, out);
        else number_find_block(elem, data[2], m, data[1], i, left, out);
    }
    return 0;
}
