// Building and editing graphs. In: operators, inputs, types. Out: nodes and values, with each
// value's uses kept exact, so that edits cost what they change and not the size of the module.
#include "ir/graph/graph.h"
#include "ir/graph/op.h"
#include <string.h>

enum { CONTENTS_MOST = 64 }; // elements of an integer constant that are known as dims

// Arrays of nodes grow by doubling, so their capacity follows from their length.
static int capacity(int n) {
    int cap = 2;
    while (cap < n) cap *= 2;
    return cap;
}

#define RESERVE(a, array, n, wanted)                                                                         \
    ((wanted) <= capacity(n) && (array) ? (array)                                                            \
                                        : arena_grow((a), (array), (size_t)(n) * sizeof *(array),            \
                                                     (size_t)capacity(wanted) * sizeof *(array)))

// ---- Modules, graphs, values.

module *module_new(arena *a, diag *d, const char *file) {
    module *m = ARENA_NEW(a, module);
    m->arena = a;
    m->diag = d;
    m->dims = dims_new(a);
    m->file = file;
    m->name = m->producer = m->doc = "";
    m->names.arena = m->suffixes.arena = m->opsets.arena = a;
    return m;
}

graph *graph_new(module *m, graph *outer, const char *name) {
    graph *g = ARENA_NEW(m->arena, graph);
    g->id = m->ngraphs++;
    g->name = name ? arena_strdup(m->arena, name) : "";
    g->module = m;
    g->outer = outer;
    if (!outer && !m->main) m->main = g;
    return g;
}

bool graph_sees(const graph *g, const graph *scope) {
    while (g && g != scope) g = g->outer;
    return g != NULL;
}

static const char *unique_name(module *m, const char *name) {
    const char *stem = name ? name : "v";
    const char *found = name ? arena_strdup(m->arena, name) : arena_printf(m->arena, "v%d", m->values.n);
    if (!map_get(&m->names, found)) return found;
    intptr_t n = (intptr_t)map_get(&m->suffixes, stem);
    do found = arena_printf(m->arena, "%s_%d", stem, (int)++n);
    while (map_get(&m->names, found));
    map_put(&m->suffixes, stem, (void *)n);
    return found;
}

value *value_new(graph *g, const char *name) {
    module *m = g->module;
    value *v = ARENA_NEW(m->arena, value);
    v->name = unique_name(m, name);
    v->id = m->values.n;
    v->graph = g;
    VEC_PUSH(m->arena, &m->values, v);
    map_put(&m->names, v->name, v);
    return v;
}

value *graph_add_input(graph *g, const char *name, type t) {
    value *v = value_new(g, name);
    v->type = t;
    v->def_index = g->inputs.n;
    VEC_PUSH(g->module->arena, &g->inputs, v);
    return v;
}

void graph_drop_input(graph *g, int i) {
    g->inputs.at[i]->graph = NULL;
    g->inputs.n--;
    for (int j = i; j < g->inputs.n; j++) {
        g->inputs.at[j] = g->inputs.at[j + 1];
        g->inputs.at[j]->def_index = j;
    }
}

static void set_contents(value *v, const constant *c, dims *table, arena *a) {
    dtype_class class = dtype_class_of(c->elem);
    if (c->rank > 1 || c->count > CONTENTS_MOST) return;
    if (class != DC_INT && class != DC_UINT && class != DC_BOOL) return;
    dim **contents = ARENA_ARRAY(a, dim *, c->count);
    for (int i = 0; i < c->count; i++) {
        int64_t x = constant_int(c, i);
        if (c->elem == DT_U64 && x < 0) return; // does not fit a dim
        contents[i] = dim_const(table, x);
    }
    v->contents = contents;
    v->ncontents = (int)c->count;
}

value *value_constant(graph *g, const char *name, constant *c) {
    module *m = g->module;
    value *v = value_new(g, name);
    v->constant = c;
    v->type = type_tensor_const(m->dims, m->arena, c->elem, c->rank, c->dims);
    set_contents(v, c, m->dims, m->arena);
    return v;
}

value *value_int64s(graph *g, const char *name, const int64_t *v, int rank1_count) {
    constant *c = constant_new(g->module->arena, DT_I64, 1, (int64_t[]){rank1_count});
    for (int i = 0; i < rank1_count; i++) dtype_store_int(DT_I64, (void *)c->data, i, v[i]);
    return value_constant(g, name, c);
}

