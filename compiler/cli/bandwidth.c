// Measures how fast threads read from memory: the slope of a roofline. In: the number of threads. Out: bytes per second.
#include "compiler/base/clock.h"
#include "compiler/cli/command.h"
#include "runtime-lite/onnxc.h"
#include <pthread.h>
#include <string.h>

// More than the caches of most machines; pages are touched before the clock starts.
enum { REPEATS = 6 };
static const size_t BYTES = (size_t)256 << 20;

typedef struct reader {
    const uint64_t *from;
    size_t n;
    uint64_t sum; // keeps the reads alive
} reader;

static void *read_all(void *user) {
    reader *r = user;
    uint64_t sum[8] = {0};
    for (size_t i = 0; i + 8 <= r->n; i += 8)
        for (int k = 0; k < 8; k++) sum[k] += r->from[i + (size_t)k];
    for (int k = 0; k < 8; k++) r->sum += sum[k];
    return NULL;
}

// Seconds for one pass over the data by all threads; the caller is one of them.
static double one_pass(reader *readers, int threads, pthread_t *ids) {
    double start = clock_now();
    int started = 1;
    while (started < threads && pthread_create(&ids[started], NULL, read_all, &readers[started]) == 0)
        started++;
    read_all(&readers[0]);
    for (int i = started; i < threads; i++) read_all(&readers[i]);
    for (int i = 1; i < started; i++) pthread_join(ids[i], NULL);
    return clock_now() - start;
}

int peak_threads(const target *t) {
    int cpus = onnxc_default_threads();
    return t->threads < cpus ? t->threads : cpus;
}

double measure_bandwidth(arena *a, int threads) {
    arena *own = arena_within(a);
    uint64_t *data = arena_alloc(own, BYTES);
    memset(data, 1, BYTES);
    reader *readers = ARENA_ARRAY(own, reader, threads);
    pthread_t *ids = ARENA_ARRAY(own, pthread_t, threads);
    size_t words = BYTES / sizeof *data / (size_t)threads;
    for (int i = 0; i < threads; i++) readers[i] = (reader){data + (size_t)i * words, words, 0};
    double best = 1e9;
    for (int i = 0; i < REPEATS; i++) {
        double seconds = one_pass(readers, threads, ids);
        if (seconds < best) best = seconds;
    }
    uint64_t sum = 0;
    for (int i = 0; i < threads; i++) sum += readers[i].sum;
    arena_destroy(own);
    return sum ? (double)(words * sizeof *data) * threads / best : 0;
}
