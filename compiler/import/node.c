// Imports a NodeProto: checks it against the version of its operator in the file, adds default attributes,
// and upgrades it to the newest version.
#include "compiler/import/impl.h"
#include "ir/graph/absent.h"
#include <limits.h>
#include <strings.h>

// ---- Versions

const char *domain_of(const char *s) {
    if (!s || strcmp(s, "ai.onnx") == 0) return "";
    if (strcmp(s, "onnx.brevitas") == 0 || strcmp(s, "finn.custom_op.general") == 0)
        return "qonnx.custom_op.general";
    if (strcmp(s, "trt") == 0 || strcmp(s, "trt.plugins") == 0) return "TRT";
    return s;
}

// Version of the operator set of that domain; 0: not imported.
static int64_t opset_version(const body *b, const char *domain) {
    for (size_t i = 0; i < b->nopsets; i++)
        if (strcmp(domain_of(b->opsets[i]->domain), domain) == 0) return b->opsets[i]->version;
    return 0;
}

static const char *domain_name(const char *domain) { return *domain ? domain : "ai.onnx"; }

// Nobody means an operator by a longer name.
static void hint_custom(importer *im, const char *domain, const char *name) {
    enum { LONGEST = 200 };
    if (strlen(name) > LONGEST) return;
    diag_hint(im->diag,
              "a function of the model may define it, or a C function compute it: --custom-op %s::%s=SYMBOL",
              domain_name(domain), name);
}

// Some converters leave the names of operators of their framework that they cannot convert.
static void hint_similar(importer *im, const char *domain, const char *name) {
    string_list names = {0};
    const char *best = NULL;
    for (int i = 0; i < schema_count(); i++) {
        const schema_op *op = schema_at(i);
        if (strcmp(op->domain, domain) != 0) continue;
        VEC_PUSH(im->arena, &names, op->name);
        if (strcasecmp(op->name, name) == 0) best = op->name;
    }
    if (!best) best = nearest_word(im->arena, name, names.at, names.n);
    if (best) diag_hint(im->diag, "did you mean %s?", best);
    else hint_custom(im, domain, name);
}

typedef struct missing_op {
    const loc *at;
    const char *name, *domain;
    int count;
} missing_op;

static void note_missing(importer *im, const loc *at, const char *domain, const char *name, int version) {
    const char *key = arena_printf(im->arena, "%s:%s:%d", domain, name, version);
    missing_op *m = map_get(&im->missing, key);
    if (!m) {
        m = ARENA_NEW(im->arena, missing_op);
        *m = (missing_op){.at = at, .domain = domain};
        m->name = *domain ? arena_printf(im->arena, "%s.%s", domain, name) : name;
        map_put(&im->missing, key, m);
    }
    m->count++;
}

void report_missing(importer *im) {
    for (int i = 0; i < im->missing.n; i++) {
        const missing_op *m = im->missing.slots[i].value;
        const char *name = *m->domain ? m->name + strlen(m->domain) + 1 : m->name;
        const char *hint = *m->domain ? absent_hint(m->domain, name) : NULL;
        if (hint) diag_hint(im->diag, "%s", hint);
        if (*m->domain && !schema_newest_opset(m->domain)) hint_custom(im, m->domain, name);
        diag_missing(im->diag, m->at, "operator %s is not supported (used by %d node%s)", m->name, m->count,
                     m->count == 1 ? "" : "s");
    }
}

// Deprecated, but for a first version: a later one replaced it, and files of its time have no other (GroupNormalization-18).
static bool is_withdrawn(const schema_op *op, const schema_version *v) {
    return v->deprecated && v != op->versions;
}

// The version of the operator selected by the operator set of the file; NULL: reported.
static const schema_version *find_version(importer *im, const loc *at, const schema_op *op,
                                          const char *domain, const char *name, int64_t opset) {
    if (!op) {
        hint_similar(im, domain, name);
        diag_error(im->diag, at, "there is no operator '%s' in domain '%s'", name, domain_name(domain));
        return NULL;
    }
    const schema_version *v = schema_for_opset(op, (int)opset);
    if (!v)
        diag_error(im->diag, at, "operator %s exists since opset %d, but the model imports opset %lld", name,
                   op->versions[0].since, (long long)opset);
    else if (is_withdrawn(op, v))
        diag_error(im->diag, at, "operator %s is deprecated since opset %d; the model imports opset %lld",
                   name, v->since, (long long)opset);
    return v && !is_withdrawn(op, v) ? v : NULL;
}

