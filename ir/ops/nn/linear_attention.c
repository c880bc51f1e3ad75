// LinearAttention, CausalConvWithState, SwiGLU and FlexAttention: operators of recent language models.
//
// LinearAttention is a loop of the host code over time, with the state S of each head in memory:
//   S[i, j] *= exp(decay[i]);  old[j] = sum over i of S[i, j] * k[i]          old: of delta rules only
//   S[i, j] += k[i] * beta * (v[j] - old[j]);  out[j] = scale * sum over i of q[i] * S[i, j]
#include "ir/ops/control/control.h"
#include "ir/ops/pointwise.h"
#include <math.h>

enum { IN_QUERY, IN_KEY, IN_VALUE, IN_STATE, IN_DECAY, IN_BETA };

typedef struct sizes {
    dim *batch, *length, *key, *value; // key, value: sizes per head
    int64_t q_heads, kv_heads;
    bool gated, delta;
} sizes;

static dim *head_size(const node *n, int i, int64_t heads) {
    dim *width = infer_in(n, i)->dims[2];
    infer_same_dim(n, dim_mod(width, infer_k(n, heads)), infer_k(n, 0), "width modulo heads");
    return dim_floordiv(width, infer_k(n, heads));
}

static sizes sizes_of(const node *n) {
    sizes s = {.q_heads = node_int(n, "q_num_heads", 0), .kv_heads = node_int(n, "kv_num_heads", 0)};
    int rule = node_choice(n, "update_rule", "gated_delta gated delta linear");
    s.gated = rule < 2, s.delta = rule == 0 || rule == 2;
    if (s.kv_heads < 1 || s.q_heads < 1 || s.q_heads % s.kv_heads)
        infer_error(n, "%lld query heads are not a multiple of %lld key heads", (long long)s.q_heads,
                    (long long)s.kv_heads);
    if (!node_in(n, IN_DECAY) == s.gated || !node_in(n, IN_BETA) == s.delta)
        infer_error(n, "update rule %s needs %s and %s", node_string(n, "update_rule", "gated_delta"),
                    s.gated ? "decay" : "no decay", s.delta ? "beta" : "no beta");
    for (int i = 0; i < 3; i++)
        if (infer_rank(n, i) != 3) infer_error(n, "input %d has rank %d, not 3", i, infer_rank(n, i));
    const type *q = infer_in(n, IN_QUERY), *k = infer_in(n, IN_KEY), *v = infer_in(n, IN_VALUE);
    s.batch = infer_same_dim(n, q->dims[0], k->dims[0], "batches of query and key");
    s.length = infer_same_dim(n, q->dims[1], k->dims[1], "lengths of query and key");
    infer_same_dim(n, v->dims[0], s.batch, "batches of query and value");
    infer_same_dim(n, v->dims[1], s.length, "lengths of query and value");
    s.key = infer_same_dim(n, head_size(n, IN_QUERY, s.q_heads), head_size(n, IN_KEY, s.kv_heads),
                           "head sizes of query and key");
    s.value = head_size(n, IN_VALUE, s.kv_heads);
    return s;
}

static void check_gate(const node *n, int i, const sizes *s) {
    if (!node_in(n, i)) return;
    if (infer_rank(n, i) != 3) infer_error(n, "input %d has rank %d, not 3", i, infer_rank(n, i));
    infer_same_dim(n, infer_in(n, i)->dims[0], s->batch, "batches");
    infer_same_dim(n, infer_in(n, i)->dims[1], s->length, "lengths");
}

static void linear_attention_infer(node *n) {
    sizes s = sizes_of(n);
    check_gate(n, IN_DECAY, &s);
    check_gate(n, IN_BETA, &s);
    dtype elem = infer_in(n, IN_QUERY)->elem, state = elem;
    dim *dims[] = {s.batch, infer_k(n, s.kv_heads), s.key, s.value};
    if (node_in(n, IN_STATE)) state = infer_in(n, IN_STATE)->elem;
    infer_shape(n, IN_STATE, "past_state", 4, dims, "sizes of past_state");
    infer_set(n, 0, elem, 3, (dim *[]){s.batch, s.length, dim_mulk(s.value, s.q_heads)});
    infer_set(n, 1, state, 4, dims);
}

