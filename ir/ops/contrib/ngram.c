// N-grams of tokens, hashes, and words of characters: operators of com.microsoft as graphs of the standard's operators.
#include "ir/ops/decompose.h"
#include <math.h>

static value *slice(node *n, value *v, int64_t axis, value *from, value *to) {
    return NODE(n, "Slice", v, from, to, one_int(n, axis));
}

// ---- NGramRepeatBlock: input_ids (batch, length), scores (batch, vocabulary)

static void ngram_repeat_block(node *n) {
    int64_t size = node_int(n, "ngram_size", 0);
    if (size < 1) infer_error(n, "attribute ngram_size is %lld, but must be positive", (long long)size);
    give_output(n, 0,
                without_repeated_ngrams(n, n->in[1], n->in[0], size, insert_scalar(n, DT_F32, -INFINITY)));
}
MICROSOFT_OP(NGramRepeatBlock, ngram_repeat_block);

// ---- NGramHashMapping: input_ids (batch, length), multipliers, vocab_sizes, past_ids, head_offsets, eos_token_id,
// segment_ids
typedef struct hashing {
    node *n;
    dtype t;
    int64_t most;         // ids in the longest n-gram
    value *pad, *eos;     // scalars; eos may be NULL
    value *ids, *changes; // with the most - 1 positions before; changes: the segment is another than before
    value *length;
} hashing;

static value *number(const hashing *h, int64_t i) {
    return cast_to(h->n, insert_scalar(h->n, DT_I64, (double)i), h->t);
}

// v with `value` for each of the most - 1 positions before
static value *with_past(const hashing *h, value *past, value *v) {
    return with_int(NODE(h->n, "Concat", past, v), "axis", 1);
}

static value *filled_past(const hashing *h, value *fill) {
    node *n = h->n;
    return NODE(n, "Expand", fill, JOINED(n, shape_part(n, n->in[0], 0, 1), one_int(n, h->most - 1)));
}

// What stands k positions before each position.
static value *shifted(const hashing *h, value *v, int64_t k) {
    value *from = one_int(h->n, h->most - 1 - k);
    return slice(h->n, v, 1, from, NODE(h->n, "Add", from, h->length));
}

static void begin_hashing(hashing *h) {
    node *n = h->n;
    if (h->most < 2 || node_int(n, "n_head_per_ngram", 0) < 1)
        infer_error(
            n,
            "attributes max_ngram_size and n_head_per_ngram are %lld and %lld, but must be 2 and 1 at least",
            (long long)h->most, (long long)node_int(n, "n_head_per_ngram", 0));
    h->length = shape_part(n, n->in[0], 1, 2);
    h->pad = number(h, node_int(n, "pad_id", 0));
    if (node_in(n, 5)) h->eos = NODE(n, "Reshape", n->in[5], insert_ints(n, NULL, 0));
    value *past = node_in(n, 3) ? n->in[3] : filled_past(h, h->eos ? h->eos : h->pad);
    h->ids = with_past(h, past, n->in[0]);
    if (!node_in(n, 6)) return;
    value *ids = n->in[6], *one = one_int(n, 1);
    value *next = slice(n, ids, 1, one, one_int(n, INT64_MAX)),
          *before = slice(n, ids, 1, one_int(n, 0), one_int(n, -1));
    value *no = insert_scalar(n, DT_BOOL, 0);
    value *first = NODE(n, "Expand", no,
                        JOINED(n, shape_part(n, ids, 0, 1), NODE(n, "Min", shape_part(n, ids, 1, 2), one)));
    value *differs =
        with_int(NODE(n, "Concat", first, NODE(n, "Not", NODE(n, "Equal", next, before))), "axis", 1);
    h->changes = with_past(h, filled_past(h, no), differs);
}

// ids k positions before, unless a boundary lies between: an end of a text, or another segment.
static value *token_before(const hashing *h, int64_t k, value **crossed) {
    node *n = h->n;
    value *token = shifted(h, h->ids, k), *other = h->eos ? h->eos : h->pad;
    if (k == 0) return token;
    if (h->eos && node_int(n, "reset_on_eos", 0)) {
        value *end = NODE(n, "Equal", token, h->eos);
        *crossed = *crossed ? NODE(n, "Or", *crossed, end) : end;
    }
    if (h->changes) {
        value *change = shifted(h, h->changes, k - 1);
        *crossed = *crossed ? NODE(n, "Or", *crossed, change) : change;
    }
    return *crossed ? NODE(n, "Where", *crossed, other, token) : token;
}

