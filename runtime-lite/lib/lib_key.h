/* Maps elements of numeric types to unsigned keys of the same order; sorts, and keeps heaps, by these. Zeros of both
 * signs are equal, NaNs are equal to each other and above all other values. */
#ifndef ONNXC_LIB_KEY_H
#define ONNXC_LIB_KEY_H
#include "runtime-lite/lib/lib_base.h"

enum { LIB_MANY = 256 }; /* pairs that are sorted by the bytes of their keys */

typedef struct lib_pair {
    uint64_t key;
    int64_t index;
} lib_pair;

/* The key of a float with `width` bits and that code of infinity. */
static uint64_t lib_float_key(uint64_t bits, int width, uint64_t infinity) {
    uint64_t sign = (uint64_t)1 << (width - 1), magnitude = bits & (sign - 1);
    if (magnitude > infinity) return UINT64_MAX;
    return bits & sign ? sign - magnitude : sign + magnitude;
}

/* The key of element i. */
ONNXC_MAYBE_UNUSED static uint64_t lib_key(int64_t elem, const void *at, int64_t i) {
    const unsigned char *p = (const unsigned char *)at;
    uint64_t bias = (uint64_t)1 << 63;
    uint64_t wide;
    uint32_t word;
    uint16_t half;
    switch (elem) {
    case DT_U8:
    case DT_BOOL: return p[i];
    case DT_I8: return (uint64_t)(int64_t)((const signed char *)at)[i] ^ bias;
    case DT_U16:
    case DT_I16:
    case DT_F16:
    case DT_BF16:
        memcpy(&half, p + 2 * i, 2);
        if (elem == DT_U16) return half;
        if (elem == DT_I16) return (uint64_t)(half ^ 0x8000u);
        return lib_float_key(half, 16, elem == DT_F16 ? 0x7c00u : 0x7f80u);
    case DT_U32:
    case DT_I32:
    case DT_F32:
        memcpy(&word, p + 4 * i, 4);
        if (elem == DT_U32) return word;
        if (elem == DT_I32) return word ^ 0x80000000u;
        return lib_float_key(word, 32, 0x7f800000u);
    default:
        memcpy(&wide, p + 8 * i, 8);
        if (elem == DT_I64) return wide ^ bias;
        if (elem == DT_F64) return lib_float_key(wide, 64, (uint64_t)0x7ff << 52);
        return wide;
    }
}

/* The keys of n elements, `stride` elements apart. */
ONNXC_MAYBE_UNUSED static void lib_keys(int64_t elem, const void *at, int64_t stride, int64_t n,
                                        uint64_t *keys) {
    const char *p = (const char *)at;
    int64_t i;
    if (elem == DT_F32) {
        for (i = 0; i < n; i++) {
            uint32_t bits, magnitude, key;
            memcpy(&bits, p + 4 * i * stride, 4);
            magnitude = bits & 0x7fffffffu;
            key = bits & 0x80000000u ? 0x80000000u - magnitude : 0x80000000u + magnitude;
            keys[i] = magnitude > 0x7f800000u ? UINT64_MAX : key;
        }
    } else {
        for (i = 0; i < n; i++) keys[i] = lib_key(elem, at, i * stride);
    }
}

/* Merges the runs a[begin, middle) and a[middle, end) into to[begin ...), stable. Which run comes next is not to be foreseen:
 * no branch depends on it. */
static void lib_merge(const lib_pair *a, lib_pair *to, int64_t begin, int64_t middle, int64_t end) {
    int64_t i = begin, j = middle, k = begin;
    while (i < middle && j < end) {
        int64_t second = a[j].key < a[i].key;
        to[k++] = a[i + (j - i) * second];
        i += 1 - second;
        j += second;
    }
    while (i < middle) to[k++] = a[i++];
    while (j < end) to[k++] = a[j++];
}

/* Runs of 8 by insertion, which are merged. The result is in the array that is returned, a or spare. */
static lib_pair *lib_sort_by_merging(lib_pair *a, lib_pair *spare, int64_t n) {
    lib_pair *from = a, *to = spare, *other;
    int64_t i, j, width;
    for (i = 0; i < n; i += 8)
        for (j = i + 1; j < n && j < i + 8; j++) {
            lib_pair x = a[j];
            int64_t k = j;
            for (; k > i && a[k - 1].key > x.key; k--) a[k] = a[k - 1];
            a[k] = x;
        }
    for (width = 8; width < n; width *= 2) {
        for (i = 0; i < n; i += 2 * width) {
            int64_t middle = n - i < width ? n : i + width, end = n - i < 2 * width ? n : i + 2 * width;
            lib_merge(from, to, i, middle, end);
        }
        other = from;
        from = to;
        to = other;
    }
    return from;
}

/* One byte of the keys after the other, from the lowest one up; bytes that are the same in all keys are left out. */
static lib_pair *lib_sort_by_bytes(lib_pair *a, lib_pair *spare, int64_t n) {
    lib_pair *from = a, *to = spare, *other;
    uint64_t differing = 0;
    uint32_t place[256];
    int64_t i;
    int shift, digit;
    for (i = 1; i < n; i++) differing |= a[i].key ^ a[0].key;
    for (shift = 0; shift < 64; shift += 8) {
        uint32_t sum = 0;
        if (!(differing >> shift & 255)) continue;
        memset(place, 0, sizeof place);
        for (i = 0; i < n; i++) place[from[i].key >> shift & 255]++;
        for (digit = 0; digit < 256; digit++) {
            uint32_t count = place[digit];
            place[digit] = sum;
            sum += count;
        }
        for (i = 0; i < n; i++) to[place[from[i].key >> shift & 255]++] = from[i];
        other = from;
        from = to;
        to = other;
    }
    return from;
}

/* Ascending and stable. spare: n pairs. */
ONNXC_MAYBE_UNUSED static void lib_sort(lib_pair *a, lib_pair *spare, int64_t n) {
    int many = n >= LIB_MANY && n <= INT32_MAX;
    const lib_pair *sorted = many ? lib_sort_by_bytes(a, spare, n) : lib_sort_by_merging(a, spare, n);
    if (sorted != a) memcpy(a, sorted, (size_t)n * sizeof *a);
}

/* By key, among equal keys by index: ascending, or descending if `falling`. */
ONNXC_MAYBE_UNUSED static int lib_precedes(const lib_pair *a, const lib_pair *b, int falling) {
    return a->key < b->key || (a->key == b->key && (falling ? a->index > b->index : a->index < b->index));
}

/* Puts element `at` of a heap in its place. The root precedes all others. */
ONNXC_MAYBE_UNUSED static void lib_sink(lib_pair *heap, int64_t n, int64_t at, int falling) {
    lib_pair x = heap[at];
    for (;;) {
        int64_t child = 2 * at + 1;
        if (child >= n) break;
        if (child + 1 < n && lib_precedes(&heap[child + 1], &heap[child], falling)) child++;
        if (!lib_precedes(&heap[child], &x, falling)) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = x;
}
#endif
