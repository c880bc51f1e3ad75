// Reports. In: a pipeline. Out: text.
#include "compiler/report/report.h"
#include "codegen/host/host.h"
#include "codegen/host/real_time.h"
#include "compiler/report/report_impl.h"
#include "ir/graph/op.h"
#include "ir/kernel/kernel_cost.h"
#include "ir/kernel/program.h"
#include "ir/kernel/uses.h"
#include "passes/memory/memory_peak.h"
#include <stdlib.h>
#include <string.h>

int report_parts(pipeline *p, report_part **parts) {
    int n = p->versions.n;
    *parts = ARENA_ARRAY(p->arena, report_part, n + 1);
    for (int j = 0; j < n; j++) {
        const version *v = &p->versions.at[j];
        module *m = p->pipelines.at[j]->module;
        const memory_plan *plan = p->build ? &v->plan : NULL;
        (*parts)[j] = (report_part){v->label, m, v->program, plan, v->first_kernel, v->gpu};
    }
    if (!n)
        (*parts)[0] = (report_part){.module = p->module,
                                    .program = p->program,
                                    .plan = p->build ? &p->build->plan : NULL,
                                    .gpu = p->gpu_program ? NULL : p->gpu};
    for (int j = 0; j < (n ? n : 1); j++) {
        (*parts)[j].pools = options_pools(p->arena, p->options);
        (*parts)[j].build = p->footprint ? p->footprint->build : NULL;
    }
    return n ? n : 1;
}

// ---------------------------------------------------------------- kernels of nodes
static void note_nodes(map *by_loc, const graph *g) {
    for (int i = 0; i < g->nodes.n; i++) {
        node *n = g->nodes.at[i];
        map_put_number(by_loc, (uint64_t)(uintptr_t)n->loc, n);
        for (int k = 0; node_region(n, k); k++) note_nodes(by_loc, node_region(n, k));
    }
}

static void note_kernel(map *kernels, const map *by_loc, const loc *at, int number) {
    const node *n = NULL;
    for (; at && !n; at = at->via) n = map_get_number(by_loc, (uint64_t)(uintptr_t)at);
    if (!n) return;
    const char *known = map_get_number(kernels, (uint64_t)n->id + 1);
    char *all = known ? arena_printf(kernels->arena, "%s, %d", known, number)
                      : arena_printf(kernels->arena, "%d", number);
    map_put_number(kernels, (uint64_t)n->id + 1, all);
}

map report_kernels_of(arena *a, const report_part *part) {
    map by_loc = {.arena = a}, kernels = {.arena = a};
    note_nodes(&by_loc, part->module->main);
    for (int i = 0; part->program && i < part->program->kernels.n; i++) {
        const kernel *k = part->program->kernels.at[i];
        for (int x = 0; x < k->nodes.n; x++)
            note_kernel(&kernels, &by_loc, k->nodes.at[x], part->first_kernel + i);
    }
    return kernels;
}

// ---------------------------------------------------------------- facts
// Adds the version of n's operator in the file, unless it is listed.
static void note_version(arena *a, report_tally *t, const node *n) {
    const loc *at = n->loc;
    if (!at || !at->op || at->version <= 0 || strcmp(at->op, n->op->name) != 0) return;
    const char *v = arena_printf(a, "%d", at->version);
    for (const char *s = t->versions; s; s = strchr(s, ',') ? strchr(s, ',') + 1 : NULL)
        if (strtol(s, NULL, 10) == at->version) return;
    t->versions = t->versions ? arena_printf(a, "%s,%s", t->versions, v) : v;
}

