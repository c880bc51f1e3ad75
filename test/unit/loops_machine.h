// Scheduled and legalised kernels for the interpreter of programs, run by that of loops: one task at a time, the
// last one first, each access inside the buffers of the kernel. Thus code for any CPU runs on this one.
#ifndef LOOPS_MACHINE_H
#define LOOPS_MACHINE_H
#include "ir/kernel/interp_kernel.h"
#include "ir/kernel/program.h"
#include "ir/loops/legalize.h"
#include "ir/loops/loops_interp.h"
#include "passes/schedule/common/schedule.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
// cmocka.h must follow the headers it needs.
#include <cmocka.h>

typedef struct loops_machine {
    lmodule *module;
    kernel_code **code; // by kernel id
} loops_machine;

static inline loops_machine *loops_machine_new(arena *a, diag *d, const program *p, const target *t) {
    loops_machine *m = ARENA_NEW(a, loops_machine);
    m->module = lmodule_new(a, "machine", t);
    m->code = ARENA_ARRAY(a, kernel_code *, p->kernels.n + 1);
    for (int i = 0; i < p->kernels.n; i++) m->code[i] = schedule_kernel(m->module, p->kernels.at[i], t, d);
    legalize(m->module, d);
    for (int i = 0; i < m->module->funcs.n; i++) lfunc_verify(m->module->funcs.at[i], d);
    return m;
}

// The only result of a program whose kernels run by hooks.
static inline tensor run_program(arena *a, const program *p, const tensor *in, const interp_hooks *hooks) {
    tensor y = {0};
    const char *message = NULL;
    if (interp_program_hooked(p, a, in, &y, (interp_limits){0}, &message, hooks) != INTERP_OK)
        fail_msg("%s", message);
    return y;
}

// How many kernels have such a schedule.
static inline int loops_machine_count(const loops_machine *m, const program *p, const char *schedule) {
    int n = 0;
    for (int i = 0; i < p->kernels.n; i++)
        n += m->code[i]->schedule && !strcmp(m->code[i]->schedule, schedule);
    return n;
}

typedef struct kernel_memory {
    const buffer *root;
    char *at; // a copy, aligned as kernels require
    bool writable;
} kernel_memory;

static inline char *machine_aligned(arena *a, int64_t bytes) {
    enum { ALIGN = 64 };
    char *p = arena_alloc(a, (size_t)bytes + ALIGN);
    return p + (-(uintptr_t)p & (ALIGN - 1));
}

// Views share the memory of their root.
static inline uint64_t machine_address(arena *a, kernel_memory *all, int *n, const interp *in,
                                       const buffer *b, bool writes) {
    const buffer *root = buffer_root(b);
    const memory *whole = &in->at[root->id];
    int i = 0;
    while (i < *n && all[i].root != root) i++;
    if (i == *n) {
        all[(*n)++] = (kernel_memory){root, machine_aligned(a, whole->bytes), false};
        if (whole->bytes) memcpy(all[i].at, whole->data, (size_t)whole->bytes);
    }
    all[i].writable |= writes;
    return (uintptr_t)all[i].at + (uintptr_t)(in->at[b->id].data - whole->data);
}

// For interp_hooks.kernel, with the machine as user.
static inline bool loops_machine_kernel(void *user, interp *in, const kernel *k) {
    const loops_machine *m = user;
    const kernel_code *c = m->code[k->id];
    arena *a = arena_new();
    linterp *run = linterp_new(a, m->module);
    uint64_t *args = ARENA_ARRAY(a, uint64_t, c->f->params.n + 1);
    kernel_memory *all = ARENA_ARRAY(a, kernel_memory, c->nbuffers + 1);
    int n = 0, memories = 0;
    int64_t status = 0;
    for (int i = 0; i < c->nbuffers; i++)
        args[n++] = machine_address(a, all, &memories, in, c->buffers[i], kernel_writes(k, c->buffers[i]));
    for (int i = 0; i < memories; i++)
        linterp_memory(run, all[i].at, in->at[all[i].root->id].bytes, all[i].writable);
    for (int i = 0; i < c->ndims; i++) args[n++] = (uint64_t)interp_dim(in, c->dims[i]);
    if (c->scratch) {
        int64_t bytes = interp_dim(in, c->scratch);
        char *scratch = machine_aligned(a, bytes);
        memset(scratch, 0xff, (size_t)bytes); // NaN
        if (c->marks_scratch) memset(scratch, 0, sizeof(int32_t));
        linterp_memory(run, scratch, bytes, true);
        args[n++] = (uintptr_t)scratch;
    }
    uint64_t *task = c->tasks ? &args[n] : NULL;
    if (task) n += 2;
    if (c->has_status) {
        linterp_memory(run, &status, sizeof status, true);
        args[n++] = (uintptr_t)&status;
    }
    assert_int_equal(n, c->f->params.n);
    for (int64_t i = task ? interp_dim(in, c->tasks) : 1; i > 0; i--) {
        if (task) task[0] = (uint64_t)(i - 1), task[1] = (uint64_t)i;
        if (!linterp_call(run, c->f, args, NULL)) fail_msg("kernel '%s': %s", k->name, linterp_error(run));
    }
    for (int i = 0; i < memories; i++)
        if (all[i].writable)
            memcpy(in->at[all[i].root->id].data, all[i].at, (size_t)in->at[all[i].root->id].bytes);
    arena_destroy(a);
    if (status) interp_stop(in, INTERP_FAILED, failure_text(in->arena, k, status_message(k, status)));
    return true;
}
#endif
