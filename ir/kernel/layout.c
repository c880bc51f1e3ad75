// Constants in the layout of their buffer, any range of bytes.
#include "ir/kernel/layout.h"
#include <string.h>

static void put_bits(uint8_t *to, int64_t at, int bits, int code) {
    int shift = (int)(at * bits % 8), mask = ((1 << bits) - 1) << shift;
    uint8_t *byte = to + at * bits / 8;
    *byte = (uint8_t)((*byte & ~mask) | (code << shift));
}

static int bits_at(const uint8_t *from, int64_t i, int bits) {
    return from[i * bits / 8] >> (i * bits % 8) & ((1 << bits) - 1);
}

static void put_element(const buffer *b, int64_t i, void *to, int64_t at) {
    const constant *c = b->data;
    int bits = dtype_bits(c->elem);
    if (bits < 8) {
        put_bits(to, at, bits,
                 c->kind == CONST_SPLAT ? bits_at(c->splat, 0, bits) : bits_at(c->data, i, bits));
        return;
    }
    if (c->kind == CONST_ROUNDED) {
        constant_copy(c, i, c->elem, to, at);
        return;
    }
    size_t size = (size_t)dtype_bits(c->elem) / 8;
    memcpy((uint8_t *)to + (size_t)at * size, c->kind == CONST_SPLAT ? c->splat : c->data + (size_t)i * size,
           size);
}

static void put_fill(const buffer *b, void *to, int64_t at) {
    if (dtype_is_float(b->dtype)) dtype_store_float(b->dtype, to, at, b->layout->fill, true);
    else dtype_store_int(b->dtype, to, at, (int64_t)b->layout->fill);
}

typedef struct place {
    int64_t extent[2 * MAX_RANK],
        scale[2 * MAX_RANK];  // of a physical entry: how many, how far in its logical axis
    int64_t stride[MAX_RANK]; // logical row-major
    int64_t block;            // elements between two gaps
} place;

static void find_places(const buffer *b, place *p) {
    const layout *l = b->layout;
    int64_t below[MAX_RANK], n = 1;
    p->block = 1;
    for (int a = 0; a < b->rank; a++) below[a] = 1;
    for (int j = l->n - 1; j >= 0; j--) {
        int a = l->order[j].axis;
        p->extent[j] = dim_value(layout_extent(b, j));
        p->scale[j] = below[a];
        below[a] *= p->extent[j];
        if (j > l->gap_entry) p->block *= p->extent[j];
    }
    for (int a = b->rank - 1; a >= 0; a--) p->stride[a] = n, n *= dim_value(b->dims[a]);
}

// Elements [first, first + n) of the physical order, run by run of the innermost entry.
static void produce_elements(const buffer *b, const place *p, int64_t first, void *to, int64_t n) {
    const layout *l = b->layout;
    int last = l->n - 1;
    for (int64_t done = 0; done < n;) {
        int64_t at = first + done, blocks = l->gap ? at / (p->block + l->gap) : 0;
        if (l->gap && at - blocks * (p->block + l->gap) >= p->block) {
            put_fill(b, to, done++);
            continue;
        }
        at -= blocks * l->gap;
        int64_t index[MAX_RANK], digit = at % p->extent[last], rest = at / p->extent[last];
        for (int a = 0; a < b->rank; a++) index[a] = -l->pad_lo[a];
        for (int j = last - 1; j >= 0; rest /= p->extent[j], j--)
            index[l->order[j].axis] += rest % p->extent[j] * p->scale[j];
        int axis = l->order[last].axis;
        bool inside = true;
        int64_t source = 0, size = dim_value(b->dims[axis]);
        for (int a = 0; a < b->rank; a++) {
            if (a == axis) continue;
            inside &= index[a] >= 0 && index[a] < dim_value(b->dims[a]);
            source += index[a] * p->stride[a];
        }
        for (; digit < p->extent[last] && done < n; digit++, done++) {
            int64_t i = index[axis] + digit * p->scale[last];
            if (inside && i >= 0 && i < size) put_element(b, source + i * p->stride[axis], to, done);
            else put_fill(b, to, done);
        }
    }
}

static void produce_splat(const constant *c, int64_t offset, uint8_t *to, int64_t n) {
    int bits = dtype_bits(c->elem);
    if (bits >= 8) {
        for (int64_t j = 0; j < n; j++) to[j] = c->splat[(offset + j) % (bits / 8)];
        return;
    }
    int v = c->splat[0] & ((1 << bits) - 1), byte = 0;
    for (int j = 0; j < 8; j += bits) byte |= v << j;
    memset(to, byte, (size_t)n);
}

static void produce_rounded(const constant *c, int64_t offset, void *to, int64_t n) {
    int64_t size = dtype_bits(c->elem) / 8;
    for (int64_t j = 0; j < n / size; j++) constant_copy(c, offset / size + j, c->elem, to, j);
}

void layout_produce(const buffer *b, int64_t offset, void *to, int64_t n) {
    if (!b->layout) {
        if (b->data->kind == CONST_SPLAT) produce_splat(b->data, offset, to, n);
        else if (b->data->kind == CONST_ROUNDED) produce_rounded(b->data, offset, to, n);
        else memcpy(to, b->data->data + offset, (size_t)n);
        return;
    }
    place p;
    int bits = dtype_bits(b->dtype);
    find_places(b, &p);
    produce_elements(b, &p, offset * 8 / bits, to, n * 8 / bits);
}
