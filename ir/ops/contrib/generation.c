// Text generation: runs of the decoder, logits processors, and the loop over the tokens.
//
//   logits, past = decoder(prompt)
//   ids = concat(prompt, next(logits))
//   while length(ids) < max_length and some row has not ended:
//     logits, past = decoder(last token, past);  ids = concat(ids, next(logits))
#include "ir/ops/contrib/generation.h"
#include <float.h>
#include <string.h>

static value *int_scalar(node *n, dtype t, int64_t i) { return insert_scalar(n, t, (double)i); }

value *joined_along(node *n, value *a, value *b, int64_t axis) {
    return with_int(NODE(n, "Concat", a, b), "axis", axis);
}

value *counted(node *n, value *size) {
    value *zero = insert_scalar(n, DT_I64, 0), *one = insert_scalar(n, DT_I64, 1);
    return NODE(n, "Range", zero, NODE(n, "Squeeze", size), one);
}

value *not_all(node *n, value *done) {
    return NODE(n, "Not", with_int(NODE(n, "ReduceMin", done), "keepdims", 0));
}

// ---- Embedding a graph attribute

typedef struct embedding {
    map as; // values of `from` by id
    graph *from, *to;
} embedding;

static void embed_constant(void *user, value *v) {
    embedding *e = user;
    if (!v->constant || v->graph != e->from || map_get_number(&e->as, (uint64_t)v->id)) return;
    map_put_number(&e->as, (uint64_t)v->id, value_constant(e->to, v->name, v->constant));
}

void embed_graph(node *at, graph *g, value *const *in, value **out) {
    embedding e = {.as = {.arena = infer_arena(at)}, .from = g, .to = at->graph};
    for (int i = 0; i < g->inputs.n; i++) map_put_number(&e.as, (uint64_t)g->inputs.at[i]->id, in[i]);
    for (int i = 0; i < g->nodes.n; i++) node_reads(g->nodes.at[i], embed_constant, &e);
    for (int i = 0; i < g->outputs.n; i++) embed_constant(&e, g->outputs.at[i]);
    for (int i = 0; i < g->nodes.n; i++) node_move(node_copy(g->nodes.at[i], e.to, &e.as), e.to, at);
    for (int i = 0; i < g->outputs.n; i++) {
        value *v = map_get_number(&e.as, (uint64_t)g->outputs.at[i]->id);
        out[i] = v ? v : g->outputs.at[i];
    }
}

static graph *graph_of(const node *n, const char *name) {
    graph *g = node_graph(n, name);
    if (!g) infer_error(n, "attribute %s is missing", name);
    return g;
}

// ---- The loop

void loop_begin(loop_builder *l, node *n) {
    arena *a = infer_arena(n);
    *l = (loop_builder){.n = n, .body = graph_new(n->graph->module, n->graph, "tokens")};
    value *iteration = graph_add_input(l->body, "iteration", type_tensor(a, DT_I64, 0, NULL));
    value *going = graph_add_input(l->body, "going", type_tensor(a, DT_BOOL, 0, NULL));
    l->end = node_new(l->body, NULL, op_find("", "Identity"), n->loc, 1, &going);
    l->iteration = NODE(l->end, "Unsqueeze", iteration, one_int(l->end, 0));
}

value *loop_carry(loop_builder *l, value *first) {
    arena *a = infer_arena(l->n);
    value *now = graph_add_input(l->body, NULL, (type){0});
    VEC_PUSH(a, &l->first, first);
    VEC_PUSH(a, &l->now, now);
    VEC_PUSH(a, &l->next, now);
    return now;
}

void loop_next(loop_builder *l, const value *now, value *next) {
    for (int i = 0; i < l->now.n; i++)
        if (l->now.at[i] == now) l->next.at[i] = next;
}

