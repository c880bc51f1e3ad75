// Probes. In: values. Out: a call of PROBE_SYMBOL with them, as custom operators call functions (ir/ops/custom.c).
#include "ir/ops/probe.h"
#include "ir/kernel/lower.h"
#include "ir/ops/custom.h"
#include <string.h>

static void infer_probe(node *n) { (void)n; }

static probe_form form_of(const value *v) {
    const type *t = &v->type;
    if (t->kind == TYPE_OPTIONAL) return PROBE_OPTIONAL;
    if (t->kind != TYPE_TENSOR || t->rank < 0) return PROBE_VALUE;
    if (t->elem == DT_STRING) return PROBE_STRINGS;
    bool known = v->constant || v->contents;
    while (v->def && v->def->op->is_view && v->def->nin && v->def->in[0]) v = v->def->in[0];
    return known || v->constant ? PROBE_CONSTANT : PROBE_NUMBERS;
}

static void lower_probe(lowering *l, node *n) {
    attr forms = {.name = "forms", .kind = ATTR_INTS, .n = n->nin};
    forms.ints = ARENA_ARRAY(infer_arena(n), int64_t, n->nin + 1);
    for (int i = 0; i < n->nin; i++) forms.ints[i] = (int64_t)form_of(n->in[i]);
    node_set_attr(n, forms);
    lower_custom(l, n);
}

const op_def *probe_op(arena *a) {
    op_def *op = ARENA_NEW(a, op_def);
    memcpy(op, custom_op_new(a, (custom_op){.domain = "onnxc", .name = "Probe", .symbol = PROBE_SYMBOL}),
           sizeof *op);
    op->infer = infer_probe;
    op->lower = lower_probe;
    op->takes_any_rank = true;
    return op;
}

node *probe_node(graph *g, node *before, const op_def *probe, const loc *at, int64_t number, void *user,
                 int nin, value *const *in) {
    loc *own = ARENA_NEW(g->module->arena, loc); // checks of sizes belong to the node itself
    *own = *at;
    node *n = node_new(g, before, probe, own, nin, in);
    node_set_attr(n, (attr){.name = "number", .kind = ATTR_INT, .i = number});
    node_set_attr(n, (attr){.name = "user", .kind = ATTR_INT, .i = (int64_t)(uintptr_t)user});
    return n;
}
