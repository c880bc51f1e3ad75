// Interpreted models, and code shared by all runnables. In: a program. Out: ports and a way to run it.
#include "compiler/run/runnable.h"
#include "compiler/driver/probes.h"
#include "compiler/run/blas.h"
#include "compiler/run/custom.h"
#include "compiler/run/gpu_shim.h"
#include "compiler/run/runnable_impl.h"
#include "ir/kernel/interp.h"
#include <string.h>

static port port_of(arena *a, const buffer *b) {
    port p = {.name = b->name, .kind = TYPE_TENSOR, .dtype = b->dtype, .rank = b->rank};
    p.has_default = b->fallback != NULL;
    if (b->holds) p.boxed = true, p.kind = b->holds->kind, p.type = type_text(a, b->holds);
    if (b->holds && p.kind == TYPE_TENSOR) p.dtype = b->holds->elem, p.rank = RANK_UNKNOWN;
    if (b->labels) p.kind = TYPE_SEQUENCE, p.labels = b->labels, p.type = type_text(a, &b->value->type);
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

static void free_boxed(void *box) {
    const tensor *t = box;
    if (t->data) onnxc_value_free(t->data);
}
static void free_strings(void *strings) {
    const tensor *t = strings;
    if (!t->data) return;
    onnxc_strings_free(t->data, t->count);
    memset(t->data, 0, (size_t)t->count * sizeof(onnxc_string));
}

void runnable_own_outputs(const runnable *r, arena *a, tensor *out) {
    for (int j = 0; j < r->nout; j++) {
        if (r->out[j].boxed) arena_on_destroy(a, free_boxed, &out[j]);
        else if (r->out[j].dtype == DT_STRING) arena_on_destroy(a, free_strings, &out[j]);
    }
}

void runnable_release_outputs(const runnable *r, tensor *out) {
    for (int j = 0; j < r->nout; j++) {
        if (r->out[j].boxed) free_boxed(&out[j]);
        else if (r->out[j].dtype == DT_STRING) free_strings(&out[j]);
    }
}

typedef struct interpretation {
    pipeline *p;
    blas blas;
    bool asked;
    map custom; // symbol -> onnxc_custom_function
} interpretation;

// Opened when there is something for it: that takes longer than a small model.
static interp_dgemm *find_dgemm(void *user) {
    interpretation *i = user;
    if (!i->asked) i->blas = blas_open(i->p->diag, i->p->options);
    i->asked = true;
    return i->blas.dgemm;
}

static onnxc_custom_function *find_custom(void *user, const char *symbol) {
    const interpretation *i = user;
    onnxc_custom_function *f;
    *(void **)&f = map_get(&i->custom, symbol);
    return f;
}

// Before the run: an error must not leave the interpreter.
static void find_all_custom(interpretation *i) {
    arena *a = i->p->arena;
    string_list symbols = custom_symbols(a, i->p->program);
    i->custom.arena = a;
    for (int j = 0; j < symbols.n; j++) {
        onnxc_custom_function *f = custom_find(i->p->arena, i->p->diag, i->p->options, symbols.at[j], false);
        map_put(&i->custom, symbols.at[j], *(void **)&f);
    }
}

static bool run_interpreted(runnable *r, arena *a, const tensor *in, tensor *out, const char **message) {
    interpretation *i = r->impl;
    bool strict = options_fp(i->p->options) == FP_STRICT;
    interp_hooks hooks = {.dgemm = strict ? NULL : find_dgemm, .custom = find_custom, .user = i};
    interp_limits limits = {.bytes = (int64_t)available_memory()};
    runnable_own_outputs(r, a, out);
    probes_start(r->probes);
    return interp_program_hooked(i->p->program, a, in, out, limits, message, &hooks) == INTERP_OK;
}

// Kernels as on a GPU, with threads in an order on which no program may depend.
typedef struct for_gpu {
    pipeline *p;
    gpu_machine machine;
    linterp_order order;
} for_gpu;

static bool run_for_gpu(runnable *r, arena *a, const tensor *in, tensor *out, const char **message) {
    for_gpu *g = r->impl;
    runnable_own_outputs(r, a, out);
    bool ok = gpu_run(g->p->program, g->p->gpu, &g->machine, a, in, out, message) == INTERP_OK;
    if (g->machine.error) diag_defect(g->p->diag, NULL, "%s", g->machine.error);
    return ok;
}

// shim: NULL: kernels run in the interpreter of loops; else the folder of the shim that runs their CUDA text.
static runnable *scheduled_for_gpu(pipeline *p, const source *s, const char *shim) {
    options *own = ARENA_NEW(p->arena, options);
    for_gpu *g = ARENA_NEW(p->arena, for_gpu);
    *own = *p->options;
    own->device = "cuda";
    own->emit = "cuda"; // no host code
    p->options = own;
    pipeline_run(p, s, GOAL_LOOPS);
    if (p->stopped) return NULL;
    *g = (for_gpu){.p = p, .order = ORDER_PERMUTED};
    g->machine = (gpu_machine){.launch = gpu_interpret, .user = &g->order};
    if (shim)
        g->machine = (gpu_machine){.launch = gpu_shim_launch,
                                   .user = gpu_shim_open(p->arena, p->diag, p->loops, shim, g->order)};
    runnable *r = ARENA_NEW(p->arena, runnable);
    *r = (runnable){.impl = g, .run = run_for_gpu};
    runnable_set_ports(p, r);
    return r;
}

static runnable *compiled(pipeline *p, const source *s) {
    const char *emit = p->options->emit;
    if (options_weights(p->options)) { // not needed in this process
        options *own = ARENA_NEW(p->arena, options);
        *own = *p->options;
        own->weights = NULL;
        p->options = own;
    }
    if (p->options->runner) return program_model(p, s);
    p->text_target = emit && strcmp(emit, "c") == 0;
    p->runs_here = !p->text_target;
    pipeline_run(p, s, GOAL_LOOPS);
    return p->stopped ? NULL : p->text_target ? text_model(p) : loaded_model(p);
}

static runnable *interpreted(pipeline *p, const source *s, goal g) {
    pipeline_run(p, s, g);
    if (p->stopped) return NULL;
    runnable *r = ARENA_NEW(p->arena, runnable);
    interpretation *i = ARENA_NEW(p->arena, interpretation);
    i->p = p;
    find_all_custom(i);
    if (p->options->blas) find_dgemm(i); // a wrong path is always an error
    *r = (runnable){.impl = i, .run = run_interpreted};
    runnable_set_ports(p, r);
    return r;
}

static void mark_stream(port *p, int axis, int64_t samples) {
    p->streamed = true, p->stream_axis = axis, p->stream_samples = samples;
}

// What --stream and --state say of inputs and outputs.
static void mark_streams(runnable *r, const program *g) {
    const module *m = g->module;
    for (int j = 0; j < r->nin; j++) {
        port *p = &r->in[j];
        for (int i = 0; i < m->streams.n; i++) {
            const stream_input *in = &m->streams.at[i];
            if (strcmp(p->name, in->input->name) == 0) mark_stream(p, in->axis, in->samples);
        }
        for (int i = 0; i < m->states.n; i++) p->begins_zero |= strcmp(p->name, m->states.at[i].input) == 0;
    }
    for (int j = 0; g->state && j < r->nout; j++) r->out[j].next_of = g->state[j];
    for (int i = 0; i < m->stream_outputs.n; i++) {
        const stream_output *out = &m->stream_outputs.at[i];
        mark_stream(&r->out[out->index], out->axis, out->samples);
        r->out[out->index].stream_delay = out->delay;
    }
}

void runnable_check_interpret(diag *d, const char *interpret) {
    if (*interpret && strcmp(interpret, "program") != 0 && strcmp(interpret, "gpu") != 0)
        diag_fatal(d, NULL, "--interpret=%s: expected program or gpu", interpret);
}

runnable *runnable_new(pipeline *p, const source *s, const char *interpret) {
    runnable *r;
    if (interpret) runnable_check_interpret(p->diag, interpret);
    if (!interpret) r = compiled(p, s);
    else if (!*interpret) r = interpreted(p, s, GOAL_KERNELS);
    else if (strcmp(interpret, "program") == 0) r = interpreted(p, s, GOAL_PROGRAM);
    else r = scheduled_for_gpu(p, s, NULL);
    if (!r) diag_fatal(p->diag, NULL, "--stop-after leaves nothing to run");
    r->probes = p->probes;
    mark_streams(r, p->program);
    return r;
}

runnable *runnable_on_shim(pipeline *p, const source *s, const char *folder) {
    runnable *r = scheduled_for_gpu(p, s, folder);
    if (!r) diag_fatal(p->diag, NULL, "--stop-after leaves nothing to run");
    return r;
}
