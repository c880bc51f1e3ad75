// GatedDeltaNet of com.microsoft, a linear attention of tokens in one row, as the standard's LinearAttention.
//
// The tokens have one axis, [tokens], or two, [batch, row]. With one, the cumulative lengths say where each sequence
// begins; without them all are as long as each other, and the state says how many there are. Sequences of different
// lengths get zeros at their ends: such a token leaves the state as it is, with any update rule. Each head is a
// sequence of its own for LinearAttention, whose numbers of heads are attributes.
#include "ir/ops/contrib/varlen.h"
#include <string.h>

enum { QUERY, KEY, VALUE, BOUNDS, DECAY, BETA, STATE, A_LOG, BIAS, CAPTURED, ACTIVE };

typedef struct delta_net {
    node *n;
    int axes;                   // of tokens
    value *tokens;              // int64[axes]: their sizes
    value *qk_heads, *heads;    // int64[1]
    value *size;                // int64[1]: of a value
    value *query, *key, *value; // float, tokens x heads x size
    value *decay, *beta;        // float, tokens x heads (x size of a key)
    value *past;                // float, batch x heads x size of a value x size of a key
    bool is_wide;               // a decay for each element of a key
    bool ragged;
    sequences s; // if ragged
} delta_net;

static value *float_at(node *n, int i) { return node_in(n, i) ? cast_to(n, n->in[i], DT_F32) : NULL; }

// ---- What stands in the inputs

static void check_multiple(node *n, dim *a, const char *a_text, dim *b, const char *b_text) {
    dim *one = infer_k(n, 1);
    if (dim_equal(dim_mod(a, dim_max(b, one)), infer_k(n, 0)) == TRI_NO && dim_is_const(a) && dim_is_const(b))
        infer_error(n, "%lld %s are not a multiple of %lld %s", (long long)dim_value(a), a_text,
                    (long long)dim_value(b), b_text);
    infer_same_dim(n, dim_mod(a, dim_max(b, one)), infer_k(n, 0),
                   arena_printf(infer_arena(n), "%s modulo %s", a_text, b_text));
}

static value *of_heads(const delta_net *d, value *x, value *heads, value *size) {
    return NODE(d->n, "Reshape", x, JOINED(d->n, d->tokens, heads, size));
}

// Queries, keys and values of one tensor, one after another.
static void split_packed(delta_net *d) {
    node *n = d->n;
    dim *const *state = infer_in(n, STATE)->dims, *width = infer_in(n, QUERY)->dims[d->axes];
    dim *both = dim_sub(width, dim_mul(state[1], state[2]));
    check_multiple(n, both, "elements of queries and keys", dim_mulk(state[3], 2), "elements of two heads");
    value *wide = cast_to(n, n->in[QUERY], DT_F32), *part[3], *key = axis_size(n, n->in[STATE], 3);
    d->heads = axis_size(n, n->in[STATE], 1), d->size = axis_size(n, n->in[STATE], 2);
    value *values = NODE(n, "Mul", d->size, d->heads);
    value *rest = NODE(n, "Sub", shape_part(n, wide, d->axes, d->axes + 1), values);
    value *keys = NODE(n, "Div", rest, one_int(n, 2));
    d->qk_heads = NODE(n, "Div", keys, key);
    split_parts(n, wide, d->axes, JOINED(n, keys, keys, values), 3, part);
    d->query = of_heads(d, part[0], d->qk_heads, key);
    d->key = of_heads(d, part[1], d->qk_heads, key);
    d->value = of_heads(d, part[2], d->heads, d->size);
}

static void read_apart(delta_net *d) {
    node *n = d->n;
    int at = d->axes;
    dim *heads = infer_in(n, QUERY)->dims[at];
    infer_same_dim(n, infer_in(n, KEY)->dims[at], heads, "heads of query and key");
    check_multiple(n, infer_in(n, VALUE)->dims[at], "heads of values", heads, "heads of queries");
    d->qk_heads = axis_size(n, n->in[QUERY], at), d->heads = axis_size(n, n->in[VALUE], at);
    d->size = axis_size(n, n->in[VALUE], at + 1);
    d->query = float_at(n, QUERY), d->key = float_at(n, KEY), d->value = float_at(n, VALUE);
}

