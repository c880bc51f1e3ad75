// In: a kernel, choices, values of its dims. Out: the time of a run. Between long runs the caches are swept,
// so that data come from memory as they would in a network.
#include "compiler/tune/measure.h"
#include "codegen/llvm/jit.h"
#include "codegen/llvm/load.h"
#include "compiler/base/clock.h"
#include "compiler/base/order.h"
#include "ir/loops/legalize.h"
#include "passes/schedule/common/schedule.h"
#include "runtime-lite/core/runtime.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ARGUMENTS = 480, SCRATCH_THREADS = 32, SWEEP = 8 << 20, SLACK = 256, ROUNDS_MOST = 40 };
#define WORK_MOST 1e12 // iterations
#define SHORT_RUN 50e-6
#define LONG_RUN  100e-6 // run by several threads
#define SAMPLE    200e-6 // short runs are measured together

typedef void caller(const int64_t *args);
struct bench {
    arena *arena;
    diag *diag;
    kernel *k;
    const target *t;
    dim_values values;
    void **memory; // by index among
    int nbuffers;
    buffer **buffers;
    int64_t *bytes;
    const int64_t *sweep;
    int64_t swept; // keeps the sweep from being optimised away
    bool threads;
    int repeats; // in a sample
};
struct trial {
    caller *call;
    int nargs, scratch_at, tasks_at; // -1: it has none
    int64_t args[ARGUMENTS + 8];
    int64_t tasks, piece; // bytes of scratch for a thread
    int most_threads;
    bool marks_scratch; // kernel_code
};

// Thread time excludes interruptions by other processes.
static double now(const bench *b) { return b->threads ? clock_now() : clock_thread(); }

static bool value_of(const bench *b, const dim *d, int64_t *v) {
    return dim_eval(d, b->values.look_up, b->values.user, v);
}

// ---------------------------------------------------------------- memory
static void *block(arena *a, int64_t bytes) {
    char *at = arena_alloc(a, (size_t)bytes + SLACK + 64);
    return at + (64 - (uintptr_t)at % 64) % 64;
}

// Fills floats with numbers like those of weights and values; others stay 0, which is valid for indices,
// lengths and flags.
static void fill(dtype t, void *at, int64_t bytes) {
    uint32_t seed = 1;
    int64_t size = t == DT_F64 ? 8 : 4;
    if (t != DT_F32 && t != DT_F64) return;
    for (int64_t j = 0; j < bytes / size; j++) {
        seed = seed * 1664525 + 1013904223;
        double x = (double)(seed >> 8) / (1 << 23) - 1;
        if (t == DT_F64) ((double *)at)[j] = x;
        else ((float *)at)[j] = (float)x;
    }
}

// axes NULL: the first n.
static double positions_of(const bench *b, const int *axes, int n) {
    double all = 1;
    for (int j = 0; j < n; j++) {
        int64_t extent;
        if (!value_of(b, b->k->axes.at[axes ? axes[j] : j].extent, &extent) || extent < 1) return INFINITY;
        all *= (double)extent;
    }
    return all;
}

static bool few_positions(const bench *b) {
    double work = 0, outer = positions_of(b, NULL, b->k->nouter);
    for (int j = 0; j < b->k->stages.n; j++) {
        const stage *s = b->k->stages.at[j];
        work += outer * positions_of(b, s->axes.at, s->axes.n);
    }
    return work < WORK_MOST;
}

static bool make_memory(bench *b) {
    int64_t all = 0, most = (int64_t)(available_memory() / 4);
    for (int j = 0; j < b->nbuffers; j++) {
        if (!value_of(b, buffer_bytes(b->buffers[j]), &b->bytes[j]) || b->bytes[j] < 0) return false;
        if (b->bytes[j] > most - all) return false;
        all += b->bytes[j];
    }
    for (int j = 0; j < b->nbuffers; j++) {
        b->memory[j] = block(b->arena, b->bytes[j]);
        fill(b->buffers[j]->dtype, b->memory[j], b->bytes[j]);
    }
    b->sweep = block(b->arena, SWEEP);
    return true;
}

bench *bench_new(arena *a, diag *d, kernel *k, const target *t, const dim_values *values) {
    bench *b = ARENA_NEW(a, bench);
    *b = (bench){.arena = a, .diag = d, .k = k, .t = t, .values = *values, .repeats = 1};
    b->nbuffers = kernel_buffers(k, &b->buffers);
    b->memory = ARENA_ARRAY(a, void *, b->nbuffers + 1);
    b->bytes = ARENA_ARRAY(a, int64_t, b->nbuffers + 1);
    if (b->nbuffers > ARGUMENTS / 2 || !few_positions(b) || !make_memory(b)) return NULL;
    return b;
}

// ---------------------------------------------------------------- code
static target *chosen_target(arena *a, const bench *b, const choices *c) {
    choice_table *t = choice_table_new(a);
    target *own = ARENA_NEW(a, target);
    *own = *b->t;
    t->of = c;
    own->choices = t;
    return own;
}

uint64_t bench_loops(bench *b, const choices *c) {
    arena *a = arena_within(b->arena);
    const target *t = chosen_target(a, b, c);
    kernel_code *code = schedule_kernel(lmodule_new(a, "loops", t), b->k, t, b->diag);
    uint64_t hash = hash_string(HASH_SEED, lfunc_print(a, code->f));
    arena_destroy(a);
    return hash;
}

