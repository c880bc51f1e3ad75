// States: outputs in the memory of an input, for the next call. In: a program with p->state. Out: one in
// which no step reads overwritten elements.
#include "ir/kernel/edit.h"
#include "ir/kernel/uses.h"
#include "passes/memory/memory_plan.h"

// Safe if every read of the input precedes the first use of the output, or is in the kernel that computes it.
// Uses of the output in nested regions are not analysed.
static bool is_safe(const uses *u, const buffer *in, const buffer *out) {
    const site_list *reads = &u->of[in->id].sites, *l = &u->of[out->id].sites;
    for (int j = 0; j < l->n; j++)
        if (l->at[j]->depth) return false;
    if (!l->n || !reads->n) return true;
    const site *last = reads->at[reads->n - 1], *def = l->at[0];
    if (last->time != def->time) return last->time < def->time;
    return def->s->kind == STEP_KERNEL && writes_in_place(def->s->kernel, in, out);
}

// The buffer that the steps use becomes a temporary, and a new one the output.
static void copy_at_end(program *p, int output) {
    buffer *old = p->outputs.at[output];
    buffer *b = program_buffer(p, old->name, BUF_OUTPUT, old->dtype, old->rank, old->dims);
    b->io = old->io, b->value = old->value, b->labels = old->labels;
    old->role = BUF_TEMP;
    p->outputs.at[output] = b;
    step *s = step_new(p, p->main, STEP_COPY, NULL);
    s->buffer = b, s->from = old;
}

// Whether a kernel that writes the output in place only copies the input.
static bool only_copies(const kernel *k) {
    const expr *value = k->stages.at[0]->writes.at[0].value;
    return value->op == X_READ && buffer_root(value->buffer) == buffer_root(k->in_place);
}

static void place_state(program *p, const uses *u, int output) {
    const buffer *in = p->inputs.at[p->state[output] - 1], *out = p->outputs.at[output];
    if (!is_safe(u, in, out)) {
        copy_at_end(p, output);
        return;
    }
    const site_list *l = &u->of[out->id].sites;
    kernel *k = l->n ? l->at[0]->s->kernel : NULL;
    if (!k || !writes_in_place(k, in, out)) return;
    k->in_place = in;
    if (only_copies(k)) k->stages.n = 0; // later kernels write what is new
}

void place_states(program *p) {
    if (!p->state) return;
    arena *scratch = arena_new();
    const uses *u = uses_build(scratch, p);
    for (int j = 0; j < p->outputs.n; j++)
        if (p->state[j]) place_state(p, u, j);
    program_compact(p); // kernels that only copied
    arena_destroy(scratch);
}
