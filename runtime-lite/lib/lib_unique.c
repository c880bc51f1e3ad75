// Unique slices along one axis. Written: index of the first occurrence and count of each unique slice, for
// each slice of x the number of its unique slice (n elements each), the number of unique slices, scratch of 4
// n pairs. Read: x [outer, n, inner]. Numbers: dtype, outer, n, inner, whether sorted (else in order of first
// occurrence).
#include "runtime-lite/lib/lib.h"
#include "runtime-lite/lib/lib_key.h"

typedef struct unique_slices {
    const void *x;
    int64_t dtype, outer, n, inner;
} unique_slices;

static uint64_t unique_key(const unique_slices *s, int64_t slice, int64_t o, int64_t i) {
    return lib_key(s->dtype, s->x, (o * s->n + slice) * s->inner + i);
}

// -1, 0 or 1: slice a is before, equal to or after slice b.
static int unique_compare(const unique_slices *s, const lib_pair *a, const lib_pair *b) {
    int64_t o, i;
    if (a->key != b->key) return a->key > b->key ? 1 : -1;
    if (s->outer * s->inner <= 1) return 0;
    for (o = 0; o < s->outer; o++)
        for (i = 0; i < s->inner; i++) {
            uint64_t x = unique_key(s, a->index, o, i), y = unique_key(s, b->index, o, i);
            if (x != y) return x > y ? 1 : -1;
        }
    return 0;
}

static void unique_merge(const unique_slices *s, const lib_pair *a, lib_pair *to, int64_t begin,
                         int64_t middle, int64_t end) {
    int64_t i = begin, j = middle, k;
    for (k = begin; k < end; k++) {
        if (i < middle && (j >= end || unique_compare(s, &a[i], &a[j]) <= 0)) to[k] = a[i++];
        else to[k] = a[j++];
    }
}

static void unique_sort(const unique_slices *s, lib_pair *a, lib_pair *spare) {
    lib_pair *from = a, *to = spare, *other;
    int64_t width, i, n = s->n;
    if (s->outer * s->inner <= 1) {
        lib_sort(a, spare, n);
        return;
    }
    for (width = 1; width < n; width *= 2) {
        for (i = 0; i < n; i += 2 * width) {
            int64_t middle = n - i < width ? n : i + width, end = n - i < 2 * width ? n : i + 2 * width;
            unique_merge(s, from, to, i, middle, end);
        }
        other = from;
        from = to;
        to = other;
    }
    if (from != a) memcpy(a, from, (size_t)n * sizeof *a);
}

// Groups of equal slices. key: position of the first one in sorted order; index: that slice.
static int64_t unique_group(const unique_slices *s, const lib_pair *sorted, lib_pair *groups) {
    int64_t i, count = 0;
    for (i = 0; i < s->n; i++) {
        if (i > 0 && unique_compare(s, &sorted[i - 1], &sorted[i]) == 0) continue;
        groups[count].key = (uint64_t)i;
        groups[count].index = sorted[i].index;
        count++;
    }
    return count;
}

ONNXC_LIB int onnxc_lib_unique(void **call, void *const *data, const int64_t *numbers) {
    unique_slices s;
    int64_t *first = (int64_t *)data[0], *counts = (int64_t *)data[1], *inverse = (int64_t *)data[2];
    lib_pair *sorted, *groups, *order, *spare;
    int64_t i, j, count, n = numbers[2];
    (void)call;
    s.x = data[5], s.dtype = numbers[0], s.outer = numbers[1], s.n = n, s.inner = numbers[3];
    sorted = (lib_pair *)data[4], groups = sorted + n, order = groups + n, spare = order + n;
    for (i = 0; i < n; i++)
        sorted[i].key = s.outer * s.inner > 0 ? unique_key(&s, i, 0, 0) : 0, sorted[i].index = i;
    unique_sort(&s, sorted, spare);
    count = unique_group(&s, sorted, groups);
    for (i = 0; i < count; i++)
        order[i].key = numbers[4] ? (uint64_t)i : (uint64_t)groups[i].index, order[i].index = i;
    lib_sort(order, spare, count);
    for (i = 0; i < count; i++) {
        const lib_pair *g = &groups[order[i].index];
        int64_t begin = (int64_t)g->key,
                end = order[i].index + 1 < count ? (int64_t)groups[order[i].index + 1].key : n;
        first[i] = g->index;
        counts[i] = end - begin;
        for (j = begin; j < end; j++) inverse[sorted[j].index] = i;
    }
    *(int64_t *)data[3] = count;
    return 0;
}
