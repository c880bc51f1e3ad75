// TopK along one axis. Written: values and indices [outer, k, inner] (either may be NULL), scratch. Read: x
// [outer, n, inner]. Numbers: dtype, outer, n, inner, k, whether the largest. Scratch: k pairs, or 2 n if k is more
// than 64 and than n / 16. Equal values are ordered by index; NaN is larger than all other values.
#include "runtime-lite/lib/lib.h"
#include "runtime-lite/lib/lib_key.h"

enum {
    TOPK_BLOCK = 32,
    TOPK_INSERTED = 16,
    TOPK_FEW = 64,
    TOPK_SHARE = 16,
    TOPK_SLACK = 8,
    TOPK_SAMPLES = 512,
    TOPK_SAMPLED = 4096
};

// The first element from i on that is not ordered after element `other`, found without making keys; n if there is none.
// Blocks of elements of up to 32 bits are compared in vectors.
#define TOPK_NEXT(name, type)                                                                                \
    static int64_t name(const char *at, int64_t stride, int64_t i, int64_t n, int64_t other, int largest) {  \
        const type *x = (const type *)(const void *)at, y = x[other * stride];                               \
        for (; sizeof y <= 4 && stride == 1 && n - i >= TOPK_BLOCK; i += TOPK_BLOCK) {                       \
            int j, found = 0;                                                                                \
            if (largest)                                                                                     \
                for (j = 0; j < TOPK_BLOCK; j++) found |= !(x[i + j] <= y);                                  \
            else                                                                                             \
                for (j = 0; j < TOPK_BLOCK; j++) found |= !(x[i + j] >= y);                                  \
            if (found) break;                                                                                \
        }                                                                                                    \
        for (; i < n; i++)                                                                                   \
            if (largest ? !(x[i * stride] <= y) : !(x[i * stride] >= y)) break;                              \
        return i;                                                                                            \
    }
TOPK_NEXT(topk_next_float, float)
TOPK_NEXT(topk_next_double, double)
TOPK_NEXT(topk_next_int32, int32_t)
TOPK_NEXT(topk_next_int64, int64_t)
TOPK_NEXT(topk_next_int8, int8_t)
TOPK_NEXT(topk_next_uint8, uint8_t)
TOPK_NEXT(topk_next_int16, int16_t)
TOPK_NEXT(topk_next_uint16, uint16_t)
TOPK_NEXT(topk_next_uint32, uint32_t)
TOPK_NEXT(topk_next_uint64, uint64_t)

// The same for floats of 16 bits with that code of infinity, compared as integers. Zeros of both signs and NaN may be found, too.
static int64_t topk_next_half(const char *at, int64_t stride, int64_t i, int64_t n, int64_t other,
                              int largest, int infinity) {
    const int16_t *x = (const int16_t *)(const void *)at;
    int flip = largest ? 0 : -1;
    int16_t y = (int16_t)(x[other * stride] ^ (x[other * stride] >> 15 & 0x7fff) ^ flip);
    if ((x[other * stride] & 0x7fff) > infinity) return i; // NaN of either sign has no place in this order
    for (; stride == 1 && n - i >= TOPK_BLOCK; i += TOPK_BLOCK) {
        int j, found = 0;
        for (j = 0; j < TOPK_BLOCK; j++) {
            int16_t v = x[i + j], order = (int16_t)(v ^ (v >> 15 & 0x7fff) ^ flip);
            found |= (order > y) | ((v & 0x7fff) > infinity);
        }
        if (found) break;
    }
    for (; i < n; i++) {
        int16_t v = x[i * stride], order = (int16_t)(v ^ (v >> 15 & 0x7fff) ^ flip);
        if (order > y || (v & 0x7fff) > infinity) break;
    }
    return i;
}

static int64_t topk_next(const int64_t *z, const char *x, int64_t i, int64_t other) {
    int64_t n = z[2], inner = z[3];
    int largest = z[5] != 0;
    switch (z[0]) {
    case DT_F32: return topk_next_float(x, inner, i, n, other, largest);
    case DT_F64: return topk_next_double(x, inner, i, n, other, largest);
    case DT_I32: return topk_next_int32(x, inner, i, n, other, largest);
    case DT_I64: return topk_next_int64(x, inner, i, n, other, largest);
    case DT_I8: return topk_next_int8(x, inner, i, n, other, largest);
    case DT_U8: return topk_next_uint8(x, inner, i, n, other, largest);
    case DT_I16: return topk_next_int16(x, inner, i, n, other, largest);
    case DT_U16: return topk_next_uint16(x, inner, i, n, other, largest);
    case DT_U32: return topk_next_uint32(x, inner, i, n, other, largest);
    case DT_U64: return topk_next_uint64(x, inner, i, n, other, largest);
    case DT_F16: return topk_next_half(x, inner, i, n, other, largest, 0x7c00);
    case DT_BF16: return topk_next_half(x, inner, i, n, other, largest, 0x7f80);
    default: return i;
    }
}

// Few candidates are kept in their order, the worst one last: a better element moves up from there.
static void topk_insert(lib_pair *best, int64_t k, const int64_t *z, const char *x) {
    int64_t elem = z[0], n = z[2], inner = z[3], kept = 0, i = 0, j;
    uint64_t flip = z[5] ? 0 : UINT64_MAX, key;
    while (i < n) {
        key = lib_key(elem, x, i * inner) ^ flip;
        if (kept < k || key > best[k - 1].key) {
            j = kept < k ? kept++ : k - 1;
            for (; j > 0 && best[j - 1].key < key; j--) best[j] = best[j - 1];
            best[j].key = key;
            best[j].index = i;
        }
        i = kept < k ? i + 1 : topk_next(z, x, i + 1, best[k - 1].index);
    }
}

