// LSTM, GRU, RNN and DynamicQuantizeLSTM. For each direction: one product of all inputs with W, then a loop of
// the host code over time, with one kernel for the product of the state with R and one for the gates.
//
//   xw[t, b, :] = x[t, b, :] * W' + Wb + Rb
//   for step:  hr[b, :] = h[b, :] * R'
//              h[b, j], c[b, j], y[t, b, j] =
//                  cell(xw[t, b, j], xw[t, b, H + j] ..., hr[b, j] ..., h[b, j], c[b, j])
//
// Rows whose sequence has ended keep their state and write 0; a reverse direction starts at the end of the
// sequence.
//
// The weights of DynamicQuantizeLSTM are bytes; as in ONNX Runtime, x and each step's h are rounded to bytes for
// the products with them, each as by DynamicQuantizeLinear. Their ranges leave out x after the longest sequence
// and h after the end of a row's.
#include "ir/ops/contract.h"
#include "ir/ops/control/control.h"
#include "ir/ops/runtime_args.h"
#include <math.h>
#include <string.h>
#include <strings.h>

enum { IN_X, IN_W, IN_R, IN_B, IN_LENGTHS, IN_H, IN_C, IN_P };
enum { IN_W_SCALE = IN_P + 1, IN_W_ZERO, IN_R_SCALE, IN_R_ZERO }; // of DynamicQuantizeLSTM
enum { OUT_Y, OUT_H, OUT_C };

// ---------------------------------------------------------------- sizes and attributes
typedef struct shape {
    int gates, directions;
    bool batch_first, bytes; // bytes: DynamicQuantizeLSTM
    dim *length, *batch, *input, *hidden;
} shape;

static int gates_of(const node *n) { return node_is(n, "GRU") ? 3 : node_is(n, "RNN") ? 1 : 4; }

// W and R of floats are [directions, gates * hidden, depth], those of bytes [directions, depth, gates * hidden].
static int depth_axis(const shape *s) { return s->bytes ? 1 : 2; }

enum { FORWARD, REVERSE, BIDIRECTIONAL };
static int direction_of(const node *n) {
    return node_choice(n, "direction", "forward reverse bidirectional");
}

static int directions_of(const node *n) { return direction_of(n) == BIDIRECTIONAL ? 2 : 1; }

static shape shape_of(const node *n) {
    const type *x = infer_in(n, IN_X);
    static const char names[] = "XWR";
    for (int i = IN_X; i <= IN_R; i++)
        if (infer_rank(n, i) != 3)
            infer_error(n, "input %c ('%s') has rank %d; it must be 3", names[i - IN_X], n->in[i]->name,
                        infer_rank(n, i));
    shape s = {
        .gates = gates_of(n), .directions = directions_of(n), .bytes = node_is(n, "DynamicQuantizeLSTM")};
    s.batch_first = node_flag(n, "layout", 0);
    s.length = x->dims[s.batch_first], s.batch = x->dims[!s.batch_first];
    s.input =
        infer_same_dim(n, infer_in(n, IN_W)->dims[depth_axis(&s)], x->dims[2], "input sizes of W and X");
    s.hidden = infer_in(n, IN_R)->dims[depth_axis(&s)];
    int64_t hidden = node_int(n, "hidden_size", 0);
    if (hidden) s.hidden = infer_same_dim(n, s.hidden, infer_k(n, hidden), "R and hidden_size");
    return s;
}

static void check_weights(const node *n, int i, const char *name, const shape *s, dim *depth) {
    dim *directions = infer_k(n, s->directions), *columns = dim_mulk(s->hidden, s->gates);
    infer_shape(n, i, name, 3, (dim *[]){directions, s->bytes ? depth : columns, s->bytes ? columns : depth},
                NULL);
}

// The scale or zero point of bytes: one for each direction, or for each of its columns.
static void check_quantity(const node *n, int i, const char *name, const shape *s) {
    if (!node_in(n, i)) return;
    dim *dims[] = {infer_k(n, s->directions), dim_mulk(s->hidden, s->gates)};
    infer_shape(n, i, name, infer_rank(n, i) == 2 ? 2 : 1, dims, NULL);
}

