// In: calls of a hook between kernels. Out: seconds of each kernel.
#include "compiler/run/kernel_timer.h"
#include "compiler/base/clock.h"
#include <string.h>

kernel_timer kernel_timer_new(arena *a, uint32_t n) {
    return (kernel_timer){.n = n,
                          .now = UINT32_MAX,
                          .seconds = ARENA_ARRAY(a, double, n + 1),
                          .best = ARENA_ARRAY(a, double, n + 1),
                          .calls = ARENA_ARRAY(a, int64_t, n + 1)};
}

static void stop(kernel_timer *t) {
    if (t->now < t->n) t->seconds[t->now] += clock_now() - t->since;
}

void kernel_timer_next(kernel_timer *t, uint32_t kernel) {
    stop(t);
    t->now = kernel;
    if (kernel < t->n) t->calls[kernel]++;
    t->since = clock_now();
}

double kernel_timer_run(kernel_timer *t, prepared_call *call) {
    memset(t->seconds, 0, t->n * sizeof *t->seconds);
    memset(t->calls, 0, t->n * sizeof *t->calls);
    t->now = UINT32_MAX;
    prepared_release(call);
    double start = clock_now();
    prepared_run(call);
    double seconds = clock_now() - start;
    stop(t);
    for (uint32_t k = 0; k < t->n; k++)
        if (!t->measured || t->seconds[k] < t->best[k]) t->best[k] = t->seconds[k];
    t->measured = true;
    return seconds;
}