// The root of the heap is the worst candidate: the lowest key, or among equal keys the highest index. A better element replaces it.
static void topk_select(lib_pair *heap, int64_t k, const int64_t *z, const char *x) {
    int64_t elem = z[0], n = z[2], inner = z[3], i;
    uint64_t flip = z[5] ? 0 : UINT64_MAX, key;
    for (i = 0; i < k; i++) {
        heap[i].key = lib_key(elem, x, i * inner) ^ flip;
        heap[i].index = i;
    }
    for (i = k / 2 - 1; i >= 0; i--) lib_sink(heap, k, i, 1);
    for (i = topk_next(z, x, k, heap[0].index); i < n; i = topk_next(z, x, i + 1, heap[0].index)) {
        key = lib_key(elem, x, i * inner) ^ flip;
        if (key <= heap[0].key) continue;
        heap[0].key = key;
        heap[0].index = i;
        lib_sink(heap, k, 0, 1);
    }
    for (i = k - 1; i > 0; i--) {
        lib_pair worst = heap[0];
        heap[0] = heap[i];
        heap[i] = worst;
        lib_sink(heap, i, 0, 1);
    }
}

// Moves the pairs whose keys begin with the bytes of the k-th key, or with lower ones, to the front in their order; returns their
// number. Further bytes are compared, of those that are left, until they are few more than k.
static int64_t topk_narrow(lib_pair *p, int64_t n, int64_t k) {
    uint64_t prefix = p[0].key, differing = 0;
    int64_t before = 0, i;
    int shift = 56;
    for (i = 1; i < n; i++) differing |= p[i].key ^ p[0].key;
    while (shift >= 0 && !(differing >> shift & 255)) shift -= 8;
    for (; shift >= 0 && n - k > k / TOPK_SLACK; shift -= 8) {
        uint64_t above = shift < 56 ? UINT64_MAX << (shift + 8) : 0, byte = 0;
        int64_t count[256] = {0}, odd[256] = {0},
                found = 0; // of every second pair: neighbours are often equal
        for (i = 0; i < n; i++)
            (i & 1 ? odd : count)[p[i].key >> shift & 255] += !((p[i].key ^ prefix) & above);
        for (i = 0; i < 256; i++) count[i] += odd[i];
        while (before + count[byte] < k) before += count[byte++];
        prefix = (prefix & above) | byte << shift;
        for (i = 0; i < n && before + count[byte] < n; i++) {
            lib_pair x = p[i];
            p[found] = x;
            found += x.key >> shift <= prefix >> shift;
        }
        n = before + count[byte];
    }
    return n;
}

// A key that most likely k of n keys or a few more do not exceed: that of a share of samples. sample: scratch.
static uint64_t topk_bound(const uint64_t *keys, int64_t n, int64_t k, uint64_t flip, lib_pair *sample) {
    int64_t i, place = k * TOPK_SAMPLES / n, root = 1;
    for (i = 0; i < TOPK_SAMPLES; i++) {
        sample[i].key = keys[i * (n / TOPK_SAMPLES)] ^ flip;
        sample[i].index = i;
    }
    while (root * root < place) root++;
    place += 3 * root; // three standard deviations
    if (place >= TOPK_SAMPLES) return UINT64_MAX;
    lib_sort(sample, sample + TOPK_SAMPLES, TOPK_SAMPLES);
    return sample[place].key;
}

// Makes pairs of the keys that do not exceed the bound; returns their number.
static int64_t topk_pairs(const uint64_t *keys, int64_t n, uint64_t flip, uint64_t bound, lib_pair *pairs) {
    int64_t i, count = 0;
    for (i = 0; i < n; i++) {
        uint64_t key = keys[i] ^ flip;
        pairs[count].key = key;
        pairs[count].index = i;
        count += key <= bound;
    }
    return count;
}

static void topk_sort(lib_pair *pairs, int64_t k, const int64_t *z, const char *x) {
    int64_t n = z[2], count = 0;
    uint64_t flip = z[5] ? UINT64_MAX : 0, *keys = (uint64_t *)(void *)(pairs + n);
    lib_keys(z[0], x, z[3], n, keys);
    if (n >= TOPK_SAMPLED && k <= n / 2)
        count = topk_pairs(keys, n, flip, topk_bound(keys, n, k, flip, pairs), pairs);
    if (count < k) count = topk_pairs(keys, n, flip, UINT64_MAX, pairs);
    if (k <= n / 2) count = topk_narrow(pairs, count, k);
    lib_sort(pairs, pairs + z[2], count);
}

ONNXC_LIB int onnxc_lib_topk(void **call, void *const *data, const int64_t *numbers) {
    int64_t outer = numbers[1], n = numbers[2], inner = numbers[3], k = numbers[4], o, i, j;
    size_t size = (size_t)lib_bytes(numbers[0], 1);
    char *values = (char *)data[0];
    int64_t *indices = (int64_t *)data[1];
    lib_pair *pairs = (lib_pair *)data[2];
    (void)call;
    for (o = 0; o < outer && k > 0; o++)
        for (i = 0; i < inner; i++) {
            const char *x = (const char *)data[3] + (size_t)(o * n * inner + i) * size;
            if (k <= TOPK_INSERTED) topk_insert(pairs, k, numbers, x);
            else if (k > TOPK_FEW && k > n / TOPK_SHARE) topk_sort(pairs, k, numbers, x);
            else topk_select(pairs, k, numbers, x);
            for (j = 0; j < k; j++) {
                int64_t to = (o * k + j) * inner + i;
                if (values)
                    memcpy(values + (size_t)to * size, x + (size_t)(pairs[j].index * inner) * size, size);
                if (indices) indices[to] = pairs[j].index;
            }
        }
    return 0;
}
