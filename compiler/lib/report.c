// Reports. In: a pipeline. Out: text, JSON, or a graph for dot.
#include "compiler/lib/report.h"
#include "compiler/lib/json.h"
#include "ir/op.h"
#include "ir/program.h"
#include "passes/memory.h"
#include <stdlib.h>
#include <string.h>

// ---------------------------------------------------------------- facts
typedef struct op_tally {
    const char *name;
    int n;
} op_tally;
typedef struct facts {
    VEC(op_tally) ops; // most frequent first
    int nodes;
    int64_t parameters, parameter_bytes; // of constants that kernels read
    int nconstants;
    dim *temporaries; // bytes, as if nothing were reused
} facts;

static void count_ops(arena *a, facts *f, map *at, const graph *g) {
    for (int i = 0; i < g->nodes.n; i++) {
        const node *n = g->nodes.at[i];
        const char *name =
            *n->op->domain ? arena_printf(a, "%s.%s", n->op->domain, n->op->name) : n->op->name;
        uintptr_t k = (uintptr_t)map_get(at, name);
        if (!k) {
            VEC_PUSH(a, &f->ops, ((op_tally){name, 0}));
            k = (uintptr_t)f->ops.n;
            map_put(at, name, (void *)k);
        }
        f->ops.at[k - 1].n++;
        f->nodes++;
        for (int j = 0; j < n->nattrs; j++)
            if (n->attrs[j].kind == ATTR_GRAPH) count_ops(a, f, at, n->attrs[j].graph);
    }
}

static int by_count(const void *x, const void *y) {
    const op_tally *a = x, *b = y;
    return a->n != b->n ? b->n - a->n : strcmp(a->name, b->name);
}

static void mark_buffer(void *user, buffer *b) { ((bool *)user)[buffer_root(b)->id] = true; }
static void mark_buffers(void *user, region *r, step *s) {
    (void)r;
    step_buffers(s, mark_buffer, user);
}

static facts collect(pipeline *p) {
    facts f = {0};
    map at = {.arena = p->arena};
    count_ops(p->arena, &f, &at, p->module->main);
    if (f.ops.n) qsort(f.ops.at, (size_t)f.ops.n, sizeof *f.ops.at, by_count);
    const program *g = p->program;
    f.temporaries = dim_const(g->dims, 0);
    bool *used = ARENA_ARRAY(p->arena, bool, g->buffers.n + 1);
    program_walk(p->program, mark_buffers, used);
    for (int i = 0; i < g->buffers.n; i++) {
        const buffer *b = g->buffers.at[i];
        if (b->view_of || !used[i]) continue;
        if (b->role == BUF_TEMP) f.temporaries = dim_add(f.temporaries, buffer_bytes(b));
        if (b->role != BUF_CONST) continue;
        f.nconstants++;
        f.parameters += b->data->count;
        f.parameter_bytes += dtype_size(b->data->elem, b->data->count);
    }
    return f;
}

static const char *axes_text(arena *a, const kernel *k) {
    text t = {.arena = a};
    for (int i = 0; i < k->axes.n; i++) {
        const axis *x = &k->axes.at[i];
        const char *mark = x->kind == AXIS_REDUCE ? "+" : x->kind == AXIS_SCAN ? ">" : "";
        text_printf(&t, "%s%s%s=%s", i ? " " : "", mark, x->name, dim_text(a, x->extent));
    }
    return text_str(&t);
}

static const char *bytes_text(arena *a, int64_t n) {
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    double v = (double)n;
    int u = 0;
    for (; v >= 10240 && u < 4; u++) v /= 1024;
    return arena_printf(a, u ? "%.1f %s" : "%.0f %s", v, units[u]);
}

// ---------------------------------------------------------------- text
static void add_values(text *t, const char *title, value *const *v, int n, const char *const *names) {
    text_printf(t, "%s:\n", title);
    for (int i = 0; i < n; i++) {
        text_add(t, "  ");
        text_add_safe(t, names ? names[i] : v[i]->name, 200);
        text_printf(t, ": %s", type_text(t->arena, &v[i]->type));
        if (v[i]->doc && *v[i]->doc) text_add(t, "  // "), text_add_safe(t, v[i]->doc, 200);
        text_add(t, "\n");
    }
}