typedef struct linear_attention {
    lowering *l;
    node *n;
    sizes s;
    dim *step;
    buffer *state, *old; // float; old is NULL without a delta rule
} linear_attention;

// x[b, step, head * width + e]
static expr *read_step(const linear_attention *a, kernel *k, int in, expr *b, expr *head, dim *width,
                       expr *e) {
    expr *at[] = {b, x_dim(k, a->step), x_add(k, x_mul(k, head, x_dim(k, width)), e)};
    return x_cast(k, x_read(k, lower_in(a->l, a->n, in), at), DT_F32, false);
}

// The stride of an axis that may be broadcast: 0 if d is 1, else 1.
static dim *stride_on(dim *d) { return dim_not(dim_eq(d, dim_const(d->table, 1))); }

// The number of decays per head: one per row of its state, or a single one.
static dim *decays(const node *n, const sizes *s) {
    return dim_floordiv(infer_in(n, IN_DECAY)->dims[2], infer_k(n, s->kv_heads));
}

// exp(decay) of row i of a head's state.
static expr *decay_of(const linear_attention *a, kernel *k, expr *b, expr *head, expr *i) {
    dim *width = decays(a->n, &a->s);
    return x_un(k, X_EXP, read_step(a, k, IN_DECAY, b, head, width, x_mul(k, i, x_dim(k, stride_on(width)))));
}

static expr *beta_of(const linear_attention *a, kernel *k, expr *b, expr *head) {
    return read_step(a, k, IN_BETA, b, head, stride_on(infer_in(a->n, IN_BETA)->dims[2]), x_i64(k, 0));
}

static void check_gates(lowering *l, const node *n, const sizes *s) {
    dim *one = infer_k(n, 1), *heads = infer_k(n, s->kv_heads);
    if (s->gated) {
        dim *width = decays(n, s), *all = infer_in(n, IN_DECAY)->dims[2];
        lower_check(l, n, dim_or(dim_eq(width, one), dim_eq(width, s->key)),
                    "the width of decay is neither the number of heads nor the width of the keys");
        lower_check(l, n, dim_eq(dim_mul(width, heads), all),
                    "the width of decay is neither the number of heads nor the width of the keys");
    }
    if (!s->delta) return;
    dim *width = infer_in(n, IN_BETA)->dims[2];
    lower_check(l, n, dim_or(dim_eq(width, one), dim_eq(width, heads)),
                "the width of beta is neither 1 nor the number of heads");
}

// The state at the beginning of the step, decayed.
static expr *read_state(const linear_attention *a, kernel *k, expr *const *at) {
    expr *v = x_read(k, a->state, at);
    return a->s.gated ? x_mul(k, v, decay_of(a, k, at[0], at[1], at[2])) : v;
}

static void read_old(const linear_attention *a) {
    kernel *k;
    expr *at[3];
    stage *s = suffixed_stage(a->l, a->n, "retrieve", a->old, &k, at);
    expr *i = stage_own_axis(k, s, AXIS_REDUCE, "i", a->s.key), *from[] = {at[0], at[1], i, at[2]};
    expr *key = read_step(a, k, IN_KEY, at[0], at[1], a->s.key, i);
    stage_write(k, s, a->old, at, stage_reduce(k, s, RED_SUM, x_mul(k, read_state(a, k, from), key)));
}

static void update(const linear_attention *a) {
    kernel *k;
    expr *at[4];
    stage *s = suffixed_stage(a->l, a->n, "update", a->state, &k, at);
    expr *key = read_step(a, k, IN_KEY, at[0], at[1], a->s.key, at[2]);
    expr *v = read_step(a, k, IN_VALUE, at[0], at[1], a->s.value, at[3]);
    if (a->old) {
        expr *old = x_read(k, a->old, (expr *[]){at[0], at[1], at[3]});
        v = x_mul(k, beta_of(a, k, at[0], at[1]), x_sub(k, v, old));
    }
    stage_write(k, s, a->state, at, x_add(k, read_state(a, k, at), x_mul(k, key, v)));
}

static expr *scale_of(const linear_attention *a, kernel *k) {
    double given = node_float(a->n, "scale", 0);
    if (given != 0) return x_float(k, DT_F32, given);
    expr *size = x_cast(k, x_dim(k, a->s.key), DT_F32, false);
    return x_div(k, x_float(k, DT_F32, 1), x_un(k, X_SQRT, size));
}

