// Starts deferred work for a GPU. In: kernels, fills and copies in order. Out: single calls the first time,
// later a CUDA graph. Work is compared by all its words, so a graph is always the same work.
#include "runtime-lite/cuda/cuda_graph.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { HEAD = 5, ARGUMENTS_MOST = 512, GRAPH_LEAST = 3 };
typedef enum work_kind { WORK_LAUNCH, WORK_FILL, WORK_COPY } work_kind;

// ---------------------------------------------------------------- recording
static uint64_t *add(cuda_work *w, work_kind kind, size_t n) {
    if (w->n + n + 1 > w->room) {
        size_t room = 2 * (w->room + n + 1) + 256;
        uint64_t *words = realloc(w->words, room * sizeof *words);
        if (!words) return NULL;
        w->words = words;
        w->room = room;
    }
    uint64_t *at = w->words + w->n;
    *at = (uint64_t)kind | (uint64_t)n << 8;
    w->n += n + 1;
    w->count++;
    return at + 1;
}

static uint64_t pair(int64_t low, int64_t high) { return (uint32_t)low | (uint64_t)(uint32_t)high << 32; }

// function, (grid.x, grid.y), (grid.z, block.x), (block.y, block.z), (number of arguments, shared memory),
// arguments
int cuda_work_launch(cuda_work *w, cuda_function f, const int64_t *sizes, unsigned shared, int n,
                     const int64_t *arguments) {
    uint64_t *at = n > ARGUMENTS_MOST ? NULL : add(w, WORK_LAUNCH, HEAD + (size_t)n);
    if (!at) return n > ARGUMENTS_MOST ? CUDA_INVALID_VALUE : CUDA_OUT_OF_MEMORY;
    at[0] = (uintptr_t)f;
    for (int i = 0; i < 3; i++) at[1 + i] = pair(sizes[2 * i], sizes[2 * i + 1]);
    at[4] = pair(n, shared);
    memcpy(at + HEAD, arguments, (size_t)n * sizeof *at);
    return CUDA_OK;
}

static int add_three(cuda_work *w, work_kind kind, uint64_t x, uint64_t y, uint64_t z) {
    uint64_t *at = add(w, kind, 3);
    if (!at) return CUDA_OUT_OF_MEMORY;
    at[0] = x;
    at[1] = y;
    at[2] = z;
    return CUDA_OK;
}

int cuda_work_fill(cuda_work *w, cuda_address at, unsigned char value, size_t n) {
    return add_three(w, WORK_FILL, at, value, n);
}

int cuda_work_copy(cuda_work *w, cuda_address to, cuda_address from, size_t n) {
    return add_three(w, WORK_COPY, to, from, n);
}

// ---------------------------------------------------------------- single calls
static unsigned low(uint64_t x) { return (unsigned)(x & UINT32_MAX); }
static unsigned high(uint64_t x) { return (unsigned)(x >> 32); }

static int launch(const cuda_driver *d, const uint64_t *at, cuda_stream s) {
    void *arguments[ARGUMENTS_MOST];
    for (uint64_t i = 0; i < low(at[4]); i++) arguments[i] = (void *)(uintptr_t)(at + HEAD + i);
    return d->launch((cuda_function)(uintptr_t)at[0], low(at[1]), high(at[1]), low(at[2]), high(at[2]),
                     low(at[3]), high(at[3]), high(at[4]), s, arguments, NULL);
}

static int start_one(const cuda_driver *d, work_kind kind, const uint64_t *at, cuda_stream s) {
    switch (kind) {
    case WORK_LAUNCH: return launch(d, at, s);
    case WORK_FILL: return d->fill(at[0], (unsigned char)at[1], (size_t)at[2], s);
    case WORK_COPY: return d->on_device(at[0], at[1], (size_t)at[2], s);
    }
    return CUDA_INVALID_VALUE;
}

static int start_each(const cuda_driver *d, const cuda_work *w, cuda_stream s) {
    int error = CUDA_OK;
    for (size_t i = 0; i < w->n && !error; i += 1 + (size_t)(w->words[i] >> 8))
        error = start_one(d, (work_kind)(w->words[i] & 0xff), &w->words[i + 1], s);
    return error;
}