static void add_kernels(text *t, const program *g) {
    text_printf(t, "kernels: %d\n", g->kernels.n);
    for (int i = 0; i < g->kernels.n; i++) {
        text_printf(t, "  %4d ", i);
        text_add_safe(t, g->kernels.at[i]->name, 60);
        text_printf(t, "  [%s]\n", axes_text(t->arena, g->kernels.at[i]));
    }
}

const char *report_text(pipeline *p) {
    const module *m = p->module;
    facts f = collect(p);
    text t = {.arena = p->arena};
    text_add(&t, "model: ");
    text_add_safe(&t, m->name, 200);
    text_printf(&t, "\nproducer: ");
    text_add_safe(&t, m->producer ? m->producer : "", 200);
    text_printf(&t, "\nIR version: %d\n", m->ir_version);
    for (int i = 0; i + 1 < m->metadata.n; i += 2) {
        text_add(&t, "metadata: "), text_add_safe(&t, m->metadata.at[i], 100);
        text_add(&t, " = "), text_add_safe(&t, m->metadata.at[i + 1], 200), text_add(&t, "\n");
    }
    add_values(&t, "inputs", m->main->inputs.at, m->main->inputs.n, NULL);
    add_values(&t, "outputs", m->main->outputs.at, m->main->outputs.n, m->main->output_names.at);
    text_printf(&t, "nodes: %d\n", f.nodes);
    for (int i = 0; i < f.ops.n; i++) text_printf(&t, "  %6d  %s\n", f.ops.at[i].n, f.ops.at[i].name);
    text_printf(&t, "constants: %d, %lld elements, %s\n", f.nconstants, (long long)f.parameters,
                bytes_text(p->arena, f.parameter_bytes));
    add_kernels(&t, p->program);
    bool fixed = dim_is_const(f.temporaries);
    text_printf(&t, "temporaries: %s, before memory is shared\n",
                fixed ? bytes_text(p->arena, dim_value(f.temporaries))
                      : arena_printf(p->arena, "%s bytes", dim_text(p->arena, f.temporaries)));
    return text_str(&t);
}

// ---------------------------------------------------------------- JSON
static const char *kind_name(type_kind k) {
    switch (k) {
    case TYPE_NONE: return "none";
    case TYPE_TENSOR: return "tensor";
    case TYPE_SPARSE: return "sparse";
    case TYPE_SEQUENCE: return "sequence";
    case TYPE_OPTIONAL: return "optional";
    case TYPE_MAP: return "map";
    }
    return "none";
}

static void json_dim(json *j, arena *a, const dim *d) {
    if (dim_is_const(d)) json_int(j, NULL, dim_value(d));
    else json_text(j, NULL, dim_text(a, d));
}

static void json_type(json *j, const type *t) {
    json_text(j, "kind", kind_name(t->kind));
    if (t->elem != DT_NONE) json_text(j, "dtype", dtype_name(t->elem));
    if (t->kind == TYPE_TENSOR && t->rank >= 0) {
        json_open(j, "dims", '[');
        for (int i = 0; i < t->rank; i++) json_dim(j, j->out.arena, t->dims[i]);
        json_close(j, ']');
    }
    if (!t->item) return;
    json_open(j, "item", '{');
    json_type(j, t->item);
    json_close(j, '}');
}

static void json_values(json *j, const char *key, value *const *v, int n, const char *const *names) {
    json_open(j, key, '[');
    for (int i = 0; i < n; i++) {
        json_open(j, NULL, '{');
        json_text(j, "name", names ? names[i] : v[i]->name);
        json_type(j, &v[i]->type);
        if (v[i]->doc && *v[i]->doc) json_text(j, "doc", v[i]->doc);
        json_close(j, '}');
    }
    json_close(j, ']');
}

static void json_kernels(json *j, const program *g) {
    json_open(j, "kernels", '[');
    for (int i = 0; i < g->kernels.n; i++) {
        const kernel *k = g->kernels.at[i];
        json_open(j, NULL, '{');
        json_text(j, "name", k->name);
        if (k->loc && k->loc->node) json_text(j, "node", k->loc->node);
        if (k->loc && k->loc->op) json_text(j, "op", k->loc->op);
        json_open(j, "axes", '[');
        for (int x = 0; x < k->axes.n; x++) {
            axis_kind kind = k->axes.at[x].kind;
            json_open(j, NULL, '{');
            json_text(j, "kind", kind == AXIS_REDUCE ? "reduce" : kind == AXIS_SCAN ? "scan" : "parallel");
            json_text(j, "extent", dim_text(j->out.arena, k->axes.at[x].extent));
            json_close(j, '}');
        }
        json_close(j, ']');
        json_close(j, '}');
    }
    json_close(j, ']');
}

