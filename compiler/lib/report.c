// Reports. In: a pipeline. Out: text or JSON.
#include "compiler/lib/report.h"
#include "codegen/host.h"
#include "compiler/lib/json.h"
#include "ir/op.h"
#include "ir/program.h"
#include "passes/memory.h"
#include <stdlib.h>
#include <string.h>

int report_parts(pipeline *p, report_part **parts) {
    int n = p->versions.n;
    *parts = ARENA_ARRAY(p->arena, report_part, n + 1);
    for (int j = 0; j < n; j++)
        (*parts)[j] =
            (report_part){p->versions.at[j].label, p->ways.at[j]->module, p->versions.at[j].program,
                          p->build ? &p->versions.at[j].plan : NULL, p->versions.at[j].first_kernel};
    if (!n) (*parts)[0] = (report_part){NULL, p->module, p->program, p->build ? &p->build->plan : NULL};
    return n ? n : 1;
}

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
    bool *used = ARENA_ARRAY(p->arena, bool, g->buffers.n + 1);
    program_walk(p->program, mark_buffers, used);
    for (int i = 0; i < g->buffers.n; i++) {
        const buffer *b = g->buffers.at[i];
        if (b->view_of || !used[i]) continue;
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

static void add_kernels(text *t, const program *g, int first) {
    text_printf(t, "kernels: %d\n", g->kernels.n);
    for (int i = 0; i < g->kernels.n; i++) {
        text_printf(t, "  %4d ", first + i);
        text_add_safe(t, g->kernels.at[i]->name, 60);
        text_printf(t, "  [%s]\n", axes_text(t->arena, g->kernels.at[i]));
    }
}

static const char *dim_bytes_text(arena *a, const dim *d) {
    return dim_is_const(d) ? bytes_text(a, dim_value(d)) : arena_printf(a, "%s bytes", dim_text(a, d));
}

static const char *place_name(const memory_place *m) { return m->buffer ? m->buffer->name : m->kernel->name; }

static void add_memory(text *t, const memory_plan *plan) {
    arena *a = t->arena;
    text_printf(t, "workspace: %s", dim_bytes_text(a, plan->workspace));
    if (plan->places.n) text_printf(t, "; %s if no memory were shared", dim_bytes_text(a, plan->sum));
    text_add(t, "\n");
    if (plan->places.n) text_add(t, "        offset       bytes    steps  holds\n");
    for (int i = 0; i < plan->places.n; i++) {
        const memory_place *m = &plan->places.at[i];
        text_printf(t, "  %12s %11s %4d-%-4d ", dim_text(a, m->offset), dim_text(a, m->size), m->first,
                    m->last);
        text_add_safe(t, place_name(m), 60);
        text_add(t, m->buffer ? "\n" : " (scratch)\n");
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
    report_part *parts;
    int n = report_parts(p, &parts);
    for (int i = 0; i < n; i++) {
        if (parts[i].label)
            text_add(&t, "version "), text_add_safe(&t, parts[i].label, 200), text_add(&t, ":\n");
        add_kernels(&t, parts[i].program, parts[i].first_kernel);
        if (parts[i].plan) add_memory(&t, parts[i].plan);
    }
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

static void json_dim(json *j, const char *key, const dim *d) {
    if (dim_is_const(d)) json_int(j, key, dim_value(d));
    else json_text(j, key, dim_text(j->out.arena, d));
}

static void json_type(json *j, const type *t) {
    json_text(j, "kind", kind_name(t->kind));
    if (t->elem != DT_NONE) json_text(j, "dtype", dtype_name(t->elem));
    if (t->kind == TYPE_TENSOR && t->rank >= 0) {
        json_open(j, "dims", '[');
        for (int i = 0; i < t->rank; i++) json_dim(j, NULL, t->dims[i]);
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

static void json_memory(json *j, const memory_plan *plan) {
    json_open(j, "memory", '{');
    json_dim(j, "workspace_bytes", plan->workspace);
    json_dim(j, "unshared_bytes", plan->sum);
    json_open(j, "places", '[');
    for (int i = 0; i < plan->places.n; i++) {
        const memory_place *m = &plan->places.at[i];
        json_open(j, NULL, '{');
        json_text(j, "kind", m->buffer ? "temporary" : "scratch");
        json_text(j, m->buffer ? "name" : "kernel", place_name(m));
        json_dim(j, "offset", m->offset);
        json_dim(j, "bytes", m->size);
        json_int(j, "first_step", m->first);
        json_int(j, "last_step", m->last);
        json_close(j, '}');
    }
    json_close(j, ']');
    json_close(j, '}');
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
    report_part *parts;
    int n = report_parts(p, &parts);
    if (n > 1) json_open(&j, "versions", '[');
    for (int i = 0; i < n; i++) {
        if (n > 1) json_open(&j, NULL, '{'), json_text(&j, "sizes", parts[i].label);
        json_kernels(&j, parts[i].program);
        if (parts[i].plan) json_memory(&j, parts[i].plan);
        if (n > 1) json_close(&j, '}');
    }
    if (n > 1) json_close(&j, ']');
    json_close(&j, '}');
    return arena_printf(p->arena, "%s\n", json_string(&j));
}
