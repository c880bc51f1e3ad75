// Places probes. The import says where each node begins and ends; the probes are added after it, when all names
// are known: one after each node for its outputs and, if asked for, one before it.
#include "compiler/driver/probes.h"

// Where a node is in the graph of the present import: after which nodes it begins and ends (NULL: first).
typedef struct place {
    graph *graph;
    node *before, *after;
    value *const *out;
} place;

typedef struct probe_places {
    VEC(place) at; // by node
    VEC(int) open; // nodes whose import has begun
    map last;      // id of a node, or -1 - id of a graph -> the probe inserted after it last
    bool repeated; // not the first import
} probe_places;

probes *probes_new(arena *a) {
    probes *p = ARENA_NEW(a, probes);
    *p = (probes){.arena = a, .by_name = {.arena = a}};
    return p;
}

void probes_begin(probes *p) {
    probe_places *x = ARENA_NEW(p->arena, probe_places);
    *x = (probe_places){.last = {.arena = p->arena}, .repeated = p->nodes.n > 0};
    p->places = x;
}

static node *last_node(const graph *g) { return g->nodes.n ? g->nodes.at[g->nodes.n - 1] : NULL; }

static const char *const *names_of(arena *a, value *const *v, int n) {
    const char **names = ARENA_ARRAY(a, const char *, n + 1);
    for (int i = 0; i < n; i++) names[i] = v[i] ? v[i]->name : NULL;
    return names;
}

static void begin_node(probes *p, const model_node *n) {
    probe_places *x = p->places;
    VEC_PUSH(p->arena, &x->open, x->at.n);
    VEC_PUSH(p->arena, &x->at, (place){.graph = n->graph, .before = last_node(n->graph)});
    if (x->repeated) return;
    probed_node *own = ARENA_NEW(p->arena, probed_node);
    *own = (probed_node){.index = p->nodes.n, .as = *n};
    if (x->open.n > 1) own->owner = p->nodes.at[x->open.at[x->open.n - 2]];
    own->depth = x->open.n - 1;
    own->first = n->graph->outer && !n->graph->nodes.n;
    VEC_PUSH(p->arena, &p->nodes, own);
}

static void end_node(probes *p, const model_node *n) {
    probe_places *x = p->places;
    int index = x->open.at[--x->open.n];
    x->at.at[index].after = last_node(n->graph);
    x->at.at[index].out = n->out;
    if (x->repeated) return;
    probed_node *own = p->nodes.at[index];
    own->as = *n;
    own->in = names_of(p->arena, n->in, n->nin);
    own->out = names_of(p->arena, n->out, n->nout);
    own->end = p->nodes.n;
    for (int i = 0; i < n->nout; i++) // the nodes of a function come before its call
        if (own->out[i] && !map_get(&p->by_name, own->out[i])) map_put(&p->by_name, own->out[i], own);
}

void probes_start(probes *p) {
    if (p && p->start) p->start(p->user);
}

void probes_import_node(void *user, const model_node *n) {
    if (n->done) end_node(user, n);
    else begin_node(user, n);
}

// The node before which a probe that follows `after` belongs.
static node *successor(probes *p, graph *g, node *after, uint64_t *key) {
    *key = after ? (uint64_t)after->id : (uint64_t)(-1 - (int64_t)g->id);
    node *last = map_get_number(&p->places->last, *key);
    if (last) return node_next(last);
    return after ? node_next(after) : g->nodes.n ? g->nodes.at[0] : NULL;
}

static void add_probe(probes *p, const op_def *op, const probed_node *n, graph *g, node *after, bool before,
                      int nin, value *const *in) {
    uint64_t key;
    node *next = successor(p, g, after, &key);
    node *made = probe_node(g, next, op, n->as.loc, 2 * n->index + before, p, nin, in);
    map_put_number(&p->places->last, key, made);
}

static bool is_wanted(const probes *p, const probed_node *n, int output) {
    return n->out[output] && map_get(&p->by_name, n->out[output]) == n &&
           (!p->wants || p->wants(p->user, n, output));
}

static void probe_before(probes *p, const op_def *op, probed_node *n, const place *at) {
    VEC(value *) in = {0};
    for (int i = 0; n->first && i < at->graph->inputs.n; i++)
        VEC_PUSH(p->arena, &in, at->graph->inputs.at[i]);
    n->nstates = in.n;
    n->states = names_of(p->arena, in.at, in.n);
    add_probe(p, op, n, at->graph, at->before, true, in.n, in.at);
}

static void probe_outputs(probes *p, const op_def *op, probed_node *n, const place *at) {
    VEC(value *) in = {0};
    n->seen = ARENA_ARRAY(p->arena, int, n->as.nout + 1);
    for (int i = 0; i < n->as.nout; i++) {
        if (!is_wanted(p, n, i)) continue;
        n->seen[in.n] = i;
        VEC_PUSH(p->arena, &in, at->out[i]);
    }
    if (in.n) add_probe(p, op, n, at->graph, at->after, false, in.n, in.at);
}

void probes_add(probes *p, module *m) {
    const op_def *op = probe_op(m->arena);
    if (p->imported) p->imported(p->user, m);
    for (int j = 0; j < p->places->at.n; j++) {
        const place *at = &p->places->at.at[j];
        if (p->before) probe_before(p, op, p->nodes.at[j], at);
        probe_outputs(p, op, p->nodes.at[j], at);
    }
}
