// Types of values. In: element types and dims. Out: types, their comparison and text.
#include "ir/graph/graph.h"
#include <string.h>

type type_tensor(arena *a, dtype elem, int rank, dim *const *dims) {
    type t = {.kind = TYPE_TENSOR, .elem = elem, .rank = rank};
    if (rank <= 0) return t;
    t.dims = ARENA_ARRAY(a, dim *, rank);
    memcpy(t.dims, dims, (size_t)rank * sizeof *dims);
    return t;
}

type type_tensor_const(dims *table, arena *a, dtype elem, int rank, const int64_t *dims) {
    type t = {.kind = TYPE_TENSOR, .elem = elem, .rank = rank};
    if (rank <= 0) return t;
    t.dims = ARENA_ARRAY(a, dim *, rank);
    for (int i = 0; i < rank; i++) t.dims[i] = dim_const(table, dims[i]);
    return t;
}

const char *type_kind_name(type_kind k) {
    static const char *const names[] = {
        [TYPE_NONE] = "none",         [TYPE_TENSOR] = "tensor",     [TYPE_SPARSE] = "sparse",
        [TYPE_SEQUENCE] = "sequence", [TYPE_OPTIONAL] = "optional", [TYPE_MAP] = "map"};
    return names[k];
}

static bool same_shape(const type *a, const type *b) {
    if (a->elem != b->elem || a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dims[i] != b->dims[i]) return false;
    return true;
}

bool type_equal(const type *a, const type *b) {
    if (!a || !b) return a == b;
    if (a->kind != b->kind) return false;
    switch (a->kind) {
    case TYPE_NONE: return true;
    case TYPE_TENSOR:
    case TYPE_SPARSE: return same_shape(a, b);
    case TYPE_SEQUENCE:
    case TYPE_OPTIONAL: return type_equal(a->item, b->item);
    case TYPE_MAP: return a->elem == b->elem && type_equal(a->item, b->item);
    }
    return false;
}

static void add_shape(text *out, const type *t) {
    text_printf(out, "%s[", dtype_name(t->elem));
    if (t->rank < 0) text_add(out, "...");
    for (int i = 0; i < t->rank; i++) {
        if (i) text_add(out, ", ");
        text_add(out, dim_text(out->arena, t->dims[i]));
    }
    text_add(out, "]");
}

static void add_type(text *out, const type *t) {
    if (!t) {
        text_add(out, "none");
        return;
    }
    switch (t->kind) {
    case TYPE_NONE: text_add(out, "none"); return;
    case TYPE_TENSOR: add_shape(out, t); return;
    case TYPE_SPARSE: text_add(out, "sparse("), add_shape(out, t); break;
    case TYPE_SEQUENCE: text_add(out, "sequence("), add_type(out, t->item); break;
    case TYPE_OPTIONAL: text_add(out, "optional("), add_type(out, t->item); break;
    case TYPE_MAP: text_printf(out, "map(%s, ", dtype_name(t->elem)), add_type(out, t->item); break;
    }
    text_add(out, ")");
}

const char *type_text(arena *a, const type *t) {
    text out = {.arena = a};
    add_type(&out, t);
    return text_str(&out);
}
