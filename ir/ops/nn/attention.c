// Attention (one kernel for scores, softmax and the weighted sum) and RotaryEmbedding.
//
//   for b, key head, query head of its group, query row i:
//     score[j] = mask(softcap(scale * sum over d of q[i, d] * k[j, d]))      -inf for masked j
//     top = max score, weight[j] = exp(score[j] - top), total = sum weight
//     out[e] = sum over j of weight[j] * v[j, e] / total                     0 if all keys are masked
//
// Decompositions of other attention operators may add to the standard's form: an attention sink of each query head
// (total += exp(sink - top)), the position of the first query of each batch entry, and 3-d queries with 4-d keys.
#include "ir/ops/contract.h"
#include "ir/ops/runtime_args.h"
#include <math.h>

enum { IN_Q, IN_K, IN_V, IN_MASK, IN_PAST_KEY, IN_PAST_VALUE, IN_VALID, IN_SINK, IN_START };
enum { OUT_Y, OUT_PRESENT_KEY, OUT_PRESENT_VALUE, OUT_SCORES };

// ---- Sizes

typedef struct sizes {
    bool flat; // 3-d queries and result [batch, row, head * element]
    dim *batch, *q_heads, *kv_heads, *rows, *head, *v_head;
    dim *past, *fresh, *total; // numbers of keys: cached, new, both
} sizes;

static dim *heads_attr(const node *n, const char *name) {
    int64_t heads = node_int(n, name, 0);
    if (heads < 1) infer_error(n, "3-d inputs need attribute %s", name);
    return infer_k(n, heads);
}

static dim *split_heads(const node *n, dim *hidden, dim *heads, const char *what) {
    if (dim_equal(dim_mod(hidden, heads), infer_k(n, 0)) == TRI_NO)
        infer_error(n, "%s: %s cannot be divided by %s", what, dim_text(infer_arena(n), hidden),
                    dim_text(infer_arena(n), heads));
    infer_same_dim(n, dim_mod(hidden, heads), infer_k(n, 0), what);
    return dim_floordiv(hidden, heads);
}

static void check_ranks(const node *n) {
    int q = infer_rank(n, IN_Q), k = infer_rank(n, IN_K), v = infer_rank(n, IN_V);
    bool mixed = q == 3 && k == 4 && node_in(n, IN_START);
    if ((q != 3 && q != 4) || (k != q && !mixed) || v != k)
        infer_error(n, "Q, K and V have ranks %d, %d and %d; they must all be 3 or 4", q, k, v);
}

static sizes sizes_of(const node *n) {
    check_ranks(n);
    const type *q = infer_in(n, IN_Q), *k = infer_in(n, IN_K), *v = infer_in(n, IN_V);
    sizes s = {.flat = q->rank == 3, .batch = q->dims[0]};
    s.rows = q->dims[q->rank - 2], s.fresh = k->dims[k->rank - 2];
    if (s.flat) {
        s.q_heads = heads_attr(n, "q_num_heads");
        s.head = split_heads(n, q->dims[2], s.q_heads, "Q's width modulo heads");
    } else {
        s.q_heads = q->dims[1], s.head = q->dims[3];
    }
    if (k->rank == 3) {
        s.kv_heads = heads_attr(n, "kv_num_heads");
        infer_same_dim(n, split_heads(n, k->dims[2], s.kv_heads, "K's width modulo heads"), s.head,
                       "head sizes of Q and K");
        s.v_head = split_heads(n, v->dims[2], s.kv_heads, "V's width modulo heads");
    } else {
        s.kv_heads = k->dims[1];
        s.head = infer_same_dim(n, s.head, k->dims[3], "head sizes of Q and K");
        infer_same_dim(n, v->dims[1], s.kv_heads, "heads of K and V");
        s.v_head = v->dims[3];
    }
    s.past = infer_k(n, 0);
    if (node_in(n, IN_PAST_KEY)) {
        if (infer_rank(n, IN_PAST_KEY) != 4) infer_error(n, "past_key must have rank 4");
        s.past = infer_in(n, IN_PAST_KEY)->dims[2];
    }
    s.total = dim_add(s.past, s.fresh);
    return s;
}

