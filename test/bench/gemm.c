// Matrix products against the peak of fused multiply-adds measured in the same run, through the whole
// compiler: graph, lowering, layout, schedule, LLVM. Tile kernel and peak run in turns; the best of each
// counts, in CPU time. Exits 1 below 90 % for 512 and 85 % for primes. Then products of inputs beside OpenBLAS's
// (--blas=cblas), where that is installed: medians of both in turns.
#include "codegen/llvm/jit.h"
#include "codegen/llvm/load.h"
#include "codegen/target/targets.h"
#include "test/build_graph.h"
#include "test/product_model.h"
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CHAINS = 12, PEAK_STEPS = 40000, ROUNDS = 40 };
typedef void peak_fn(float *to, int64_t n);

// CHAINS accumulators that only multiply and add.
static peak_fn *build_peak(arena *a, diag *d, const target *t) {
    lmodule *m = lmodule_new(a, "peak", t);
    lfunc *f = lfunc_new(m, "peak", lt(LK_VOID, 1));
    f->target = t, f->exported = true;
    ins *to = lfunc_param(f, "to", lt_ptr(), LK_F32, DT_F32, false),
        *n = lfunc_param(f, "n", lt(LK_I64, 1), LK_VOID, DT_I64, true);
    lbuild b = lbuild_new(f, t, d);
    int lanes = target_lanes(t, 32);
    ltype v = lt(LK_F32, lanes);
    ins *acc[CHAINS], *x = lb_load(&b, v, to, lb_idx(&b, 0), 4),
                      *y = lb_load(&b, v, to, lb_idx(&b, lanes), 4);
    for (int j = 0; j < CHAINS; j++) acc[j] = lb_var(&b, "acc", lb_float(&b, v, j));
    ins *loop = lb_for(&b, "i", lb_idx(&b, 0), n, lb_idx(&b, 1), LOOP_SERIAL);
    for (int j = 0; j < CHAINS; j++) lb_set(&b, acc[j], lb_muladd(&b, x, y, lb_get(&b, acc[j])));
    lb_end(&b, loop);
    for (int j = 0; j < CHAINS; j++) lb_store(&b, to, lb_idx(&b, (int64_t)j * lanes), lb_get(&b, acc[j]), 4);
    peak_fn *fn;
    *(void **)&fn = loaded_symbol(load_module(a, d, m, NULL, 0), "peak");
    return fn;
}

typedef struct line {
    const char *what;
    product p;
    double least; // share of the peak that it must reach, 0: only shown
    bool once;    // bounded by memory: shown in GB/s of b
} line;

typedef struct timing {
    const program *p;
    jit *code;
    double best; // seconds for all kernels once
    int repeats;
} timing;

// At the last kernel every buffer has its memory: the whole runs again and again from there.
static bool time_kernels(void *user, struct interp *in, const kernel *k) {
    timing *t = user;
    const region *r = t->p->main;
    const kernel *last = NULL;
    for (int j = 0; j < r->steps.n; j++)
        if (r->steps.at[j]->kernel) last = r->steps.at[j]->kernel;
    for (int i = 0; k == last && i < t->repeats; i++) {
        double start = cpu_seconds();
        for (int j = 0; j < r->steps.n; j++)
            if (r->steps.at[j]->kernel) jit_kernel(t->code, in, r->steps.at[j]->kernel);
        double s = cpu_seconds() - start;
        if (s < t->best) t->best = s;
    }
    return jit_kernel(t->code, in, k);
}