static void check_inputs(const node *n, const shape *s) {
    dim *directions = infer_k(n, s->directions), *rows = dim_mulk(s->hidden, s->gates);
    dim *state[] = {s->batch_first ? s->batch : directions, s->batch_first ? directions : s->batch,
                    s->hidden};
    check_weights(n, IN_W, "W", s, s->input);
    check_weights(n, IN_R, "R", s, s->hidden);
    infer_shape(n, IN_B, "B", 2, (dim *[]){directions, dim_mulk(rows, 2)}, NULL);
    infer_shape(n, IN_LENGTHS, "sequence_lens", 1, &s->batch, NULL);
    infer_shape(n, IN_H, "initial_h", 3, state, NULL);
    if (s->gates != 4) return;
    infer_shape(n, IN_C, "initial_c", 3, state, NULL);
    infer_shape(n, IN_P, "P", 2, (dim *[]){directions, dim_mulk(s->hidden, 3)}, NULL);
    if (!s->bytes) return;
    check_quantity(n, IN_W_SCALE, "W_scale", s), check_quantity(n, IN_W_ZERO, "W_zero_point", s);
    check_quantity(n, IN_R_SCALE, "R_scale", s), check_quantity(n, IN_R_ZERO, "R_zero_point", s);
}

// ---------------------------------------------------------------- activations
typedef enum function {
    F_RELU,
    F_TANH,
    F_SIGMOID,
    F_AFFINE,
    F_LEAKY_RELU,
    F_THRESHOLDED_RELU,
    F_SCALED_TANH,
    F_HARD_SIGMOID,
    F_ELU,
    F_SOFTSIGN,
    F_SOFTPLUS,
    F_COUNT
} function;
static const struct function_info {
    const char *name;
    bool has_alpha, has_beta;
    double alpha, beta; // defaults
} function_info[F_COUNT] = {
    [F_RELU] = {"Relu", false, false, 0, 0},
    [F_TANH] = {"Tanh", false, false, 0, 0},
    [F_SIGMOID] = {"Sigmoid", false, false, 0, 0},
    [F_AFFINE] = {"Affine", true, true, 1, 0},
    [F_LEAKY_RELU] = {"LeakyRelu", true, false, 0.01f, 0},
    [F_THRESHOLDED_RELU] = {"ThresholdedRelu", true, false, 1, 0},
    [F_SCALED_TANH] = {"ScaledTanh", true, true, 1, 1},
    [F_HARD_SIGMOID] = {"HardSigmoid", true, true, 0.2f, 0.5},
    [F_ELU] = {"Elu", true, false, 1, 0},
    [F_SOFTSIGN] = {"Softsign", false, false, 0, 0},
    [F_SOFTPLUS] = {"Softplus", false, false, 0, 0},
};
typedef struct activation {
    function f;
    double alpha, beta;
} activation;
enum { MAX_ACTIVATIONS = 6 };

static function function_of(const node *n, const char *name) {
    for (int f = 0; f < F_COUNT; f++)
        if (strcasecmp(function_info[f].name, name) == 0) return (function)f;
    infer_error(n, "attribute activations contains '%s', which is not an activation function", name);
}

// Parameters from a list attribute, taken in order by the functions that have them.
typedef struct parameters {
    const float *at;
    int n, next;
} parameters;
static parameters parameters_of(const node *n, const char *name) {
    const attr *a = node_attr(n, name);
    return a && a->kind == ATTR_FLOATS ? (parameters){a->floats, a->n, 0} : (parameters){0};
}
static double next_parameter(parameters *p, bool takes, double fallback) {
    return takes && p->next < p->n ? (double)p->at[p->next++] : fallback;
}

