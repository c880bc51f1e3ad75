// Imports a sequence, optional or map from the caller. Written: its handle. Read: an onnxc_value. Numbers:
// its type, from outside in: 0 (optional of), 2 (sequence of), 3 and the dtypes of keys and values (map), 1
// and a dtype (tensor). Nothing is an empty sequence. Maps are sorted by their keys. Returns 1: another type;
// 2: a duplicate key.
#include "runtime-lite/lib/lib.h"
#include "runtime-lite/lib/lib_value.h"

static int import_tensor(const onnxc_value *v, int64_t elem) {
    return v->kind == LIB_TENSOR && v->dtype == elem && v->count >= 0 && (!v->count || v->data);
}

// < 0, 0, > 0: the keys at i and j
static int import_compare(const void *user, int64_t i, int64_t j) {
    const onnxc_value *keys = (const onnxc_value *)user;
    const int64_t *numbers = (const int64_t *)keys->data;
    if (keys->dtype == DT_STRING)
        return lib_string_compare(lib_handle((const onnxc_string *)keys->data + i),
                                  lib_handle((const onnxc_string *)keys->data + j));
    return numbers[i] < numbers[j] ? -1 : numbers[i] > numbers[j];
}

// v as a tensor of rank 1, with its elements in that order (NULL: as they are).
static int import_list(void **call, onnxc_value *to, const onnxc_value *v, const int64_t *order) {
    int64_t i, size = lib_bytes(v->dtype, 1), *dims = (int64_t *)lib_alloc(call, (int64_t)sizeof *dims);
    if (!dims) return 0;
    *dims = v->count;
    *to = *v;
    to->rank = 1;
    to->dims = dims;
    if (!order) return 1;
    to->data = lib_alloc(call, v->count * size);
    for (i = 0; to->data && i < v->count; i++)
        memcpy((char *)to->data + i * size, (const char *)v->data + order[i] * size, (size_t)size);
    return to->data != NULL;
}

static int import_map(void **call, onnxc_value *to, const onnxc_value *v, const int64_t *type) {
    static const onnxc_value nothing = {0, 0, 0, 0, NULL, NULL};
    const onnxc_value *keys = (const onnxc_value *)v->data;
    onnxc_value *parts = (onnxc_value *)lib_alloc(call, 2 * (int64_t)sizeof *parts);
    int64_t i, *order = NULL;
    if (v->kind != LIB_MAP || v->count < 0 || !keys) return 1;
    if (!import_tensor(keys, type[1]) || !import_tensor(keys + 1, type[2])) return 1;
    if (keys[0].count != v->count || keys[1].count != v->count) return 1;
    for (i = 1; i < v->count && import_compare(keys, i - 1, i) < 0; i++) {
    }
    if (i < v->count) {
        order = lib_order(call, v->count, import_compare, keys);
        if (!order) return LIB_NO_MEMORY;
        for (i = 1; i < v->count; i++)
            if (import_compare(keys, order[i - 1], order[i]) == 0) return 2;
    }
    if (!parts || !import_list(call, parts, keys, order) || !import_list(call, parts + 1, keys + 1, order))
        return LIB_NO_MEMORY;
    *to = nothing;
    to->kind = LIB_MAP;
    to->count = v->count;
    to->data = parts;
    return 0;
}

static int import_value(void **call, onnxc_value *to, const onnxc_value *v, const int64_t *type) {
    const onnxc_value *items = (const onnxc_value *)v->data;
    int64_t i;
    int failed = 0;
    *to = *v;
    if (type[0] == LIB_TENSOR) return !import_tensor(v, type[1]);
    if (type[0] == LIB_MAP) return import_map(call, to, v, type);
    if (v->kind != LIB_SEQUENCE || v->count < 0 || (v->count && !items)) return 1;
    to->rank = 0; /* not from lib_sequence_insert.c */
    if (type[1] != LIB_TENSOR) to->data = lib_alloc(call, v->count * (int64_t)sizeof *v);
    if (v->count && !to->data) return LIB_NO_MEMORY;
    for (i = 0; i < v->count && !failed; i++) {
        if (type[1] == LIB_TENSOR) failed = !import_tensor(items + i, type[2]);
        else failed = import_value(call, (onnxc_value *)to->data + i, items + i, type + 1);
    }
    return failed;
}

ONNXC_LIB int onnxc_lib_value_import(void **call, void *const *data, const int64_t *numbers) {
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
        failed = import_value(call, own, v, type);
        if (failed) return failed;
    }
    *(int64_t *)data[0] = lib_handle(own);
    return 0;
}
