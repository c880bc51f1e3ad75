// Imports GraphProto and FunctionProto: calls of local functions are inlined. Names are resolved here, from
// the innermost graph outwards.
#include "compiler/import/impl.h"
#include "compiler/import/order.h"

enum { CALLS_MOST = 50000, PORTS_MOST = 1024 };

// ---- Names

value *find_value(importer *im, const scope *s, const loc *at, const char *name) {
    if (!name || !*name) return NULL;
    const Onnx__NodeProto *maker = NULL;
    for (const scope *in = s; in; in = in->outer) {
        value *v = map_get(&in->values, name);
        if (v) return v == im->absent ? NULL : v;
        Onnx__NodeProto **made = maker ? NULL : map_get(&in->made_by, name);
        if (made) maker = *made;
    }
    if (!maker) {
        diag_error(im->diag, at,
                   "'%s' is not defined: it is not an input, an initializer or the output of a node", name);
        return NULL;
    }
    diag_hint(im->diag, "a graph must not have cycles");
    const char *own = text_or_empty(maker->name);
    const char *what = *own ? arena_printf(im->arena, "node '%s'", own) : "a node";
    diag_error(im->diag, at, "'%s' is used before %s (%s) computes it", name, what,
               text_or_empty(maker->op_type));
    return NULL;
}

void bind_value(importer *im, scope *s, const loc *at, const char *name, value *v) {
    if (map_get(&s->values, name)) diag_error(im->diag, at, "'%s' is defined twice", name);
    else map_put(&s->values, name, v ? v : im->absent);
}

static bool is_call(const scope *s) { return s->body->caller && !s->outer; }

// Makes a name for a value in a region or function, distinct from all values of the main graph.
static const char *inner_name(importer *im, const scope *s, const char *name) {
    while (map_get(&im->reserved, name)) name = arena_printf(im->arena, "%s/%s", s->name, name);
    return name;
}

const char *module_name(importer *im, const scope *s, const char *name, const Onnx__ValueInfoProto **info) {
    const body *b = s->body;
    *info = NULL;
    if (is_call(s)) { // outputs of functions are named after the outputs of the call
        for (size_t i = 0; i < b->call->n_output; i++)
            if (*b->call->output[i] && strcmp(b->function->output[i], name) == 0)
                return module_name(im, b->call_scope, b->call->output[i], info);
        return inner_name(im, s, name);
    }
    *info = map_get(&s->declared, name);
    return s->graph == im->module->main && !b->caller ? name : inner_name(im, s, name);
}

// ---- Nodes

static loc *node_loc(importer *im, const scope *s, const Onnx__NodeProto *n, size_t index) {
    loc *at = ARENA_NEW(im->arena, loc);
    bool named = n->name && *n->name;
    *at = (loc){.file = im->module->file, .op = text_or_empty(n->op_type), .graph = s->name};
    at->node = named ? n->name : arena_printf(im->arena, "#%zu", index);
    at->unnamed = !named;
    at->via = s->body->via;
    return at;
}

static const char *function_key(importer *im, const char *domain, const char *name, const char *overload) {
    domain = domain_of(domain);
    name = text_or_empty(name);
    return arena_printf(im->arena, "%zu:%s%zu:%s%s", strlen(domain), domain, strlen(name), name,
                        text_or_empty(overload));
}

static void import_call(importer *im, scope *s, const loc *at, const Onnx__NodeProto *n,
                        const Onnx__FunctionProto *f);

static void import_nodes(importer *im, scope *s, Onnx__NodeProto **nodes, size_t count) {
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < nodes[i]->n_output; k++)
            if (*nodes[i]->output[k]) map_put(&s->made_by, nodes[i]->output[k], &nodes[i]);
    const size_t *order = topological_order(im->arena, s, nodes, count);
    for (size_t i = 0; i < count; i++) {
        const Onnx__NodeProto *n = nodes[order[i]];
        loc *at = node_loc(im, s, n, order[i]);
        if (++im->nodes > im->options.max_nodes)
            diag_fatal(im->diag, at, "the model has more than %d nodes once its functions are inlined",
                       im->options.max_nodes);
        const Onnx__FunctionProto *f = NULL;
        if (im->functions.n)
            f = map_get(&im->functions, function_key(im, n->domain, n->op_type, n->overload));
        if (f) import_call(im, s, at, n, f);
        else import_node(im, s, at, n);
    }
}

static scope new_scope(importer *im, scope *outer, const body *b, graph *g, const char *name) {
    scope s = {.outer = outer, .body = b, .graph = g, .name = name};
    s.values.arena = s.declared.arena = s.made_by.arena = im->arena;
    return s;
}