// The functions of all directions, `each` of them per direction.
static void activations_of(const node *n, int directions, int each, activation *out) {
    static const function usual[] = {F_SIGMOID, F_TANH, F_TANH};
    const attr *names = node_attr(n, "activations");
    // A longer list is not an error: RNN's default has two functions for any direction.
    if (names && names->n && names->n < each * directions)
        infer_error(n, "attribute activations has %d values; %d directions take %d", names->n, directions,
                    each * directions);
    parameters alpha = parameters_of(n, "activation_alpha"), beta = parameters_of(n, "activation_beta");
    for (int i = 0; i < each * directions; i++) {
        function f = each == 1 ? F_TANH : usual[i % each];
        if (names && names->n) f = function_of(n, names->strings[i]);
        const struct function_info *info = &function_info[f];
        out[i] = (activation){f, next_parameter(&alpha, info->has_alpha, info->alpha),
                              next_parameter(&beta, info->has_beta, info->beta)};
    }
}

static int activations_each(const shape *s) { return s->gates == 4 ? 3 : s->gates == 3 ? 2 : 1; }

static expr *activate(kernel *k, const activation *a, expr *x) {
    dtype t = x->dtype;
    expr *zero = x_zero(k, t), *one = x_float(k, t, 1);
    expr *alpha = x_float(k, t, a->alpha), *beta = x_float(k, t, a->beta), *v;
    switch (a->f) {
    case F_RELU: return x_bin(k, X_MAX, x, zero);
    case F_TANH: return x_un(k, X_TANH, x);
    case F_SIGMOID: return x_un(k, X_SIGMOID, x);
    case F_AFFINE: return x_add(k, x_mul(k, alpha, x), beta);
    case F_LEAKY_RELU: return x_select(k, x_lt(k, x, zero), x_mul(k, alpha, x), x);
    case F_THRESHOLDED_RELU: return x_select(k, x_lt(k, x, alpha), zero, x);
    case F_SCALED_TANH: return x_mul(k, alpha, x_un(k, X_TANH, x_mul(k, beta, x)));
    case F_HARD_SIGMOID:
        v = x_add(k, x_mul(k, alpha, x), beta);
        return x_bin(k, X_MIN, x_bin(k, X_MAX, v, zero), one);
    case F_ELU: return x_select(k, x_lt(k, x, zero), x_mul(k, alpha, x_un(k, X_EXPM1, x)), x);
    case F_SOFTSIGN: return x_div(k, x, x_add(k, one, x_un(k, X_ABS, x)));
    case F_SOFTPLUS:
        v = x_un(k, X_LOG1P, x_un(k, X_EXP, x_un(k, X_NEG, x_un(k, X_ABS, x))));
        return x_add(k, x_bin(k, X_MAX, x, zero), v);
    case F_COUNT: break;
    }
    return x;
}

// ---------------------------------------------------------------- inference
static void rnn_infer(node *n) {
    shape s = shape_of(n);
    check_inputs(n, &s);
    activation unused[MAX_ACTIVATIONS];
    activations_of(n, s.directions, activations_each(&s), unused);
    dtype elem = infer_in(n, IN_X)->elem;
    dim *d = infer_k(n, s.directions);
    dim *time_first[] = {s.length, d, s.batch, s.hidden}, *batch_first[] = {s.batch, s.length, d, s.hidden};
    infer_set(n, OUT_Y, elem, 4, s.batch_first ? batch_first : time_first);
    dim *state[] = {s.batch_first ? s.batch : d, s.batch_first ? d : s.batch, s.hidden};
    infer_set(n, OUT_H, elem, 3, state);
    if (s.gates == 4) infer_set(n, OUT_C, elem, 3, state);
}

static bool rnn_sequence(const node *n, op_sequence *s) {
    bool batch_first = node_flag(n, "layout", 0);
    *s = (op_sequence){.nin = 1,
                       .in_axis = {batch_first},
                       .nout = 1,
                       .out_axis = {batch_first},
                       .nstates = gates_of(n) == 4 ? 2 : 1,
                       .first = {IN_H, IN_C},
                       .last = {OUT_H, OUT_C},
                       .has_batch = true,
                       .batch_axis = !batch_first};
    return direction_of(n) == FORWARD && !node_in(n, IN_LENGTHS);
}

