// onnxc bench: compares the latency of models and libraries, compiled with several options, in one run.
#include "compiler/base/clock.h"
#include "compiler/base/json.h"
#include "compiler/base/order.h"
#include "compiler/base/outfile.h"
#include "compiler/cli/kernel_hook.h"
#include "compiler/cli/run_io.h"
#include "compiler/report/report.h"
#include "ir/kernel/program.h"
#include "passes/match/contract.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct bench_options {
    io_options io;
    string_list with;
    double seconds;
    int64_t runs;
    bool kernels;
    const char *save_times;
} bench_options;

#define AT(field) offsetof(bench_options, field)
static const option bench_table[] = {
    IO_OPTIONS(bench_options, io),
    {"--with", NULL, "OPTIONS", OPT_LIST, AT(with), "Bench",
     "also measure the models compiled with these options, alternating with the others; may be repeated"},
    {"--seconds", NULL, "X", OPT_REAL, AT(seconds), "Bench", "time to spend on each measurement; default: 1"},
    {"--runs", NULL, "N", OPT_NUMBER, AT(runs), "Bench",
     "number of runs for each measurement, instead of --seconds"},
    {"--save-times", NULL, "FILE", OPT_TEXT, AT(save_times), "Bench",
     "write kernel times to FILE, to be shown in reports with --times"},
    {"--kernels", NULL, NULL, OPT_FLAG, AT(kernels), "Bench",
     "show the time of each kernel and its share of the machine's peak"},
    {NULL},
};

enum { RUNS_LEAST = 10, RUNS_MOST = 1000000, WARM_UP = 3, KERNEL_RUNS = 100, ROUNDS = 5 };

// One model or library with one set of options.
typedef struct contestant {
    const char *label;
    const options *options;
    pipeline *pipeline; // NULL: a library
    source source;
    runnable *r;
    tensor *in;
    prepared_call *call; // NULL: a program that --runner runs
    VEC(double) seconds;
} contestant;
typedef VEC(contestant) contestants;

// ---------------------------------------------------------------- set-up
static const options *options_with(session *s, const char *more) {
    options *o = ARENA_NEW(s->arena, options);
    *o = s->options;
    string_list args = option_words(s->arena, &s->diag, more), rest = {0};
    option_parse(s->arena, &s->diag, &(option_set){compile_options, o}, 1, &args, &rest, &o->unused);
    if (rest.n) diag_error(&s->diag, NULL, "--with '%s': '%s' is not an option", more, rest.at[0]);
    options_check(s->arena, &s->diag, o);
    diag_check(&s->diag);
    options_use_native(o);
    return o;
}

static void open_contestant(session *s, const bench_options *o, contestant *c) {
    s->diag.file = c->source.path;
    if (runnable_is_library(c->source.path)) {
        c->r = runnable_open(s->arena, &s->diag, c->source.path);
    } else {
        c->pipeline = session_pipeline(s, c->options);
        c->r = runnable_new(c->pipeline, &c->source, NULL);
    }
    c->in = read_inputs(s, &o->io, c->r, true);
    if (c->options->runner) return;
    const char *message = NULL;
    c->call = runnable_prepare(c->r, s->arena, c->in, &message);
    if (!c->call) diag_fatal(&s->diag, NULL, "%s", message ? message : "the run failed");
}

static contestants open_all(session *s, const bench_options *o) {
    contestants all = {0};
    if (s->options.runner && (o->kernels || o->save_times))
        diag_fatal_missing(&s->diag, NULL, "%s needs a run in this process: leave --runner out",
                           o->kernels ? "--kernels" : "--save-times");
    if (s->args.n == 0) session_lacks(s, "model");
    int libraries = 0;
    for (int i = 0; i < s->args.n; i++) libraries += runnable_is_library(s->args.at[i]);
    if (libraries == s->args.n) {
        session_compiled(s, s->args.at[0]);
        for (int i = 0; i < o->with.n; i++)
            session_unused(s, arena_printf(s->arena, "--with=%s", o->with.at[i]), s->args.at[0]);
    }
    for (int i = 0; i < s->args.n; i++) {
        bool library = runnable_is_library(s->args.at[i]);
        if (library && s->options.runner)
            diag_fatal(&s->diag, NULL, "--runner runs programs made of models; '%s' is a library",
                       s->args.at[i]);
        for (int j = -1; j < (library ? 0 : o->with.n); j++) {
            const char *with = j < 0 ? "" : o->with.at[j];
            contestant c = {.source = session_source(s, s->args.at[i]), .options = options_with(s, with)};
            c.label = *with ? arena_printf(s->arena, "%s %s", c.source.path, with) : c.source.path;
            open_contestant(s, o, &c);
            VEC_PUSH(s->arena, &all, c);
        }
    }
    return all;
}

// ---------------------------------------------------------------- measuring
static double run_timed(session *s, contestant *c) {
    prepared_release(c->call);
    double start = clock_now();
    int status = prepared_run(c->call);
    double seconds = clock_now() - start;
    if (status) diag_fatal(&s->diag, NULL, "%s: a run failed with code %d", c->label, status);
    return seconds;
}

