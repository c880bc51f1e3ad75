// Time in seconds by the system's clocks.
#include "compiler/base/clock.h"
#include <time.h>

static double seconds_of(clockid_t id) {
    struct timespec t;
    clock_gettime(id, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double clock_now(void) { return seconds_of(CLOCK_MONOTONIC); }
double clock_thread(void) { return seconds_of(CLOCK_THREAD_CPUTIME_ID); }