// The operator of a node. op NULL: the node was reported and is left out.
typedef struct meaning {
    const op_def *op;
    const schema_version *version; // NULL: an operator outside the standard
} meaning;

static const op_def *find_op(importer *im, const char *domain, const char *name) {
    const char *key = arena_printf(im->arena, "%s:%s", domain, name);
    const op_def *op = map_get(&im->ops, key);
    if (op) return op;
    op = op_find(domain, name);
    if (op) map_put(&im->ops, key, (void *)op);
    return op;
}

// Some exporters write plug-ins of TensorRT in the standard's domain.
static const char *domain_of_node(const Onnx__NodeProto *n) {
    const char *domain = domain_of(n->domain), *name = text_or_empty(n->op_type);
    return !*domain && !schema_find("", name) && schema_find("TRT", name) ? "TRT" : domain;
}

static meaning find_meaning(importer *im, const scope *s, loc *at, const Onnx__NodeProto *n) {
    const char *domain = domain_of_node(n), *name = text_or_empty(n->op_type);
    const char *shown = domain_name(domain);
    int64_t opset = opset_version(s->body, domain);
    int newest = schema_newest_opset(domain);
    meaning m = {.op = find_op(im, domain, name)};
    if (m.op && m.op->custom) return m;
    if (!newest) { // onnxc's own operators, which passes build, are not for files
        note_missing(im, at, domain, name, (int)opset);
        return (meaning){0};
    }
    // The tools that write these domains leave the import out, and read such files.
    if (!opset && strcmp(domain, "com.microsoft") == 0) opset = newest;
    if (!opset && strncmp(domain, "qonnx.", 6) == 0) opset = 1;
    if (strcmp(domain, "TRT") == 0) opset = newest; // TensorRT does not read the number
    if (!opset) diag_fatal(im->diag, at, "no opset_import for the operator's domain '%s'", shown);
    if (opset > newest)
        diag_fatal_missing(im->diag, at,
                           "opset %lld of domain '%s' is not supported; this build knows up to %d",
                           (long long)opset, shown, newest);
    m.version = find_version(im, at, schema_find(domain, name), domain, name, opset);
    if (!m.version) return (meaning){0};
    at->version = m.version->since;
    if (!m.op) note_missing(im, at, domain, name, m.version->since);
    return m;
}

// ---- Attributes

// The attribute of a node, or, for a reference to an attribute of the function, the attribute of the call. NULL: the
// call omits it.
static const Onnx__AttributeProto *follow(importer *im, scope **s, const loc *at,
                                          const Onnx__AttributeProto *a) {
    while (a && a->ref_attr_name && *a->ref_attr_name) {
        const body *b = (*s)->body;
        if (!b->caller)
            diag_fatal(im->diag, at,
                       "attribute '%s' refers to attribute '%s' of a function, but is not inside a function",
                       text_or_empty(a->name), a->ref_attr_name);
        const Onnx__AttributeProto *found = NULL;
        for (size_t i = 0; i < b->call->n_attribute && !found; i++)
            if (strcmp(text_or_empty(b->call->attribute[i]->name), a->ref_attr_name) == 0)
                found = b->call->attribute[i];
        for (size_t i = 0; i < b->function->n_attribute_proto && !found; i++)
            if (strcmp(text_or_empty(b->function->attribute_proto[i]->name), a->ref_attr_name) == 0)
                return b->function->attribute_proto[i];
        *s = b->call_scope;
        a = found;
    }
    return a;
}

// Files of IR versions 1 and 2 and some writers omit the type: it follows from the field that is set.
static attr_kind kind_of(const Onnx__AttributeProto *a, attr_kind expected) {
    if (a->has_type && a->type != ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__UNDEFINED) return (attr_kind)a->type;
    if (a->has_f) return ATTR_FLOAT;
    if (a->has_i) return ATTR_INT;
    if (a->has_s) return ATTR_STRING;
    if (a->t) return ATTR_TENSOR;
    if (a->g) return ATTR_GRAPH;
    if (a->n_floats) return ATTR_FLOATS;
    if (a->n_ints) return ATTR_INTS;
    if (a->n_strings) return ATTR_STRINGS;
    return expected;
}

