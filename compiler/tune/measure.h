// Measures single kernels on this machine: compiled into this process with given choices, with memory of
// their own, timed alternately.
#ifndef ONNXC_COMPILER_TUNE_MEASURE_H
#define ONNXC_COMPILER_TUNE_MEASURE_H
#include "ir/kernel/program.h"
#include "passes/schedule/common/choices.h"

// Values of runtime dims. False: unknown.
typedef struct dim_values {
    bool (*look_up)(void *user, const dim *atom, int64_t *v);
    void *user;
} dim_values;

// Memory of a kernel, shared by all trials.
typedef struct bench bench;
typedef struct trial trial;
// NULL: its sizes are unknown, or need too much memory or work.
bench *bench_new(arena *a, diag *d, kernel *k, const target *t, const dim_values *values);
// Hash of the loops with these choices, to skip duplicates.
uint64_t bench_loops(bench *b, const choices *c);
trial *bench_compile(bench *b, arena *a, const choices *c);
// Time of one run in seconds; also decides whether later runs use threads.
double bench_first(bench *b, trial *t);
// Measures alternately until each has run `least` times and `seconds` have passed. medians: times; wins:
// share of the rounds in which each was faster than the first.
void bench_compare(bench *const *b, trial *const *all, int n, int least, double seconds, double *medians,
                   double *wins);
#endif
