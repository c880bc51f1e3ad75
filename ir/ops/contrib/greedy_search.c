// GreedySearch and Sampling of com.microsoft as graphs of the standard's operators: the next token is the one with the
// highest score, or a random one of the most probable tokens (top-p sampling).
#include "ir/ops/contrib/generation.h"

// The next token of each row, int32 (rows, 1).
typedef value *choice(const generation *g, node *at, value *scores, value *step);

static value *best_token(const generation *g, node *at, value *scores, value *step) {
    (void)g, (void)step;
    return cast_to(at, with_int(NODE(at, "ArgMax", scores), "axis", 1), DT_I32);
}

// ---- Sampling

static value *sum_so_far(node *at, value *v) { return NODE(at, "CumSum", v, insert_scalar(at, DT_I64, 1)); }

// Which of the sorted tokens are excluded:
//   custom 0, in ascending order: while the sum of the probabilities is at most 1 - top_p, except the last min_tokens_to_keep
//   custom 1, in descending order: once the sum of the probabilities before them exceeds top_p
static value *is_unlikely(const generation *g, node *at, value *sorted, value *size) {
    float most = (float)node_float(g->n, "top_p", 0);
    int64_t kept = node_int(g->n, "min_tokens_to_keep", 0);
    value *share = with_int(NODE(at, "Softmax", sorted), "axis", 1), *sum = sum_so_far(at, share);
    value *place = counted(at, size), *one = insert_scalar(at, DT_I64, 1);
    if (node_int(g->n, "custom", 0)) {
        value *before = with_int(sum_so_far(at, share), "exclusive", 1),
              *is_more = NODE(at, "Greater", before, insert_scalar(at, DT_F32, most));
        return NODE(at, "And", is_more, NODE(at, "GreaterOrEqual", place, one));
    }
    value *end = NODE(at, "Max", NODE(at, "Sub", size, insert_ints(at, &kept, 1)), one);
    value *is_less = NODE(at, "LessOrEqual", sum, insert_scalar(at, DT_F32, 1 - most));
    return NODE(at, "And", is_less, NODE(at, "Less", place, end));
}

static value *likely_scores(const generation *g, node *at, value *scores) {
    value *size = shape_part(at, scores, 1, 2);
    value *sorted = with_int(with_int(NODE(at, "TopK", scores, size), "axis", 1), "largest",
                             node_int(g->n, "custom", 0) != 0);
    value *no = NODE(at, "Expand", insert_scalar(at, DT_BOOL, 0), shape_part(at, scores, 0, INT64_MAX));
    value *out = NODE(at, "ScatterElements", no, output_of(sorted, 1), is_unlikely(g, at, sorted, size));
    value *filler = insert_scalar(at, DT_F32, node_float(g->n, "filter_value", -1e20f));
    return NODE(at, "Where", with_int(out, "axis", 1), filler, scores);
}

// Random numbers in [0, 1), double (rows, 1): hashes of the seed, the step and the row.
static value *random_numbers(const generation *g, node *at, value *step) {
    value *place = NODE(at, "Mul", step, insert_scalar(at, DT_I64, 1 << 20));
    value *key = NODE(at, "Add", NODE(at, "Mul", g->seed, insert_scalar(at, DT_I64, 0x1p32)), place);
    value *hash = NODE(at, "com.microsoft:MurmurHash3", NODE(at, "Add", key, counted(at, g->rows)));
    value *number = NODE(at, "Mul", cast_to(at, hash, DT_F64), insert_scalar(at, DT_F64, 0x1p-32));
    return NODE(at, "Unsqueeze", number, one_int(at, 1));
}

// The first token at which the cumulative probability exceeds a random number.
static value *drawn_token(const generation *g, node *at, value *scores, value *step) {
    value *share = with_int(NODE(at, "Softmax", likely_scores(g, at, scores)), "axis", 1);
    value *sum = sum_so_far(at, cast_to(at, share, DT_F64)), *total = sliced(at, sum, 1, -1, INT64_MAX);
    value *bound = NODE(at, "Mul", random_numbers(g, at, step), total);
    value *before = cast_to(at, NODE(at, "LessOrEqual", sum, bound), DT_I32);
    return reduced(at, "ReduceSum", before, 1);
}

// ---- The search

// ids with the next token; rows that have ended get padding.
static value *extended(const generation *g, node *at, value *token, value *ids, value **done) {
    value *pad = insert_scalar(at, DT_I32, (double)g->pad);
    value *ends = NODE(at, "Equal", token, insert_scalar(at, DT_I32, (double)g->eos));
    *done = *done ? NODE(at, "Or", *done, ends) : ends;
    return with_int(NODE(at, "Concat", ids, NODE(at, "Where", *done, pad, token)), "axis", 1);
}

static void run_search(generation *g, choice *choose) {
    node *n = g->n;
    value *one = one_int(n, 1), *zero = one_int(n, 0), *done = NULL;
    value *scores = processed_logits(g, n, first_gpt_run(g, 6), n->in[0], true);
    value *first = extended(g, n, choose(g, n, scores, zero), n->in[0], &done);
    loop_builder l;
    loop_begin(&l, n);
    value *rows = loop_carry(&l, first), *ended = loop_carry(&l, done), *ends = ended;
    value *ids = ids_so_far(g, l.end, l.iteration, rows, 1);
    arena *a = infer_arena(n);
    value **past = ARENA_ARRAY(a, value *, g->npast + 1), **before = ARENA_ARRAY(a, value *, g->npast + 1);
    for (int i = 0; i < g->npast; i++) before[i] = past[i] = loop_carry(&l, g->past[i]);
    scores = processed_logits(g, l.end, next_run(g, l.end, l.iteration, ids, past), ids, false);
    value *token = choose(g, l.end, scores, NODE(l.end, "Add", l.iteration, one));
    value *next = extended(g, l.end, token, ids, &ends);
    loop_next(&l, rows, next), loop_next(&l, ended, ends);
    for (int i = 0; i < g->npast; i++) loop_next(&l, before[i], past[i]);
    value *trips = NODE(n, "Sub", NODE(n, "Sub", g->most, g->length), one);
    value *y = loop_end(&l, NODE(n, "Squeeze", trips), not_all(n, done), not_all(l.end, ends));
    give_output(n, 0, padded_sequences(g, y, 2));
}

static void begin_search(generation *g, node *n) {
    int64_t kind = node_int(n, "model_type", 0);
    if (kind != 0)
        infer_error(n, "attribute model_type is %lld, but only 0 is defined: a decoder like GPT-2's",
                    (long long)kind);
    generation_begin(g, n, 2);
    g->penalty = number_of(n, 3), g->mask = node_in(n, 4), g->first_mask = node_in(n, 5);
}

static void greedy_search(node *n) {
    generation g;
    begin_search(&g, n);
    run_search(&g, best_token);
}
MICROSOFT_OP(GreedySearch, greedy_search);

static void sampling(node *n) {
    generation g;
    double temperature = node_float(n, "temperature", 1), penalty = node_float(n, "presence_penalty", 0);
    begin_search(&g, n);
    if (node_out(n, 1)) infer_error(n, "output filtered_logits is not supported");
    if (temperature > 0 && temperature != 1) g.temperature = insert_scalar(n, DT_F32, temperature);
    if (node_in(n, 7) && penalty != 0)
        g.presence = NODE(n, "Mul", cast_to(n, n->in[7], DT_F32), insert_scalar(n, DT_F32, penalty));
    g.seed = node_in(n, 8) ? vector_of(n, 8) : one_int(n, 0);
    run_search(&g, drawn_token);
}
MICROSOFT_OP(Sampling, sampling);