// ---------------------------------------------------------------- lowering
typedef struct weights {
    buffer *at, *scale, *zero; // scale NULL: floats; zero NULL: 0
} weights;

typedef struct recurrence {
    lowering *l;
    node *n;
    shape s;
    int direction;
    bool reverse;
    dtype t; // compute type of states and gates
    double clip;
    const activation *functions; // of this direction
    dim *step;
    weights w, r;
    buffer *x, *bias, *lengths, *peephole, *y;
    quant_bytes x_bytes;     // [rows, input], where weights are bytes
    buffer *longest;         // of the lengths
    buffer *xw, *hr, *h, *c; // xw: [length * batch or batch * length, gates * hidden]
} recurrence;

static const char *suffix_of(const recurrence *o, const char *what) {
    if (o->s.directions == 1) return what;
    return arena_printf(o->l->program->arena, "%s_%s", what, o->reverse ? "reverse" : "forward");
}

static buffer *new_buffer(recurrence *o, const char *what, dim *rows, dim *columns) {
    return lower_temp(o->l, o->n, suffix_of(o, what), o->t, 2, (dim *[]){rows, columns});
}

static stage *begin(recurrence *o, const char *what, const buffer *over, kernel **k, expr **index) {
    *k = lower_kernel(o->l, o->n, suffix_of(o, what));
    stage *s = kernel_stage(*k);
    axes_over(*k, s, over, index);
    return s;
}

static expr *reduce_axis(kernel *k, stage *s, dim *extent) {
    return stage_own_axis(k, s, AXIS_REDUCE, "k", extent);
}

// bias[direction, first + column] in the compute type.
static expr *read_bias(recurrence *o, kernel *k, dim *first, expr *column) {
    expr *at[] = {x_i64(k, o->direction), x_add(k, x_dim(k, first), column)};
    return x_cast(k, x_read(k, o->bias, at), o->t, false);
}

// GRU with linear_before_reset multiplies the hidden gate's part of Rb by the reset gate.
static bool splits_bias(const recurrence *o) {
    return o->s.gates == 3 && node_int(o->n, "linear_before_reset", 0) != 0;
}

static expr *input_bias(recurrence *o, kernel *k, expr *column) {
    dim *all = dim_mulk(o->s.hidden, o->s.gates), *zero = dim_const(all->table, 0);
    expr *wb = read_bias(o, k, zero, column);
    if (!splits_bias(o)) return x_add(k, wb, read_bias(o, k, all, column));
    expr *outside = x_lt(k, column, x_dim(k, dim_mulk(o->s.hidden, 2)));
    expr *at[] = {x_i64(k, o->direction), x_add(k, x_dim(k, all), column)};
    expr *rb = x_cast(k, x_read_guarded(k, o->bias, at, outside, NULL), o->t, false);
    return x_add(k, wb, rb);
}

// The scale or zero point of a column of weights.
static expr *read_quantity(recurrence *o, kernel *k, buffer *b, expr *column) {
    return x_read(k, b,
                  (expr *[]){x_i64(k, o->direction), column}); // a buffer of rank 1 has one for all columns
}

// from[row, k], in floats; in bytes it is not in use.
typedef struct operand {
    buffer *from;
    quant_bytes bytes;
} operand;

// The sum over k of from[row, k] * w[direction, column, k].
static expr *product_sum(recurrence *o, kernel *k, stage *s, const weights *w, const operand *a, expr *row,
                         expr *column) {
    expr *d = x_i64(k, o->direction);
    dim *depth = w->at->dims[depth_axis(&o->s)];
    expr *in = reduce_axis(k, s, depth);
    expr *from[] = {row, in};
    if (!w->scale) {
        expr *x = x_cast(k, x_read(k, a->from, from), o->t, false);
        expr *y = x_cast(k, x_read(k, w->at, (expr *[]){d, column, in}), o->t, false);
        return stage_reduce(k, s, RED_SUM, x_mul(k, x, y));
    }
    expr *x = quant_centre(k, x_read(k, a->bytes.at, from), x_read(k, a->bytes.zero, NULL));
    expr *y = quant_centre(k, x_read(k, w->at, (expr *[]){d, in, column}),
                           w->zero ? read_quantity(o, k, w->zero, column) : NULL);
    expr *sum = x_cast(k, stage_reduce(k, s, RED_SUM, x_mul(k, x, y)), o->t, false);
    return x_mul(k, sum, x_mul(k, x_read(k, a->bytes.scale, NULL), read_quantity(o, k, w->scale, column)));
}

