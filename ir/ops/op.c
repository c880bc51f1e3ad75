// The operators of this build, from the list in ir/ops/list.h. Lookup is a linear search; the import caches
// the results. Also the helpers with which upgrades and expansions build nodes.
#include "ir/graph/op.h"
#include <string.h>

#define OP(symbol) extern const op_def op_##symbol;
#include "ir/ops/list.h"
#undef OP

static const op_def *const list[] = {
#define OP(symbol) &op_##symbol,
#include "ir/ops/list.h"
#undef OP
    NULL, // an empty list is legal too
};

enum { COUNT = sizeof list / sizeof *list - 1 };

int op_count(void) { return COUNT; }

const op_def *op_at(int i) { return list[i]; }

const op_def *op_find(const char *domain, const char *name) {
    for (const op_def *const *op = list; *op; op++)
        if (strcmp((*op)->name, name) == 0 && strcmp((*op)->domain, domain) == 0) return *op;
    return NULL;
}

// ---- Defaults of attributes

// Decimal text of at most 9 digits, exactly rounded: such a mantissa and 10^0..10^22 are exact doubles.
// (strtod would read it in the caller's locale.)
static double parse_decimal(const char **p) {
    bool negative = **p == '-';
    const char *s = *p + negative;
    int64_t digits = 0;
    int exponent = 0, written = 0, sign = 1;
    for (bool point = false; (*s >= '0' && *s <= '9') || *s == '.'; s++) {
        if (*s == '.') point = true;
        else digits = digits * 10 + (*s - '0'), exponent -= point;
    }
    if (*s == 'e') {
        s++;
        if (*s == '-' || *s == '+') sign = *s++ == '-' ? -1 : 1;
        while (*s >= '0' && *s <= '9') written = written * 10 + (*s++ - '0');
    }
    exponent += sign * written;
    double scale = 1;
    for (int i = exponent < 0 ? -exponent : exponent; i > 0; i--) scale *= 10;
    double v = exponent < 0 ? (double)digits / scale : (double)digits * scale;
    *p = s;
    return negative ? -v : v;
}

static int count_items(const char *s, char separator) {
    int n = *s != 0;
    for (; *s; s++) n += *s == separator;
    return n;
}

static void parse_numbers(arena *a, attr *t, const char *s) {
    t->n = count_items(s, ' ');
    if (t->kind == ATTR_INTS) t->ints = ARENA_ARRAY(a, int64_t, t->n);
    else t->floats = ARENA_ARRAY(a, float, t->n);
    for (int i = 0; i < t->n; i++, s += *s == ' ') {
        double v = parse_decimal(&s);
        if (t->kind == ATTR_INTS) t->ints[i] = (int64_t)v;
        else t->floats[i] = (float)v;
    }
}

static void parse_strings(arena *a, attr *t, const char *s) {
    t->n = count_items(s, '\n');
    t->strings = ARENA_ARRAY(a, const char *, t->n);
    for (int i = 0; i < t->n; i++) {
        size_t size = strcspn(s, "\n");
        t->strings[i] = arena_strndup(a, s, size);
        s += size + (s[size] == '\n');
    }
}

static attr parse_default(node *n, const schema_attr *a) {
    arena *mem = n->graph->module->arena;
    attr t = {.name = a->name, .kind = (attr_kind)a->kind};
    const char *s = a->def;
    switch (t.kind) {
    case ATTR_FLOAT: t.f = (float)parse_decimal(&s); return t;
    case ATTR_INT: t.i = (int64_t)parse_decimal(&s); return t;
    case ATTR_STRING: t.s = a->def, t.size = strlen(a->def); return t;
    case ATTR_FLOATS:
    case ATTR_INTS: parse_numbers(mem, &t, s); return t;
    case ATTR_STRINGS: parse_strings(mem, &t, s); return t;
    case ATTR_NONE:
    case ATTR_TENSOR:
    case ATTR_GRAPH:
    case ATTR_TENSORS:
    case ATTR_GRAPHS:
    case ATTR_SPARSE_TENSOR:
    case ATTR_SPARSE_TENSORS:
    case ATTR_TYPE:
    case ATTR_TYPES: break;
    }
    diag_defect(n->graph->module->diag, n->loc, "attribute '%s' has a default of kind %d", a->name, a->kind);
}

