// Accesses to reshaped buffers: axes of a view are joined where that saves divisions.
#include "passes/fuse/fuse_impl.h"

// A constant's bytes with these sizes are a constant themselves, so that a layout can be chosen for it.
static buffer *constant_view(program *p, const buffer *b, int rank, dim *const *d) {
    constant *c = ARENA_NEW(p->arena, constant);
    *c = *b->data;
    c->rank = rank;
    c->dims = ARENA_ARRAY(p->arena, int64_t, rank + 1);
    for (int j = 0; j < rank; j++) c->dims[j] = dim_value(d[j]);
    return program_constant(p, b->name, c);
}

static bool is_view_of(const buffer *v, const buffer *b) {
    if (v->view_of == b) return true;
    return v->role == BUF_CONST && b->role == BUF_CONST && v->dtype == b->dtype &&
           b->data->kind == CONST_BYTES && v->data->data == b->data->data;
}

static buffer *joined_view(fuse *f, buffer *b, int axis) {
    dim *d[MAX_RANK];
    for (int j = 0, n = 0; j < b->rank; j++) {
        if (j == axis + 1) d[n - 1] = dim_mul(d[n - 1], b->dims[j]);
        else d[n++] = b->dims[j];
    }
    for (int v = f->views.n - 1; v >= 0 && v >= f->views.n - 16; v--) {
        buffer *known = f->views.at[v];
        bool same = is_view_of(known, b) && known->rank == b->rank - 1;
        for (int j = 0; same && j < known->rank; j++) same = known->dims[j] == d[j];
        if (same) return known;
    }
    bool bytes = b->role == BUF_CONST && b->data->kind == CONST_BYTES;
    buffer *made =
        bytes ? constant_view(f->p, b, b->rank - 1, d) : program_view(f->p, b, b->name, b->rank - 1, d);
    VEC_PUSH(f->p->arena, &f->views, made);
    return made;
}

buffer *merge_access(fuse *f, kernel *k, buffer *b, expr **index) {
    if (b->role == BUF_LOCAL || !is_plain_view(b)) return b;
    for (int j = 0; j + 1 < b->rank; j++) {
        int before = divisions_in(index[j]) + divisions_in(index[j + 1]);
        if (before < 2) continue;
        expr *joined =
            join_divisions(k, x_add(k, x_mul(k, index[j], x_dim(k, b->dims[j + 1])), index[j + 1]));
        if (divisions_in(joined) >= before) continue;
        b = joined_view(f, b, j);
        index[j] = joined;
        for (int i = j + 1; i < b->rank; i++) index[i] = index[i + 1];
        j = -1;
    }
    return b;
}