// Whether the longest sequence contains element at[0] of the rows of x.
static expr *within_longest(kernel *k, expr *const *at, const void *of) {
    const recurrence *o = of;
    expr *longest = x_cast(k, x_read(k, o->longest, NULL), DT_I64, false);
    return x_lt(k, at[0], x_mul(k, longest, x_dim(k, o->s.batch)));
}

// Whether the sequence of row at[0] had not ended before the last step.
static expr *row_goes_on(kernel *k, expr *const *at, const void *of) {
    const recurrence *o = of;
    expr *length = x_cast(k, x_read(k, o->lengths, at), DT_I64, false);
    return x_bin(k, X_LE, x_dim(k, o->step), length);
}

static void find_longest(recurrence *o) {
    o->longest = lower_temp(o->l, o->n, "longest", o->lengths->dtype, 0, NULL);
    kernel *k = lower_kernel(o->l, o->n, "longest");
    stage *s = kernel_stage(k);
    expr *row = stage_own_axis(k, s, AXIS_REDUCE, "b", o->s.batch);
    stage_write(k, s, o->longest, NULL, stage_reduce(k, s, RED_MAX, x_read(k, o->lengths, &row)));
}

static buffer *rows_of_x(recurrence *o) {
    program *p = o->l->program;
    dim *rows = dim_mul(o->s.length, o->s.batch);
    return program_view(p, o->x, arena_printf(p->arena, "%s.rows", o->x->name), 2,
                        (dim *[]){rows, o->s.input});
}

// xw[row, j] = sum over k of x[row, k] * w[direction, j, k] + biases
static void project(recurrence *o) {
    operand x = {rows_of_x(o), o->x_bytes};
    o->xw = new_buffer(o, "projected", x.from->dims[0], dim_mulk(o->s.hidden, o->s.gates));
    kernel *k;
    expr *at[2];
    stage *s = begin(o, "project", o->xw, &k, at);
    expr *v = product_sum(o, k, s, &o->w, &x, at[0], at[1]);
    if (o->bias) v = x_add(k, v, input_bias(o, k, at[1]));
    stage_write(k, s, o->xw, at, v);
}

// to[b, j] = sum over k of from[b, k] * r[direction, first + j, k]
static void recur(recurrence *o, const char *what, buffer *to, buffer *from, dim *first) {
    operand h = {.from = from};
    if (o->s.bytes)
        h.bytes = quant_dynamic(o->l, o->n, suffix_of(o, "h_bytes"), from,
                                o->lengths ? &(quant_counted){row_goes_on, o} : NULL);
    kernel *k;
    expr *at[2];
    stage *s = begin(o, what, to, &k, at);
    stage_write(k, s, to, at, product_sum(o, k, s, &o->r, &h, at[0], x_add(k, x_dim(k, first), at[1])));
}

// state[b, j] = initial[direction, b, j], or 0
static void start_state(recurrence *o, const char *what, buffer *to, int in) {
    buffer *initial = lower_in(o->l, o->n, in);
    kernel *k;
    expr *at[2], *d;
    stage *s = begin(o, what, to, &k, at);
    d = x_i64(k, o->direction);
    expr *from[] = {o->s.batch_first ? at[0] : d, o->s.batch_first ? d : at[0], at[1]};
    stage_write(k, s, to, at, initial ? x_cast(k, x_read(k, initial, from), o->t, false) : x_zero(k, o->t));
}

