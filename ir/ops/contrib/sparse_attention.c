// SparseAttention, as the standard's Attention with a mask of blocks.
//
//   start[b]         = 0 in the first prompt (rows = total_sequence_length), else key_total_sequence_lengths[b] - rows
//   present          = the past with k and v from row start[b] on
//   block[l, r, c]   = whether c is one of block_col_indices[l, block_row_indices[l, r] .. block_row_indices[l, r + 1]]
//   mask[b, h, i, j] = block[h % layouts, (start[b] + i) / size, j / size]
#include "ir/ops/contrib/attention.h"

enum { IN_QUERY, IN_KEY, IN_VALUE, IN_PAST_KEY, IN_PAST_VALUE, IN_ROWS, IN_COLUMNS, IN_TOTAL, IN_LENGTHS };
enum { IN_COS = 9, IN_SIN };

typedef struct sparse {
    node *n;
    int64_t heads, kv_heads;
    value *q, *k, *v, *head;      // [batch, row, head * element]; elements of a head
    value *rows, *length, *start; // int64[1]; int64[batch]
} sparse;

static void find_operands(sparse *s) {
    node *n = s->n;
    s->heads = node_int(n, "num_heads", 0), s->kv_heads = node_int(n, "kv_num_heads", 0);
    if (s->heads < 1 || s->kv_heads < 1 || s->heads % s->kv_heads)
        infer_error(n, "%lld query heads are not a multiple of %lld key heads", (long long)s->heads,
                    (long long)s->kv_heads);
    if (infer_rank(n, IN_QUERY) != 3) infer_error(n, "the query has rank %d, not 3", infer_rank(n, IN_QUERY));
    if (!node_in(n, IN_KEY) != !node_in(n, IN_VALUE)) infer_error(n, "key and value must be given together");
    if (infer_rank(n, IN_PAST_KEY) != 4 || infer_rank(n, IN_PAST_VALUE) != 4)
        infer_error(n, "past_key and past_value must have rank 4");
    s->head = axis_size(n, n->in[IN_PAST_KEY], 3), s->rows = axis_size(n, n->in[IN_QUERY], 1);
    value *parts[3] = {n->in[IN_QUERY], node_in(n, IN_KEY), node_in(n, IN_VALUE)};
    int64_t counts[] = {s->heads, s->kv_heads, s->kv_heads};
    if (!parts[1]) split_parts(n, parts[0], 2, NODE(n, "Mul", s->head, insert_ints(n, counts, 3)), 3, parts);
    s->q = parts[0], s->k = parts[1], s->v = parts[2];
}

static void find_start(sparse *s) {
    node *n = s->n;
    value *first = NODE(n, "Equal", as_int64(n, n->in[IN_TOTAL]), s->rows);
    s->length = as_int64(n, n->in[IN_LENGTHS]);
    s->start = NODE(n, "Where", first, one_int(n, 0), NODE(n, "Sub", s->length, s->rows));
}

// int64[batch, row]
static value *positions(sparse *s) {
    node *n = s->n;
    return NODE(n, "Add", NODE(n, "Unsqueeze", s->start, one_int(n, 1)), numbers_to(n, s->rows));
}

static void rotate_operands(sparse *s) {
    node *n = s->n;
    if (!node_int(n, "do_rotary", 0)) return;
    if (!node_in(n, IN_COS) || !node_in(n, IN_SIN)) infer_error(n, "do_rotary needs cos_cache and sin_cache");
    bool pairs = node_int(n, "rotary_interleaved", 0) == 1;
    value *at = positions(s);
    s->q = rotated(n, s->q, n->in[IN_COS], n->in[IN_SIN], at, s->heads, pairs);
    s->k = rotated(n, s->k, n->in[IN_COS], n->in[IN_SIN], at, s->kv_heads, pairs);
}

static value *present(sparse *s, value *fresh, int past) {
    value *x = heads_apart(s->n, fresh, s->kv_heads, s->head);
    return with_int(NODE(s->n, "TensorScatter", s->n->in[past], x, s->start), "axis", 2);
}

