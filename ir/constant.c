// Tensor data known at compile time. In: element types, shapes, bytes. Out: constants and their elements.
#include "ir/graph.h"
#include <string.h>

static constant *make(arena *a, constant_kind kind, dtype elem, int rank, const int64_t *dims) {
    constant *c = ARENA_NEW(a, constant);
    c->kind = kind;
    c->elem = elem;
    c->rank = rank;
    c->dims = ARENA_ARRAY(a, int64_t, rank);
    c->count = 1;
    bool empty = false, overflow = false;
    for (int i = 0; i < rank; i++) {
        c->dims[i] = dims[i];
        if (dims[i] == 0) empty = true;
        else if (dims[i] < 0 || __builtin_mul_overflow(c->count, dims[i], &c->count)) overflow = true;
    }
    // What no memory can hold is out of memory.
    if (empty) c->count = 0;
    else if (overflow) arena_calloc(a, SIZE_MAX, 2);
    return c;
}

constant *constant_new(arena *a, dtype elem, int rank, const int64_t *dims) {
    constant *c = make(a, elem == DT_STRING ? CONST_STRINGS : CONST_BYTES, elem, rank, dims);
    if (elem == DT_STRING) {
        c->strings = ARENA_ARRAY(a, const char *, c->count);
        c->string_sizes = ARENA_ARRAY(a, size_t, c->count);
        for (int64_t i = 0; i < c->count; i++) c->strings[i] = "";
        return c;
    }
    c->data = arena_calloc(a, 1, (size_t)dtype_size(elem, c->count));
    return c;
}

constant *constant_splat(arena *a, dtype elem, int rank, const int64_t *dims, const void *element) {
    constant *c = make(a, CONST_SPLAT, elem, rank, dims);
    memcpy(c->splat, element, dtype_bits(elem) < 8 ? 1 : (size_t)dtype_bits(elem) / 8);
    if (dtype_bits(elem) < 8) c->splat[0] &= (uint8_t)((1 << dtype_bits(elem)) - 1);
    return c;
}

double constant_float(const constant *c, int64_t i) {
    return c->kind == CONST_SPLAT ? dtype_load_float(c->elem, c->splat, 0)
                                  : dtype_load_float(c->elem, c->data, i);
}

int64_t constant_int(const constant *c, int64_t i) {
    return c->kind == CONST_SPLAT ? dtype_load_int(c->elem, c->splat, 0)
                                  : dtype_load_int(c->elem, c->data, i);
}