static void count_ops(arena *a, report_facts *f, map *at, const graph *g) {
    for (int i = 0; i < g->nodes.n; i++) {
        const node *n = g->nodes.at[i];
        const char *name =
            *n->op->domain ? arena_printf(a, "%s.%s", n->op->domain, n->op->name) : n->op->name;
        uintptr_t k = (uintptr_t)map_get(at, name);
        if (!k) {
            VEC_PUSH(a, &f->ops, ((report_tally){.name = name}));
            k = (uintptr_t)f->ops.n;
            map_put(at, name, (void *)k);
        }
        f->ops.at[k - 1].n++;
        note_version(a, &f->ops.at[k - 1], n);
        f->nodes++;
        for (int j = 0; node_region(n, j); j++) count_ops(a, f, at, node_region(n, j));
    }
}

static int by_count(const void *x, const void *y) {
    const report_tally *a = x, *b = y;
    return a->n != b->n ? b->n - a->n : strcmp(a->name, b->name);
}

report_facts report_collect(pipeline *p) {
    report_facts f = {0};
    map at = {.arena = p->arena};
    count_ops(p->arena, &f, &at, p->module->main);
    if (f.ops.n) qsort(f.ops.at, (size_t)f.ops.n, sizeof *f.ops.at, by_count);
    const program *g = p->program;
    const uses *u = uses_build(p->arena, g);
    for (int i = 0; i < g->buffers.n; i++) {
        const buffer *b = g->buffers.at[i];
        if (b->role != BUF_CONST || b->view_of || !u->of[i].sites.n) continue;
        f.nconstants++;
        f.parameters += b->data->count;
        f.parameter_bytes += dtype_size(b->data->elem, b->data->count);
    }
    return f;
}

static void add_axis(text *t, const axis *x) {
    const char *mark = x->kind == AXIS_REDUCE ? "+" : x->kind == AXIS_SCAN ? ">" : "";
    text_printf(t, "%s%s%s=%s", t->n ? " " : "", mark, x->name, dim_brief(t->arena, x->extent));
}

// The axes that all stages share, then those of each stage: "i=4 j=8 | k=2".
static const char *axes_text(arena *a, const kernel *k) {
    text t = {.arena = a};
    for (int i = 0; i < k->nouter; i++) add_axis(&t, &k->axes.at[i]);
    for (int i = 0; i < k->stages.n; i++) {
        const stage *s = k->stages.at[i];
        if (i && s->axes.n) text_add(&t, " |");
        for (int j = 0; j < s->axes.n; j++) add_axis(&t, &k->axes.at[s->axes.at[j]]);
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
        if (v[i]->fallback) text_add(t, ", may be left out");
        if (v[i]->doc && *v[i]->doc) text_add(t, "  // "), text_add_safe(t, v[i]->doc, 200);
        text_add(t, "\n");
    }
}

static const char *macs_text(arena *a, const dim *macs) {
    if (dim_is_const(macs)) return dim_value(macs) ? arena_printf(a, ", %s MACs", dim_text(a, macs)) : "";
    return macs->kind == DIM_OVERFLOW ? "" : arena_printf(a, ", %s MACs", dim_brief(a, macs));
}

// Estimates of the part's build; "": there are none.
static const char *cycles_text(arena *a, const report_part *part, code_cost c) {
    if (!part->build || !part->build->cost) return "";
    return arena_printf(a, ", %.0f cycles in %.0f instructions", c.cycles, c.instructions);
}

static code_cost cost_of_kernel(const report_part *part, int number) {
    return part->build ? build_kernel_cost(part->build, number) : (code_cost){0};
}

const char *time_text(arena *a, double seconds) {
    if (seconds < 1e-3) return arena_printf(a, "%.2f us", 1e6 * seconds);
    return seconds < 1 ? arena_printf(a, "%.3f ms", 1e3 * seconds) : arena_printf(a, "%.3f s", seconds);
}

