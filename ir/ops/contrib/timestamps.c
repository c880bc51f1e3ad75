// Whisper's timestamp rules, a logits processor of WhisperBeamSearch as ONNX Runtime defines it. Timestamps are the tokens
// from beginning_timestamp_token_id on.
#include "ir/ops/contrib/generation.h"

enum { MAX_INITIAL = 50 }; // the first timestamp, relative to the beginning

// What the rules need to know of the ids so far, (rows, 1) each.
typedef struct history {
    value *is_first;           // there is no timestamp before the last id
    value *last, *before_last; // whether these ids are timestamps
    value *least;              // the lowest timestamp that may follow
} history;

static value *number(node *at, int64_t i) { return insert_scalar(at, DT_I64, (double)i); }
static value *both(node *at, value *a, value *b) { return NODE(at, "And", a, b); }
static value *either(node *at, value *a, value *b) { return NODE(at, "Or", a, b); }

static history timestamp_history(node *at, value *ids, int64_t beginning) {
    value *length = shape_part(at, ids, 1, 2), *all = cast_to(at, ids, DT_I64), *zero = number(at, 0);
    value *is_stamp = NODE(at, "GreaterOrEqual", all, number(at, beginning)), *places = counted(at, length);
    value *so_far = NODE(at, "CumSum", cast_to(at, is_stamp, DT_I64), number(at, 1));
    value *text = reduced(at, "ReduceSum", cast_to(at, NODE(at, "Equal", so_far, zero), DT_I64), 1);
    history s = {.is_first = NODE(at, "GreaterOrEqual", text, NODE(at, "Sub", length, number(at, 1)))};
    s.last = sliced(at, is_stamp, 1, -1, INT64_MAX);
    // One more column for rows of a single id, whose first timestamp is at their end.
    value *wide = with_int(NODE(at, "Concat", s.last, is_stamp), "axis", 1);
    s.before_last = either(at, s.is_first, sliced(at, wide, 1, -2, -1));
    value *last_place = reduced(at, "ReduceMax", NODE(at, "Where", is_stamp, places, number(at, -1)), 1);
    value *stamp = NODE(at, "GatherElements", all, NODE(at, "Max", last_place, zero));
    value *same = both(at, s.last, NODE(at, "Not", s.before_last));
    stamp = NODE(at, "Add", with_int(stamp, "axis", 1), NODE(at, "Where", same, zero, number(at, 1)));
    s.least = NODE(at, "Where", NODE(at, "GreaterOrEqual", last_place, zero), stamp, zero);
    return s;
}

static value *is_token(const generation *g, node *at, value *tokens, const char *attribute) {
    return NODE(at, "Equal", tokens, number(at, node_int(g->n, attribute, -1)));
}

// Timestamps come in pairs, except for the first, and do not decrease; the first is at most MAX_INITIAL.
static value *not_allowed(const generation *g, node *at, value *tokens, value *is_stamp, const history *s,
                          int64_t beginning) {
    value *never = either(at, is_token(g, at, tokens, "no_timestamps_token_id"),
                          is_token(g, at, tokens, "start_of_lm_token_id"));
    value *starts = either(at, is_token(g, at, tokens, "decoder_start_token_id"),
                           is_token(g, at, tokens, "translate_token_id"));
    starts = either(at, starts, is_token(g, at, tokens, "transcribe_token_id"));
    value *later = both(at, NODE(at, "Not", s->is_first), starts);
    value *text = NODE(at, "Less", tokens, number(at, g->eos)), *is_pair = both(at, s->last, s->before_last);
    value *is_single = both(at, s->last, NODE(at, "Not", s->before_last));
    value *pairs = either(at, both(at, is_pair, is_stamp), both(at, is_single, text));
    value *earlier = both(at, is_stamp, NODE(at, "Less", tokens, s->least));
    value *late = both(at, s->is_first, NODE(at, "Greater", tokens, number(at, beginning + MAX_INITIAL)));
    return either(at, either(at, either(at, never, later), either(at, pairs, earlier)), late);
}

// Whether all timestamps together are more probable than any single text token.
static value *text_is_unlikely(node *at, value *scores, value *is_stamp) {
    value *lowest = lowest_score(at), *stamps = NODE(at, "Where", is_stamp, scores, lowest);
    value *most = reduced(at, "ReduceMax", stamps, 1), *zero = insert_scalar(at, DT_F32, 0);
    value *shares = NODE(at, "Exp", NODE(at, "Sub", stamps, most));
    value *sum =
        reduced(at, "ReduceSum", NODE(at, "Where", NODE(at, "Greater", stamps, lowest), shares, zero), 1);
    value *total = NODE(at, "Where", NODE(at, "Greater", sum, zero),
                        NODE(at, "Add", NODE(at, "Log", sum), most), lowest);
    return NODE(at, "Greater", total,
                reduced(at, "ReduceMax", NODE(at, "Where", is_stamp, lowest, scores), 1));
}

value *with_timestamps(const generation *g, node *at, value *scores, value *ids) {
    int64_t beginning = node_int(g->n, "beginning_timestamp_token_id", -1);
    value *tokens = counted(at, shape_part(at, scores, 1, 2)), *lowest = lowest_score(at);
    value *is_stamp = NODE(at, "GreaterOrEqual", tokens, number(at, beginning));
    history s = timestamp_history(at, ids, beginning);
    value *allowed = NODE(at, "Where", not_allowed(g, at, tokens, is_stamp, &s, beginning), lowest, scores);
    value *is_text = both(at, text_is_unlikely(at, allowed, is_stamp), NODE(at, "Not", is_stamp));
    value *y = NODE(at, "Where", is_text, lowest, allowed);
    return NODE(at, "Where", NODE(at, "Equal", g->processor, one_int(at, 1)), y, scores);
}