// ---------------------------------------------------------------- graphs
static uint64_t hash_of(const cuda_work *w) {
    uint64_t h = w->n;
    for (size_t i = 0; i < w->n; i++) {
        h = (h ^ w->words[i]) * 0x9e3779b97f4a7c15u;
        h ^= h >> 29;
    }
    return h;
}

static cuda_known *find(cuda_graphs *g, const cuda_work *w, uint64_t hash) {
    for (int i = 0; i < CUDA_GRAPHS_MOST; i++) {
        cuda_known *k = &g->all[i];
        bool same = k->used && k->hash == hash && k->n == w->n;
        if (same && !memcmp(k->words, w->words, w->n * sizeof *w->words)) return k;
    }
    return NULL;
}

static void forget(const cuda_driver *d, cuda_known *k) {
    if (k->graph) d->graph_exec_destroy(k->graph);
    free(k->words);
    *k = (cuda_known){0};
}

// Replaces the least recently used entry, whose graph may still be running.
static void remember(const cuda_driver *d, cuda_graphs *g, const cuda_work *w, uint64_t hash, cuda_stream s) {
    cuda_known *k = g->all;
    for (int i = 1; i < CUDA_GRAPHS_MOST; i++)
        if (g->all[i].used < k->used) k = &g->all[i];
    if (k->graph) d->stream_wait(s);
    forget(d, k);
    uint64_t *words = malloc(w->n * sizeof *words);
    if (!words) return;
    memcpy(words, w->words, w->n * sizeof *words);
    *k = (cuda_known){.words = words, .hash = hash, .n = w->n, .used = ++g->clock};
}

static cuda_graph captured(const cuda_driver *d, cuda_graphs *g, const cuda_work *w) {
    cuda_graph made = NULL;
    if (!g->capture && d->stream_create(&g->capture, CUDA_NON_BLOCKING)) return NULL;
    if (d->capture_begin(g->capture, CUDA_CAPTURE_THREAD)) return NULL;
    int error = start_each(d, w, g->capture);
    if (d->capture_end(g->capture, &made) || !error) return made;
    if (made) d->graph_destroy(made);
    return NULL;
}

// If the driver fails, this work will not become a graph.
static void make_graph(const cuda_driver *d, cuda_graphs *g, cuda_known *k, const cuda_work *w) {
    cuda_graph made = captured(d, g, w);
    if (!made || d->graph_instantiate(&k->graph, made, 0)) k->graph = NULL;
    if (made) d->graph_destroy(made);
    k->no_graph = !k->graph;
}

static int start_known(const cuda_driver *d, cuda_graphs *g, const cuda_work *w, cuda_stream s) {
    uint64_t hash = hash_of(w);
    system_lock_take(&g->lock);
    cuda_known *k = find(g, w, hash);
    if (!k) remember(d, g, w, hash, s);
    else k->used = ++g->clock;
    if (k && !k->graph && !k->no_graph) make_graph(d, g, k, w);
    int error = k && k->graph ? d->graph_launch(k->graph, s) : start_each(d, w, s);
    system_lock_release(&g->lock);
    return error;
}

// While the caller captures the stream, single calls become part of the caller's graph.
static bool caller_captures(const cuda_driver *d, cuda_stream s) {
    int status = 0;
    return d->is_capturing(s, &status) || status;
}

int cuda_work_start(const cuda_driver *d, cuda_graphs *g, cuda_work *w, cuda_stream s) {
    bool single = g->off || w->count < GRAPH_LEAST || caller_captures(d, s);
    int error = !w->n ? CUDA_OK : single ? start_each(d, w, s) : start_known(d, g, w, s);
    w->n = 0;
    w->count = 0;
    return error;
}

void cuda_graphs_open(const cuda_driver *d, cuda_graphs *g, int off) {
    system_lock_init(&g->lock);
    g->off = off || !cuda_has_graphs(d);
}

void cuda_graphs_close(const cuda_driver *d, cuda_graphs *g) {
    for (int i = 0; i < CUDA_GRAPHS_MOST; i++) forget(d, &g->all[i]);
    if (g->capture) d->stream_destroy(g->capture);
    system_lock_destroy(&g->lock);
}
