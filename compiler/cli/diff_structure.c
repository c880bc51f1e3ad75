// In: two models with matched nodes. Out: differences of their interfaces, opsets, metadata and nodes.
#include "compiler/cli/diff.h"
#include "compiler/report/attr_text.h"
#include "ir/graph/op.h"
#include <math.h>
#include <string.h>

static const module *module_of(const diff *d, int side) { return d->side[side].pipeline->module; }

static void add_pair(diff *d, diff_section *s, const char *kind, const char *name, const char *a,
                     const char *b) {
    if (a && b && strcmp(a, b) == 0) return;
    if (a) diff_add(d, s, (diff_item){.sign = '-', .kind = kind, .name = name, .text = a, .snr = NAN});
    if (b) diff_add(d, s, (diff_item){.sign = '+', .kind = kind, .name = name, .text = b, .snr = NAN});
}

// ---------------------------------------------------------------- interface
static const char *input_type(diff *d, int side, const char *name) {
    const graph *g = module_of(d, side)->main;
    for (int j = 0; j < g->inputs.n; j++)
        if (strcmp(g->inputs.at[j]->name, name) == 0) return type_text(d->arena, &g->inputs.at[j]->type);
    return NULL;
}

static const char *output_type(diff *d, int side, const char *name) {
    const graph *g = module_of(d, side)->main;
    for (int j = 0; j < g->outputs.n; j++)
        if (strcmp(g->output_names.at[j], name) == 0) return type_text(d->arena, &g->outputs.at[j]->type);
    return NULL;
}

static void note_order(diff *d, diff_section *s, const char *what, bool outputs) {
    text t[2] = {{.arena = d->arena}, {.arena = d->arena}};
    int n[2];
    for (int k = 0; k < 2; k++) {
        const graph *g = module_of(d, k)->main;
        n[k] = outputs ? g->outputs.n : g->inputs.n;
        for (int j = 0; j < n[k]; j++)
            text_printf(&t[k], "%s%s", j ? ", " : "",
                        outputs ? g->output_names.at[j] : g->inputs.at[j]->name);
    }
    if (!s->differs && n[0] == n[1]) add_pair(d, s, "order", what, text_str(&t[0]), text_str(&t[1]));
}

void diff_interface(diff *d) {
    diff_section *s = diff_begin(d, "interface");
    for (int k = 0; k < 2; k++) {
        const graph *g = module_of(d, k)->main;
        for (int j = 0; j < g->inputs.n; j++) {
            const char *name = g->inputs.at[j]->name, *other = input_type(d, !k, name);
            if (k == 0 || !other)
                add_pair(d, s, "input", name, k ? NULL : input_type(d, 0, name),
                         k ? input_type(d, 1, name) : other);
        }
    }
    for (int k = 0; k < 2; k++) {
        const graph *g = module_of(d, k)->main;
        for (int j = 0; j < g->outputs.n; j++) {
            const char *name = g->output_names.at[j], *other = output_type(d, !k, name);
            if (k == 0 || !other)
                add_pair(d, s, "output", name, k ? NULL : output_type(d, 0, name),
                         k ? output_type(d, 1, name) : other);
        }
    }
    note_order(d, s, "of inputs", false);
    note_order(d, s, "of outputs", true);
}

// ---------------------------------------------------------------- opsets and metadata
static const char *opset_text(diff *d, int side, const char *domain) {
    int version = (int)(intptr_t)map_get(&module_of(d, side)->opsets, domain);
    return version ? arena_printf(d->arena, "%d", version) : NULL;
}

void diff_opsets(diff *d) {
    diff_section *s = diff_begin(d, "opsets");
    for (int k = 0; k < 2; k++) {
        const map *m = &module_of(d, k)->opsets;
        for (int j = 0; j < m->n; j++) {
            const char *domain = m->slots[j].key, *a = opset_text(d, 0, domain);
            if (k == 0 || !a)
                add_pair(d, s, "opset", *domain ? domain : "ai.onnx", a, opset_text(d, 1, domain));
        }
    }
}

static const char *metadata_value(const module *m, const char *key) {
    for (int j = 0; j + 1 < m->metadata.n; j += 2)
        if (strcmp(m->metadata.at[j], key) == 0) return m->metadata.at[j + 1];
    return NULL;
}

static const char *given(const char *s) { return s && *s ? s : NULL; }

void diff_metadata(diff *d) {
    diff_section *s = diff_begin(d, "metadata");
    const module *a = module_of(d, 0), *b = module_of(d, 1);
    add_pair(d, s, "field", "graph name", given(a->name), given(b->name));
    add_pair(d, s, "field", "producer name", given(a->producer_name), given(b->producer_name));
    add_pair(d, s, "field", "producer version", given(a->producer_version), given(b->producer_version));
    add_pair(d, s, "field", "domain", given(a->domain), given(b->domain));
    add_pair(d, s, "field", "documentation", given(a->doc), given(b->doc));
    add_pair(d, s, "field", "model version", arena_printf(d->arena, "%lld", (long long)a->model_version),
             arena_printf(d->arena, "%lld", (long long)b->model_version));
    add_pair(d, s, "field", "IR version", arena_printf(d->arena, "%d", a->ir_version),
             arena_printf(d->arena, "%d", b->ir_version));
    for (int j = 0; j + 1 < a->metadata.n; j += 2)
        add_pair(d, s, "property", a->metadata.at[j], a->metadata.at[j + 1],
                 metadata_value(b, a->metadata.at[j]));
    for (int j = 0; j + 1 < b->metadata.n; j += 2)
        if (!metadata_value(a, b->metadata.at[j]))
            add_pair(d, s, "property", b->metadata.at[j], NULL, b->metadata.at[j + 1]);
}