static const char *kind_name(int kind) {
    static const char *const names[] = {"undefined",
                                        "a float",
                                        "an int",
                                        "a string",
                                        "a tensor",
                                        "a graph",
                                        "a list of floats",
                                        "a list of ints",
                                        "a list of strings",
                                        "a list of tensors",
                                        "a list of graphs",
                                        "a sparse tensor",
                                        "a list of sparse tensors",
                                        "a type",
                                        "a list of types"};
    return kind >= 0 && kind < (int)(sizeof names / sizeof *names) ? names[kind] : "of an unknown kind";
}

static _Noreturn void no_value(importer *im, const loc *at, const attr *t) {
    diag_fatal(im->diag, at, "attribute '%s' is %s, but has no value", t->name, kind_name(t->kind));
}

static const char *import_string(importer *im, const loc *at, const attr *t, ProtobufCBinaryData s) {
    if (s.len && memchr(s.data, 0, s.len))
        diag_fatal(im->diag, at, "attribute '%s' has a NUL within its text", t->name);
    return arena_strndup(im->arena, (const char *)s.data, s.len);
}

static void import_strings(importer *im, const loc *at, attr *t, const Onnx__AttributeProto *a) {
    t->n = (int)a->n_strings;
    t->strings = ARENA_ARRAY(im->arena, const char *, t->n + 1);
    for (int i = 0; i < t->n; i++) t->strings[i] = import_string(im, at, t, a->strings[i]);
}

static void import_graphs(importer *im, scope *s, const loc *at, attr *t, const Onnx__AttributeProto *a) {
    t->n = (int)a->n_graphs;
    t->graphs = ARENA_ARRAY(im->arena, graph *, t->n + 1);
    for (int i = 0; i < t->n; i++) t->graphs[i] = import_region(im, s, at, a->graphs[i]);
}

static void import_type_attr(importer *im, const loc *at, attr *t, const Onnx__AttributeProto *a) {
    if (!a->tp) no_value(im, at, t);
    t->type = ARENA_NEW(im->arena, type);
    *t->type = import_type(im, at, t->name, a->tp);
    if (t->type->kind == TYPE_NONE) no_value(im, at, t);
}

// Sets the value of t, whose name and kind are set, from a.
static void import_attr_value(importer *im, scope *s, const loc *at, attr *t, const Onnx__AttributeProto *a) {
    switch (t->kind) {
    case ATTR_FLOAT: t->f = a->f; return;
    case ATTR_INT: t->i = a->i; return;
    case ATTR_STRING:
        t->s = import_string(im, at, t, a->s);
        t->size = a->s.len;
        return;
    case ATTR_TENSOR:
        if (!a->t) no_value(im, at, t);
        t->tensor = import_tensor(im, at, a->t);
        return;
    case ATTR_GRAPH:
        if (!a->g) no_value(im, at, t);
        t->graph = import_region(im, s, at, a->g);
        return;
    case ATTR_FLOATS:
        t->n = (int)a->n_floats;
        t->floats = a->floats;
        return;
    case ATTR_INTS:
        t->n = (int)a->n_ints;
        t->ints = a->ints;
        return;
    case ATTR_STRINGS: import_strings(im, at, t, a); return;
    case ATTR_GRAPHS: import_graphs(im, s, at, t, a); return;
    case ATTR_SPARSE_TENSOR:
        if (!a->sparse_tensor) no_value(im, at, t);
        t->tensor = import_sparse_tensor(im, at, a->sparse_tensor);
        t->kind = ATTR_TENSOR;
        return;
    case ATTR_TYPE: import_type_attr(im, at, t, a); return;
    case ATTR_NONE:
    case ATTR_TENSORS:
    case ATTR_SPARSE_TENSORS:
    case ATTR_TYPES: break;
    }
    diag_fatal_missing(im->diag, at, "attribute '%s' is %s, which is not supported", t->name,
                       kind_name(t->kind));
}

typedef VEC(attr) attr_list;

static const schema_attr *find_schema_attr(const schema_version *v, const char *name) {
    for (int i = 0; v && i < v->nattrs; i++)
        if (strcmp(v->attrs[i].name, name) == 0) return &v->attrs[i];
    return NULL;
}

static bool has_attr(const attr_list *list, const char *name) {
    for (int i = 0; i < list->n; i++)
        if (strcmp(list->at[i].name, name) == 0) return true;
    return false;
}

// Attributes of the first operator set without meaning, and names that the standard exempts from checks.
static bool is_ignored(const char *name) {
    return strcmp(name, "consumed_inputs") == 0 || strncmp(name, "__", 2) == 0;
}

