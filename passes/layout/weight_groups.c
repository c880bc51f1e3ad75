// Weights of grouped convolutions. In: reads w[g * 16 + m, ...] in contractions. Out: reads w'[g, m, ...] of the same bytes, as
// another constant or as a view.
#include "passes/layout/weight_groups.h"
#include "ir/kernel/edit.h"
#include "ir/kernel/program.h"

typedef struct split {
    const buffer *from;
    buffer *to;
    int axis; // of `from`, which is split into groups and columns
} split;
static expr *split_read(void *user, kernel *k, const expr *read) {
    const split *s = user;
    if (read->buffer != s->from) return NULL;
    expr *index[MAX_RANK], *groups;
    int digit = index_digit(k, read->index[s->axis], &groups);
    for (int j = 0; j < s->from->rank; j++) index[j + (j > s->axis)] = read->index[j];
    index[s->axis] = groups, index[s->axis + 1] = x_axis(k, digit);
    return x_read(k, s->to, index);
}

static buffer *split_constant(program *p, const buffer *b, int axis, int64_t columns) {
    constant *c = ARENA_NEW(p->arena, constant);
    *c = *b->data;
    c->rank = b->rank + 1;
    c->dims = ARENA_ARRAY(p->arena, int64_t, c->rank);
    for (int j = 0; j < b->rank; j++) c->dims[j + (j > axis)] = b->data->dims[j];
    c->dims[axis] = b->data->dims[axis] / columns, c->dims[axis + 1] = columns;
    return program_constant(p, b->name, c);
}

static buffer *split_view(program *p, const buffer *b, int axis, int64_t columns) {
    dim *dims[MAX_RANK];
    for (int j = 0; j < b->rank; j++) dims[j + (j > axis)] = b->dims[j];
    dims[axis] = dim_const(p->dims, dim_value(b->dims[axis]) / columns);
    dims[axis + 1] = dim_const(p->dims, columns);
    return program_view(p, (buffer *)b, b->name, b->rank + 1, dims);
}

static buffer *split_buffer(program *p, map *known, const buffer *b, int axis, int64_t columns) {
    uint64_t key = hash_bytes(hash_bytes(HASH_SEED, &b->id, sizeof b->id), &axis, sizeof axis);
    buffer *to = map_get_number(known, key);
    if (to) return to;
    to = b->role == BUF_CONST ? split_constant(p, b, axis, columns) : split_view(p, b, axis, columns);
    map_put_number(known, key, to);
    return to;
}

void split_groups(program *p, map *known, contraction *c) {
    kernel *k = (kernel *)c->k;
    const buffer *b = c->b->buffer;
    expr *groups;
    if (c->n < 0 || (b->view_of && b->role == BUF_CONST) || b->layout || b->rank == MAX_RANK || c->b->guard)
        return;
    for (int j = 0; j < b->rank; j++) {
        if (index_digit(k, c->b->index[j], &groups) != c->n || !groups || !dim_is_const(b->dims[j])) continue;
        int64_t columns = dim_value(k->axes.at[c->n].extent);
        split s = {b, split_buffer(p, known, b, j, columns), j};
        state *st = &c->s->states.at[0];
        st->step = expr_rewrite_reads(k, st->step, split_read, &s);
        contraction_find(k, c);
        return;
    }
}