static void enter(importer *im, const loc *at) {
    if (++im->depth > DEPTH_MOST)
        diag_fatal(im->diag, at, "functions and subgraphs are nested more than %d deep", DEPTH_MOST);
}

// ---- Calls of local functions

static void check_recursion(importer *im, const scope *s, const loc *at, const Onnx__FunctionProto *f) {
    const char *chain = text_or_empty(f->name);
    for (const body *b = s->body; b->caller; b = b->caller) {
        chain = arena_printf(im->arena, "%s -> %s", text_or_empty(b->function->name), chain);
        if (b->function == f) diag_fatal(im->diag, at, "the function calls itself: %s", chain);
    }
}

static bool declares_attribute(const Onnx__FunctionProto *f, const char *name) {
    for (size_t i = 0; i < f->n_attribute; i++)
        if (strcmp(f->attribute[i], name) == 0) return true;
    for (size_t i = 0; i < f->n_attribute_proto; i++)
        if (strcmp(text_or_empty(f->attribute_proto[i]->name), name) == 0) return true;
    return false;
}

static void check_call(importer *im, const scope *s, const loc *at, const Onnx__NodeProto *n,
                       const Onnx__FunctionProto *f) {
    check_recursion(im, s, at, f);
    if (n->n_input > f->n_input)
        diag_fatal(im->diag, at, "the call passes %zu inputs, but the function has %zu", n->n_input,
                   f->n_input);
    if (n->n_output > f->n_output)
        diag_fatal(im->diag, at, "the call takes %zu outputs, but the function has %zu", n->n_output,
                   f->n_output);
    for (size_t i = 0; i < n->n_attribute; i++) {
        const char *name = text_or_empty(n->attribute[i]->name);
        if (!declares_attribute(f, name))
            diag_error(im->diag, at, "the function has no attribute '%s'", name);
    }
}

static void bind_outputs(importer *im, scope *s, scope *inner, const loc *at, const Onnx__NodeProto *n,
                         const Onnx__FunctionProto *f) {
    for (size_t i = 0; i < n->n_output; i++) {
        const char *name = f->output[i];
        if (!*n->output[i]) continue;
        value *v = map_get(&inner->values, name);
        if (!v) {
            diag_error(im->diag, at, "the function does not compute its output '%s'", name);
            v = value_new(s->graph, NULL);
        }
        bind_value(im, s, at, n->output[i], v);
    }
}

static void import_call(importer *im, scope *s, const loc *at, const Onnx__NodeProto *n,
                        const Onnx__FunctionProto *f) {
    check_call(im, s, at, n, f);
    if (++im->calls > CALLS_MOST)
        diag_fatal(im->diag, at, "the model has more than %d calls of functions once they are inlined",
                   CALLS_MOST);
    enter(im, at);
    body *b = ARENA_NEW(im->arena, body);
    *b = (body){.caller = s->body, .function = f, .call = n, .call_scope = s, .via = at};
    b->name = text_or_empty(f->name);
    b->opsets = f->opset_import;
    b->nopsets = f->n_opset_import;
    scope inner = new_scope(im, NULL, b, s->graph, b->name);
    model_node seen = {.loc = at, .call = true};
    value **in = ARENA_ARRAY(im->arena, value *, f->n_input + 1);
    announce_node(im, s, n, &seen);
    for (size_t i = 0; i < f->n_input; i++) {
        in[i] = i < n->n_input ? find_value(im, s, at, n->input[i]) : NULL;
        bind_value(im, &inner, at, f->input[i], in[i]);
    }
    import_nodes(im, &inner, f->node, f->n_node);
    bind_outputs(im, s, &inner, at, n, f);
    im->depth--;
    seen.done = true, seen.nin = (int)f->n_input, seen.in = in;
    announce_node(im, s, n, &seen);
}

// ---- Graphs

static void declare(scope *s, const Onnx__GraphProto *g) {
    for (size_t i = 0; i < g->n_value_info; i++)
        map_put(&s->declared, text_or_empty(g->value_info[i]->name), g->value_info[i]);
    for (size_t i = 0; i < g->n_output; i++)
        map_put(&s->declared, text_or_empty(g->output[i]->name), g->output[i]);
}

static void add_initializer(importer *im, scope *s, const char *name, constant *c) {
    const Onnx__ValueInfoProto *info;
    if (!name || !*name) {
        diag_error(im->diag, NULL, "an initializer has no name");
        return;
    }
    if (!s->outer && map_get(&im->defaults, name)) {
        if (map_get(&im->defaults, name) == im->absent) map_put(&im->defaults, name, c);
        else diag_error(im->diag, NULL, "input '%s' has two default values", name);
        return;
    }
    bind_value(im, s, NULL, name, value_constant(s->graph, module_name(im, s, name, &info), c));
}

