// Attention operators with one key head for each query head: MultiHeadAttention, DecoderMaskedMultiHeadAttention,
// Attention and QAttention, which project their input first.
//
//   q, k, v = the operands plus their bias
//   mask    = attention_bias + (0 where a key may be seen, else mask_filter_value)
//   output  = the standard's Attention(q, k, v, mask, past)
//
// Where past and present share a buffer, past_sequence_length rows of it are valid:
//
//   present = TensorScatter(past, k), from row past_sequence_length on; the rows after that are not seen
#include "ir/ops/contrib/attention.h"
#include <float.h>

typedef struct multi_head {
    node *n;
    int64_t heads;
    value *q, *k, *v;             // [batch, row, head * element]
    bool apart;                   // k and v are [batch, head, row, element], with the past
    value *rows, *fresh;          // int64[1]: queries, new keys
    const dim *row_dim, *key_dim; // the same
    value *past_key, *past_value; // [batch, head, row, element] or NULL
    value *past, *total;          // int64[1]: valid rows of the past; these and the new ones
    value *mask, *bias;           // masks of keys, NULL: none; attention_bias
    value *beams;                 // int64[batch, row of past]: which beam a key came from, NULL: its own
    value *beam_count;            // int64[1], where it is no attribute
    bool shared, causal, may_be_dummy;
} multi_head;

// ---- Masks

static value *filter(multi_head *m, value *visible) {
    double hidden = node_float(m->n, "mask_filter_value", -10000);
    dtype t = infer_in(m->n, 0)->elem;
    t = dtype_is_float(t) ? t : DT_F32; // QAttention computes in float
    return NODE(m->n, "Where", visible, insert_scalar(m->n, t, 0), insert_scalar(m->n, t, hidden));
}

// By the number of keys of each batch entry, or 2 * batch numbers: their ends, then their starts.
static value *visible_by_length(multi_head *m, value *mask) {
    node *n = m->n;
    value *batch = axis_size(n, m->q, 0), *columns = numbers_to(n, m->total);
    value *numbers = as_int64(n, mask), *count = axis_size(n, mask, 0), *zero = one_int(n, 0);
    value *twice = NODE(n, "Mul", batch, one_int(n, 2)), *last = NODE(n, "Sub", count, one_int(n, 1));
    value *axis = insert_ints(n, (int64_t[]){1, 2, 3}, 3);
    value *ends = NODE(n, "Unsqueeze", NODE(n, "Slice", numbers, zero, batch), axis);
    value *at = NODE(n, "Min", NODE(n, "Add", numbers_to(n, batch), batch), last);
    value *starts = NODE(n, "Gather", numbers, at);
    starts = NODE(n, "Where", NODE(n, "Equal", count, twice), starts, zero);
    value *after = NODE(n, "GreaterOrEqual", columns, NODE(n, "Unsqueeze", starts, axis));
    return NODE(n, "And", after, NODE(n, "Less", columns, ends));
}

// Of a mask [batch, 1, position, position]: the rows of the queries, and the columns of the keys.
static value *cut_square(multi_head *m, value *mask) {
    node *n = m->n;
    value *from = NODE(n, "Concat", m->past, one_int(n, 0));
    return NODE(n, "Slice", mask, with_int(from, "axis", 0),
                with_int(NODE(n, "Concat", m->total, m->total), "axis", 0),
                insert_ints(n, (int64_t[]){2, 3}, 2));
}

// Which of [batch, 1, query or 1, key] may be seen.
static value *visible_keys(multi_head *m) {
    node *n = m->n;
    value *mask = m->mask;
    int rank = mask->type.rank;
    if (rank == 1) return visible_by_length(m, mask);
    value *seen = NODE(n, "Greater", mask, insert_scalar(n, mask->type.elem, 0));
    if (rank == 2) {
        seen = NODE(n, "Unsqueeze", seen, insert_ints(n, (int64_t[]){1, 2}, 2));
        if (!m->may_be_dummy || dim_equal(mask->type.dims[1], infer_k(n, 1)) == TRI_NO) return seen;
        // A single column for more keys hides nothing.
        value *single = NODE(n, "Not", NODE(n, "Equal", axis_size(n, mask, 1), m->total));
        return NODE(n, "Or", seen, NODE(n, "Expand", single, m->total));
    }
    if (rank == 3) return NODE(n, "Unsqueeze", seen, one_int(n, 1));
    if (rank != 4) infer_error(n, "the mask has rank %d; at most 4 is allowed", rank);
    return cut_square(m, seen);
}

