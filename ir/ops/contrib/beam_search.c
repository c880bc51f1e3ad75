// BeamSearch and WhisperBeamSearch of com.microsoft as graphs of the standard's operators. Entry b of the batch has `beams`
// active beams, and up to `beams` finished hypotheses in descending order of their scores. One step:
//
//   total[k, v] = scores[k] + log_softmax(logits)[k, v], with the logits processors applied between
//   best = the 2 * beams largest of total, in descending order
//   finished: the candidates of best[0 .. beams - 1] that end with eos, with the score total / length ^ length_penalty; of
//       them and of the finished hypotheses before, the `beams` best stay
//   active: the first `beams` candidates of best that do not end
//   done: there are `beams` finished hypotheses, and none of them can be surpassed (with early_stopping: whatever they are)
//
// After the last step, the active beams of entries that are not done are finished as they are.
#include "ir/ops/contrib/generation.h"
#include <float.h>
#include <math.h>

typedef struct search {
    generation g;
    value *returned, *length_penalty; // int64[1]; a scalar or NULL
    bool early_stopping;
    bool always_continues; // a second step follows the first even if all entries are done
} search;

// Finished hypotheses: ids (batch, beams, length), scores and which places are taken (batch, beams).
typedef struct hypotheses {
    value *ids, *scores, *taken;
} hypotheses;

// The state between iterations.
typedef struct beams {
    value *ids;    // of the active beams, (rows, length)
    value *scores; // of the active beams, (batch, beams)
    value *done;   // (batch, 1)
    hypotheses finished;
} beams;

static value *gathered(node *n, value *v, value *places) {
    return with_int(NODE(n, "GatherElements", v, places), "axis", 1);
}
// The first row of each entry of the batch, (batch, 1)
static value *first_rows(const search *s, node *at, value *count) {
    return NODE(at, "Unsqueeze", NODE(at, "Mul", counted(at, s->g.batch), count), one_int(at, 1));
}

// scores / length ^ length_penalty
static value *per_length(const search *s, node *at, value *scores, value *ids) {
    value *length = cast_to(at, shape_part(at, ids, 1, 2), DT_F32);
    if (s->length_penalty) length = NODE(at, "Pow", length, s->length_penalty);
    return NODE(at, "Div", scores, length);
}

// ---- Hypotheses

// The `beams` best of both; equal ones keep their order, and places that are not taken come last.
static hypotheses merged(const search *s, node *at, hypotheses h, hypotheses more) {
    value *beams = s->g.beams, *both = NODE(at, "Mul", beams, one_int(at, 2));
    value *scores = joined_along(at, h.scores, more.scores, 1),
          *taken = joined_along(at, h.taken, more.taken, 1);
    value *keys = NODE(at, "Where", taken, NODE(at, "Max", scores, lowest_score(at)),
                       insert_scalar(at, DT_F32, -INFINITY));
    value *places = output_of(with_int(NODE(at, "TopK", keys, beams), "axis", 1), 1);
    value *ids = joined_along(at, h.ids, more.ids, 1);
    value *flat =
        reshaped_to(at, ids, JOINED(at, NODE(at, "Mul", s->g.batch, both), shape_part(at, ids, 2, 3)));
    value *rows = NODE(at, "Add", places, first_rows(s, at, both));
    return (hypotheses){NODE(at, "Gather", flat, rows), gathered(at, scores, places),
                        gathered(at, taken, places)};
}

// No hypotheses; room for ids as long as these.
static hypotheses no_hypotheses(const search *s, node *at, value *ids) {
    value *sizes = JOINED(at, s->g.batch, s->g.beams);
    value *lengths = JOINED(at, s->g.batch, s->g.beams, shape_part(at, ids, 1, 2));
    return (hypotheses){NODE(at, "Expand", insert_scalar(at, DT_I32, (double)s->g.pad), lengths),
                        NODE(at, "Expand", insert_scalar(at, DT_F32, 0), sizes),
                        NODE(at, "Expand", insert_scalar(at, DT_BOOL, 0), sizes)};
}

// ---- One step

typedef struct candidates {
    value *scores, *tokens, *beams, *ends; // the 2 * beams best, (batch, 2 * beams)
} candidates;