static void check_cache(const node *n, int i, const sizes *s, dim *width) {
    if (!node_in(n, i)) return;
    if (infer_rank(n, i) != 4) infer_error(n, "past key and value must have rank 4");
    const type *t = infer_in(n, i);
    infer_same_dim(n, t->dims[0], s->batch, "batches of Q and past");
    infer_same_dim(n, t->dims[1], s->kv_heads, "heads of K and past");
    infer_same_dim(n, t->dims[2], s->past, "lengths of past_key and past_value");
    infer_same_dim(n, t->dims[3], width, "head sizes of past and given");
}

static const char too_many_columns[] = "attn_mask has more columns than there are keys";
static const char no_key_heads[] = "there are no key heads";

static void check_mask(const node *n, const sizes *s) {
    if (!node_in(n, IN_MASK)) return;
    int rank = infer_rank(n, IN_MASK);
    const type *m = infer_in(n, IN_MASK);
    if (rank > 4) infer_error(n, "attn_mask has rank %d; at most 4 is allowed", rank);
    dim *to[4] = {s->batch, s->q_heads, s->rows, s->total};
    for (int i = 0; i + 1 < rank; i++) {
        dim *want = to[4 - rank + i];
        infer_same_dim(n, infer_broadcast_dim(n, want, m->dims[i], i), want,
                       "attn_mask broadcast to the scores");
    }
    if (rank && dim_less(s->total, m->dims[rank - 1]) == TRI_YES) infer_error(n, "%s", too_many_columns);
}

static void check_heads(const node *n, const sizes *s) {
    const type *k = infer_in(n, IN_K), *v = infer_in(n, IN_V);
    infer_same_dim(n, k->dims[0], s->batch, "batches of Q and K");
    infer_same_dim(n, v->dims[0], s->batch, "batches of Q and V");
    infer_same_dim(n, v->dims[v->rank - 2], s->fresh, "lengths of K and V");
    if (dim_less_equal(s->kv_heads, infer_k(n, 0)) == TRI_YES) infer_error(n, "%s", no_key_heads);
    infer_same_dim(n, dim_mod(s->q_heads, s->kv_heads), infer_k(n, 0), "query heads modulo key heads");
}

static void check_precision(const node *n) {
    int64_t precision = node_int(n, "softmax_precision", 0);
    dtype t = dtype_from_onnx((int)precision);
    bool known = t == DT_F32 || t == DT_F64 || t == DT_F16 || t == DT_BF16;
    if (node_attr(n, "softmax_precision") && (!known || precision != (int)precision))
        infer_error(n, "attribute softmax_precision is %lld; it must be 1, 10, 11 or 16",
                    (long long)precision);
}

static void check_attributes(const node *n) {
    if (!node_in(n, IN_PAST_KEY) != !node_in(n, IN_PAST_VALUE))
        infer_error(n, "past_key and past_value must be given together");
    if (node_in(n, IN_VALID) && node_in(n, IN_PAST_KEY))
        infer_error(n, "nonpad_kv_seqlen cannot be given together with past_key");
    if (node_int(n, "left_window_size", -1) < -1 || node_int(n, "right_window_size", -1) < -1)
        infer_error(n, "window sizes must be -1 or not negative");
    int64_t mode = node_int(n, "qk_matmul_output_mode", 0);
    if (mode < 0 || mode > 3)
        infer_error(n, "attribute qk_matmul_output_mode is %lld; it must be 0, 1, 2 or 3", (long long)mode);
    node_flag(n, "is_causal", false);
    check_precision(n);
}