static void finish_state(recurrence *o, const char *what, buffer *from, int out) {
    buffer *to = lower_out(o->l, o->n, out);
    if (!to) return;
    kernel *k;
    expr *at[2], *d;
    stage *s = begin(o, what, from, &k, at);
    d = x_i64(k, o->direction);
    expr *place[] = {o->s.batch_first ? at[0] : d, o->s.batch_first ? d : at[0], at[1]};
    stage_write(k, s, to, place, x_cast(k, x_read(k, from, at), to->dtype, true));
}

// The kernel of one step: element [b, j] of all gates.
typedef struct cell_kernel {
    recurrence *o;
    kernel *k;
    stage *s;
    expr *at[2];
    expr *time, *live; // position of the row's element; whether its sequence continues, NULL: always
    expr *row;         // row of xw
} cell_kernel;

static cell_kernel begin_cell(recurrence *o, const char *what) {
    cell_kernel q = {.o = o};
    q.s = begin(o, what, o->h, &q.k, q.at);
    kernel *k = q.k;
    dim *last = dim_addk(o->s.length, -1);
    q.time = x_dim(k, o->reverse ? dim_sub(last, o->step) : o->step);
    if (o->lengths) {
        expr *length = x_cast(k, x_read(k, o->lengths, &q.at[0]), DT_I64, false), *step = x_dim(k, o->step);
        q.live = x_lt(k, step, length);
        expr *place = o->reverse ? x_sub(k, x_sub(k, length, x_i64(k, 1)), step) : step;
        q.time = x_checked_index(k, x_select(k, q.live, place, step), o->s.length, false,
                                 "a value of sequence_lens is greater than the length of X");
    }
    q.row = o->s.batch_first ? x_add(k, x_mul(k, q.at[0], x_dim(k, o->s.length)), q.time)
                             : x_add(k, x_mul(k, q.time, x_dim(k, o->s.batch)), q.at[0]);
    return q;
}

// Element [row, gate * hidden + j] of a gate buffer.
static expr *read_gate(cell_kernel *q, buffer *b, expr *row, int gate) {
    expr *column = x_add(q->k, x_dim(q->k, dim_mulk(q->o->s.hidden, gate)), q->at[1]);
    return x_read(q->k, b, (expr *[]){row, column});
}

static expr *clipped(cell_kernel *q, expr *v) {
    if (!(q->o->clip > 0)) return v;
    expr *most = x_float(q->k, v->dtype, q->o->clip), *least = x_float(q->k, v->dtype, -q->o->clip);
    return x_bin(q->k, X_MIN, x_bin(q->k, X_MAX, v, least), most);
}

static expr *apply(cell_kernel *q, int function, expr *v) {
    return activate(q->k, &q->o->functions[function], clipped(q, v));
}

// The contributions of the input and of the state to a gate.
static expr *gate_sum(cell_kernel *q, int gate) {
    return x_add(q->k, read_gate(q, q->o->xw, q->row, gate), read_gate(q, q->o->hr, q->at[0], gate));
}

// Writes the state's new value; the old one if the sequence has ended.
static void write_state(cell_kernel *q, buffer *to, expr *v) {
    expr *old = x_read(q->k, to, q->at);
    stage_write(q->k, q->s, to, q->at, q->live ? x_select(q->k, q->live, v, old) : v);
}

static void write_y(cell_kernel *q, expr *v) {
    recurrence *o = q->o;
    if (!o->y) return;
    expr *d = x_i64(q->k, o->direction);
    expr *time_first[] = {q->time, d, q->at[0], q->at[1]}, *batch_first[] = {q->at[0], q->time, d, q->at[1]};
    if (q->live) v = x_select(q->k, q->live, v, x_zero(q->k, o->t));
    stage_write(q->k, q->s, o->y, o->s.batch_first ? batch_first : time_first,
                x_cast(q->k, v, o->y->dtype, true));
}

// ---- The three cells

static expr *peep(cell_kernel *q, int gate, expr *sum, expr *c) {
    recurrence *o = q->o;
    if (!o->peephole) return sum;
    expr *column = x_add(q->k, x_dim(q->k, dim_mulk(o->s.hidden, gate)), q->at[1]);
    expr *p = x_read(q->k, o->peephole, (expr *[]){x_i64(q->k, o->direction), column});
    return x_add(q->k, sum, x_mul(q->k, x_cast(q->k, p, o->t, false), c));
}