static void write_output(const linear_attention *a, buffer *out) {
    kernel *k = lower_kernel(a->l, a->n, "answer");
    stage *s = kernel_stage(k);
    dims *t = a->s.key->table;
    dim *extents[] = {a->s.batch, dim_const(t, a->s.kv_heads), dim_const(t, a->s.q_heads / a->s.kv_heads),
                      a->s.value, a->s.key};
    expr *at[5];
    for (int j = 0; j < 5; j++)
        at[j] = stage_own_axis(k, s, j == 4 ? AXIS_REDUCE : AXIS_PARALLEL, j == 4 ? "i" : "h", extents[j]);

    expr *head = x_add(k, x_mul(k, at[1], x_dim(k, extents[2])), at[2]);
    expr *q = read_step(a, k, IN_QUERY, at[0], head, a->s.key, at[4]);
    expr *state = x_read(k, a->state, (expr *[]){at[0], at[1], at[4], at[3]});
    expr *sum = x_mul(k, stage_reduce(k, s, RED_SUM, x_mul(k, q, state)), scale_of(a, k));
    expr *to[] = {at[0], x_dim(k, a->step), x_add(k, x_mul(k, head, x_dim(k, a->s.value)), at[3])};
    stage_write(k, s, out, to, x_cast(k, sum, out->dtype, true));
}

static void linear_attention_lower(lowering *l, node *n) {
    linear_attention a = {.l = l, .n = n, .s = sizes_of(n)};
    check_gates(l, n, &a.s);
    dims *t = l->program->dims;
    dim *heads = dim_const(t, a.s.kv_heads), *dims[] = {a.s.batch, heads, a.s.key, a.s.value};
    buffer *past = lower_in(l, n, IN_STATE), *out = lower_out(l, n, 0), *present = lower_out(l, n, 1);
    a.state = lower_temp(l, n, "state", DT_F32, 4, dims);
    if (a.s.delta) a.old = lower_temp(l, n, "old", DT_F32, 3, (dim *[]){a.s.batch, heads, a.s.value});
    kernel *k;
    expr *at[4];
    stage *s = suffixed_stage(l, n, "start", a.state, &k, at);
    stage_write(k, s, a.state, at,
                past ? x_cast(k, x_read(k, past, at), DT_F32, false) : x_float(k, DT_F32, 0));
    a.step = dim_opaque(t, "step", 0, INT64_MAX);
    region *outside = open_loop(l, n, a.step, a.s.length, NULL);
    if (a.old) read_old(&a);
    update(&a);
    if (out) write_output(&a, out);
    close_loop(l, outside);
    lower_convert(l, n, "finish", a.state, present);
}

OPERATOR(LinearAttention, .infer = linear_attention_infer, .lower = linear_attention_lower);

// ---------------------------------------------------------------- CausalConvWithState
// By decompositions: the distance of the kernel's taps.
static int64_t dilation_of(const node *n) { return node_int(n, "dilation", 1); }

static dim *state_length(const node *n, dim *taps) { return dim_mulk(dim_addk(taps, -1), dilation_of(n)); }

static void causal_conv_infer(node *n) {
    if (infer_rank(n, 0) != 3 || infer_rank(n, 1) != 3)
        infer_error(n, "input and weight have ranks %d and %d; they must be 3", infer_rank(n, 0),
                    infer_rank(n, 1));
    const type *x = infer_in(n, 0), *w = infer_in(n, 1);
    node_choice(n, "activation", "none silu swish");
    infer_same_dim(n, w->dims[0], x->dims[1], "channels of input and weight");
    infer_same_dim(n, w->dims[1], infer_k(n, 1), "middle size of the weight");
    dim *state[] = {x->dims[0], x->dims[1], state_length(n, w->dims[2])};
    infer_shape(n, 2, "the bias", 1, &x->dims[1], "channels of input and bias");
    infer_shape(n, 3, "past_state", 3, state, "sizes of past_state");
    infer_set(n, 0, x->elem, 3, x->dims);
    infer_set(n, 1, x->elem, 3, state);
}

