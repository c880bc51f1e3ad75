// Weights of kernels in patches. In: a kernel that computes rows patch * 8 to patch * 8 + 7 in each step, where the rows are channels,
// and so reads columns w[patch * 8 + m, ...] of packed weights. Out: it reads w'[patch, m, ...] of the same bytes, another constant
// whose panels do not cross the steps: products find panels by an axis alone.
#include "ir/kernel/edit.h"
#include "passes/memory/patch.h"

typedef struct split {
    const target *t;
    program *p;
    int axis; // of the kernel, along the rows
    dim *step, *start;
    int64_t rows;
    const buffer *from;
    buffer *to; // for `from`, NULL: none so far
} split;

static bool has_tiles(const layout *l, int d) {
    bool any = false;
    for (int j = 0; j < l->n; j++) any |= l->order[j].axis == d && l->order[j].tile > 0;
    return any;
}

// The dim that axis + start indexes; -1: none in panels.
static int split_dim(const split *x, const expr *read) {
    const layout *l = read->buffer->layout;
    for (int d = 0; l && d < read->buffer->rank; d++) {
        const expr *i = read->index[d];
        if (i->op != X_ADD || !has_tiles(l, d)) continue;
        const expr *axis = i->arg[i->arg[0]->op != X_AXIS], *start = i->arg[i->arg[0]->op == X_AXIS];
        if (axis->op == X_AXIS && axis->axis == x->axis && start->op == X_DIM && start->dim == x->start)
            return d;
    }
    return -1;
}

static bool is_plain(const layout *l) {
    bool plain = !l->gap && !l->last;
    for (int j = 0; j < MAX_RANK; j++) plain &= !l->pad_lo[j] && !l->pad_hi[j] && !l->room[j];
    return plain;
}

// Columns of a panel: as many as before if they divide a step, otherwise less if the target has such panels.
static int64_t panel_of_step(const split *x, int64_t panel) {
    int64_t least = x->t->scalar_panels ? LEAST_PANEL : PANEL, columns = panel;
    while (columns > least && x->rows % columns) columns /= 2;
    if (x->rows % columns == 0) return columns;
    for (columns = panel; columns > least && x->rows <= columns / 2;) columns /= 2;
    return columns;
}

// NULL: its panels are not of one tile.
static layout *split_layout(const split *x, const buffer *b, int d) {
    const layout *from = b->layout;
    layout *l = ARENA_NEW(x->p->arena, layout);
    int tiles = 0;
    *l = *from;
    l->n = 0;
    for (int j = 0; j < from->n; j++) {
        struct layout_entry e = from->order[j];
        if (l->n == 2 * MAX_RANK) return NULL;
        if (e.axis == d && !e.tile) l->order[l->n++] = e;
        if (e.axis == d && e.tile) e.tile = panel_of_step(x, e.tile), tiles++;
        if (e.axis >= d) e.axis++;
        if (l->n == 2 * MAX_RANK) return NULL;
        l->order[l->n++] = e;
    }
    return tiles == 1 ? l : NULL;
}

static buffer *split_constant(const split *x, const buffer *b, int d) {
    layout *l = split_layout(x, b, d);
    constant *c = ARENA_NEW(x->p->arena, constant);
    if (!l) return NULL;
    *c = *b->data;
    c->rank = b->rank + 1;
    c->dims = ARENA_ARRAY(x->p->arena, int64_t, c->rank);
    for (int j = 0; j < b->rank; j++) c->dims[j + (j > d)] = b->data->dims[j];
    c->dims[d] = b->data->dims[d] / x->rows, c->dims[d + 1] = x->rows;
    buffer *to = program_constant(x->p, b->name, c);
    to->layout = l, to->rounded = b->rounded;
    return to;
}

static expr *split_read(void *user, kernel *k, const expr *read) {
    split *x = user;
    const buffer *b = read->buffer;
    int d = split_dim(x, read);
    bool fits = d >= 0 && b->role == BUF_CONST && !b->view_of && b->rank < MAX_RANK && !read->guard;
    if (!fits || !is_plain(b->layout) || !dim_is_const(b->dims[d]) || dim_value(b->dims[d]) % x->rows)
        return NULL;
    buffer *to = x->from == b ? x->to : split_constant(x, b, d);
    if (!to) return NULL;
    x->from = b, x->to = to;
    expr *index[MAX_RANK];
    for (int j = 0; j < b->rank; j++) index[j + (j > d)] = read->index[j];
    index[d] = x_dim(k, x->step), index[d + 1] = x_axis(k, x->axis);
    return x_read(k, to, index);
}

void split_weights(program *p, const target *t, const patch_kernel *k, dim *step) {
    split x = {
        .t = t, .p = p, .axis = k->axis, .step = step, .start = dim_mulk(step, k->rate), .rows = k->rate};
    if (k->whole && !k->lead && k->rate > 1) kernel_rewrite_reads(k->k, split_read, &x);
}
