// Copies nodes with their regions, and lists what a node reads. In: a node; out: a node that means the same
// on other values.
#include "ir/graph/graph.h"

typedef struct copying {
    map *as;       // id of value -> value
    map *constant; // id of a copied region -> the graph that gets its constants
} copying;

static value *copied(copying *c, value *v) {
    if (!v) return NULL;
    value *other = map_get_number(c->as, (uint64_t)v->id);
    if (other) return other;
    graph *to = v->constant && v->graph ? map_get_number(c->constant, (uint64_t)v->graph->id) : NULL;
    if (!to) return v;
    other = value_constant(to, v->name, v->constant);
    map_put_number(c->as, (uint64_t)v->id, other);
    return other;
}

// A type without its sizes, which inference computes anew for the copy.
static type without_sizes(type t) {
    if (t.kind == TYPE_TENSOR) t.rank = RANK_UNKNOWN, t.dims = NULL;
    return t;
}

static node *copy_node(copying *c, const node *n, graph *g);

static graph *copy_region(copying *c, graph *from, graph *outer) {
    graph *to = graph_new(outer->module, outer, from->name);
    map_put_number(c->constant, (uint64_t)from->id, to);
    for (int i = 0; i < from->inputs.n; i++) {
        const value *v = from->inputs.at[i];
        map_put_number(c->as, (uint64_t)v->id, graph_add_input(to, v->name, v->type));
    }
    for (int i = 0; i < from->nodes.n; i++) copy_node(c, from->nodes.at[i], to);
    for (int i = 0; i < from->outputs.n; i++) graph_add_output(to, copied(c, from->outputs.at[i]));
    return to;
}

static attr copy_attr(copying *c, const attr *from, graph *g) {
    attr a = *from;
    if (a.kind == ATTR_GRAPH && a.graph) a.graph = copy_region(c, from->graph, g);
    if (a.kind != ATTR_GRAPHS) return a;
    a.graphs = ARENA_ARRAY(g->module->arena, graph *, a.n + 1);
    for (int i = 0; i < a.n; i++) a.graphs[i] = copy_region(c, from->graphs[i], g);
    return a;
}

static node *copy_node(copying *c, const node *n, graph *g) {
    node *to = node_new(g, NULL, n->op, n->loc, 0, NULL);
    to->given = n->given;
    for (int i = 0; i < n->nin; i++) node_set_in(to, i, copied(c, n->in[i]));
    for (int i = 0; i < n->nattrs; i++) node_set_attr(to, copy_attr(c, &n->attrs[i], g));
    for (int i = 0; i < n->nout; i++) {
        if (!n->out[i]) continue;
        value *v = node_output(to, i, n->out[i]->name);
        v->type = without_sizes(n->out[i]->type);
        map_put_number(c->as, (uint64_t)n->out[i]->id, v);
    }
    return to;
}

node *node_copy(const node *n, graph *g, map *as) {
    map constant = {.arena = g->module->arena};
    copying c = {as, &constant};
    return copy_node(&c, n, g);
}

static void region_reads(const graph *g, void (*fn)(void *user, value *v), void *user) {
    for (int i = 0; i < g->nodes.n; i++) node_reads(g->nodes.at[i], fn, user);
    for (int i = 0; i < g->outputs.n; i++) fn(user, g->outputs.at[i]);
}

void node_reads(const node *n, void (*fn)(void *user, value *v), void *user) {
    for (int i = 0; i < n->nin; i++)
        if (n->in[i]) fn(user, n->in[i]);
    for (int i = 0; node_region(n, i); i++) region_reads(node_region(n, i), fn, user);
}