// bool[layout, row + 1, column] of blocks. The row of entry p of block_col_indices is the number of rows that end at p or
// earlier; entries after all rows fill the last one.
static value *blocks(sparse *s) {
    node *n = s->n;
    value *bounds = n->in[IN_ROWS], *columns = cast_to(n, n->in[IN_COLUMNS], DT_I64),
          *zero = insert_scalar(n, DT_I64, 0);
    value *layouts = axis_size(n, bounds, 0), *more = axis_size(n, bounds, 1),
          *entries = axis_size(n, columns, 1);
    value *ends = cast_to(n, NODE(n, "Unsqueeze", sliced(n, bounds, 1, 1, INT64_MAX), one_int(n, 1)), DT_I64);
    value *entry = NODE(n, "Unsqueeze", numbers_to(n, entries), one_int(n, 1));
    value *over = cast_to(n, NODE(n, "LessOrEqual", ends, entry), DT_I64);
    value *row = with_int(NODE(n, "ReduceSum", over, one_int(n, 2)), "keepdims", 0);
    value *layout = NODE(n, "Unsqueeze", numbers_to(n, layouts), one_int(n, 1));
    value *both = with_int(NODE(n, "Concat", layouts, entries), "axis", 0), *last = one_int(n, 2);
    value *at[3] = {NODE(n, "Expand", layout, both), row, NODE(n, "Max", columns, zero)};
    for (int i = 0; i < 3; i++) at[i] = NODE(n, "Unsqueeze", at[i], last);
    value *index = with_int(NODE(n, "Concat", at[0], at[1], at[2]), "axis", 2);
    value *shape = with_int(NODE(n, "Concat", layouts, more, NODE(n, "Sub", more, one_int(n, 1))), "axis", 0);
    value *none = NODE(n, "Expand", insert_scalar(n, DT_I32, 0), shape);
    value *set = NODE(n, "ScatterND", none, index, NODE(n, "Expand", insert_scalar(n, DT_I32, 1), both));
    return cast_to(n, set, DT_BOOL);
}

// [batch, head, query, key]
static value *block_mask(sparse *s) {
    node *n = s->n;
    int64_t size = node_int(n, "sparse_block_size", 0);
    if (size < 1) infer_error(n, "attribute sparse_block_size is %lld; it must be positive", (long long)size);
    value *block = insert_scalar(n, DT_I64, (double)size), *layouts = axis_size(n, n->in[IN_ROWS], 0);
    value *rows = with_int(NODE(n, "Gather", blocks(s), NODE(n, "Div", positions(s), block)), "axis", 1);
    rows = transposed(n, rows, 4, (int64_t[]){1, 0, 2, 3});
    value *column = NODE(n, "Div", numbers_to(n, axis_size(n, n->in[IN_PAST_KEY], 2)), block);
    value *most = NODE(n, "Sub", axis_size(n, n->in[IN_ROWS], 1), one_int(n, 2));
    column = NODE(n, "Min", column, most); // a cache longer than the mask
    value *seen = with_int(NODE(n, "Gather", rows, column), "axis", 3);
    return with_int(NODE(n, "Gather", seen, NODE(n, "Mod", numbers_to(n, one_int(n, s->heads)), layouts)),
                    "axis", 1);
}

static void sparse_attention_decompose(node *n) {
    sparse s = {.n = n};
    double scale = node_float(n, "scale", 0);
    find_operands(&s);
    find_start(&s);
    rotate_operands(&s);
    value *keys = present(&s, s.k, IN_PAST_KEY), *values = present(&s, s.v, IN_PAST_VALUE);
    attention_parts p = {
        .q = s.q, .k = keys, .v = values, .mask = block_mask(&s), .valid = s.length, .start = s.start};
    value *y = with_int(attention_of(n, &p, s.heads, s.kv_heads), "is_causal", 1);
    if (scale != 0) with_float(y, "scale", scale);
    if (node_out(n, 1)) give_output(n, 1, keys);
    if (node_out(n, 2)) give_output(n, 2, values);
    give_output(n, 0, y);
}

MICROSOFT_OP(SparseAttention, sparse_attention_decompose);
