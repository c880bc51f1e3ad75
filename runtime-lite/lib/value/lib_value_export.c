// Exports a sequence, optional or map to the caller, with its contents in one block that begins at its data.
// Written: an onnxc_value. Read: its handle.
#include "runtime-lite/lib/lib.h"
#include "runtime-lite/lib/lib_value.h"

// A value is visited twice: to compute the size of the block, then to copy.
typedef struct export_copy {
    char *next; /* in the block; NULL: only the size is computed */
    size_t bytes;
} export_copy;

static char *export_room(export_copy *g, size_t n) {
    char *at = g->next;
    n = (n + 15) / 16 * 16;
    g->bytes += n;
    if (at) g->next += n;
    return at;
}

static void export_strings(export_copy *g, const onnxc_value *v, onnxc_string *to) {
    int64_t i;
    for (i = 0; i < v->count; i++) {
        onnxc_string s = ((const onnxc_string *)v->data)[i];
        char *bytes = export_room(g, s.size + 1);
        if (!bytes) continue;
        memcpy(bytes, s.data, s.size);
        bytes[s.size] = 0;
        to[i].data = bytes;
        to[i].size = s.size;
    }
}

static void export_tensor(export_copy *g, const onnxc_value *v, onnxc_value *to) {
    size_t n = (size_t)lib_bytes(v->dtype, v->count), rank = (size_t)v->rank * sizeof *v->dims;
    char *data = export_room(g, n + 1), *dims = export_room(g, rank);
    if (data) {
        *to = *v;
        to->data = data;
        to->dims = (const int64_t *)(const void *)dims;
        if (rank) memcpy(dims, v->dims, rank);
        if (n) memcpy(data, v->data, n);
    }
    if (v->dtype == DT_STRING) export_strings(g, v, (onnxc_string *)(void *)data);
}

static void export_value(export_copy *g, const onnxc_value *v, onnxc_value *to) {
    int64_t i, n = v->kind == LIB_MAP ? 2 : v->count;
    char *items;
    if (v->kind == LIB_TENSOR) {
        export_tensor(g, v, to);
        return;
    }
    items = export_room(g, (size_t)n * sizeof *v + 1);
    if (items) {
        *to = *v;
        to->rank = 0;
        to->data = items;
    }
    for (i = 0; i < n; i++)
        export_value(g, (const onnxc_value *)v->data + i, items ? (onnxc_value *)(void *)items + i : NULL);
}

ONNXC_LIB int onnxc_lib_value_export(void **call, void *const *data, const int64_t *numbers) {
    onnxc_value *out = (onnxc_value *)data[0];
    int64_t handle = *(const int64_t *)data[1];
    export_copy g = {NULL, 0};
    (void)call, (void)numbers;
    memset(out, 0, sizeof *out);
    if (!handle) return 0;
    export_value(&g, lib_value(handle), out);
    g.next = (char *)malloc(g.bytes);
    if (!g.next) return LIB_NO_MEMORY;
    export_value(&g, lib_value(handle), out);
    return 0;
}