static void import_attr(importer *im, scope *s, const loc *at, const schema_version *v,
                        const Onnx__AttributeProto *a, attr_list *list) {
    const char *name = text_or_empty(a->name);
    const Onnx__AttributeProto *given = follow(im, &s, at, a);
    if (!given || is_ignored(name)) return;
    const schema_attr *expected = find_schema_attr(v, name);
    attr t = {.name = name, .kind = kind_of(given, expected ? (attr_kind)expected->kind : ATTR_NONE)};
    if (v && !expected) {
        diag_error(im->diag, at, "unknown attribute '%s'", name);
    } else if (expected && expected->kind != (int)t.kind) {
        diag_error(im->diag, at, "attribute '%s' is %s, but must be %s", name, kind_name(t.kind),
                   kind_name(expected->kind));
    } else if (has_attr(list, name)) {
        diag_error(im->diag, at, "attribute '%s' is given twice", name);
    } else {
        import_attr_value(im, s, at, &t, given);
        VEC_PUSH(im->arena, list, t);
    }
}

static attr_list import_attrs(importer *im, scope *s, const loc *at, const schema_version *v,
                              const Onnx__NodeProto *n) {
    attr_list list = {0};
    for (size_t i = 0; i < n->n_attribute; i++) import_attr(im, s, at, v, n->attribute[i], &list);
    for (int i = 0; v && i < v->nattrs; i++)
        if (v->attrs[i].required && !is_ignored(v->attrs[i].name) && !has_attr(&list, v->attrs[i].name))
            diag_error(im->diag, at, "attribute '%s' is missing", v->attrs[i].name);
    return list;
}

// ---- Inputs and outputs

static int used(char **names, size_t n) {
    while (n && !*names[n - 1]) n--;
    return (int)n;
}

static const char *range_text(importer *im, int least, int most) {
    if (most == INT_MAX) return arena_printf(im->arena, "%d or more", least);
    if (least == most) return arena_printf(im->arena, "%d", least);
    return arena_printf(im->arena, "%d to %d", least, most);
}

static bool check_count(importer *im, const loc *at, const char *what, int given, int used, int least,
                        int most) {
    if (given >= least && used <= most) return true;
    diag_error(im->diag, at, "%d %ss where the operator has %s", used > most ? used : given, what,
               range_text(im, least, most));
    return false;
}

// Omitted inputs must be optional, also inputs that are omitted by the call of a function.
static bool check_given(importer *im, const loc *at, const schema_version *v, char **names, value **in,
                        int n) {
    bool good = true;
    for (int i = 0; i < n && i < v->nin; i++) {
        if (in[i] || v->in[i].option != 's') continue;
        const char *name = v->in[i].name;
        const char *what = strcmp(name, "input") ? arena_printf(im->arena, "input %s", name) : "the input";
        if (*names[i]) diag_error(im->diag, at, "%s is missing: the call does not pass '%s'", what, names[i]);
        else diag_error(im->diag, at, "%s is missing", what);
        good = false;
    }
    return good;
}

// Trailing empty names count for the minimum, not for the maximum.
static bool check_arity(importer *im, const loc *at, const schema_version *v, const Onnx__NodeProto *n,
                        value **in) {
    if (!v) return true;
    int nin = used(n->input, n->n_input), nout = used(n->output, n->n_output);
    int given_in = n->n_input < INT_MAX ? (int)n->n_input : INT_MAX;
    int given_out = n->n_output < INT_MAX ? (int)n->n_output : INT_MAX;
    return check_count(im, at, "input", given_in, nin, v->min_in, v->max_in) &&
           check_count(im, at, "output", given_out, nout, v->min_out, v->max_out) &&
           check_given(im, at, v, n->input, in, given_in);
}

static void add_outputs(importer *im, scope *s, const loc *at, const Onnx__NodeProto *n, node *made) {
    int nout = used(n->output, n->n_output);
    for (int i = 0; i < nout; i++) {
        const char *name = n->output[i];
        const Onnx__ValueInfoProto *info;
        if (!*name) continue;
        const char *called = module_name(im, s, name, &info);
        value *v = made ? node_output(made, i, called) : value_new(s->graph, called);
        if (info) v->type = import_type(im, at, name, info->type);
        if (info) v->doc = info->doc_string;
        bind_value(im, s, at, name, v);
    }
}

// ---- Upgrades