static void add_kernels(text *t, const report_part *part, kernel_times *times) {
    const program *g = part->program;
    const build *b = part->build;
    dim *const *macs = kernel_macs(t->arena, g);
    text_printf(t, "kernels: %d%s%s\n", g->kernels.n, macs_text(t->arena, program_macs(g)),
                cycles_text(t->arena, part, b && b->cost ? b->cost->all : (code_cost){0}));
    for (int i = 0; i < g->kernels.n; i++) {
        const kernel *k = g->kernels.at[i];
        int number = part->first_kernel + i;
        text_printf(t, "  %4d ", number);
        text_add_short(t, k->name);
        text_printf(t, "  [%s]%s%s", axes_text(t->arena, k), macs_text(t->arena, macs[k->id]),
                    cycles_text(t->arena, part, cost_of_kernel(part, number)));
        double seconds = times ? kernel_times_take(times, part->label, k->name) : -1;
        text_printf(t, "%s%s\n", seconds >= 0 ? ", " : "", seconds >= 0 ? time_text(t->arena, seconds) : "");
        report_gpu_text(t, part, g->kernels.at[i]);
    }
}

static const char *dim_bytes_text(arena *a, const dim *d) {
    return dim_is_const(d) ? bytes_text(a, dim_value(d)) : arena_printf(a, "%s bytes", dim_brief(a, d));
}

static const char *place_name(const allocation *m) { return m->buffer ? m->buffer->name : m->kernel->name; }

static void add_patches(text *t, const report_part *part) {
    patch_loops all = memory_patches(t->arena, part->program);
    for (int i = 0; i < all.n; i++) {
        const patch_loop *l = &all.at[i];
        text_printf(t, "patches: kernels %d to %d run in %lld steps of %lld row%s\n",
                    part->first_kernel + l->first, part->first_kernel + l->last, (long long)l->steps,
                    (long long)l->rows, l->rows == 1 ? "" : "s");
    }
}

static void add_pools(text *t, const report_part *part) {
    for (int i = 0; i < part->pools.n; i++) {
        const memory_pool *x = &part->pools.at[i];
        text_printf(t, "%spool %s: %lld of %lld bytes", i ? "\n" : "", x->name,
                    (long long)part->plan->pool_bytes[i], (long long)x->bytes);
        if (x->section) text_printf(t, " in section %s", x->section);
    }
}

// One row for each place of the workspace.
static void add_places(text *t, const report_part *part) {
    arena *a = t->arena;
    const memory_plan *plan = part->plan;
    int wide[2] = {12, 11};
    for (int i = 0; i < plan->allocations.n; i++) {
        const allocation *m = &plan->allocations.at[i];
        int width[2] = {(int)strlen(dim_brief(a, m->offset)), (int)strlen(dim_brief(a, m->size))};
        for (int j = 0; j < 2; j++)
            if (width[j] > wide[j]) wide[j] = width[j];
    }
    if (plan->allocations.n)
        text_printf(t, "  %*s %*s    steps  holds\n", wide[0], "offset", wide[1], "bytes");
    for (int i = 0; i < plan->allocations.n; i++) {
        const allocation *m = &plan->allocations.at[i];
        text_printf(t, "  %*s %*s %4d-%-4d ", wide[0], dim_brief(a, m->offset), wide[1],
                    dim_brief(a, m->size), m->first, m->last);
        text_add_short(t, place_name(m));
        text_add(t, m->buffer ? "" : " (scratch)");
        if (part->pools.n) text_printf(t, ", in %s", part->pools.at[m->pool].name);
        text_add(t, "\n");
    }
}

static void add_memory(text *t, const report_part *part) {
    arena *a = t->arena;
    const memory_plan *plan = part->plan;
    if (part->pools.n) add_pools(t, part);
    else text_printf(t, "workspace: %s", dim_bytes_text(a, plan->workspace));
    const char *sum = dim_text(a, plan->sum);
    if (plan->allocations.n && strlen(sum) <= DIM_SHORT)
        text_printf(t, "; %s without reuse of memory", dim_bytes_text(a, plan->sum));
    text_add(t, "\n");
    memory_uses peaks = memory_peaks(a, part->program, plan);
    if (peaks.n && peaks.at[0].kernel) {
        text_printf(t, "peak: %s at kernel %d ", bytes_text(a, peaks.at[0].bytes),
                    part->first_kernel + peaks.at[0].kernel->id);
        text_add_short(t, peaks.at[0].kernel->name);
        text_add(t, "\n");
    }
    add_places(t, part);
}

