// The graph's invariants. In: a module after any pass. Out: a defect that names the first node that violates
// one.
#include "ir/graph/graph.h"
#include "ir/graph/op.h"
#include <string.h>

typedef struct verifier {
    module *m;
    bool *defined; // by value id: met so far in topological order
    int *uses;     // by value id: readers met
    bool *placed;  // by node id
    int ngraphs;
} verifier;

#define CHECK(v, at, condition, ...)                                                                         \
    do {                                                                                                     \
        if (!(condition)) diag_defect((v)->m->diag, (at), __VA_ARGS__);                                      \
    } while (0)

static void check_elem(verifier *v, const loc *at, const char *name, dtype t) {
    CHECK(v, at, t != DT_NONE && t < DT_COUNT, "'%s' has element type %d", name, t);
}

static void check_type(verifier *v, const loc *at, const char *name, const type *t) {
    switch (t->kind) {
    case TYPE_NONE: return;
    case TYPE_TENSOR:
    case TYPE_SPARSE:
        check_elem(v, at, name, t->elem);
        CHECK(v, at, t->rank >= RANK_ANY && t->rank <= MAX_RANK, "'%s' has rank %d", name, t->rank);
        CHECK(v, at, t->rank <= 0 || t->dims, "'%s' has no dims", name);
        for (int i = 0; i < t->rank; i++) {
            CHECK(v, at, t->dims[i], "dim %d of '%s' is NULL", i, name);
            CHECK(v, at, t->dims[i]->table == v->m->dims, "dim %d of '%s' is of another table", i, name);
        }
        return;
    case TYPE_MAP:
    case TYPE_SEQUENCE:
    case TYPE_OPTIONAL:
        if (t->kind == TYPE_MAP) check_elem(v, at, name, t->elem);
        CHECK(v, at, t->item, "'%s' has a container type without item type", name);
        check_type(v, at, name, t->item);
        return;
    }
    CHECK(v, at, false, "'%s' has a type of unknown kind %d", name, t->kind);
}

static void check_constant(verifier *v, const loc *at, const value *x) {
    const constant *c = x->constant;
    CHECK(v, at, !x->def, "constant '%s' is the output of a node", x->name);
    CHECK(v, at, c->rank >= 0 && c->rank <= MAX_RANK, "constant '%s' has rank %d", x->name, c->rank);
    int64_t count = 1;
    for (int i = 0; i < c->rank; i++)
        if (c->dims[i] == 0) count = 0;
    for (int i = 0; i < c->rank && count; i++) count *= c->dims[i];
    CHECK(v, at, count == c->count, "constant '%s' counts %lld elements, not %lld", x->name,
          (long long)c->count, (long long)count);
    bool strings = c->kind == CONST_STRINGS;
    CHECK(v, at, strings == (c->elem == DT_STRING), "constant '%s' has the wrong kind", x->name);
    if (c->kind == CONST_BYTES) CHECK(v, at, c->data || !c->count, "constant '%s' has no data", x->name);
    if (strings)
        CHECK(v, at, (c->strings && c->string_sizes) || !c->count, "constant '%s' has no strings", x->name);
    CHECK(v, at, x->type.kind == TYPE_TENSOR && x->type.elem == c->elem && x->type.rank == c->rank,
          "the type of constant '%s' is not that of its data", x->name);
    for (int i = 0; i < c->rank; i++)
        CHECK(v, at, dim_is(x->type.dims[i], c->dims[i]), "dim %d of constant '%s' is not that of its data",
              i, x->name);
}

static void check_value(verifier *v, const loc *at, const value *x) {
    module *m = v->m;
    CHECK(v, at, x->id >= 0 && x->id < m->values.n && m->values.at[x->id] == x, "a value has a wrong id");
    CHECK(v, at, x->name && map_get(&m->names, x->name) == x, "the name of value %d belongs to another value",
          x->id);
    check_type(v, at, x->name, &x->type);
    for (int i = 0; x->contents && i < x->ncontents; i++)
        CHECK(v, at, x->contents[i], "element %d of '%s' is NULL", i, x->name);
}

static void define(verifier *v, const loc *at, const value *x, const graph *g) {
    check_value(v, at, x);
    CHECK(v, at, !v->defined[x->id], "'%s' is defined twice", x->name);
    CHECK(v, at, x->graph == g, "'%s' is not of the graph that defines it", x->name);
    v->defined[x->id] = true;
}

// x is read by use u of graph g.
static void check_read(verifier *v, const loc *at, const value *x, const graph *g, use u, int use_at) {
    CHECK(v, at, x, "a graph output is NULL");
    CHECK(v, at, x->id >= 0 && x->id < v->m->values.n && v->m->values.at[x->id] == x,
          "a value has a wrong id");
    CHECK(v, at, x->graph, "'%s' is used but its node was deleted", x->name);
    if (x->constant && !v->defined[x->id]) {
        define(v, at, x, x->graph);
        check_constant(v, at, x);
    }
    CHECK(v, at, v->defined[x->id], "'%s' is used before it is defined", x->name);
    CHECK(v, at, graph_sees(g, x->graph), "'%s' is used outside the graph that defines it", x->name);
    bool listed = use_at >= 0 && use_at < x->uses.n;
    if (listed) {
        use have = x->uses.at[use_at];
        listed = have.node == u.node && have.index == u.index && (u.node || have.graph == u.graph);
    }
    CHECK(v, at, listed, "input or output %d reads '%s', whose list of uses lacks it", u.index, x->name);
    v->uses[x->id]++;
}

static void check_graph(verifier *v, const graph *g, const graph *outer, const node *owner);

