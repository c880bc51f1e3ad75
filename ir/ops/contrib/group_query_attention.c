// GroupQueryAttention, as the standard's Attention over a cache of keys and values.
//
//   q, k, v = query, key, value, or the three parts of a packed query; q, k = RMSNormalization of each head
//   length[b] = seqlens_k[b] + 1
//   start[b]  = 0 in the first prompt (rows = total_sequence_length), else length[b] - rows; with query_seqlens, which
//               says how many of the rows are not padding, length[b] - query_seqlens[b]
//   q, k      = RotaryEmbedding(q, k) at positions start[b] + i, or at position_ids
//   present   = the past, padded to total_sequence_length, with k and v from row start[b] on
//   output    = Attention(q, present) with length[b] valid keys and the first query at start[b]
//
// What present has after its valid rows is what the past had there: ONNX Runtime leaves that alone where past and
// present share memory, too.
#include "ir/ops/contrib/attention.h"
#include <string.h>

enum { IN_QUERY, IN_KEY, IN_VALUE, IN_PAST_KEY, IN_PAST_VALUE, IN_SEQLENS, IN_TOTAL, IN_COS, IN_SIN };
enum { IN_POSITIONS = 9, IN_BIAS, IN_SINK, IN_K_SCALE, IN_V_SCALE, IN_Q_NORM, IN_K_NORM, IN_ADDED };
enum { OUT_Y, OUT_PRESENT_KEY, OUT_PRESENT_VALUE, OUT_QK };

typedef struct group_query {
    node *n;
    int64_t heads, kv_heads;
    value *q, *k, *v;           // [batch, row, head * element]
    value *rows, *fresh, *head; // int64[1]: queries, new keys, elements of a head
    value *total, *length;      // int64[1]; int64[batch]
    value *start;               // int64[batch]
    value *added;               // int64[batch or 1]: how many of the rows are new keys, and not padding
    tri first_prompt;           // what is known of it
    value *is_first;            // bool[1], where that is not known
    value *present[2];          // of keys and values, NULL: no cache
    int bits;                   // of a quantised cache, else 0
    dtype stored;               // the elements of a quantised cache
    value *end, *next_end;      // int64[batch]: rows in a sliding cache, before and after; else NULL
} group_query;

// ---- Operands