static void add_scratch(bench *b, arena *a, trial *x, const kernel_code *c) {
    if (!c->scratch || !value_of(b, c->scratch, &x->piece)) return;
    x->piece = (x->piece + 63) / 64 * 64;
    if (x->most_threads > SCRATCH_THREADS) x->most_threads = SCRATCH_THREADS;
    x->scratch_at = x->nargs;
    x->args[x->nargs++] = (int64_t)(intptr_t)block(a, x->piece * x->most_threads);
}

trial *bench_compile(bench *b, arena *a, const choices *c) {
    const target *t = chosen_target(a, b, c);
    lmodule *m = lmodule_new(a, "tune", t);
    kernel_code *code = schedule_kernel(m, b->k, t, b->diag);
    trial *x = ARENA_NEW(a, trial);
    *x = (trial){.scratch_at = -1, .tasks_at = -1, .most_threads = t->threads > 0 ? t->threads : 1};
    if (code->nbuffers != b->nbuffers || code->nbuffers + code->ndims > ARGUMENTS) return NULL;
    for (int j = 0; j < b->nbuffers; j++) x->args[x->nargs++] = (int64_t)(intptr_t)b->memory[j];
    for (int j = 0; j < code->ndims; j++)
        if (!value_of(b, code->dims[j], &x->args[x->nargs++])) return NULL;
    add_scratch(b, a, x, code);
    x->marks_scratch = code->marks_scratch;
    if (code->tasks) {
        if (!value_of(b, code->tasks, &x->tasks)) return NULL;
        x->tasks_at = x->nargs;
        x->args[x->nargs++] = 0, x->args[x->nargs++] = x->tasks;
    }
    if (code->has_status) x->args[x->nargs++] = (int64_t)(intptr_t)ARENA_NEW(a, int64_t);
    jit_build_caller(m, code, t, b->diag);
    legalize(m, b->diag);
    loaded *l = load_module(a, b->diag, m, NULL, 0);
    *(void **)&x->call = loaded_symbol(l, jit_caller_name(a, code->kernel));
    return x->call ? x : NULL;
}

// ---------------------------------------------------------------- running
static void run_task(void *const *context, int64_t begin, int64_t end, int thread) {
    const trial *x = context[0];
    int64_t args[ARGUMENTS + 8];
    memcpy(args, x->args, (size_t)x->nargs * sizeof *args);
    args[x->tasks_at] = begin, args[x->tasks_at + 1] = end;
    if (x->scratch_at >= 0) args[x->scratch_at] += thread * x->piece;
    x->call(args);
}

static void run(const bench *b, trial *x) {
    void *context[] = {x};
    for (int j = 0; x->marks_scratch && j < x->most_threads; j++)
        *(int32_t *)(intptr_t)(x->args[x->scratch_at] + j * x->piece) = 0;
    if (b->threads && x->tasks > 1) onnxc_rt_parallel(run_task, context, x->tasks, x->most_threads);
    else x->call(x->args);
}

static void sweep(bench *b) {
    int64_t sum = 0;
    for (int64_t j = 0; j < SWEEP / 8; j += 8) sum += b->sweep[j];
    for (int j = 0; j < b->nbuffers; j++) // data that the previous kernel has just written
        for (int64_t i = 0; i < b->bytes[j] / 64 && b->buffers[j]->role != BUF_CONST; i++)
            sum += ((const char *)b->memory[j])[64 * i];
    *(volatile int64_t *)&b->swept = sum;
}

static double sample(bench *b, trial *x) {
    if (b->repeats == 1) sweep(b);
    double start = now(b);
    for (int j = 0; j < b->repeats; j++) run(b, x);
    return (now(b) - start) / b->repeats;
}

double bench_first(bench *b, trial *x) {
    double best = 1e9;
    for (int j = 0; j < 3; j++) {
        double seconds = sample(b, x);
        if (seconds < best) best = seconds;
    }
    b->threads = b->t->threads != 1 && x->tasks > 1 && best > LONG_RUN;
    if (best < SHORT_RUN) b->repeats = 1 + (int)(SAMPLE / (best + 1e-8));
    return b->threads ? sample(b, x), sample(b, x) : best;
}

void bench_compare(bench *const *b, trial *const *all, int n, int least, double seconds, double *medians,
                   double *wins) {
    arena *a = arena_new();
    double *times = ARENA_ARRAY(a, double, n *ROUNDS_MOST), end = clock_now() + seconds;
    int rounds = 0;
    for (int j = 0; j < n; j++) run(b[j], all[j]);
    while (rounds < ROUNDS_MOST && (rounds < least || clock_now() < end)) {
        for (int j = 0; j < n; j++) times[j * ROUNDS_MOST + rounds] = sample(b[j], all[j]);
        rounds++;
    }
    for (int j = 0; j < n; j++) {
        wins[j] = 0;
        for (int i = 0; i < rounds; i++) wins[j] += times[j * ROUNDS_MOST + i] < times[i];
        wins[j] /= rounds;
    }
    for (int j = 0; j < n; j++) {
        qsort(times + (ptrdiff_t)j * ROUNDS_MOST, (size_t)rounds, sizeof *times, compare_doubles);
        medians[j] = times[j * ROUNDS_MOST + rounds / 2];
    }
    arena_destroy(a);
}
