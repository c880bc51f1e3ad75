// AttnLSTM: an LSTM whose input has the result of an attention to a memory appended, of the step before (Bahdanau et al.,
// Neural Machine Translation by Jointly Learning to Align and Translate, 2015). For each direction a Scan over time, whose
// body is
//
//   h, c = LSTM(concat(x[t], a), h, c)                      one step
//   p = Softmax(sum over the last axis of v * Tanh(keys + h * QW)),  keys = memory * MW
//   a = p * memory, or concat(h, p * memory) * AW
#include "ir/ops/decompose.h"
#include <math.h>
#include <string.h>

enum { X, W, R, B, LENGTHS, H, C, P, QW, MW, V, MEMORY, MEMORY_LENGTHS, AW };

typedef struct wrapper {
    node *n;
    int direction, directions;
    bool reverse;
    value *lengths;                     // int64; NULL: those of x
    value *keys, *mask;                 // keys: batch x steps of memory x size; mask NULL: all steps count
    value *w, *r, *b, *p, *qw, *v, *aw; // of this direction
    value *state[3], *y;                // h, c, a; y: all h
} wrapper;

// Input i of this direction, which keeps the axis of directions.
static value *own_part(const wrapper *w, int i) {
    value *v = node_in(w->n, i);
    return v && w->directions > 1 ? sliced(w->n, v, 0, w->direction, w->direction + 1) : v;
}

static value *own_matrix(const wrapper *w, int i) {
    value *v = own_part(w, i);
    return v ? NODE(w->n, "Squeeze", v, one_int(w->n, 0)) : NULL;
}

// ---- Attributes of one direction

static bool takes(const char *function, const char *parameter) {
    static const char *const names[] = {"affine",     "leakyrelu",   "thresholdedrelu",
                                        "scaledtanh", "hardsigmoid", "elu"};
    static const char *const both[] = {"affine", "scaledtanh", "hardsigmoid"};
    bool alpha = strcmp(parameter, "activation_alpha") == 0;
    for (size_t i = 0; i < (alpha ? sizeof names : sizeof both) / sizeof *names; i++)
        if (strcasecmp(function, alpha ? names[i] : both[i]) == 0) return true;
    return false;
}

// Functions take their parameters from one list for all directions, in order.
static void give_parameters(const wrapper *w, value *y, const attr *names, const char *parameter) {
    const attr *all = node_attr(w->n, parameter);
    int from = 0;
    if (!all) return;
    for (int i = 0; names && i < 3 * w->direction; i++) from += takes(names->strings[i], parameter);
    attr part = *all;
    part.floats += from < part.n ? from : part.n, part.n -= from < part.n ? from : part.n;
    if (part.n) node_set_attr(y->def, part);
}

static void give_attributes(const wrapper *w, value *y) {
    const attr *names = node_attr(w->n, "activations");
    if (names && names->n != 3 * w->directions)
        infer_error(w->n, "attribute activations has %d values; %d directions take %d", names->n,
                    w->directions, 3 * w->directions);
    if (names) {
        attr part = *names;
        part.strings += 3 * w->direction, part.n = 3;
        node_set_attr(y->def, part);
    }
    give_parameters(w, y, names, "activation_alpha");
    give_parameters(w, y, names, "activation_beta");
    with_attr_of(with_attr_of(with_attr_of(y, w->n, "clip"), w->n, "input_forget"), w->n, "hidden_size");
}

// ---- The body of the Scan. end: a node at its end, before which all others come.

// What the memory holds for h, batch x size of the memory.
static value *context_of(const wrapper *w, node *end, value *h) {
    value *query = NODE(end, "Unsqueeze", NODE(end, "MatMul", h, w->qw), one_int(end, 1));
    value *near = NODE(end, "Mul", NODE(end, "Tanh", NODE(end, "Add", w->keys, query)), w->v);
    value *p = with_int(NODE(end, "ReduceSum", near, one_int(end, 2)), "keepdims", 0);
    if (w->mask)
        p = NODE(end, "Where", w->mask, p,
                 cast_to(end, insert_scalar(end, DT_F32, -INFINITY), infer_in(w->n, X)->elem));
    p = NODE(end, "Unsqueeze", with_int(NODE(end, "Softmax", p), "axis", -1), one_int(end, 1));
    return NODE(end, "Squeeze", NODE(end, "MatMul", p, w->n->in[MEMORY]), one_int(end, 1));
}

static value *attended(const wrapper *w, node *end, value *h) {
    value *context = context_of(w, end, h);
    if (!w->aw) return context;
    return NODE(end, "MatMul", with_int(NODE(end, "Concat", h, context), "axis", 1), w->aw);
}

// in: h, c, a, x[t], t. Rows whose sequence has ended keep their state and write 0.
static void build_step(const wrapper *w, graph *g, node *end, value *const *in) {
    value *x =
        NODE(end, "Unsqueeze", with_int(NODE(end, "Concat", in[3], in[2]), "axis", 1), one_int(end, 0));
    value *y = NODE(end, "LSTM", x, w->w, w->r, w->b, NULL, in[0], in[1], w->p);
    give_attributes(w, y);
    value *h = output_of(y, 1), *c = output_of(y, 2), *row = NODE(end, "Squeeze", h, one_int(end, 0)),
          *out = row;
    value *a = attended(w, end, row);
    if (w->lengths) {
        value *live = NODE(end, "Unsqueeze", NODE(end, "Less", in[4], w->lengths), one_int(end, 1));
        h = NODE(end, "Where", live, h, in[0]), c = NODE(end, "Where", live, c, in[1]);
        out = NODE(end, "Where", live, row,
                   cast_to(end, insert_scalar(end, DT_F32, 0), infer_in(w->n, X)->elem));
    }
    value *outs[] = {h, c, a, NODE(end, "Identity", out)};
    for (int i = 0; i < 4; i++) graph_add_output(g, outs[i]);
}

