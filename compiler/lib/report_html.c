// The report as one HTML page that needs nothing else: figures, the graph, kernels, the memory plan. In: a
// pipeline. Out: text.
#include "codegen/host.h"
#include "compiler/lib/report.h"
#include "ir/op.h"
#include "ir/program.h"
#include <string.h>

enum {
    DRAWN_MOST = 3000,
    BOX_WIDTH = 150,
    BOX_HEIGHT = 34,
    GAP = 22,
    ROW = 70,
    MEMORY_HEIGHT = 320,
    MEMORY_WIDTH = 900
};

static const char style[] =
    "body{font:14px/1.45 system-ui,sans-serif;margin:2em auto;max-width:75em;padding:0 1em;color:#1d2530}"
    "h2{margin-top:2em;border-bottom:1px solid #d5dae1}table{border-collapse:collapse}"
    "th,td{text-align:left;padding:.2em .9em .2em 0;vertical-align:top}td.n{text-align:right}"
    "th{color:#5a6675;font-weight:600}code,pre,td.c{font:12.5px/1.4 ui-monospace,monospace}"
    "pre{background:#f5f7f9;padding:.7em;overflow:auto;margin:.3em 0}"
    "div.s{overflow:auto;max-height:80vh;border:1px solid #d5dae1}svg text{font:11px system-ui,sans-serif}"
    "svg .o{fill:#eaf1fb;stroke:#7d9cc9}svg .i{fill:#edf7ee;stroke:#79b083}svg .e{stroke:#a3adba;fill:none}"
    "svg .m{fill:#f2d9a8;stroke:#b98b34}svg .k{fill:#e6d5f0;stroke:#9468b3}";

// ---------------------------------------------------------------- text
static void add_html(text *t, const char *s) {
    for (; s && *s; s++) {
        if (*s == '&') text_add(t, "&amp;");
        else if (*s == '<') text_add(t, "&lt;");
        else if (*s == '>') text_add(t, "&gt;");
        else if (*s == '"') text_add(t, "&quot;");
        else if ((unsigned char)*s >= ' ' || *s == '\n') text_addn(t, s, 1);
        else text_add(t, " ");
    }
}

static void add_cell(text *t, const char *class, const char *s) {
    text_printf(t, "<td class=\"%s\">", class);
    add_html(t, s);
    text_add(t, "</td>");
}

static const char *shortened(arena *a, const char *s, size_t most) {
    return strlen(s) > most ? arena_printf(a, "%.*s…", (int)most - 1, s) : s;
}

// ---------------------------------------------------------------- tables
static void add_values(text *t, const char *kind, value *const *v, int n, const char *const *names) {
    for (int i = 0; i < n; i++) {
        text_printf(t, "<tr><td>%s</td>", kind);
        add_cell(t, "c", names ? names[i] : v[i]->name);
        add_cell(t, "c", type_text(t->arena, &v[i]->type));
        add_cell(t, "", v[i]->doc);
        text_add(t, "</tr>\n");
    }
}

static void add_summary(text *t, const module *m) {
    text_add(t, "<h1>"), add_html(t, m->name), text_add(t, "</h1>\n<p>");
    add_html(t, m->producer);
    text_printf(t, ", IR version %d</p>\n", m->ir_version);
    if (m->doc && *m->doc) text_add(t, "<p>"), add_html(t, m->doc), text_add(t, "</p>\n");
    text_add(t, "<table><tr><th></th><th>name</th><th>type</th><th></th></tr>\n");
    add_values(t, "input", m->main->inputs.at, m->main->inputs.n, NULL);
    add_values(t, "output", m->main->outputs.at, m->main->outputs.n, m->main->output_names.at);
    text_add(t, "</table>\n");
    if (m->metadata.n) text_add(t, "<h2>Metadata</h2>\n<table>\n");
    for (int i = 0; i + 1 < m->metadata.n; i += 2) {
        text_add(t, "<tr>");
        add_cell(t, "", m->metadata.at[i]), add_cell(t, "", m->metadata.at[i + 1]);
        text_add(t, "</tr>\n");
    }
    if (m->metadata.n) text_add(t, "</table>\n");
}

static void add_kernels(text *t, const program *p) {
    text_printf(t, "<h2>Kernels: %d</h2>\n", p->kernels.n);
    for (int i = 0; i < p->kernels.n; i++) {
        const kernel *k = p->kernels.at[i];
        text_printf(t, "<details id=\"k%d\"><summary>%d <code>", i, i);
        add_html(t, k->name);
        text_add(t, "</code></summary><pre>");
        add_html(t, kernel_print(t->arena, k));
        text_add(t, "</pre></details>\n");
    }
}

