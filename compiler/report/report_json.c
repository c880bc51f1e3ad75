// The report as JSON. In: a pipeline. Out: interface, and for each version nodes, kernels with their costs,
// steps and memory plan.
#include "codegen/host/host.h"
#include "codegen/host/real_time.h"
#include "compiler/base/json.h"
#include "compiler/base/json_read.h"
#include "compiler/import/file.h"
#include "compiler/report/attr_text.h"
#include "compiler/report/report.h"
#include "compiler/report/report_impl.h"
#include "ir/graph/op.h"
#include "ir/kernel/kernel_cost.h"
#include "ir/kernel/uses.h"
#include "passes/memory/memory_peak.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void json_type_of(json *j, const type *t) {
    json_text(j, "kind", type_kind_name(t->kind));
    if (t->elem != DT_NONE) json_text(j, "dtype", dtype_name(t->elem));
    if (t->kind == TYPE_TENSOR && t->rank >= 0) {
        json_open(j, "dims", '[');
        for (int i = 0; i < t->rank; i++) report_dim(j, NULL, t->dims[i]);
        json_close(j, ']');
    }
    if (!t->item) return;
    json_open(j, "item", '{');
    json_type_of(j, t->item);
    json_close(j, '}');
}

// Keys of the columns of a table that represents maps.
static void json_labels(json *j, const value *v) {
    const constant *labels;
    if (!value_table(v, &labels)) return;
    json_open(j, "labels", '[');
    for (int64_t i = 0; i < labels->count; i++) {
        if (labels->kind == CONST_STRINGS) json_text(j, NULL, labels->strings[i]);
        else json_int(j, NULL, constant_int(labels, i));
    }
    json_close(j, ']');
}

static void json_values(json *j, const char *key, value *const *v, int n, const char *const *names) {
    json_open(j, key, '[');
    for (int i = 0; i < n; i++) {
        json_open(j, NULL, '{');
        json_text(j, "name", names ? names[i] : v[i]->name);
        json_type_of(j, &v[i]->type);
        json_labels(j, v[i]);
        if (v[i]->fallback) json_raw(j, "has_default", "true");
        if (v[i]->doc && *v[i]->doc) json_text(j, "doc", v[i]->doc);
        json_close(j, '}');
    }
    json_close(j, ']');
}

// ---------------------------------------------------------------- nodes
enum { SHOWN_MOST = 16, TEXT_MOST = 200 };

// As attr_value_text, but of long lists and texts the beginning.
static const char *attribute_text(arena *a, const attr *x) {
    text t = {.arena = a};
    attr some = *x;
    bool list = x->kind == ATTR_INTS || x->kind == ATTR_FLOATS || x->kind == ATTR_STRINGS;
    if (list && x->n > SHOWN_MOST) some.n = SHOWN_MOST;
    if (x->kind == ATTR_STRING) text_add_safe(&t, x->s, TEXT_MOST);
    else if (x->kind == ATTR_GRAPH)
        text_printf(&t, "graph of %d node%s", x->graph->nodes.n, x->graph->nodes.n == 1 ? "" : "s");
    else text_add_safe(&t, attr_value_text(a, &some), SHOWN_MOST * TEXT_MOST);
    if (some.n < x->n && t.s[t.n - 1] == ']') t.s[--t.n] = 0, text_add(&t, ", ...]");
    return text_str(&t);
}

static void json_value_ref(json *j, const value *v) {
    if (!v) {
        json_text(j, NULL, "");
        return;
    }
    json_open(j, NULL, '{');
    json_text(j, "name", v->name);
    json_text(j, "type", type_text(j->out.arena, &v->type));
    if (v->constant && !v->def) json_bool(j, "constant", true);
    json_close(j, '}');
}

// The operator in the file, where passes replaced it by others, and its version there.
static void json_origin(json *j, const node *n) {
    const loc *at = n->loc;
    if (!at || !at->op || !*at->op) return;
    if (strcmp(at->op, n->op->name) != 0) json_text(j, "from", at->op);
    if (at->version > 0) json_int(j, "version", at->version);
}

