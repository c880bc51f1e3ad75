// LinearAttention, LinearAttentionGate and CausalConvWithState of com.microsoft, as those of the standard.
//
// Both operators with a state may keep that of each of the last W positions: slot j is the state after position
// T - W + j, and zero where there is no such position.
#include "ir/ops/contrib/attention.h"

static int64_t window_of(const node *n) {
    int64_t window = node_int(n, "state_window", 0);
    if (window < 0 || window > 8)
        infer_error(n, "attribute state_window is %lld; it must be in 0 to 8", (long long)window);
    return window;
}

// The state to begin with: the last slot of a windowed one.
static value *past_state(node *n, int in, int rank) {
    value *past = node_in(n, in);
    if (!past) return NULL;
    int64_t window = window_of(n);
    if (infer_rank(n, in) != rank + (window > 0))
        infer_error(n, "past_state has rank %d, not %d", infer_rank(n, in), rank + (window > 0));
    if (!window) return past;
    return with_int(NODE(n, "Gather", past, insert_scalar(n, DT_I64, -1)), "axis", 0);
}

// 0 .. length as int64[1]: position length - window + slot, limited to those.
static value *limited(node *n, value *length, int64_t back) {
    return NODE(n, "Max", NODE(n, "Sub", length, one_int(n, back)), one_int(n, 0));
}

// A slot of the present state, zero where position length - back is before the first one.
static value *slot_of(node *n, value *state, value *length, int64_t back) {
    value *there = NODE(n, "GreaterOrEqual", length, one_int(n, back));
    value *kept = NODE(n, "Where", there, state, NODE(n, "CastLike", insert_scalar(n, DT_F32, 0), state));
    return NODE(n, "Unsqueeze", kept, one_int(n, 0));
}

static void give_joined(node *n, int out, value *const *parts, int count, int64_t axis) {
    give_output(n, out, with_int(insert_node(n, "Concat", (size_t)count, parts), "axis", axis));
}

// ---- LinearAttention

enum { IN_QUERY, IN_KEY, IN_VALUE, IN_STATE, IN_DECAY, IN_BETA, INPUTS };

// The heads of x repeated to `heads` heads, in proportion. size: of a head, int64[1]
static value *repeated(node *n, value *x, value *size, int64_t heads) {
    value *own = NODE(n, "Div", axis_size(n, x, 2), size), *all = one_int(n, heads);
    value *index = NODE(n, "Div", NODE(n, "Mul", numbers_to(n, all), own), all);
    value *shape = with_int(NODE(n, "Concat", insert_ints(n, (int64_t[]){0, 0}, 2), own, size), "axis", 0);
    value *apart = with_int(NODE(n, "Gather", NODE(n, "Reshape", x, shape), index), "axis", 2);
    shape = with_int(NODE(n, "Concat", insert_ints(n, (int64_t[]){0, 0}, 2), NODE(n, "Mul", size, all)),
                     "axis", 0);
    return NODE(n, "Reshape", apart, shape);
}

// Brings queries and keys to as many heads as there are of results and of values.
static void repeat_heads(node *n, value **in, int64_t heads, int64_t kv_heads) {
    dim *q = infer_in(n, IN_QUERY)->dims[2], *k = infer_in(n, IN_KEY)->dims[2];
    value *size = NODE(n, "Div", axis_size(n, in[IN_QUERY], 2), one_int(n, heads));
    if (dim_equal(dim_mulk(q, kv_heads), dim_mulk(k, heads)) != TRI_YES)
        in[IN_KEY] = repeated(n, in[IN_KEY], size, kv_heads);
    if (heads < kv_heads) in[IN_QUERY] = repeated(n, in[IN_QUERY], size, kv_heads);
}