// ---------------------------------------------------------------- graph
typedef struct place {
    int level, column;
} place;
typedef struct drawing {
    arena *arena;
    const graph *g;
    place *at; // by value id of what a box gives first: inputs, nodes
    VEC(int) widths;
    text boxes, edges;
} drawing;

static void settle(drawing *d, place *p, int level) {
    while (d->widths.n <= level) VEC_PUSH(d->arena, &d->widths, 0);
    *p = (place){level, d->widths.at[level]++};
}

static void add_box(drawing *d, place p, const char *class, const char *title, const char *name,
                    const char *hover) {
    int x = GAP + p.column * (BOX_WIDTH + GAP), y = GAP + p.level * ROW;
    text_printf(&d->boxes, "<g><title>");
    add_html(&d->boxes, hover);
    text_printf(&d->boxes,
                "</title><rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"4\"/>", class,
                x, y, BOX_WIDTH, BOX_HEIGHT);
    text_printf(&d->boxes, "<text x=\"%d\" y=\"%d\" font-weight=\"600\">", x + 6, y + 14);
    add_html(&d->boxes, shortened(d->arena, title, 22));
    text_printf(&d->boxes, "</text><text x=\"%d\" y=\"%d\">", x + 6, y + 28);
    add_html(&d->boxes, shortened(d->arena, name, 24));
    text_add(&d->boxes, "</text></g>\n");
}

static void add_edge(drawing *d, place from, place to) {
    int x = GAP + from.column * (BOX_WIDTH + GAP) + BOX_WIDTH / 2, y = GAP + from.level * ROW + BOX_HEIGHT;
    int u = GAP + to.column * (BOX_WIDTH + GAP) + BOX_WIDTH / 2, v = GAP + to.level * ROW;
    text_printf(&d->edges, "<path class=\"e\" d=\"M%d %dC%d %d %d %d %d %d\"/>\n", x, y, x, y + ROW / 2, u,
                v - ROW / 2, u, v);
}

static bool is_drawn(const drawing *d, const value *v) {
    return v && v->graph == d->g && (v->def || !v->constant);
}

static void draw_node(drawing *d, const node *n) {
    int level = 0;
    place p;
    for (int j = 0; j < n->nin; j++)
        if (is_drawn(d, n->in[j]) && d->at[n->in[j]->id].level >= level)
            level = d->at[n->in[j]->id].level + 1;
    settle(d, &p, level);
    text hover = {.arena = d->arena};
    for (int j = 0; j < n->nout; j++) {
        if (!n->out[j]) continue;
        d->at[n->out[j]->id] = p;
        text_printf(&hover, "%s: %s\n", n->out[j]->name, type_text(d->arena, &n->out[j]->type));
    }
    for (int j = 0; j < n->nin; j++)
        if (is_drawn(d, n->in[j])) add_edge(d, d->at[n->in[j]->id], p);
    add_box(d, p, "o", n->op->name, n->loc && n->loc->node ? n->loc->node : "", text_str(&hover));
}

static void add_graph(text *t, const module *m) {
    const graph *g = m->main;
    drawing d = {.arena = t->arena, .g = g, .boxes = {.arena = t->arena}, .edges = {.arena = t->arena}};
    text_printf(t, "<h2>Graph: %d nodes</h2>\n", g->nodes.n);
    if (g->nodes.n > DRAWN_MOST) {
        text_printf(t, "<p>Too many to draw (over %d).</p>\n", DRAWN_MOST);
        return;
    }
    d.at = ARENA_ARRAY(t->arena, place, m->values.n + 1);
    for (int j = 0; j < g->inputs.n; j++) {
        const value *v = g->inputs.at[j];
        settle(&d, &d.at[v->id], 0);
        add_box(&d, d.at[v->id], "i", v->name, type_text(t->arena, &v->type), v->doc);
    }
    for (int j = 0; j < g->nodes.n; j++) draw_node(&d, g->nodes.at[j]);
    int last = d.widths.n;
    for (int j = 0; j < g->outputs.n; j++) {
        place p;
        const value *v = g->outputs.at[j];
        settle(&d, &p, last);
        if (is_drawn(&d, v)) add_edge(&d, d.at[v->id], p);
        add_box(&d, p, "i", g->output_names.at[j], type_text(t->arena, &v->type), v->doc);
    }
    int widest = 1;
    for (int j = 0; j < d.widths.n; j++) widest = d.widths.at[j] > widest ? d.widths.at[j] : widest;
    text_printf(t, "<div class=\"s\"><svg width=\"%d\" height=\"%d\">\n", GAP + widest * (BOX_WIDTH + GAP),
                GAP + d.widths.n * ROW);
    text_addn(t, text_str(&d.edges), d.edges.n), text_addn(t, text_str(&d.boxes), d.boxes.n);
    text_add(t, "</svg></div>\n");
}