// ---------------------------------------------------------------- nodes
static const char *node_text(diff *d, const diff_node *n) {
    text t = {.arena = d->arena};
    text_add_node(&t, n->is->as.loc, true);
    text_add(&t, ": ");
    for (int i = 0; i < n->is->as.nin; i++)
        text_printf(&t, "%s%s", i ? ", " : "", n->is->in[i] ? n->is->in[i] : "");
    text_add(&t, " -> ");
    for (int i = 0; i < n->is->as.nout; i++)
        text_printf(&t, "%s%s", i ? ", " : "", n->is->out[i] ? n->is->out[i] : "");
    return text_str(&t);
}

static const attr *find_attr(const probed_node *n, const char *name) {
    for (int i = 0; i < n->as.nattrs; i++)
        if (strcmp(n->as.attrs[i].name, name) == 0) return &n->as.attrs[i];
    return NULL;
}

// The default of an attribute that the node does not have, as text; NULL: none.
static const char *default_text(const probed_node *n, const char *name) {
    const schema_op *op = schema_find(n->as.domain, n->as.op);
    const schema_version *v = op ? schema_for_opset(op, n->as.loc->version) : NULL;
    for (int i = 0; v && i < v->nattrs; i++)
        if (strcmp(v->attrs[i].name, name) == 0) return v->attrs[i].def;
    return NULL;
}

// As the table of defaults writes it.
static const char *plain_text(arena *a, const attr *t) {
    text s = {.arena = a};
    if (t->kind == ATTR_STRING) return t->s;
    if (t->kind == ATTR_INTS) {
        for (int i = 0; i < t->n; i++) text_printf(&s, "%s%lld", i ? " " : "", (long long)t->ints[i]);
        return text_str(&s);
    }
    return attr_value_text(a, t);
}

static bool same_element(const constant *a, const constant *b, int64_t i) {
    if (a->kind == CONST_STRINGS)
        return a->string_sizes[i] == b->string_sizes[i] &&
               memcmp(a->strings[i], b->strings[i], a->string_sizes[i]) == 0;
    if (!dtype_is_float(a->elem)) return constant_int(a, i) == constant_int(b, i);
    double x = constant_float(a, i), y = constant_float(b, i);
    return x == y || (isnan(x) && isnan(y));
}

static bool same_tensors(const constant *a, const constant *b) {
    bool same = a->elem == b->elem && a->rank == b->rank && a->count == b->count;
    for (int j = 0; same && j < a->rank; j++) same = a->dims[j] == b->dims[j];
    for (int64_t i = 0; same && i < a->count; i++) same = same_element(a, b, i);
    return same;
}

static void compare_attr(diff *d, text *t, const diff_node *x, const diff_node *y, const char *name) {
    const attr *a = find_attr(x->is, name), *b = find_attr(y->is, name);
    if ((a && a->kind == ATTR_GRAPH) || (b && b->kind == ATTR_GRAPH)) return; // their nodes are compared
    if (a && b && a->kind == ATTR_TENSOR && b->kind == ATTR_TENSOR && same_tensors(a->tensor, b->tensor))
        return;
    const char *p = a ? plain_text(d->arena, a) : default_text(x->is, name);
    const char *q = b ? plain_text(d->arena, b) : default_text(y->is, name);
    bool tensors = a && b && a->kind == ATTR_TENSOR && b->kind == ATTR_TENSOR;
    if (!tensors && p && q && strcmp(p, q) == 0) return;
    const char *from = a ? attr_value_text(d->arena, a) : p ? p : "none";
    const char *to = b ? attr_value_text(d->arena, b) : q ? q : "none";
    text_printf(t, "%sattribute %s: %s -> %s", t->n ? "; " : "", name, from,
                tensors && strcmp(from, to) == 0 ? "other elements" : to);
}

static const char *source_text(const diff_node *n, int i) {
    return i < n->is->as.nin && n->is->in[i] ? n->is->in[i] : "none";
}

static bool same_source(diff *d, const diff_ref *p, const diff_ref *q) {
    if (p->from != q->from) return false;
    switch (p->from) {
    case FROM_NOTHING: return true;
    case FROM_NODE: return d->side[0].nodes.at[p->at].match == q->at && p->output == q->output;
    case FROM_CONSTANT: return d->side[0].constants.at[p->at].match == q->at;
    case FROM_BODY_INPUT: return p->at == q->at;
    case FROM_INPUT: break;
    }
    const graph *a = module_of(d, 0)->main, *b = module_of(d, 1)->main;
    return p->at == q->at || strcmp(a->inputs.at[p->at]->name, b->inputs.at[q->at]->name) == 0;
}

