// Times of kernels, from a hook that runs before each of them.
#ifndef ONNXC_COMPILER_RUN_KERNEL_TIMER_H
#define ONNXC_COMPILER_RUN_KERNEL_TIMER_H
#include "compiler/run/runnable.h"

typedef struct kernel_timer {
    double *seconds, *best; // by kernel: of this run, of the fastest one
    int64_t *calls;         // of this run
    uint32_t n, now;
    double since;
    bool measured; // best is known
} kernel_timer;

kernel_timer kernel_timer_new(arena *a, uint32_t n);
void kernel_timer_next(kernel_timer *t, uint32_t kernel);      // a kernel begins
double kernel_timer_run(kernel_timer *t, prepared_call *call); // one run; its seconds
#endif