value *loop_end(loop_builder *l, value *trips, value *start, value *going) {
    int carried = l->first.n, count = carried + l->scanned.n;
    graph_add_output(l->body, going);
    for (int i = 0; i < carried; i++) graph_add_output(l->body, l->next.at[i]);
    for (int i = 0; i < l->scanned.n; i++) graph_add_output(l->body, l->scanned.at[i]);
    node_delete(l->end);
    value **in = ARENA_ARRAY(infer_arena(l->n), value *, carried + 2);
    in[0] = trips, in[1] = start;
    for (int i = 0; i < carried; i++) in[i + 2] = l->first.at[i];
    value *v = insert_node(l->n, "Loop", (size_t)carried + 2, in);
    node_set_attr(v->def, (attr){.name = "body", .kind = ATTR_GRAPH, .graph = l->body});
    for (int i = 1; i < count; i++) output_of(v, i);
    return v;
}

// ---- Inputs

value *vector_of(node *n, int i) {
    return node_in(n, i) ? reshaped(n, cast_to(n, n->in[i], DT_I64), 1, (const int64_t[]){1}) : NULL;
}

// As the size of a tensor, so that inference sees one dim in all sizes computed from it.
value *size_of(node *n, int i) { return shape_part(n, NODE(n, "ConstantOfShape", vector_of(n, i)), 0, 1); }

value *number_of(node *n, int i) {
    return node_in(n, i) ? reshaped(n, cast_to(n, n->in[i], DT_F32), 0, NULL) : NULL;
}

// Decoders for GPUs get the length of a cache of max_length positions, which they update in place.
static void check_caches(const node *n, const graph *d) {
    for (int i = 0; i < d->inputs.n; i++)
        if (!strncmp(d->inputs.at[i]->name, "past_sequence_length", 20))
            infer_error(
                n, "the decoder has an input past_sequence_length; caches that are updated in place are not "
                   "supported (convert the model without past_present_share_buffer)");
}

void generation_begin(generation *g, node *n, int rank) {
    *g = (generation){.n = n, .decoder = graph_of(n, "decoder")};
    if (infer_rank(n, 0) != rank)
        infer_error(n, "input_ids has rank %d, but must have rank %d", infer_rank(n, 0), rank);
    check_caches(n, g->decoder);
    g->eos = node_int(n, "eos_token_id", -1), g->pad = node_int(n, "pad_token_id", -1);
    g->batch = g->rows = shape_part(n, n->in[0], 0, 1);
    g->most = size_of(n, 1), g->least = vector_of(n, 2);
}

value *repeat_beams(const generation *g, value *v, int rank, int axis) {
    node *n = g->n;
    if (!g->beams) return v;
    int64_t ones[MAX_RANK];
    for (int i = 0; i < rank; i++) ones[i] = 1;
    value *sizes = JOINED(n, insert_ints(n, ones, axis + 1), g->beams, insert_ints(n, ones, rank - axis - 1));
    value *each = NODE(n, "Expand", NODE(n, "Unsqueeze", v, one_int(n, axis + 1)), sizes);
    value *all = JOINED(n, shape_part(n, v, 0, axis), g->rows, shape_part(n, v, axis + 1, INT64_MAX));
    return with_int(NODE(n, "Reshape", each, all), "allowzero", 1);
}

// ---- Runs of the decoder

value *last_logits(const generation *g, node *at, const graph *from, value *logits) {
    int64_t size = node_int(g->n, "vocab_size", -1);
    const type *t = &from->outputs.at[0]->type;
    value *last = NODE(at, "Squeeze", sliced(at, logits, 1, -1, INT64_MAX), one_int(at, 1));
    if (size > 0) last = sliced(at, last, 1, 0, size);
    return t->kind == TYPE_TENSOR && t->elem == DT_F32 ? last : cast_to(at, last, DT_F32);
}

// v, whose size along `axis` is `size`: for inference.
static value *with_size(node *at, value *v, int64_t axis, value *size) {
    value *sizes = JOINED(at, shape_part(at, v, 0, axis), size, shape_part(at, v, axis + 1, INT64_MAX));
    return with_int(NODE(at, "Reshape", v, sizes), "allowzero", 1);
}

