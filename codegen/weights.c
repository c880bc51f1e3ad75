// Constants as read-only data. In: a constant's buffer with its layout. Out: bytes of any range of it: plain bytes are
// copied from the mapped file, splats repeated, packed layouts gathered element by element:
//
//   for p in physical elements of the range:
//     digits of p over the extents of the layout's entries -> index on each logical axis
//     to[p] = data[index] | fill in the halo | 0 in the rest of a tile
#include "codegen/weights.h"
#include <string.h>

static int64_t bytes_of(const buffer *b) { return dim_value(buffer_bytes(b)); }

// ---------------------------------------------------------------- plain
static void copy_plain(const buffer *b, int64_t offset, uint8_t *to, int64_t n) {
    memcpy(to, b->data->data + offset, (size_t)n);
}

static void repeat_splat(const buffer *b, int64_t offset, uint8_t *to, int64_t n) {
    const constant *c = b->data;
    int bits = dtype_bits(c->elem);
    uint8_t packed = 0;
    if (bits < 8) {
        for (int at = 0; at < 8; at += bits) packed |= (uint8_t)((c->splat[0] & ((1 << bits) - 1)) << at);
        memset(to, packed, (size_t)n);
        return;
    }
    int size = bits / 8;
    for (int64_t i = 0; i < n; i++) to[i] = c->splat[(offset + i) % size];
}

// ---------------------------------------------------------------- packed
typedef struct packer {
    const buffer *b;
    int bits;
    int64_t extent[2 * MAX_RANK]; // by entry
    int64_t size[MAX_RANK], stride[MAX_RANK]; // logical, by axis
    int64_t digit[2 * MAX_RANK];
    uint8_t fill[16];
} packer;

static void open_packer(packer *k, const buffer *b) {
    const layout *l = b->layout;
    *k = (packer){.b = b, .bits = dtype_bits(b->dtype)};
    for (int j = 0; j < l->n; j++) k->extent[j] = dim_value(layout_extent(b, j));
    int64_t stride = 1;
    for (int j = b->rank - 1; j >= 0; j--) {
        k->size[j] = dim_value(b->dims[j]);
        k->stride[j] = stride;
        stride *= k->size[j];
    }
    if (dtype_is_float(b->dtype)) dtype_store_float(b->dtype, k->fill, 0, l->fill, true);
    else if (dtype_class_of(b->dtype) != DC_COMPLEX) dtype_store_int(b->dtype, k->fill, 0, (int64_t)l->fill);
}

static void put_element(const packer *k, uint8_t *to, int64_t i, const uint8_t *from, int64_t j) {
    if (k->bits >= 8) {
        size_t size = (size_t)k->bits / 8;
        memcpy(to + (size_t)i * size, from + (size_t)j * size, size);
        return;
    }
    int mask = (1 << k->bits) - 1, v = from[j * k->bits / 8] >> (j * k->bits % 8) & mask, at = (int)(i * k->bits % 8);
    uint8_t *byte = to + i * k->bits / 8;
    *byte = (uint8_t)((*byte & ~(mask << at)) | v << at);
}

// One run of the innermost entry from `digit` on: count elements to to[at...].
static void put_run(const packer *k, uint8_t *to, int64_t at, int64_t count) {
    static const uint8_t zero[16] = {0};
    const layout *l = k->b->layout;
    const constant *c = k->b->data;
    int64_t index[MAX_RANK] = {0}, offset = 0;
    bool halo = false, beyond = false;
    int inner = l->order[l->n - 1].axis;
    for (int j = 0; j < l->n; j++) index[l->order[j].axis] = index[l->order[j].axis] * k->extent[j] + k->digit[j];
    for (int a = 0; a < k->b->rank; a++) {
        index[a] -= l->pad_lo[a];
        if (a == inner) continue;
        halo |= index[a] < 0 || index[a] >= k->size[a];
        beyond |= index[a] >= k->size[a] + l->pad_hi[a];
        offset += index[a] * k->stride[a];
    }
    for (int64_t i = 0; i < count; i++) {
        int64_t x = index[inner] + i;
        bool outside = x < 0 || x >= k->size[inner];
        if (beyond || x >= k->size[inner] + l->pad_hi[inner]) put_element(k, to, at + i, zero, 0);
        else if (halo || outside) put_element(k, to, at + i, k->fill, 0);
        else if (c->kind == CONST_SPLAT) put_element(k, to, at + i, c->splat, 0);
        else put_element(k, to, at + i, c->data, offset + x * k->stride[inner]);
    }
}