void node_fill_defaults(node *n, const schema_version *v) {
    for (int i = 0; i < v->nattrs; i++)
        if (v->attrs[i].def && !node_attr(n, v->attrs[i].name))
            node_set_attr(n, parse_default(n, &v->attrs[i]));
}

// ---- New nodes beside n

static node *make(graph *g, node *before, const node *at, const char *name, int nin, value *const *in) {
    const char *colon = strchr(name, ':');
    const char *domain = colon ? arena_strndup(g->module->arena, name, (size_t)(colon - name)) : "";
    if (colon) name = colon + 1;
    const op_def *op = op_find(domain, name);
    if (!op)
        diag_fatal_missing(g->module->diag, at->loc,
                           "operator %s, which this node expands to, is not supported", name);
    node *made = node_new(g, before, op, at->loc, nin, in);
    const schema_op *s = schema_find(domain, name);
    if (s) node_fill_defaults(made, &s->versions[s->nversions - 1]);
    return made;
}

value *insert_before(node *n, const char *op, int nin, value *const *in, node **made) {
    node *fresh = make(n->graph, n, n, op, nin, in);
    if (made) *made = fresh;
    return node_output(fresh, 0, NULL);
}

value *insert_constant(node *n, constant *c) { return value_constant(n->graph, NULL, c); }

value *insert_ints(node *n, const int64_t *v, int count) {
    if (count < 0) infer_error(n, "an input has %d axes too few", -count);
    return value_int64s(n->graph, NULL, v, count);
}

static constant *numbers(arena *a, dtype t, int rank, int64_t n, const void *data) {
    constant *c = constant_new(a, t, rank, &n);
    if (n) memcpy((void *)c->data, data, (size_t)dtype_size(t, n));
    return c;
}

constant *attr_numbers(arena *a, const attr *t) {
    if (t->kind == ATTR_FLOAT) return numbers(a, DT_F32, 0, 1, &t->f);
    if (t->kind == ATTR_INT) return numbers(a, DT_I64, 0, 1, &t->i);
    if (t->kind == ATTR_FLOATS) return numbers(a, DT_F32, 1, t->n, t->floats);
    return t->kind == ATTR_INTS ? numbers(a, DT_I64, 1, t->n, t->ints) : NULL;
}

value *insert_scalar(node *n, dtype t, double v) { return value_number(n->graph, NULL, t, v); }

// Makes v output `out` of n, in place of the value there. Users of v, and lookups of its name, need no
// update.
static void move_value(value *v, node *n, int out) {
    n->out[out] = v;
    v->def = n;
    v->def_index = out;
}

static void forget(value *v) {
    v->def = NULL;
    v->graph = NULL;
}

node *insert_after(node *n, int i, const char *op, int nin, value *const *more_in) {
    arena *a = n->graph->module->arena;
    value *old = n->out[i], *inner = node_output(n, i, NULL);
    inner->type = old->type;
    value **in = ARENA_ARRAY(a, value *, nin + 1);
    in[0] = inner;
    for (int k = 0; k < nin; k++) in[k + 1] = more_in[k];
    node *made = make(n->graph, node_next(n), n, op, nin + 1, in);
    forget(node_output(made, 0, NULL));
    old->type = (type){0};
    old->contents = NULL;
    move_value(old, made, 0);
    return made;
}

void replace_output(node *n, int i, value *v) {
    value *old = n->out[i];
    if (!old || old == v) return;
    bool fresh = v->def && v->def->graph == n->graph && v->def->id > n->id;
    if (!fresh) {
        node *copy = make(n->graph, node_next(n), n, "Identity", 1, &v);
        v = node_output(copy, 0, NULL);
    }
    value_replace(v, old);
    if (v->type.kind != TYPE_NONE) old->type = v->type;
    old->contents = v->contents;
    old->ncontents = v->ncontents;
    node_output(n, i, NULL);
    move_value(old, v->def, v->def_index);
    forget(v);
}

value *value_table(const value *v, const constant **labels) {
    const node *n = v->def;
    if (!n || !n->op->map_keys || v->def_index != 0 || !n->in[0]) return NULL;
    *labels = n->op->map_keys(n);
    return n->in[0];
}
