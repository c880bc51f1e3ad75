// Results of computed size. In: a program that computes a result in a heap buffer and then copies it to an output, as the
// output has room only if its capacity says so, which a run compares once it knows the size. Out: a variable for the
// buffer's address, set where the program allocates the buffer: the address of the output if it has room, else of
// memory of the buffer's own, so that the run goes on and tells the sizes of all outputs. No copy is left.
#include "codegen/host/host_impl.h"
#include "ir/kernel/uses.h"

static bool is_whole(const buffer *b) { return !b->layout && !b->rounded && b->space == SPACE_HOST; }

// Whether the step hands all of a heap buffer to an output of computed size.
static bool is_result(const program *p, const step *s) {
    const buffer *to = s->buffer, *from = s->kind == STEP_COPY ? buffer_root(s->from) : NULL;
    if (!from || from->role != BUF_HEAP || to->role != BUF_OUTPUT || to->view_of) return false;
    if (!dims_are_opaque(to->dims, to->rank) || (p->state && p->state[to->io])) return false;
    return is_whole(to) && is_whole(from) && to->dtype == from->dtype &&
           buffer_count(to) == buffer_count(from);
}

// Whether nothing changes the buffer after it was copied, and it keeps its address.
static bool stays(const uses *u, const buffer *from, const site *copy) {
    const site_list *l = &u->of[from->id].sites;
    for (int j = 0; j < l->n; j++) {
        const site *x = l->at[j];
        if (x->s->kind == STEP_MOVE) return false;
        if (site_writes(x, from) && x->time > copy->time && x->s->kind != STEP_FREE) return false;
    }
    return true;
}

void find_results(host_builder *a) {
    const uses *u = uses_build(a->arena, a->p);
    a->result_of = ARENA_ARRAY(a->arena, const buffer *, a->p->buffers.n + 1);
    for (int j = 0; j < u->n; j++) {
        const site *at = &u->sites[j];
        if (at->depth || !is_result(a->p, at->s)) continue;
        const buffer *from = buffer_root(at->s->from);
        if (!a->result_of[from->id] && stays(u, from, at)) a->result_of[from->id] = at->s->buffer;
    }
}

ins *open_own_memory(host *h, const buffer *of) {
    lbuild *b = &h->b;
    const buffer *result = h->builder->result_of[of->id];
    ins *pointer = buffer_pointer(h, result), *count = host_dim(h, buffer_count(result));
    ins *large = lb_cmp(b, L_SLT, io_capacity(h, result->io), count);
    lb_set(b, h->heap[of->id], pointer);
    return lb_if(b, lb_bin(b, L_OR, large, lb_cmp(b, L_EQ, pointer, lb_null(b))));
}

ins *open_own_free(host *h, const buffer *of) {
    const buffer *result = h->builder->result_of[of->id];
    return lb_if(&h->b, lb_cmp(&h->b, L_NE, lb_get(&h->b, h->heap[of->id]), buffer_pointer(h, result)));
}