static void check_inputs(const node *n) {
    static const struct {
        int a, b;
        const char *text;
    } pairs[] = {{IN_KEY, IN_VALUE, "key and value"},
                 {IN_PAST_KEY, IN_PAST_VALUE, "past_key and past_value"},
                 {IN_COS, IN_SIN, "cos_cache and sin_cache"},
                 {IN_Q_NORM, IN_K_NORM, "q_norm_weight and k_norm_weight"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (!node_in(n, pairs[i].a) != !node_in(n, pairs[i].b))
            infer_error(n, "%s must be given together", pairs[i].text);
    if (infer_rank(n, IN_QUERY) != 3) infer_error(n, "the query has rank %d, not 3", infer_rank(n, IN_QUERY));
    if (node_in(n, IN_KEY) && infer_rank(n, IN_KEY) != 3)
        infer_error(n, "the key has rank %d, not 3", infer_rank(n, IN_KEY));
    if (node_int(n, "do_rotary", 0) && !node_in(n, IN_COS))
        infer_error(n, "do_rotary needs cos_cache and sin_cache");
    int64_t causal = node_int(n, "causal", 1), window = node_int(n, "local_window_size", -1);
    if (!causal && window != -1)
        infer_error(n, "local_window_size is %lld; without causal it must be -1", (long long)window);
    if (node_in(n, IN_ADDED) && (!causal || !node_in(n, IN_PAST_KEY)))
        infer_error(n, "query_seqlens needs causal attention and past_key");
}

static int64_t heads_of(const node *n, const char *name) {
    int64_t heads = node_int(n, name, 0);
    if (heads < 1) infer_error(n, "attribute %s is %lld; it must be positive", name, (long long)heads);
    return heads;
}

static void find_operands(group_query *g) {
    node *n = g->n;
    g->heads = heads_of(n, "num_heads"), g->kv_heads = heads_of(n, "kv_num_heads");
    if (g->heads % g->kv_heads)
        infer_error(n, "%lld query heads are not a multiple of %lld key heads", (long long)g->heads,
                    (long long)g->kv_heads);
    g->q = n->in[IN_QUERY], g->k = node_in(n, IN_KEY), g->v = node_in(n, IN_VALUE);
    g->rows = axis_size(n, g->q, 1);
    value *width = axis_size(n, g->q, 2);
    if (g->k) {
        bool same = dim_equal(infer_in(n, IN_KEY)->dims[1], infer_in(n, IN_QUERY)->dims[1]) == TRI_YES;
        g->head = NODE(n, "Div", width, one_int(n, g->heads));
        g->fresh = same ? g->rows : axis_size(n, g->k, 1);
        return;
    }
    g->fresh = g->rows;
    g->head = NODE(n, "Div", width, one_int(n, g->heads + 2 * g->kv_heads));
    int64_t counts[] = {g->heads, g->kv_heads, g->kv_heads};
    value *parts[3];
    split_parts(n, g->q, 2, NODE(n, "Mul", g->head, insert_ints(n, counts, 3)), 3, parts);
    g->q = parts[0], g->k = parts[1], g->v = parts[2];
}

// Each head of x divided by its root mean square.
static value *normalized(group_query *g, value *x, int weight, int64_t heads) {
    node *n = g->n;
    double epsilon = node_float(n, "qk_norm_epsilon", 1e-6f);
    epsilon = node_float(n, weight == IN_Q_NORM ? "q_norm_epsilon" : "k_norm_epsilon", epsilon);
    if (!(epsilon >= 0)) infer_error(n, "the epsilon of the norm of queries or keys is %g", epsilon);
    value *apart = reshaped(n, x, 4, (int64_t[]){0, 0, heads, -1});
    value *y = with_int(NODE(n, "RMSNormalization", apart, n->in[weight]), "axis", -1);
    return reshaped(n, with_float(y, "epsilon", epsilon), 3, (int64_t[]){0, 0, -1});
}

// ---- Positions

// Whether all of this is known: the number of rows is total_sequence_length.
static void find_first_prompt(group_query *g) {
    node *n = g->n;
    int count;
    dim **total = infer_contents(n, IN_TOTAL, &count);
    g->total = as_int64(n, n->in[IN_TOTAL]);
    if (node_in(n, IN_ADDED)) {
        g->first_prompt = TRI_NO;
        return;
    }
    g->first_prompt = total && count == 1 ? dim_equal(total[0], infer_in(n, IN_QUERY)->dims[1]) : TRI_UNKNOWN;
    if (g->first_prompt == TRI_UNKNOWN) g->is_first = NODE(n, "Equal", g->total, g->rows);
}

// One of both, by whether this is the first prompt.
static value *by_prompt(group_query *g, value *first, value *later) {
    if (g->first_prompt == TRI_UNKNOWN) return NODE(g->n, "Where", g->is_first, first, later);
    return g->first_prompt == TRI_YES ? first : later;
}

static value *zero_starts(group_query *g) {
    return NODE(g->n, "Expand", one_int(g->n, 0), axis_size(g->n, g->q, 0));
}

static void find_starts(group_query *g) {
    node *n = g->n;
    find_first_prompt(g);
    g->length = NODE(n, "Add", as_int64(n, n->in[IN_SEQLENS]), one_int(n, 1));
    g->added = node_in(n, IN_ADDED) ? as_int64(n, n->in[IN_ADDED]) : g->rows;
    g->start = by_prompt(g, zero_starts(g), NODE(n, "Sub", g->length, g->added));
}

// position_ids (in the first prompt only their first element counts), or the positions after the past:
// [batch, row] for the first `count` rows.
static value *positions(group_query *g, value *count) {
    node *n = g->n;
    value *given = node_in(n, IN_POSITIONS), *start = g->start;
    if (given) start = NODE(n, "Add", zero_starts(g), sliced(n, as_int64(n, given), 0, 0, 1));
    value *counted = NODE(n, "Add", NODE(n, "Unsqueeze", start, one_int(n, 1)), numbers_to(n, count));
    if (!given) return counted;
    value *shape = with_int(NODE(n, "Concat", axis_size(n, g->q, 0), g->rows), "axis", 0);
    given = NODE(n, "Reshape", given, shape);
    if (count != g->rows) given = with_int(NODE(n, "Gather", given, numbers_to(n, count)), "axis", 1);
    return by_prompt(g, counted, given);
}

static void rotate_operands(group_query *g) {
    node *n = g->n;
    if (!node_int(n, "do_rotary", 0)) return;
    value *at = positions(g, g->rows), *key_at = g->fresh == g->rows ? at : positions(g, g->fresh);
    bool pairs = node_int(n, "rotary_interleaved", 0) == 1;
    g->q = rotated(n, g->q, n->in[IN_COS], n->in[IN_SIN], at, g->heads, pairs);
    g->k = rotated(n, g->k, n->in[IN_COS], n->in[IN_SIN], key_at, g->kv_heads, pairs);
}

// ---- The cache

static int quantised_bits(const node *n) {
    static const char *const words = "NONE PER_TENSOR PER_CHANNEL";
    int k = node_choice(n, "k_quant_type", words), v = node_choice(n, "v_quant_type", words);
    int64_t bits = node_int(n, "kv_cache_bit_width", 0);
    if (k != v) infer_error(n, "k_quant_type and v_quant_type differ");
    if (k && bits != 4 && bits != 8)
        infer_error(n, "kv_cache_bit_width is %lld; of a quantised cache it must be 4 or 8", (long long)bits);
    if (!k && bits)
        infer_error(n, "kv_cache_bit_width is %lld, but the cache is not quantised", (long long)bits);
    if (k && (!node_in(n, IN_K_SCALE) || !node_in(n, IN_V_SCALE)))
        infer_error(n, "a quantised cache needs k_scale and v_scale");
    return (int)bits;
}

// The type of a quantised cache: that of the past, without one what the file says of the present.
static dtype stored_type(const node *n, int bits) {
    dtype whole = bits == 4 ? DT_U8 : DT_I8;
    const type *given = node_out(n, OUT_PRESENT_KEY) ? infer_declared(node_out(n, OUT_PRESENT_KEY)) : NULL;
    if (!node_in(n, IN_PAST_KEY))
        return bits == 8 && given && given->elem == DT_F8E4M3FN ? given->elem : whole;
    dtype key = infer_in(n, IN_PAST_KEY)->elem;
    if (key != whole && (bits == 4 || key != DT_F8E4M3FN))
        infer_error(n, "past_key is %s; a cache of %d bits is %s", dtype_name(key), bits,
                    bits == 4 ? "uint8" : "int8 or float8e4m3fn");
    return key;
}

// The scales of [batch, head, row, element].
static value *cache_scale(group_query *g, int in) {
    node *n = g->n;
    if (node_choice(n, "k_quant_type", "NONE PER_TENSOR PER_CHANNEL") == 1)
        return NODE(n, "Reshape", n->in[in], one_int(n, 1));
    value *shape = NODE(n, "Concat", insert_ints(n, (int64_t[]){1, g->kv_heads, 1}, 3), g->head);
    return NODE(n, "Reshape", n->in[in], with_int(shape, "axis", 0));
}

// round(x / scale), limited to the numbers of the type; 4 bits are stored plus 8, two in a byte, the first low.
static value *quantised(group_query *g, value *x, int scale_in) {
    node *n = g->n;
    bool narrow = g->bits == 4;
    value *scale = cache_scale(g, scale_in), *low = insert_scalar(n, DT_F32, narrow ? -8 : -128),
          *high = insert_scalar(n, DT_F32, narrow ? 7 : 127);
    value *inverse = NODE(n, "Reciprocal", scale), *one = insert_scalar(n, DT_F32, 1);
    inverse = NODE(n, "Where", NODE(n, "Equal", scale, insert_scalar(n, DT_F32, 0)), one, inverse);
    value *exact = NODE(n, "Mul", cast_to(n, x, DT_F32), inverse);
    if (g->stored == DT_F8E4M3FN) return cast_to(n, exact, g->stored);
    value *whole = NODE(n, "Round", exact);
    whole = NODE(n, "Clip", whole, low, high);
    if (!narrow) return cast_to(n, whole, DT_I8);
    value *codes = cast_to(n, NODE(n, "Add", whole, insert_scalar(n, DT_F32, 8)), DT_U8),
          *axis = one_int(n, 3);
    value *end = one_int(n, INT64_MAX), *two = one_int(n, 2);
    value *even = NODE(n, "Slice", codes, one_int(n, 0), end, axis, two);
    value *odd = NODE(n, "Slice", codes, one_int(n, 1), end, axis, two);
    return NODE(n, "Add", even, NODE(n, "Mul", odd, insert_scalar(n, DT_U8, 16)));
}

static value *dequantised(group_query *g, value *cache, int scale_in) {
    node *n = g->n;
    value *x = cache;
    if (g->bits == 4) {
        x = with_int(with_int(NODE(n, "BitCast", cache), "to", DT_U4), "unpacks", 1);
        x = NODE(n, "Sub", cast_to(n, x, DT_F32), insert_scalar(n, DT_F32, 8));
    }
    x = NODE(n, "Mul", cast_to(n, x, DT_F32), cache_scale(g, scale_in));
    return cast_to(n, x, infer_in(n, IN_QUERY)->elem);
}

// x with zeros up to total_sequence_length, unless it is known to have that many rows.
static value *grown(group_query *g, value *x, const dim *rows, value *count, int out) {
    node *n = g->n;
    int known;
    dim **total = infer_contents(n, IN_TOTAL, &known);
    const type *declared = node_out(n, out) ? infer_declared(node_out(n, out)) : NULL;
    if (total && known == 1 && dim_less_equal(total[0], rows) == TRI_YES) return x;
    if (declared && declared->kind == TYPE_TENSOR && declared->rank == 4 &&
        dim_equal(declared->dims[2], rows) == TRI_YES)
        return x;
    value *more = NODE(n, "Sub", NODE(n, "Max", g->total, count), count);
    return padded_at_end(n, x, 2, more);
}

// Whether the new rows of a sliding cache are known to be one.
static bool is_single_row(const group_query *g) {
    return g->end && g->added == g->rows && dim_is(infer_in(g->n, IN_QUERY)->dims[1], 1);
}

// The cache with the new rows, of keys or values.
static value *present(group_query *g, value *fresh, int past_in, int scale_in, int out) {
    node *n = g->n;
    value *past = node_in(n, past_in), *x = heads_apart(n, fresh, g->kv_heads, g->head);
    if (g->bits) x = quantised(g, x, scale_in);
    const type *key = infer_in(n, node_in(n, IN_KEY) ? IN_KEY : IN_QUERY);
    if (!past) return grown(g, x, key->dims[1], g->fresh, out);
    if (infer_rank(n, past_in) != 4) infer_error(n, "past_key and past_value must have rank 4");
    if (is_single_row(g)) {
        value *last = NODE(n, "Sub", g->next_end, one_int(n, 1));
        return with_int(NODE(n, "TensorScatter", past, x, last, NODE(n, "Sub", g->end, last)), "axis", 2);
    }
    if (g->end)
        return with_int(NODE(n, "TensorScatter", padded_at_end(n, past, 2, g->rows), x, g->end), "axis", 2);
    past = grown(g, past, infer_in(n, past_in)->dims[2], axis_size(n, past, 2), out);
    value *at = g->start;
    if (g->fresh != g->rows) // without new keys all are in the past
        at = NODE(n, "Where", NODE(n, "Equal", g->fresh, one_int(n, 0)), g->length, g->start);
    return with_int(NODE(n, "TensorScatter", past, x, at), "axis", 2);
}

// ---- A sliding cache, of C rows for a window of W: when it is full, it drops C - W + 1 rows at a time
//
//   end(T)  = how many of T positions are in the cache: T up to C, else T - G * ceil((T - C) / G), G = C - W + 1
//   staged  = the past, S rows longer, with the new rows from end(T - S) on: what Attention reads
//   present = the last end(T) of the end(T - S) + S rows
//
// A single new row sees no more than W rows, which the present cache has: what leaves it moves the others in place
// (passes/memory/slide.c), and nothing is staged.

static value *end_of(group_query *g, value *total, value *capacity) {
    node *n = g->n;
    value *one = one_int(n, 1), *window = one_int(n, node_int(n, "local_window_size", -1));
    value *step = NODE(n, "Add", NODE(n, "Sub", capacity, window), one);
    value *over = NODE(n, "Max", NODE(n, "Sub", total, capacity), one_int(n, 0));
    value *times = NODE(n, "Div", NODE(n, "Add", over, NODE(n, "Sub", step, one)), step);
    return NODE(n, "Sub", total, NODE(n, "Mul", step, times));
}

static void find_ends(group_query *g) {
    node *n = g->n;
    if (node_int(n, "sliding_window_cache", 0) != 1) return;
    int64_t window = node_int(n, "local_window_size", -1);
    if (window < 1 || !node_in(n, IN_PAST_KEY))
        infer_error(n, "sliding_window_cache needs local_window_size and past_key");
    if (node_out(n, OUT_QK)) infer_error(n, "output_qk cannot be combined with sliding_window_cache");
    if (infer_rank(n, IN_PAST_KEY) != 4) infer_error(n, "past_key and past_value must have rank 4");
    dim *capacity = infer_in(n, IN_PAST_KEY)->dims[2];
    if (dim_less(capacity, infer_k(n, window)) == TRI_YES)
        infer_error(n, "the cache has %s rows, less than the window of %lld",
                    dim_text(infer_arena(n), capacity), (long long)window);
    value *rows = axis_size(n, n->in[IN_PAST_KEY], 2);
    g->end = end_of(g, NODE(n, "Sub", g->length, g->added), rows);
    g->next_end = end_of(g, g->length, rows);
}

// x along the axis from row from[b] on, as many rows as `count`; past its end rows of any value.
static value *rows_from(group_query *g, value *x, int64_t axis, value *from, value *count, value *size) {
    node *n = g->n;
    bool last = axis == 3;
    value *row = NODE(n, "Unsqueeze", numbers_to(n, count), insert_ints(n, (int64_t[]){1}, last ? 0 : 1));
    value *at = NODE(n, "Add", NODE(n, "Unsqueeze", from, insert_ints(n, (int64_t[]){1, 2, 3}, 3)), row);
    at = NODE(n, "Clip", at, insert_scalar(n, DT_I64, 0), as_scalar(n, NODE(n, "Sub", size, one_int(n, 1))));
    value *shape[4];
    for (int i = 0; i < 4; i++) shape[i] = i == axis ? count : axis_size(n, x, i);
    value *all = with_int(NODE(n, "Concat", shape[0], shape[1], shape[2], shape[3]), "axis", 0);
    return with_int(NODE(n, "GatherElements", x, NODE(n, "Expand", at, all)), "axis", axis);
}

static value *slid(group_query *g, value *staged, int past_in) {
    node *n = g->n;
    value *rows = axis_size(n, n->in[past_in], 2), *all = NODE(n, "Add", g->end, g->added);
    return rows_from(g, staged, 2, NODE(n, "Sub", all, g->next_end), rows, NODE(n, "Add", rows, g->rows));
}

// Its columns are positions; the staged cache begins at position length - end - rows, the present one at length - next_end.
static value *slid_bias(group_query *g) {
    node *n = g->n;
    value *bias = n->in[IN_BIAS], *columns = axis_size(n, bias, 3),
          *count = axis_size(n, n->in[IN_PAST_KEY], 2);
    value *first = NODE(n, "Sub", g->length, g->next_end);
    if (!is_single_row(g)) {
        first = NODE(n, "Sub", NODE(n, "Sub", g->length, g->end), g->added);
        count = NODE(n, "Add", count, g->rows);
    }
    value *shape = with_int(NODE(n, "Concat", axis_size(n, g->q, 0), insert_ints(n, (int64_t[]){1, 1, 1}, 3)),
                            "axis", 0);
    return rows_from(g, NODE(n, "Expand", bias, shape), 3, first, count, columns);
}

static bool has_cache(const node *n) {
    return node_in(n, IN_PAST_KEY) || node_out(n, OUT_PRESENT_KEY) || node_out(n, OUT_PRESENT_VALUE);
}

// What Attention reads: the given keys and values where there is no cache.
static void find_keys(group_query *g, attention_parts *p) {
    p->k = g->k, p->v = g->v;
    if (!g->bits && !has_cache(g->n)) return;
    p->k = g->present[0] = present(g, g->k, IN_PAST_KEY, IN_K_SCALE, OUT_PRESENT_KEY);
    p->v = g->present[1] = present(g, g->v, IN_PAST_VALUE, IN_V_SCALE, OUT_PRESENT_VALUE);
    if (g->bits) p->k = dequantised(g, p->k, IN_K_SCALE), p->v = dequantised(g, p->v, IN_V_SCALE);
    if (!g->end) return;
    if (is_single_row(g)) {
        p->valid = g->next_end, p->start = NODE(g->n, "Sub", g->next_end, one_int(g->n, 1));
        if (p->mask) p->mask = slid_bias(g);
        return;
    }
    g->present[0] = slid(g, g->present[0], IN_PAST_KEY);
    g->present[1] = slid(g, g->present[1], IN_PAST_VALUE);
    p->valid = NODE(g->n, "Add", g->end, g->added), p->start = g->end;
    if (p->mask) p->mask = slid_bias(g);
}

// ---- The result

static value *sinks(group_query *g) {
    node *n = g->n;
    if (node_in(n, IN_SINK)) return n->in[IN_SINK];
    if (node_int(n, "smooth_softmax", 0) != 1) return NULL;
    return NODE(n, "Expand", number_like(n, 0, IN_QUERY), one_int(n, g->heads));
}

static void set_attributes(group_query *g, value *y) {
    node *n = g->n;
    double scale = node_float(n, "scale", 0);
    int64_t window = node_int(n, "local_window_size", -1);
    with_int(y, "is_causal", node_int(n, "causal", 1));
    with_float(y, "softcap", node_float(n, "softcap", 0));
    if (scale != 0) with_float(y, "scale", scale);
    if (window > 0) with_int(y, "left_window_size", window - 1);
    with_int(y, "qk_matmul_output_mode", node_int(n, "qk_output", 0) == 2 ? 3 : 2);
}

// [batch, head, row, total_sequence_length], 0 where a key is not seen.
static void give_scores(group_query *g, value *y) {
    node *n = g->n;
    if (!node_out(n, OUT_QK)) return;
    int64_t mode = node_int(n, "qk_output", 0);
    if (mode != 1 && mode != 2) infer_error(n, "output_qk needs attribute qk_output to be 1 or 2");
    value *scores = NODE(n, "Slice", output_of(y, 3), one_int(n, 0), g->total, one_int(n, 3));
    if (mode == 1) {
        value *hidden = with_int(NODE(n, "IsInf", scores), "detect_positive", 0);
        scores = NODE(n, "Where", hidden, number_like(n, 0, IN_QUERY), scores);
    }
    give_output(n, OUT_QK, scores);
}

static void group_query_attention_decompose(node *n) {
    check_inputs(n);
    group_query g = {.n = n, .bits = quantised_bits(n)};
    if (g.bits) g.stored = stored_type(n, g.bits);
    find_operands(&g);
    if (node_in(n, IN_Q_NORM)) {
        g.q = normalized(&g, g.q, IN_Q_NORM, g.heads);
        g.k = normalized(&g, g.k, IN_K_NORM, g.kv_heads);
    }
    find_starts(&g);
    find_ends(&g);
    rotate_operands(&g);
    attention_parts p = {.q = g.q, .mask = node_in(n, IN_BIAS), .valid = g.length, .sink = sinks(&g)};
    if (node_int(n, "local_window_size", -1) == 0) p.valid = zero_starts(&g);
    p.start = node_in(n, IN_PAST_KEY) ? g.start : zero_starts(&g);
    find_keys(&g, &p);
    value *y = attention_of(n, &p, g.heads, g.kv_heads);
    set_attributes(&g, y);
    give_scores(&g, y);
    if (node_out(n, OUT_PRESENT_KEY)) give_output(n, OUT_PRESENT_KEY, g.present[0]);
    if (node_out(n, OUT_PRESENT_VALUE)) give_output(n, OUT_PRESENT_VALUE, g.present[1]);
    give_output(n, OUT_Y, y);
}

MICROSOFT_OP(GroupQueryAttention, group_query_attention_decompose);