static void import_initializers(importer *im, scope *s, const Onnx__GraphProto *g) {
    for (size_t i = 0; i < g->n_initializer; i++)
        add_initializer(im, s, g->initializer[i]->name, import_tensor(im, NULL, g->initializer[i]));
    for (size_t i = 0; i < g->n_sparse_initializer; i++) {
        const Onnx__SparseTensorProto *t = g->sparse_initializer[i];
        add_initializer(im, s, t->values ? t->values->name : NULL, import_sparse_tensor(im, NULL, t));
    }
}

static bool contradicts(const type *declared, const type *t) {
    if (declared->rank < 0) return false;
    bool differs = declared->rank != t->rank;
    for (int i = 0; !differs && i < t->rank; i++)
        differs = dim_is_const(declared->dims[i]) && declared->dims[i] != t->dims[i];
    return differs;
}

static bool is_initializer(const Onnx__GraphProto *g, const char *name, map *known) {
    bool first = known->n == 0;
    for (size_t i = 0; first && i < g->n_initializer; i++)
        map_put(known, text_or_empty(g->initializer[i]->name), (void *)g);
    return map_get(known, name) != NULL;
}

// Before IR version 4 every initializer is also listed as an input; since then that makes it a default that
// callers may replace. Those kept as inputs are in im->defaults, as im->absent until they are read.
static void choose_defaults(importer *im, const Onnx__GraphProto *g) {
    map known = {.arena = im->arena};
    if (!im->options.input) return;
    model_input input = {.ninputs = (int)g->n_input};
    for (size_t i = 0; i < g->n_input; i++)
        input.nplain += !is_initializer(g, text_or_empty(g->input[i]->name), &known);
    for (size_t i = 0; i < g->n_input; i++) {
        input.name = text_or_empty(g->input[i]->name);
        input.index = (int)i;
        input.has_default = is_initializer(g, input.name, &known);
        input.overridable = input.has_default && im->model->ir_version >= 4;
        default_use use = im->options.input(im->options.user, &input);
        if (!input.overridable || use == DEFAULT_IS_CONSTANT) continue;
        map_put(&im->defaults, input.name, im->absent);
        if (use == DEFAULT_IS_DROPPED) map_put(&im->dropped, input.name, im->absent);
    }
}

static void compare_default(importer *im, const char *name, const type *declared, const type *t) {
    if (declared->kind == TYPE_NONE) return;
    const char *said = type_text(im->arena, declared), *is = type_text(im->arena, t);
    if (declared->kind != t->kind || declared->elem != t->elem)
        diag_error(im->diag, NULL, "input '%s' is declared as %s, but its default value is %s", name, said,
                   is);
    else if (contradicts(declared, t))
        diag_warning(im->diag, WARN_DECLARED_TYPE, NULL,
                     "input '%s' is declared as %s, but its default value is %s; the declaration is ignored",
                     name, said, is);
}

static void check_default(importer *im, const char *name, const type *t, const Onnx__ValueInfoProto *info) {
    if (im->module->ir_version >= 4)
        diag_remark(im->diag, NULL,
                    "input '%s' has a default value and is compiled as a constant; --override=%s makes it an "
                    "input that callers may leave out",
                    name, name);
    type declared = import_type(im, NULL, name, info->type);
    compare_default(im, name, &declared, t);
}

// An optional input has the sizes of its default value.
static type type_with_default(importer *im, const char *name, type declared, const constant *c) {
    type t = {.kind = TYPE_TENSOR, .elem = c->elem, .rank = c->rank};
    t.dims = ARENA_ARRAY(im->arena, dim *, c->rank + 1);
    for (int i = 0; i < c->rank; i++) t.dims[i] = dim_const(im->module->dims, c->dims[i]);
    compare_default(im, name, &declared, &t);
    if (c->elem == DT_STRING)
        diag_fatal_missing(im->diag, NULL, "input '%s' of strings with a default value is not supported",
                           name);
    bool sized = declared.kind == TYPE_TENSOR && declared.rank >= 0;
    return map_get(&im->dropped, name) && sized ? declared : t;
}

// Callers pass all elements of a sparse tensor.
static type dense_input(importer *im, const char *name, type t) {
    if (t.kind != TYPE_SPARSE) return t;
    diag_remark(im->diag, NULL, "input '%s' is declared as a sparse tensor; it is passed as a dense one",
                name);
    t.kind = TYPE_TENSOR;
    return t;
}