// Upgrades interpret older versions' attributes.
static void check_leftovers(importer *im, node *n, const schema_version *newest) {
    for (int i = 0; i < n->nattrs; i++)
        if (!find_schema_attr(newest, n->attrs[i].name))
            diag_missing(im->diag, n->loc,
                         "attribute '%s' is not supported: version %d of %s does not have it",
                         n->attrs[i].name, newest->since, n->op->name);
}

static void upgrade(importer *im, node *n, const meaning *m) {
    const op_def *op = m->op;
    if (!m->version) return;
    node_fill_defaults(n, m->version);
    for (int i = 0; i < (int)(sizeof op->upgrades / sizeof *op->upgrades) && op->upgrades[i].since; i++)
        if (n->graph && op->upgrades[i].apply && op->upgrades[i].since > m->version->since)
            op->upgrades[i].apply(n);
    if (!n->graph) return; // an upgrade replaced the node
    const schema_op *s = schema_find(n->op->domain, n->op->name);
    if (!s) return;
    node_fill_defaults(n, &s->versions[s->nversions - 1]);
    check_leftovers(im, n, &s->versions[s->nversions - 1]);
}

// ---- Nodes

// A graph that is an attribute of a call may be imported into an inner graph.
static void add_attr(node *n, attr a) {
    for (int i = 0; attr_graph(&a, i); i++) attr_graph(&a, i)->outer = n->graph;
    node_set_attr(n, a);
}

// Adds the tensors that attribute a names to the inputs of n.
static void add_named_tensors(importer *im, const scope *s, node *n, const attr *a) {
    bool listed = a->kind == ATTR_STRINGS;
    for (int i = 0; i < (listed ? a->n : 1); i++) {
        const char *name = listed ? a->strings[i] : a->s;
        value *v = find_value(im, s, n->loc, name);
        if (v) node_set_in(n, n->nin, v);
        else if (!*name) diag_error(im->diag, n->loc, "attribute '%s' names no tensor", a->name);
    }
}

static void add_all_named_tensors(importer *im, const scope *s, node *n) {
    for (const char *w = n->op->named_tensors; w && *w; w += strcspn(w, " "), w += strspn(w, " ")) {
        const attr *a = node_attr(n, arena_strndup(im->arena, w, strcspn(w, " ")));
        if (a) add_named_tensors(im, s, n, a);
    }
}

static void import_given(importer *im, scope *s, loc *at, const Onnx__NodeProto *n, model_node *seen) {
    meaning m = find_meaning(im, s, at, n);
    int nin = used(n->input, n->n_input);
    value **in = ARENA_ARRAY(im->arena, value *, n->n_input + 1);
    int errors = im->diag->errors;
    for (int i = 0; i < nin; i++) in[i] = find_value(im, s, at, n->input[i]);
    bool good = im->diag->errors == errors && check_arity(im, at, m.version, n, in);
    attr_list attrs = import_attrs(im, s, at, m.version, n);
    seen->nin = nin, seen->in = in;
    seen->nattrs = attrs.n, seen->attrs = attrs.at;
    if (!m.op || !good) { // its regions were read only to report their errors
        add_outputs(im, s, at, n, NULL);
        return;
    }
    node *made = node_new(s->graph, NULL, m.op, at, nin, in);
    made->given = true;
    made->doc = n->doc_string;
    for (int i = 0; i < attrs.n; i++) add_attr(made, attrs.at[i]);
    add_all_named_tensors(im, s, made);
    add_outputs(im, s, at, n, made);
    if (im->diag->errors == errors) upgrade(im, made, &m);
}

void announce_node(importer *im, const scope *s, const Onnx__NodeProto *n, model_node *seen) {
    if (!im->options.node) return;
    value **out = ARENA_ARRAY(im->arena, value *, n->n_output + 1);
    seen->graph = s->graph;
    seen->domain = domain_of(n->domain), seen->op = text_or_empty(n->op_type);
    for (int i = 0; seen->done && i < (int)n->n_output; i++)
        if (*n->output[i]) out[i] = find_value(im, s, seen->loc, n->output[i]), seen->nout = i + 1;
    seen->out = out;
    im->options.node(im->options.user, seen);
}

void import_node(importer *im, scope *s, loc *at, const Onnx__NodeProto *n) {
    model_node seen = {.loc = at};
    announce_node(im, s, n, &seen);
    import_given(im, s, at, n, &seen);
    seen.done = true;
    announce_node(im, s, n, &seen);
}
