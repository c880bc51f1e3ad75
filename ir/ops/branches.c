// Nodes whose result has a rank that only the run knows: the length of a list of axes, or of a shape. In each of
// the branches that replace such a node the length is known, and If (ir/ops/control/control.c) takes later nodes
// into its branches until the ranks agree:
//
//   y = If(size == 0) {op(x, Reshape(list, [0]))} else {If(size == 1) {op(x, Reshape(list, [1]))} else ...}
#include "ir/ops/branches.h"
#include <string.h>

// n with a list of that length, in g. wrong: what a run with another length says; NULL: there is none.
static value *with_length(graph *g, node *before, const node *n, int i, int length, const char *wrong) {
    value *in[] = {n->in[i], value_int64s(g, NULL, (int64_t[]){length}, 1)};
    node *list = node_new(g, before, op_find("", "Reshape"), n->loc, 2, in);
    node_set_attr(list, (attr){.name = "allowzero", .kind = ATTR_INT, .i = 1});
    if (wrong)
        node_set_attr(
            list,
            (attr){.name = RESHAPE_WRONG_COUNT, .kind = ATTR_STRING, .s = wrong, .size = strlen(wrong)});
    node *copy = node_new(g, before, n->op, n->loc, n->nin, n->in);
    node_set_in(copy, i, node_output(list, 0, NULL));
    for (int j = 0; j < n->nattrs; j++) node_set_attr(copy, n->attrs[j]);
    return node_output(copy, 0, NULL);
}

static value *branches(graph *g, node *before, const node *n, int i, value *size, int length, int last,
                       const char *wrong) {
    if (length == last) return with_length(g, before, n, i, length, wrong);
    value *pair[] = {size, value_int64(g, length)};
    value *is = node_output(node_new(g, before, op_find("", "Equal"), n->loc, 2, pair), 0, NULL);
    node *made = node_new(g, before, op_find("", "If"), n->loc, 1, &is);
    graph *then = graph_new(g->module, g, "then_branch"), *other = graph_new(g->module, g, "else_branch");
    graph_add_output(then, with_length(then, NULL, n, i, length, NULL));
    graph_add_output(other, branches(other, NULL, n, i, size, length + 1, last, wrong));
    node_set_attr(made, (attr){.name = "then_branch", .kind = ATTR_GRAPH, .graph = then});
    node_set_attr(made, (attr){.name = "else_branch", .kind = ATTR_GRAPH, .graph = other});
    return node_output(made, 0, NULL);
}

int declared_rank(const node *n) {
    const type *t = node_out(n, 0) ? infer_declared(n->out[0]) : NULL;
    return t && t->kind == TYPE_TENSOR ? t->rank : RANK_UNKNOWN;
}

// Gradient has no rule for the branches.
static bool is_differentiated(const graph *g) {
    for (int j = 0; j < g->nodes.n; j++)
        if (strcmp(g->nodes.at[j]->op->name, "Gradient") == 0) return true;
    return false;
}

bool branch_on_length(node *n, int i, int first, int last) {
    const value *list = node_in(n, i);
    int count;
    if (!list || !node_out(n, 0) || last < first || list->type.rank != 1 ||
        dim_is_const(list->type.dims[0]) || infer_contents(n, i, &count) || declared_rank(n) >= 0 ||
        is_differentiated(n->graph))
        return false;
    value *shape = insert_before(n, "Shape", 1, &n->in[i], NULL);
    value *size = insert_before(n, "Gather", 2, (value *[]){shape, value_int64(n->graph, 0)}, NULL);
    const char *wrong =
        arena_printf(n->graph->module->arena, "'%s' must have %d to %d elements where no rank is declared",
                     list->name, first, last);
    replace_output(n, 0, branches(n->graph, n, n, i, size, first, last, wrong));
    node_delete(n);
    return true;
}
