// Lookup of elements among keys. In: values, keys. Out: the numbers of the keys that the values are equal to, by library functions:
// by hashes where the keys are constants (runtime-lite/lib/lib_slots.h), or by halving.
#include "ir/ops/runtime_args.h"
#include "ir/ops/text/string.h"
#include "runtime-lite/lib/lib_key.h"
#include "runtime-lite/lib/lib_slots.h"
#include <stdlib.h>
#include <string.h>

// Each seed has a chance of more than a half, unless a file has keys that were made to have the same hashes.
enum { SEEDS = 64 };

typedef struct hashed {
    uint64_t hash, bucket;
    int64_t key, size; // of the bucket
} hashed;

// Large buckets first, while there are many free slots.
static int compare_hashed(const void *a, const void *b) {
    const hashed *x = a, *y = b;
    if (x->size != y->size) return x->size > y->size ? -1 : 1;
    if (x->bucket != y->bucket) return x->bucket < y->bucket ? -1 : 1;
    return x->hash < y->hash ? -1 : x->hash > y->hash;
}

// Takes slots for the keys of a bucket; false, and none are taken, if two keys fall into one.
static bool take_slots(int64_t *slots, uint64_t mask, const hashed *keys, int64_t count, int64_t distance) {
    int64_t i;
    for (i = 0; i < count; i++) {
        int64_t *slot = &slots[lib_place(keys[i].hash, distance) & mask];
        if (*slot) break;
        *slot = (int64_t)((keys[i].hash >> 32 << 32) | (uint64_t)(keys[i].key + 1));
    }
    if (i == count) return true;
    while (i-- > 0) slots[lib_place(keys[i].hash, distance) & mask] = 0;
    return false;
}

static bool place_keys(int64_t *table, hashed *keys, int64_t count) {
    uint64_t buckets = (uint64_t)table[1], mask = (uint64_t)table[2];
    int64_t *bucket = table + LIB_SLOTS_HEAD, *slots = bucket + buckets + 1, most = 4 * (table[2] + 1);
    memset(bucket, 0, (buckets + 1 + mask + 1) * sizeof *bucket);
    for (int64_t i = 0; i < count; i++) bucket[lib_bucket(keys[i].hash) & buckets]++;
    for (int64_t i = 0; i < count; i++) {
        keys[i].bucket = lib_bucket(keys[i].hash) & buckets;
        keys[i].size = bucket[keys[i].bucket];
    }
    qsort(keys, (size_t)count, sizeof *keys, compare_hashed);
    for (int64_t i = 0; i < count; i += keys[i].size) {
        int64_t distance = 0;
        while (distance < most && !take_slots(slots, mask, keys + i, keys[i].size, distance)) distance++;
        if (distance == most) return false;
        bucket[keys[i].bucket] = distance;
    }
    return true;
}

constant *slots_constant(arena *a, int64_t count, key_hash *hash, const void *user) {
    int64_t buckets = 1, slots = 2;
    while (buckets < count / 2) buckets *= 2;
    while (slots < count + count / 2) slots *= 2;
    int64_t words = LIB_SLOTS_HEAD + buckets + slots, *table = ARENA_ARRAY(a, int64_t, words);
    hashed *keys = ARENA_ARRAY(a, hashed, count + 1);
    table[1] = buckets - 1, table[2] = slots - 1;
    for (table[0] = 1; table[0] <= SEEDS; table[0]++) {
        for (int64_t i = 0; i < count; i++) {
            keys[i].key = i;
            keys[i].hash = hash(user, (uint64_t)table[0], i);
        }
        if (place_keys(table, keys, count)) return int64s_constant(a, table, words);
    }
    return NULL;
}

static uint64_t hash_key(const void *user, uint64_t seed, int64_t i) {
    const constant *keys = user;
    if (keys->kind == CONST_STRINGS) return lib_hash_bytes(seed, keys->strings[i], keys->string_sizes[i]);
    int64_t key = (int64_t)lib_key(keys->elem, keys->data, i);
    return lib_hash_words(seed, &key, 1, 1);
}

static buffer *find(lowering *l, const node *n, dtype t, buffer *wanted, buffer *keys, buffer *slots) {
    bool strings = t == DT_STRING;
    buffer *places = lower_temp(l, n, "places", DT_I64, wanted->rank, wanted->dims);
    dim *numbers[] = {infer_k(n, t), buffer_count(wanted), keys->dims[0]};
    lower_call(l, n, strings ? "string_find" : "number_find", 1, BUFFERS(places, wanted, keys, slots),
               numbers + strings, 3 - strings);
    return places;
}

buffer *lower_find_in(lowering *l, const node *n, dtype t, buffer *wanted, buffer *keys) {
    return find(l, n, t, wanted, keys, NULL);
}

buffer *lower_find(lowering *l, const node *n, value *x, const constant *keys) {
    arena *a = l->program->arena;
    buffer *from = lower_buffer(l, x), *among = lower_constant(l, arena_printf(a, "%s.keys", x->name), keys);
    const constant *slots = slots_constant(a, keys->count, hash_key, keys);
    return find(l, n, keys->elem, from, among,
                slots ? lower_constant(l, arena_printf(a, "%s.slots", x->name), slots) : NULL);
}
