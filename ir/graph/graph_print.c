// The graph as text. In: a module. Out: text that graph_parse reads back to the same text. Contents
// and ids are left out: they are computed anew. Numbers are printed so that no bit is lost.
//   module = "module" string "{" { item } { dim } graph "}"
//   item   = "ir_version" integer | ( "producer" | "doc" ) string | "metadata" string string
//   dim    = "dim" name "in" [ integer ] ".." [ integer ] [ "by" integer ]
//   graph  = "graph" string "(" [ value { "," value } ] ")" "{" { constant } { node } "return" outputs "}"
//   value  = "%" name ":" type [ "doc" string ]
//   constant = "%" name "=" "constant" data [ "doc" string ]
//   data   = type ( "{" elements "}" | "splat" ( element | "hex" string ) | "hex" string )
//   node   = [ result { "," result } "=" ] [ domain "::" ] op "(" [ argument { "," argument } ] ")"
//            [ "{" attribute { "," attribute } "}" ] "at" location          (result, argument: value or "_")
//   attribute = name "=" ( integer | float | string | "[" list "]" | ( "ints" | "floats" | "strings" |
//   "graphs" )
//            "[" list "]" | "tensor" data | graph | "type" type )
//   location  = [ "node" string ] [ "op" string integer ] [ "graph" string ] [ "file" string ] [ "via"
//   location ]
#include "ir/graph/graph.h"
#include "ir/graph/op.h"
#include "ir/graph/syntax.h"
#include <math.h>
#include <string.h>

typedef VEC(const value *) value_list;
typedef struct printer {
    text out;
    const module *m;
    int indent;
    value_list *constants; // by graph id: its used constants, in order of their ids
    named_dims dims;
    void (*see)(void *user, const void *data, size_t size); // gets the data of constants, NULL: they are text
    void *user;
} printer;

static void add(printer *p, const char *s) { text_add(&p->out, s); }
static void add_string(printer *p, const char *s) { text_add_quoted(&p->out, s ? s : "", s ? strlen(s) : 0); }

static void new_line(printer *p) {
    add(p, "\n");
    for (int i = 0; i < p->indent; i++) add(p, "  ");
}

static void add_value_name(printer *p, const value *v) {
    add(p, "%");
    print_name(&p->out, v->name);
}

// ---- Types.

static type simplified_type(printer *p, const type *t) {
    type copy = *t;
    if ((t->kind == TYPE_TENSOR || t->kind == TYPE_SPARSE) && t->rank > 0) {
        copy.dims = ARENA_ARRAY(p->out.arena, dim *, t->rank);
        for (int i = 0; i < t->rank; i++) copy.dims[i] = named_dims_add(&p->dims, t->dims[i]);
    } else if (t->item) {
        copy.item = ARENA_NEW(p->out.arena, type);
        *copy.item = simplified_type(p, t->item);
    }
    return copy;
}

static void add_type(printer *p, const type *t) {
    type copy = simplified_type(p, t);
    add(p, type_text(p->out.arena, &copy));
}

static void add_value(printer *p, const value *v) {
    add_value_name(p, v);
    add(p, ": ");
    add_type(p, &v->type);
    if (v->doc) add(p, " doc "), add_string(p, v->doc);
}

// ---- Numbers.

static void add_float(printer *p, float f) {
    uint32_t bits, plain;
    float nan = signbit(f) ? -NAN : NAN;
    memcpy(&bits, &f, sizeof bits);
    memcpy(&plain, &nan, sizeof plain);
    if (isnan(f) && bits != plain) text_printf(&p->out, "bits:%08x", bits);
    else print_double(&p->out, f, 9);
}

// ---- Constants.

static void show_data(printer *p, const constant *c) {
    bool splat = c->kind == CONST_SPLAT;
    if (c->kind == CONST_STRINGS)
        for (int64_t i = 0; i < c->count; i++) p->see(p->user, c->strings[i], c->string_sizes[i] + 1);
    else p->see(p->user, splat ? c->splat : c->data, (size_t)dtype_size(c->elem, splat ? 1 : c->count));
}

