// Written: the handle of a sequence with one more item. Read: the sequence's handle, the item's handle, its
// position (NULL: at the end). Numbers: the position's dtype. Returns 1: the position is out of range.
#include "runtime-lite/lib/lib.h"
#include "runtime-lite/lib/lib_value.h"

// A sequence that grows at its end shares the memory of its items with the shorter one. The head of that
// memory:
typedef struct insert_room {
    int64_t used, capacity;
} insert_room;

static onnxc_value *insert_items(void **call, int64_t capacity, int64_t used) {
    insert_room *r =
        (insert_room *)lib_alloc(call, (int64_t)sizeof *r + capacity * (int64_t)sizeof(onnxc_value));
    if (!r) return NULL;
    r->used = used;
    r->capacity = capacity;
    return (onnxc_value *)(void *)(r + 1);
}

// Sequences with such a head have rank 1.
static int insert_may_append(const onnxc_value *s) {
    const insert_room *r = (const insert_room *)s->data - 1;
    return s->rank == 1 && r->used == s->count && r->used < r->capacity;
}

ONNXC_LIB int onnxc_lib_sequence_insert(void **call, void *const *data, const int64_t *numbers) {
    const onnxc_value *s = lib_items(*(const int64_t *)data[1]), *item = lib_value(*(const int64_t *)data[2]);
    int64_t n = s->count, at = data[3] ? lib_int(numbers[0], data[3]) : n;
    onnxc_value *out = (onnxc_value *)lib_alloc(call, (int64_t)sizeof *out), *items;
    if (at < -n || at > n) return 1;
    if (at < 0) at += n;
    if (!out) return LIB_NO_MEMORY;
    if (at == n && insert_may_append(s)) {
        items = (onnxc_value *)s->data;
        ((insert_room *)s->data - 1)->used++;
    } else {
        items = insert_items(call, at == n ? 2 * n + 4 : n + 1, n + 1);
        if (!items) return LIB_NO_MEMORY;
        if (at) memcpy(items, s->data, (size_t)at * sizeof *items);
        if (n > at)
            memcpy(items + at + 1, (const onnxc_value *)s->data + at, (size_t)(n - at) * sizeof *items);
    }
    items[at] = *item;
    *out = *s;
    out->rank = 1;
    out->count = n + 1;
    out->data = items;
    *(int64_t *)data[0] = lib_handle(out);
    return 0;
}