static candidates best_of(const search *s, node *at, value *total) {
    value *beams = s->g.beams, *tokens = shape_part(at, total, 2, 3);
    value *flat = reshaped_to(at, total, JOINED(at, s->g.batch, NODE(at, "Mul", beams, tokens)));
    value *best = with_int(NODE(at, "TopK", flat, NODE(at, "Mul", beams, one_int(at, 2))), "axis", 1);
    value *places = output_of(best, 1), *token = NODE(at, "Mod", places, tokens);
    value *ends = NODE(at, "Equal", token, insert_scalar(at, DT_I64, (double)s->g.eos));
    return (candidates){best, token, NODE(at, "Div", places, tokens), ends};
}

// The places of the first `beams` candidates that do not end.
static value *active_places(const search *s, node *at, const candidates *c) {
    value *count = shape_part(at, c->ends, 1, 2), *zero = insert_scalar(at, DT_I64, 0);
    value *keys = NODE(at, "Add", counted(at, count), NODE(at, "Where", c->ends, count, zero));
    value *first = with_int(with_int(NODE(at, "TopK", keys, s->g.beams), "axis", 1), "largest", 0);
    return output_of(first, 1);
}

// The first `beams` of 2 * beams columns
static value *first_half(const search *s, node *at, value *v) {
    value *halves = reshaped_to(at, v, JOINED(at, s->g.batch, one_int(at, 2), s->g.beams));
    return with_int(NODE(at, "Gather", halves, insert_scalar(at, DT_I64, 0)), "axis", 1);
}

// The first `beams` candidates; those that end are taken.
static hypotheses new_hypotheses(const search *s, node *at, const beams *b, const candidates *c) {
    value *ends = first_half(s, at, c->ends);
    value *rows = NODE(at, "Add", first_half(s, at, c->beams), first_rows(s, at, s->g.beams));
    return (hypotheses){NODE(at, "Gather", b->ids, rows),
                        per_length(s, at, first_half(s, at, c->scores), b->ids),
                        NODE(at, "And", ends, NODE(at, "Not", b->done))};
}

static value *all_true(node *at, value *v) {
    value *least = NODE(at, "ReduceMin", v, one_int(at, 1));
    return with_int(least, "keepdims", 1);
}

// The score that ONNX Runtime takes for the best candidate of entry b of the batch: the largest of places b * beams to
// (b + 2) * beams - 1 of all candidates, which are those of b only for the first entry.
static value *best_candidate(const search *s, node *at, value *scores) {
    value *batch = s->g.batch, *one = one_int(at, 1);
    value *parts = reshaped_to(at, scores, JOINED(at, NODE(at, "Mul", batch, one_int(at, 2)), s->g.beams));
    value *most = with_int(NODE(at, "ReduceMax", parts, one), "keepdims", 1);
    value *zero = one_int(at, 0), *next = NODE(at, "Add", batch, one);
    value *best =
        NODE(at, "Max", NODE(at, "Slice", most, zero, batch, zero), NODE(at, "Slice", most, one, next, zero));
    return reshaped_to(at, best, JOINED(at, batch, one));
}

static value *now_done(const search *s, node *at, const beams *b, const hypotheses *h, value *scores) {
    value *done = all_true(at, h->taken);
    if (!s->early_stopping) {
        value *worst = with_int(NODE(at, "Gather", h->scores, one_int(at, -1)), "axis", 1);
        value *improves = NODE(at, "Less", worst, per_length(s, at, best_candidate(s, at, scores), b->ids));
        done = NODE(at, "And", done, NODE(at, "Not", improves));
    }
    return NODE(at, "Or", b->done, done);
}