// Seconds of further runs of a program, added to the known ones.
static void time_program(session *s, contestant *c, int64_t runs) {
    const char *message = NULL;
    double *seconds = ARENA_ARRAY(s->arena, double, runs + 1);
    if (!runnable_times(c->r, s->arena, c->in, runs, seconds, &message))
        diag_fatal(&s->diag, NULL, "%s: %s", c->label, message);
    for (int64_t i = 0; i < runs; i++) VEC_PUSH(s->arena, &c->seconds, seconds[i]);
}

static int64_t runs_in(session *s, contestant *c, double seconds) {
    time_program(s, c, WARM_UP);
    double runs = seconds / (c->seconds.at[WARM_UP - 1] + 1e-9);
    c->seconds.n = 0;
    return runs < RUNS_LEAST ? RUNS_LEAST : runs > RUNS_MOST ? RUNS_MOST : (int64_t)runs;
}

// In rounds, in each of which every program starts once for a part of its runs.
static void measure_programs(session *s, const bench_options *o, contestants *all) {
    int64_t *runs = ARENA_ARRAY(s->arena, int64_t, all->n);
    for (int i = 0; i < all->n; i++) runs[i] = o->runs ? o->runs : runs_in(s, &all->at[i], o->seconds);
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < all->n; i++) {
            int64_t n = runs[i] * (round + 1) / ROUNDS - runs[i] * round / ROUNDS;
            if (n) time_program(s, &all->at[i], n);
        }
}

// Interleaved, so that a temporary slowdown of the machine affects all alike.
static void measure(session *s, const bench_options *o, contestants *all) {
    for (int i = 0; i < all->n; i++)
        for (int k = 0; k < WARM_UP; k++) run_timed(s, &all->at[i]);
    double end = clock_now() + o->seconds * all->n;
    int64_t least = o->runs ? o->runs : RUNS_LEAST;
    for (int64_t n = 0; n < least || (!o->runs && clock_now() < end && n < RUNS_MOST); n++)
        for (int i = 0; i < all->n; i++) VEC_PUSH(s->arena, &all->at[i].seconds, run_timed(s, &all->at[i]));
}

static double quantile(const contestant *c, double q) {
    return c->seconds.at[(int)(q * (c->seconds.n - 1) + 0.5)];
}

static void report(session *s, contestants *all) {
    arena *a = s->arena;
    printf("%10s %12s %12s %12s %12s %12s %7s\n", "runs", "min", "median", "p90", "p99", "per second",
           "ratio");
    for (int i = 0; i < all->n; i++) {
        contestant *c = &all->at[i];
        qsort(c->seconds.at, (size_t)c->seconds.n, sizeof *c->seconds.at, compare_doubles);
        double median = quantile(c, 0.5);
        printf("%10d %12s %12s %12s %12s %12.1f %7.3f  %s\n", c->seconds.n, time_text(a, quantile(c, 0)),
               time_text(a, median), time_text(a, quantile(c, 0.9)), time_text(a, quantile(c, 0.99)),
               1 / median, median / quantile(&all->at[0], 0.5), c->label);
    }
}

// ---------------------------------------------------------------- kernels
typedef struct sizes {
    const runnable *r;
    const program *p;
    const tensor *in;
} sizes;

static bool look_up(void *user, const dim *atom, int64_t *v) {
    const sizes *x = user;
    for (int j = 0; j < x->p->inputs.n; j++)
        for (int i = 0; i < x->p->inputs.at[j]->rank; i++)
            if (x->p->inputs.at[j]->dims[i] == atom) return *v = x->in[j].dims[i], true;
    return false;
}

// Floating-point operations of a contraction; 0: another kernel, or the size is known only at run time.
static double operations(const kernel *k, sizes *x) {
    contraction c;
    if (!contraction_find(k, &c)) return 0;
    double n = 2;
    for (int i = 0; i < k->nouter + c.s->axes.n;
         i++) { // of the stage: axes that were split are no longer among these
        int64_t extent;
        int axis = i < k->nouter ? i : c.s->axes.at[i - k->nouter];
        if (!dim_eval(k->axes.at[axis].extent, look_up, x, &extent)) return 0;
        n *= (double)extent;
    }
    return n;
}

typedef struct row {
    const char *version; // NULL: the only one
    const program *program;
    const kernel *kernel;
    int number;
    double seconds;
} row;
static int by_seconds(const void *a, const void *b) {
    double x = ((const row *)a)->seconds, y = ((const row *)b)->seconds;
    return (x < y) - (x > y);
}

// The kernels of all versions, numbered as for the hook.
static int all_kernels(pipeline *p, row **rows) {
    report_part *parts;
    int nparts = report_parts(p, &parts), n = 0, k = 0;
    for (int i = 0; i < nparts; i++) n += parts[i].program->kernels.n;
    *rows = ARENA_ARRAY(p->arena, row, n + 1);
    for (int i = 0; i < nparts; i++)
        for (int j = 0; j < parts[i].program->kernels.n; j++, k++)
            (*rows)[k] = (row){parts[i].label, parts[i].program, parts[i].program->kernels.at[j], k, 0};
    return n;
}