value *value_int64(graph *g, int64_t v) {
    constant *c = constant_new(g->module->arena, DT_I64, 0, NULL);
    dtype_store_int(DT_I64, (void *)c->data, 0, v);
    return value_constant(g, NULL, c);
}

value *value_number(graph *g, const char *name, dtype t, double v) {
    constant *c = constant_new(g->module->arena, t, 0, NULL);
    if (dtype_is_float(t)) dtype_store_float(t, (void *)c->data, 0, v, true);
    else dtype_store_int(t, (void *)c->data, 0, (int64_t)v);
    return value_constant(g, name, c);
}

// ---- Uses.

static int add_use(module *m, value *v, use u) {
    VEC_PUSH(m->arena, &v->uses, u);
    return v->uses.n - 1;
}

// Moves the last use into the gap.
static void remove_use(value *v, int at) {
    use last = v->uses.at[--v->uses.n];
    if (at == v->uses.n) return;
    v->uses.at[at] = last;
    if (last.node) last.node->use_at[last.index] = at;
}

static void remove_output_use(value *v, const graph *g, int index) {
    for (int i = 0; i < v->uses.n; i++) {
        use u = v->uses.at[i];
        if (u.node || u.graph != g || u.index != index) continue;
        remove_use(v, i);
        return;
    }
}

void graph_add_output(graph *g, value *v) {
    module *m = g->module;
    VEC_PUSH(m->arena, &g->outputs, v);
    VEC_PUSH(m->arena, &g->output_names, v->name);
    add_use(m, v, (use){.graph = g, .index = g->outputs.n - 1});
}

void graph_set_output(graph *g, int i, value *v) {
    remove_output_use(g->outputs.at[i], g, i);
    g->outputs.at[i] = v;
    add_use(g->module, v, (use){.graph = g, .index = i});
}

void graph_set_noutputs(graph *g, int n) {
    for (int i = n; i < g->outputs.n; i++) remove_output_use(g->outputs.at[i], g, i);
    g->outputs.n = g->output_names.n = n;
}

static module *module_of(const node *n) { return n->graph->module; }

void node_set_in(node *n, int i, value *v) {
    module *m = module_of(n);
    if (i >= n->nin) {
        n->in = RESERVE(m->arena, n->in, n->nin, i + 1);
        n->use_at = RESERVE(m->arena, n->use_at, n->nin, i + 1);
        while (n->nin <= i) n->in[n->nin++] = NULL;
    }
    if (n->in[i]) remove_use(n->in[i], n->use_at[i]);
    n->in[i] = v;
    if (v) n->use_at[i] = add_use(m, v, (use){.node = n, .index = i});
}

void node_set_nin(node *n, int nin) {
    if (nin > n->nin) node_set_in(n, nin - 1, NULL);
    for (int i = nin; i < n->nin; i++) node_set_in(n, i, NULL);
    n->nin = nin;
}

void value_replace(value *old, value *replacement) {
    if (old == replacement) return;
    module *m = old->graph ? old->graph->module : replacement->graph->module;
    for (int i = 0; i < old->uses.n; i++) {
        use u = old->uses.at[i];
        int at = add_use(m, replacement, u);
        if (u.node) u.node->in[u.index] = replacement, u.node->use_at[u.index] = at;
        else u.graph->outputs.at[u.index] = replacement;
    }
    old->uses.n = 0;
}

int value_uses(const value *v) { return v->uses.n; }

// ---- Places of nodes. An insertion or deletion leaves the hints of later nodes a little off.

enum { SEARCH_MOST = 64 };

int node_place(const node *n) {
    const graph *g = n->graph;
    for (int off = 0; off < SEARCH_MOST; off++) {
        int after = n->place_hint + off, before = n->place_hint - off;
        int found = after < g->nodes.n && g->nodes.at[after] == n                    ? after
                    : before >= 0 && before < g->nodes.n && g->nodes.at[before] == n ? before
                                                                                     : -1;
        if (found < 0) continue;
        ((node *)n)->place_hint = found;
        return found;
    }
    for (int i = 0; i < g->nodes.n; i++) g->nodes.at[i]->place_hint = i;
    return n->place_hint;
}

node *node_next(const node *n) {
    int next = node_place(n) + 1;
    return next < n->graph->nodes.n ? n->graph->nodes.at[next] : NULL;
}

static void insert_node(graph *g, node *n, node *before) {
    int place = before ? node_place(before) : g->nodes.n;
    VEC_PUSH(g->module->arena, &g->nodes, n);
    node **at = g->nodes.at + place;
    memmove(at + 1, at, (size_t)(g->nodes.n - 1 - place) * sizeof *at);
    *at = n;
    n->place_hint = place;
    n->graph = g;
}