static void add_constant(printer *p, const constant *c) {
    text_printf(&p->out, "%s[", dtype_name(c->elem));
    for (int i = 0; i < c->rank; i++) text_printf(&p->out, "%s%lld", i ? ", " : "", (long long)c->dims[i]);
    add(p, "]");
    if (!p->see) {
        print_data(&p->out, c);
        return;
    }
    if (c->kind == CONST_SPLAT) add(p, " splat");
    show_data(p, c);
}

// ---- Attributes.

static void add_graph(printer *p, const graph *g);

// Long lists are data.
static bool show_list(printer *p, const attr *a) {
    enum { LONG_LIST = 1000 };
    if (!p->see || a->n < LONG_LIST || a->kind == ATTR_GRAPHS) return false;
    text_printf(&p->out, "%s[%d]", attr_list_words[a->kind], a->n);
    if (a->kind == ATTR_INTS) p->see(p->user, a->ints, (size_t)a->n * sizeof *a->ints);
    if (a->kind == ATTR_FLOATS) p->see(p->user, a->floats, (size_t)a->n * sizeof *a->floats);
    for (int i = 0; a->kind == ATTR_STRINGS && i < a->n; i++)
        p->see(p->user, a->strings[i], strlen(a->strings[i]) + 1);
    return true;
}

static void add_attr_list(printer *p, const attr *a) {
    if (a->n == 0) text_printf(&p->out, "%s ", attr_list_words[a->kind]);
    if (show_list(p, a)) return;
    add(p, "[");
    for (int i = 0; i < a->n; i++) {
        if (i) add(p, ", ");
        if (a->kind == ATTR_INTS) text_printf(&p->out, "%lld", (long long)a->ints[i]);
        else if (a->kind == ATTR_FLOATS) add_float(p, a->floats[i]);
        else if (a->kind == ATTR_STRINGS) add_string(p, a->strings[i]);
        else add_graph(p, a->graphs[i]);
    }
    add(p, "]");
}

static void add_attr(printer *p, const attr *a) {
    print_name(&p->out, a->name);
    add(p, " = ");
    switch (a->kind) {
    case ATTR_FLOAT: add_float(p, a->f); break;
    case ATTR_INT: text_printf(&p->out, "%lld", (long long)a->i); break;
    case ATTR_STRING: text_add_quoted(&p->out, a->s, a->size); break;
    case ATTR_TENSOR: add(p, "tensor "), add_constant(p, a->tensor); break;
    case ATTR_GRAPH: add_graph(p, a->graph); break;
    case ATTR_TYPE: add(p, "type "), add_type(p, a->type); break;
    case ATTR_INTS:
    case ATTR_FLOATS:
    case ATTR_STRINGS:
    case ATTR_GRAPHS: add_attr_list(p, a); break;
    case ATTR_NONE: // graph_verify lets none of these pass
    case ATTR_TENSORS:
    case ATTR_SPARSE_TENSOR:
    case ATTR_SPARSE_TENSORS:
    case ATTR_TYPES: break;
    }
}

// ---- Nodes.

static void add_loc(printer *p, const loc *at) {
    if (at->node) add(p, " node "), add_string(p, at->node);
    if (at->op) add(p, " op "), add_string(p, at->op), text_printf(&p->out, " %d", at->version);
    if (at->graph) add(p, " graph "), add_string(p, at->graph);
    bool elsewhere = at->file && (!p->m->file || strcmp(at->file, p->m->file));
    if (elsewhere) add(p, " file "), add_string(p, at->file);
}

static void add_results(printer *p, const node *n) {
    int nout = n->nout;
    while (nout && !n->out[nout - 1]) nout--;
    for (int i = 0; i < nout; i++) {
        if (i) add(p, ", ");
        if (n->out[i]) add_value(p, n->out[i]);
        else add(p, "_");
    }
    if (nout) add(p, " = ");
}