// For the page: the graph of a node, and the calls of functions around it, the innermost one first. Nodes made
// from the same one have the same place.
static void json_place(json *j, const node *n, map *places) {
    uint64_t at = (uint64_t)(uintptr_t)n->loc;
    intptr_t place = (intptr_t)map_get_number(places, at);
    if (!place) map_put_number(places, at, (void *)(place = places->n + 1));
    json_int(j, "graph", n->graph->id);
    json_int(j, "place", place);
    if (!n->loc || !n->loc->via) return;
    json_open(j, "via", '[');
    for (const loc *v = n->loc->via; v; v = v->via)
        json_text(j, NULL, arena_printf(j->out.arena, "%s %s", v->op ? v->op : "", v->node ? v->node : ""));
    json_close(j, ']');
}

typedef struct node_writer {
    json *j;
    map kernels_of, places;
    bool page;
} node_writer;

static void json_node(node_writer *w, const node *n, const node *inside) {
    json *j = w->j;
    json_open(j, NULL, '{');
    json_int(j, "id", n->id);
    json_text(j, "op", n->op->name);
    if (*n->op->domain) json_text(j, "domain", n->op->domain);
    json_origin(j, n);
    json_text(j, "name", n->loc && n->loc->node ? n->loc->node : "");
    if (inside) json_int(j, "inside", inside->id);
    if (w->page) json_place(j, n, &w->places);
    const char *kernels = map_get_number(&w->kernels_of, (uint64_t)n->id + 1);
    json_raw(j, "kernels", arena_printf(j->out.arena, "[%s]", kernels ? kernels : ""));
    json_open(j, "inputs", '[');
    for (int i = 0; i < n->nin; i++) json_value_ref(j, n->in[i]);
    json_close(j, ']');
    json_open(j, "outputs", '[');
    for (int i = 0; i < n->nout; i++) json_value_ref(j, n->out[i]);
    json_close(j, ']');
    json_open(j, "attributes", '{');
    for (int i = 0; i < n->nattrs; i++)
        json_text(j, n->attrs[i].name, attribute_text(j->out.arena, &n->attrs[i]));
    json_close(j, '}');
    json_close(j, '}');
    for (int i = 0; node_region(n, i); i++)
        for (int k = 0; k < node_region(n, i)->nodes.n; k++)
            json_node(w, node_region(n, i)->nodes.at[k], inside ? inside : n);
}

// ---------------------------------------------------------------- graphs of the page
static void json_ports(json *j, const char *key, value *const *v, int n, const char *const *names) {
    json_open(j, key, '[');
    for (int i = 0; i < n; i++) {
        json_open(j, NULL, '{');
        json_text(j, "name", names && names[i] ? names[i] : v[i]->name);
        json_text(j, "value", v[i]->name);
        json_text(j, "type", type_text(j->out.arena, &v[i]->type));
        json_close(j, '}');
    }
    json_close(j, ']');
}

static const char *region_name(const node *n, const graph *g) {
    for (int i = 0; i < n->nattrs; i++)
        if (n->attrs[i].kind == ATTR_GRAPH && n->attrs[i].graph == g) return n->attrs[i].name;
    return "body";
}

static void json_graph(json *j, const graph *g) {
    json_open(j, NULL, '{');
    json_int(j, "id", g->id);
    if (g->owner) {
        json_int(j, "owner", g->owner->id);
        json_text(j, "name", region_name(g->owner, g));
    }
    json_ports(j, "inputs", g->inputs.at, g->inputs.n, NULL);
    json_ports(j, "outputs", g->outputs.at, g->outputs.n, g->output_names.at);
    json_close(j, '}');
    for (int i = 0; i < g->nodes.n; i++)
        for (int k = 0; node_region(g->nodes.at[i], k); k++) json_graph(j, node_region(g->nodes.at[i], k));
}

static void json_nodes(json *j, const report_part *part, bool page) {
    const graph *g = part->module->main;
    arena *a = j->out.arena;
    node_writer w = {.j = j, .kernels_of = report_kernels_of(a, part), .places.arena = a, .page = page};
    if (page) {
        json_open(j, "graphs", '[');
        json_graph(j, g);
        json_close(j, ']');
        report_weights(j, g);
    }
    json_open(j, "nodes", '[');
    for (int i = 0; i < g->nodes.n; i++) json_node(&w, g->nodes.at[i], NULL);
    json_close(j, ']');
}

typedef struct timed {
    const char *version, *kernel;
    double seconds;
} timed;
struct kernel_times {
    arena *arena;
    VEC(timed) all;
    double flops, bandwidth; // peaks of the machine a second; 0: not known
    map next;                // version and kernel -> index at which to search for the next match
};

