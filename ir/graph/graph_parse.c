// Reads the text of graph_print (its grammar is there); "//" starts a comment. In: text that anyone may
// have written. Out: a module, or a fatal error with the line.
#include "ir/graph/dim_impl.h"
#include "ir/graph/graph.h"
#include "ir/graph/op.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 200 }; // graphs in graphs, types in types

typedef struct parser {
    module *m;
    const char *start, *s;
    int depth;
} parser;

// ---- Errors and small things.

static _Noreturn void fail_at(const parser *p, const char *s, const char *what) {
    int line = 1;
    for (const char *c = p->start; c < s; c++) line += *c == '\n';
    diag_fatal(p->m->diag, &(loc){.file = p->m->file}, "line %d: %s", line, what);
}

static _Noreturn void fail(const parser *p, const char *what) { fail_at(p, p->s, what); }

static void skip_space(parser *p) {
    for (;;) {
        while (*p->s == ' ' || *p->s == '\n' || *p->s == '\t' || *p->s == '\r') p->s++;
        if (p->s[0] != '/' || p->s[1] != '/') return;
        while (*p->s && *p->s != '\n') p->s++;
    }
}

static bool accept(parser *p, const char *symbol) {
    skip_space(p);
    size_t n = strlen(symbol);
    if (strncmp(p->s, symbol, n)) return false;
    p->s += n;
    return true;
}

static bool in_bare_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("_./-", c));
}

static bool accept_word(parser *p, const char *word) {
    skip_space(p);
    size_t n = strlen(word);
    if (strncmp(p->s, word, n) || in_bare_name(p->s[n])) return false;
    p->s += n;
    return true;
}

static void expect(parser *p, const char *symbol) {
    if (!accept(p, symbol)) fail(p, arena_printf(p->m->arena, "'%s' is expected", symbol));
}

static void expect_word(parser *p, const char *word) {
    if (!accept_word(p, word)) fail(p, arena_printf(p->m->arena, "'%s' is expected", word));
}

static const char *parse_bytes(parser *p, size_t *n) {
    skip_space(p);
    const char *s = text_unquote(p->m->arena, &p->s, n);
    if (!s) fail(p, "a quoted string is expected");
    return s;
}

static const char *parse_string(parser *p) {
    size_t n;
    const char *s = parse_bytes(p, &n);
    if (strlen(s) != n) fail(p, "a NUL is not allowed here");
    return s;
}

static const char *parse_name(parser *p) {
    skip_space(p);
    if (*p->s == '"') return parse_string(p);
    size_t n = 0;
    while (in_bare_name(p->s[n])) n++;
    if (!n) fail(p, "a name is expected");
    p->s += n;
    return arena_strndup(p->m->arena, p->s - n, n);
}

static void enter(parser *p) {
    if (++p->depth > DEEPEST) fail(p, "nested too deeply");
}

// ---- Numbers.

static int64_t parse_int(parser *p) {
    skip_space(p);
    char *end;
    errno = 0;
    long long v = strtoll(p->s, &end, 10);
    if (end == p->s || errno) fail(p, "an integer is expected");
    p->s = end;
    return v;
}

static uint64_t parse_unsigned(parser *p) {
    skip_space(p);
    char *end;
    errno = 0;
    unsigned long long v = strtoull(p->s, &end, 10);
    if (end == p->s || errno || *p->s == '-') fail(p, "an unsigned integer is expected");
    p->s = end;
    return v;
}

static double parse_double(parser *p) {
    bool negative = accept(p, "-");
    double v = 0;
    if (accept_word(p, "nan")) v = NAN;
    else if (accept_word(p, "inf")) v = INFINITY;
    else {
        char *end;
        if (*p->s < '0' || *p->s > '9') fail(p, "a number is expected");
        v = strtod(p->s, &end);
        p->s = end;
    }
    return negative ? -v : v;
}

static float parse_float(parser *p) {
    if (!accept(p, "bits:")) return (float)parse_double(p);
    char *end;
    unsigned long bits = strtoul(p->s, &end, 16);
    if (end != p->s + 8) fail(p, "eight hexadecimal digits are expected");
    p->s = end;
    uint32_t narrow = (uint32_t)bits;
    float f;
    memcpy(&f, &narrow, sizeof f);
    return f;
}

