// Reads the text of graph_print (its grammar is there); "//" starts a comment. In: text that anyone may
// have written. Out: a module, or a fatal error with the line.
#include "ir/graph/graph.h"
#include "ir/graph/op.h"
#include "ir/graph/syntax.h"
#include <string.h>

// ---- Values.

static value *parse_read(reader *p, const graph *g) {
    reader_expect(p, "%");
    const char *name = reader_name(p);
    value *v = map_get(&p->m->names, name);
    if (!v || !graph_sees(g, v->graph)) reader_fail(p, "'%s' is not defined here", name);
    return v;
}

static void check_fresh(reader *p, const char *name) {
    if (map_get(&p->m->names, name)) reader_fail(p, "'%s' is defined twice", name);
}

static const char *parse_doc(reader *p) { return reader_accept_word(p, "doc") ? reader_string(p) : NULL; }

// ---- Attributes.

static graph *parse_graph(reader *p, graph *outer, node *owner);

static attr parse_list_attr(reader *p, node *n, attr_kind kind) {
    arena *a = p->m->arena;
    VEC(int64_t) ints = {0};
    VEC(float) floats = {0};
    VEC(const char *) strings = {0};
    VEC(graph *) graphs = {0};
    attr result = {.kind = kind};
    reader_expect(p, "[");
    for (; !reader_accept(p, "]"); result.n++) {
        if (result.n) reader_expect(p, ",");
        reader_skip(p);
        // The first element determines the kind if no word has.
        if (!result.kind)
            result.kind = *p->s == '"'         ? ATTR_STRINGS
                          : *p->s == 'g'       ? ATTR_GRAPHS
                          : reader_at_float(p) ? ATTR_FLOATS
                                               : ATTR_INTS;
        if (result.kind == ATTR_INTS) VEC_PUSH(a, &ints, reader_int(p));
        else if (result.kind == ATTR_FLOATS) VEC_PUSH(a, &floats, reader_float(p));
        else if (result.kind == ATTR_STRINGS) VEC_PUSH(a, &strings, reader_string(p));
        else VEC_PUSH(a, &graphs, parse_graph(p, n->graph, n));
    }
    if (!result.kind) reader_fail(p, "an empty list needs its kind: ints, floats, strings or graphs");
    if (result.kind == ATTR_INTS) result.ints = ints.at;
    else if (result.kind == ATTR_FLOATS) result.floats = floats.at;
    else if (result.kind == ATTR_STRINGS) result.strings = strings.at;
    else result.graphs = graphs.at;
    return result;
}

static attr_kind accept_list_word(reader *p) {
    for (int kind = 0; kind <= ATTR_TYPES; kind++)
        if (attr_list_words[kind] && reader_accept_word(p, attr_list_words[kind])) return kind;
    return ATTR_NONE;
}

static attr parse_attr_value(reader *p, node *n) {
    attr a = {.kind = ATTR_INT};
    attr_kind list;
    reader_skip(p);
    if (*p->s == '"') {
        a.kind = ATTR_STRING;
        a.s = reader_bytes(p, &a.size);
    } else if (*p->s == '[') {
        a = parse_list_attr(p, n, ATTR_NONE);
    } else if (reader_at_float(p)) {
        a.kind = ATTR_FLOAT;
        a.f = reader_float(p);
    } else if ((list = accept_list_word(p)) != ATTR_NONE) {
        a = parse_list_attr(p, n, list);
    } else if (reader_accept_word(p, "tensor")) {
        a.kind = ATTR_TENSOR;
        a.tensor = reader_constant(p);
    } else if (reader_accept_word(p, "type")) {
        a.kind = ATTR_TYPE;
        a.type = reader_new_type(p);
    } else if (*p->s == 'g') {
        a.kind = ATTR_GRAPH;
        a.graph = parse_graph(p, n->graph, n);
    } else {
        a.i = reader_int(p);
    }
    return a;
}

static void parse_attrs(reader *p, node *n) {
    if (!reader_accept(p, "{")) return;
    do {
        const char *name = reader_name(p);
        if (node_attr(n, name)) reader_fail(p, "attribute '%s' is given twice", name);
        reader_expect(p, "=");
        attr a = parse_attr_value(p, n);
        a.name = name;
        node_set_attr(n, a);
    } while (reader_accept(p, ","));
    reader_expect(p, "}");
}

// ---- Nodes.

static loc *parse_loc(reader *p) {
    loc *first = ARENA_NEW(p->m->arena, loc), *at = first;
    for (;;) {
        at->file = p->m->file;
        if (reader_accept_word(p, "node")) at->node = reader_string(p);
        if (reader_accept_word(p, "op")) {
            at->op = reader_string(p);
            at->version = (int)reader_int(p);
        }
        if (reader_accept_word(p, "graph")) at->graph = reader_string(p);
        if (reader_accept_word(p, "file")) at->file = reader_string(p);
        if (!reader_accept_word(p, "via")) return first;
        loc *via = ARENA_NEW(p->m->arena, loc);
        at->via = via;
        at = via;
    }
}