static void attention_infer(node *n) {
    check_attributes(n);
    sizes s = sizes_of(n);
    check_heads(n, &s);
    check_cache(n, IN_PAST_KEY, &s, s.head);
    check_cache(n, IN_PAST_VALUE, &s, s.v_head);
    check_mask(n, &s);
    infer_shape(n, IN_VALID, "nonpad_kv_seqlen", 1, &s.batch, "nonpad_kv_seqlen and the batch");
    infer_shape(n, IN_SINK, "head_sink", 1, &s.q_heads, "head_sink and the query heads");
    infer_shape(n, IN_START, "input 8", 1, &s.batch, "first positions and the batch");
    dtype elem = infer_in(n, IN_Q)->elem, v_elem = infer_in(n, IN_V)->elem;
    dim *flat[] = {s.batch, s.rows, dim_mul(s.q_heads, s.v_head)},
        *full[] = {s.batch, s.q_heads, s.rows, s.v_head};
    if (s.flat) infer_set(n, OUT_Y, elem, 3, flat);
    else infer_set(n, OUT_Y, elem, 4, full);
    infer_set(n, OUT_PRESENT_KEY, elem, 4, (dim *[]){s.batch, s.kv_heads, s.total, s.head});
    infer_set(n, OUT_PRESENT_VALUE, v_elem, 4, (dim *[]){s.batch, s.kv_heads, s.total, s.v_head});
    infer_set(n, OUT_SCORES, elem, 4, (dim *[]){s.batch, s.q_heads, s.rows, s.total});
}

// ---- Keys and values

// x[b, head, row, e] of a 4-d or a flat operand.
static expr *read_heads(kernel *k, buffer *x, expr *guard, expr *b, expr *head, dim *width, expr *row,
                        expr *e) {
    expr *full[] = {b, head, row, e};
    expr *flat[] = {b, row, x_add(k, x_mul(k, head, x_dim(k, width)), e)};
    return x_read_guarded(k, x, x->rank == 3 ? flat : full, guard, NULL);
}

// The keys or values of all positions: one buffer, or the cache followed by the new ones.
typedef struct source {
    buffer *past, *fresh; // past NULL: fresh has all positions
    dim *length, *width;  // length of past; width of a head
} source;

static expr *read_source(kernel *k, const source *s, expr *b, expr *head, expr *row, expr *e) {
    if (!s->past) return read_heads(k, s->fresh, NULL, b, head, s->width, row, e);
    expr *length = x_dim(k, s->length), *old = x_lt(k, row, length);
    expr *first = read_heads(k, s->past, old, b, head, s->width, row, e);
    expr *given = x_bin(k, X_LE, length, row);
    expr *second = read_heads(k, s->fresh, given, b, head, s->width, x_sub(k, row, length), e);
    return x_select(k, old, first, second);
}

static void lower_present(lowering *l, const node *n, const source *s, buffer *out, const char *suffix) {
    kernel *k = lower_kernel(l, n, suffix);
    stage *st = kernel_stage(k);
    expr *at[4];
    axes_over(k, st, out, at);
    stage_write(k, st, out, at, read_source(k, s, at[0], at[1], at[2], at[3]));
}

// Writes the present output if it is in use. With a cache, the attention then reads that output.
static source lower_source(lowering *l, const node *n, int given, int past, int out, const sizes *s,
                           dim *width) {
    source from = {lower_in(l, n, past), lower_in(l, n, given), s->past, width};
    buffer *present = lower_out(l, n, out);
    if (!present) return from;
    lower_present(l, n, &from, present, out == OUT_PRESENT_KEY ? "present_key" : "present_value");
    return from.past ? (source){NULL, present, s->past, width} : from;
}

// ---- The kernel

typedef struct attention {
    lowering *l;
    const node *n;
    kernel *k;
    sizes s;
    dtype t, exact; // types of the products, and of the softmax
    expr *b, *kv_head, *q_head, *row;
    buffer *score;  // local, one per key
    buffer *scores; // output, NULL if not in use
    int64_t mode;   // which scores that output holds
} attention;

static expr *outer_axis(kernel *k, const char *name, dim *extent) {
    int a = kernel_axis(k, AXIS_PARALLEL, name, extent);
    k->nouter = a + 1;
    return x_axis(k, a);
}

static void outer_axes(attention *a) {
    kernel *k = a->k;
    dim *group = dim_floordiv(a->s.q_heads, a->s.kv_heads);
    a->b = outer_axis(k, "b", a->s.batch);
    a->kv_head = outer_axis(k, "h", a->s.kv_heads);
    expr *within = outer_axis(k, "g", group);
    a->q_head = x_add(k, x_mul(k, a->kv_head, x_dim(k, group)), within);
    a->row = outer_axis(k, "i", a->s.rows);
}