static double lowest(const multi_head *m) {
    dtype t = infer_in(m->n, 0)->elem;
    return t == DT_F16 ? -65504 : t == DT_BF16 ? -0x1.fep127 : -FLT_MAX;
}

// Causal masks of as many queries as keys are an attribute of Attention. Otherwise the last query sees all keys, and
// query i those up to past + i.
static bool is_square(const multi_head *m) { return dim_equal(m->row_dim, m->key_dim) == TRI_YES; }

static value *causal_mask(multi_head *m) {
    node *n = m->n;
    value *one = one_int(n, 1), *row = NODE(n, "Unsqueeze", numbers_to(n, m->rows), one);
    value *seen = NODE(n, "LessOrEqual", numbers_to(n, m->total), NODE(n, "Add", row, m->past));
    value *last = NODE(n, "Equal", row, NODE(n, "Sub", m->rows, one));
    dtype t = infer_in(n, 0)->elem;
    return NODE(n, "Where", NODE(n, "Or", seen, last), insert_scalar(n, t, 0),
                insert_scalar(n, t, lowest(m)));
}

static value *sum_of(node *n, value *a, value *b) { return a && b ? NODE(n, "Add", a, b) : a ? a : b; }

static value *whole_mask(multi_head *m) {
    value *added = m->mask ? filter(m, visible_keys(m)) : NULL;
    value *causal = m->causal && !is_square(m) ? causal_mask(m) : NULL;
    return sum_of(m->n, sum_of(m->n, m->bias, added), causal);
}

// ---- The cache

static value *for_each_entry(multi_head *m, value *x) {
    return NODE(m->n, "Expand", x, axis_size(m->n, m->q, 0));
}

// keys[b, h, j] as the beam has them from which the j-th key of entry b came.
static value *by_beam(multi_head *m, value *keys) {
    node *n = m->n;
    if (!m->beams) return keys;
    value *width = m->beam_count, *entry = numbers_to(n, axis_size(n, m->q, 0)), *one = one_int(n, 1);
    value *first = NODE(n, "Mul", NODE(n, "Div", entry, width), width),
          *row = numbers_to(n, axis_size(n, keys, 2));
    value *from = NODE(n, "Add", NODE(n, "Unsqueeze", first, one), m->beams);
    value *old = NODE(n, "And", NODE(n, "Less", row, m->past), NODE(n, "Equal", m->rows, one));
    from = NODE(n, "Where", old, from, NODE(n, "Unsqueeze", entry, one));
    from = NODE(n, "Unsqueeze", from, insert_ints(n, (int64_t[]){1, 3}, 2));
    return with_int(NODE(n, "GatherElements", keys, NODE(n, "Expand", from, NODE(n, "Shape", keys))), "axis",
                    0);
}

static value *scattered(multi_head *m, value *past, value *fresh) {
    node *n = m->n;
    fresh = heads_apart(n, fresh, m->heads, axis_size(n, past, 3));
    return with_int(NODE(n, "TensorScatter", past, fresh, for_each_entry(m, m->past)), "axis", 2);
}

// ---- The result

// Attention's output; *present: keys and values as the cache has them afterwards, NULL where not wanted.
static value *attend(multi_head *m, bool wanted, value **present) {
    node *n = m->n;
    attention_parts p = {.q = m->q, .k = m->k, .v = m->v, .mask = whole_mask(m)};
    double scale = node_float(n, "scale", 0);
    if (m->shared) p.valid = for_each_entry(m, m->total);
    if (m->shared && m->past_key) {
        present[0] = scattered(m, m->past_key, m->k), present[1] = scattered(m, m->past_value, m->v);
        p.k = by_beam(m, present[0]), p.v = by_beam(m, present[1]);
    } else if (m->apart) {
        present[0] = m->k, present[1] = m->v;
    } else {
        p.past_key = m->past_key, p.past_value = m->past_value;
    }
    if (m->shared || m->apart) p.start = for_each_entry(m, m->past);
    value *y = attention_of(n, &p, m->heads, m->heads);
    if (!present[0] && wanted) present[0] = output_of(y, 1), present[1] = output_of(y, 2);
    with_int(with_int(y, "is_causal", m->causal && is_square(m)), "qk_matmul_output_mode", 2);
    return scale != 0 ? with_float(y, "scale", scale) : y;
}

