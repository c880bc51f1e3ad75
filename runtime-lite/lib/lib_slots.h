/* Tables in which constant keys are found by their hashes, without collisions: the compiler chooses the hashes' seed and, for each
 * bucket of keys, how far apart their slots are (ir/ops/text/lookup.c; Belazzougui, Botelho, Dietzfelbinger: Hash, displace, and
 * compress, 2009). A table is an array of int64: seed, number of buckets - 1, number of slots - 1, buckets, slots. Both
 * numbers are powers of two. A slot is 0 if it is free, or the upper half of the key's hash and, in the lower half, 1 + the key's number.
 * Hashes are the same on all machines. */
#ifndef ONNXC_LIB_SLOTS_H
#define ONNXC_LIB_SLOTS_H
#include "runtime-lite/lib/lib_base.h"

enum { LIB_SLOTS_HEAD = 3 };

static uint64_t lib_mix(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 32;
}

ONNXC_MAYBE_UNUSED static uint64_t lib_bucket(uint64_t hash) { return hash >> 40; }

ONNXC_MAYBE_UNUSED static uint64_t lib_place(uint64_t hash, int64_t distance) {
    return hash + (uint64_t)distance * (hash >> 16 | 1);
}

/* The number of the only key that may have this hash; -1: there is none. Which it is is not to be foreseen: no branch depends on it. */
ONNXC_MAYBE_UNUSED static int64_t lib_candidate(const int64_t *table, uint64_t hash) {
    uint64_t buckets = (uint64_t)table[1], slots = (uint64_t)table[2], slot;
    const int64_t *bucket = table + LIB_SLOTS_HEAD;
    slot = (uint64_t)bucket[buckets + 1 + (lib_place(hash, bucket[lib_bucket(hash) & buckets]) & slots)];
    return ((int64_t)(slot & 0xffffffffu) - 1) | -(int64_t)((slot ^ hash) >> 32 != 0);
}

/* One load where memory has this order: compilers do not make one of the loop. */
static uint64_t lib_little_endian(const char *p, int bytes) {
    uint64_t word = 0;
#if defined __BYTE_ORDER__ && defined __ORDER_LITTLE_ENDIAN__ && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    memcpy(&word, p, (size_t)bytes);
#else
    const unsigned char *s = (const unsigned char *)p;
    int i;
    for (i = 0; i < bytes; i++) word |= (uint64_t)s[i] << 8 * i;
#endif
    return word;
}

/* Words may overlap: the size is part of the hash. */
ONNXC_MAYBE_UNUSED static uint64_t lib_hash_bytes(uint64_t seed, const char *p, size_t size) {
    uint64_t hash = lib_mix(seed, size), word = 0;
    size_t i;
    if (size > 8) {
        for (i = 0; i + 8 < size; i += 8) hash = lib_mix(hash, lib_little_endian(p + i, 8));
        word = lib_little_endian(p + size - 8, 8);
    } else if (size >= 4) {
        word = lib_little_endian(p, 4) | lib_little_endian(p + size - 4, 4) << 32;
    } else if (size) {
        word = lib_little_endian(p, 1) | lib_little_endian(p + size / 2, 1) << 8 |
               lib_little_endian(p + size - 1, 1) << 16;
    }
    return lib_mix(lib_mix(hash, word), seed);
}

/* The elements are `stride` apart. */
ONNXC_MAYBE_UNUSED static uint64_t lib_hash_words(uint64_t seed, const int64_t *p, int64_t stride,
                                                  int64_t count) {
    uint64_t hash = seed;
    int64_t i;
    for (i = 0; i < count; i++) hash = lib_mix(hash, (uint64_t)p[i * stride]);
    return lib_mix(hash, seed);
}
#endif