// The position of the query row among the keys, of which `length` are valid (NULL: all). By the standard the last
// query is at the last valid key.
static expr *position_of(attention *a, expr *length) {
    kernel *k = a->k;
    buffer *start = lower_in(a->l, a->n, IN_START);
    if (start) return x_add(k, a->row, x_read(k, start, &a->b));
    if (!length) return x_add(k, a->row, x_dim(k, a->s.past));
    return x_add(k, a->row, x_sub(k, length, x_dim(k, a->s.rows)));
}

// Whether the positions allow query row to attend to key j; NULL: always.
static expr *visible(attention *a, expr *j) {
    kernel *k = a->k;
    int64_t left = node_int(a->n, "left_window_size", -1), right = node_int(a->n, "right_window_size", -1);
    buffer *valid = lower_in(a->l, a->n, IN_VALID);
    expr *length = valid ? x_read(k, valid, &a->b) : NULL, *sees = valid ? x_lt(k, j, length) : NULL;
    expr *position = position_of(a, length);
    if (node_int(a->n, "is_causal", 0)) sees = x_both(k, sees, x_bin(k, X_LE, j, position));
    if (left >= 0) sees = x_both(k, sees, x_bin(k, X_LE, x_sub(k, position, x_i64(k, left)), j));
    if (right >= 0) sees = x_both(k, sees, x_bin(k, X_LE, j, x_add(k, position, x_i64(k, right))));
    return sees;
}

// score with the mask applied. Keys past the mask's last column are masked.
static expr *masked(attention *a, expr *score, expr *j) {
    kernel *k = a->k;
    buffer *mask = lower_in(a->l, a->n, IN_MASK);
    expr *hidden = x_float(k, a->t, -INFINITY), *sees = visible(a, j);
    if (mask) {
        expr *index[] = {a->b, a->q_head, a->row, j}, *at[4], *inside = NULL;
        dim *extent[] = {a->s.batch, a->s.q_heads, a->s.rows, a->s.total};
        for (int i = 0; i + 1 < mask->rank; i++) {
            int axis = 4 - mask->rank + i;
            at[i] = broadcast_index(k, mask->dims[i], extent[axis], index[axis]);
        }
        if (mask->rank) {
            dim *columns = mask->dims[mask->rank - 1];
            at[mask->rank - 1] = j;
            if (dim_less_equal(a->s.total, columns) != TRI_YES) inside = x_lt(k, j, x_dim(k, columns));
        }
        expr *m = x_read_guarded(k, mask, at, inside, NULL);
        if (mask->dtype == DT_BOOL) {
            sees = x_both(k, sees, m);
        } else {
            // A key masked by -inf is excluded even if its score is NaN.
            m = x_cast(k, m, a->t, false);
            if (inside) sees = x_both(k, sees, inside);
            if (dtype_is_float(mask->dtype)) sees = x_both(k, sees, x_bin(k, X_NE, m, hidden));
            score = x_add(k, score, m);
        }
    }
    return sees ? x_select(k, sees, score, hidden) : score;
}

static expr *softcapped(attention *a, expr *score) {
    kernel *k = a->k;
    double cap = node_float(a->n, "softcap", 0);
    if (!(cap > 0)) return score;
    expr *c = x_float(k, a->t, cap);
    return x_mul(k, x_un(k, X_TANH, x_div(k, score, c)), c);
}

// The attribute, or 1 / sqrt(head size).
static expr *scale_of(attention *a) {
    kernel *k = a->k;
    const attr *given = node_attr(a->n, "scale");
    if (given) return x_float(k, a->t, node_float(a->n, "scale", 1));
    if (dim_is_const(a->s.head)) return x_float(k, a->t, 1 / sqrt((double)dim_value(a->s.head)));
    expr *size = x_cast(k, x_dim(k, a->s.head), a->t, false);
    return x_div(k, x_float(k, a->t, 1), x_un(k, X_SQRT, size));
}

static void write_scores(attention *a, stage *s, expr *j, expr *v) {
    if (!a->scores) return;
    expr *at[] = {a->b, a->q_head, a->row, j};
    stage_write(a->k, s, a->scores, at, x_cast(a->k, v, a->t, false));
}