static void check_ranks(const delta_net *d) {
    node *n = d->n;
    for (int i = KEY; i <= VALUE; i++)
        if (node_in(n, i) && infer_rank(n, i) != d->axes + 2)
            infer_error(n, "input %d has rank %d, but query has rank %d", i, infer_rank(n, i), d->axes + 2);
    if (node_in(n, STATE) && infer_rank(n, STATE) != 4)
        infer_error(n, "initial_state has rank %d, not 4", infer_rank(n, STATE));
}

static void read_inputs(delta_net *d) {
    node *n = d->n;
    bool packed = !node_in(n, KEY);
    d->axes = infer_rank(n, QUERY) - (packed ? 1 : 2);
    d->ragged = node_in(n, BOUNDS);
    if (packed != !node_in(n, VALUE)) infer_error(n, "key and value must both be given, or both be left out");
    if (d->axes < 1 || d->axes > (d->ragged ? 1 : 2))
        infer_error(n, "query has rank %d; it must have rank %d%s", infer_rank(n, QUERY), packed ? 2 : 3,
                    d->ragged ? "" : " or one more");
    if (!node_in(n, STATE) && (packed || (d->axes == 1 && !d->ragged)))
        infer_error(n, "initial_state is missing, which says %s",
                    packed ? "how the packed query is divided" : "how many sequences there are");
    check_ranks(d);
    d->tokens = shape_part(n, n->in[QUERY], 0, d->axes);
    d->past = float_at(n, STATE);
    if (packed) split_packed(d);
    else read_apart(d);
}

// ---- Gates

static bool softplus_gate(const char *name) {
    return strcmp(name, "softplus") == 0 || strcmp(name, "qwen") == 0;
}
static bool sigmoid_gate(const char *name) {
    return strcmp(name, "sigmoid") == 0 || strcmp(name, "kda") == 0;
}

// One number for each head, or, for wide decays, as many as a key has elements.
static value *per_head(const delta_net *d, int i) {
    node *n = d->n;
    value *v = float_at(n, i);
    return d->is_wide ? NODE(n, "Reshape", v, JOINED(n, d->heads, one_int(n, -1))) : v;
}

//   softplus: -exp(a_log) * softplus(decay + bias)        sigmoid: bound * sigmoid(exp(a_log) * (decay + bias))
static value *decay_of(const delta_net *d) {
    node *n = d->n;
    const char *name = node_string(n, "gate_activation", "none");
    value *raw = float_at(n, DECAY);
    if (strcmp(name, "none") == 0) {
        if (node_in(n, A_LOG) || node_in(n, BIAS))
            infer_error(n, "a_log and dt_bias need a gate_activation; it is 'none'");
        return raw;
    }
    if (!softplus_gate(name) && !sigmoid_gate(name))
        infer_error(n, "attribute gate_activation is '%s'; it must be none, softplus (qwen) or sigmoid (kda)",
                    name);
    if (!node_in(n, A_LOG) || !node_in(n, BIAS))
        infer_error(n, "gate_activation '%s' needs a_log and dt_bias", name);
    value *factor = NODE(n, "Exp", per_head(d, A_LOG)), *sum = NODE(n, "Add", raw, per_head(d, BIAS));
    if (softplus_gate(name)) return NODE(n, "Neg", NODE(n, "Mul", factor, NODE(n, "Softplus", sum)));
    value *bound = insert_scalar(n, DT_F32, node_float(n, "gate_lower_bound", -5));
    return NODE(n, "Mul", bound, NODE(n, "Sigmoid", NODE(n, "Mul", factor, sum)));
}

static value *beta_of(node *n) {
    const char *name = node_string(n, "beta_activation", "none");
    value *beta = float_at(n, BETA);
    if (strcmp(name, "none") == 0) return beta;
    if (strcmp(name, "sigmoid") != 0)
        infer_error(n, "attribute beta_activation is '%s'; it must be none or sigmoid", name);
    return NODE(n, "Sigmoid", beta);
}