// The state after a step with these totals (batch, beams, vocabulary); chosen: the beams that the next ones continue, (rows).
static beams stepped(const search *s, node *at, const beams *b, value *total, value **chosen) {
    candidates c = best_of(s, at, total);
    hypotheses h = merged(s, at, b->finished, new_hypotheses(s, at, b, &c));
    value *places = active_places(s, at, &c), *pad = insert_scalar(at, DT_I64, (double)s->g.pad);
    value *from = NODE(at, "Add", gathered(at, c.beams, places), first_rows(s, at, s->g.beams));
    *chosen = reshaped_to(at, NODE(at, "Where", b->done, insert_scalar(at, DT_I64, 0), from), s->g.rows);
    value *token = NODE(at, "Where", b->done, pad, gathered(at, c.tokens, places));
    token = cast_to(at, reshaped_to(at, token, JOINED(at, s->g.rows, one_int(at, 1))), DT_I32);
    value *ids = NODE(at, "Gather", b->ids, *chosen);
    value *filler = NODE(at, "Expand", insert_scalar(at, DT_I32, (double)s->g.pad),
                         JOINED(at, s->g.batch, s->g.beams, one_int(at, 1)));
    return (beams){joined_along(at, ids, token, 1),
                   NODE(at, "Where", b->done, insert_scalar(at, DT_F32, 0), gathered(at, c.scores, places)),
                   now_done(s, at, b, &h, c.scores),
                   {joined_along(at, h.ids, filler, 2), h.scores, h.taken}};
}

// ---- The search

static value *log_probabilities(const search *s, node *at, value *logits, value *ids, bool first) {
    value *scores = with_int(NODE(at, "LogSoftmax", logits), "axis", 1);
    return processed_logits(&s->g, at, scores, ids, first);
}

// Before the first step all beams of an entry are equal: those after the first start with a score of -1e9.
static beams first_state(const search *s, value *ids) {
    node *n = s->g.n;
    value *is_first = NODE(n, "Equal", counted(n, s->g.beams), insert_scalar(n, DT_I64, 0));
    value *scores = NODE(n, "Where", is_first, insert_scalar(n, DT_F32, 0), insert_scalar(n, DT_F32, -1e9));
    value *rows = repeat_beams(&s->g, ids, 2, 0);
    value *done = NODE(n, "Expand", insert_scalar(n, DT_BOOL, 0), JOINED(n, s->g.batch, one_int(n, 1)));
    return (beams){rows, NODE(n, "Expand", scores, JOINED(n, s->g.batch, s->g.beams)), done,
                   no_hypotheses(s, n, rows)};
}

static value *added(node *at, value *scores, const beams *b) {
    return NODE(at, "Add", scores, NODE(at, "Unsqueeze", b->scores, one_int(at, 2)));
}

// The past of the beams that are continued. A single beam keeps its past even when its entry is done, as in ONNX Runtime.
static void choose_past(const search *s, node *at, value **past, value *chosen) {
    const generation *g = &s->g;
    const constant *c = infer_constant(g->n, 3);
    if (c && c->count == 1 && constant_int(c, 0) == 1) return;
    value *is_single = NODE(at, "Equal", g->beams, one_int(at, 1));
    value *rows = NODE(at, "Where", is_single, counted(at, g->rows), chosen);
    for (int i = 0; i < g->npast; i++)
        past[i] = with_int(NODE(at, "Gather", past[i], rows), "axis", g->batch_axis);
}

static beams carried(loop_builder *l, const beams *b) {
    beams now = {loop_carry(l, b->ids), loop_carry(l, b->scores), loop_carry(l, b->done), {0}};
    now.finished.ids = loop_carry(l, b->finished.ids);
    now.finished.scores = loop_carry(l, b->finished.scores);
    now.finished.taken = loop_carry(l, b->finished.taken);
    return now;
}

// Scores have the type of the penalties.
static void give_scores_as(node *n, int output, value *scores) {
    int i = node_in(n, 5) ? 5 : 6;
    dtype t = node_in(n, i) ? infer_in(n, i)->elem : DT_F32;
    if (node_out(n, output)) give_output(n, output, t == DT_F32 ? scores : cast_to(n, scores, t));
}

