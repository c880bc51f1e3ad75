// Constants in the layout of their buffer, in pieces, against the definition of a layout element by element.
#include "ir/kernel/layout.h"
#include "compiler/base/arena.h"
#include "ir/graph/graph.h"
#include "ir/kernel/program.h"
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

enum { TRIALS = 3000, FILL = 3 };

static uint32_t next(uint32_t *seed) { return (*seed = *seed * 1664525 + 1013904223) >> 8; }
static int below(uint32_t *seed, int n) { return (int)(next(seed) % (uint32_t)n); }

static void show_message(void *user, const diag_message *m) {
    (void)user;
    print_error("%s\n", m->text);
}

static constant *random_bytes(arena *a, dtype elem, int rank, const int64_t *dims, uint32_t *seed) {
    constant *c = constant_new(a, elem, rank, dims);
    for (int64_t j = 0; j < dtype_size(elem, c->count); j++) ((uint8_t *)c->data)[j] = (uint8_t)next(seed);
    return c;
}

// The layout in panels has a narrower last one.
static void narrow_last(layout *l, const int64_t *size) {
    const struct layout_entry *e = &l->order[l->n - 1];
    if (e->tile && l->order[0].axis == e->axis && !l->gap_entry) l->last = size[e->axis] % e->tile;
}

// Axes in any order, some of them split, with halos and a gap.
static layout *random_layout(arena *a, dtype elem, int rank, uint32_t *seed) {
    layout *l = ARENA_NEW(a, layout);
    int order[MAX_RANK], per = dtype_bits(elem) < 8 ? 8 / dtype_bits(elem) : 1;
    for (int j = 0; j < rank; j++) {
        int at = below(seed, j + 1);
        order[j] = order[at];
        order[at] = j;
    }
    for (int j = 0; j < rank; j++) l->order[l->n++].axis = order[j];
    int split = below(seed, rank);
    bool splits = per > 1 || below(seed, 2);
    if (splits) {
        l->order[l->n].axis = order[split];
        l->order[l->n++].tile = per * (1 + below(seed, 4));
    }
    for (int j = 0; j < rank && per == 1; j++)
        if (!below(seed, 3) && !(splits && j == order[split]))
            l->pad_lo[j] = below(seed, 3), l->pad_hi[j] = below(seed, 3);
    l->fill = dtype_bits(elem) < 8 ? 0 : FILL;
    if (per == 1 && l->n > 1 && !below(seed, 3))
        l->gap_entry = below(seed, l->n - 1), l->gap = below(seed, 5);
    return l;
}

// The element at a physical position; -1: fill.
static int64_t element_at(const buffer *b, int64_t at) {
    const layout *l = b->layout;
    int64_t index[MAX_RANK] = {0}, element = 0;
    if (l->last) {
        last_panel p = layout_last_panel(b);
        int64_t row = (at - p.first) / p.columns;
        if (at >= p.first && row >= p.rows) return -1;
        if (at >= p.first) at = p.first + row * p.tile + (at - p.first) % p.columns;
    }
    for (int j = 0; j < l->n; j++) { // entry by entry, from the outermost one
        int64_t stride = dim_value(layout_stride(b, j));
        if (at / stride >= dim_value(layout_extent(b, j))) return -1;
        int64_t inner = 1;
        for (int i = j + 1; i < l->n; i++)
            if (l->order[i].axis == l->order[j].axis) inner *= dim_value(layout_extent(b, i));
        index[l->order[j].axis] += at / stride * inner;
        at %= stride;
    }
    for (int j = 0; j < b->rank; j++) {
        int64_t i = index[j] - l->pad_lo[j], size = dim_value(b->dims[j]);
        if (i < 0 || i >= size) return -1;
        element = element * size + i;
    }
    return element;
}

static void check_elements(const buffer *b, const uint8_t *got, int64_t count) {
    for (int64_t at = 0; at < count; at++) {
        int64_t i = element_at(b, at), want = i < 0 ? (int64_t)b->layout->fill : constant_int(b->data, i);
        assert_int_equal(dtype_load_int(b->dtype, got, at), want);
    }
}

static void check_layout(dtype elem, uint32_t *seed) {
    arena *a = arena_new();
    diag d = {.arena = a, .sink = show_message};
    int rank = 1 + below(seed, 3);
    int64_t size[3];
    for (int j = 0; j < rank; j++) size[j] = 1 + below(seed, 12);
    program *p = program_new(module_new(a, &d, "layouts.onnx"));
    buffer *b = program_constant(p, "w", random_bytes(a, elem, rank, size, seed));
    layout *l = random_layout(a, elem, rank, seed);
    if (dtype_bits(elem) >= 8) narrow_last(l, size);
    b->layout = l;
    int64_t bytes = dim_value(buffer_bytes(b)), unit = dtype_size(elem, 1);
    uint8_t *got = arena_alloc(a, (size_t)bytes + 1);
    for (int64_t at = 0, n; at < bytes; at += n) {
        n = unit * (1 + below(seed, 40));
        if (n > bytes - at) n = bytes - at;
        layout_produce(b, at, got + at, n);
    }
    check_elements(b, got, bytes * 8 / dtype_bits(elem));
    arena_destroy(a);
}

static void any_layout_in_pieces(void **state) {
    (void)state;
    static const dtype types[] = {DT_U2, DT_I4, DT_U4, DT_I8, DT_U8, DT_I16, DT_I32, DT_I64};
    uint32_t seed = 7;
    for (int j = 0; j < TRIALS; j++) check_layout(types[below(&seed, sizeof types / sizeof *types)], &seed);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(any_layout_in_pieces)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