static void find_gates(delta_net *d) {
    node *n = d->n;
    int rule = node_choice(n, "update_rule", "gated_delta gated delta linear");
    bool gated = rule < 2, delta = rule == 0 || rule == 2;
    if (!node_in(n, DECAY) == gated || !node_in(n, BETA) == delta)
        infer_error(n, "update rule %s needs %s and %s", node_string(n, "update_rule", "gated_delta"),
                    gated ? "decay" : "no decay", delta ? "beta" : "no beta");
    if (gated) {
        int rank = infer_rank(n, DECAY);
        if (rank != d->axes + 1 && rank != d->axes + 2)
            infer_error(n, "decay has rank %d; it must have rank %d or %d", rank, d->axes + 1, d->axes + 2);
        d->is_wide = rank == d->axes + 2;
        d->decay = decay_of(d);
    }
    if (delta) d->beta = beta_of(n);
}

// x / sqrt(sum of x * x + 1e-12)
static value *unit(node *n, value *x) {
    value *sum = reduced(n, "ReduceSum", NODE(n, "Mul", x, x), -1);
    return NODE(n, "Div", x, NODE(n, "Sqrt", NODE(n, "Add", sum, insert_scalar(n, DT_F32, 1e-12))));
}

// ---- Sequences

// [batch, row, ...] of an input with one axis of tokens that has `rank` axes.
static value *in_rows(const delta_net *d, value *x, int rank) {
    node *n = d->n;
    if (d->axes == 2) return x;
    if (!d->ragged) {
        value *sizes =
            JOINED(n, axis_size(n, n->in[STATE], 0), one_int(n, -1), shape_part(n, x, 1, INT64_MAX));
        return NODE(n, "Reshape", x, sizes);
    }
    value *row = numbers_to(n, reduced(n, "ReduceMax", d->s.lengths, 0)), *zero = int64_scalar(n, 0);
    value *last = NODE(n, "Sub", NODE(n, "Squeeze", d->tokens), int64_scalar(n, 1));
    value *at = NODE(n, "Add", as_column(n, d->s.starts), row);
    value *own = NODE(n, "Gather", x, NODE(n, "Max", NODE(n, "Min", at, last), zero));
    int64_t inner[MAX_RANK];
    for (int i = 0; i < rank - 1; i++) inner[i] = i + 2;
    value *is_own = NODE(n, "Less", row, as_column(n, d->s.lengths));
    if (rank > 1) is_own = NODE(n, "Unsqueeze", is_own, insert_ints(n, inner, rank - 1));
    return NODE(n, "Where", is_own, own, insert_scalar(n, DT_F32, 0));
}

// The same, from [batch, row, heads, size].
static value *in_tokens(const delta_net *d, value *y) {
    node *n = d->n;
    if (d->ragged) {
        value *from = NODE(n, "Concat", as_column(n, d->s.owner), as_column(n, d->s.place));
        y = NODE(n, "GatherND", y, with_int(from, "axis", 1));
    }
    return of_heads(d, y, d->heads, d->size);
}

static void divide(delta_net *d) {
    int vector = d->axes + 2;
    if (d->ragged) d->s = sequences_at(d->n, d->query, BOUNDS, 0);
    if (node_int(d->n, "qk_l2_norm", 0)) d->query = unit(d->n, d->query), d->key = unit(d->n, d->key);
    d->query = in_rows(d, d->query, vector);
    d->key = in_rows(d, d->key, vector);
    d->value = in_rows(d, d->value, vector);
    if (d->decay) d->decay = in_rows(d, d->decay, vector - !d->is_wide);
    if (d->beta) d->beta = in_rows(d, d->beta, vector - 1);
}

// ---- The recurrence

// [batch, row, heads of queries, size]: each head as often as heads of values read it.
static value *repeated(const delta_net *d, value *x) {
    node *n = d->n;
    value *own = NODE(n, "Mul", numbers_to(n, d->heads), d->qk_heads);
    return with_int(NODE(n, "Gather", x, NODE(n, "Div", own, d->heads)), "axis", 2);
}