static void pack(const buffer *b, int64_t offset, uint8_t *to, int64_t n) {
    packer k;
    open_packer(&k, b);
    int entries = b->layout->n;
    int64_t first = offset * 8 / k.bits, total = dim_value(buffer_physical_count(b)), left = n * 8 / k.bits;
    if (left > total - first) left = total - first;
    if (k.bits < 8) memset(to, 0, (size_t)n);
    int64_t rest = first;
    for (int j = entries - 1; j >= 0; j--) k.digit[j] = rest % k.extent[j], rest /= k.extent[j];
    for (int64_t at = 0; at < left;) {
        int64_t run = k.extent[entries - 1] - k.digit[entries - 1];
        if (run > left - at) run = left - at;
        put_run(&k, to, at, run);
        at += run;
        k.digit[entries - 1] = 0;
        for (int j = entries - 2; j >= 0 && ++k.digit[j] == k.extent[j]; j--) k.digit[j] = 0;
    }
}

// Chunks begin and end between elements: whatever the writer asks for is widened to that.
static void produce(void *user, int64_t offset, void *to, int64_t n) {
    const buffer *b = user;
    if (!b->layout) {
        if (b->data->kind == CONST_SPLAT) repeat_splat(b, offset, to, n);
        else copy_plain(b, offset, to, n);
        return;
    }
    int64_t size = dtype_bits(b->dtype) >= 8 ? dtype_bits(b->dtype) / 8 : 1, done = 0;
    while (done < n) {
        int64_t at = offset + done, skip = at % size;
        if (!skip && n - done >= size) {
            int64_t whole = (n - done) / size * size;
            pack(b, at, (uint8_t *)to + done, whole);
            done += whole;
            continue;
        }
        uint8_t one[16];
        int64_t part = size - skip < n - done ? size - skip : n - done;
        pack(b, at - skip, one, size);
        memcpy((uint8_t *)to + done, one + skip, (size_t)part);
        done += part;
    }
}

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

// ---------------------------------------------------------------- equality
enum { HASHED_MOST = 4096 };

uint64_t weights_hash(const buffer *b) {
    const constant *c = b->data;
    int64_t bytes = bytes_of(b);
    uint64_t h = hash_bytes(HASH_SEED, &bytes, sizeof bytes);
    if (b->layout) h = hash_bytes(h, &b->layout->n, sizeof b->layout->n);
    if (c->kind == CONST_SPLAT) return hash_bytes(h, c->splat, sizeof c->splat);
    int64_t n = dtype_size(c->elem, c->count);
    return hash_bytes(h, c->data, (size_t)(n < HASHED_MOST ? n : HASHED_MOST));
}

static bool same_shape(const buffer *x, const buffer *y) {
    if (x->rank != y->rank) return false;
    for (int j = 0; j < x->rank; j++)
        if (x->dims[j] != y->dims[j]) return false;
    return true;
}

bool weights_equal(const buffer *x, const buffer *y) {
    const constant *c = x->data, *d = y->data;
    if (c->kind != d->kind || bytes_of(x) != bytes_of(y) || dtype_bits(c->elem) != dtype_bits(d->elem)) return false;
    if (!layout_equal(x->layout, y->layout) || (x->layout && (!same_shape(x, y) || x->dtype != y->dtype))) return false;
    if (c->kind == CONST_SPLAT) return memcmp(c->splat, d->splat, sizeof c->splat) == 0;
    int64_t n = dtype_size(c->elem, c->count);
    return c->data == d->data || memcmp(c->data, d->data, (size_t)n) == 0;
}