// Scores before the softmax; a key that comes after the query has the lowest one.
static void give_scores(multi_head *m, value *y, int out) {
    node *n = m->n;
    if (!node_out(n, out)) return;
    value *scores = NODE(n, "Slice", output_of(y, 3), one_int(n, 0), m->total, one_int(n, 3));
    give_output(n, out, NODE(n, "Max", scores, number_like(n, lowest(m), 0)));
}

static void find_total(multi_head *m) { m->total = NODE(m->n, "Add", m->past, m->fresh); }

// ---- MultiHeadAttention and DecoderMaskedMultiHeadAttention

typedef struct inputs {
    int bias, mask, attention_bias, past_key, past_value, past_length, beam_width, beams;
} inputs;

// Part i of a packed [batch, row, head, part, element], as [batch, row, head * element].
static value *packed_part(multi_head *m, int in, int64_t i) {
    node *n = m->n;
    value *x = n->in[in],
          *part = with_int(NODE(n, "Gather", x, insert_scalar(n, DT_I64, (double)i)), "axis", 3);
    value *width = NODE(n, "Mul", axis_size(n, x, 4), one_int(n, m->heads));
    value *shape = with_int(NODE(n, "Concat", insert_ints(n, (int64_t[]){0, 0}, 2), width), "axis", 0);
    return NODE(n, "Reshape", part, shape);
}

static void find_packed(multi_head *m) {
    node *n = m->n;
    int rank = infer_rank(n, 0);
    m->rows = axis_size(n, n->in[0], 1), m->row_dim = infer_in(n, 0)->dims[1];
    m->fresh = m->rows, m->key_dim = m->row_dim;
    if (rank == 5) {
        m->q = packed_part(m, 0, 0), m->k = packed_part(m, 0, 1), m->v = packed_part(m, 0, 2);
        return;
    }
    value *part = NODE(n, "Div", axis_size(n, n->in[0], 2), one_int(n, 3)), *parts[3];
    split_parts(n, n->in[0], 2, with_int(NODE(n, "Concat", part, part, part), "axis", 0), 3, parts);
    m->q = parts[0], m->k = parts[1], m->v = parts[2];
}

static void find_separate(multi_head *m) {
    node *n = m->n;
    int rank = infer_rank(n, 1), along = rank == 4 ? 2 : 1;
    if (infer_rank(n, 0) != 3)
        infer_error(n, "the query has rank %d; beside a key it must be 3", infer_rank(n, 0));
    m->rows = axis_size(n, n->in[0], 1), m->row_dim = infer_in(n, 0)->dims[1];
    m->fresh = axis_size(n, n->in[1], along), m->key_dim = infer_in(n, 1)->dims[along];
    m->q = n->in[0], m->k = n->in[1], m->v = node_in(n, 2), m->apart = rank == 4;
    if (rank == 5 && m->v)
        infer_error(n, "a packed key (rank 5) includes the value: input value must be left out");
    if (rank == 5) m->k = packed_part(m, 1, 0), m->v = packed_part(m, 1, 1);
    else if ((rank != 3 && rank != 4) || !m->v || infer_rank(n, 2) != rank)
        infer_error(n, "the key has rank %d; it must be 3 or 4, and the value's rank the same", rank);
}

// Its parts are for q, k and v; keys and values of other layouts than [batch, row, width] have none.
static void add_bias(multi_head *m, int in) {
    node *n = m->n;
    if (!node_in(n, in)) return;
    value *width = axis_size(n, m->q, 2), *all = axis_size(n, n->in[in], 0), *parts[3];
    value *rest = NODE(n, "Sub", all, NODE(n, "Mul", width, one_int(n, 2)));
    value *sizes = with_int(NODE(n, "Concat", width, width, rest), "axis", 0);
    split_parts(n, n->in[in], 0, sizes, 3, parts);
    m->q = NODE(n, "Add", m->q, parts[0]);
    if (m->apart) return;
    m->k = NODE(n, "Add", m->k, parts[1]), m->v = NODE(n, "Add", m->v, parts[2]);
}