// ---------------------------------------------------------------- kernels
static void json_size(json *j, const char *key, const dim *d) {
    if (d->kind == DIM_OVERFLOW) json_text(j, key, NULL);
    else report_dim(j, key, d);
}

// The loops of a kernel, up to the length that a page has for them: of each kernel, and together.
static const char *kernel_text(const json *j, const kernel *k) {
    enum { LOOPS_MOST = 6000, PAGE_MOST = 16 << 20 };
    arena *a = j->out.arena;
    if (j->out.n > PAGE_MOST) return "...";
    const char *all = kernel_print(a, k);
    if (strlen(all) <= LOOPS_MOST) return all;
    int n = LOOPS_MOST;
    while (all[n - 1] != '\n' && n > 1) n--;
    return arena_printf(a, "%.*s...\n", n, all);
}

// Estimates.
static void json_cost(json *j, const code_cost *c) {
    json_int(j, "instructions", (int64_t)llround(c->instructions));
    json_int(j, "cycles", (int64_t)llround(c->cycles));
}

static void json_kernel(json *j, const report_part *part, const kernel *k, const dim *macs,
                        kernel_times *times, bool page) {
    kernel_cost cost = kernel_cost_of(k);
    double seconds = times ? kernel_times_take(times, part->label, k->name) : -1;
    json_open(j, NULL, '{');
    json_int(j, "number", part->first_kernel + k->id);
    json_text(j, "name", k->name);
    if (k->loc && k->loc->node) json_text(j, "node", k->loc->node);
    if (k->loc && k->loc->op) json_text(j, "op", k->loc->op);
    if (k->algorithm) json_text(j, "algorithm", k->algorithm);
    json_open(j, "axes", '[');
    for (int x = 0; x < k->axes.n; x++) {
        axis_kind kind = k->axes.at[x].kind;
        json_open(j, NULL, '{');
        json_text(j, "kind", kind == AXIS_REDUCE ? "reduce" : kind == AXIS_SCAN ? "scan" : "parallel");
        json_text(j, "extent", dim_text(j->out.arena, k->axes.at[x].extent));
        json_close(j, '}');
    }
    json_close(j, ']');
    json_size(j, "flops", cost.flops);
    json_size(j, "macs", macs);
    json_size(j, "bytes_read", cost.read);
    json_size(j, "bytes_written", cost.written);
    if (seconds >= 0) json_number(j, "seconds", seconds);
    if (part->build && part->build->cost) {
        code_cost estimate = build_kernel_cost(part->build, part->first_kernel + k->id);
        json_cost(j, &estimate);
    }
    report_gpu_json(j, part, k);
    if (page) json_text(j, "text", kernel_text(j, k));
    json_close(j, '}');
}

static void json_kernels(json *j, const report_part *part, kernel_times *times, bool page) {
    dim *const *macs = kernel_macs(j->out.arena, part->program);
    json_open(j, "kernels", '[');
    for (int i = 0; i < part->program->kernels.n; i++)
        json_kernel(j, part, part->program->kernels.at[i], macs[i], times, page);
    json_close(j, ']');
}

// ---------------------------------------------------------------- memory
// Numbered as in the memory plan: the end of a loop is a step too.
static void json_steps(json *j, arena *a, const program *p, int first_kernel) {
    const uses *u = uses_build(a, p);
    for (int i = 0; i < u->n; i++) {
        const step *s = u->sites[i].s;
        if (s->kind != STEP_KERNEL && s->kind != STEP_LIB) continue;
        json_open(j, NULL, '{');
        json_int(j, "step", u->sites[i].time);
        if (s->kind == STEP_KERNEL) json_int(j, "kernel", first_kernel + s->kernel->id);
        else json_text(j, "library", s->lib);
        if (s->kind == STEP_LIB && s->loc && s->loc->node) json_text(j, "node", s->loc->node);
        json_close(j, '}');
    }
}

static void json_pools(json *j, const report_part *part) {
    json_open(j, "pools", '[');
    for (int i = 0; i < part->pools.n; i++) {
        const memory_pool *x = &part->pools.at[i];
        json_open(j, NULL, '{');
        json_text(j, "name", x->name);
        if (x->section) json_text(j, "section", x->section);
        json_int(j, "bytes", x->bytes);
        json_int(j, "used_bytes", part->plan->pool_bytes[i]);
        json_close(j, '}');
    }
    json_close(j, ']');
}

