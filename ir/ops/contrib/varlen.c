// Sequences of different lengths one after the other in one buffer of tokens, whose bounds the cumulative lengths give
// (starts, and after them the end): operators of com.microsoft as graphs of the standard's operators.
#include "ir/ops/contrib/varlen.h"
#include <string.h>

value *as_column(node *n, value *v) { return NODE(n, "Unsqueeze", v, one_int(n, -1)); }

// owner[t] = how many sequences end at t or before
sequences sequences_at(node *n, value *tokens, int bounds, int64_t before) {
    sequences s = {.n = n, .before = before};
    value *all = cast_to(n, n->in[bounds], DT_I64);
    s.starts = sliced(n, all, 0, 0, -1);
    value *ends = sliced(n, all, 0, 1, INT64_MAX), *each = numbers_to(n, shape_part(n, tokens, 0, 1));
    s.lengths = NODE(n, "Sub", ends, s.starts);
    value *over = cast_to(n, NODE(n, "LessOrEqual", ends, as_column(n, each)), DT_I64);
    s.owner = with_int(NODE(n, "ReduceSum", over, one_int(n, 1)), "keepdims", 0);
    s.place = NODE(n, "Sub", each, NODE(n, "Gather", s.starts, s.owner));
    return s;
}

// Along axis 0: what stands in `tokens` at these places of these sequences, or, before their beginning, in `past`, of
// which each sequence has `before`. past NULL: no place is before. rows: tokens have rows of channels.
static value *at_places(const sequences *s, value *tokens, value *past, value *owner, value *place,
                        bool rows) {
    node *n = s->n;
    value *zero = int64_scalar(n, 0),
          *last = NODE(n, "Sub", NODE(n, "Squeeze", shape_part(n, tokens, 0, 1)), int64_scalar(n, 1));
    value *at = NODE(n, "Add", NODE(n, "Gather", s->starts, owner), place);
    value *own = NODE(n, "Gather", tokens, NODE(n, "Max", NODE(n, "Min", at, last), zero));
    if (!past) return own;
    value *row = NODE(n, "Mul", owner, int64_scalar(n, s->before)), *is_early = NODE(n, "Less", place, zero);
    value *early = NODE(n, "Add", NODE(n, "Min", place, int64_scalar(n, -1)), int64_scalar(n, s->before));
    value *kept = NODE(n, "Gather", past, NODE(n, "Add", row, NODE(n, "Max", early, zero)));
    return NODE(n, "Where", rows ? as_column(n, is_early) : is_early, kept, own);
}

// (sequences, before): the last places of each sequence.
static value *last_places(const sequences *s, value **owner) {
    node *n = s->n;
    value *back = numbers_to(n, one_int(n, s->before)), *count = shape_part(n, s->starts, 0, 1);
    value *place = NODE(n, "Add", as_column(n, NODE(n, "Sub", s->lengths, int64_scalar(n, s->before))), back);
    *owner = NODE(n, "Expand", as_column(n, numbers_to(n, count)), JOINED(n, count, one_int(n, s->before)));
    return place;
}

// ---- VarlenNGramHashMapping: input_ids, multipliers, vocab_sizes, cumulative lengths, past_ids, head_offsets, eos_token_id,
// segment_ids, past_segment_ids, capture_count
enum { IDS, FACTORS, SIZES, BOUNDS, PAST_IDS, OFFSETS, EOS, SEGMENTS, PAST_SEGMENTS, CAPTURED };
typedef struct hashing {
    sequences s;
    node *n;
    int64_t most;               // ids in the longest n-gram
    value *pad, *other;         // scalars; other: what stands where no id of the text does
    value *past, *past_segment; // flat
} hashing;

static value *filled(node *n, value *v, value *sequences, int64_t each) {
    return NODE(n, "Expand", v, NODE(n, "Mul", shape_part(n, sequences, 0, 1), one_int(n, each)));
}

static void check_hashing(node *n, int64_t most) {
    int64_t room = node_int(n, "state_update_capacity", 0), heads = node_int(n, "n_head_per_ngram", 0);
    if (most < 2 || heads < 1)
        infer_error(
            n,
            "attributes max_ngram_size and n_head_per_ngram are %lld and %lld, but must be 2 and 1 at least",
            (long long)most, (long long)heads);
    if (room < 0 || room > 8 || (room > 0) != (node_in(n, CAPTURED) != NULL))
        infer_error(
            n,
            "attribute state_update_capacity is %lld and capture_count is %s; the capacity is at most 8, and "
            "needs the counts if it is positive",
            (long long)room, node_in(n, CAPTURED) ? "given" : "missing");
    if (!node_in(n, SEGMENTS) && (node_in(n, PAST_SEGMENTS) || node_out(n, 2)))
        infer_error(n, "past or present segments need segment_ids (input %d)", SEGMENTS);
}