static void find_past(multi_head *m, const inputs *in) {
    node *n = m->n;
    m->past_key = node_in(n, in->past_key), m->past_value = node_in(n, in->past_value);
    if (!m->past_key != !m->past_value) infer_error(n, "past_key and past_value must be given together");
    m->past = one_int(n, 0);
    if (m->past_key) {
        if (infer_rank(n, in->past_key) != 4) infer_error(n, "past_key and past_value must have rank 4");
        m->shared = node_in(n, in->past_length) != NULL;
        m->past = m->shared ? as_int64(n, n->in[in->past_length]) : axis_size(n, m->past_key, 2);
    }
    find_total(m);
    if (!m->shared || !node_in(n, in->beams)) return;
    if (infer_rank(n, in->beams) != 3) infer_error(n, "cache_indirection must have rank 3");
    m->beam_count = in->beam_width < 0           ? axis_size(n, n->in[in->beams], 1)
                    : node_in(n, in->beam_width) ? as_int64(n, n->in[in->beam_width])
                                                 : one_int(n, 1);
    value *flat = with_int(NODE(n, "Concat", one_int(n, -1), axis_size(n, n->in[in->beams], 2)), "axis", 0);
    m->beams = NODE(n, "Reshape", cast_to(n, n->in[in->beams], DT_I64), flat);
}

static void decompose_separate(node *n, const inputs *in) {
    multi_head m = {.n = n, .heads = number_of_heads(n), .causal = node_int(n, "unidirectional", 0) == 1};
    value *present[2] = {0};
    if (node_in(n, 1)) find_separate(&m);
    else find_packed(&m);
    find_past(&m, in);
    add_bias(&m, in->bias);
    if (m.past_key && m.apart) infer_error(n, "past_key cannot be combined with keys of rank 4");
    m.mask = node_in(n, in->mask), m.bias = node_in(n, in->attention_bias);
    if (m.mask) infer_rank(n, in->mask);
    value *y = attend(&m, node_out(n, 1) || node_out(n, 2), present);
    give_scores(&m, y, 3);
    for (int i = 0; i < 2; i++)
        if (node_out(n, i + 1)) give_output(n, i + 1, m.apart ? NODE(n, "Identity", present[i]) : present[i]);
    give_output(n, 0, y);
}

static void multi_head_attention_decompose(node *n) {
    int rank = infer_rank(n, 0);
    if (rank != 5 && !node_in(n, 1)) infer_error(n, "a query of rank %d needs a key beside it", rank);
    decompose_separate(n, &(inputs){.bias = 3,
                                    .mask = 4,
                                    .attention_bias = 5,
                                    .past_key = 6,
                                    .past_value = 7,
                                    .past_length = 8,
                                    .beam_width = -1,
                                    .beams = 9});
}

static void decoder_masked_decompose(node *n) {
    if (node_in(n, 5) && !node_in(n, 7)) infer_error(n, "past_key needs past_sequence_length");
    if (dim_equal(infer_rank(n, 0) == 3 ? infer_in(n, 0)->dims[1] : infer_k(n, 0), infer_k(n, 1)) == TRI_NO)
        infer_error(n, "the query must have rank 3, and a single row");
    decompose_separate(n, &(inputs){.mask = 3,
                                    .attention_bias = 4,
                                    .past_key = 5,
                                    .past_value = 6,
                                    .past_length = 7,
                                    .beam_width = 8,
                                    .beams = 9,
                                    .bias = 10});
}

MICROSOFT_OP(MultiHeadAttention, multi_head_attention_decompose);
MICROSOFT_OP(DecoderMaskedMultiHeadAttention, decoder_masked_decompose);

// ---- Attention and QAttention

typedef struct projected {
    int mask, past, past_length, attention_bias;
} projected;

// How wide q, k and v are.
static value *widths(node *n, value *weights) {
    int count;
    const int64_t *given = node_ints(n, "qkv_hidden_sizes", &count);
    if (count && count != 3) infer_error(n, "attribute qkv_hidden_sizes has %d numbers, not 3", count);
    if (count) return insert_ints(n, given, 3);
    value *part = NODE(n, "Div", axis_size(n, weights, 1), one_int(n, 3));
    return with_int(NODE(n, "Concat", part, part, part), "axis", 0);
}

// Keys and values as one tensor [2, batch, head, row, element].
static value *joined_parts(multi_head *m) {
    node *n = m->n;
    value *head = NODE(n, "Div", axis_size(n, m->q, 2), one_int(n, m->heads)), *axis = one_int(n, 0);
    value *k = NODE(n, "Unsqueeze", heads_apart(n, m->k, m->heads, head), axis);
    value *v = NODE(n, "Unsqueeze", heads_apart(n, m->v, m->heads, head), axis);
    return with_int(NODE(n, "Concat", k, v), "axis", 0);
}