static void check_region(verifier *v, const node *n, const attr *a, const graph *g) {
    CHECK(v, n->loc, g, "attribute '%s' has no graph", a->name);
    check_graph(v, g, n->graph, n);
}

static void check_attr(verifier *v, const node *n, const attr *a) {
    CHECK(v, n->loc, a->name, "an attribute has no name");
    CHECK(v, n->loc, node_attr(n, a->name) == a, "attribute '%s' is given twice", a->name);
    bool list = false, missing = false;
    switch (a->kind) {
    case ATTR_FLOAT:
    case ATTR_INT: break;
    case ATTR_STRING: missing = !a->s && a->size; break;
    case ATTR_TENSOR: missing = !a->tensor; break;
    case ATTR_GRAPH: check_region(v, n, a, a->graph); break;
    case ATTR_FLOATS:
    case ATTR_INTS:
    case ATTR_STRINGS:
    case ATTR_GRAPHS: list = true; break;
    case ATTR_TYPE: missing = !a->type; break;
    case ATTR_NONE:
    case ATTR_TENSORS:
    case ATTR_SPARSE_TENSOR:
    case ATTR_SPARSE_TENSORS:
    case ATTR_TYPES: CHECK(v, n->loc, false, "attribute '%s' has kind %d", a->name, a->kind);
    }
    if (list) missing = a->n < 0 || (a->n > 0 && !a->ints);
    CHECK(v, n->loc, !missing, "attribute '%s' has no value", a->name);
    for (int i = 0; a->kind == ATTR_GRAPHS && i < a->n; i++) check_region(v, n, a, a->graphs[i]);
    if (a->kind == ATTR_TYPE) check_type(v, n->loc, a->name, a->type);
}

static void check_node(verifier *v, const node *n, const graph *g) {
    CHECK(v, n->loc, n->id >= 0 && n->id < v->m->nodes.n && v->m->nodes.at[n->id] == n,
          "a node has a wrong id");
    CHECK(v, n->loc, !v->placed[n->id], "the node is in two places");
    v->placed[n->id] = true;
    CHECK(v, n->loc, n->graph == g, "the node is not of the graph that lists it");
    CHECK(v, n->loc, n->op && n->op->name && n->op->domain, "the node has no operator");
    for (int i = 0; i < n->nin; i++)
        if (n->in[i]) check_read(v, n->loc, n->in[i], g, (use){.node = (node *)n, .index = i}, n->use_at[i]);
    for (int i = 0; i < n->nattrs; i++) check_attr(v, n, &n->attrs[i]);
    for (int i = 0; i < n->nout; i++) {
        const value *x = n->out[i];
        if (!x) continue;
        CHECK(v, n->loc, x->def == n && x->def_index == i, "output %d does not point back to the node", i);
        CHECK(v, n->loc, !x->constant || !n->nin, "output %d is a constant", i); // Constant has no inputs
        define(v, n->loc, x, g);
    }
}

static int place_of_output_use(const value *x, const graph *g, int index) {
    for (int i = 0; i < x->uses.n; i++)
        if (!x->uses.at[i].node && x->uses.at[i].graph == g && x->uses.at[i].index == index) return i;
    return -1;
}

static void check_graph(verifier *v, const graph *g, const graph *outer, const node *owner) {
    const loc *at = owner ? owner->loc : NULL;
    CHECK(v, at, ++v->ngraphs <= v->m->ngraphs, "a graph is in two places");
    CHECK(v, at, g->module == v->m, "graph '%s' is of another module", g->name);
    CHECK(v, at, g->outer == outer, "graph '%s' has a wrong outer graph", g->name);
    CHECK(v, at, g->owner == owner, "graph '%s' has a wrong owner", g->name);
    for (int i = 0; i < g->inputs.n; i++) {
        const value *x = g->inputs.at[i];
        CHECK(v, at, x && !x->def && !x->constant && x->def_index == i,
              "input %d of graph '%s' is something else", i, g->name);
        define(v, at, x, g);
    }
    for (int i = 0; i < g->nodes.n; i++) check_node(v, g->nodes.at[i], g);
    CHECK(v, at, g->outputs.n == g->output_names.n, "graph '%s' has outputs without names", g->name);
    for (int i = 0; i < g->outputs.n; i++) {
        const value *x = g->outputs.at[i];
        int use_at = x ? place_of_output_use(x, g, i) : -1;
        check_read(v, at, x, g, (use){.graph = (graph *)g, .index = i}, use_at);
    }
}

void graph_verify(module *m) {
    verifier v = {.m = m};
    v.defined = ARENA_ARRAY(m->arena, bool, m->values.n);
    v.uses = ARENA_ARRAY(m->arena, int, m->values.n);
    v.placed = ARENA_ARRAY(m->arena, bool, m->nodes.n);
    CHECK(&v, NULL, m->main, "the module has no main graph");
    check_graph(&v, m->main, NULL, NULL);
    for (int i = 0; i < m->values.n; i++) {
        const value *x = m->values.at[i];
        const loc *at = x->def ? x->def->loc : NULL;
        CHECK(&v, at, x->id == i, "value '%s' has a wrong id", x->name);
        CHECK(&v, at, v.uses[i] == x->uses.n, "'%s' has %d uses, its list says %d", x->name, v.uses[i],
              x->uses.n);
    }
    for (int i = 0; i < m->nodes.n; i++) {
        const node *n = m->nodes.at[i];
        CHECK(&v, n->loc, n->id == i, "a node has a wrong id");
        CHECK(&v, n->loc, v.placed[i] == (n->graph != NULL), "the node is in no graph, but not deleted");
    }
}