// Whether the number that stands here is written as a float.
static bool at_float(parser *p) {
    skip_space(p);
    const char *s = p->s + (*p->s == '-');
    if (!strncmp(s, "nan", 3) || !strncmp(s, "inf", 3) || !strncmp(s, "bits:", 5)) return true;
    while (*s >= '0' && *s <= '9') s++;
    return *s == '.' || *s == 'e' || *s == 'E' || *s == 'x';
}

// ---- Types.

static dim *parse_dim(parser *p) {
    skip_space(p);
    const char *from = p->s;
    dim *d = dim_parse_at(p->m->dims, &p->s);
    if (!d) fail_at(p, from, "a dim is expected");
    return d;
}

static type parse_shape(parser *p, type_kind kind) {
    const char *name = parse_name(p);
    dtype elem = dtype_from_name(name);
    if (elem == DT_NONE) fail(p, arena_printf(p->m->arena, "'%s' is not an element type", name));
    expect(p, "[");
    dim *dims[MAX_RANK];
    int rank = 0;
    if (accept(p, "...")) rank = RANK_UNKNOWN;
    else
        for (skip_space(p); *p->s != ']'; rank++) {
            if (rank) expect(p, ",");
            if (rank == MAX_RANK) fail(p, "a tensor has too many dims");
            dims[rank] = parse_dim(p);
            skip_space(p);
        }
    expect(p, "]");
    type t = type_tensor(p->m->arena, elem, rank, dims);
    t.kind = kind;
    return t;
}

static type parse_type(parser *p);

static type *parse_item(parser *p) {
    type *item = ARENA_NEW(p->m->arena, type);
    enter(p);
    *item = parse_type(p);
    p->depth--;
    return item;
}

static type parse_type(parser *p) {
    type t = {0};
    if (accept_word(p, "none")) return t;
    if (accept_word(p, "sparse")) {
        expect(p, "(");
        t = parse_shape(p, TYPE_SPARSE);
    } else if (accept_word(p, "sequence") || accept_word(p, "optional")) {
        t.kind = p->s[-1] == 'e' ? TYPE_SEQUENCE : TYPE_OPTIONAL;
        expect(p, "(");
        t.item = parse_item(p);
    } else if (accept_word(p, "map")) {
        t.kind = TYPE_MAP;
        expect(p, "(");
        t.elem = dtype_from_name(parse_name(p));
        if (t.elem == DT_NONE) fail(p, "a map needs an element type as key");
        expect(p, ",");
        t.item = parse_item(p);
    } else {
        return parse_shape(p, TYPE_TENSOR);
    }
    expect(p, ")");
    return t;
}

// ---- Constants.

typedef union number {
    double f;
    int64_t i;
} number;

static number parse_element(parser *p, dtype t) {
    number v = {0};
    if (dtype_is_float(t)) v.f = parse_double(p);
    else if (t == DT_U64) v.i = (int64_t)parse_unsigned(p);
    else v.i = parse_int(p);
    bool fits = dtype_is_float(t) || t == DT_U64 || (v.i >= dtype_int_min(t) && v.i <= dtype_int_max(t));
    if (!fits) fail(p, "the number does not fit its element type");
    return v;
}

static void store(dtype t, void *data, int64_t i, number v) {
    if (dtype_is_float(t)) dtype_store_float(t, data, i, v.f, false);
    else dtype_store_int(t, data, i, v.i);
}

static void check_count(parser *p, int64_t have, int64_t want) {
    if (have == want) return;
    fail(p, arena_printf(p->m->arena, "%lld elements or bytes are given instead of %lld", (long long)have,
                         (long long)want));
}

