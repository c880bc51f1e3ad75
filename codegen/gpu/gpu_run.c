// Runs host steps in the interpreter and kernels on a substitute for a GPU.
#include "codegen/gpu/gpu_run.h"
#include "ir/kernel/interp_kernel.h"
#include "ir/kernel/program.h"
#include <string.h>

enum { ALIGN = 64, SEED = 7 };

typedef struct run {
    const gpu_code *code;
    gpu_machine *machine;
} run;

static char *aligned(arena *a, int64_t bytes) {
    char *p = arena_alloc(a, (size_t)bytes + ALIGN);
    return p + (-(uintptr_t)p & (ALIGN - 1));
}

// Memory of a launch. Memory that the interpreter did not align is copied, as it would be to a GPU.
typedef struct memories {
    arena *arena;
    VEC(gpu_region) all;
    VEC(void *) from; // source of the copy; NULL: not copied
    VEC(const buffer *) roots;
} memories;

static int add_memory(memories *m, void *at, int64_t bytes, bool writable) {
    bool copied = (uintptr_t)at % ALIGN != 0;
    gpu_region r = {copied ? aligned(m->arena, bytes) : at, bytes, writable};
    if (copied) memcpy(r.at, at, (size_t)bytes);
    VEC_PUSH(m->arena, &m->all, r);
    VEC_PUSH(m->arena, &m->from, copied ? at : NULL);
    return m->all.n - 1;
}

// Views share the memory of their root.
static uint64_t address_of(memories *m, const interp *in, const buffer *b, bool writes) {
    const buffer *root = buffer_root(b);
    const memory *whole = &in->at[root->id];
    int i = 0;
    while (i < m->roots.n && m->roots.at[i] != root) i++;
    if (i == m->roots.n) {
        add_memory(m, whole->data, whole->bytes, false);
        VEC_PUSH(m->arena, &m->roots, root);
    }
    m->all.at[i].writable |= writes;
    return (uintptr_t)m->all.at[i].at + (uintptr_t)(in->at[b->id].data - whole->data);
}

static void copy_back(const memories *m) {
    for (int i = 0; i < m->roots.n; i++)
        if (m->from.at[i] && m->all.at[i].writable)
            memcpy(m->from.at[i], m->all.at[i].at, (size_t)m->all.at[i].bytes);
}

static void launch_sizes(interp *in, dim *const *from, int64_t *to) {
    for (int j = 0; j < 3; j++) to[j] = from[j] ? interp_dim(in, from[j]) : 1;
}

// Returns NULL or an error message, and the status of the kernel.
static const char *launch(run *r, interp *in, const kernel_code *c, arena *a, int32_t *status) {
    memories m = {.arena = a};
    uint64_t *args = ARENA_ARRAY(a, uint64_t, c->f->params.n + 1);
    gpu_launch l = {.code = c, .args = args};
    int n = 0;
    for (int i = 0; i < c->nbuffers; i++)
        args[n++] = address_of(&m, in, c->buffers[i], kernel_writes(c->kernel, c->buffers[i]));
    for (int i = 0; i < c->ndims; i++) args[n++] = (uint64_t)interp_dim(in, c->dims[i]);
    if (c->scratch) {
        int64_t bytes = interp_dim(in, c->scratch);
        args[n++] = (uintptr_t)aligned(a, bytes);
        add_memory(&m, (void *)(uintptr_t)args[n - 1], bytes, true);
    }
    if (c->has_status) args[n++] = (uintptr_t)status;
    launch_sizes(in, c->grid, l.grid);
    launch_sizes(in, c->block, l.block);
    l.memory = m.all.at;
    l.nmemory = m.all.n;
    const char *error = l.grid[0] > 0 ? r->machine->launch(r->machine->user, a, &l) : NULL;
    copy_back(&m);
    return error;
}

static bool run_kernel(void *user, interp *in, const kernel *k) {
    run *r = user;
    arena *own = arena_new();
    _Alignas(ALIGN) int32_t status = 0;
    const char *error = launch(r, in, r->code->kernels[k->id], own, &status);
    if (error) r->machine->error = error = arena_printf(in->arena, "kernel '%s': %s", k->name, error);
    arena_destroy(own);
    if (error) interp_stop(in, INTERP_FAILED, error);
    if (status) interp_stop(in, INTERP_FAILED, failure_text(in->arena, k, status - 1));
    return true;
}

interp_result gpu_run(const program *p, const gpu_code *g, gpu_machine *m, arena *a, const tensor *in,
                      tensor *out, const char **message) {
    run r = {g, m};
    interp_hooks hooks = {.kernel = run_kernel, .user = &r};
    m->error = NULL;
    return interp_program_hooked(p, a, in, out, (interp_limits){0}, message, &hooks);
}

const char *gpu_interpret(void *user, arena *a, const gpu_launch *l) {
    linterp *in = linterp_new(a, NULL);
    linterp_set_order(in, *(const linterp_order *)user, SEED);
    for (int i = 0; i < l->nmemory; i++)
        linterp_memory(in, l->memory[i].at, l->memory[i].bytes, l->memory[i].writable);
    if (l->code->has_status)
        linterp_flags(in, (void *)(uintptr_t)l->args[l->code->f->params.n - 1], sizeof(int32_t));
    return linterp_launch(in, l->code->f, l->args, l->grid, l->block) ? NULL : linterp_error(in);
}
