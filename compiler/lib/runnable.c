// Interpreted models, and what all runnable ones share. In: a program. Out: ports and a way to run it.
#include "compiler/lib/runnable.h"
#include "compiler/lib/runnable_impl.h"
#include "ir/interp.h"
#include <string.h>

static port port_of(arena *a, const buffer *b) {
    port p = {.name = b->name, .kind = TYPE_TENSOR, .dtype = b->dtype, .rank = b->rank};
    for (int j = 0; j < b->rank; j++) {
        p.dims[j] = dim_is_const(b->dims[j]) ? dim_value(b->dims[j]) : -1;
        p.sizes[j] = dim_text(a, b->dims[j]);
    }
    return p;
}

void runnable_set_ports(pipeline *p, runnable *r) {
    const program *g = p->program;
    r->name = p->name;
    r->nin = g->inputs.n;
    r->nout = g->outputs.n;
    r->in = ARENA_ARRAY(p->arena, port, r->nin + 1);
    r->out = ARENA_ARRAY(p->arena, port, r->nout + 1);
    for (int j = 0; j < r->nin; j++) r->in[j] = port_of(p->arena, g->inputs.at[j]);
    for (int j = 0; j < r->nout; j++) r->out[j] = port_of(p->arena, g->outputs.at[j]);
}

static bool run_interpreted(runnable *r, arena *a, const tensor *in, tensor *out, const char **message) {
    return interp_program(r->impl, a, in, out, (interp_limits){0}, message) == INTERP_OK;
}

static runnable *interpreted(pipeline *p) {
    runnable *r = ARENA_NEW(p->arena, runnable);
    *r = (runnable){.impl = p->program, .run = run_interpreted};
    runnable_set_ports(p, r);
    return r;
}

runnable *runnable_new(pipeline *p, const source *s, const char *interpret) {
    const char *emit = p->options->emit;
    if (p->options->runner && !interpret) return program_model(p, s);
    p->text_target = emit && strcmp(emit, "c") == 0 && !interpret;
    pipeline_run(p, s, !interpret ? GOAL_LOOPS : *interpret ? GOAL_PROGRAM : GOAL_KERNELS);
    if (p->stopped) diag_fatal(p->diag, NULL, "--stop-after leaves nothing to run");
    if (interpret) return interpreted(p);
    return p->text_target ? text_model(p) : loaded_model(p);
}