static void add_node(printer *p, const node *n) {
    add_results(p, n);
    if (n->op->domain[0]) text_printf(&p->out, "%s::", n->op->domain);
    text_printf(&p->out, "%s(", n->op->name);
    for (int i = 0; i < n->nin; i++) {
        if (i) add(p, ", ");
        if (n->in[i]) add_value_name(p, n->in[i]);
        else add(p, "_");
    }
    add(p, ")");
    for (int i = 0; i < n->nattrs; i++) {
        add(p, i ? ", " : " {");
        add_attr(p, &n->attrs[i]);
    }
    if (n->nattrs) add(p, "}");
    add(p, " at");
    for (const loc *at = n->loc; at; at = at->via) {
        if (at != n->loc) add(p, " via");
        add_loc(p, at);
    }
}

// ---- Graphs.

static void add_graph_constants(printer *p, const graph *g) {
    for (int i = 0; i < p->constants[g->id].n; i++) {
        const value *v = p->constants[g->id].at[i];
        new_line(p);
        add_value_name(p, v);
        add(p, " = constant ");
        add_constant(p, v->constant);
        if (v->doc) add(p, " doc "), add_string(p, v->doc);
    }
}

static void add_returns(printer *p, const graph *g) {
    new_line(p);
    add(p, "return");
    for (int i = 0; i < g->outputs.n; i++) {
        add(p, i ? ", " : " ");
        add_value_name(p, g->outputs.at[i]);
        const char *name = g->output_names.at[i];
        if (strcmp(name, g->outputs.at[i]->name)) add(p, " as "), add_string(p, name);
    }
}

static void add_graph(printer *p, const graph *g) {
    add(p, "graph ");
    add_string(p, g->name);
    add(p, "(");
    for (int i = 0; i < g->inputs.n; i++) {
        if (i) add(p, ", ");
        add_value(p, g->inputs.at[i]);
        if (g->inputs.at[i]->fallback) add(p, " else "), add_constant(p, g->inputs.at[i]->fallback);
    }
    add(p, ") {");
    p->indent++;
    add_graph_constants(p, g);
    for (int i = 0; i < g->nodes.n; i++) {
        new_line(p);
        add_node(p, g->nodes.at[i]);
    }
    add_returns(p, g);
    p->indent--;
    new_line(p);
    add(p, "}");
}

// ---- What stands before the graph.

static void collect_constants(printer *p) {
    p->constants = ARENA_ARRAY(p->out.arena, value_list, p->m->ngraphs);
    for (int i = 0; i < p->m->values.n; i++) {
        const value *v = p->m->values.at[i];
        if (v->constant && v->graph && v->uses.n) VEC_PUSH(p->out.arena, &p->constants[v->graph->id], v);
    }
}

// The ranges of the dims that the text names.
static void add_dims(printer *p) {
    int n;
    const char **lines = named_dims_lines(&p->dims, &n);
    for (int i = 0; i < n; i++) new_line(p), add(p, lines[i]);
}

static void add_header(printer *p) {
    const module *m = p->m;
    add(p, "module ");
    add_string(p, m->name);
    add(p, " {");
    p->indent = 1;
    new_line(p);
    text_printf(&p->out, "ir_version %d", m->ir_version);
    if (m->producer && m->producer[0]) new_line(p), add(p, "producer "), add_string(p, m->producer);
    if (m->doc && m->doc[0]) new_line(p), add(p, "doc "), add_string(p, m->doc);
    for (int i = 0; i + 1 < m->metadata.n; i += 2) {
        new_line(p);
        add(p, "metadata ");
        add_string(p, m->metadata.at[i]);
        add(p, " ");
        add_string(p, m->metadata.at[i + 1]);
    }
    add_dims(p);
    new_line(p);
}

const char *graph_print(arena *a, const module *m) { return graph_outline(a, m, NULL, NULL); }

const char *graph_outline(arena *a, const module *m, void (*see)(void *user, const void *data, size_t size),
                          void *user) {
    arena *scratch = arena_new();
    printer p = {.out.arena = scratch, .m = m, .indent = 1, .dims.arena = scratch, .see = see, .user = user};
    collect_constants(&p);
    add_graph(&p, m->main);
    text body = p.out;
    p.out = (text){.arena = scratch};
    add_header(&p);
    text result = {.arena = a};
    text_addn(&result, p.out.s, p.out.n);
    text_addn(&result, body.s, body.n);
    text_add(&result, "\n}\n");
    arena_destroy(scratch);
    return text_str(&result);
}