static void score_stage(attention *a, buffer *q, const source *keys) {
    kernel *k = a->k;
    stage *s = kernel_stage(k);
    expr *j = stage_own_axis(k, s, AXIS_PARALLEL, "j", a->s.total);
    expr *d = stage_own_axis(k, s, AXIS_REDUCE, "d", a->s.head);
    expr *term = x_mul(k, read_heads(k, q, NULL, a->b, a->q_head, a->s.head, a->row, d),
                       read_source(k, keys, a->b, a->kv_head, j, d));
    expr *raw = x_mul(k, stage_reduce(k, s, RED_SUM, term), scale_of(a));
    expr *capped = softcapped(a, raw), *final = masked(a, capped, j);
    if (a->mode == 0) write_scores(a, s, j, raw);
    if (a->mode == 1) write_scores(a, s, j, capped);
    if (a->mode == 2) write_scores(a, s, j, final);
    stage_write(k, s, a->score, &j, x_cast(k, final, a->exact, true));
}

static expr *reduce_keys(attention *a, const char *name, reduce_op op, buffer *from) {
    kernel *k = a->k;
    stage *s = kernel_stage(k);
    expr *j = stage_own_axis(k, s, AXIS_REDUCE, "j", a->s.total);
    buffer *to = kernel_local(k, name, from->dtype, 0, NULL);
    stage_write(k, s, to, NULL, stage_reduce(k, s, op, x_read(k, from, &j)));
    return x_read(k, to, NULL);
}

// The sum of the weights as a divisor: 1 for a row without keys.
static expr *softmax_stages(attention *a, buffer *weight) {
    kernel *k = a->k;
    dtype t = a->score->dtype;
    expr *top = reduce_keys(a, "top", RED_NUMBER_MAX, a->score), *lowest = x_float(k, t, -INFINITY);
    top = x_select(k, x_bin(k, X_EQ, top, lowest), x_float(k, t, 0), top);
    stage *s = kernel_stage(k);
    expr *j = stage_own_axis(k, s, AXIS_PARALLEL, "j", a->s.total);
    stage_write(k, s, weight, &j, x_un(k, X_EXP, x_sub(k, x_read(k, a->score, &j), top)));
    expr *total = reduce_keys(a, "total", RED_SUM, weight);
    buffer *sink = lower_in(a->l, a->n, IN_SINK);
    if (sink) {
        expr *given = x_cast(k, x_read(k, sink, &a->q_head), t, false);
        return x_add(k, total, x_un(k, X_EXP, x_sub(k, given, top)));
    }
    return x_select(k, x_bin(k, X_EQ, total, x_float(k, t, 0)), x_float(k, t, 1), total);
}

static void probability_stage(attention *a, buffer *weight, expr *total) {
    if (a->mode != 3 || !a->scores) return;
    stage *s = kernel_stage(a->k);
    expr *j = stage_own_axis(a->k, s, AXIS_PARALLEL, "j", a->s.total);
    write_scores(a, s, j, x_div(a->k, x_read(a->k, weight, &j), total));
}

static void output_stage(attention *a, buffer *out, buffer *weight, expr *total, const source *values) {
    kernel *k = a->k;
    stage *s = kernel_stage(k);
    expr *e = stage_own_axis(k, s, AXIS_PARALLEL, "e", a->s.v_head);
    expr *j = stage_own_axis(k, s, AXIS_REDUCE, "j", a->s.total);
    expr *v = x_cast(k, read_source(k, values, a->b, a->kv_head, j, e), a->t, false);
    expr *sum = stage_reduce(k, s, RED_SUM, x_mul(k, x_cast(k, x_read(k, weight, &j), a->t, false), v));
    expr *y = x_div(k, sum, x_cast(k, total, a->t, false));
    expr *full[] = {a->b, a->q_head, a->row, e};
    expr *flat[] = {a->b, a->row, x_add(k, x_mul(k, a->q_head, x_dim(k, a->s.v_head)), e)};
    stage_write(k, s, out, out->rank == 3 ? flat : full, y);
}

