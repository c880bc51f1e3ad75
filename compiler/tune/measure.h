// Kernels on their own, on this machine: compiled into this process with some choices, called with memory of
// their own, timed in turns.
#ifndef ONNXC_COMPILER_TUNE_MEASURE_H
#define ONNXC_COMPILER_TUNE_MEASURE_H
#include "ir/kernel/program.h"
#include "passes/schedule/common/choices.h"

// Values of the dims that only the run knows. False: not of this one.
typedef struct dim_values {
    bool (*look_up)(void *user, const dim *atom, int64_t *v);
    void *user;
} dim_values;

// One kernel's memory, and what all ways to compute it have in common.
typedef struct bench bench;
typedef struct trial trial;
// NULL: its sizes are not known, or take more memory or work than is worth it.
bench *bench_new(arena *a, diag *d, kernel *k, const target *t, const dim_values *values);
// What the loops look like with these choices: equal ones are one.
uint64_t bench_loops(bench *b, const choices *c);
trial *bench_compile(bench *b, arena *a, const choices *c);
// Seconds of one run, and whether runs of it are shared out to threads from then on.
double bench_first(bench *b, trial *t);
// In turns, until each has run `least` times and `seconds` have gone by. Medians, and in which part of the
// turns each was faster than the first.
void bench_compare(bench *const *b, trial *const *all, int n, int least, double seconds, double *medians,
                   double *wins);
#endif
