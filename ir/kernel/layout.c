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

static void put_element(const constant *c, int64_t i, void *to, int64_t at) {
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

// ---------------------------------------------------------------- runs
// n elements at a distance of `step`, from element i of the source to element `at`.
typedef struct run {
    const uint8_t *from;
    int64_t i, step;
    uint8_t *to;
    int64_t at, n;
} run;

// Packed elements that fill whole bytes and have the same positions within their bytes.
static void copy_packed(const run *r, int bits) {
    int per = 8 / bits, shift = (int)(r->i * bits % 8), mask = (1 << bits) - 1;
    const uint8_t *from = r->from + r->i * bits / 8;
    uint8_t *to = r->to + r->at * bits / 8;
    int64_t step = r->step * bits / 8;
    for (int64_t j = 0; j < r->n / per; j++) {
        int v = 0;
        for (int k = 0; k < per; k++, from += step) v |= (*from >> shift & mask) << k * bits;
        to[j] = (uint8_t)v;
    }
}

static void copy_bits(const run *r, int bits) {
    int per = 8 / bits;
    bool fills = r->at % per == 0 && r->n % per == 0;
    if (fills && r->step == 1 && r->i % per == 0)
        memcpy(r->to + r->at / per, r->from + r->i / per, (size_t)(r->n / per));
    else if (fills && r->step % per == 0) copy_packed(r, bits);
    else
        for (int64_t k = 0; k < r->n; k++)
            put_bits(r->to, r->at + k, bits, bits_at(r->from, r->i + k * r->step, bits));
}

#define COPY_EACH(type)                                                                                      \
    for (int64_t k = 0; k < r->n; k++)                                                                       \
    memcpy(r->to + (r->at + k) * (int64_t)sizeof(type),                                                      \
           r->from + (r->i + k * r->step) * (int64_t)sizeof(type), sizeof(type))

static void copy_bytes(const run *r, int size) {
    if (r->step == 1) memcpy(r->to + r->at * size, r->from + r->i * size, (size_t)(r->n * size));
    else if (size == 1) COPY_EACH(uint8_t);
    else if (size == 2) COPY_EACH(uint16_t);
    else if (size == 4) COPY_EACH(uint32_t);
    else
        for (int64_t k = 0; k < r->n; k++)
            memcpy(r->to + (r->at + k) * size, r->from + (r->i + k * r->step) * size, (size_t)size);
}

static void copy_run(const constant *c, const run *r) {
    int bits = dtype_bits(c->elem);
    if (c->kind != CONST_BYTES)
        for (int64_t k = 0; k < r->n; k++) put_element(c, r->i + k * r->step, r->to, r->at + k);
    else if (bits < 8) copy_bits(r, bits);
    else copy_bytes(r, bits / 8);
}

static void put_fill(const buffer *b, void *to, int64_t at, int64_t n) {
    for (; n > 0; n--, at++)
        if (dtype_is_float(b->dtype)) dtype_store_float(b->dtype, to, at, b->layout->fill, true);
        else dtype_store_int(b->dtype, to, at, (int64_t)b->layout->fill);
}

// ---------------------------------------------------------------- places
typedef struct place {
    int64_t extent[2 * MAX_RANK],
        scale[2 * MAX_RANK];                  // of a physical entry: how many, how far in its logical axis
    int64_t stride[MAX_RANK], size[MAX_RANK]; // logical, row-major
    int64_t block;                            // elements between two gaps
    bool whole;                               // no position is outside the tensor
    // The current run.
    int64_t digit[2 * MAX_RANK], index[MAX_RANK]; // of all entries, and axes, without the last entry
} place;

static void find_places(const buffer *b, place *p) {
    const layout *l = b->layout;
    int64_t below[MAX_RANK], n = 1;
    p->block = 1;
    p->whole = true;
    for (int a = 0; a < b->rank; a++) below[a] = 1;
    for (int j = l->n - 1; j >= 0; j--) {
        int a = l->order[j].axis;
        p->extent[j] = dim_value(layout_extent(b, j));
        p->scale[j] = below[a];
        below[a] *= p->extent[j];
        if (j > l->gap_entry) p->block *= p->extent[j];
    }
    for (int a = b->rank - 1; a >= 0; a--) {
        p->stride[a] = n, n *= p->size[a] = dim_value(b->dims[a]);
        p->whole &= !l->pad_lo[a] && below[a] == p->size[a];
    }
}

// Sets the run of the element at `at`; returns its position in the run.
static int64_t seek(const buffer *b, place *p, int64_t at) {
    const layout *l = b->layout;
    int last = l->n - 1;
    int64_t rest = at / p->extent[last];
    for (int a = 0; a < b->rank; a++) p->index[a] = -l->pad_lo[a];
    for (int j = last - 1; j >= 0; rest /= p->extent[j], j--) {
        p->digit[j] = rest % p->extent[j];
        p->index[l->order[j].axis] += p->digit[j] * p->scale[j];
    }
    return at % p->extent[last];
}

static void next_run(const layout *l, place *p) {
    for (int j = l->n - 2; j >= 0; j--) {
        p->index[l->order[j].axis] += p->scale[j];
        if (++p->digit[j] < p->extent[j]) return;
        p->index[l->order[j].axis] -= p->extent[j] * p->scale[j];
        p->digit[j] = 0;
    }
}

// Elements [first, first + n) of the current run.
static void produce_run(const buffer *b, const place *p, int64_t first, void *to, int64_t at, int64_t n) {
    const layout *l = b->layout;
    int axis = l->order[l->n - 1].axis;
    int64_t scale = p->scale[l->n - 1], i = p->index[axis] + first * scale, source = i * p->stride[axis];
    int64_t before = 0, inside = n;
    for (int a = 0; a < b->rank; a++) {
        if (a == axis) continue;
        source += p->index[a] * p->stride[a];
        if (!p->whole && (p->index[a] < 0 || p->index[a] >= p->size[a])) inside = 0;
    }
    if (!p->whole && inside) {
        while (before < n && i + before * scale < 0) before++;
        while (inside > before && i + (inside - 1) * scale >= p->size[axis]) inside--;
        inside -= before;
    }
    int64_t step = scale * p->stride[axis];
    put_fill(b, to, at, before);
    if (inside)
        copy_run(b->data, &(run){b->data->data, source + before * step, step, to, at + before, inside});
    put_fill(b, to, at + before + inside, n - before - inside);
}

// Elements without a gap between them.
static void produce_block(const buffer *b, place *p, int64_t first, void *to, int64_t at, int64_t n) {
    int64_t extent = p->extent[b->layout->n - 1], digit = n ? seek(b, p, first) : 0;
    for (int64_t done = 0; done < n; digit = 0, next_run(b->layout, p)) {
        int64_t m = extent - digit < n - done ? extent - digit : n - done;
        produce_run(b, p, digit, to, at + done, m);
        done += m;
    }
}

static void produce_blocks(const buffer *b, place *p, int64_t first, void *to, int64_t n) {
    int64_t gap = b->layout->gap;
    if (!gap) {
        produce_block(b, p, first, to, 0, n);
        return;
    }
    for (int64_t done = 0, m; done < n; done += m) {
        int64_t blocks = (first + done) / (p->block + gap), at = (first + done) % (p->block + gap);
        int64_t end = at < p->block ? p->block : p->block + gap;
        m = end - at < n - done ? end - at : n - done;
        if (at < p->block) produce_block(b, p, blocks * p->block + at, to, done, m);
        else put_fill(b, to, done, m);
    }
}

// Elements [first, first + n) of a last panel with narrower rows.
static void produce_last(const buffer *b, place *p, const last_panel *last, int64_t first, void *to,
                         int64_t at, int64_t n) {
    int64_t before = last->number * last->rows * last->tile;
    for (int64_t done = 0, m; done < n; done += m) {
        int64_t row = (first + done) / last->columns, column = (first + done) % last->columns;
        bool inside = row < last->rows;
        m = inside && last->columns - column < n - done ? last->columns - column : n - done;
        if (inside) produce_block(b, p, before + row * last->tile + column, to, at + done, m);
        else put_fill(b, to, at + done, m);
    }
}

// Elements [first, first + n) of the physical order.
static void produce_elements(const buffer *b, place *p, int64_t first, void *to, int64_t n) {
    int64_t whole = n;
    if (b->layout->last) {
        last_panel last = layout_last_panel(b);
        whole = last.first <= first ? 0 : last.first - first < n ? last.first - first : n;
        produce_last(b, p, &last, first + whole - last.first, to, whole, n - whole);
    }
    produce_blocks(b, p, first, to, whole);
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