static void json_memory(json *j, const report_part *part) {
    const memory_plan *plan = part->plan;
    memory_uses peaks = memory_peaks(j->out.arena, part->program, plan);
    json_open(j, "memory", '{');
    report_dim(j, "workspace_bytes", plan->workspace);
    report_dim(j, "unshared_bytes", plan->sum);
    if (peaks.n) json_int(j, "peak_bytes", peaks.at[0].bytes), json_int(j, "peak_step", peaks.at[0].step);
    patch_loops patches = memory_patches(j->out.arena, part->program);
    if (patches.n) json_open(j, "patches", '[');
    for (int i = 0; i < patches.n; i++) {
        const patch_loop *l = &patches.at[i];
        json_open(j, NULL, '{');
        json_int(j, "first_kernel", part->first_kernel + l->first);
        json_int(j, "last_kernel", part->first_kernel + l->last);
        json_int(j, "steps", l->steps), json_int(j, "rows", l->rows);
        json_close(j, '}');
    }
    if (patches.n) json_close(j, ']');
    if (part->pools.n) json_pools(j, part);
    json_open(j, "places", '[');
    for (int i = 0; i < plan->allocations.n; i++) {
        const allocation *m = &plan->allocations.at[i];
        json_open(j, NULL, '{');
        json_text(j, "kind", m->buffer ? "temporary" : "scratch");
        json_text(j, m->buffer ? "name" : "kernel", m->buffer ? m->buffer->name : m->kernel->name);
        report_dim(j, "offset", m->offset);
        report_dim(j, "bytes", m->size);
        if (part->pools.n) json_text(j, "pool", part->pools.at[m->pool].name);
        json_int(j, "first_step", m->first);
        json_int(j, "last_step", m->last);
        json_close(j, '}');
    }
    json_close(j, ']');
    json_close(j, '}');
}

// ---------------------------------------------------------------- the report
static void json_part(json *j, const report_part *part, kernel_times *times, bool page) {
    json_nodes(j, part, page);
    json_kernels(j, part, times, page);
    json_open(j, "steps", '[');
    json_steps(j, part->program->arena, part->program, part->first_kernel);
    json_close(j, ']');
    if (part->plan) json_memory(j, part);
}

static void json_footprint(json *j, const footprint *x) {
    json_open(j, "footprint", '{');
    json_int(j, "flash_bytes", (int64_t)(x->code + x->constants + x->data));
    json_int(j, "code_bytes", (int64_t)x->code);
    json_int(j, "constant_bytes", (int64_t)x->constants);
    json_int(j, "variable_bytes", (int64_t)(x->data + x->zeros));
    if (x->stack > 0) json_int(j, "stack_bytes", x->stack);
    if (x->stack_note) json_text(j, "stack_note", x->stack_note);
    json_close(j, '}');
    if (!x->build || !x->build->cost) return;
    json_open(j, "estimate", '{');
    json_cost(j, &x->build->cost->all);
    json_close(j, '}');
}

static void json_list(json *j, const char *key, const string_list *l) {
    json_open(j, key, '[');
    for (int i = 0; i < l->n; i++) json_text(j, NULL, l->at[i]);
    json_close(j, ']');
}

static void json_real_time(json *j, const real_time *r) {
    json_open(j, "real_time", '{');
    json_bool(j, "safe", !r->faults.n);
    json_list(j, "faults", &r->faults);
    json_list(j, "callbacks", &r->callbacks);
    json_list(j, "varying", &r->varying);
    json_close(j, '}');
}

static const char *file_name(const char *path) {
    const char *slash = path ? strrchr(path, '/') : NULL;
    return slash ? slash + 1 : path;
}

static const char *target_text(pipeline *p) {
    const target *t = p->target;
    return t ? arena_printf(p->arena, "%s, %s", t->triple, t->cpu) : NULL;
}