static void add_real_time(text *t, const real_time *r) {
    text_printf(t, "real-time safe: %s\n", real_time_text(t->arena, r));
    for (int i = 0; i < r->varying.n; i++)
        text_printf(t, "%s%s\n", i ? "                " : "time varies:    ", r->varying.at[i]);
}

static void add_footprint(text *t, const footprint *x) {
    text_printf(t, "flash: %llu bytes; %llu of code, %llu of constants",
                (unsigned long long)(x->code + x->constants + x->data), (unsigned long long)x->code,
                (unsigned long long)x->constants);
    if (x->data) text_printf(t, ", %llu of initial values", (unsigned long long)x->data);
    text_printf(t, "\nRAM: %llu bytes of variables, besides the workspace and the stack\n",
                (unsigned long long)(x->data + x->zeros));
    if (x->stack < 0) text_printf(t, "stack: not known: %s\n", x->stack_note);
    if (x->stack > 0)
        text_printf(t, "stack: %lld bytes%s%s\n", (long long)x->stack, x->stack_note ? ", " : "",
                    x->stack_note ? x->stack_note : "");
}

static void add_opsets(text *t, const map *opsets) {
    for (int i = 0; i < opsets->n; i++) {
        const char *domain = opsets->slots[i].key;
        text_add(t, i ? ", " : "opset: ");
        text_add_safe(t, *domain ? domain : "ai.onnx", 200);
        text_printf(t, " %d", (int)(intptr_t)opsets->slots[i].value);
    }
    if (opsets->n) text_add(t, "\n");
}

const char *report_text(pipeline *p) {
    const module *m = p->module;
    report_facts f = report_collect(p);
    text t = {.arena = p->arena};
    text_add(&t, "model: ");
    text_add_safe(&t, m->name, 200);
    if (m->producer && *m->producer) text_add(&t, "\nproducer: "), text_add_safe(&t, m->producer, 200);
    text_printf(&t, "\nIR version: %d\n", m->ir_version);
    add_opsets(&t, &m->opsets);
    for (int i = 0; i + 1 < m->metadata.n; i += 2) {
        text_add(&t, "metadata: "), text_add_safe(&t, m->metadata.at[i], 100);
        text_add(&t, " = "), text_add_safe(&t, m->metadata.at[i + 1], 200), text_add(&t, "\n");
    }
    add_values(&t, "inputs", m->main->inputs.at, m->main->inputs.n, NULL);
    add_values(&t, "outputs", m->main->outputs.at, m->main->outputs.n, m->main->output_names.at);
    text_printf(&t, "nodes: %d\n", f.nodes);
    for (int i = 0; i < f.ops.n; i++) {
        const report_tally *o = &f.ops.at[i];
        text_printf(&t, "  %6d  %s%s%s\n", o->n, o->name, o->versions ? "-" : "",
                    o->versions ? o->versions : "");
    }
    text_printf(&t, "constants: %d, %lld element%s, %s\n", f.nconstants, (long long)f.parameters,
                f.parameters == 1 ? "" : "s", bytes_text(p->arena, f.parameter_bytes));
    report_part *parts;
    int n = report_parts(p, &parts);
    kernel_times *times = p->options->times ? kernel_times_read(p, p->options->times) : NULL;
    for (int i = 0; i < n; i++) {
        if (parts[i].label)
            text_add(&t, "version "), text_add_safe(&t, parts[i].label, 200), text_add(&t, ":\n");
        add_kernels(&t, &parts[i], times);
        add_patches(&t, &parts[i]);
        if (parts[i].plan) add_memory(&t, &parts[i]);
    }
    if (p->build) add_real_time(&t, p->build->real_time);
    if (p->footprint) add_footprint(&t, p->footprint);
    return text_str(&t);
}