const char *report_json(pipeline *p) {
    const module *m = p->module;
    facts f = collect(p);
    json j = json_new_indented(p->arena);
    json_open(&j, NULL, '{');
    json_text(&j, "name", m->name);
    json_text(&j, "producer", m->producer);
    json_int(&j, "ir_version", m->ir_version);
    if (m->doc && *m->doc) json_text(&j, "doc", m->doc);
    json_open(&j, "metadata", '{');
    for (int i = 0; i + 1 < m->metadata.n; i += 2) json_text(&j, m->metadata.at[i], m->metadata.at[i + 1]);
    json_close(&j, '}');
    json_values(&j, "inputs", m->main->inputs.at, m->main->inputs.n, NULL);
    json_values(&j, "outputs", m->main->outputs.at, m->main->outputs.n, m->main->output_names.at);
    json_open(&j, "operators", '{');
    for (int i = 0; i < f.ops.n; i++) json_int(&j, f.ops.at[i].name, f.ops.at[i].n);
    json_close(&j, '}');
    json_open(&j, "constants", '{');
    json_int(&j, "count", f.nconstants), json_int(&j, "elements", f.parameters),
        json_int(&j, "bytes", f.parameter_bytes);
    json_close(&j, '}');
    json_kernels(&j, p->program);
    json_text(&j, "temporaries_bytes", dim_text(p->arena, f.temporaries));
    json_close(&j, '}');
    return arena_printf(p->arena, "%s\n", json_string(&j));
}

// ---------------------------------------------------------------- dot
static void dot_string(text *t, const char *s) {
    text_add(t, "\"");
    for (; *s; s++) {
        if (*s == '"' || *s == '\\') text_add(t, "\\");
        if ((unsigned char)*s >= ' ') text_addn(t, s, 1);
        else text_add(t, *s == '\n' ? "\\n" : " ");
    }
    text_add(t, "\"");
}

static void dot_edges(text *t, const graph *g, const value *v, const char *from) {
    for (int i = 0; i < v->uses.n; i++) {
        use u = v->uses.at[i];
        if (u.node ? u.node->graph != g : u.graph != g) continue;
        text_printf(t, "  %s -> ", from);
        if (u.node) text_printf(t, "n%d", u.node->id);
        else text_printf(t, "o%d", u.index);
        text_add(t, " [label=");
        dot_string(t, type_text(t->arena, &v->type));
        text_add(t, "];\n");
    }
}

const char *report_dot(pipeline *p) {
    const graph *g = p->module->main;
    arena *a = p->arena;
    text t = {.arena = a};
    text_add(&t, "digraph ");
    dot_string(&t, p->module->name ? p->module->name : "model");
    text_add(&t, " {\n  node [shape=box];\n");
    for (int i = 0; i < g->inputs.n; i++) {
        text_printf(&t, "  i%d [shape=ellipse, label=", i), dot_string(&t, g->inputs.at[i]->name),
            text_add(&t, "];\n");
        dot_edges(&t, g, g->inputs.at[i], arena_printf(a, "i%d", i));
    }
    for (int i = 0; i < g->outputs.n; i++)
        text_printf(&t, "  o%d [shape=ellipse, label=", i), dot_string(&t, g->output_names.at[i]),
            text_add(&t, "];\n");
    for (int i = 0; i < g->nodes.n; i++) {
        const node *n = g->nodes.at[i];
        const char *name = n->loc && n->loc->node ? n->loc->node : "";
        text_printf(&t, "  n%d [label=", n->id);
        dot_string(&t, *name ? arena_printf(a, "%s\n%s", n->op->name, name) : n->op->name);
        text_add(&t, "];\n");
        for (int j = 0; j < n->nout; j++)
            if (n->out[j]) dot_edges(&t, g, n->out[j], arena_printf(a, "n%d", n->id));
    }
    text_add(&t, "}\n");
    return text_str(&t);
}