// i, f = F(..); c = f * c + i * G(..); h = F(..) * H(c). As in ONNX Runtime, the clip bounds sums of gates,
// not c.
static void lstm_step(recurrence *o) {
    enum { GATE_I, GATE_O, GATE_F, GATE_C };
    recur(o, "recur", o->hr, o->h, dim_const(o->s.hidden->table, 0));
    cell_kernel q = begin_cell(o, "cell");
    kernel *k = q.k;
    expr *before = x_read(k, o->c, q.at), *forget;
    expr *in = apply(&q, 0, peep(&q, 0, gate_sum(&q, GATE_I), before));
    if (node_int(o->n, "input_forget", 0)) forget = x_sub(k, x_float(k, o->t, 1), in);
    else forget = apply(&q, 0, peep(&q, 2, gate_sum(&q, GATE_F), before));
    expr *candidate = apply(&q, 1, gate_sum(&q, GATE_C));
    expr *c = x_add(k, x_mul(k, forget, before), x_mul(k, in, candidate));
    expr *out = apply(&q, 0, peep(&q, 1, gate_sum(&q, GATE_O), c));
    expr *h = x_mul(k, out, activate(k, &o->functions[2], c));
    write_state(&q, o->c, c);
    write_state(&q, o->h, h);
    write_y(&q, h);
}

static void gru_write(cell_kernel *q, expr *candidate) {
    kernel *k = q->k;
    expr *update = apply(q, 0, gate_sum(q, 0)), *before = x_read(k, q->o->h, q->at);
    expr *fresh = x_mul(k, x_sub(k, x_float(k, q->o->t, 1), update), candidate);
    expr *h = x_add(k, fresh, x_mul(k, update, before));
    write_state(q, q->o->h, h);
    write_y(q, h);
}

// linear_before_reset: h~ = G(x * W + r .* (h * R + Rb) + Wb)
static void gru_step_linear(recurrence *o) {
    recur(o, "recur", o->hr, o->h, dim_const(o->s.hidden->table, 0));
    cell_kernel q = begin_cell(o, "cell");
    kernel *k = q.k;
    expr *state = read_gate(&q, o->hr, q.at[0], 2);
    if (o->bias) state = x_add(k, state, read_bias(o, k, dim_mulk(o->s.hidden, 5), q.at[1]));
    expr *reset = apply(&q, 0, gate_sum(&q, 1));
    gru_write(&q, apply(&q, 1, x_add(k, read_gate(&q, o->xw, q.row, 2), x_mul(k, reset, state))));
}

// h~ = G(x * W + (r .* h) * R + Rb + Wb): a second product per step.
static void gru_step_reset(recurrence *o) {
    buffer *kept = new_buffer(o, "kept", o->s.batch, o->s.hidden);
    buffer *candidate = new_buffer(o, "candidate", o->s.batch, o->s.hidden);
    recur(o, "recur", o->hr, o->h, dim_const(o->s.hidden->table, 0));
    cell_kernel q = begin_cell(o, "reset");
    expr *reset = apply(&q, 0, gate_sum(&q, 1));
    stage_write(q.k, q.s, kept, q.at, x_mul(q.k, reset, x_read(q.k, o->h, q.at)));
    recur(o, "recur_candidate", candidate, kept, dim_mulk(o->s.hidden, 2));
    q = begin_cell(o, "cell");
    expr *sum = x_add(q.k, read_gate(&q, o->xw, q.row, 2), x_read(q.k, candidate, q.at));
    gru_write(&q, apply(&q, 1, sum));
}

static void rnn_step(recurrence *o) {
    recur(o, "recur", o->hr, o->h, dim_const(o->s.hidden->table, 0));
    cell_kernel q = begin_cell(o, "cell");
    expr *h = apply(&q, 0, gate_sum(&q, 0));
    write_state(&q, o->h, h);
    write_y(&q, h);
}

