// PackedAttention and PackedMultiHeadAttention: attention over sequences whose tokens follow each other without padding.
//
//   padded[token_offset[t]] = packed[t] for each token t, else 0       [batch * row, width]
//   output[t] = Attention(padded q, k, v)[token_offset[t]], with cumulative[b + 1] - cumulative[b] valid keys
//
// GatedRelativePositionBias takes its queries in both forms.
#include "ir/ops/contrib/attention.h"

typedef struct packing {
    node *n;
    value *offset, *index; // [batch, row]; int64[token]: where a token is among them
} packing;

static packing packing_of(node *n, int offset, value *tokens) {
    packing p = {.n = n, .offset = n->in[offset]};
    if (infer_rank(n, offset) != 2) infer_error(n, "token_offset has rank %d, not 2", infer_rank(n, offset));
    p.index = NODE(n, "Slice", as_int64(n, p.offset), one_int(n, 0), tokens, one_int(n, 0));
    return p;
}

// [token, width] as [batch, row, width], zero where there is no token; `like`: an input of the same type
static value *padded(const packing *p, value *x, value *width, int like) {
    node *n = p->n;
    value *sizes = NODE(n, "Shape", p->offset), *all = NODE(n, "ReduceProd", sizes, one_int(n, 0));
    value *flat = with_int(NODE(n, "Concat", all, width), "axis", 0);
    value *zeros = NODE(n, "Expand", number_like(n, 0, like), flat);
    value *set = NODE(n, "ScatterND", zeros, NODE(n, "Unsqueeze", p->index, one_int(n, 1)), x);
    return NODE(n, "Reshape", set, with_int(NODE(n, "Concat", sizes, width), "axis", 0));
}

static value *packed(const packing *p, value *y) {
    node *n = p->n;
    value *rows = NODE(n, "ReduceProd", NODE(n, "Shape", p->offset), one_int(n, 0));
    value *width = with_int(NODE(n, "Shape", y), "start", 2);
    value *flat = NODE(n, "Reshape", y, with_int(NODE(n, "Concat", rows, width), "axis", 0));
    return with_int(NODE(n, "Gather", flat, p->index), "axis", 0);
}

// ---- The two operators

enum { Q, K, V };

typedef struct numbers {
    int offset, cumulative, bias; // of inputs
} numbers;

// parts, widths: of [token, width] queries, keys and values
static void attend_packed(node *n, value *const *parts, value *const *widths, const numbers *in) {
    int64_t heads = number_of_heads(n);
    double scale = node_float(n, "scale", 0);
    packing p = packing_of(n, in->offset, axis_size(n, n->in[0], 0));
    value *ends = as_int64(n, n->in[in->cumulative]);
    value *length = NODE(n, "Sub", sliced(n, ends, 0, 1, INT64_MAX), sliced(n, ends, 0, 0, -1));
    attention_parts a = {.mask = node_in(n, in->bias), .valid = length};
    a.q = padded(&p, parts[Q], widths[Q], 0), a.k = padded(&p, parts[K], widths[K], 0);
    a.v = padded(&p, parts[V], widths[V], 0);
    value *y = attention_of(n, &a, heads, heads);
    if (scale != 0) with_float(y, "scale", scale);
    give_output(n, 0, packed(&p, y));
}

static void packed_attention_decompose(node *n) {
    int count;
    const int64_t *given = node_ints(n, "qkv_hidden_sizes", &count);
    if (infer_rank(n, 0) != 2 || infer_rank(n, 1) != 2)
        infer_error(n, "input and weights have ranks %d and %d, not 2", infer_rank(n, 0), infer_rank(n, 1));
    if (count && count != 3) infer_error(n, "attribute qkv_hidden_sizes has %d numbers, not 3", count);
    value *x = NODE(n, "Add", NODE(n, "MatMul", n->in[0], n->in[1]), n->in[2]), *parts[3], *widths[3];
    value *third = NODE(n, "Div", axis_size(n, n->in[1], 1), one_int(n, 3));
    for (int i = 0; i < 3; i++) widths[i] = count ? one_int(n, given[i]) : third;
    value *sizes = with_int(NODE(n, "Concat", widths[Q], widths[K], widths[V]), "axis", 0);
    split_parts(n, x, 1, sizes, 3, parts);
    attend_packed(n, parts, widths, &(numbers){.offset = 3, .cumulative = 4, .bias = 5});
}