// [batch, row, heads, size] as [batch * heads, row, size]
static value *heads_in_batch(const delta_net *d, value *x) {
    node *n = d->n;
    value *size = axis_size(n, x, 3), *rows = axis_size(n, x, 1);
    value *batch = NODE(n, "Mul", axis_size(n, x, 0), d->heads);
    return NODE(n, "Reshape", transposed(n, x, 4, (int64_t[]){0, 2, 1, 3}), JOINED(n, batch, rows, size));
}

// Back again
static value *heads_apart_from_batch(const delta_net *d, value *y) {
    node *n = d->n;
    value *sizes = JOINED(n, one_int(n, -1), d->heads, shape_part(n, y, 1, 3));
    return transposed(n, NODE(n, "Reshape", y, sizes), 4, (int64_t[]){0, 2, 1, 3});
}

static value *state_in_batch(const delta_net *d) {
    node *n = d->n;
    if (!d->past) return NULL;
    value *state = transposed(n, d->past, 4, (int64_t[]){0, 1, 3, 2});
    value *batch = NODE(n, "Mul", axis_size(n, state, 0), d->heads);
    return NODE(n, "Reshape", state, JOINED(n, batch, one_int(n, 1), shape_part(n, state, 2, 4)));
}

static void give_state(const delta_net *d, value *state) {
    node *n = d->n;
    value *sizes = JOINED(n, axis_size(n, d->key, 0), d->heads, shape_part(n, state, 2, 4));
    give_output(n, 1, transposed(n, NODE(n, "Reshape", state, sizes), 4, (int64_t[]){0, 1, 3, 2}));
}

static void attend(const delta_net *d) {
    node *n = d->n;
    value *decay = d->decay && !d->is_wide ? as_column(n, d->decay) : d->decay;
    value *y = NODE(n, "LinearAttention", heads_in_batch(d, repeated(d, d->query)),
                    heads_in_batch(d, repeated(d, d->key)), heads_in_batch(d, d->value), state_in_batch(d),
                    decay ? heads_in_batch(d, decay) : NULL,
                    d->beta ? heads_in_batch(d, as_column(n, d->beta)) : NULL);
    with_int(with_int(y, "q_num_heads", 1), "kv_num_heads", 1);
    with_attr_of(with_attr_of(y, n, "update_rule"), n, "scale");
    if (node_out(n, 1)) give_state(d, output_of(y, 1));
    give_output(n, 0, cast_to(n, in_tokens(d, heads_apart_from_batch(d, y)), infer_in(n, QUERY)->elem));
}

// ---- Compact updates: for each of the first tokens of a sequence what it does to the state,
// S = decay * S + key * delta, first the decays of all, then their keys, then their deltas

static value *token_at(node *n, value *x, int64_t t) {
    return NODE(n, "Gather", x, int64_scalar(n, t)); // after the axes of batch and row changed places
}

static value *rows_first(const delta_net *d, value *x, int rank, int64_t room) {
    node *n = d->n;
    int64_t order[MAX_RANK] = {1, 0}, pads[2 * MAX_RANK] = {0};
    for (int i = 2; i < rank; i++) order[i] = i;
    pads[rank] = room;
    x = transposed(n, x, rank, order);
    return NODE(n, "Pad", x, insert_ints(n, pads, 2 * rank));
}

// How many tokens of each sequence are captured: int64[batch].
static value *captured_counts(const delta_net *d) {
    node *n = d->n;
    value *length = d->ragged ? d->s.lengths : axis_size(n, d->key, 1);
    return NODE(n, "Min", cast_to(n, n->in[CAPTURED], DT_I64), length);
}

// Of [token, batch, ...], one row for each sequence, with zeros for tokens that are not captured.
static value *as_rows(const delta_net *d, value **token, value *counts, int64_t room) {
    node *n = d->n;
    for (int64_t t = 0; t < room; t++) {
        value *used = as_column(n, NODE(n, "Greater", counts, int64_scalar(n, t)));
        value *flat = reshaped(n, token[t], 2, (int64_t[]){0, -1});
        token[t] = NODE(n, "Where", used, flat, insert_scalar(n, DT_F32, 0));
    }
    return with_int(insert_node(n, "Concat", (size_t)room, token), "axis", 1);
}