// Its output; *state: the state before and after.
static value *linear_attention(node *n, value *const *in, value **state, int64_t heads, int64_t kv_heads) {
    value *y =
        NODE(n, "LinearAttention", in[IN_QUERY], in[IN_KEY], in[IN_VALUE], *state, in[IN_DECAY], in[IN_BETA]);
    with_int(with_int(y, "q_num_heads", heads), "kv_num_heads", kv_heads);
    with_attr_of(with_attr_of(y, n, "update_rule"), n, "scale");
    *state = output_of(y, 1);
    return y;
}

// The positions before the last W at once, then one after the other.
static void attend_by_slots(node *n, value *const *in, value *state, int64_t heads, int64_t kv_heads) {
    int64_t window = window_of(n);
    value *length = axis_size(n, in[IN_QUERY], 1), *outputs[9], *slots[8], *part[INPUTS] = {0};
    for (int64_t back = window + 1; back >= 1; back--) {
        int j = (int)(window + 1 - back);
        value *from = j ? limited(n, length, back) : one_int(n, 0), *to = limited(n, length, back - 1);
        for (int i = 0; i < INPUTS; i++)
            if (in[i]) part[i] = NODE(n, "Slice", in[i], from, to, one_int(n, 1));
        outputs[j] = linear_attention(n, part, &state, heads, kv_heads);
        if (j) slots[j - 1] = slot_of(n, state, length, back);
    }
    give_joined(n, 1, slots, (int)window, 0);
    give_joined(n, 0, outputs, (int)window + 1, 1);
}

static void linear_attention_decompose(node *n) {
    int64_t heads = node_int(n, "q_num_heads", 0), kv_heads = node_int(n, "kv_num_heads", 0);
    value *in[INPUTS], *state = past_state(n, IN_STATE, 4);
    for (int i = 0; i < INPUTS; i++) in[i] = node_in(n, i);
    if (heads < 1 || kv_heads < 1)
        infer_error(n, "%lld query heads and %lld key heads; both must be positive", (long long)heads,
                    (long long)kv_heads);
    if (infer_rank(n, IN_QUERY) != 3 || infer_rank(n, IN_KEY) != 3)
        infer_error(n, "query and key have ranks %d and %d, not 3", infer_rank(n, IN_QUERY),
                    infer_rank(n, IN_KEY));
    in[IN_STATE] = NULL;
    repeat_heads(n, in, heads, kv_heads);
    int64_t wide = heads < kv_heads ? kv_heads : heads;
    if (window_of(n)) {
        attend_by_slots(n, in, state, wide, kv_heads);
        return;
    }
    value *y = linear_attention(n, in, &state, wide, kv_heads);
    give_output(n, 1, state);
    give_output(n, 0, y);
}

// ---- LinearAttentionGate: decay = decay_scale * softplus(a + dt_bias), beta = sigmoid(b), in float

static void linear_attention_gate_decompose(node *n) {
    dtype t = infer_in(n, 0)->elem;
    value *sum = NODE(n, "Add", cast_to(n, n->in[0], DT_F32), n->in[1]);
    if (node_out(n, 1)) {
        if (!node_in(n, 3)) infer_error(n, "beta needs input b");
        give_output(n, 1, cast_to(n, NODE(n, "Sigmoid", cast_to(n, n->in[3], DT_F32)), t));
    }
    give_output(n, 0, cast_to(n, NODE(n, "Mul", n->in[2], NODE(n, "Softplus", sum)), t));
}

// ---- CausalConvWithState

enum { IN_X, IN_WEIGHT, IN_BIAS, IN_PAST };

// [batch, position, channels ...] as [batch, channel, position], and back in the form of `like`.
static value *channels_first(node *n, value *x) {
    return transposed(n, reshaped(n, x, 3, (int64_t[]){0, 0, -1}), 3, (int64_t[]){0, 2, 1});
}
static value *channels_last(node *n, value *x) {
    value *sizes = with_int(NODE(n, "Shape", n->in[IN_X]), "start", 2);
    value *shape = with_int(NODE(n, "Concat", insert_ints(n, (int64_t[]){0, 0}, 2), sizes), "axis", 0);
    return NODE(n, "Reshape", transposed(n, x, 3, (int64_t[]){0, 2, 1}), shape);
}

