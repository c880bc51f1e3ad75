// The table of graph passes and the small ones among them.
#include "passes/passes.h"
#include "compiler/base/clock.h"
#include "ir/graph/op.h"
#include "ir/target.h"
#include "passes/fuse/fuse.h"
#include "passes/layout/concat_elision.h"
#include "passes/layout/layout.h"
#include "passes/rewrite/quantise.h"
#include "passes/rewrite/split_attention.h"
#include "passes/rewrite/split_stages.h"
#include "passes/rewrite/split_sum.h"
#include "passes/rewrite/tables.h"
#include "passes/rewrite/widen.h"

const pass graph_passes[] = {
    {"infer", pass_infer, 0}, {"expand", pass_expand, 0}, {"fold", pass_fold, 0},
    {"cse", pass_cse, 1},     {"dce", pass_dce, 0},       {NULL, NULL, 0},
};

static void pass_fuse(program_context *c) {
    fuse_options o = {.strict = c->target && c->target->fp == FP_STRICT};
    fuse_program(c->program, &o);
}
static void pass_quantise(program_context *c) {
    if (c->target) quantise_program(c->program, c->target);
}
// Threads of a GPU have arithmetic to spare.
static void pass_tables(program_context *c) {
    if (c->target && c->target->arch != ARCH_CUDA) tabulate_program(c->program);
}
static void pass_algorithm(program_context *c) {
    if (!c->target) return;
    choose_algorithms(c->program, c->target, &c->algorithms);
    split_sums(c->program, c->target);
    split_attentions(c->program, c->target);
}
// Vectors and dot products want layouts; plain scalars run as well without the copies.
static void pass_layout(program_context *c) {
    const target *t = c->target;
    if (t && t->vector_bits) widen_halves(c->program);
    if (t && (t->vector_bits || t->dsp)) assign_layouts(c->program, t);
    else if (t) elide_concats(c->program, t);
    if (!t || t->arch != ARCH_CUDA) return;
    split_stages(c->program);
    if (t->fp == FP_STRICT || c->alone) return;
    round_constants(c->program, t);
    assign_gpu_layouts(c->program, t);
}

const program_pass program_passes[] = {
    {"fuse", pass_fuse, 1},           {"quantise", pass_quantise, 1}, {"tables", pass_tables, 1},
    {"algorithm", pass_algorithm, 1}, {"layout", pass_layout, 1},     {NULL, NULL, 0},
};

void run_graph_passes(pass_context *c, pass_hook hook, void *user) {
    for (const pass *p = graph_passes; p->name; p++) {
        if (c->opt < p->min_opt) continue;
        double start = clock_now();
        p->run(c);
        diag_check(c->module->diag);
        graph_verify(c->module);
        if (hook) hook(user, p->name, clock_now() - start);
    }
}

void pass_infer(pass_context *c) { infer_graph(c->module->main); }

// An expansion puts its nodes before n and replaces n's outputs: the new nodes are looked at in turn, so
// functions of functions expand too. Expansions are data of the standard and end; the count is only for a
// defect.
static void expand_graph(graph *g) {
    int made = 0;
    for (int j = 0; j < g->nodes.n; j++) {
        node *n = g->nodes.at[j];
        for (int i = 0; i < n->nattrs; i++)
            if (n->attrs[i].kind == ATTR_GRAPH) expand_graph(n->attrs[i].graph);
        if (!n->op->expand) continue;
        n->op->expand(n);
        for (int i = j; i < g->nodes.n && g->nodes.at[i] != n; i++) infer_node(g->nodes.at[i]);
        if (n->graph) node_delete(n);
        if (++made > 1000000) diag_defect(g->module->diag, n->loc, "expansion does not terminate");
        j--;
    }
}

void pass_expand(pass_context *c) { expand_graph(c->module->main); }

// ---------------------------------------------------------------- dead nodes
static bool is_used(const node *n) {
    for (int j = 0; j < n->nout; j++)
        if (n->out[j] && value_uses(n->out[j])) return true;
    return n->nout == 0;
}

static void dce_graph(graph *g) {
    for (int j = g->nodes.n - 1; j >= 0; j--) {
        node *n = g->nodes.at[j];
        if (!is_used(n)) {
            node_delete(n);
            continue;
        }
        for (int i = 0; i < n->nattrs; i++)
            if (n->attrs[i].kind == ATTR_GRAPH) dce_graph(n->attrs[i].graph);
    }
}
void pass_dce(pass_context *c) { dce_graph(c->module->main); }