// ---------------------------------------------------------------- memory
// Steps from left to right, addresses from top to bottom; plans with symbolic sizes are a table only.
static void draw_memory(text *t, const memory_plan *plan) {
    int steps = 1;
    for (int i = 0; i < plan->places.n; i++)
        if (plan->places.at[i].last >= steps) steps = plan->places.at[i].last + 1;
    double x = (double)MEMORY_WIDTH / steps, y = (double)MEMORY_HEIGHT / (double)dim_value(plan->workspace);
    text_printf(t, "<svg width=\"%d\" height=\"%d\">\n", MEMORY_WIDTH, MEMORY_HEIGHT);
    for (int i = 0; i < plan->places.n; i++) {
        const memory_place *m = &plan->places.at[i];
        const char *name = m->buffer ? m->buffer->name : m->kernel->name;
        double width = x * (m->last - m->first + 1), height = y * (double)dim_value(m->size);
        text_printf(t, "<g><title>");
        add_html(t, name);
        text_printf(
            t, ": %s bytes</title><rect class=\"%s\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\"/>",
            dim_text(t->arena, m->size), m->buffer ? "m" : "k", x * m->first,
            y * (double)dim_value(m->offset), width, height);
        if (height >= 12 && width >= 40) {
            text_printf(t, "<text x=\"%.2f\" y=\"%.2f\">", x * m->first + 3,
                        y * (double)dim_value(m->offset) + 11);
            add_html(t, shortened(t->arena, name, (size_t)(width / 6)));
            text_add(t, "</text>");
        }
        text_add(t, "</g>\n");
    }
    text_add(t, "</svg>\n");
}

static bool is_fixed(const memory_plan *plan) {
    bool fixed = dim_is_const(plan->workspace) && dim_value(plan->workspace) > 0;
    for (int i = 0; i < plan->places.n; i++)
        fixed = fixed && dim_is_const(plan->places.at[i].offset) && dim_is_const(plan->places.at[i].size);
    return fixed;
}

static void add_memory(text *t, const memory_plan *plan) {
    text_printf(t, "<h2>Workspace: %s bytes</h2>\n<p>%s bytes if no memory were shared.</p>\n",
                dim_text(t->arena, plan->workspace), dim_text(t->arena, plan->sum));
    if (is_fixed(plan)) draw_memory(t, plan);
    if (plan->places.n)
        text_add(t, "<table><tr><th>offset</th><th>bytes</th><th>steps</th><th>holds</th></tr>\n");
    for (int i = 0; i < plan->places.n; i++) {
        const memory_place *m = &plan->places.at[i];
        text_add(t, "<tr>");
        add_cell(t, "n", dim_text(t->arena, m->offset)), add_cell(t, "n", dim_text(t->arena, m->size));
        text_printf(t, "<td>%d–%d</td>", m->first, m->last);
        add_cell(t, "c",
                 m->buffer ? m->buffer->name : arena_printf(t->arena, "%s (scratch)", m->kernel->name));
        text_add(t, "</tr>\n");
    }
    if (plan->places.n) text_add(t, "</table>\n");
}

const char *report_html(pipeline *p) {
    text t = {.arena = p->arena};
    text_add(&t, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>");
    add_html(&t, p->module->name);
    text_printf(&t, "</title><style>%s</style></head><body>\n", style);
    add_summary(&t, p->module);
    report_part *parts;
    int n = report_parts(p, &parts);
    add_graph(&t, parts[n - 1].module);
    for (int i = 0; i < n; i++) {
        if (parts[i].label)
            text_add(&t, "<h2>Version "), add_html(&t, parts[i].label), text_add(&t, "</h2>\n");
        add_kernels(&t, parts[i].program);
        if (parts[i].plan) add_memory(&t, parts[i].plan);
    }
    text_add(&t, "</body></html>\n");
    return text_str(&t);
}
