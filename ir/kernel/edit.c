// Edits of kernels in place. In: a kernel and what its reads become. Out: the same kernel with other
// expressions.
#include "ir/kernel/edit.h"

static expr *map_read(kernel *k, const expr *e, expr *const *done, read_map *map, void *user) {
    expr read = *e, *index[MAX_RANK];
    for (int j = 0; j < e->buffer->rank; j++) index[j] = done[e->index[j]->id];
    read.index = index;
    if (e->guard) read.guard = done[e->guard->id], read.fill = done[e->fill->id];
    return map(user, k, &read);
}

expr *expr_rewrite_reads(kernel *k, expr *e, read_map *map, void *user) {
    arena *scratch = arena_new();
    expr_list nodes = expr_nodes(scratch, e);
    expr **done = ARENA_ARRAY(scratch, expr *, e->id + 1);
    for (int j = 0; j < nodes.n; j++) {
        const expr *x = nodes.at[j];
        expr *mapped = x->op == X_READ ? map_read(k, x, done, map, user) : NULL;
        done[x->id] = mapped ? mapped : expr_rebuild(k, x, done);
    }
    expr *result = done[e->id];
    arena_destroy(scratch);
    return result;
}

typedef struct rewrite {
    kernel *k;
    read_map *map;
    void *user;
} rewrite;
static expr *rewrite_root(void *user, expr *e) {
    const rewrite *r = user;
    return expr_rewrite_reads(r->k, e, r->map, r->user);
}
void kernel_rewrite_reads(kernel *k, read_map *map, void *user) {
    kernel_map_roots(k, rewrite_root, &(rewrite){k, map, user});
}

typedef struct swap {
    const buffer *from;
    buffer *to;
} swap;
static expr *swap_read(void *user, kernel *k, const expr *read) {
    const swap *s = user;
    return read->buffer == s->from ? x_read_guarded(k, s->to, read->index, read->guard, read->fill) : NULL;
}
expr *expr_swap_reads(kernel *k, expr *e, const buffer *from, buffer *to) {
    return expr_rewrite_reads(k, e, swap_read, &(swap){from, to});
}
void kernel_swap_reads(kernel *k, const buffer *from, buffer *to) {
    kernel_rewrite_reads(k, swap_read, &(swap){from, to});
}
