// What quantisation gains. In: a plan. Out: for each node, the seconds by which it is faster; the time of a run before and
// after. Kernels of both models run with a clock between them, on this machine; for another target, a node counts by its
// multiplications.
#include "compiler/base/clock.h"
#include "compiler/quantize/impl.h"
#include "ir/kernel/program.h"
#include <math.h>
#include <string.h>

static void edit_float(void *user, module *m) { prepare_again(user, m); }

static double run_timed(plan *p, arena *a, runnable *r, kernel_timer *t) {
    enum { RUNS = 12, WARM_UP = 2 };
    const double most = 2; // seconds
    const char *message = NULL;
    prepared_call *call = runnable_prepare(r, a, p->held.at[0].in, &message);
    double best = INFINITY, end = clock_now() + most;
    for (int i = 0; call && i < RUNS + WARM_UP && (i < 3 || clock_now() < end); i++) {
        double seconds = kernel_timer_run(t, call);
        if (seconds < best) best = seconds;
    }
    return best;
}

double time_of_run(plan *p, arena *a, runnable *r) {
    kernel_timer none = kernel_timer_new(a, 0);
    return run_timed(p, a, r, &none);
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
    bool rows =
        strcmp(n->op->name, "Conv") == 0 || (strcmp(n->op->name, "Gemm") == 0 && node_int(n, "transB", 0));
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
