// Draws the graph. In: a pipeline. Out: text for Graphviz.
#include "compiler/report/report.h"
#include "ir/graph/op.h"
#include <stdlib.h>

static void dot_string(text *t, const char *s) {
    const char *safe = blank_text(t->arena, s, ' ');
    text_add(t, "\"");
    for (size_t i = 0; s[i]; i++) {
        if (s[i] == '"' || s[i] == '\\') text_add(t, "\\");
        text_addn(t, s[i] == '\n' ? "\\n" : &safe[i], s[i] == '\n' ? 2 : 1);
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

// Nodes of one kernel have the same colour.
static void add_kernel(text *t, const char *kernels) {
    if (!kernels) return;
    int hue = atoi(kernels) * 137 % 360;
    text_printf(t, ", tooltip=\"kernel %s\", style=filled, fillcolor=\"%.3f 0.2 1.0\"", kernels, hue / 360.0);
}

const char *report_dot(pipeline *p) {
    arena *a = p->arena;
    report_part *parts;
    int n_parts = report_parts(p, &parts);
    const report_part *part = &parts[n_parts - 1];
    const graph *g = part->module->main;
    map kernels = report_kernels_of(a, part);
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
        add_kernel(&t, map_get_number(&kernels, (uint64_t)n->id + 1));
        text_add(&t, "];\n");
        for (int j = 0; j < n->nout; j++)
            if (n->out[j]) dot_edges(&t, g, n->out[j], arena_printf(a, "n%d", n->id));
    }
    text_add(&t, "}\n");
    return text_str(&t);
}
