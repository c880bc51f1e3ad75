// MoEGroupRouter of com.microsoft: the choice of experts within groups, whose result is an input of MoE and QMoE.
//
//   s = sigmoid(logits)          the best groups by the sum of their largest s + bias, then the best experts in those
//   router_probs = log(max(s, 1e-20)) for the chosen experts, router_sentinel for the others
#include "ir/ops/decompose.h"

enum { LOGITS, EXPERT_BIAS, PROJECTION };

static int64_t positive(node *n, const char *name, int64_t otherwise) {
    int64_t v = node_int(n, name, otherwise);
    if (v < 1) infer_error(n, "attribute %s is %lld; it must be positive", name, (long long)v);
    return v;
}

static value *flat_rows(node *n, value *v) {
    return NODE(n, "Reshape", v, JOINED(n, one_int(n, -1), shape_part(n, v, -1, INT64_MAX)));
}

static value *top(node *n, value *v, value *count) { return with_int(NODE(n, "TopK", v, count), "axis", -1); }

// scores (tokens x experts), with -inf for experts outside of the best groups.
static value *of_best_groups(node *n, value *scores, int64_t groups, int64_t best) {
    value *apart = NODE(n, "Reshape", scores, insert_ints(n, (int64_t[]){0, groups, -1}, 3));
    value *size = shape_part(n, apart, -1, INT64_MAX);
    value *count = NODE(n, "Min", one_int(n, positive(n, "group_topk", 2)), size);
    value *sums = with_int(NODE(n, "ReduceSum", top(n, apart, count), one_int(n, -1)), "keepdims", 0);
    value *chosen = output_of(top(n, sums, one_int(n, best)), 1);
    value *none = NODE(n, "Expand", insert_scalar(n, DT_BOOL, 0), NODE(n, "Shape", sums)); // tokens x groups
    value *is_chosen = NODE(n, "Expand", insert_scalar(n, DT_BOOL, 1), NODE(n, "Shape", chosen));
    value *is_best = with_int(NODE(n, "ScatterElements", none, chosen, is_chosen), "axis", 1);
    is_best = NODE(n, "Unsqueeze", is_best, one_int(n, -1));
    value *kept = NODE(n, "Where", is_best, apart, insert_scalar(n, DT_F32, -INFINITY));
    return NODE(n, "Reshape", kept, NODE(n, "Shape", scores));
}

static void choose_experts(node *n, value *s, value *scores) {
    int64_t groups = positive(n, "n_group", 1), best = positive(n, "topk_group", 1);
    if (best > groups)
        infer_error(n, "attribute topk_group is %lld, but there are %lld groups", (long long)best,
                    (long long)groups);
    if (groups > 1) scores = of_best_groups(n, scores, groups, best);
    value *most = top(n, scores, one_int(n, positive(n, "top_k", 0))), *expert = output_of(most, 1);
    value *sentinel = insert_scalar(n, DT_F32, node_float(n, "router_sentinel", -10000));
    value *chosen = with_int(NODE(n, "GatherElements", s, expert), "axis", 1);
    chosen = NODE(n, "Log", NODE(n, "Max", chosen, insert_scalar(n, DT_F32, 1e-20)));
    if (best < groups) { // the best groups may have fewer than top_k
        value *outside = NODE(n, "Equal", most, insert_scalar(n, DT_F32, -INFINITY));
        chosen = NODE(n, "Where", outside, sentinel, chosen);
    }
    value *others = NODE(n, "Expand", sentinel, NODE(n, "Shape", s));
    value *y = with_int(NODE(n, "ScatterElements", others, expert, chosen), "axis", 1);
    give_output(n, 0, cast_to(n, y, infer_in(n, LOGITS)->elem));
}

static void moe_group_router(node *n) {
    bool full = node_out(n, 1) || node_out(n, 2);
    if (full == (node_out(n, 0) != NULL))
        infer_error(n, "the outputs must be router_probs, or selection_scores and router_weights");
    if (node_in(n, PROJECTION) && !full)
        infer_error(n, "projection_weight needs the outputs selection_scores and router_weights");
    value *x = cast_to(n, n->in[LOGITS], DT_F32);
    if (node_in(n, PROJECTION))
        x = NODE(n, "MatMul", x, transposed(n, cast_to(n, n->in[PROJECTION], DT_F32), 2, (int64_t[]){1, 0}));
    value *s = NODE(n, "Sigmoid", flat_rows(n, x)), *scores = NODE(n, "Add", s, n->in[EXPERT_BIAS]);
    if (!full) {
        choose_experts(n, s, scores);
        return;
    }
    if (node_int(n, "n_group", 1) != 1 || node_int(n, "topk_group", 1) != 1)
        infer_error(
            n, "attributes n_group and topk_group are %lld and %lld; with selection_scores they must be 1",
            (long long)node_int(n, "n_group", 1), (long long)node_int(n, "topk_group", 1));
    if (node_out(n, 1)) give_output(n, 1, scores);
    if (node_out(n, 2)) give_output(n, 2, NODE(n, "Identity", s));
}
MICROSOFT_OP(MoEGroupRouter, moe_group_router);