static bool measure(const target *t, diag *d, peak_fn *peak, const line *l) {
    const product *p = &l->p;
    arena *a = arena_new();
    timing time = {.p = product_program(a, d, t, &l->p), .best = INFINITY};
    time.code = jit_program(a, d, time.p, t);
    tensor in[2] = {product_input(p, p->m, p->k, p->turn_a), product_input(p, p->k, p->n, p->turn_b)}, out;
    double work = 2.0 * (double)(p->batch * p->m * p->k * p->n), best_peak = 0;
    // Several times even when long: after the first the operands lie in the caches that hold them.
    time.repeats = 4 + (int)(1e9 / ROUNDS / (work + 1e5));
    interp_hooks hooks = {.kernel = time_kernels, .user = &time};
    float scratch[CHAINS * 16] = {0};
    // Bursts as long as the product: a short one finds gaps in other work that a long one does not.
    int64_t steps = (int64_t)(work / (2.0 * CHAINS * target_lanes(t, 32)));
    if (steps < PEAK_STEPS) steps = PEAK_STEPS;
    for (int r = 0; r < ROUNDS; r++) {
        double start = cpu_seconds();
        peak(scratch, steps);
        best_peak =
            fmax(best_peak, 2.0 * CHAINS * target_lanes(t, 32) * (double)steps / (cpu_seconds() - start));
        arena *run = arena_new();
        if (interp_program_hooked(time.p, run, in, &out, (interp_limits){0}, NULL, &hooks) != INTERP_OK)
            exit(3);
        arena_destroy(run);
    }
    free((void *)in[0].data), free((void *)in[1].data);
    double share = work / time.best / best_peak;
    char name[64];
    snprintf(name, sizeof name, "%lldx%lldx%lldx%lld", (long long)p->batch, (long long)p->m, (long long)p->k,
             (long long)p->n);
    printf("%-11s %-18s %-30s %8.1f us  %6.1f of %6.1f GFLOP/s  %5.1f %%", t->cpu, name, l->what,
           1e6 * time.best, 1e-9 * work / time.best, 1e-9 * best_peak, 100 * share);
    if (l->once) printf("  %5.1f GB/s", 4e-9 * (double)(p->batch * p->k * p->n) / time.best);
    if (share < l->least) printf("  too slow: less than %.0f %%", 100 * l->least);
    printf("\n");
    arena_destroy(a);
    return share >= l->least;
}

static const line lines[] = {
    {"", {.batch = 1, .m = 512, .k = 512, .n = 512}, .least = 0.9},
    {"M dynamic", {.batch = 1, .m = 512, .k = 512, .n = 512, .dynamic = true}, .least = 0.9},
    {"", {.batch = 1, .m = 509, .k = 503, .n = 499}, .least = 0.85},
    {"M dynamic", {.batch = 1, .m = 509, .k = 503, .n = 499, .dynamic = true}, .least = 0.85},
    {"", {.batch = 1, .m = 1024, .k = 1024, .n = 1024}},
    {"", {.batch = 1, .m = 2048, .k = 512, .n = 768}},
    {"", {.batch = 1, .m = 128, .k = 768, .n = 3072}},
    {"erf-GELU", {.batch = 1, .m = 128, .k = 768, .n = 3072, .gelu = true}},
    {"", {.batch = 1, .m = 128, .k = 3072, .n = 768}},
    {"", {.batch = 1, .m = 128, .k = 768, .n = 768}},
    {"A transposed", {.batch = 1, .m = 512, .k = 512, .n = 512, .turn_a = true}},
    {"B transposed", {.batch = 1, .m = 512, .k = 512, .n = 512, .turn_b = true}},
    {"B an input", {.batch = 1, .m = 512, .k = 512, .n = 512, .input_b = true}},
    {"B a transposed input", {.batch = 1, .m = 512, .k = 512, .n = 512, .input_b = true, .turn_b = true}},
    {"inputs: scores", {.batch = 12, .m = 128, .k = 64, .n = 128, .input_b = true, .turn_b = true}},
    {"inputs: values", {.batch = 12, .m = 128, .k = 128, .n = 64, .input_b = true}},
    {"small", {.batch = 64, .m = 16, .k = 16, .n = 16, .input_b = true}},
    {"small", {.batch = 64, .m = 7, .k = 9, .n = 11, .input_b = true}},
    {"M dynamic", {.batch = 1, .m = 5, .k = 512, .n = 512, .dynamic = true}},
    {"one row", {.batch = 1, .m = 1, .k = 512, .n = 512}, .once = true},
    {"one row", {.batch = 1, .m = 1, .k = 1024, .n = 8192}, .once = true},
    {"one row, M dynamic", {.batch = 1, .m = 1, .k = 1024, .n = 8192, .dynamic = true}, .once = true},
    {"one row, B an input", {.batch = 1, .m = 1, .k = 1024, .n = 8192, .input_b = true}, .once = true},
    {"one row, B a transposed input",
     {.batch = 1, .m = 1, .k = 1024, .n = 8192, .input_b = true, .turn_b = true},
     .once = true},
    {"one column, A an input", {.batch = 1, .m = 8192, .k = 1024, .n = 1}, .once = true},
};