// mix = xor of token_before(k) * multipliers[k] for k < size; hashes of the heads of that size: mix mod their sizes
static void ngram_hash_mapping(node *n) {
    hashing h = {.n = n, .t = infer_in(n, 0)->elem, .most = node_int(n, "max_ngram_size", 0)};
    int64_t heads = node_int(n, "n_head_per_ngram", 0);
    begin_hashing(&h);
    value *crossed = NULL, *mix = NULL, *hashes = NULL;
    for (int64_t k = 0; k < h.most; k++) {
        value *factor = sliced(n, n->in[1], 0, k, k + 1);
        value *product = NODE(n, "Mul", token_before(&h, k, &crossed), factor);
        mix = mix ? NODE(n, "BitwiseXor", mix, product) : product;
        if (k == 0) continue;
        value *sizes = sliced(n, n->in[2], 0, (k - 1) * heads, k * heads);
        value *some = NODE(n, "Mod", NODE(n, "Unsqueeze", mix, one_int(n, 2)), sizes);
        hashes = hashes ? with_int(NODE(n, "Concat", hashes, some), "axis", 2) : some;
    }
    if (node_in(n, 4)) hashes = NODE(n, "Add", hashes, n->in[4]);
    give_output(n, 0, hashes);
    if (node_out(n, 1)) give_output(n, 1, slice(n, h.ids, 1, one_int(n, 1 - h.most), one_int(n, INT64_MAX)));
}
MICROSOFT_OP(NGramHashMapping, ngram_hash_mapping);

// ---- WordConvEmbedding: words (count, length) of characters, weights (M, 1, width, E), bias, embedding of characters
static void word_conv_embedding(node *n) {
    value *words = n->in[0], *zero = insert_scalar(n, DT_I32, 0), *width = shape_part(n, n->in[1], 2, 3);
    value *is_char = NODE(n, "Greater", words, zero);
    value *count = with_int(NODE(n, "ReduceSum", cast_to(n, is_char, DT_I64), one_int(n, 1)), "keepdims", 1);
    value *x = NODE(n, "Unsqueeze", NODE(n, "Gather", n->in[3], words), one_int(n, 1));
    value *y = NODE(n, "Tanh", NODE(n, "Conv", x, n->in[1], n->in[2]));
    y = NODE(n, "Squeeze", y, one_int(n, 3)); // (count, M, windows)
    // Windows that begin after the word's last whole window do not count.
    value *windows = NODE(n, "Add", NODE(n, "Sub", NODE(n, "Max", count, width), width), one_int(n, 1));
    value *first = insert_scalar(n, DT_I64, 0), *one = insert_scalar(n, DT_I64, 1);
    value *places = NODE(n, "Range", first, NODE(n, "Squeeze", shape_part(n, y, 2, 3)), one);
    value *valid = NODE(n, "Less", places, NODE(n, "Unsqueeze", windows, one_int(n, 1)));
    value *least = insert_scalar(n, DT_F32, -1e12);
    value *best =
        with_int(NODE(n, "ReduceMax", NODE(n, "Where", valid, y, least), one_int(n, 2)), "keepdims", 0);
    value *has = slice(n, is_char, 1, one_int(n, 0), one_int(n, 1));
    give_output(n, 0, NODE(n, "Where", has, best, insert_scalar(n, DT_F32, 0)));
}
MICROSOFT_OP(WordConvEmbedding, word_conv_embedding);

// ---- BifurcationDetector: src_tokens, cur_tokens, prev_suffix_match_idx, pred_tokens

