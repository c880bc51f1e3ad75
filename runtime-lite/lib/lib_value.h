/* Strings, sequences, optionals and maps during a run are handles, one int64 each, which kernels move like
 * numbers.
 *
 *   string  address of an onnxc_string, or 1 + address of a size (int64) and bytes; 0: the empty string
 *   value   address of an immutable onnxc_value; 0: an empty optional
 *
 * Objects created by a run are in a list of blocks that starts at *call and is freed at the end of the
 * run. */
#ifndef ONNXC_LIB_VALUE_H
#define ONNXC_LIB_VALUE_H
#include "runtime-lite/lib/lib_base.h"
#include "runtime-lite/lib/lib_key.h"
#include "runtime-lite/lib/lib_types.h"
#include <stdlib.h>

enum { LIB_NOTHING, LIB_TENSOR, LIB_SEQUENCE, LIB_MAP, LIB_NO_MEMORY = -1 };

typedef struct lib_block {
    struct lib_block *next;
    size_t used, room;
    size_t unused; /* the block's bytes follow, aligned to 16 */
} lib_block;

/* NULL: out of memory. */
ONNXC_MAYBE_UNUSED static void *lib_alloc(void **call, int64_t bytes) {
    lib_block *b = (lib_block *)*call;
    size_t n, room;
    if (bytes < 0 || (uint64_t)bytes > SIZE_MAX / 4) return NULL;
    n = ((size_t)bytes + 15) / 16 * 16;
    if (!b || b->room - b->used < n) {
        room = n > 4096 ? n : b ? (b->room < 65536 ? 2 * b->room : 65536) : 4096;
        if (room < n) room = n;
        b = (lib_block *)malloc(sizeof *b + room);
        if (!b) return NULL;
        b->next = (lib_block *)*call;
        b->used = 0;
        b->room = room;
        *call = b;
    }
    b->used += n;
    return (char *)(b + 1) + (b->used - n);
}

ONNXC_MAYBE_UNUSED static onnxc_string lib_string(int64_t handle) {
    onnxc_string s = {"", 0};
    const char *p = (const char *)(uintptr_t)(handle & ~(int64_t)1);
    int64_t size;
    if (!handle) return s;
    if (!(handle & 1)) return *(const onnxc_string *)(const void *)p;
    memcpy(&size, p, sizeof size);
    s.data = p + sizeof size;
    s.size = (size_t)size;
    return s;
}

/* A new string of that size, whose bytes the caller writes; 0: out of memory. */
ONNXC_MAYBE_UNUSED static int64_t lib_string_new(void **call, size_t size, char **bytes) {
    int64_t n = (int64_t)size;
    char *p = (char *)lib_alloc(call, n + (int64_t)sizeof n);
    if (!p) return 0;
    memcpy(p, &n, sizeof n);
    *bytes = p + sizeof n;
    return (int64_t)(uintptr_t)p | 1;
}

ONNXC_MAYBE_UNUSED static int lib_string_compare(int64_t a, int64_t b) {
    onnxc_string x = lib_string(a), y = lib_string(b);
    int order = memcmp(x.data, y.data, x.size < y.size ? x.size : y.size);
    return order ? order : x.size < y.size ? -1 : x.size > y.size;
}

ONNXC_MAYBE_UNUSED static const onnxc_value *lib_value(int64_t handle) {
    return (const onnxc_value *)(uintptr_t)handle;
}

/* The sequence in an empty optional is empty. */
ONNXC_MAYBE_UNUSED static const onnxc_value *lib_items(int64_t handle) {
    static const onnxc_value empty = {LIB_SEQUENCE, 0, 0, 0, NULL, NULL};
    return handle ? lib_value(handle) : &empty;
}

ONNXC_MAYBE_UNUSED static int64_t lib_handle(const void *p) { return (int64_t)(uintptr_t)p; }

/* A tensor in the run's memory, whose elements the caller writes. */
ONNXC_MAYBE_UNUSED static onnxc_value *lib_tensor(void **call, int64_t elem, int64_t rank,
                                                  const int64_t *dims) {
    onnxc_value *v = (onnxc_value *)lib_alloc(call, (int64_t)sizeof *v);
    int64_t *own = (int64_t *)lib_alloc(call, rank * (int64_t)sizeof *own), i;
    if (!v || !own) return NULL;
    v->kind = LIB_TENSOR;
    v->dtype = (int32_t)elem;
    v->rank = rank;
    v->count = 1;
    for (i = 0; i < rank; i++) v->count *= own[i] = dims[i];
    v->dims = own;
    v->data = lib_alloc(call, lib_bytes(elem, v->count));
    return v->data ? v : NULL;
}

/* Copies elements of buffers, in which strings are handles, to and from tensors. */
ONNXC_MAYBE_UNUSED static void lib_store(onnxc_value *v, const void *from) {
    int64_t i;
    if (v->dtype == DT_STRING)
        for (i = 0; i < v->count; i++) ((onnxc_string *)v->data)[i] = lib_string(((const int64_t *)from)[i]);
    else if (v->count) memcpy(v->data, from, (size_t)lib_bytes(v->dtype, v->count));
}

ONNXC_MAYBE_UNUSED static void lib_fetch(void *to, const onnxc_value *v) {
    int64_t i;
    if (v->dtype == DT_STRING)
        for (i = 0; i < v->count; i++) ((int64_t *)to)[i] = lib_handle((const onnxc_string *)v->data + i);
    else if (v->count) memcpy(to, v->data, (size_t)lib_bytes(v->dtype, v->count));
}

/* A sequence whose items the caller writes. Sequences from lib_sequence_insert.c have rank 1. */
ONNXC_MAYBE_UNUSED static onnxc_value *lib_sequence(void **call, int64_t count) {
    onnxc_value *v = (onnxc_value *)lib_alloc(call, (int64_t)sizeof *v);
    if (!v) return NULL;
    memset(v, 0, sizeof *v);
    v->kind = LIB_SEQUENCE;
    v->count = count;
    v->data = lib_alloc(call, count * (int64_t)sizeof *v);
    return v->data ? v : NULL;
}

/* The numbers 0 to n - 1 in stable ascending order; NULL: out of memory. */
typedef int lib_compare(const void *user, int64_t i, int64_t j);
ONNXC_MAYBE_UNUSED static int64_t *lib_order(void **call, int64_t n, lib_compare *compare, const void *user) {
    int64_t *from = (int64_t *)lib_alloc(call, 8 * n), *to = (int64_t *)lib_alloc(call, 8 * n), *other;
    int64_t width, i, j, k;
    if (!from || !to) return NULL;
    for (i = 0; i < n; i++) from[i] = i;
    for (width = 1; width < n; width *= 2) {
        for (k = 0; k < n;) {
            int64_t middle = n - k < width ? n : k + width, end = n - k < 2 * width ? n : k + 2 * width;
            for (i = k, j = middle; k < end; k++)
                to[k] =
                    i < middle && (j == end || compare(user, from[i], from[j]) <= 0) ? from[i++] : from[j++];
        }
        other = from;
        from = to;
        to = other;
    }
    return from;
}

/* Element 0 of an int32 or int64 buffer. */
ONNXC_MAYBE_UNUSED static int64_t lib_int(int64_t elem, const void *p) {
    return elem == DT_I32 ? *(const int32_t *)p : *(const int64_t *)p;
}
#endif