static hashing hashing_of(node *n) {
    hashing h = {.n = n, .most = node_int(n, "max_ngram_size", 0)};
    check_hashing(n, h.most);
    value *flat = one_int(n, -1);
    dtype t = infer_in(n, IDS)->elem;
    h.s = sequences_at(n, n->in[IDS], BOUNDS, h.most - 1);
    h.pad = cast_to(n, int64_scalar(n, node_int(n, "pad_id", 0)), t);
    h.other = node_in(n, EOS) ? NODE(n, "Reshape", n->in[EOS], insert_ints(n, NULL, 0)) : h.pad;
    h.past = node_in(n, PAST_IDS) ? NODE(n, "Reshape", n->in[PAST_IDS], flat)
                                  : filled(n, h.other, h.s.starts, h.most - 1);
    if (!node_in(n, SEGMENTS)) return h;
    // Without segments before, the first one began there.
    value *first = as_column(n, NODE(n, "Gather", n->in[SEGMENTS], h.s.starts));
    if (!node_in(n, PAST_SEGMENTS))
        first = NODE(n, "Expand", first, JOINED(n, shape_part(n, h.s.starts, 0, 1), one_int(n, h.most - 1)));
    h.past_segment = NODE(n, "Reshape", node_in(n, PAST_SEGMENTS) ? n->in[PAST_SEGMENTS] : first, flat);
    return h;
}

static value *place_before(const hashing *h, int64_t k) {
    return NODE(h->n, "Sub", h->s.place, int64_scalar(h->n, k));
}

static value *segment_before(const hashing *h, int64_t k) {
    return at_places(&h->s, h->n->in[SEGMENTS], h->past_segment, h->s.owner, place_before(h, k), false);
}

// The id k places before each token, unless a boundary lies between: an end of a text, or another segment.
static value *id_before(const hashing *h, int64_t k, value **crossed) {
    node *n = h->n;
    if (k == 0) return n->in[IDS];
    value *id = at_places(&h->s, n->in[IDS], h->past, h->s.owner, place_before(h, k), false), *ends[2];
    int count = 0;
    if (node_in(n, EOS) && node_int(n, "reset_on_eos", 0)) ends[count++] = NODE(n, "Equal", id, h->other);
    if (node_in(n, SEGMENTS))
        ends[count++] = NODE(n, "Not", NODE(n, "Equal", segment_before(h, k), segment_before(h, k - 1)));
    for (int i = 0; i < count; i++) *crossed = *crossed ? NODE(n, "Or", *crossed, ends[i]) : ends[i];
    return *crossed ? NODE(n, "Where", *crossed, h->other, id) : id;
}

// mix = xor of id_before(k) * factors[k] for k < size; hashes of the heads of that size: mix mod their sizes
static value *hashes_of(const hashing *h) {
    node *n = h->n;
    value *crossed = NULL, *mix = NULL, *hashes = NULL;
    int64_t heads = node_int(n, "n_head_per_ngram", 0);
    for (int64_t k = 0; k < h->most; k++) {
        value *product = NODE(n, "Mul", id_before(h, k, &crossed), sliced(n, n->in[FACTORS], 0, k, k + 1));
        mix = mix ? NODE(n, "BitwiseXor", mix, product) : product;
        if (k == 0) continue;
        value *some =
            NODE(n, "Mod", as_column(n, mix), sliced(n, n->in[SIZES], 0, (k - 1) * heads, k * heads));
        hashes = hashes ? with_int(NODE(n, "Concat", hashes, some), "axis", 1) : some;
    }
    return node_in(n, OFFSETS) ? NODE(n, "Add", hashes, n->in[OFFSETS]) : hashes;
}

// (sequences, room, most - 1): the last ids after each of the first tokens of a sequence, as many as are to be captured.
static value *captured_states(const hashing *h) {
    node *n = h->n;
    int64_t room = node_int(n, "state_update_capacity", 0), width = h->most - 1;
    value *token = numbers_to(n, one_int(n, room)), *count = shape_part(n, h->s.starts, 0, 1);
    value *place = NODE(n, "Add", as_column(n, token),
                        NODE(n, "Sub", numbers_to(n, one_int(n, width)), int64_scalar(n, width - 1)));
    value *sizes = JOINED(n, count, one_int(n, room), one_int(n, width));
    value *owner = NODE(n, "Unsqueeze", numbers_to(n, count), insert_ints(n, (int64_t[]){1, 2}, 2));
    owner = NODE(n, "Expand", owner, sizes), place = NODE(n, "Expand", place, sizes);
    value *ids = at_places(&h->s, n->in[IDS], h->past, owner, place, false);
    if (!node_in(n, CAPTURED)) return ids; // room for none
    value *limit = NODE(n, "Min", cast_to(n, n->in[CAPTURED], DT_I64), h->s.lengths);
    value *used = NODE(n, "Less", as_column(n, token),
                       NODE(n, "Unsqueeze", limit, insert_ints(n, (int64_t[]){1, 2}, 2)));
    return NODE(n, "Where", used, ids, h->pad);
}

