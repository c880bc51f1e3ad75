// Maps from strings or numbers to pointers: open addressing over slots in insertion order.
#include "compiler/base/arena.h"
#include <string.h>

uint64_t hash_bytes(uint64_t seed, const void *bytes, size_t n) {
    const unsigned char *p = bytes;
    for (; n >= sizeof(uint64_t); n -= sizeof(uint64_t), p += sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, p, sizeof word);
        seed = (seed ^ word) * 0x9e3779b97f4a7c15u;
        seed ^= seed >> 32;
    }
    for (size_t i = 0; i < n; i++) seed = (seed ^ p[i]) * 0x100000001b3u;
    return seed;
}

uint64_t hash_string(uint64_t seed, const char *s) { return hash_bytes(seed, s, strlen(s)); }

// Numbers are often ids or addresses: spread them over all bits.
static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 32)) * 0x9e3779b97f4a7c15u;
    return x ^ (x >> 29);
}

// String slots keep the hash of the key in `number`.
static int find(const map *m, const char *key, uint64_t number) {
    if (!m->cap) return -1;
    for (uint64_t i = mix(number);; i++) {
        int at = m->index[i & (uint64_t)(m->cap - 1)];
        if (at < 0) return -1;
        const struct map_slot *s = &m->slots[at];
        if (s->number == number && (key ? s->key && !strcmp(s->key, key) : !s->key)) return at;
    }
}

static void index_slot(map *m, int at) {
    uint64_t i = mix(m->slots[at].number);
    while (m->index[i & (uint64_t)(m->cap - 1)] >= 0) i++;
    m->index[i & (uint64_t)(m->cap - 1)] = at;
}

static void grow(map *m) {
    int cap = m->cap ? 2 * m->cap : 16;
    m->slots =
        arena_grow(m->arena, m->slots, (size_t)m->n * sizeof *m->slots, (size_t)cap / 2 * sizeof *m->slots);
    m->index = ARENA_ARRAY(m->arena, int, cap);
    memset(m->index, -1, (size_t)cap * sizeof *m->index);
    m->cap = cap;
    for (int i = 0; i < m->n; i++) index_slot(m, i);
}

static void put(map *m, const char *key, uint64_t number, void *value) {
    int at = find(m, key, number);
    if (at < 0) {
        if (m->n >= m->cap / 2) grow(m);
        at = m->n++;
        m->slots[at].key = key ? arena_strdup(m->arena, key) : NULL;
        m->slots[at].number = number;
        index_slot(m, at);
    }
    m->slots[at].value = value;
}

static void *get(const map *m, const char *key, uint64_t number) {
    int at = find(m, key, number);
    return at < 0 ? NULL : m->slots[at].value;
}

void map_put(map *m, const char *key, void *value) { put(m, key, hash_string(HASH_SEED, key), value); }
void *map_get(const map *m, const char *key) { return get(m, key, hash_string(HASH_SEED, key)); }
void map_put_number(map *m, uint64_t key, void *value) { put(m, NULL, key, value); }
void *map_get_number(const map *m, uint64_t key) { return get(m, NULL, key); }