// How many of the predicted tokens are those of the source from the previous match on.
static value *equal_tokens(node *n) {
    value *rest = slice(n, n->in[0], 0, n->in[2], one_int(n, INT64_MAX));
    value *guess = slice(n, n->in[3], 0, one_int(n, 0), shape_part(n, rest, 0, 1));
    value *differs = cast_to(n, NODE(n, "Not", NODE(n, "Equal", rest, guess)), DT_I64);
    value *so_far = NODE(n, "CumSum", differs, insert_scalar(n, DT_I64, 0));
    value *equal = cast_to(n, NODE(n, "Equal", so_far, insert_scalar(n, DT_I64, 0)), DT_I64);
    return with_int(NODE(n, "ReduceSum", equal, one_int(n, 0)), "keepdims", 1);
}

// Where the last `size` tokens stand in the source: the number of places, and after the first one; one each.
static value *find_suffix(node *n, value *tokens, int64_t size, value **behind) {
    value *zero = one_int(n, 0), *source = n->in[0], *found = NULL;
    value *count = NODE(n, "Max", NODE(n, "Sub", shape_part(n, source, 0, 1), one_int(n, size - 1)), zero);
    for (int64_t j = 0; j < size; j++) {
        value *from = one_int(n, j),
              *token = NODE(n, "Gather", tokens, insert_scalar(n, DT_I64, (double)(j - size)));
        value *equal = NODE(n, "Equal", slice(n, source, 0, from, NODE(n, "Add", from, count)), token);
        found = found ? NODE(n, "And", found, equal) : equal;
    }
    value *ones = cast_to(n, found, DT_I64), *first = insert_scalar(n, DT_I64, 0),
          *one = insert_scalar(n, DT_I64, 1);
    value *places = NODE(n, "Range", first, NODE(n, "Squeeze", count), one),
          *far = insert_scalar(n, DT_I64, 0x1p40);
    value *least = NODE(n, "Concat", NODE(n, "Where", found, places, far), one_int(n, INT64_C(1) << 40));
    least = with_int(NODE(n, "ReduceMin", with_int(least, "axis", 0), zero), "keepdims", 1);
    *behind = NODE(n, "Add", least, one_int(n, size));
    return with_int(NODE(n, "ReduceSum", ones, zero), "keepdims", 1);
}

// For ever longer suffixes: none in the source, or longer than all tokens: the last result stays, as it does after a
// match at the end of the source; one: it is the result; several: -1.
static value *suffix_match(node *n, value *tokens) {
    int64_t from = node_int(n, "min_ngram_size", 1), to = node_int(n, "max_ngram_size", 3);
    if (from < 1 || to < from)
        infer_error(n, "attributes min_ngram_size and max_ngram_size are %lld and %lld", (long long)from,
                    (long long)to);
    value *result = one_int(n, -1), *none = one_int(n, -1), *zero = one_int(n, 0), *one = one_int(n, 1),
          *done = NULL;
    value *length = shape_part(n, tokens, 0, 1), *end = shape_part(n, n->in[0], 0, 1);
    value *padding = NODE(n, "Expand", none, one_int(n, to)); // so that there are as many as are looked at
    tokens = with_int(NODE(n, "Concat", padding, tokens), "axis", 0);
    for (int64_t size = from; size <= to; size++) {
        value *behind, *count = find_suffix(n, tokens, size, &behind);
        value *stop = NODE(n, "Or", NODE(n, "Less", length, one_int(n, size)), NODE(n, "Equal", count, zero));
        done = done ? NODE(n, "Or", done, stop) : stop;
        value *now = NODE(n, "Where", NODE(n, "Greater", count, one), none, behind);
        result = NODE(n, "Where", done, result, now);
        done = NODE(n, "Or", done, NODE(n, "GreaterOrEqual", behind, end));
    }
    return result;
}

static void bifurcation_detector(node *n) {
    value *tokens = n->in[1];
    if (node_in(n, 3)) {
        value *more = slice(n, n->in[3], 0, one_int(n, 0), NODE(n, "Add", equal_tokens(n), one_int(n, 1)));
        tokens = with_int(NODE(n, "Concat", tokens, more), "axis", 0);
    }
    value *match = NODE(n, "Reshape", suffix_match(n, tokens), shape_part(n, n->in[2], 0, INT64_MAX));
    give_output(n, 1, match);
    give_output(n, 0, tokens);
}
MICROSOFT_OP(BifurcationDetector, bifurcation_detector);