static void one_step(recurrence *o) {
    if (o->s.gates == 4) lstm_step(o);
    else if (o->s.gates == 1) rnn_step(o);
    else if (splits_bias(o)) gru_step_linear(o);
    else gru_step_reset(o);
}

// The number of gates in the state's first product: all but the one that depends on the reset gate.
static int first_gates(const recurrence *o) { return o->s.gates == 3 && !splits_bias(o) ? 2 : o->s.gates; }

static void lower_direction(recurrence *o) {
    lowering *l = o->l;
    o->reverse = o->direction == 1 || direction_of(o->n) == REVERSE;
    project(o);
    o->h = new_buffer(o, "h", o->s.batch, o->s.hidden);
    o->hr = new_buffer(o, "recurrent", o->s.batch, dim_mulk(o->s.hidden, first_gates(o)));
    start_state(o, "start_h", o->h, IN_H);
    if (o->s.gates == 4) {
        o->c = new_buffer(o, "c", o->s.batch, o->s.hidden);
        start_state(o, "start_c", o->c, IN_C);
    }
    o->step = dim_opaque(l->program->dims, "step", 0, INT64_MAX);
    region *outside = open_loop(l, o->n, o->step, o->s.length, NULL);
    one_step(o);
    close_loop(l, outside);
    finish_state(o, "finish_h", o->h, OUT_H);
    if (o->s.gates == 4) finish_state(o, "finish_c", o->c, OUT_C);
}

// Input i with weights; their scale and zero point are inputs `scale` and `scale` + 1.
static weights weights_at(recurrence *o, int i, int scale) {
    lowering *l = o->l;
    weights w = {.at = lower_in(l, o->n, i)};
    if (!o->s.bytes) return w;
    w.scale = lower_in(l, o->n, scale), w.zero = quant_zero_point(l, o->n, scale + 1);
    return w;
}

static void round_x(recurrence *o) {
    if (o->lengths) find_longest(o);
    o->x_bytes = quant_dynamic(o->l, o->n, "x_bytes", rows_of_x(o),
                               o->lengths ? &(quant_counted){within_longest, o} : NULL);
}

static void rnn_lower(lowering *l, node *n) {
    recurrence o = {.l = l, .n = n, .s = shape_of(n)};
    activation functions[MAX_ACTIVATIONS];
    int each = activations_each(&o.s);
    activations_of(n, o.s.directions, each, functions);
    o.x = lower_in(l, n, IN_X), o.w = weights_at(&o, IN_W, IN_W_SCALE),
    o.r = weights_at(&o, IN_R, IN_R_SCALE);
    o.bias = lower_in(l, n, IN_B), o.lengths = lower_in(l, n, IN_LENGTHS);
    if (o.s.gates == 4) o.peephole = lower_in(l, n, IN_P);
    o.y = lower_out(l, n, OUT_Y);
    o.t = o.x->dtype == DT_F64 ? DT_F64 : DT_F32;
    o.clip = node_float(n, "clip", 0);
    if (o.s.bytes) round_x(&o);
    for (o.direction = 0; o.direction < o.s.directions; o.direction++) {
        o.functions = functions + o.direction * each;
        lower_direction(&o);
    }
}

// Outputs that are not in use are left out; version 1's hint adds nothing.
static void drop_output_sequence(node *n) { node_remove_attr(n, "output_sequence"); }

// The standard's default in GRU-1 is misspelt.
static void correct_direction(node *n) {
    if (strcmp(node_string(n, "direction", ""), "foward") == 0) upgrade_set_string(n, "direction", "forward");
}

#define RECURRENT(op)                                                                                        \
    OPERATOR(op, .upgrades = {{3, correct_direction}, {7, drop_output_sequence}}, .infer = rnn_infer,        \
             .sequence = rnn_sequence, .lower = rnn_lower)
RECURRENT(LSTM);
RECURRENT(GRU);
RECURRENT(RNN);

const op_def op_microsoft_DynamicQuantizeLSTM = {
    .name = "DynamicQuantizeLSTM", .domain = "com.microsoft", .infer = rnn_infer, .lower = rnn_lower};
