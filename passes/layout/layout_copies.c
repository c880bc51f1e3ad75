// Copies of buffers in another layout: see layout_copies.h.
#include "passes/layout/layout_copies.h"
#include "compiler/base/integers.h"
#include "passes/match/form.h"

bool is_temp_root(const buffer *b) { return (b->role == BUF_TEMP || b->role == BUF_HEAP) && !b->view_of; }

// The step of entry j along its logical axis: the product of the inner tiles of that axis.
static int64_t entry_scale(const layout *l, int j) {
    int64_t scale = 1;
    for (int i = j + 1; i < l->n; i++)
        if (l->order[i].axis == l->order[j].axis) scale *= l->order[i].tile;
    return scale;
}

static expr *read_source(kernel *k, const copy_source *source, expr *const *index, expr *guard) {
    return source->of ? read_straight(k, source->of, index, guard)
                      : x_read_guarded(k, source->from, index, guard, NULL);
}

// A kernel that copies to all of `to`. Tiled axes of `to` are traversed tile by tile in physical order, so that it is written
// sequentially, with 0 in the padding of tiles.
kernel *kernel_of_copy(program *p, const char *name, const loc *at, copy_source source, buffer *to) {
    kernel *k = kernel_new(p, name, at);
    stage *s = kernel_stage(k);
    expr *index[MAX_RANK], *guard = NULL;
    const layout *l = to->layout;
    for (int j = 0; j < to->rank; j++) index[j] = x_i64(k, 0);
    for (int j = 0; j < (l ? l->n : to->rank); j++) {
        int axis = l ? l->order[j].axis : j;
        int64_t scale = l ? entry_scale(l, j) : 1;
        bool lane = l && l->order[j].tile;
        dim *n = lane ? dim_const(p->dims, l->order[j].tile)
                      : dim_ceildiv(to->dims[axis], dim_const(p->dims, scale));
        expr *a = stage_own_axis(k, s, AXIS_PARALLEL, lane ? "lane" : scale > 1 ? "panel" : "i", n);
        index[axis] = x_add(k, index[axis], x_mul(k, a, x_i64(k, scale)));
        if (!lane || scale > 1) continue;
        expr *inside = x_lt(k, index[axis], x_dim(k, to->dims[axis]));
        guard = guard ? x_and(k, guard, inside) : inside;
    }
    stage_write(k, s, to, index, read_source(k, &source, index, guard));
    return k;
}

kernel *copy_kernel(program *p, const char *name, const loc *at, buffer *from, buffer *to) {
    return kernel_of_copy(p, name, at, (copy_source){.from = from}, to);
}

// A buffer like b, allocated before step s of r if it is on the heap.
buffer *clone_buffer(program *p, region *r, const step *s, const buffer *b, const char *suffix,
                     const layout *l) {
    buffer *c = program_temp(p, arena_printf(p->arena, "%s.%s", b->name, suffix), b->dtype, b->rank, b->dims);
    c->layout = l;
    c->region = b->region;
    if (c->role == BUF_HEAP) step_insert(p, r, step_index(r, s), STEP_ALLOC, s->loc)->buffer = c;
    return c;
}

static bool writes_memory(const kernel *k, const buffer *b) {
    write_list all = kernel_write_list(k);
    for (int j = 0; j < all.n; j++)
        if (buffer_root(all.at[j]->to) == buffer_root(b)) return true;
    return false;
}

bool is_current_copy(const region *r, const step *s, const buffer *b, const buffer *copy) {
    for (int j = step_index(r, s) - 1; j >= 0; j--) {
        const step *before = r->steps.at[j];
        if (before->kind == STEP_ALLOC) continue;
        if (before->kind != STEP_KERNEL) return false;
        if (writes_memory(before->kernel, copy)) return true;
        if (writes_memory(before->kernel, b)) return false;
    }
    return false;
}

// ---------------------------------------------------------------- constants
uint64_t key_of_packed(const buffer *b, const layout *l) {
    uint64_t key = hash_bytes(hash_bytes(HASH_SEED, &b->id, sizeof b->id), l->order, sizeof l->order);
    return hash_bytes(key, &l->last, sizeof l->last);
}

buffer *packed_constant_as(program *p, map *packed, const buffer *b, const layout *l, dtype as) {
    uint64_t key = key_of_packed(b, l);
    buffer *known = map_get_number(packed, key);
    if (known) return known;
    const constant *data = b->dtype == as ? b->data : constant_rounded(p->arena, b->data, as);
    buffer *c = program_constant(p, b->name, data);
    c->layout = l;
    map_put_number(packed, key, c);
    return c;
}
buffer *packed_constant(program *p, map *packed, const buffer *b, const layout *l) {
    return packed_constant_as(p, packed, b, l, b->dtype);
}
