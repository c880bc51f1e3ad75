// A sequence, optional or map from the caller. Written: its handle. Read: an onnxc_value. Numbers: the type
// that it must have, from outside in: 0 (it may be nothing), 2 (a sequence of), 3 and a key's dtype (a map of
// single elements), 1 and a dtype. A sequence may be nothing too: it is empty. Maps get the order of their
// keys. Answers 1: it is of another type, 2: a map has a key twice.
#include "runtime-lite/lib/lib.h"
#include "runtime-lite/lib/lib_value.h"

static int take_tensor(const onnxc_value *v, int64_t dtype) {
    return v->kind == LIB_TENSOR && v->dtype == dtype && v->count >= 0 && (!v->count || v->data);
}

// < 0, 0, > 0: the keys at i and j
static int take_compare(const onnxc_value *keys, int64_t i, int64_t j) {
    const int64_t *numbers = (const int64_t *)keys->data;
    if (keys->dtype == LIB_STRING)
        return lib_string_compare(lib_handle((const onnxc_string *)keys->data + i),
                                  lib_handle((const onnxc_string *)keys->data + j));
    return numbers[i] < numbers[j] ? -1 : numbers[i] > numbers[j];
}

// The places of the keys in ascending order; NULL: no memory.
static int64_t *take_order(void **call, const onnxc_value *keys) {
    int64_t n = keys->count, width, i, j, k;
    int64_t *from = (int64_t *)lib_alloc(call, 8 * n), *to = (int64_t *)lib_alloc(call, 8 * n), *other;
    if (!from || !to) return NULL;
    for (i = 0; i < n; i++) from[i] = i;
    for (width = 1; width < n; width *= 2) {
        for (k = 0; k < n;) {
            int64_t middle = n - k < width ? n : k + width, end = n - k < 2 * width ? n : k + 2 * width;
            for (i = k, j = middle; k < end; k++)
                to[k] = i < middle && (j == end || take_compare(keys, from[i], from[j]) <= 0) ? from[i++]
                                                                                              : from[j++];
        }
        other = from, from = to, to = other;
    }
    return from;
}

// v as a list, with its elements at those places (NULL: as they lie).
static int take_list(void **call, onnxc_value *to, const onnxc_value *v, const int64_t *order) {
    int64_t i, size = lib_bytes(v->dtype, 1), *dims = (int64_t *)lib_alloc(call, (int64_t)sizeof *dims);
    if (!dims) return 0;
    *dims = v->count;
    *to = *v;
    to->rank = 1, to->dims = dims;
    if (!order) return 1;
    to->data = lib_alloc(call, v->count * size);
    for (i = 0; to->data && i < v->count; i++)
        memcpy((char *)to->data + i * size, (const char *)v->data + order[i] * size, (size_t)size);
    return to->data != NULL;
}

static int take_map(void **call, onnxc_value *to, const onnxc_value *v, const int64_t *type) {
    static const onnxc_value nothing = {0, 0, 0, 0, NULL, NULL};
    const onnxc_value *keys = (const onnxc_value *)v->data;
    onnxc_value *parts = (onnxc_value *)lib_alloc(call, 2 * (int64_t)sizeof *parts);
    int64_t i, *order = NULL;
    if (v->kind != LIB_MAP || v->count < 0 || !keys) return 1;
    if (!take_tensor(keys, type[1]) || !take_tensor(keys + 1, type[2])) return 1;
    if (keys[0].count != v->count || keys[1].count != v->count) return 1;
    for (i = 1; i < v->count && take_compare(keys, i - 1, i) < 0; i++) {
    }
    if (i < v->count) {
        order = take_order(call, keys);
        if (!order) return LIB_NO_MEMORY;
        for (i = 1; i < v->count; i++)
            if (take_compare(keys, order[i - 1], order[i]) == 0) return 2;
    }
    if (!parts || !take_list(call, parts, keys, order) || !take_list(call, parts + 1, keys + 1, order))
        return LIB_NO_MEMORY;
    *to = nothing;
    to->kind = LIB_MAP, to->count = v->count, to->data = parts;
    return 0;
}

static int take_value(void **call, onnxc_value *to, const onnxc_value *v, const int64_t *type) {
    const onnxc_value *items = (const onnxc_value *)v->data;
    int64_t i;
    int failed = 0;
    *to = *v;
    if (type[0] == LIB_TENSOR) return !take_tensor(v, type[1]);
    if (type[0] == LIB_MAP) return take_map(call, to, v, type);
    if (v->kind != LIB_SEQUENCE || v->count < 0 || (v->count && !items)) return 1;
    to->rank = 0; /* which the run's own sequences use */
    if (type[1] != LIB_TENSOR) to->data = lib_alloc(call, v->count * (int64_t)sizeof *v);
    if (v->count && !to->data) return LIB_NO_MEMORY;
    for (i = 0; i < v->count && !failed; i++) {
        if (type[1] == LIB_TENSOR) failed = !take_tensor(items + i, type[2]);
        else failed = take_value(call, (onnxc_value *)to->data + i, items + i, type + 1);
    }
    return failed;
}

ONNXC_LIB int onnxc_lib_value_take(void **call, void *const *data, const int64_t *numbers) {
    const onnxc_value *v = (const onnxc_value *)data[1];
    onnxc_value *own = (onnxc_value *)lib_alloc(call, (int64_t)sizeof *own);
    int optional = numbers[0] == LIB_NOTHING, failed;
    const int64_t *type = numbers + optional;
    if (!own) return LIB_NO_MEMORY;
    *(int64_t *)data[0] = 0;
    if (v->kind == LIB_NOTHING && optional) return 0;
    if (v->kind == LIB_NOTHING && type[0] == LIB_SEQUENCE) {
        memset(own, 0, sizeof *own);
        own->kind = LIB_SEQUENCE;
    } else {
        failed = take_value(call, own, v, type);
        if (failed) return failed;
    }
    *(int64_t *)data[0] = lib_handle(own);
    return 0;
}