// Element i of the past state (or zeros) followed by the input.
static expr *read_padded(lowering *l, const node *n, kernel *k, expr *b, expr *c, expr *i) {
    buffer *x = lower_in(l, n, 0), *past = lower_in(l, n, 3), *w = lower_in(l, n, 1);
    expr *before = x_dim(k, state_length(n, w->dims[2])), *fresh = x_bin(k, X_LE, before, i);
    expr *at[] = {b, c, x_sub(k, i, before)}, *old[] = {b, c, i};
    expr *v = x_read_guarded(k, x, at, fresh, NULL);
    return past ? x_select(k, fresh, v, x_read_guarded(k, past, old, x_lt(k, i, before), NULL)) : v;
}

// out[b, c, i] = f(bias[c] + sum over j of w[c, 0, j] * padded[b, c, i + j * dilation])
static void causal_conv_lower(lowering *l, node *n) {
    buffer *x = lower_in(l, n, 0), *w = lower_in(l, n, 1), *bias = lower_in(l, n, 2);
    buffer *out = lower_out(l, n, 0), *present = lower_out(l, n, 1);
    kernel *k;
    expr *at[3];
    if (out) {
        stage *s = pointwise_stage(l, n, out, &k, at);
        expr *j = stage_own_axis(k, s, AXIS_REDUCE, "j", w->dims[2]), *weight[] = {at[1], x_i64(k, 0), j};
        expr *place = x_add(k, at[2], x_mul(k, j, x_i64(k, dilation_of(n))));
        expr *term = x_mul(k, x_read(k, w, weight), read_padded(l, n, k, at[0], at[1], place));
        expr *v = stage_reduce(k, s, RED_SUM, term);
        if (bias) v = x_add(k, v, x_read(k, bias, &at[1]));
        if (node_choice(n, "activation", "none silu swish")) {
            v = x_cast(k, v, out->dtype, true);
            v = x_mul(k, v, x_un(k, X_SIGMOID, v));
        }
        stage_write(k, s, out, at, v);
    }
    if (!present) return;
    stage *s = suffixed_stage(l, n, "present", present, &k, at);
    expr *place = x_add(k, x_dim(k, x->dims[2]), at[2]);
    stage_write(k, s, present, at, read_padded(l, n, k, at[0], at[1], place));
}

OPERATOR(CausalConvWithState, .infer = causal_conv_infer, .lower = causal_conv_lower);

// ---------------------------------------------------------------- SwiGLU
static expr *swiglu(kernel *k, const node *n, expr *const *x) {
    expr *gate = x_un(k, X_SIGMOID, x_mul(k, x_attr(k, n, "alpha", 1, x[0]->dtype), x[0]));
    return x_mul(k, x_mul(k, x[0], gate), x[1]);
}

static void infer_swiglu(node *n) {
    int rank = infer_rank(n, 0);
    if (infer_rank(n, 1) != rank) infer_error(n, "A and B have ranks %d and %d", rank, infer_rank(n, 1));
    for (int j = 0; j < rank; j++)
        infer_same_dim(n, infer_in(n, 0)->dims[j], infer_in(n, 1)->dims[j], "sizes of A and B");
    infer_like_first(n);
}
POINTWISE(SwiGLU, infer_swiglu, NULL, swiglu(k, n, x), );

// ---------------------------------------------------------------- FlexAttention
static void flex_infer(node *n) {
    for (int i = 0; i < 3; i++)
        if (infer_rank(n, i) != 4) infer_error(n, "input %d has rank %d, not 4", i, infer_rank(n, i));
    const type *q = infer_in(n, 0), *k = infer_in(n, 1), *v = infer_in(n, 2);
    infer_same_dim(n, q->dims[0], k->dims[0], "batches of Q and K");
    infer_same_dim(n, q->dims[0], v->dims[0], "batches of Q and V");
    infer_same_dim(n, k->dims[1], v->dims[1], "heads of K and V");
    infer_same_dim(n, k->dims[2], v->dims[2], "lengths of K and V");
    infer_same_dim(n, q->dims[3], k->dims[3], "head sizes of Q and K");
    infer_same_dim(n, dim_mod(q->dims[1], dim_max(k->dims[1], infer_k(n, 1))), infer_k(n, 0),
                   "query heads modulo key heads");
    infer_set(n, 0, q->elem, 4, (dim *[]){q->dims[0], q->dims[1], q->dims[2], v->dims[3]});
}

