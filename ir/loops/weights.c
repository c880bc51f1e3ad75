// Constants as read-only data. In: a constant buffer with its layout. Out: any range of its bytes, produced
// when the object is written; equality of constants.
#include "ir/loops/weights.h"
#include "ir/kernel/layout.h"
#include "ir/target.h"
#include <string.h>

static int64_t bytes_of(const buffer *b) { return dim_value(buffer_bytes(b)); }

static void produce(void *user, int64_t offset, void *to, int64_t n) { layout_produce(user, offset, to, n); }

ldata *weights_new(arena *a, const buffer *b, const char *name, int align) {
    ldata *d = ARENA_NEW(a, ldata);
    d->name = name;
    d->bytes = bytes_of(b);
    d->align = align;
    d->dtype = b->dtype;
    if (!b->layout && b->data->kind == CONST_BYTES) d->bytes_or_null = b->data->data;
    d->produce = produce;
    d->user = (void *)b;
    return d;
}

void weights_write(arena *a, const ldata *d, const sink *to) {
    enum { CHUNK = 1 << 20 };
    if (d->bytes_or_null) {
        sink_addn(to, d->bytes_or_null, (size_t)d->bytes);
        return;
    }
    arena *own = arena_within(a);
    char *chunk = arena_alloc(own, (size_t)(d->bytes < CHUNK ? d->bytes : CHUNK));
    for (int64_t at = 0; at < d->bytes; at += CHUNK) {
        int64_t n = d->bytes - at < CHUNK ? d->bytes - at : CHUNK;
        ldata_copy(d, at, chunk, n);
        sink_addn(to, chunk, (size_t)n);
    }
    arena_destroy(own);
}

// ---------------------------------------------------------------- equality
enum { HASHED_MOST = 4096 };

uint64_t weights_hash(const buffer *b) {
    const constant *c = b->data;
    int64_t bytes = bytes_of(b);
    uint64_t h = hash_bytes(HASH_SEED, &bytes, sizeof bytes);
    if (b->layout) h = hash_bytes(h, &b->layout->n, sizeof b->layout->n);
    if (c->kind == CONST_SPLAT) return hash_bytes(h, c->splat, sizeof c->splat);
    if (c->kind == CONST_ROUNDED) c = c->from;
    int64_t n = dtype_size(c->elem, c->count);
    return hash_bytes(h, c->data, (size_t)(n < HASHED_MOST ? n : HASHED_MOST));
}

// The buffers may belong to programs with different tables of dims.
static bool same_shape(const buffer *x, const buffer *y) {
    if (x->rank != y->rank) return false;
    for (int j = 0; j < x->rank; j++)
        if (dim_value(x->dims[j]) != dim_value(y->dims[j])) return false;
    return true;
}

bool weights_equal(const buffer *x, const buffer *y) {
    const constant *c = x->data, *d = y->data;
    if (c->kind != d->kind || bytes_of(x) != bytes_of(y) || dtype_bits(c->elem) != dtype_bits(d->elem))
        return false;
    if (!layout_equal(x->layout, y->layout) || (x->layout && (!same_shape(x, y) || x->dtype != y->dtype)))
        return false;
    if (c->kind == CONST_SPLAT) return memcmp(c->splat, d->splat, sizeof c->splat) == 0;
    if (c->kind == CONST_ROUNDED) {
        if (c->elem != d->elem || c->from->elem != d->from->elem) return false;
        c = c->from, d = d->from;
    }
    int64_t n = dtype_size(c->elem, c->count);
    return c->data == d->data || memcmp(c->data, d->data, (size_t)n) == 0;
}
