// The small passes over the graph, and the entry points of program passes: each picks its arguments from the
// context.
#include "passes/passes.h"
#include "ir/graph/op.h"
#include "ir/target.h"
#include "passes/layout/concat_elision.h"
#include "passes/layout/copy_elision.h"
#include "passes/layout/layout.h"
#include "passes/match/contract.h"
#include "passes/memory/memory_plan.h"
#include "passes/memory/patch.h"
#include "passes/memory/sink.h"
#include "passes/memory/spaces.h"
#include "passes/schedule/cpu/schedule_groups.h"

void pass_winograd(pass_context *c) { choose_algorithms(c->program, c->target, &c->algorithms); }

static bool is_small(const buffer *b) { return dtype_is_int(b->dtype) && dtype_bits(b->dtype) <= 16; }

// Guards at the edges of images vanish with the layout.
static bool multiplies_integers(const program *p, const target *t) {
    contraction c;
    for (int j = 0; j < p->kernels.n; j++) {
        if (!contraction_find(p->kernels.at[j], &c)) continue;
        bool small = c.s->states.at[0].dtype == DT_I32 && is_small(c.a->buffer) && is_small(c.b->buffer);
        if (small || multiplies_words(t, &c)) return true;
    }
    return false;
}

// Vectors, dot products and tiles of integers profit from layouts; other scalar code is as fast without the copies.
static bool wants_layouts(const pass_context *c) {
    const target *t = c->target;
    return t->vector_bits || t->dsp || t->tile_regs ||
           (t->arch.dot == DOT_ARM && multiplies_integers(c->program, t));
}
void pass_image_shapes(pass_context *c) {
    if (wants_layouts(c)) shape_images(c->program, c->target);
}
void pass_channels(pass_context *c) {
    if (wants_layouts(c)) assign_channels(c->program, c->target);
}
void pass_elide_concats(pass_context *c) {
    elide_transpositions(c->program);
    elide_concats(c->program, c->target);
}
void pass_halos(pass_context *c) {
    if (wants_layouts(c)) make_halos(c->program, c->target);
}
void pass_spread_rows(pass_context *c) { spread_rows(c->program, c->target); }
void pass_panels(pass_context *c) {
    if (wants_layouts(c)) pack_panels(c->program, c->target, !c->max_workspace);
}
void pass_gpu_layout(pass_context *c) { assign_gpu_layouts(c->program, c->target); }
void pass_order(pass_context *c) { c->changed |= order_kernels(c->program, c->target); }
void pass_sink(pass_context *c) { c->changed |= sink_rows(c->program, c->target, c->max_workspace); }
void pass_patches(pass_context *c) {
    if (!c->max_workspace) return;
    c->changed |= patch_program(c->program, c->target, c->max_workspace, c->target->fp == FP_STRICT);
}
void pass_place(pass_context *c) { assign_spaces(c->program); }

// ---------------------------------------------------------------- over the graph
void pass_infer(pass_context *c) { infer_graph(c->module->main); }

// A sequence over the signal of a stream stays until it is a step.
static bool expands(node *n) {
    const module *m = n->graph->module;
    bool whole = n->graph == m->main && m->streams.n && !m->is_step;
    if (!n->op->expand || (whole && n->op->sequence)) return false;
    n->op->expand(n);
    return true;
}

static bool becomes_product(node *n) { return n->op->as_product && n->op->as_product(n); }

// An expansion inserts nodes before n and replaces n's outputs. The new nodes are visited in turn, so nested
// functions expand too. Expansions come from the standard and are finite; the limit only detects defects.
static bool expand_graph(graph *g, bool (*rewrite)(node *)) {
    int made = 0;
    for (int j = 0; j < g->nodes.n; j++) {
        node *n = g->nodes.at[j];
        for (int i = 0; i < n->nattrs; i++)
            if (n->attrs[i].kind == ATTR_GRAPH) made += expand_graph(n->attrs[i].graph, rewrite);
        if (!rewrite(n)) continue;
        for (int i = j; i < g->nodes.n && g->nodes.at[i] != n; i++) infer_node(g->nodes.at[i]);
        if (n->graph) node_delete(n);
        if (++made > 1000000) diag_defect(g->module->diag, n->loc, "expansion does not terminate");
        j--;
    }
    return made;
}

void pass_expand(pass_context *c) { expand_graph(c->module->main, expands); }

// In memory that the product's result takes beside those of the nodes around it. What becomes constant is computed now.
void pass_matrices(pass_context *c) {
    const target *t = c->target;
    bool wants = t && t->vector_bits && !t->freestanding && !t->size_level && !c->max_workspace;
    if (wants && expand_graph(c->module->main, becomes_product)) pass_fold(c);
}

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