// The state before each token, batch x heads x size of a value x size of a key
static value *first_state(const delta_net *d) {
    node *n = d->n;
    if (d->past) return d->past;
    value *sizes = JOINED(n, shape_part(n, d->key, 0, 1), d->heads, d->size, axis_size(n, d->key, 3));
    return NODE(n, "Expand", insert_scalar(n, DT_F32, 0), sizes);
}

static value *unsqueezed(node *n, value *v, int64_t axis) {
    return NODE(n, "Unsqueeze", v, one_int(n, axis));
}

typedef struct updates {
    value *decay[8], *key[8], *delta[8];
} updates;

static void find_updates(const delta_net *d, int64_t room, updates *u) {
    node *n = d->n;
    value *keys = rows_first(d, d->key, 4, room), *values = rows_first(d, d->value, 4, room);
    value *wide = rows_first(d, repeated(d, d->key), 4, room), *state = first_state(d), *one = NULL;
    value *decays = d->decay ? rows_first(d, NODE(n, "Exp", d->decay), d->is_wide ? 4 : 3, room) : NULL;
    value *betas = d->beta ? rows_first(d, d->beta, 3, room) : NULL;
    if (!decays)
        one =
            NODE(n, "Expand", insert_scalar(n, DT_F32, 1), JOINED(n, shape_part(n, d->key, 0, 1), d->heads));
    for (int64_t t = 0; t < room; t++) {
        value *key = unsqueezed(n, token_at(n, wide, t), 2); // batch x heads x 1 x size
        u->key[t] = token_at(n, keys, t);
        u->delta[t] = token_at(n, values, t);
        u->decay[t] = decays ? token_at(n, decays, t) : one;
        if (decays) {
            value *factor = unsqueezed(n, u->decay[t], 2);
            state = NODE(n, "Mul", state, d->is_wide ? factor : unsqueezed(n, factor, 3));
        }
        if (betas) {
            value *old =
                NODE(n, "Squeeze", reduced(n, "ReduceSum", NODE(n, "Mul", state, key), -1), one_int(n, -1));
            value *rest = NODE(n, "Sub", u->delta[t], old);
            u->delta[t] = NODE(n, "Mul", as_column(n, token_at(n, betas, t)), rest);
        }
        state = NODE(n, "Add", state, NODE(n, "Mul", as_column(n, u->delta[t]), key));
    }
}

static value *captured_updates(const delta_net *d, int64_t room) {
    node *n = d->n;
    updates u;
    find_updates(d, room, &u);
    value *counts = captured_counts(d), *decays = as_rows(d, u.decay, counts, room);
    value *keys = as_rows(d, u.key, counts, room), *deltas = as_rows(d, u.delta, counts, room);
    value *all = with_int(NODE(n, "Concat", decays, keys, deltas), "axis", 1);
    if (!node_in(n, ACTIVE)) return all;
    value *active = NODE(n, "Not", NODE(n, "Equal", n->in[ACTIVE], insert_scalar(n, DT_I32, 0)));
    return NODE(n, "Where", active, all, insert_scalar(n, DT_F32, 0));
}

static void gated_delta_net(node *n) {
    delta_net d = {.n = n};
    int64_t room = node_int(n, "state_update_capacity", 0);
    if (room < 0 || room > 8 || (room > 0) != (node_in(n, CAPTURED) != NULL))
        infer_error(
            n,
            "attribute state_update_capacity is %lld and capture_count is %s; the capacity is at most 8, "
            "and needs the counts if it is positive",
            (long long)room, node_in(n, CAPTURED) ? "given" : "missing");
    read_inputs(&d);
    find_gates(&d);
    divide(&d);
    if (node_out(n, 2)) {
        if (!room) infer_error(n, "the output state_update needs a positive state_update_capacity");
        give_output(n, 2, captured_updates(&d, room));
    }
    attend(&d);
}
MICROSOFT_OP(GatedDeltaNet, gated_delta_net);
