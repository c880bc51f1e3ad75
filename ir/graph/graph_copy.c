// Copies nodes with their regions, and lists what a node reads. In: a node; out: a node that means the same
// on other values.
#include "ir/graph/op.h"

typedef struct copying {
    map *as;       // id of value -> value
    map *constant; // id of a copied region -> the graph that gets its constants
    bool replaces; // the copy is to take the place of the original: names and declared types stay
} copying;

// The copy of v, which is an input, a constant or an output of a node.
static value *as_copied(copying *c, const value *v, value *copy, type fresh) {
    copy->type = fresh;
    if (c->replaces) copy->name = v->name, copy->type = *infer_declared(v);
    map_put_number(c->as, (uint64_t)v->id, copy);
    return copy;
}

static value *copied(copying *c, value *v) {
    if (!v) return NULL;
    value *other = map_get_number(c->as, (uint64_t)v->id);
    if (other) return other;
    graph *to = v->constant && v->graph ? map_get_number(c->constant, (uint64_t)v->graph->id) : NULL;
    if (!to) return v;
    return as_copied(c, v, value_constant(to, c->replaces ? NULL : v->name, v->constant), v->type);
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
        as_copied(c, v, graph_add_input(to, c->replaces ? NULL : v->name, v->type), v->type);
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
        const value *v = n->out[i];
        as_copied(c, v, node_output(to, i, c->replaces ? NULL : v->name), without_sizes(v->type));
    }
    return to;
}

node *node_copy(const node *n, graph *g, map *as) {
    map constant = {.arena = g->module->arena};
    copying c = {as, &constant, false};
    return copy_node(&c, n, g);
}

region_copy region_copied(graph *g) {
    module *m = g->module;
    map as = {.arena = m->arena}, constant = {.arena = m->arena};
    copying c = {&as, &constant, true};
    region_copy copy = {.first = m->values.n};
    copy.graph = copy_region(&c, g, g->outer);
    copy.end = m->values.n;
    return copy;
}

void region_take_names(const region_copy *copy) {
    module *m = copy->graph->module;
    for (int i = copy->first; i < copy->end; i++) {
        value *v = m->values.at[i];
        if (v->graph) map_put(&m->names, v->name, v);
    }
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
