// Results in the memory of an output. In: a temporary that a copy hands to an output in another shape,
//
//   temp t: float[n, 2, m]; v: float[n, 2 * m] view of t
//   for i, j, k: t[i, j, k] = ...
//   copy y = v
//
// Out: the temporary is a view of the output, and no copy is left.
#include "ir/kernel/uses.h"
#include "passes/match/view.h"
#include "passes/passes.h"

static bool is_whole(const buffer *b) {
    return is_plain_view(b) && !b->rounded && b->space == SPACE_HOST && dtype_class_of(b->dtype) != DC_STRING;
}

// Whether only kernels that run once access the temporary, before the copy if they write it, and copies to other outputs.
static bool is_made_before(const uses *u, const buffer *b, const site *copy) {
    const site_list *l = &u->of[b->id].sites;
    for (int j = 0; j < l->n; j++) {
        const site *x = l->at[j];
        bool reads = x->s->kind == STEP_COPY && !site_writes(x, b);
        if (x->depth || (x->s->kind != STEP_KERNEL && !reads)) return false;
        if (x->time > copy->time && site_writes(x, b)) return false;
    }
    return true;
}

static bool can_share(const program *p, const uses *u, const site *at) {
    if (at->s->kind != STEP_COPY || at->depth) return false;
    const buffer *to = at->s->buffer, *from = root_of(at->s->from);
    if (to->role != BUF_OUTPUT || to->view_of || (p->state && p->state[to->io])) return false;
    if (dims_are_opaque(to->dims, to->rank)) return false; // the output may have no room
    if (from->role != BUF_TEMP || u->of[from->id].output || u->of[to->id].sites.n != 1) return false;
    return is_whole(at->s->from) && is_whole(to) && to->dtype == from->dtype &&
           at->s->from->dtype == from->dtype && dim_equal(buffer_count(to), buffer_count(from)) == TRI_YES &&
           is_made_before(u, from, at);
}

static void share(program *p, const site *at) {
    buffer *to = at->s->buffer, *from = root_of(at->s->from);
    for (int j = 0; j < p->buffers.n; j++)
        if (root_of(p->buffers.at[j]) == from)
            p->buffers.at[j]->role = BUF_OUTPUT, p->buffers.at[j]->io = to->io;
    from->view_of = to;
    region *r = at->region;
    int place = step_index(r, at->s);
    for (int j = place + 1; j < r->steps.n; j++) r->steps.at[j - 1] = r->steps.at[j];
    r->steps.n--;
}

void pass_output_views(pass_context *c) {
    program *p = c->program;
    arena *scratch = arena_new();
    const uses *u = uses_build(scratch, p);
    for (int j = 0; j < u->n; j++)
        if (can_share(p, u, &u->sites[j])) share(p, &u->sites[j]);
    arena_destroy(scratch);
}