// Takes the past into account, which is one tensor of keys and values; that as it is afterwards, NULL where not wanted.
static value *join_past(multi_head *m, const projected *in) {
    node *n = m->n;
    value *past = node_in(n, in->past), *all = past || node_out(n, 1) ? joined_parts(m) : NULL;
    m->past = one_int(n, 0);
    if (past) {
        if (infer_rank(n, in->past) != 5) infer_error(n, "past has rank %d, not 5", infer_rank(n, in->past));
        m->shared = node_int(n, "past_present_share_buffer", 0) == 1;
        if (m->shared && (in->past_length < 0 || !node_in(n, in->past_length)))
            infer_error(n, "past_present_share_buffer needs past_sequence_length");
        m->past = m->shared ? as_int64(n, n->in[in->past_length]) : axis_size(n, past, 3);
        value *at = NODE(n, "Expand", m->past, one_int(n, 2));
        all = m->shared ? NODE(n, "TensorScatter", past, all, at) : NODE(n, "Concat", past, all);
        with_int(all, "axis", 3);
        m->k = with_int(NODE(n, "Gather", all, insert_scalar(n, DT_I64, 0)), "axis", 0);
        m->v = with_int(NODE(n, "Gather", all, insert_scalar(n, DT_I64, 1)), "axis", 0);
        m->apart = true;
    }
    find_total(m);
    return all;
}

// `x`: [batch, row, width of q, k and v]
static void decompose_projected(node *n, value *x, const projected *in) {
    multi_head m = {.n = n, .heads = number_of_heads(n), .causal = node_int(n, "unidirectional", 0) == 1};
    value *parts[3], *present[2] = {0};
    if (node_int(n, "do_rotary", 0))
        infer_error(n, "attribute do_rotary is not supported; RotaryEmbedding is a node of its own");
    if (infer_rank(n, 0) != 3 || infer_rank(n, 1) != 2)
        infer_error(n, "input and weights have ranks %d and %d, not 3 and 2", infer_rank(n, 0),
                    infer_rank(n, 1));
    split_parts(n, x, 2, widths(n, n->in[1]), 3, parts);
    m.q = parts[0], m.k = parts[1], m.v = parts[2];
    m.rows = m.fresh = axis_size(n, n->in[0], 1), m.row_dim = m.key_dim = infer_in(n, 0)->dims[1];
    value *all = join_past(&m, in);
    m.mask = node_in(n, in->mask), m.bias = in->attention_bias < 0 ? NULL : node_in(n, in->attention_bias);
    m.may_be_dummy = true;
    if (m.mask) infer_rank(n, in->mask);
    value *y = attend(&m, false, present);
    if (node_out(n, 1)) give_output(n, 1, all);
    give_output(n, 0, y);
}

static void attention_decompose(node *n) {
    value *x = NODE(n, "MatMul", n->in[0], n->in[1]);
    if (node_in(n, 2)) x = NODE(n, "Add", x, n->in[2]);
    decompose_projected(n, x, &(projected){.mask = 3, .past = 4, .attention_bias = 5, .past_length = 6});
}

static value *dequantised(node *n, int in, int scale_in, int zero_in, int axis) {
    value *zero = node_in(n, zero_in), *scale = n->in[scale_in], *to;
    bool single =
        infer_rank(n, scale_in) == 0 || dim_equal(infer_in(n, scale_in)->dims[0], infer_k(n, 1)) == TRI_YES;
    if (axis < 0 || single) {
        return NODE(n, "DequantizeLinear", n->in[in], as_scalar(n, scale), zero ? as_scalar(n, zero) : NULL);
    }
    to = axis_size(n, n->in[in], axis); // one number of either stands for all columns
    scale = NODE(n, "Expand", scale, to);
    if (zero) zero = NODE(n, "Expand", zero, to);
    return with_int(NODE(n, "DequantizeLinear", n->in[in], scale, zero), "axis", axis);
}

static void qattention_decompose(node *n) {
    value *x = NODE(n, "MatMul", dequantised(n, 0, 3, 6, -1), dequantised(n, 1, 4, 7, 1));
    x = NODE(n, "Add", x, n->in[2]);
    decompose_projected(n, x, &(projected){.mask = 5, .past = 8, .attention_bias = -1, .past_length = -1});
}

MICROSOFT_OP(Attention, attention_decompose);
MICROSOFT_OP(QAttention, qattention_decompose);