static value *unary(node *n, const char *op, value *a) { return inferred(NODE(n, op, a)); }
static value *binary(node *n, const char *op, value *a, value *b) { return inferred(NODE(n, op, a, b)); }
static value *cast(node *n, value *a, dtype t) { return inferred(with_int(NODE(n, "Cast", a), "to", t)); }

// Inlines a region before n, with `in` for its input; returns its output.
static value *inline_region(node *n, const char *attribute, value *in) {
    graph *g = node_graph(n, attribute);
    if (!g) return in;
    if (g->inputs.n != 1 || g->outputs.n != 1)
        infer_error(n, "%s has %d inputs and %d outputs; it must have one of each", attribute, g->inputs.n,
                    g->outputs.n);
    value_replace(g->inputs.at[0], in);
    node *first = g->nodes.n ? g->nodes.at[0] : n;
    graph_inline(g, n->graph, n);
    for (node *made = first; made != n; made = node_next(made)) infer_node(made);
    return g->outputs.at[0];
}

// Repeats the heads of keys or values for the query heads of their group.
static value *repeat_heads(node *n, value *v) {
    dim *own = v->type.dims[1], *heads = n->in[0]->type.dims[1];
    if (dim_equal(own, heads) == TRI_YES) return v;
    value *q_shape = unary(n, "Shape", n->in[0]), *shape = unary(n, "Shape", v);
    value *part[4];
    for (int j = 0; j < 4; j++) part[j] = binary(n, "Gather", shape, insert_ints(n, (int64_t[]){j}, 1));
    value *wanted = binary(n, "Gather", q_shape, insert_ints(n, (int64_t[]){1}, 1));
    value *group = binary(n, "Div", wanted, part[1]);
    value *wide = inferred(with_int(NODE(n, "Concat", part[0], part[1], group, part[2], part[3]), "axis", 0));
    value *flat = inferred(with_int(NODE(n, "Concat", part[0], wanted, part[2], part[3]), "axis", 0));
    value *apart = binary(n, "Unsqueeze", v, insert_ints(n, (int64_t[]){2}, 1));
    return binary(n, "Reshape", binary(n, "Expand", apart, wide), flat);
}

// The attribute, or 1 / sqrt(head size), in type t.
static value *flex_scale(node *n, dtype t) {
    if (node_attr(n, "scale")) return insert_scalar(n, t, node_float(n, "scale", 1));
    dim *size = n->in[0]->type.dims[3];
    if (dim_is_const(size)) return insert_scalar(n, t, 1 / sqrt((double)dim_value(size)));
    value *shape = unary(n, "Shape", n->in[0]);
    value *length = cast(n, binary(n, "Gather", shape, value_int64(n->graph, 3)), t);
    return unary(n, "Reciprocal", unary(n, "Sqrt", length));
}

static void flex_expand(node *n) {
    dtype own = n->in[0]->type.elem, t = own == DT_F64 ? DT_F64 : DT_F32;
    if (node_attr(n, "softmax_precision")) t = dtype_from_onnx((int)node_int(n, "softmax_precision", 1));
    if (!dtype_is_float(t)) infer_error(n, "attribute softmax_precision is not a floating-point type");
    value *keys = repeat_heads(n, n->in[1]), *values = repeat_heads(n, n->in[2]);
    value *keys_t = inferred(transposed(n, keys, 4, (const int64_t[]){0, 1, 3, 2})), *q = n->in[0];
    if (own != t) {
        q = cast(n, q, t);
        keys_t = cast(n, keys_t, t);
        values = cast(n, values, t);
    }
    value *scores = binary(n, "Mul", binary(n, "MatMul", q, keys_t), flex_scale(n, t));
    scores = inline_region(n, "score_mod", scores);
    value *weights = inferred(with_int(NODE(n, "Softmax", scores), "axis", -1));
    weights = inline_region(n, "prob_mod", weights);
    value *y = binary(n, "MatMul", weights, values);
    if (own != t) y = cast(n, y, own);
    replace_output(n, 0, y);
}

OPERATOR_OF("ai.onnx.preview", FlexAttention, .infer = flex_infer, .expand = flex_expand);