static int nibble(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static const uint8_t *parse_hex(parser *p, int64_t want) {
    expect(p, "\"");
    size_t n = strspn(p->s, "0123456789abcdef");
    check_count(p, (int64_t)n / 2, want);
    uint8_t *bytes = arena_alloc(p->m->arena, n / 2);
    for (size_t i = 0; i < n / 2; i++)
        bytes[i] = (uint8_t)(nibble(p->s[2 * i]) << 4 | nibble(p->s[2 * i + 1]));
    p->s += n / 2 * 2;
    expect(p, "\"");
    return bytes;
}

static constant *parse_strings(parser *p, int64_t count, int rank, const int64_t *dims) {
    VEC(const char *) strings = {0};
    VEC(size_t) sizes = {0};
    while (!accept(p, "}")) {
        size_t n;
        if (strings.n) expect(p, ",");
        VEC_PUSH(p->m->arena, &strings, parse_bytes(p, &n));
        VEC_PUSH(p->m->arena, &sizes, n);
    }
    check_count(p, strings.n, count);
    constant *c = constant_new(p->m->arena, DT_STRING, rank, dims);
    if (!count) return c;
    c->strings = strings.at;
    c->string_sizes = sizes.at;
    return c;
}

static constant *parse_list(parser *p, dtype t, int64_t count, int rank, const int64_t *dims) {
    VEC(number) list = {0};
    while (!accept(p, "}")) {
        if (list.n) expect(p, ",");
        VEC_PUSH(p->m->arena, &list, parse_element(p, t));
    }
    check_count(p, list.n, count);
    constant *c = constant_new(p->m->arena, t, rank, dims);
    for (int i = 0; i < list.n; i++) store(t, (void *)c->data, i, list.at[i]);
    return c;
}

static constant *parse_splat(parser *p, dtype t, int rank, const int64_t *dims) {
    uint8_t element[16] = {0};
    int64_t size = dtype_size(t, 1);
    if (accept_word(p, "hex")) memcpy(element, parse_hex(p, size), (size_t)size);
    else if (dtype_class_of(t) == DC_COMPLEX) fail(p, "complex elements are written as hex");
    else store(t, element, 0, parse_element(p, t));
    return constant_splat(p->m->arena, t, rank, dims, element);
}

// Fills dims, which must be constant.
static int64_t count_elements(parser *p, const type *t, int64_t *dims) {
    int64_t count = 1;
    bool empty = false, overflow = t->rank < 0;
    for (int i = 0; i < t->rank; i++) {
        if (!dim_is_const(t->dims[i]) || dim_value(t->dims[i]) < 0) fail(p, "a constant needs constant dims");
        dims[i] = dim_value(t->dims[i]);
        if (dims[i] == 0) empty = true;
        else overflow |= __builtin_mul_overflow(count, dims[i], &count);
    }
    if (empty) return 0;
    if (overflow || dtype_size(t->elem, count) < 0) fail(p, "a constant is too large");
    return count;
}

static constant *parse_constant(parser *p) {
    type t = parse_shape(p, TYPE_TENSOR);
    int64_t dims[MAX_RANK] = {0}, count = count_elements(p, &t, dims);
    if (accept(p, "{"))
        return t.elem == DT_STRING ? parse_strings(p, count, t.rank, dims)
                                   : parse_list(p, t.elem, count, t.rank, dims);
    if (t.elem == DT_STRING) fail(p, "string constants are lists");
    if (accept_word(p, "splat")) return parse_splat(p, t.elem, t.rank, dims);
    expect_word(p, "hex");
    const uint8_t *bytes = parse_hex(p, dtype_size(t.elem, count));
    constant *c = constant_splat(p->m->arena, t.elem, t.rank, dims, (uint8_t[16]){0});
    c->kind = CONST_BYTES;
    c->data = bytes;
    return c;
}

// ---- Values.

static bool sees(const graph *g, const graph *scope) {
    while (g && g != scope) g = g->outer;
    return g != NULL;
}

static value *parse_read(parser *p, const graph *g) {
    expect(p, "%");
    const char *name = parse_name(p);
    value *v = map_get(&p->m->names, name);
    if (!v || !sees(g, v->graph)) fail(p, arena_printf(p->m->arena, "'%s' is not defined here", name));
    return v;
}

static void check_fresh(parser *p, const char *name) {
    if (map_get(&p->m->names, name)) fail(p, arena_printf(p->m->arena, "'%s' is defined twice", name));
}

static const char *parse_doc(parser *p) { return accept_word(p, "doc") ? parse_string(p) : NULL; }

// ---- Attributes.

static graph *parse_graph(parser *p, graph *outer, node *owner);

static attr parse_list_attr(parser *p, node *n, attr_kind kind) {
    arena *a = p->m->arena;
    VEC(int64_t) ints = {0};
    VEC(float) floats = {0};
    VEC(const char *) strings = {0};
    VEC(graph *) graphs = {0};
    attr result = {.kind = kind};
    expect(p, "[");
    for (; !accept(p, "]"); result.n++) {
        if (result.n) expect(p, ",");
        skip_space(p);
        // The first element tells the kind when no word has.
        if (!result.kind)
            result.kind = *p->s == '"'   ? ATTR_STRINGS
                          : *p->s == 'g' ? ATTR_GRAPHS
                          : at_float(p)  ? ATTR_FLOATS
                                         : ATTR_INTS;
        if (result.kind == ATTR_INTS) VEC_PUSH(a, &ints, parse_int(p));
        else if (result.kind == ATTR_FLOATS) VEC_PUSH(a, &floats, parse_float(p));
        else if (result.kind == ATTR_STRINGS) VEC_PUSH(a, &strings, parse_string(p));
        else VEC_PUSH(a, &graphs, parse_graph(p, n->graph, n));
    }
    if (!result.kind) fail(p, "an empty list needs its kind: ints, floats, strings or graphs");
    if (result.kind == ATTR_INTS) result.ints = ints.at;
    else if (result.kind == ATTR_FLOATS) result.floats = floats.at;
    else if (result.kind == ATTR_STRINGS) result.strings = strings.at;
    else result.graphs = graphs.at;
    return result;
}

static attr parse_attr_value(parser *p, node *n) {
    attr a = {.kind = ATTR_INT};
    skip_space(p);
    if (*p->s == '"') {
        a.kind = ATTR_STRING;
        a.s = parse_bytes(p, &a.size);
    } else if (*p->s == '[') {
        a = parse_list_attr(p, n, ATTR_NONE);
    } else if (at_float(p)) {
        a.kind = ATTR_FLOAT;
        a.f = parse_float(p);
    } else if (accept_word(p, "ints")) {
        a = parse_list_attr(p, n, ATTR_INTS);
    } else if (accept_word(p, "floats")) {
        a = parse_list_attr(p, n, ATTR_FLOATS);
    } else if (accept_word(p, "strings")) {
        a = parse_list_attr(p, n, ATTR_STRINGS);
    } else if (accept_word(p, "graphs")) {
        a = parse_list_attr(p, n, ATTR_GRAPHS);
    } else if (accept_word(p, "tensor")) {
        a.kind = ATTR_TENSOR;
        a.tensor = parse_constant(p);
    } else if (accept_word(p, "type")) {
        a.kind = ATTR_TYPE;
        a.type = parse_item(p);
    } else if (*p->s == 'g') {
        a.kind = ATTR_GRAPH;
        a.graph = parse_graph(p, n->graph, n);
    } else {
        a.i = parse_int(p);
    }
    return a;
}

static void parse_attrs(parser *p, node *n) {
    if (!accept(p, "{")) return;
    do {
        const char *name = parse_name(p);
        if (node_attr(n, name)) fail(p, arena_printf(p->m->arena, "attribute '%s' is given twice", name));
        expect(p, "=");
        attr a = parse_attr_value(p, n);
        a.name = name;
        node_set_attr(n, a);
    } while (accept(p, ","));
    expect(p, "}");
}

// ---- Nodes.

static loc *parse_loc(parser *p) {
    loc *first = ARENA_NEW(p->m->arena, loc), *at = first;
    for (;;) {
        at->file = p->m->file;
        if (accept_word(p, "node")) at->node = parse_string(p);
        if (accept_word(p, "op")) {
            at->op = parse_string(p);
            at->version = (int)parse_int(p);
        }
        if (accept_word(p, "graph")) at->graph = parse_string(p);
        if (accept_word(p, "file")) at->file = parse_string(p);
        if (!accept_word(p, "via")) return first;
        loc *via = ARENA_NEW(p->m->arena, loc);
        at->via = via;
        at = via;
    }
}

// [domain::]Name
static const op_def *parse_op(parser *p) {
    const char *name = parse_name(p), *domain = "";
    if (accept(p, "::")) {
        domain = name;
        name = parse_name(p);
    }
    const op_def *op = op_find(domain, name);
    if (!op) fail(p, arena_printf(p->m->arena, "operator '%s' is unknown", name));
    return op;
}

typedef struct result {
    const char *name; // NULL: not wanted
    const char *doc;
    type type;
} result;
typedef VEC(result) results;

static void parse_arguments(parser *p, node *n) {
    expect(p, "(");
    for (int i = 0; !accept(p, ")"); i++) {
        if (i) expect(p, ",");
        node_set_in(n, i, accept_word(p, "_") ? NULL : parse_read(p, n->graph));
    }
}

static void parse_node(parser *p, graph *g, const results *outs) {
    node *n = node_new(g, NULL, parse_op(p), NULL, 0, NULL);
    parse_arguments(p, n);
    parse_attrs(p, n);
    expect_word(p, "at");
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

static void parse_graph_constant(parser *p, graph *g, const char *name) {
    expect_word(p, "constant");
    check_fresh(p, name);
    value *v = value_constant(g, name, parse_constant(p));
    v->doc = parse_doc(p);
}

static result parse_result(parser *p, const char *name) {
    result r = {.name = name};
    expect(p, ":");
    r.type = parse_type(p);
    r.doc = parse_doc(p);
    return r;
}

// A constant or a node.
static void parse_statement(parser *p, graph *g) {
    results outs = {0};
    bool more = true;
    for (skip_space(p); more; more = accept(p, ",")) {
        if (accept_word(p, "_")) {
            VEC_PUSH(p->m->arena, &outs, (result){0});
        } else if (accept(p, "%")) {
            const char *name = parse_name(p);
            if (!outs.n && accept(p, "=")) {
                parse_graph_constant(p, g, name);
                return;
            }
            VEC_PUSH(p->m->arena, &outs, parse_result(p, name));
        } else if (outs.n) {
            fail(p, "a result is expected");
        }
    }
    if (outs.n) expect(p, "=");
    parse_node(p, g, &outs);
}

// ---- Graphs and the module.

static void parse_inputs(parser *p, graph *g) {
    expect(p, "(");
    while (!accept(p, ")")) {
        if (g->inputs.n) expect(p, ",");
        expect(p, "%");
        const char *name = parse_name(p);
        check_fresh(p, name);
        expect(p, ":");
        value *v = graph_add_input(g, name, parse_type(p));
        v->doc = parse_doc(p);
        if (accept_word(p, "else")) v->fallback = parse_constant(p);
    }
}

static void parse_outputs(parser *p, graph *g) {
    for (skip_space(p); *p->s != '}'; skip_space(p)) {
        if (g->outputs.n) expect(p, ",");
        graph_add_output(g, parse_read(p, g));
        if (accept_word(p, "as")) g->output_names.at[g->outputs.n - 1] = parse_string(p);
    }
}

static graph *parse_graph(parser *p, graph *outer, node *owner) {
    enter(p);
    expect_word(p, "graph");
    graph *g = graph_new(p->m, outer, parse_string(p));
    g->owner = owner;
    parse_inputs(p, g);
    expect(p, "{");
    while (!accept_word(p, "return")) parse_statement(p, g);
    parse_outputs(p, g);
    expect(p, "}");
    p->depth--;
    return g;
}

static bool at_end_of_number(parser *p) {
    skip_space(p);
    return *p->s != '-' && (*p->s < '0' || *p->s > '9');
}

static void parse_dim_declaration(parser *p) {
    dim *d = parse_dim(p);
    if (d->kind != DIM_SYMBOL && d->kind != DIM_OPAQUE) fail(p, "the name of a dim is expected");
    expect_word(p, "in");
    int64_t lo = accept(p, "..") ? INT64_MIN : parse_int(p);
    if (lo != INT64_MIN) expect(p, "..");
    int64_t hi = at_end_of_number(p) ? INT64_MAX : parse_int(p);
    int64_t by = accept_word(p, "by") ? parse_int(p) : 1;
    if (lo > hi || by < 1) fail(p, "the range of a dim is empty");
    dim_bound(d, lo, hi, by);
}

static void parse_header(parser *p) {
    module *m = p->m;
    for (;;) {
        if (accept_word(p, "ir_version")) m->ir_version = (int)parse_int(p);
        else if (accept_word(p, "producer")) m->producer = parse_string(p);
        else if (accept_word(p, "doc")) m->doc = parse_string(p);
        else if (accept_word(p, "dim")) parse_dim_declaration(p);
        else if (accept_word(p, "metadata")) {
            VEC_PUSH(m->arena, &m->metadata, parse_string(p));
            VEC_PUSH(m->arena, &m->metadata, parse_string(p));
        } else {
            return;
        }
    }
}

module *graph_parse(arena *a, diag *d, const char *file, const char *text) {
    parser p = {.m = module_new(a, d, file), .start = text, .s = text};
    expect_word(&p, "module");
    p.m->name = parse_string(&p);
    expect(&p, "{");
    parse_header(&p);
    parse_graph(&p, NULL, NULL);
    expect(&p, "}");
    skip_space(&p);
    if (*p.s) fail(&p, "the text goes on after its end");
    return p.m;
}