static void compare_inputs(diff *d, text *t, const diff_node *x, const diff_node *y) {
    int n = x->is->as.nin > y->is->as.nin ? x->is->as.nin : y->is->as.nin;
    for (int i = 0; i < n; i++) {
        diff_ref none = {0};
        const diff_ref *p = i < x->is->as.nin ? &x->in[i] : &none, *q = i < y->is->as.nin ? &y->in[i] : &none;
        if (same_source(d, p, q)) continue;
        text_printf(t, "%sinput %d: %s -> %s", t->n ? "; " : "", i, source_text(x, i), source_text(y, i));
    }
}

// What differs between the nodes of a pair; "": nothing.
static const char *compare_nodes(diff *d, const diff_node *x, const diff_node *y) {
    text t = {.arena = d->arena};
    const model_node *a = &x->is->as, *b = &y->is->as;
    if (strcmp(a->op, b->op) != 0 || strcmp(a->domain, b->domain) != 0)
        text_printf(&t, "operator: %s%s%s -> %s%s%s", a->domain, *a->domain ? "." : "", a->op, b->domain,
                    *b->domain ? "." : "", b->op);
    for (int i = 0; i < a->nattrs; i++) compare_attr(d, &t, x, y, a->attrs[i].name);
    for (int i = 0; i < b->nattrs; i++)
        if (!find_attr(x->is, b->attrs[i].name)) compare_attr(d, &t, x, y, b->attrs[i].name);
    compare_inputs(d, &t, x, y);
    return text_str(&t);
}

static bool same_name(const diff_node *x, const diff_node *y) {
    return !x->name || !y->name || strcmp(x->name, y->name) == 0;
}

static int renamed_values(const diff_node *x, const diff_node *y) {
    int n = 0;
    for (int i = 0; i < x->is->as.nout && i < y->is->as.nout; i++)
        n += x->is->out[i] && y->is->out[i] && strcmp(x->is->out[i], y->is->out[i]) != 0;
    return n;
}

static const char *origin_text(diff *d, int side, const char *name, const diff_ref *r) {
    text t = {.arena = d->arena};
    if (r && r->from == FROM_NODE) text_add_node(&t, d->side[side].nodes.at[r->at].is->as.loc, true);
    else text_printf(&t, "'%s'", name);
    return text_str(&t);
}

static void compare_outputs(diff *d, diff_section *s) {
    const graph *a = module_of(d, 0)->main, *b = module_of(d, 1)->main;
    for (int j = 0; j < a->outputs.n; j++) {
        for (int i = 0; i < b->outputs.n; i++) {
            if (strcmp(a->output_names.at[j], b->output_names.at[i]) != 0) continue;
            const char *x = a->outputs.at[j]->name, *y = b->outputs.at[i]->name;
            const diff_ref *p = map_get(&d->side[0].refs, x), *q = map_get(&d->side[1].refs, y);
            if (p && q && same_source(d, p, q)) continue;
            diff_add(d, s,
                     (diff_item){.sign = '~',
                                 .kind = "output",
                                 .name = a->output_names.at[j],
                                 .snr = NAN,
                                 .text = arena_printf(d->arena, "from %s -> %s", origin_text(d, 0, x, p),
                                                      origin_text(d, 1, y, q))});
        }
    }
}

void diff_structure(diff *d) {
    diff_section *s = diff_begin(d, "structure");
    int alike = 0, changed = 0, only[2] = {0}, nodes = 0, values = 0;
    for (int k = 0; k < 2; k++) {
        for (int j = 0; j < d->side[k].nodes.n; j++) {
            const diff_node *x = &d->side[k].nodes.at[j];
            diff_item item = {.kind = "node", .name = x->is->as.loc->node, .snr = NAN};
            const diff_node *y = x->match < 0 ? NULL : &d->side[1].nodes.at[x->match];
            if (y && k) continue;
            const char *how = y ? compare_nodes(d, x, y) : "";
            if (y) nodes += !same_name(x, y), values += renamed_values(x, y);
            alike += y && !*how, changed += y && *how, only[k] += !y;
            if (y && !*how) continue;
            item.sign = y ? '~' : k ? '+' : '-';
            text t = {.arena = d->arena};
            if (y) text_add_node(&t, x->is->as.loc, true), text_printf(&t, ": %s", how);
            item.text = y ? text_str(&t) : node_text(d, x);
            diff_add(d, s, item);
        }
    }
    compare_outputs(d, s);
    text t = {.arena = d->arena};
    text_printf(&t, "%d -> %d nodes: %d alike, %d changed, %d removed, %d added", d->side[0].nodes.n,
                d->side[1].nodes.n, alike, changed, only[0], only[1]);
    if (nodes || values)
        text_printf(&t, "; renamed: %d node%s, %d value%s", nodes, nodes == 1 ? "" : "s", values,
                    values == 1 ? "" : "s");
    s->summary = text_str(&t);
}