static void import_input(importer *im, scope *s, const Onnx__ValueInfoProto *info) {
    const char *name = text_or_empty(info->name);
    const value *known = map_get(&s->values, name);
    if (!*name) {
        diag_error(im->diag, NULL, "an input of graph '%s' has no name", s->name);
        return;
    }
    if (known && known->constant) {
        check_default(im, name, &known->type, info);
        return;
    }
    const Onnx__ValueInfoProto *unused;
    const char *called = module_name(im, s, name, &unused);
    type t = dense_input(im, name, import_type(im, NULL, name, info->type));
    if (!s->outer && t.kind == TYPE_NONE) diag_error(im->diag, NULL, "input '%s' has no type", name);
    const constant *fallback = s->outer ? NULL : map_get(&im->defaults, name);
    if (fallback) t = type_with_default(im, name, t, fallback);
    value *v = graph_add_input(s->graph, called, t);
    if (fallback && !map_get(&im->dropped, name)) v->fallback = fallback;
    v->doc = info->doc_string;
    bind_value(im, s, NULL, name, v);
}

static void import_outputs(importer *im, scope *s, const loc *at, const Onnx__GraphProto *g) {
    for (size_t i = 0; i < g->n_output; i++) {
        const char *name = text_or_empty(g->output[i]->name);
        value *v = find_value(im, s, at, name);
        if (!*name) diag_error(im->diag, at, "an output of graph '%s' has no name", s->name);
        if (!v) continue;
        graph_add_output(s->graph, v);
        if (!s->outer) s->graph->output_names.at[s->graph->output_names.n - 1] = name;
    }
}

static void import_graph(importer *im, scope *s, const loc *at, const Onnx__GraphProto *g) {
    declare(s, g);
    import_initializers(im, s, g);
    for (size_t i = 0; i < g->n_input; i++) import_input(im, s, g->input[i]);
    import_nodes(im, s, g->node, g->n_node);
    import_outputs(im, s, at, g);
}

graph *import_region(importer *im, scope *outer, const loc *at, const Onnx__GraphProto *g) {
    enter(im, at);
    const char *name = outer->body->caller ? outer->body->name : text_or_empty(g->name);
    scope s =
        new_scope(im, outer, outer->body, graph_new(im->module, outer->graph, text_or_empty(g->name)), name);
    import_graph(im, &s, at, g);
    im->depth--;
    return s.graph;
}

// ---- The model

static void add_functions(importer *im) {
    for (size_t i = 0; i < im->model->n_functions; i++) {
        Onnx__FunctionProto *f = im->model->functions[i];
        const char *key = function_key(im, f->domain, f->name, f->overload);
        if (map_get(&im->functions, key))
            diag_fatal(im->diag, NULL, "function '%s' of domain '%s' is defined twice",
                       text_or_empty(f->name), domain_of(f->domain));
        map_put(&im->functions, key, f);
    }
}

static void reserve(importer *im, const char *name) {
    map_put(&im->reserved, text_or_empty(name), im->absent);
}

static void reserve_names(importer *im, const Onnx__GraphProto *g) {
    for (size_t i = 0; i < g->n_input; i++) reserve(im, g->input[i]->name);
    for (size_t i = 0; i < g->n_initializer; i++) reserve(im, g->initializer[i]->name);
    for (size_t i = 0; i < g->n_node; i++)
        for (size_t k = 0; k < g->node[i]->n_output; k++) reserve(im, g->node[i]->output[k]);
}

void import_main(importer *im) {
    const Onnx__ModelProto *m = im->model;
    const Onnx__GraphProto *g = m->graph;
    body b = {.name = text_or_empty(g->name), .opsets = m->opset_import, .nopsets = m->n_opset_import};
    scope s = new_scope(im, NULL, &b, graph_new(im->module, NULL, b.name), b.name);
    im->module->name = b.name;
    add_functions(im);
    reserve_names(im, g);
    if (!g->n_output) diag_error(im->diag, NULL, "the graph has no outputs");
    if (g->n_output > PORTS_MOST)
        diag_fatal_missing(im->diag, NULL, "the graph has %zu outputs; at most %d are supported", g->n_output,
                           PORTS_MOST);
    choose_defaults(im, g);
    import_graph(im, &s, NULL, g);
    if (s.graph->inputs.n > PORTS_MOST)
        diag_fatal_missing(im->diag, NULL, "the graph has %d inputs; at most %d are supported",
                           s.graph->inputs.n, PORTS_MOST);
}