// Queries, keys and values of [token, head, 3, element].
static void find_joined(node *n, int64_t heads, value **parts, value **widths) {
    value *width = NODE(n, "Mul", axis_size(n, n->in[0], 3), one_int(n, heads));
    value *shape = with_int(NODE(n, "Concat", one_int(n, 0), width), "axis", 0);
    for (int i = 0; i < 3; i++) {
        value *part = with_int(NODE(n, "Gather", n->in[0], insert_scalar(n, DT_I64, i)), "axis", 2);
        parts[i] = NODE(n, "Reshape", part, shape), widths[i] = width;
    }
}

static void packed_multi_head_attention_decompose(node *n) {
    value *parts[3], *widths[3], *bias[3];
    int rank = infer_rank(n, 0);
    bool joined = rank == 4;
    if (!joined && (rank != 2 || !node_in(n, 1) || !node_in(n, 2)))
        infer_error(n, "the query has rank %d; it must be 4, or 2 with key and value beside it", rank);
    if (joined) find_joined(n, number_of_heads(n), parts, widths);
    for (int i = 0; i < 3 && !joined; i++) parts[i] = n->in[i], widths[i] = axis_size(n, n->in[i], 1);
    if (node_in(n, 3)) {
        value *sizes = with_int(NODE(n, "Concat", widths[Q], widths[K], widths[V]), "axis", 0);
        split_parts(n, n->in[3], 0, sizes, 3, bias);
        for (int i = 0; i < 3; i++) parts[i] = NODE(n, "Add", parts[i], bias[i]);
    }
    attend_packed(n, parts, widths, &(numbers){.offset = 4, .cumulative = 5, .bias = 6});
}

MICROSOFT_OP(PackedAttention, packed_attention_decompose);
MICROSOFT_OP(PackedMultiHeadAttention, packed_multi_head_attention_decompose);

// ---- GatedRelativePositionBias
//
//   q      = query_layer + query_bias                                  [batch, head, query, element]
//   g      = sigmoid(sum over each half of the columns of q * weight + bias)      [batch, head, query, 2]
//   output = (g[0] * (g[1] * eco_a - 1) + 2) * rel_pos

static void gated_relative_position_bias_decompose(node *n) {
    value *x = NODE(n, "Add", n->in[0], n->in[1]), *width = axis_size(n, n->in[1], 0), *gates[2];
    if (node_in(n, 6)) {
        packing p = packing_of(n, 6, axis_size(n, n->in[0], 0));
        x = padded(&p, x, width, 0);
    } else if (infer_rank(n, 0) != 3) {
        infer_error(n, "query_layer has rank %d; without token_offset it must be 3", infer_rank(n, 0));
    }
    int64_t heads = number_of_heads(n);
    value *q = heads_apart(n, x, heads, NODE(n, "Div", width, one_int(n, heads)));
    value *columns = NODE(n, "Add", NODE(n, "MatMul", q, n->in[3]), n->in[4]);
    value *halves = reshaped(n, columns, 5, (int64_t[]){0, 0, 0, 2, -1});
    value *sum = with_int(NODE(n, "ReduceSum", halves, one_int(n, 4)), "keepdims", 0);
    split_parts(n, NODE(n, "Sigmoid", sum), 3, insert_ints(n, (int64_t[]){1, 1}, 2), 2, gates);
    value *inner = NODE(n, "Sub", NODE(n, "Mul", gates[1], n->in[5]), number_like(n, 1, 0));
    value *gate = NODE(n, "Add", NODE(n, "Mul", gates[0], inner), number_like(n, 2, 0));
    give_output(n, 0, NODE(n, "Mul", gate, n->in[2]));
}

MICROSOFT_OP(GatedRelativePositionBias, gated_relative_position_bias_decompose);
