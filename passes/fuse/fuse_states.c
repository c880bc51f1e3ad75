// States that grow are read by their own indices: their memory has room that a view of another shape does not know.
//
//   ku = view of present            present[b, h, j, d]
//   ku[b, h, 0, j, d]
#include "ir/kernel/edit.h"
#include "passes/fuse/fuse_impl.h"
#include "passes/passes.h"

static expr *direct_read(void *user, kernel *k, const expr *read) {
    buffer *root = user;
    expr *index[MAX_RANK];
    if (!read->buffer->view_of || buffer_root(read->buffer) != root) return NULL;
    if (!view_index(k, read->buffer, root, read->index, index)) return NULL;
    return x_read_guarded(k, root, index, read->guard, read->fill);
}

static void read_directly(program *p, buffer *state) {
    step_list steps = program_steps(p->arena, p);
    for (int j = 0; j < steps.n; j++)
        if (steps.at[j].s->kind == STEP_KERNEL)
            kernel_rewrite_reads(steps.at[j].s->kernel, direct_read, state);
}

void pass_states(pass_context *c) {
    program *p = c->program;
    bool any = false;
    for (int j = 0; j < p->outputs.n; j++) {
        if (state_axis(p, j) < 0) continue;
        any = true;
        read_directly(p, p->inputs.at[p->state[j] - 1]);
        read_directly(p, p->outputs.at[j]);
    }
    if (any) program_compact(p);
}
