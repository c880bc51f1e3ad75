// Compiled kernels for the interpreter. C cannot call functions of arbitrary signature, so each kernel gets a
// caller that reads the arguments from an array.
#include "codegen/llvm/jit.h"
#include "codegen/llvm/load.h"
#include "compiler/base/clock.h"
#include "compiler/base/integers.h"
#include "ir/kernel/interp_kernel.h"
#include "ir/loops/legalize.h"
#include "passes/schedule/common/schedule.h"
#include "runtime-lite/core/runtime.h"
#include <stdlib.h>

typedef void (*caller)(const int64_t *args);
struct jit {
    kernel_code **code; // by kernel id
    caller *call;
    double *time;
    void *scratch; // grows as kernels need it
    int64_t scratch_bytes;
};

static void drop_scratch(void *user) { free(((jit *)user)->scratch); }

static void *scratch_of(jit *j, int64_t bytes) {
    if (bytes > j->scratch_bytes) {
        free(j->scratch);
        j->scratch_bytes = round_up(bytes, 64);
        j->scratch = aligned_alloc(64, (size_t)j->scratch_bytes);
    }
    return j->scratch;
}

const char *jit_caller_name(arena *a, const kernel *k) { return arena_printf(a, "call_%d", k->id); }

void jit_build_caller(lmodule *m, const kernel_code *c, const target *t, diag *d) {
    lfunc *f = lfunc_new(m, jit_caller_name(m->arena, c->kernel), lt(LK_VOID, 1));
    f->target = t;
    f->exported = true;
    ins *args = lfunc_param(f, "args", lt_ptr(), LK_I64, DT_I64, true);
    lbuild b = lbuild_new(f, t, d);
    int n = c->f->params.n;
    ins **pass = ARENA_ARRAY(m->arena, ins *, n + 1);
    for (int j = 0; j < n; j++) pass[j] = lb_load(&b, c->f->params.at[j].type, args, lb_idx(&b, j), 8);
    lb_call(&b, lt(LK_VOID, 1), c->f->name, n, pass);
}

static void check_tiles(diag *d, const kernel_code *c) {
    if (c->has_tiles && !onnxc_rt_tiles())
        diag_fatal(d, NULL, "the operating system refuses matrix tiles to this process");
}

jit *jit_program(arena *a, diag *d, const program *p, const target *t) {
    jit *j = ARENA_NEW(a, jit);
    arena_on_destroy(a, drop_scratch, j);
    int n = p->kernels.n;
    j->code = ARENA_ARRAY(a, kernel_code *, n + 1);
    j->call = ARENA_ARRAY(a, caller, n + 1);
    j->time = ARENA_ARRAY(a, double, n + 1);
    lmodule *m = lmodule_new(a, "jit", t);
    for (int i = 0; i < n; i++) {
        j->code[i] = schedule_kernel(m, p->kernels.at[i], t, d);
        check_tiles(d, j->code[i]);
        jit_build_caller(m, j->code[i], t, d);
    }
    legalize(m, d);
    for (int i = 0; i < m->funcs.n; i++) lfunc_verify(m->funcs.at[i], d);
    if (n == 0) return j;
    loaded *l = load_module(a, d, m, NULL, 0);
    for (int i = 0; i < n; i++)
        *(void **)&j->call[i] = loaded_symbol(l, jit_caller_name(a, p->kernels.at[i]));
    return j;
}

bool jit_kernel(void *user, struct interp *in, const kernel *k) {
    jit *j = user;
    const kernel_code *c = j->code[k->id];
    int64_t args[512];
    int n = 0;
    int64_t status = 0;
    if (c->nbuffers + c->ndims > 500) return false;
    for (int i = 0; i < c->nbuffers; i++) args[n++] = (int64_t)(intptr_t)in->at[c->buffers[i]->id].data;
    for (int i = 0; i < c->ndims; i++) args[n++] = interp_dim(in, c->dims[i]);
    void *scratch = c->scratch ? scratch_of(j, interp_dim(in, c->scratch)) : NULL;
    if (scratch) args[n++] = (int64_t)(intptr_t)scratch;
    if (c->marks_scratch) *(int32_t *)scratch = 0;
    if (c->tasks) {
        args[n++] = 0;
        args[n++] = interp_dim(in, c->tasks);
    }
    if (c->has_status) args[n++] = (int64_t)(intptr_t)&status;
    double start = clock_thread();
    j->call[k->id](args);
    j->time[k->id] += clock_thread() - start;
    if (status) interp_stop(in, INTERP_FAILED, failure_text(in->arena, k, status_message(k, status)));
    return true;
}

double jit_time(const jit *j, const kernel *k) { return j->time[k->id]; }
const char *jit_schedule(const jit *j, const kernel *k) {
    return j->code[k->id]->schedule ? j->code[k->id]->schedule : "loops";
}