// [domain::]Name
static const op_def *parse_op(reader *p) {
    const char *name = reader_name(p), *domain = "";
    if (reader_accept(p, "::")) {
        domain = name;
        name = reader_name(p);
    }
    const op_def *op = op_find(domain, name);
    if (!op) reader_fail(p, "operator '%s' is unknown", name);
    return op;
}

typedef struct result {
    const char *name; // NULL: not wanted
    const char *doc;
    type type;
} result;
typedef VEC(result) results;

static void parse_arguments(reader *p, node *n) {
    reader_expect(p, "(");
    for (int i = 0; !reader_accept(p, ")"); i++) {
        if (i) reader_expect(p, ",");
        node_set_in(n, i, reader_accept_word(p, "_") ? NULL : parse_read(p, n->graph));
    }
}

static void parse_node(reader *p, graph *g, const results *outs) {
    node *n = node_new(g, NULL, parse_op(p), NULL, 0, NULL);
    parse_arguments(p, n);
    parse_attrs(p, n);
    reader_expect_word(p, "at");
    n->loc = parse_loc(p);
    for (int i = 0; i < outs->n; i++) {
        const result *r = &outs->at[i];
        if (!r->name) continue;
        check_fresh(p, r->name);
        value *v = node_output(n, i, r->name);
        v->type = r->type;
        v->doc = r->doc;
    }
}

static void parse_graph_constant(reader *p, graph *g, const char *name) {
    reader_expect_word(p, "constant");
    check_fresh(p, name);
    value *v = value_constant(g, name, reader_constant(p));
    v->doc = parse_doc(p);
}

static result parse_result(reader *p, const char *name) {
    result r = {.name = name};
    reader_expect(p, ":");
    r.type = reader_type(p);
    r.doc = parse_doc(p);
    return r;
}

// A constant or a node.
static void parse_statement(reader *p, graph *g) {
    results outs = {0};
    bool more = true;
    for (reader_skip(p); more; more = reader_accept(p, ",")) {
        if (reader_accept_word(p, "_")) {
            VEC_PUSH(p->m->arena, &outs, (result){0});
        } else if (reader_accept(p, "%")) {
            const char *name = reader_name(p);
            if (!outs.n && reader_accept(p, "=")) {
                parse_graph_constant(p, g, name);
                return;
            }
            VEC_PUSH(p->m->arena, &outs, parse_result(p, name));
        } else if (outs.n) {
            reader_fail(p, "expected a result");
        }
    }
    if (outs.n) reader_expect(p, "=");
    parse_node(p, g, &outs);
}

// ---- Graphs and the module.

static void parse_inputs(reader *p, graph *g) {
    reader_expect(p, "(");
    while (!reader_accept(p, ")")) {
        if (g->inputs.n) reader_expect(p, ",");
        reader_expect(p, "%");
        const char *name = reader_name(p);
        check_fresh(p, name);
        reader_expect(p, ":");
        value *v = graph_add_input(g, name, reader_type(p));
        v->doc = parse_doc(p);
        if (reader_accept_word(p, "else")) v->fallback = reader_constant(p);
    }
}

static void parse_outputs(reader *p, graph *g) {
    for (reader_skip(p); *p->s != '}'; reader_skip(p)) {
        if (g->outputs.n) reader_expect(p, ",");
        graph_add_output(g, parse_read(p, g));
        if (reader_accept_word(p, "as")) g->output_names.at[g->outputs.n - 1] = reader_string(p);
    }
}

static graph *parse_graph(reader *p, graph *outer, node *owner) {
    reader_enter(p);
    reader_expect_word(p, "graph");
    graph *g = graph_new(p->m, outer, reader_string(p));
    g->owner = owner;
    parse_inputs(p, g);
    reader_expect(p, "{");
    while (!reader_accept_word(p, "return")) parse_statement(p, g);
    parse_outputs(p, g);
    reader_expect(p, "}");
    p->depth--;
    return g;
}

static void parse_header(reader *p) {
    module *m = p->m;
    for (;;) {
        if (reader_accept_word(p, "ir_version")) m->ir_version = (int)reader_int(p);
        else if (reader_accept_word(p, "producer")) m->producer = reader_string(p);
        else if (reader_accept_word(p, "doc")) m->doc = reader_string(p);
        else if (reader_accept_word(p, "dim")) reader_dim_declaration(p);
        else if (reader_accept_word(p, "metadata")) {
            VEC_PUSH(m->arena, &m->metadata, reader_string(p));
            VEC_PUSH(m->arena, &m->metadata, reader_string(p));
        } else {
            return;
        }
    }
}

module *graph_parse(arena *a, diag *d, const char *file, const char *text) {
    reader p = {.m = module_new(a, d, file), .start = text, .s = text};
    reader_expect_word(&p, "module");
    p.m->name = reader_string(&p);
    reader_expect(&p, "{");
    parse_header(&p);
    parse_graph(&p, NULL, NULL);
    reader_expect(&p, "}");
    reader_skip(&p);
    if (*p.s) reader_fail(&p, "unexpected text after the end");
    return p.m;
}