static void remove_node(node *n) {
    graph *g = n->graph;
    int place = node_place(n);
    node **at = g->nodes.at + place;
    memmove(at, at + 1, (size_t)(g->nodes.n - 1 - place) * sizeof *at);
    g->nodes.n--;
}

// ---- Nodes.

node *node_new(graph *g, node *before, const struct op_def *op, const loc *at, int nin, value *const *in) {
    module *m = g->module;
    node *n = ARENA_NEW(m->arena, node);
    n->id = m->nodes.n;
    n->op = op;
    n->loc = at ? (loc *)at : ARENA_NEW(m->arena, loc);
    VEC_PUSH(m->arena, &m->nodes, n);
    insert_node(g, n, before);
    for (int i = 0; i < nin; i++) node_set_in(n, i, in[i]);
    return n;
}

value *node_output(node *n, int i, const char *name) {
    module *m = module_of(n);
    if (i >= n->nout) {
        n->out = RESERVE(m->arena, n->out, n->nout, i + 1);
        while (n->nout <= i) n->out[n->nout++] = NULL;
    }
    value *v = value_new(n->graph, name);
    v->def = n;
    v->def_index = i;
    n->out[i] = v;
    return v;
}

graph *attr_graph(const attr *a, int i) {
    if (a->kind == ATTR_GRAPH) return i ? NULL : a->graph;
    return a->kind == ATTR_GRAPHS && i < a->n ? a->graphs[i] : NULL;
}

graph *node_region(const node *n, int i) {
    for (int j = 0, before = 0; j < n->nattrs; j++) {
        int own = 0;
        for (; attr_graph(&n->attrs[j], own); own++)
            if (before + own == i) return attr_graph(&n->attrs[j], own);
        before += own;
    }
    return NULL;
}

static int attr_place(const node *n, const char *name) {
    for (int i = 0; i < n->nattrs; i++)
        if (!strcmp(n->attrs[i].name, name)) return i;
    return -1;
}

static void unlink_node(node *n);

// An unowned region must not keep uses of outer values.
static void clear_graph(graph *g) {
    graph_set_noutputs(g, 0);
    while (g->nodes.n) unlink_node(g->nodes.at[g->nodes.n - 1]);
    g->owner = NULL;
}

// Clears the graphs of an attribute that n no longer has, unless another of its attributes has them.
static void drop_regions(const node *n, const attr *old) {
    for (int i = 0; attr_graph(old, i); i++) {
        graph *g = attr_graph(old, i);
        bool held = g->owner != n;
        for (int j = 0; node_region(n, j) && !held; j++) held = node_region(n, j) == g;
        if (!held) clear_graph(g);
    }
}

static void forget_value(value *v, module *m) {
    v->graph = NULL;
    v->def = NULL;
    if (map_get(&m->names, v->name) == v) map_put(&m->names, v->name, NULL);
}

static void unlink_node(node *n) {
    module *m = module_of(n);
    int nattrs = n->nattrs;
    n->nattrs = 0;
    for (int i = 0; i < nattrs; i++) drop_regions(n, &n->attrs[i]);
    for (int i = 0; i < n->nin; i++) node_set_in(n, i, NULL);
    for (int i = 0; i < n->nout; i++)
        if (n->out[i] && n->out[i]->def == n) forget_value(n->out[i], m);
    remove_node(n);
    n->graph = NULL;
}

void node_delete(node *n) {
    if (!n->graph) return;
    for (int i = 0; i < n->nout; i++)
        if (n->out[i] && n->out[i]->def == n && n->out[i]->uses.n)
            diag_defect(module_of(n)->diag, n->loc, "deleted while its output %d is used", i);
    unlink_node(n);
}

void node_drop_output(node *n, int i) {
    module *m = module_of(n);
    if (n->out[i]->uses.n) diag_defect(m->diag, n->loc, "output %d is dropped while it is used", i);
    forget_value(n->out[i], m);
    n->out[i] = NULL;
}

void node_move(node *n, graph *g, node *before) {
    remove_node(n);
    insert_node(g, n, before);
    for (int i = 0; i < n->nout; i++)
        if (n->out[i]) n->out[i]->graph = g;
    for (int i = 0; node_region(n, i); i++) node_region(n, i)->outer = g;
}

static void adopt_constant(value *v, const graph *from, graph *to) {
    if (v && v->constant && v->graph == from) v->graph = to;
}