static void varlen_ngram_hash_mapping(node *n) {
    hashing h = hashing_of(n);
    value *owner, *places = last_places(&h.s, &owner);
    if (node_out(n, 3)) give_output(n, 3, captured_states(&h));
    if (node_out(n, 2))
        give_output(n, 2, at_places(&h.s, n->in[SEGMENTS], h.past_segment, owner, places, false));
    if (node_out(n, 1)) give_output(n, 1, at_places(&h.s, n->in[IDS], h.past, owner, places, false));
    give_output(n, 0, hashes_of(&h));
}
MICROSOFT_OP(VarlenNGramHashMapping, varlen_ngram_hash_mapping);

// ---- VarlenCausalConvWithState: input (tokens, channels), weights (channels, 1, K), cumulative lengths, bias, initial_state
// (sequences, channels, (K - 1) * dilation), capture_count
//
//   y[t] = activation(bias + sum over j < K of w[j] * x[t - (K - 1 - j) * dilation])

static value *convolved(const sequences *s, value *x, value *past, int64_t taps, int64_t dilation) {
    node *n = s->n;
    value *w = cast_to(n, n->in[1], DT_F32), *y = node_in(n, 3) ? cast_to(n, n->in[3], DT_F32) : NULL;
    for (int64_t j = 0; j < taps; j++) {
        value *place = NODE(n, "Sub", s->place, int64_scalar(n, (taps - 1 - j) * dilation));
        value *tap = NODE(n, "Gather", w, int64_scalar(n, j));
        tap = NODE(n, "Squeeze", with_int(tap, "axis", 2), one_int(n, 1));
        value *term = NODE(
            n, "Mul", cast_to(n, at_places(s, x, j == taps - 1 ? NULL : past, s->owner, place, true), DT_F32),
            tap);
        y = y ? NODE(n, "Add", y, term) : term;
    }
    return y;
}

static value *conv_activated(node *n, value *y) {
    const char *name = node_string(n, "activation", "none");
    if (strcmp(name, "none") == 0) return y;
    if (strcmp(name, "silu") != 0 && strcmp(name, "swish") != 0)
        infer_error(n, "attribute activation is '%s'; it must be none, silu or swish", name);
    return with_float(NODE(n, "Swish", y), "alpha", 1);
}

// (sequences, room, channels): the first tokens of each sequence, as many as are to be captured; zeros after them.
static value *captured_tokens(const sequences *s, value *x, int64_t room) {
    node *n = s->n;
    value *token = numbers_to(n, one_int(n, room)), *count = shape_part(n, s->starts, 0, 1);
    value *sizes = JOINED(n, count, one_int(n, room));
    value *owner = NODE(n, "Expand", as_column(n, numbers_to(n, count)), sizes);
    value *rows = at_places(s, x, NULL, owner, NODE(n, "Expand", token, sizes), true);
    value *limit = node_in(n, 5) ? NODE(n, "Min", cast_to(n, n->in[5], DT_I64), s->lengths) : s->lengths;
    value *used = NODE(n, "Less", token, as_column(n, limit));
    return NODE(n, "Where", as_column(n, used), rows, number_like(n, 0, 0));
}

static void varlen_causal_conv(node *n) {
    const type *w = infer_in(n, 1);
    int64_t dilation = node_int(n, "dilation", 1), room = node_int(n, "state_update_capacity", 0);
    if (w->rank != 3 || !dim_is_const(w->dims[2]))
        infer_error(n, "the weights have rank %d; they must have rank 3 and a constant number of taps",
                    w->rank);
    if (dilation < 1 || room < 0 || room > 8 || (room > 0) != (node_in(n, 5) != NULL))
        infer_error(
            n, "attributes dilation and state_update_capacity are %lld and %lld, and capture_count is %s",
            (long long)dilation, (long long)room, node_in(n, 5) ? "given" : "missing");
    if (node_in(n, 6) || node_in(n, 7))
        infer_lacks(n,
                    "kernel_delta and previous_mask are not supported: ONNX Runtime's CPU provider refuses "
                    "them, too");
    int64_t taps = dim_value(w->dims[2]), before = (taps - 1) * dilation;
    sequences s = sequences_at(n, n->in[0], 2, before);
    value *state = transposed(n, n->in[4], 3, (int64_t[]){0, 2, 1}), *past = NULL, *final = NULL, *owner;
    if (before) {
        past = NODE(n, "Reshape", state, JOINED(n, one_int(n, -1), shape_part(n, n->in[0], 1, 2)));
        value *place = last_places(&s, &owner);
        final = transposed(n, at_places(&s, n->in[0], past, owner, place, true), 3, (int64_t[]){0, 2, 1});
    }
    value *y = conv_activated(n, convolved(&s, n->in[0], past, taps, dilation));
    if (node_out(n, 2)) give_output(n, 2, captured_tokens(&s, n->in[0], room));
    if (node_out(n, 1)) give_output(n, 1, final ? final : n->in[4]);
    give_output(n, 0, narrowed(n, y, infer_in(n, 0)->elem));
}
MICROSOFT_OP(VarlenCausalConvWithState, varlen_causal_conv);