typedef struct convolution {
    node *n;
    bool last;               // channels
    value *x, *past, *state; // [batch, channel, position]; state: after the last position
} convolution;

// Slot by slot: as much as state_length of past and x, up to after position length - back.
static void give_states(convolution *c) {
    node *n = c->n;
    int64_t window = window_of(n);
    value *length = axis_size(n, c->x, 2), *size = axis_size(n, c->state, 2), *slots[8], *all = c->x;
    if (!window) {
        give_output(n, 1, c->last ? channels_last(n, c->state) : c->state);
        return;
    }
    all = c->past ? with_int(NODE(n, "Concat", c->past, c->x), "axis", 2) : NULL;
    if (!all) {
        value *zeros = with_int(NODE(n, "Concat", insert_ints(n, (int64_t[]){0, 0}, 2), size), "axis", 0);
        zeros = with_int(NODE(n, "Concat", zeros, insert_ints(n, (int64_t[]){0, 0, 0}, 3)), "axis", 0);
        all = NODE(n, "Pad", c->x, zeros);
    }
    for (int64_t j = 0; j < window; j++) {
        value *from = limited(n, length, window - j - 1), *to = NODE(n, "Add", from, size);
        value *part = NODE(n, "Slice", all, from, to, one_int(n, 2));
        slots[j] = slot_of(n, c->last ? channels_last(n, part) : part, length, window - j);
    }
    give_joined(n, 1, slots, (int)window, 0);
}

// What only GPUs of ONNX Runtime compute: parts of the channels, states of other lengths and layouts, captured rows.
static void refuse_extensions(const node *n) {
    static const struct {
        const char *name;
        int64_t usual;
    } extensions[] = {{"input_channel_offset", 0},
                      {"input_channels", 0},
                      {"state_channels_last", -1},
                      {"state_length", 0},
                      {"state_update_capacity", 0}};
    for (size_t i = 0; i < sizeof extensions / sizeof *extensions; i++) {
        int64_t is = node_int(n, extensions[i].name, extensions[i].usual);
        if (is != extensions[i].usual)
            infer_lacks(n, "attribute %s is %lld; only %lld is supported", extensions[i].name, (long long)is,
                        (long long)extensions[i].usual);
    }
    if (node_out(n, 2)) infer_lacks(n, "the output state_update is not supported");
}

static void causal_conv_decompose(node *n) {
    refuse_extensions(n);
    convolution c = {.n = n, .x = n->in[IN_X], .last = node_int(n, "channels_last", 0) == 1};
    int rank = infer_rank(n, IN_X);
    int64_t dilation = node_int(n, "dilation", 1);
    if (node_int(n, "ndim", 1) != 1)
        infer_lacks(n,
                    "attribute ndim is %lld; only 1 is supported: the operator does not define the padding "
                    "of other axes",
                    (long long)node_int(n, "ndim", 1));
    if (dilation < 1) infer_error(n, "attribute dilation is %lld; it must be positive", (long long)dilation);
    c.past = past_state(n, IN_PAST, rank);
    if (c.last) c.x = channels_first(n, c.x), c.past = c.past ? channels_first(n, c.past) : NULL;
    value *y = NODE(n, "CausalConvWithState", c.x, n->in[IN_WEIGHT], node_in(n, IN_BIAS), c.past);
    c.state = output_of(y, 1);
    with_int(with_attr_of(y, n, "activation"), "dilation", dilation);
    give_states(&c);
    give_output(n, 0, c.last ? channels_last(n, y) : y);
}

MICROSOFT_OP(LinearAttention, linear_attention_decompose);
MICROSOFT_OP(LinearAttentionGate, linear_attention_gate_decompose);
MICROSOFT_OP(CausalConvWithState, causal_conv_decompose);
