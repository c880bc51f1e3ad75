// Written: the index of each string among the keys, -1: not found (int64). Read: n handles, m handles of keys, and slots of these
// (lib_slots.h), or NULL if the keys are in ascending order. Numbers: n, m.
#include "runtime-lite/lib/lib.h"
#include "runtime-lite/lib/lib_slots.h"
#include "runtime-lite/lib/lib_value.h"

// Most strings are short: compared without a call.
static int same_bytes(const char *x, const char *y, size_t size) {
    uint64_t differing = 0;
    size_t i;
    if (size > 16) return memcmp(x, y, size) == 0;
    if (size >= 8) {
        differing = lib_little_endian(x, 8) ^ lib_little_endian(y, 8);
        differing |= lib_little_endian(x + size - 8, 8) ^ lib_little_endian(y + size - 8, 8);
    } else if (size >= 4) {
        differing = lib_little_endian(x, 4) ^ lib_little_endian(y, 4);
        differing |= lib_little_endian(x + size - 4, 4) ^ lib_little_endian(y + size - 4, 4);
    } else {
        for (i = 0; i < size; i++) differing |= (uint64_t)(x[i] ^ y[i]);
    }
    return !differing;
}

static int64_t find_by_hash(int64_t handle, const int64_t *keys, const int64_t *slots) {
    onnxc_string x = lib_string(handle), key;
    int64_t at = lib_candidate(slots, lib_hash_bytes((uint64_t)slots[0], x.data, x.size));
    if (at < 0) return -1;
    key = lib_string(keys[at]);
    return key.size == x.size && same_bytes(key.data, x.data, x.size) ? at : -1;
}

static int64_t find_by_halving(int64_t x, const int64_t *keys, int64_t m) {
    int64_t low = 0, high = m;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (lib_string_compare(keys[middle], x) < 0) low = middle + 1;
        else high = middle;
    }
    return low < m && lib_string_compare(keys[low], x) == 0 ? low : -1;
}

ONNXC_LIB int onnxc_lib_string_find(void **call, void *const *data, const int64_t *numbers) {
    int64_t *out = (int64_t *)data[0], i;
    const int64_t *x = (const int64_t *)data[1], *keys = (const int64_t *)data[2];
    const int64_t *slots = (const int64_t *)data[3];
    (void)call;
    for (i = 0; i < numbers[0]; i++)
        out[i] = slots ? find_by_hash(x[i], keys, slots) : find_by_halving(x[i], keys, numbers[1]);
    return 0;
}