// Kernels that ran, as JSON, with the peaks of the CPU.
static void save_times(session *s, const pipeline *p, const row *rows, const kernel_timer *k,
                       const char *path) {
    json j = json_new_indented(s->arena);
    json_open(&j, NULL, '{');
    if (!options_gpu_host(p->options) && !options_for_both(p->options)) {
        int threads = peak_threads(p->target);
        json_number(&j, "peak_flops", measure_peak(s->arena, &s->diag, p->target) * threads);
        json_number(&j, "peak_bytes_per_second", measure_bandwidth(s->arena, threads));
    }
    json_open(&j, "kernels", '[');
    for (uint32_t i = 0; i < k->n; i++) {
        if (!k->calls[i]) continue;
        json_open(&j, NULL, '{');
        if (rows[i].version) json_text(&j, "version", rows[i].version);
        json_text(&j, "name", rows[i].kernel->name);
        json_int(&j, "calls", k->calls[i]);
        json_number(&j, "seconds", k->best[i]);
        json_close(&j, '}');
    }
    json_close(&j, ']');
    json_close(&j, '}');
    const char *text = arena_printf(s->arena, "%s\n", json_done(&j));
    outfile_write_whole(s->arena, &s->diag, path, (bytes){text, strlen(text)});
}

// peak: 0 if unknown.
static void show_kernels(session *s, const contestant *c, row *rows, const kernel_timer *k, double peak) {
    int n = 0;
    double total = 0;
    for (uint32_t i = 0; i < k->n; i++) {
        if (!k->calls[i]) continue; // in a version not run, or a branch not taken
        rows[n] = rows[i];
        rows[n].seconds = k->best[i];
        total += rows[n++].seconds;
    }
    if (n) qsort(rows, (size_t)n, sizeof *rows, by_seconds);
    printf("\n%s: %s in kernels; ", c->label, time_text(s->arena, total));
    if (peak > 0) printf("peak FMA throughput %.1f GFLOP/s\n", 1e-9 * peak);
    else printf("each launched alone and waited for\n");
    printf("%12s %7s %6s %10s %7s  kernel\n", "time", "share", "calls", "GFLOP/s", "peak");
    for (int i = 0; i < n; i++) {
        double calls = (double)k->calls[rows[i].number],
               flops = operations(rows[i].kernel, &(sizes){c->r, rows[i].program, c->in}) * calls /
                       rows[i].seconds;
        printf("%12s %6.1f%% %6.0f ", time_text(s->arena, rows[i].seconds), 100 * rows[i].seconds / total,
               calls);
        if (flops > 0) printf("%10.1f", 1e-9 * flops);
        else printf("%10s", "");
        if (flops > 0 && peak > 0) printf(" %6.1f%%", 100 * flops / peak);
        else printf(" %7s", "");
        printf("  %s\n", safe_text(s->arena, rows[i].kernel->name));
    }
}

// Runs the model again with hooks, whose cost must not count in the latencies.
static void measure_kernels(session *s, const contestant *c, const bench_options *own) {
    options *o = ARENA_NEW(s->arena, options);
    *o = *c->options;
    o->hook = "onnxc_bench_hook";
    pipeline *p = session_pipeline(s, o);
    p->hook = kernel_hook;
    runnable *r = runnable_new(p, &c->source, NULL);
    row *rows;
    kernel_timer k = kernel_timer_new(s->arena, (uint32_t)all_kernels(p, &rows));
    const char *message = NULL;
    prepared_call *call = runnable_prepare(r, s->arena, c->in, &message);
    kernel_hook_use(&k);
    for (int i = 0; call && i < KERNEL_RUNS; i++) kernel_timer_run(&k, call);
    kernel_hook_use(NULL);
    if (own->save_times) save_times(s, p, rows, &k, own->save_times);
    if (!own->kernels) return;
    bool on_gpu = options_gpu_host(o) || options_for_both(o);
    show_kernels(s, c, rows, &k, on_gpu ? 0 : measure_peak(s->arena, &s->diag, p->target));
}

static int bench(session *s, void *own) {
    const bench_options *o = own;
    contestants all = open_all(s, o);
    (s->options.runner ? measure_programs : measure)(s, o, &all);
    report(s, &all);
    for (int i = 0; (o->kernels || o->save_times) && i < all.n; i++)
        if (all.at[i].pipeline) measure_kernels(s, &all.at[i], o);
    return DIAG_OK;
}

static const bench_options bench_defaults = {.seconds = 1};
const verb verb_bench = {
    .name = "bench",
    .usage = "onnxc bench MODEL|LIB... [options]",
    .summary = "Measures the latency of models and libraries. With several, or with variants of a model "
               "(--with), the runs alternate.",
    .table = bench_table,
    .size = sizeof(bench_options),
    .defaults = &bench_defaults,
    .run = bench,
};