value *ids_so_far(const generation *g, node *at, value *iteration, value *ids, int axis) {
    return with_size(at, ids, axis, NODE(at, "Add", NODE(at, "Add", g->length, iteration), one_int(at, 1)));
}

value *next_run(const generation *g, node *at, value *iteration, value *ids, value **past) {
    graph *d = g->decoder;
    arena *a = infer_arena(g->n);
    value **in = ARENA_ARRAY(a, value *, d->inputs.n + 1), **out = ARENA_ARRAY(a, value *, d->outputs.n + 1);
    value *length = NODE(at, "Add", g->length, iteration);
    g->feeds(g, at, iteration, ids, in);
    for (int i = 0; i < g->npast; i++) in[g->nfeeds + i] = with_size(at, past[i], g->length_axis, length);
    for (int i = 0; i < g->nfixed; i++) in[g->nfeeds + g->npast + i] = g->fixed[i];
    embed_graph(at, d, in, out);
    for (int i = 0; i < g->npast; i++) past[i] = out[1 + i];
    return last_logits(g, at, d, out[0]);
}

int64_t declared_size(const generation *g, const value *v, int axis) {
    const type *t = &v->type;
    if (t->kind != TYPE_TENSOR || t->rank <= axis || !dim_is_const(t->dims[axis]))
        infer_error(g->n, "the decoder declares no constant size for axis %d of its input '%s'", axis,
                    v->name);
    return dim_value(t->dims[axis]);
}

static void check_gpt(const generation *g, const graph *d) {
    if (d->inputs.n < 4 || d->inputs.n != d->outputs.n + 2)
        infer_error(
            g->n,
            "the decoder has %d inputs and %d outputs; a decoder like GPT-2's has input_ids, position_ids, "
            "attention_mask, past_0 ... and logits, present_0 ...",
            d->inputs.n, d->outputs.n);
}

// The prompt must leave room for a token, where both lengths are known.
static void check_length(const node *n) {
    const constant *most = infer_constant(n, 1);
    const dim *length = infer_in(n, 0)->dims[1];
    if (!most || most->count != 1 || !dim_is_const(length) || constant_int(most, 0) > dim_value(length))
        return;
    infer_error(n, "max_length is %lld, but the prompt already has %lld tokens",
                (long long)constant_int(most, 0), (long long)dim_value(length));
}

// input_ids (rows, 1), position_ids (rows, 1), attention_mask (rows, total length)
static void gpt_feeds(const generation *g, node *at, value *iteration, value *ids, value **in) {
    value *total = NODE(at, "Add", iteration, one_int(at, 1)), *one = insert_scalar(at, DT_I32, 1);
    in[0] = sliced(at, ids, 1, -1, INT64_MAX);
    in[1] = NODE(at, "Add", g->positions, cast_to(at, iteration, DT_I32));
    in[2] = joined_along(at, g->attention, NODE(at, "Expand", one, JOINED(at, g->rows, total)), 1);
}

value *first_gpt_run(generation *g, int attention) {
    node *n = g->n;
    graph *d = node_graph(n, "init_decoder") ? node_graph(n, "init_decoder") : g->decoder;
    check_length(n), check_gpt(g, d), check_gpt(g, g->decoder);
    arena *a = infer_arena(n);
    value **in = ARENA_ARRAY(a, value *, d->inputs.n + 1), **out = ARENA_ARRAY(a, value *, d->outputs.n + 1);
    value *ids = n->in[0], *pad = int_scalar(n, DT_I32, g->pad), *one = int_scalar(n, DT_I32, 1);
    value *words = cast_to(n, NODE(n, "Not", NODE(n, "Equal", ids, pad)), DT_I32);
    value *count = NODE(n, "CumSum", words, int_scalar(n, DT_I64, 1));
    in[0] = ids, in[1] = NODE(n, "Mul", NODE(n, "Sub", count, one), words);
    in[2] = node_in(n, attention) ? n->in[attention] : words;
    int64_t heads = declared_size(g, d->inputs.at[3], 2), size = declared_size(g, d->inputs.at[3], 4);
    value *none = NODE(n, "ConstantOfShape",
                       JOINED(n, one_int(n, 2), g->batch, insert_ints(n, (int64_t[]){heads, 0, size}, 3)));
    dtype t = d->inputs.at[3]->type.elem;
    if (t != DT_F32) none = cast_to(n, none, t);
    for (int i = 3; i < d->inputs.n; i++) in[i] = none;
    embed_graph(n, d, in, out);
    g->nfeeds = 3, g->npast = d->outputs.n - 1, g->batch_axis = 1, g->length_axis = 3, g->feeds = gpt_feeds;
    g->length = shape_part(n, ids, 1, 2);
    g->past = ARENA_ARRAY(a, value *, g->npast + 1);
    for (int i = 0; i < g->npast; i++) g->past[i] = repeat_beams(g, out[1 + i], 5, 1);
    g->attention = repeat_beams(g, in[2], 2, 0);
    g->positions = repeat_beams(g, reduced(n, "ReduceSum", words, 1), 2, 0);
    return last_logits(g, n, d, out[0]);
}

