// Embeddings that are the weights of a product as well (tied). In: constants in panels, and the row-major originals
// for kernels that read rows which the data choose. Out: these rows are read in the panels, so that the object
// holds the table once. A row is then strided: as little work beside the product as one column of it.
#include "ir/kernel/edit.h"
#include "ir/kernel/uses.h"
#include "passes/layout/layout.h"
#include "passes/match/form.h"
#include <string.h>

// Also of two constants that are reinterpretations of the same bytes, or copies in the file.
static bool same_data(const constant *c, const constant *d) {
    if (c == d) return true;
    if (c->kind == CONST_ROUNDED && d->kind == CONST_ROUNDED)
        return c->elem == d->elem && same_data(c->from, d->from);
    if (c->kind != CONST_BYTES || d->kind != CONST_BYTES || c->elem != d->elem || c->rank != d->rank)
        return false;
    for (int j = 0; j < c->rank; j++)
        if (c->dims[j] != d->dims[j]) return false;
    return c->data == d->data || memcmp(c->data, d->data, (size_t)dtype_size(c->elem, c->count)) == 0;
}

static buffer *in_panels(const program *p, const buffer *b) {
    for (int j = 0; j < p->buffers.n; j++) {
        buffer *x = p->buffers.at[j];
        if (x->role == BUF_CONST && x->layout && !x->view_of && x->dtype == b->dtype &&
            same_data(x->data, b->data))
            return x;
    }
    return NULL;
}

// A large constant without a layout, of which kernels read only rows that the data choose.
static bool is_table(const buffer *b, const buffer_uses *of) {
    if (b->role != BUF_CONST || b->view_of || b->layout || !of->sites.n || of->viewed || of->by_others ||
        of->output || of->fallback || dim_value(buffer_bytes(b)) < LEAST_TABLE_BYTES)
        return false;
    for (int i = 0; i < of->sites.n; i++) {
        const step *s = of->sites.at[i]->s;
        if (s->kind != STEP_KERNEL || !kernel_only_gathers(s->kernel, b)) return false;
    }
    return true;
}

void read_tables_in_panels(program *p) {
    arena *scratch = arena_new();
    const uses *u = uses_build(scratch, p);
    for (int j = 0; j < p->buffers.n; j++) {
        const buffer *b = p->buffers.at[j];
        const buffer_uses *of = &u->of[j];
        buffer *panels = is_table(b, of) ? in_panels(p, b) : NULL;
        for (int i = 0; i < of->sites.n && panels; i++)
            kernel_swap_reads(of->sites.at[i]->s->kernel, b, panels);
    }
    arena_destroy(scratch);
}
