// Inputs of the model without a rank (--shape INPUT=*). They arrive as handles; two operators of onnxc's own look
// into these, and branches carry each rank on (ir/ops/branches.h):
//
//   x' = If(TensorRank(x) == 0) {TensorOfRank<rank = 0>(x)} else {If(TensorRank(x) == 1) ...}
#include "ir/ops/branches.h"
#include "ir/ops/control/control.h"
#include "ir/ops/runtime_args.h"
#include "ir/ops/value.h"

static void rank_infer(node *n) { infer_set(n, 0, DT_I64, 0, NULL); }

static void rank_lower(lowering *l, node *n) {
    lower_call(l, n, "value_rank", 1, BUFFERS(lower_out(l, n, 0), lower_buffer(l, n->in[0])), NULL, 0);
}

static void of_rank_infer(node *n) {
    int rank = (int)node_int(n, "rank", 0);
    dim *dims[MAX_RANK];
    for (int j = 0; j < rank; j++) dims[j] = infer_unknown_dim(n, n->in[0]->name, NULL);
    infer_set(n, 0, n->in[0]->type.elem, rank, dims);
}

static void of_rank_lower(lowering *l, node *n) {
    const value *v = n->in[0];
    buffer *handle = lower_buffer(l, n->in[0]);
    const char *wrong = arena_printf(l->program->arena, "%s'%s' has a rank above %lld",
                                     v->def ? "" : "input ", v->name, (long long)node_int(n, "most", 0));
    value_sizes(l, n, handle, &n->out[0]->type, "rank", wrong);
    lower_checks(l, n);
    value_fetch(l, n, handle, lower_out(l, n, 0));
}

OPERATOR_OF("onnxc", TensorRank, .infer = rank_infer, .lower = rank_lower, .takes_any_rank = true);
OPERATOR_OF("onnxc", TensorOfRank, .infer = of_rank_infer, .lower = of_rank_lower, .takes_any_rank = true);

static node *new_first(graph *g, node *before, const loc *at, const char *domain, const char *op, int nin,
                       value *const *in) {
    return node_new(g, before, op_find(domain, op), at, nin, in);
}

static value *of_rank(graph *g, node *before, const loc *at, value *v, value *rank, int k, int most) {
    if (k == most) {
        node *n = new_first(g, before, at, "onnxc", "TensorOfRank", 1, &v);
        node_set_attr(n, (attr){.name = "rank", .kind = ATTR_INT, .i = k});
        node_set_attr(n, (attr){.name = "most", .kind = ATTR_INT, .i = most});
        return node_output(n, 0, NULL);
    }
    value *pair[] = {rank, value_int64(g, k)};
    value *is = node_output(new_first(g, before, at, "", "Equal", 2, pair), 0, NULL);
    node *made = new_first(g, before, at, "", "If", 1, &is);
    graph *then = graph_new(g->module, g, "then_branch"), *other = graph_new(g->module, g, "else_branch");
    graph_add_output(then, of_rank(then, NULL, at, v, NULL, k, k));
    graph_add_output(other, of_rank(other, NULL, at, v, rank, k + 1, most));
    node_set_attr(made, (attr){.name = "then_branch", .kind = ATTR_GRAPH, .graph = then});
    node_set_attr(made, (attr){.name = "else_branch", .kind = ATTR_GRAPH, .graph = other});
    return node_output(made, 0, NULL);
}

// A value that all readers of v read from now on.
static value *stand_in_for(value *v) {
    value *stand_in = value_new(v->graph, arena_printf(v->graph->module->arena, "%s.any", v->name));
    stand_in->type = v->type;
    value_replace(v, stand_in);
    return stand_in;
}

// Inserts before `before` the branches for each rank of v, and lets all readers of v read these.
static void read_by_rank(value *v, const loc *at, node *before, int most) {
    graph *g = v->graph;
    value *stand_in = stand_in_for(v);
    value *rank = node_output(new_first(g, before, at, "onnxc", "TensorRank", 1, &v), 0, NULL);
    value_replace(stand_in, of_rank(g, before, at, v, rank, 0, most));
}

void branch_on_rank(value *input, int most) {
    graph *g = input->graph;
    arena *a = g->module->arena;
    loc *at = ARENA_NEW(a, loc);
    *at = (loc){.file = g->module->file,
                .node = arena_printf(a, "shape:%s", input->name),
                .op = "shape",
                .graph = g->name};
    read_by_rank(input, at, g->nodes.n ? g->nodes.at[0] : NULL, most);
}

// Whether a node reads v that must know its rank.
static bool needs_rank(const value *v) {
    for (int i = 0; i < v->uses.n; i++) {
        const node *reader = v->uses.at[i].node;
        if (!reader) continue;
        if (!reader->op->takes_any_rank) return true;
        if (reader->op == op_find("", "Identity") && needs_rank(reader->out[0])) return true;
    }
    return false;
}

bool branch_on_value_rank(value *v, const loc *at, node *before) {
    if (v->type.kind != TYPE_TENSOR || v->type.rank != RANK_UNKNOWN || !needs_rank(v)) return false;
    read_by_rank(v, at, before, BRANCHES_MOST);
    return true;
}

bool branch_on_item_rank(node *n) {
    // Not the type of the output: before inference, that is the declared one.
    const type *item = node_in(n, 0) ? n->in[0]->type.item : NULL;
    if (!item || item->kind != TYPE_TENSOR || item->rank >= 0 || !node_out(n, 0)) return false;
    return branch_on_value_rank(n->out[0], n->loc, node_next(n));
}

// ---- Values that a loop carries
//
// The rank of a carried value may change, and items of a sequence may differ in rank:
//
//   before:  y = Loop(M, c, x) {v -> w}
//   after:   q = Loop(M, c, SequenceConstruct(x)) {s -> v = SequenceAt(s, 0); SequenceConstruct(w)}; y = SequenceAt(q, 0)

static value *only_item(graph *g, node *before, const loc *at, value *sequence) {
    value *first[] = {sequence, value_int64(g, 0)};
    return node_output(new_first(g, before, at, "", "SequenceAt", 2, first), 0, sequence->name);
}

static value *sequence_of(graph *g, node *before, const loc *at, value *v) {
    return node_output(new_first(g, before, at, "", "SequenceConstruct", 1, &v), 0, NULL);
}

void carry_any_rank(node *loop, graph *body, int i) {
    value *in = body->inputs.at[i + 2], *read = stand_in_for(in), *out = node_out(loop, i);
    value_replace(read, only_item(body, body->nodes.n ? body->nodes.at[0] : NULL, loop->loc, in));
    graph_set_output(body, i + 1, sequence_of(body, NULL, loop->loc, body->outputs.at[i + 1]));
    node_set_in(loop, i + 2, sequence_of(loop->graph, loop, loop->loc, loop->in[i + 2]));
    if (!out) return;
    node *item = new_first(loop->graph, node_next(loop), loop->loc, "", "SequenceAt", 0, NULL);
    node_adopt_output(item, loop, i);
    node_set_in(item, 0, node_output(loop, i, NULL));
    node_set_in(item, 1, value_int64(loop->graph, 0));
}
