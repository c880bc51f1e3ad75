// MurmurHash3 (32 bits) of strings. Written: the hashes (uint32). Read: n handles. Numbers: n, the seed.
#include "runtime-lite/lib/lib.h"
#include "runtime-lite/lib/lib_value.h"

static uint32_t rotate_left(uint32_t x, int by) { return x << by | x >> (32 - by); }

static uint32_t hash_block(uint32_t block) { return rotate_left(block * 0xcc9e2d51u, 15) * 0x1b873593u; }

static uint32_t hash_bytes(const unsigned char *p, size_t size, uint32_t hash) {
    size_t i, j;
    uint32_t tail = 0;
    for (i = 0; i + 4 <= size; i += 4) {
        uint32_t block = p[i] | (uint32_t)p[i + 1] << 8 | (uint32_t)p[i + 2] << 16 | (uint32_t)p[i + 3] << 24;
        hash = rotate_left(hash ^ hash_block(block), 13) * 5 + 0xe6546b64u;
    }
    for (j = size; j > i; j--) tail = tail << 8 | p[j - 1];
    if (size > i) hash ^= hash_block(tail);
    hash ^= (uint32_t)size;
    hash = (hash ^ hash >> 16) * 0x85ebca6bu;
    hash = (hash ^ hash >> 13) * 0xc2b2ae35u;
    return hash ^ hash >> 16;
}

ONNXC_LIB int onnxc_lib_string_hash(void **call, void *const *data, const int64_t *numbers) {
    int64_t i;
    (void)call;
    for (i = 0; i < numbers[0]; i++) {
        onnxc_string s = lib_string(((const int64_t *)data[1])[i]);
        ((uint32_t *)data[0])[i] = hash_bytes((const unsigned char *)s.data, s.size, (uint32_t)numbers[1]);
    }
    return 0;
}