// Builds the body of the loop; returns whether another iteration follows.
static value *iterated(const search *s, loop_builder *l, const beams *now, value **past, bool scanned) {
    node *at = l->end;
    const generation *g = &s->g;
    value **before = ARENA_ARRAY(infer_arena(g->n), value *, g->npast + 1), *chosen;
    for (int i = 0; i < g->npast; i++) before[i] = past[i];
    beams b = *now;
    b.ids = ids_so_far(g, at, l->iteration, now->ids, 1);
    b.finished.ids = ids_so_far(g, at, l->iteration, now->finished.ids, 2);
    value *logits = next_run(g, at, l->iteration, b.ids, past);
    value *scores = log_probabilities(s, at, logits, b.ids, false);
    scores = reshaped_to(at, scores, JOINED(at, g->batch, g->beams, shape_part(at, scores, 1, 2)));
    value *total = added(at, scores, &b);
    beams next = stepped(s, at, &b, total, &chosen);
    if (scanned) VEC_PUSH(infer_arena(g->n), &l->scanned, total);
    loop_next(l, now->ids, next.ids), loop_next(l, now->scores, next.scores),
        loop_next(l, now->done, next.done);
    loop_next(l, now->finished.ids, next.finished.ids),
        loop_next(l, now->finished.scores, next.finished.scores);
    loop_next(l, now->finished.taken, next.finished.taken);
    choose_past(s, at, past, chosen);
    for (int i = 0; i < g->npast; i++) loop_next(l, before[i], past[i]);
    return not_all(at, next.done);
}

static void give_sequences(const search *s, const beams *b) {
    node *n = s->g.n;
    value *sizes = JOINED(n, s->g.batch, s->g.beams, shape_part(n, b->ids, 1, 2));
    hypotheses active = {reshaped_to(n, b->ids, sizes), per_length(s, n, b->scores, b->ids),
                         NODE(n, "Expand", NODE(n, "Not", b->done), JOINED(n, s->g.batch, s->g.beams))};
    hypotheses h = merged(s, n, b->finished, active);
    value *best = counted(n, s->returned); // hypotheses are in descending order
    give_scores_as(n, 1, with_int(NODE(n, "Gather", h.scores, best), "axis", 1));
    value *ids = with_int(NODE(n, "Gather", h.ids, best), "axis", 1);
    give_output(n, 0, padded_sequences(&s->g, ids, 3));
}

// Output 2: the totals of all steps; zeros for steps that did not take place.
static void give_scores(const search *s, value *first, value *others) {
    node *n = s->g.n;
    others =
        reshaped_to(n, others, JOINED(n, shape_part(n, others, 0, 1), shape_part(n, first, 0, INT64_MAX)));
    value *all = joined_along(n, NODE(n, "Unsqueeze", first, one_int(n, 0)), others, 0);
    value *steps = NODE(n, "Sub", NODE(n, "Sub", s->g.most, s->g.length), shape_part(n, all, 0, 1));
    value *rest = NODE(n, "Expand", insert_scalar(n, DT_F32, 0), JOINED(n, steps, shape_part(n, all, 1, 4)));
    give_scores_as(n, 2, joined_along(n, all, rest, 0));
}

// `logits` of the first run, for the prompt `ids`.
static void run_search(const search *s, value *logits, value *ids) {
    const generation *g = &s->g;
    node *n = g->n;
    value *chosen, *scores = log_probabilities(s, n, logits, ids, true);
    beams start = first_state(s, ids);
    value *total = added(n, NODE(n, "Unsqueeze", scores, one_int(n, 1)), &start);
    beams first = stepped(s, n, &start, total, &chosen);
    loop_builder l;
    loop_begin(&l, n);
    beams now = carried(&l, &first);
    value **past = ARENA_ARRAY(infer_arena(n), value *, g->npast + 1);
    choose_past(s, n, g->past, chosen);
    for (int i = 0; i < g->npast; i++) past[i] = loop_carry(&l, g->past[i]);
    value *going = iterated(s, &l, &now, past, node_out(n, 2));
    value *trips = NODE(n, "Squeeze", NODE(n, "Sub", NODE(n, "Sub", g->most, g->length), one_int(n, 1)));
    value *start_loop = s->always_continues ? insert_scalar(n, DT_BOOL, 1) : not_all(n, first.done);
    value *y = loop_end(&l, trips, start_loop, going);
    beams last = {y, output_of(y, 1), output_of(y, 2), {output_of(y, 3), output_of(y, 4), output_of(y, 5)}};
    if (node_out(n, 2)) give_scores(s, total, output_of(y, 6 + g->npast));
    give_sequences(s, &last);
}