// Moves the constants of `from` that g reads, where g is `from` or nested in it.
static void adopt_constants(const graph *g, const graph *from, graph *to) {
    for (int i = 0; i < g->outputs.n; i++) adopt_constant(g->outputs.at[i], from, to);
    for (int i = 0; i < g->nodes.n; i++) {
        const node *n = g->nodes.at[i];
        for (int j = 0; j < n->nin; j++) adopt_constant(n->in[j], from, to);
        for (int j = 0; node_region(n, j); j++) adopt_constants(node_region(n, j), from, to);
    }
}

void graph_inline(graph *g, graph *to, node *before) {
    adopt_constants(g, g, to);
    while (g->nodes.n) node_move(g->nodes.at[0], to, before);
}

// ---- Attributes.

void node_adopt_output(node *n, node *from, int i) {
    value *v = from->out[i];
    from->out[i] = NULL;
    n->out = RESERVE(module_of(n)->arena, n->out, n->nout, n->nout + 1);
    v->def = n;
    v->def_index = n->nout;
    n->out[n->nout++] = v;
}

void node_set_attr(node *n, attr a) {
    int i = attr_place(n, a.name);
    attr old = {0};
    if (i < 0) {
        size_t size = (size_t)n->nattrs * sizeof a;
        n->attrs = arena_grow(module_of(n)->arena, n->attrs, size, size + sizeof a);
        i = n->nattrs++;
    } else {
        old = n->attrs[i];
    }
    n->attrs[i] = a;
    for (int k = 0; attr_graph(&a, k); k++) attr_graph(&a, k)->owner = n;
    drop_regions(n, &old);
}

void node_remove_attr(node *n, const char *name) {
    int i = attr_place(n, name);
    if (i < 0) return;
    attr old = n->attrs[i];
    memmove(n->attrs + i, n->attrs + i + 1, (size_t)(n->nattrs - i - 1) * sizeof *n->attrs);
    n->nattrs--;
    drop_regions(n, &old);
}

const attr *node_attr(const node *n, const char *name) {
    int i = attr_place(n, name);
    return i < 0 ? NULL : &n->attrs[i];
}

static const attr *typed_attr(const node *n, const char *name, attr_kind kind, const char *what) {
    const attr *a = node_attr(n, name);
    if (a && a->kind != kind) diag_fatal(module_of(n)->diag, n->loc, "attribute '%s' must be %s", name, what);
    return a;
}

int64_t node_int(const node *n, const char *name, int64_t fallback) {
    const attr *a = typed_attr(n, name, ATTR_INT, "an integer");
    return a ? a->i : fallback;
}

double node_float(const node *n, const char *name, double fallback) {
    const attr *a = typed_attr(n, name, ATTR_FLOAT, "a float");
    return a ? (double)a->f : fallback;
}

const char *node_string(const node *n, const char *name, const char *fallback) {
    const attr *a = typed_attr(n, name, ATTR_STRING, "a string");
    return a ? a->s : fallback;
}

// "a, b or c"
static const char *words_text(arena *a, const char *words) {
    text t = {.arena = a};
    for (const char *w = words; *w; w += strcspn(w, " "), w += *w == ' ') {
        const char *before = w == words ? "" : strchr(w, ' ') ? ", " : " or ";
        text_printf(&t, "%s%.*s", before, (int)strcspn(w, " "), w);
    }
    return text_str(&t);
}

int node_choice(const node *n, const char *name, const char *words) {
    const char *given = node_string(n, name, NULL);
    int i = 0;
    for (const char *w = words; *w; w += *w == ' ', i++) {
        size_t length = strcspn(w, " ");
        if (!given || text_equals(w, length, given)) return i;
        w += length;
    }
    diag_fatal(module_of(n)->diag, n->loc, "attribute '%s' is '%s'; it must be %s", name, given,
               words_text(module_of(n)->arena, words));
}

bool node_flag(const node *n, const char *name, bool fallback) {
    int64_t v = node_int(n, name, fallback);
    if (v != 0 && v != 1)
        diag_fatal(module_of(n)->diag, n->loc, "attribute '%s' is %lld; it must be 0 or 1", name,
                   (long long)v);
    return v == 1;
}

const int64_t *node_ints(const node *n, const char *name, int *count) {
    const attr *a = typed_attr(n, name, ATTR_INTS, "a list of integers");
    *count = a ? a->n : 0;
    return a ? a->ints : NULL;
}

graph *node_graph(const node *n, const char *name) {
    const attr *a = typed_attr(n, name, ATTR_GRAPH, "a graph");
    return a ? a->graph : NULL;
}
