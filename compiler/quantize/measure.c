// What quantisation gains. In: a plan. Out: for each node, the seconds by which it is faster; the time of a run before and
// after. For nodes, kernels of both models run with a clock between them, on this machine; for another target, a node counts by
// its multiplications. Short runs are timed without the clock, too, whose cost counts in them.
#include "compiler/base/clock.h"
#include "compiler/quantize/impl.h"
#include "ir/kernel/program.h"
#include <math.h>
#include <string.h>

static void edit_float(void *user, module *m) { prepare_again(user, m); }

static prepared_call *prepare_first(plan *p, arena *a, runnable *r) {
    const char *message = NULL;
    return runnable_prepare(r, a, p->held.at[0].in, &message);
}

static double run_timed(plan *p, arena *a, runnable *r, kernel_timer *t) {
    enum { RUNS = 12, WARM_UP = 2 };
    const double most = 2; // seconds
    prepared_call *call = prepare_first(p, a, r);
    double best = INFINITY, end = clock_now() + most;
    for (int i = 0; call && i < RUNS + WARM_UP && (i < 3 || clock_now() < end); i++)
        best = fmin(best, kernel_timer_run(t, call));
    return best;
}

// The time of a kernel belongs to the products that it computes, or else to all of its nodes.
static void share(const plan *p, const kernel *k, double seconds, const map *nodes, double *by_node) {
    int products = 0, all = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < k->nodes.n; i++) {
            const node *n = k->nodes.at[i]->node ? map_get(nodes, k->nodes.at[i]->node) : NULL;
            if (!n) continue;
            bool product = p->nodes[n->id].role == ROLE_PRODUCT;
            if (!pass) all++, products += product;
            else if (!products || product) by_node[n->id] += seconds / (products ? products : all);
        }
}

static double time_nodes(plan *p, void (*edit)(void *user, module *m), double *by_node) {
    arena *a = arena_within(p->arena);
    options *o = ARENA_NEW(a, options);
    *o = *p->in->options;
    o->hook = "onnxc_quantize_hook";
    pipeline_hooks hooks = {.user = p, .edit = edit, .input = p->in->import.input};
    pipeline *line = pipeline_new(a, p->diag, o, &hooks);
    line->hook = p->in->hook;
    runnable *r = runnable_new(line, &p->in->source, NULL);
    kernel_timer t = kernel_timer_new(a, line->versions.n ? 0 : (uint32_t)line->program->kernels.n);
    p->in->use_timer(&t);
    double seconds = run_timed(p, a, r, &t);
    p->in->use_timer(NULL);
    map nodes = {.arena = a};
    const graph *g = p->module->main;
    for (int i = 0; i < g->nodes.n; i++)
        if (g->nodes.at[i]->loc && g->nodes.at[i]->loc->node)
            map_put(&nodes, g->nodes.at[i]->loc->node, g->nodes.at[i]);
    for (uint32_t k = 0; k < t.n; k++) share(p, line->program->kernels.at[k], t.best[k], &nodes, by_node);
    arena_destroy(a);
    return seconds;
}

double multiplications(const node *n) {
    const constant *w = node_in(n, 1) ? n->in[1]->constant : NULL;
    double count = 1;
    for (int i = 0; i < n->out[0]->type.rank; i++)
        if (dim_is_const(n->out[0]->type.dims[i])) count *= (double)dim_value(n->out[0]->type.dims[i]);
    bool rows = node_is(n, "Conv") || (node_is(n, "Gemm") && node_int(n, "transB", 0));
    return w && w->rank > 1 && w->count ? count * (double)w->count / (double)w->dims[rows ? 0 : w->rank - 1]
                                        : count;
}

void measure_gains(plan *p) {
    const graph *g = p->module->main;
    if (p->own->cross) {
        for (int i = 0; i < g->nodes.n; i++) {
            qnode *q = &p->nodes[g->nodes.at[i]->id];
            if (q->quantised && q->role == ROLE_PRODUCT) q->gain = multiplications(g->nodes.at[i]);
        }
        return;
    }
    hold_samples(p);
    if (!p->held.n) return;
    if (p->in->progress) p->in->progress(p->in->user, "measuring");
    double *before = ARENA_ARRAY(p->arena, double, p->nnodes + 1),
           *after = ARENA_ARRAY(p->arena, double, p->nnodes + 1);
    double start = clock_now();
    p->time_before = time_nodes(p, edit_float, before);
    p->time_after = time_nodes(p, edit_quantised, after);
    for (int i = 0; i < g->nodes.n; i++) {
        int id = g->nodes.at[i]->id;
        if (before[id] > 0) p->nodes[id].gain = before[id] - after[id];
    }
    p->seconds[3] += clock_now() - start;
}

// ---------------------------------------------------------------- the time of a run
static double time_runs(prepared_call *call, int64_t runs) {
    double start = clock_now();
    for (int64_t i = 0; i < runs; i++) {
        prepared_release(call);
        prepared_run(call);
    }
    return (clock_now() - start) / (double)runs;
}

// The fastest of alternating rounds, each of many runs if these are short.
static void time_both(plan *p, prepared_call *const calls[2]) {
    enum { ROUNDS = 100 };
    const double round = 2e-4, most = 2; // seconds
    double once = time_runs(calls[0], 3), best[2] = {INFINITY, INFINITY}, end = clock_now() + most;
    int64_t runs = once < round ? (int64_t)(round / (once > 1e-8 ? once : 1e-8)) : 1;
    for (int i = 0; i < ROUNDS && (i < 3 || clock_now() < end); i++)
        for (int side = 0; side < 2; side++) best[side] = fmin(best[side], time_runs(calls[side], runs));
    p->time_before = best[0], p->time_after = best[1];
}

void measure_times(plan *p) {
    void (*const edits[2])(void *, module *) = {edit_float, edit_quantised};
    prepared_call *calls[2];
    hold_samples(p);
    if (p->own->cross || !p->held.n) return;
    arena *a = arena_within(p->arena);
    for (int side = 0; side < 2; side++) {
        pipeline_hooks hooks = {.user = p, .edit = edits[side], .input = p->in->import.input};
        runnable *r = runnable_new(pipeline_new(a, p->diag, p->in->options, &hooks), &p->in->source, NULL);
        calls[side] = prepare_first(p, a, r);
    }
    if (calls[0] && calls[1]) time_both(p, calls);
    arena_destroy(a);
}

static int64_t weight_bytes(const module *m) {
    int64_t n = 0;
    for (int i = 0; i < m->values.n; i++) {
        const constant *c = m->values.at[i]->constant;
        n += c ? dtype_size(c->elem, c->count) : 0;
    }
    return n;
}

bool is_quick_to_measure(const plan *p) {
    const int most_nodes = 300;
    const int64_t most_bytes = 4 << 20;
    const double most_work = 0.5; // seconds of calibration
    return p->nsamples && p->nnodes <= most_nodes && weight_bytes(p->module) <= most_bytes &&
           p->calibration_work < most_work;
}