static void begin_search(search *s, node *n, int rank) {
    generation *g = &s->g;
    *s = (search){.early_stopping = node_int(n, "early_stopping", 0) == 1};
    generation_begin(g, n, rank);
    g->beams = size_of(n, 3), s->returned = size_of(n, 4);
    g->rows = NODE(n, "Mul", g->batch, g->beams);
    s->length_penalty = number_of(n, 5), g->penalty = number_of(n, 6);
    g->mask = node_in(n, 7), g->first_mask = node_in(n, 8);
}

static void search_gpt(search *s) { run_search(s, first_gpt_run(&s->g, 9), s->g.n->in[0]); }

static void search_t5(search *s) {
    node *n = s->g.n;
    bool runs_decoder;
    value *ids = start_ids(&s->g), *mask = node_in(n, 9) ? n->in[9] : mask_of_tokens(&s->g, n->in[0]);
    value *logits = first_encoder_run(&s->g, mask, ids, &runs_decoder);
    s->always_continues = !runs_decoder;
    run_search(s, logits, ids);
}

// Enables the timestamp rules unless input logits_processor is the constant 0, or there are no timestamps.
static void begin_timestamps(generation *g) {
    node *n = g->n;
    if (!node_in(n, 11)) return;
    const constant *c = infer_constant(n, 11);
    bool is_constant = c && c->count == 1;
    if (is_constant && constant_int(c, 0) != 1) return;
    if (node_int(n, "beginning_timestamp_token_id", 0) > 0) {
        g->processor = vector_of(n, 11);
        return;
    }
    if (is_constant) infer_error(n, "logits_processor 1 needs attribute beginning_timestamp_token_id");
    diag_warning(
        n->graph->module->diag, WARN_IGNORED_INPUT, n->loc,
        "input logits_processor is ignored, because attribute beginning_timestamp_token_id is not a token");
}

static void search_whisper(search *s) {
    generation *g = &s->g;
    node *n = g->n;
    bool runs_decoder;
    value *ids = node_in(n, 10) ? n->in[10] : start_ids(g);
    begin_timestamps(g);
    s->always_continues = true;
    value *logits = first_encoder_run(g, NULL, ids, &runs_decoder);
    if (node_out(n, 4)) {
        value *token = insert_ints(n, (int64_t[]){node_int(n, "no_speech_token_id", -1)}, 1);
        value *share = with_int(NODE(n, "Softmax", logits), "axis", 1);
        share = with_int(NODE(n, "Gather", share, token), "axis", 1);
        give_scores_as(n, 4, NODE(n, "Squeeze", share, one_int(n, 1)));
    }
    run_search(s, logits, ids);
}

// model_type: 0 for decoders like GPT-2's, 1 for encoders and decoders like T5's, 2 for Whisper
static void beam_search(node *n) {
    search s;
    int64_t kind = node_int(n, "model_type", 0);
    begin_search(&s, n, kind == 2 ? 3 : 2);
    if (kind == 0) search_gpt(&s);
    else if (kind == 1) search_t5(&s);
    else if (kind == 2) search_whisper(&s);
    else infer_error(n, "attribute model_type is %lld, but must be 0, 1 or 2", (long long)kind);
}
MICROSOFT_OP(BeamSearch, beam_search);

static void whisper_beam_search(node *n) {
    search s;
    if (node_int(n, "model_type", 2) != 2)
        infer_error(n, "attribute model_type is %lld, but must be 2",
                    (long long)node_int(n, "model_type", 2));
    if (node_out(n, 3) || node_int(n, "decoder_output_cross_qk", 0) || node_in(n, 13))
        infer_error(
            n, "products of cross attention (output cross_qk, input extra_decoding_ids) are not supported");
    if (node_out(n, 4) && node_int(n, "no_speech_token_id", -1) < 0)
        infer_error(n, "attribute no_speech_token_id is missing, which output non_speech_probs needs");
    begin_search(&s, n, 3);
    value *one = insert_scalar(n, DT_F32, 1), *zero = insert_scalar(n, DT_F32, 0), *t = number_of(n, 14);
    if (t) s.g.temperature = NODE(n, "Where", NODE(n, "Greater", t, zero), t, one);
    search_whisper(&s);
}
MICROSOFT_OP(WhisperBeamSearch, whisper_beam_search);