static graph *body_of(const wrapper *w) {
    graph *g = graph_new(w->n->graph->module, w->n->graph, "step");
    value *in[5];
    for (int i = 0; i < 5; i++) in[i] = graph_add_input(g, NULL, (type){0});
    node *end = node_new(g, NULL, op_find("", "Identity"), w->n->loc, 1, in);
    build_step(w, g, end, in);
    node_delete(end);
    return g;
}

// ---- One direction

static value *zeros(node *n, value *sizes) {
    return NODE(n, "Expand", cast_to(n, insert_scalar(n, DT_F32, 0), infer_in(n, X)->elem), sizes);
}

static void start_states(wrapper *w) {
    node *n = w->n;
    value *batch = shape_part(n, n->in[X], 1, 2), *last = w->aw ? w->aw : n->in[MEMORY];
    value *sizes = JOINED(n, one_int(n, 1), batch, shape_part(n, n->in[R], 2, 3));
    w->state[0] = node_in(n, H) ? own_part(w, H) : zeros(n, sizes);
    w->state[1] = node_in(n, C) ? own_part(w, C) : zeros(n, sizes);
    w->state[2] = zeros(n, JOINED(n, batch, shape_part(n, last, -1, INT64_MAX)));
}

static value *reversed(const wrapper *w, value *v) {
    node *n = w->n;
    if (!w->reverse) return v;
    value *lengths = w->lengths;
    if (!lengths) lengths = NODE(n, "Expand", shape_part(n, n->in[X], 0, 1), shape_part(n, n->in[X], 1, 2));
    return with_int(with_int(NODE(n, "ReverseSequence", v, lengths), "time_axis", 0), "batch_axis", 1);
}

// What is the same at all steps.
static void find_operands(wrapper *w) {
    node *n = w->n;
    w->w = own_part(w, W), w->r = own_part(w, R), w->b = own_part(w, B), w->p = own_part(w, P);
    w->qw = own_matrix(w, QW), w->v = own_matrix(w, V), w->aw = own_matrix(w, AW);
    w->keys = NODE(n, "MatMul", n->in[MEMORY], own_matrix(w, MW));
    if (!node_in(n, MEMORY_LENGTHS)) return;
    value *count = NODE(n, "Squeeze", shape_part(n, n->in[MEMORY], 1, 2));
    value *steps = NODE(n, "Range", insert_scalar(n, DT_I64, 0), count, insert_scalar(n, DT_I64, 1));
    value *lengths = NODE(n, "Unsqueeze", cast_to(n, n->in[MEMORY_LENGTHS], DT_I64), one_int(n, 1));
    w->mask = NODE(n, "Less", steps, lengths);
}

static void run_direction(wrapper *w) {
    node *n = w->n;
    find_operands(w);
    start_states(w);
    value *count = NODE(n, "Squeeze", shape_part(n, n->in[X], 0, 1));
    value *steps = NODE(n, "Range", insert_scalar(n, DT_I64, 0), count, insert_scalar(n, DT_I64, 1));
    value *first = NODE(n, "Scan", w->state[0], w->state[1], w->state[2], reversed(w, n->in[X]), steps);
    with_int(first, "num_scan_inputs", 2);
    node_set_attr(first->def, (attr){.name = "body", .kind = ATTR_GRAPH, .graph = body_of(w)});
    for (int i = 0; i < 3; i++) w->state[i] = output_of(first, i);
    w->y = NODE(n, "Unsqueeze", reversed(w, output_of(first, 3)), one_int(n, 1));
}

static void check(node *n) {
    static const char *const names[] = {"QW", "MW", "V", "M"};
    for (int i = QW; i <= MEMORY; i++)
        if (!node_in(n, i)) infer_error(n, "input %d (%s) is missing", i, names[i - QW]);
}

static void attn_lstm_decompose(node *n) {
    int kind = node_choice(n, "direction", "forward reverse bidirectional");
    value *outs[3] = {0};
    check(n);
    for (int d = 0; d < (kind == 2 ? 2 : 1); d++) {
        wrapper w = {.n = n, .direction = d, .directions = kind == 2 ? 2 : 1, .reverse = kind == 1 || d == 1};
        if (node_in(n, LENGTHS)) w.lengths = cast_to(n, n->in[LENGTHS], DT_I64);
        run_direction(&w);
        value *own[] = {w.y, w.state[0], w.state[1]};
        for (int i = 0; i < 3; i++)
            outs[i] = d ? with_int(NODE(n, "Concat", outs[i], own[i]), "axis", i == 0 ? 1 : 0) : own[i];
    }
    for (int i = 2; i >= 0; i--) give_output(n, i, outs[i]);
}

MICROSOFT_OP(AttnLSTM, attn_lstm_decompose);
