// Builds one GPU module of a program's kernels: schedules, merges equal kernels, and compiles with NVRTC in
// batches.
#include "codegen/gpu/gpu.h"
#include "codegen/c/cuda.h"
#include "ir/loops/loops_share.h"
#include <string.h>

// ---------------------------------------------------------------- equal functions

// Names of counters, variables and parameters do not matter.
static bool same_function(const lfunc *f, const lfunc *g) {
    if (f->nins != g->nins || f->params.n != g->params.n || f->strict_fp != g->strict_fp) return false;
    if (memcmp(f->grid, g->grid, sizeof f->grid) || memcmp(f->threads, g->threads, sizeof f->threads))
        return false;
    for (int j = 0; j < f->params.n; j++) {
        const lparam *p = &f->params.at[j], *q = &g->params.at[j];
        if (p->type.kind != q->type.kind || p->elem != q->elem || p->dtype != q->dtype ||
            p->is_const != q->is_const)
            return false;
    }
    return lblock_same(f->body, g->body, false);
}

// Replaces the last function by an earlier one that is equal.
static void share(gpu_code *g, map *by_size, kernel_code *c) {
    lmodule *m = g->module;
    lfunc *before = map_get_number(by_size, (uint64_t)c->f->nins);
    if (before && same_function(before, c->f)) {
        c->f = before;
        m->funcs.n--;
        return;
    }
    for (int j = 0; before && j < m->funcs.n - 1; j++) {
        if (!same_function(m->funcs.at[j], c->f)) continue;
        c->f = m->funcs.at[j];
        m->funcs.n--;
        return;
    }
    map_put_number(by_size, (uint64_t)c->f->nins, c->f);
}

// ---------------------------------------------------------------- scheduling

static const char *with_launch(arena *a, const kernel_code *c) {
    int64_t shared = lfunc_dynamic_shared(c->f);
    return arena_printf(a, "%s\nlaunch: blocks %s, threads %s%s%s%s", c->f->comment, dim_text(a, c->grid[0]),
                        dim_text(a, c->block[0]), c->scratch ? ", bytes of scratch " : "",
                        c->scratch ? dim_text(a, c->scratch) : "",
                        shared ? arena_printf(a, ", bytes of dynamic shared memory %lld", (long long)shared)
                               : "");
}

// 4096 bytes, the limit of drivers before 12.1.
enum { ARGUMENTS_MOST = 512 };

typedef struct job {
    gpu_code *g;
    const target *t;
    diag *d;
    bool with_host;
    const char *suffix;
} job;

static void schedule_step(const job *j, const step *s) {
    if (s->kind == STEP_LIB && !j->with_host)
        diag_missing(j->d, s->loc, "the function '%s' of the run-time library does not run on a GPU", s->lib);
    if (s->kind != STEP_KERNEL || j->g->kernels[s->kernel->id]) return;
    kernel_code *c = j->g->kernels[s->kernel->id] = schedule_kernel(j->g->module, s->kernel, j->t, j->d);
    lfunc_verify(c->f, j->d);
    if (c->f->params.n > ARGUMENTS_MOST)
        diag_missing(j->d, s->loc, "a kernel has %d arguments; GPUs take at most %d", c->f->params.n,
                     ARGUMENTS_MOST);
    c->f->exported = true;
    if (*j->suffix) c->f->name = arena_printf(j->g->module->arena, "%s%s", c->f->name, j->suffix);
    c->f->comment = with_launch(j->g->module->arena, c);
    share(j->g, j->g->by_size, c);
}

gpu_code *gpu_schedule(program *p, const char *name, const target *t, bool with_host, diag *d) {
    return gpu_schedule_version(NULL, p, name, "", t, with_host, d);
}

gpu_code *gpu_schedule_version(const gpu_code *before, program *p, const char *name, const char *suffix,
                               const target *t, bool with_host, diag *d) {
    gpu_code *g = ARENA_NEW(p->arena, gpu_code);
    g->module = before ? before->module : lmodule_new(p->arena, name, t);
    g->by_size = before ? before->by_size : ARENA_NEW(p->arena, map);
    g->by_size->arena = p->arena;
    g->uses = before ? before->uses : ARENA_NEW(p->arena, gpu_use_list);
    g->nkernels = p->kernels.n;
    g->kernels = ARENA_ARRAY(p->arena, kernel_code *, p->kernels.n + 1);
    job j = {.g = g, .t = t, .d = d, .with_host = with_host, .suffix = suffix};
    step_list steps = program_steps(p->arena, p);
    for (int i = 0; i < steps.n; i++) schedule_step(&j, steps.at[i].s);
    diag_check(d);
    return g;
}

// ---------------------------------------------------------------- NVRTC

static const char *text_of(const lmodule *m, arena *a, int from, int n, diag *d) {
    lmodule part = *m;
    text *t = ARENA_NEW(a, text);
    t->arena = a;
    sink s = sink_text(t);
    part.funcs.at = m->funcs.at + from;
    part.funcs.n = part.funcs.cap = n;
    cuda_write(&part, &s, d);
    return text_str(t);
}

// The text after the directives at the start of a PTX module.
static const char *after_head(const char *ptx) {
    const char *size = strstr(ptx, ".address_size");
    const char *line = size ? strchr(size, '\n') : NULL;
    return line ? line + 1 : ptx;
}

const char *gpu_ptx(const gpu_code *g, arena *a, const nvrtc *n, int sm, diag *d) {
    const lmodule *m = g->module;
    text all = {.arena = a};
    for (int from = 0; from == 0 || from < m->funcs.n; from += GPU_BATCH) {
        int count = m->funcs.n - from < GPU_BATCH ? m->funcs.n - from : GPU_BATCH;
        const char *ptx = nvrtc_ptx(n, a, m->name, text_of(m, a, from, count, d), sm, d);
        text_add(&all, from ? after_head(ptx) : ptx);
    }
    return text_str(&all);
}

nvrtc_made gpu_cubin(const gpu_code *g, arena *a, const nvrtc *n, int sm, bool with_ptx, diag *d) {
    const lmodule *m = g->module;
    nvrtc_made made = nvrtc_cubin(n, a, m->name, text_of(m, a, 0, m->funcs.n, d), sm, with_ptx, d);
    VEC_PUSH(m->arena, g->uses, ((gpu_uses){sm, gpu_read_uses(m, made.log)}));
    return made;
}

bool gpu_has_own(const gpu_code *g, arena *a, diag *d) {
    return strstr(text_of(g->module, a, 0, g->module->funcs.n, d), CUDA_HAS_OWN);
}