// ---- Logits

value *lowest_score(node *at) { return insert_scalar(at, DT_F32, -FLT_MAX); }

static value *forbidden(node *at, value *where, value *scores) {
    return NODE(at, "Where", where, lowest_score(at), scores);
}

static value *is_masked(node *at, value *mask) {
    return NODE(at, "Equal", mask, insert_scalar(at, DT_I32, 0));
}

// Tokens that the row already has: positive scores are divided by the penalty, negative ones multiplied.
static value *penalised(const generation *g, node *at, value *scores, value *ids) {
    value *sizes = shape_part(at, scores, 0, INT64_MAX), *no = insert_scalar(at, DT_BOOL, 0);
    value *yes = insert_scalar(at, DT_BOOL, 1);
    value *seen = NODE(at, "ScatterElements", NODE(at, "Expand", no, sizes), ids,
                       NODE(at, "Expand", yes, shape_part(at, ids, 0, INT64_MAX)));
    value *negative = NODE(at, "Less", scores, insert_scalar(at, DT_F32, 0));
    value *changed =
        NODE(at, "Where", negative, NODE(at, "Mul", scores, g->penalty), NODE(at, "Div", scores, g->penalty));
    return NODE(at, "Where", with_int(seen, "axis", 1), changed, scores);
}

// Rows shorter than min_length may not end.
static value *without_early_end(const generation *g, node *at, value *scores, value *ids) {
    value *tokens = counted(at, shape_part(at, scores, 1, 2));
    value *is_end = NODE(at, "Equal", tokens, int_scalar(at, DT_I64, g->eos));
    value *is_short = NODE(at, "Less", shape_part(at, ids, 1, 2), g->least);
    return forbidden(at, NODE(at, "And", is_end, is_short), scores);
}

value *processed_logits(const generation *g, node *at, value *scores, value *ids, bool first) {
    int64_t size = node_int(g->n, "no_repeat_ngram_size", 0);
    if (g->penalty) scores = penalised(g, at, scores, ids);
    if (size > 0) scores = without_repeated_ngrams(at, scores, ids, size, lowest_score(at));
    if (g->mask) scores = forbidden(at, is_masked(at, g->mask), scores);
    if (g->first_mask && first) scores = forbidden(at, is_masked(at, g->first_mask), scores);
    if (g->least) scores = without_early_end(g, at, scores, ids);
    if (g->temperature) scores = NODE(at, "Div", scores, g->temperature);
    if (g->presence) scores = NODE(at, "Sub", scores, g->presence);
    if (g->processor) scores = with_timestamps(g, at, scores, ids);
    return scores;
}

// ---- Results

value *padded_sequences(const generation *g, value *ids, int rank) {
    node *n = g->n;
    value *rest = NODE(n, "Sub", g->most, shape_part(n, ids, rank - 1, rank));
    value *pad =
        NODE(n, "Expand", int_scalar(n, DT_I32, g->pad), JOINED(n, shape_part(n, ids, 0, rank - 1), rest));
    return joined_along(n, ids, pad, rank - 1);
}