static void check_columns(lowering *l, node *n, const sizes *s) {
    const type *m = node_in(n, IN_MASK) ? infer_in(n, IN_MASK) : NULL;
    if (m && m->rank > 0) lower_check(l, n, dim_at_most(m->dims[m->rank - 1], s->total), too_many_columns);
}

static void attention_lower(lowering *l, node *n) {
    attention a = {.l = l, .n = n, .s = sizes_of(n), .mode = node_int(n, "qk_matmul_output_mode", 0)};
    check_columns(l, n, &a.s);
    lower_check(l, n, dim_lt(infer_k(n, 0), a.s.kv_heads), no_key_heads);
    source keys = lower_source(l, n, IN_K, IN_PAST_KEY, OUT_PRESENT_KEY, &a.s, a.s.head);
    source values = lower_source(l, n, IN_V, IN_PAST_VALUE, OUT_PRESENT_VALUE, &a.s, a.s.v_head);
    buffer *q = lower_in(l, n, IN_Q), *out = lower_out(l, n, OUT_Y);
    a.scores = lower_out(l, n, OUT_SCORES);
    if (!out && !a.scores) return;
    a.k = lower_kernel(l, n, NULL);
    a.t = dtype_compute(q->dtype);
    dtype wanted = dtype_from_onnx((int)node_int(n, "softmax_precision", 0));
    a.exact = wanted == DT_NONE ? a.t : wanted;
    outer_axes(&a);
    a.score = kernel_local(a.k, "score", dtype_compute(a.exact), 1, &a.s.total);
    buffer *weight = kernel_local(a.k, "weight", a.score->dtype, 1, &a.s.total);
    score_stage(&a, q, &keys);
    expr *total = softmax_stages(&a, weight);
    probability_stage(&a, weight, total);
    if (out) output_stage(&a, out, weight, total, &values);
}

OPERATOR(Attention, .infer = attention_infer, .lower = attention_lower);

// ---- RotaryEmbedding: pairs of elements of a head rotated by the angle of their row
//   for b, h, s:  for p < half: y[first] = c*x1 - s*x2, y[second] = s*x1 + c*x2;  the rest is copied

typedef struct rotary {
    bool flat, interleaved;
    dim *batch, *heads, *rows, *head, *half;
} rotary;

static rotary rotary_of(const node *n) {
    int rank = infer_rank(n, 0);
    const type *x = infer_in(n, 0);
    if (rank != 3 && rank != 4) infer_error(n, "the input has rank %d; it must be 3 or 4", rank);
    rotary r = {.flat = rank == 3, .interleaved = node_int(n, "interleaved", 0) != 0, .batch = x->dims[0]};
    r.rows = x->dims[rank - 2];
    r.heads = r.flat ? heads_attr(n, "num_heads") : x->dims[1];
    r.head = r.flat ? split_heads(n, x->dims[2], r.heads, "width modulo heads") : x->dims[3];
    int64_t rotated = node_int(n, "rotary_embedding_dim", 0);
    r.half = dim_floordiv(rotated > 0 ? infer_k(n, rotated) : r.head, infer_k(n, 2));
    if (rotated < 0)
        r.half = infer_in(n, 1)->dims[infer_rank(n, 1) - 1]; // by decompositions: the caches' width
    return r;
}

// Angles are broadcast to the input, as in the operator's function body: exporters share the angles of one batch entry.
static void check_rows(const node *n, const rotary *r, const type *t, const char *batches, const char *rows) {
    infer_same_dim(n, infer_broadcast_dim(n, r->batch, t->dims[0], 0), r->batch, batches);
    infer_same_dim(n, infer_broadcast_dim(n, r->rows, t->dims[1], 1), r->rows, rows);
}