// ---------------------------------------------------------------- beside OpenBLAS
static const product versus[] = {
    {.batch = 1, .m = 128, .k = 128, .n = 128},
    {.batch = 1, .m = 256, .k = 256, .n = 256},
    {.batch = 1, .m = 512, .k = 512, .n = 512},
    {.batch = 1, .m = 512, .k = 512, .n = 512, .turn_a = true},
    {.batch = 1, .m = 1024, .k = 1024, .n = 1024},
    {.batch = 1, .m = 1024, .k = 1024, .n = 1024, .turn_b = true},
    {.batch = 1, .m = 32, .k = 4096, .n = 4096},
    {.batch = 1, .m = 4096, .k = 1024, .n = 1024},
    {.batch = 1, .m = 4096, .k = 4096, .n = 4096},
};

static int by_value(const void *a, const void *b) {
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

static void compare(const target *t, diag *d, product p) {
    arena *a = arena_new();
    timing time[2];
    double seconds[2][ROUNDS], work = 2.0 * (double)(p.batch * p.m * p.k * p.n);
    int rounds = work > 5e10 ? 5 : work > 1e9 ? 11 : ROUNDS - 1;
    tensor in[2] = {product_input(&p, p.m, p.k, p.turn_a), product_input(&p, p.k, p.n, p.turn_b)}, out;
    for (int j = 0; j < 2; j++) {
        p.input_b = true, p.cblas = j;
        time[j] = (timing){.p = product_program(a, d, t, &p), .repeats = 1 + (int)(2e7 / work)};
        time[j].code = jit_program(a, d, time[j].p, t);
    }
    for (int r = 0; r < rounds; r++)
        for (int j = 0; j < 2; j++) {
            time[j].best = INFINITY;
            arena *run = arena_new();
            interp_hooks hooks = {.kernel = time_kernels, .user = &time[j]};
            if (interp_program_hooked(time[j].p, run, in, &out, (interp_limits){0}, NULL, &hooks) !=
                INTERP_OK)
                exit(3);
            seconds[j][r] = time[j].best;
            arena_destroy(run);
        }
    for (int j = 0; j < 2; j++) qsort(seconds[j], (size_t)rounds, sizeof(double), by_value);
    printf("%-11s %lldx%lldx%lldx%lld%s%s: %.1f us, cblas_sgemm %.1f us: %.2fx\n", t->cpu, (long long)p.batch,
           (long long)p.m, (long long)p.k, (long long)p.n, p.turn_a ? " A transposed" : "",
           p.turn_b ? " B transposed" : "", 1e6 * seconds[0][rounds / 2], 1e6 * seconds[1][rounds / 2],
           seconds[0][rounds / 2] / seconds[1][rounds / 2]);
    free((void *)in[0].data), free((void *)in[1].data);
    arena_destroy(a);
}

// Code in this process finds the functions of a library that is open to all.
static void compare_all(diag *d) {
    arena *a = arena_new();
    target *t = target_from_options(a, d, &(target_options){.cpu = "native", .fp = FP_DEFAULT, .threads = 1});
    void *library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_GLOBAL);
    void (*set_threads)(int) = NULL;
    if (library) *(void **)&set_threads = dlsym(library, "openblas_set_num_threads");
    if (set_threads) set_threads(1);
    for (size_t j = 0; set_threads && j < sizeof versus / sizeof *versus; j++) compare(t, d, versus[j]);
    arena_destroy(a);
}

// The bench on one CPU's code; true when every product reaches its share.
static bool measure_cpu(diag *d, const char *cpu, int first, int last) {
    arena *a = arena_new();
    target *t = target_from_options(a, d, &(target_options){.cpu = cpu, .fp = FP_DEFAULT, .threads = 1});
    bool ok = true;
    if (target_runs_here(a, d, t) && t->vector_bits) {
        peak_fn *peak = build_peak(a, d, t);
        for (int j = first; j < last; j++) ok &= measure(t, d, peak, &lines[j]);
    }
    arena_destroy(a);
    return ok;
}

// Arguments: the first and last line of the table (from 0); one past its end: only what is beside OpenBLAS.
int main(int n, char **args) {
    arena *a = arena_new();
    diag d = {.arena = a, .sink = show_message};
    jmp_buf jump;
    int all = (int)(sizeof lines / sizeof *lines), first = n > 1 ? atoi(args[1]) : 0,
        last = n > 2   ? atoi(args[2]) + 1
               : n > 1 ? first + 1
                       : all;
    if (last > all) last = all;
    if (!DIAG_TRY(&d, jump)) return 3;
    bool native = measure_cpu(&d, "native", first, last), v3 = measure_cpu(&d, "x86-64-v3", first, last);
    if (last == all || first >= all) compare_all(&d);
    arena_destroy(a);
    return native && v3 ? 0 : 1;
}