static void write_report(pipeline *p, json *j, bool page) {
    const module *m = p->module;
    report_facts f = report_collect(p);
    json_open(j, NULL, '{');
    json_text(j, "name", m->name);
    json_text(j, "producer", m->producer);
    json_int(j, "ir_version", m->ir_version);
    json_open(j, "opsets", '{');
    for (int i = 0; i < m->opsets.n; i++) {
        const char *domain = m->opsets.slots[i].key;
        json_int(j, *domain ? domain : "ai.onnx", (int64_t)(intptr_t)m->opsets.slots[i].value);
    }
    json_close(j, '}');
    if (m->doc && *m->doc) json_text(j, "doc", m->doc);
    json_open(j, "metadata", '{');
    for (int i = 0; i + 1 < m->metadata.n; i += 2) json_text(j, m->metadata.at[i], m->metadata.at[i + 1]);
    json_close(j, '}');
    json_values(j, "inputs", m->main->inputs.at, m->main->inputs.n, NULL);
    json_values(j, "outputs", m->main->outputs.at, m->main->outputs.n, m->main->output_names.at);
    json_open(j, "operators", '{');
    for (int i = 0; i < f.ops.n; i++) json_int(j, f.ops.at[i].name, f.ops.at[i].n);
    json_close(j, '}');
    json_open(j, "constants", '{');
    json_int(j, "count", f.nconstants), json_int(j, "elements", f.parameters),
        json_int(j, "bytes", f.parameter_bytes);
    json_close(j, '}');
    if (p->build) json_real_time(j, p->build->real_time);
    if (p->footprint) json_footprint(j, p->footprint);
    report_part *parts;
    int n = report_parts(p, &parts);
    kernel_times *times = p->options->times ? kernel_times_read(p, p->options->times) : NULL;
    if (times && times->flops > 0) json_number(j, "peak_flops", times->flops);
    if (times && times->bandwidth > 0) json_number(j, "peak_bytes_per_second", times->bandwidth);
    if (page) json_text(j, "target", target_text(p)), json_text(j, "file", file_name(m->file));
    if (n > 1) json_open(j, "versions", '[');
    for (int i = 0; i < n; i++) {
        if (n > 1) json_open(j, NULL, '{'), json_text(j, "sizes", parts[i].label);
        json_part(j, &parts[i], times, page);
        if (n > 1) json_close(j, '}');
    }
    if (n > 1) json_close(j, ']');
    json_close(j, '}');
}

const char *report_json(pipeline *p) {
    json j = json_new_indented(p->arena);
    write_report(p, &j, false);
    return arena_printf(p->arena, "%s\n", json_done(&j));
}

const char *report_page_data(pipeline *p) {
    json j = json_new(p->arena);
    write_report(p, &j, true);
    return json_done(&j);
}

// ---------------------------------------------------------------- measured times
kernel_times *kernel_times_read(pipeline *p, const char *path) {
    enum { FILE_MOST = 1 << 28 };
    mapped m = file_map(p->arena, p->diag, path, FILE_MOST);
    const char *what = arena_printf(p->arena, "--times: '%s' is not valid JSON: ", path);
    json_t *v = json_parse(p->arena, p->diag, what, (const char *)m.data, m.size), *k;
    const json_t *list = json_object_get(v, "kernels");
    kernel_times *t = ARENA_NEW(p->arena, kernel_times);
    t->arena = t->next.arena = p->arena;
    if (!json_is_array(list)) {
        diag_hint(p->diag, "onnxc bench MODEL --save-times FILE writes such a file");
        diag_fatal(p->diag, NULL, "--times: '%s' does not contain a list of kernels", path);
    }
    const json_t *flops = json_object_get(v, "peak_flops"),
                 *bandwidth = json_object_get(v, "peak_bytes_per_second");
    if (json_is_number(flops)) t->flops = json_number_value(flops);
    if (json_is_number(bandwidth)) t->bandwidth = json_number_value(bandwidth);
    size_t i;
    json_array_foreach(list, i, k) {
        const json_t *s = json_object_get(k, "seconds");
        double seconds = json_is_number(s) ? json_number_value(s) : -1;
        if (!(seconds >= 0) || seconds > 1e9) continue;
        VEC_PUSH(p->arena, &t->all, ((timed){json_text_of(k, "version"), json_text_of(k, "name"), seconds}));
    }
    return t;
}

double kernel_times_take(kernel_times *t, const char *version, const char *kernel) {
    const char *key = arena_printf(t->arena, "%s\n%s", version ? version : "", kernel);
    for (int i = (int)(intptr_t)map_get(&t->next, key); i < t->all.n; i++) {
        const timed *x = &t->all.at[i];
        if (strcmp(x->kernel, kernel) != 0 || strcmp(x->version, version ? version : "") != 0) continue;
        map_put(&t->next, key, (void *)(intptr_t)(i + 1));
        return x->seconds;
    }
    return -1;
}
