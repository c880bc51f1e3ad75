// The first run of encoder-decoder models like T5 and Whisper, for BeamSearch and WhisperBeamSearch.
//
// encoder: encoder_input_ids, encoder_attention_mask (T5), decoder_input_ids (optional for T5)
//     -> logits, encoder_hidden_states, present_key_self_0, present_value_self_0 .., present_key_cross_0 ..
//     or, without decoder_input_ids, present_key_cross_0, present_value_cross_0 ..
// decoder: input_ids, encoder_input_ids (optional for T5), encoder_attention_mask (T5), encoder_hidden_states (optional),
//          past_key_self_0 .., past_key_cross_0 ..
//     -> logits, present_key_self_0, present_value_self_0 ..
#include "ir/ops/contrib/generation.h"

// The decoder's inputs before the past. input_ids are the last ids, or all of them unless the decoder declares a length of 1.
static void decoder_feeds(const generation *g, node *at, value *iteration, value *ids, value **in) {
    (void)iteration;
    const type *t = &g->decoder->inputs.at[0]->type;
    bool is_last = t->kind == TYPE_TENSOR && t->rank == 2 && dim_is(t->dims[1], 1);
    int i = 0;
    in[i++] = is_last ? sliced(at, ids, 1, -1, INT64_MAX) : ids;
    if (g->encoded) in[i++] = g->encoded;
    if (g->attention) in[i++] = g->attention;
    if (g->states) in[i++] = g->states;
}

// The number of the decoder's inputs before the optional encoder_hidden_states.
static int needed_feeds(const generation *g) { return 1 + (g->encoded != NULL) + (g->attention != NULL); }

// The third input is then the mask, and no floats.
static bool reads_encoder_ids(const graph *d) {
    return d->inputs.n > 2 && d->inputs.at[2]->type.kind == TYPE_TENSOR &&
           d->inputs.at[2]->type.elem == DT_I32;
}

static void check_graphs(const generation *g, const graph *e, int encoder_inputs) {
    const graph *d = g->decoder;
    int past = d->outputs.n - 1, feeds = d->inputs.n - 2 * past, others = needed_feeds(g);
    if (past < 2 || past % 2 != 0 || feeds < others || feeds > others + 1)
        infer_error(g->n,
                    "the decoder has %d inputs and %d outputs; a decoder of L layers has %d or %d inputs "
                    "and 4 L of the past, and 1 + 2 L outputs",
                    d->inputs.n, d->outputs.n, others, others + 1);
    bool is_whole = e->inputs.n == encoder_inputs && e->outputs.n == 2 + 2 * past;
    bool is_cross =
        g->attention && e->inputs.n == encoder_inputs - 1 && e->outputs.n == past && feeds == others;
    if (!is_whole && !is_cross)
        infer_error(g->n, "the encoder has %d inputs and %d outputs, which do not fit a decoder of %d layers",
                    e->inputs.n, e->outputs.n, past / 2);
}

// An empty past, (batch, heads, 0, size), of the sizes that the decoder declares.
static value *no_past(const generation *g) {
    node *n = g->n;
    const value *v = g->decoder->inputs.at[g->nfeeds];
    value *sizes = insert_ints(n, (int64_t[]){declared_size(g, v, 1), 0, declared_size(g, v, 3)}, 3);
    value *none = NODE(n, "ConstantOfShape", JOINED(n, g->batch, sizes));
    return v->type.elem == DT_F32 ? none : cast_to(n, none, v->type.elem);
}

// The first run of the decoder, for encoders that only compute the caches of cross attention.
static value *first_decoder_run(generation *g, value *ids, value *const *cross) {
    graph *d = g->decoder;
    arena *a = infer_arena(g->n);
    value **in = ARENA_ARRAY(a, value *, d->inputs.n + 1), **out = ARENA_ARRAY(a, value *, d->outputs.n + 1);
    value *none = no_past(g);
    decoder_feeds(g, g->n, NULL, ids, in);
    for (int i = 0; i < g->npast; i++) in[g->nfeeds + i] = none, in[g->nfeeds + g->npast + i] = cross[i];
    embed_graph(g->n, d, in, out);
    for (int i = 0; i < g->npast; i++) g->past[i] = out[1 + i];
    return last_logits(g, g->n, d, out[0]);
}

value *first_encoder_run(generation *g, value *mask, value *ids, bool *runs_decoder) {
    node *n = g->n;
    graph *e = node_graph(n, "encoder");
    if (!e) infer_error(n, "attribute encoder is missing");
    arena *a = infer_arena(n);
    value **in = ARENA_ARRAY(a, value *, e->inputs.n + 3), **out = ARENA_ARRAY(a, value *, e->outputs.n + 1);
    int count = 0;
    in[count++] = n->in[0];
    if (mask) in[count++] = mask;
    in[count++] = ids;
    g->attention = mask;
    g->encoded = mask && reads_encoder_ids(g->decoder) ? n->in[0] : NULL;
    check_graphs(g, e, count);
    embed_graph(n, e, in, out);
    *runs_decoder = e->inputs.n < count;
    g->npast = g->nfixed = g->decoder->outputs.n - 1, g->nfeeds = g->decoder->inputs.n - 2 * g->npast;
    g->batch_axis = 0, g->length_axis = 2, g->feeds = decoder_feeds;
    g->length = shape_part(n, ids, 1, 2);
    g->past = ARENA_ARRAY(a, value *, g->npast + 1), g->fixed = ARENA_ARRAY(a, value *, g->npast + 1);
    value *const *cross = *runs_decoder ? out : out + 2 + g->npast, *logits;
    for (int i = 0; !*runs_decoder && i < g->npast; i++) g->past[i] = out[2 + i];
    logits = *runs_decoder ? first_decoder_run(g, ids, cross) : last_logits(g, n, e, out[0]);
    for (int i = 0; i < g->npast; i++) {
        g->past[i] = repeat_beams(g, g->past[i], 4, 0);
        g->fixed[i] = repeat_beams(g, cross[i], 4, 0);
    }
    if (mask) g->attention = repeat_beams(g, mask, 2, 0);
    if (g->encoded) g->encoded = repeat_beams(g, g->encoded, 2, 0);
    if (g->nfeeds > needed_feeds(g)) g->states = repeat_beams(g, out[1], 3, 0);
    return logits;
}

value *mask_of_tokens(const generation *g, value *ids) {
    node *n = g->n;
    value *pad = insert_scalar(n, DT_I32, (double)g->pad), *axis = insert_scalar(n, DT_I64, 1);
    value *words = cast_to(n, NODE(n, "Not", NODE(n, "Equal", ids, pad)), DT_I32);
    return NODE(n, "Min", NODE(n, "CumSum", words, axis), insert_scalar(n, DT_I32, 1));
}

value *start_ids(const generation *g) {
    node *n = g->n;
    int64_t start = node_int(n, "decoder_start_token_id", -1);
    if (start < 0)
        infer_error(n, "attribute decoder_start_token_id is %lld, but must be a token", (long long)start);
    return NODE(n, "Expand", insert_scalar(n, DT_I32, (double)start), JOINED(n, g->batch, one_int(n, 1)));
}