static void rotary_embedding_infer(node *n) {
    rotary r = rotary_of(n);
    bool by_position = node_in(n, 3) != NULL;
    for (int i = 1; i <= 2; i++) {
        int rank = infer_rank(n, i);
        const type *t = infer_in(n, i);
        if (rank != (by_position ? 2 : 3))
            infer_error(n, "the caches must have rank %d, not %d", by_position ? 2 : 3, rank);
        infer_same_dim(n, t->dims[rank - 1], r.half, "cache width and half of the rotated elements");
        if (by_position) continue;
        check_rows(n, &r, t, "batches of cache and input", "rows of cache and input");
    }
    if (by_position) {
        if (infer_rank(n, 3) != 2) infer_error(n, "position_ids must have rank 2");
        check_rows(n, &r, infer_in(n, 3), "batches of position_ids and input",
                   "rows of position_ids and input");
    }
    if (dim_less(r.head, dim_mulk(r.half, 2)) == TRI_YES)
        infer_error(n, "attribute rotary_embedding_dim is larger than a head");
    infer_same(n, 0, 0);
}

typedef struct rotation {
    kernel *k;
    rotary r;
    buffer *x, *out;
    expr *b, *h, *row;
} rotation;

static void element_index(rotation *t, expr *e, expr **at) {
    kernel *k = t->k;
    at[0] = t->b;
    at[1] = t->r.flat ? t->row : t->h;
    at[2] = t->r.flat ? x_add(k, x_mul(k, t->h, x_dim(k, t->r.head)), e) : t->row;
    at[3] = t->r.flat ? NULL : e;
}

static expr *read_angle(rotation *t, buffer *cache, buffer *positions, expr *p) {
    kernel *k = t->k;
    const buffer *by = positions ? positions : cache;
    expr *where[] = {broadcast_index(k, by->dims[0], t->r.batch, t->b),
                     broadcast_index(k, by->dims[1], t->r.rows, t->row)};
    if (!positions) return x_read(k, cache, (expr *[]){where[0], where[1], p});
    expr *place = x_checked_index(k, x_read(k, positions, where), cache->dims[0], true,
                                  "a position id is outside the cache");
    return x_read(k, cache, (expr *[]){place, p});
}

static void rotate_stage(rotation *t, buffer *cosines, buffer *sines, buffer *positions) {
    kernel *k = t->k;
    stage *s = kernel_stage(k);
    expr *p = stage_own_axis(k, s, AXIS_PARALLEL, "p", t->r.half), *two = x_i64(k, 2), *first[4], *second[4];
    bool pairs = t->r.interleaved;
    element_index(t, pairs ? x_mul(k, p, two) : p, first);
    element_index(t, pairs ? x_add(k, x_mul(k, p, two), x_i64(k, 1)) : x_add(k, p, x_dim(k, t->r.half)),
                  second);
    expr *c = read_angle(t, cosines, positions, p), *sine = read_angle(t, sines, positions, p);
    expr *x1 = x_read(k, t->x, first), *x2 = x_read(k, t->x, second);
    stage_write(k, s, t->out, first, x_sub(k, x_mul(k, c, x1), x_mul(k, sine, x2)));
    stage_write(k, s, t->out, second, x_add(k, x_mul(k, sine, x1), x_mul(k, c, x2)));
}

static void copy_stage(rotation *t) {
    kernel *k = t->k;
    dim *rotated = dim_mulk(t->r.half, 2), *rest = dim_sub(t->r.head, rotated);
    if (dim_is(rest, 0)) return;
    stage *s = kernel_stage(k);
    expr *e = stage_own_axis(k, s, AXIS_PARALLEL, "e", rest), *at[4];
    element_index(t, x_add(k, e, x_dim(k, rotated)), at);
    stage_write(k, s, t->out, at, x_read(k, t->x, at));
}

static void rotary_embedding_lower(lowering *l, node *n) {
    rotation t = {.r = rotary_of(n), .x = lower_in(l, n, 0), .out = lower_out(l, n, 0)};
    lower_check(l, n, dim_at_most(dim_mulk(t.r.half, 2), t.r.head),
                "attribute rotary_embedding_dim is larger than a head");
    t.k = lower_kernel(l, n, NULL);
    t.b = outer_axis(t.k, "b", t.r.batch);
    t.h = outer_axis(t.k, "h", t.r.heads);
    t.row = outer_axis(t.k, "s", t.r.rows);
    rotate_stage(&t, lower_in(l, n, 1), lower_in(l, n, 2), lower_in(l, n, 3));
    copy_stage(&t);
}

OPERATOR(RotaryEmbedding, .infer = rotary_embedding_infer, .lower = rotary_embedding_lower);
