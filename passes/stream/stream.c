// Makes a stream of a model (--stream): in: a graph over signals of symbolic length; out: the graph of one step over a constant
// number of samples. What a node reads of earlier samples is kept in states, so that the outputs of all steps together are
// those of the whole signal. A node gets the samples that it needs as if they were the whole signal, and the outputs at its
// ends, which would see the ends, are cut off; later passes do not compute them.
#include "passes/stream/stream_impl.h"
#include <string.h>

void forget_types(streaming *s) {
    module *m = s->module;
    for (int j = 0; j < m->values.n; j++) {
        value *v = m->values.at[j];
        if (!v->def || v->type.kind != TYPE_TENSOR) continue;
        v->type.rank = RANK_UNKNOWN, v->type.dims = NULL;
        v->contents = NULL, v->ncontents = 0;
    }
    m->infer = NULL;
    m->checks.n = 0;
}

// ---------------------------------------------------------------- nodes
// A pair that is the same in every step, for queries from `lead` on.
static value *constant_pair(streaming *s, const value *v, int64_t lead) {
    const constant *c = pair_of_step(s, v, signal_of(s, v), lead);
    if (!c)
        diag_fatal(s->module->diag, v->def->loc,
                   "--stream: this node makes a mask that is too large for a constant: take fewer samples");
    return value_constant(s->graph, NULL, (constant *)c);
}

// A mask for queries from `lead` on; keys before the first sample are hidden, as are keys that are too far away.
static value *mask_now(streaming *s, const value *v, int64_t lead) {
    const signal *in = signal_of(s, v);
    value *now = in->period > 1 ? constant_pair(s, v, lead) : in->now;
    if (!in->outside_known) return now;
    return hide_early(s, now, in->keys, in->rate, lead - s->before,
                      value_constant(s->graph, NULL, numbers(s, in->elem, -1, in->outside, 0)));
}

// Those of the step, among the samples that the node gets.
static value *frame_indices(streaming *s, const plan *p) {
    constant *c = indices_of(s, p, p->start + signal_of(s, p->node->out[0])->rate);
    if (!c)
        diag_fatal(s->module->diag, p->node->loc,
                   "--stream: this node takes more samples in a step than a constant has indices");
    return value_constant(s->graph, NULL, c);
}

static value *input_now(streaming *s, const plan *p, int i) {
    const signal *in = signal_of(s, p->in[i]), *out = signal_of(s, p->node->out[0]);
    if (!in) return p->in[i];
    if (p->indices && i == 1) return frame_indices(s, p);
    bool meets_data = in->pair && out && of_positions(s, p->in[i]) && !of_positions(s, p->node->out[0]);
    if (in->pair) return meets_data ? mask_now(s, p->in[i], out->lead) : in->now;
    return p->inputs[i].used && !p->moves ? samples_of(s, p->in[i], &p->inputs[i]) : in->now;
}

static void take_inputs(streaming *s, const plan *p) {
    s->at = p->node;
    for (int i = 0; i < p->node->nin; i++)
        if (p->in[i]) node_set_in(p->node, i, input_now(s, p, i));
    infer_node(p->node);
}

static void find_heads(streaming *s, const plan *p) {
    for (int j = 0; j < p->node->nout; j++) {
        signal *out = signal_of(s, p->node->out[j]);
        if (!out || out->still || out->begins || out->lead <= 0) continue;
        out->head = head_of(s, p, j, out->lead);
    }
}

// How many samples the node computes too few: it cuts off samples at the end of what it gets.
static int64_t missing_samples(streaming *s, const plan *p) {
    int64_t most = 0;
    for (int j = 0; j < p->node->nout; j++) {
        const signal *out = signal_of(s, p->node->out[j]);
        if (!out || out->still) continue;
        int64_t missing = p->start + p->early + out->rate - length_of(p->node->out[j], out->axis);
        if (missing > most) most = missing;
    }
    return most;
}

// Additional samples of any value after the samples that the node needs.
static void lengthen(streaming *s, const plan *p, int64_t samples) {
    node *n = p->node;
    s->at = n;
    for (int i = 0; i < n->nin; i++) {
        if (!p->inputs[i].used) continue;
        value *v = n->in[i];
        int64_t pads[2 * MAX_RANK] = {0};
        pads[v->type.rank + signal_of(s, p->in[i])->axis] = samples;
        value *by = value_int64s(s->graph, NULL, pads, 2 * v->type.rank);
        node_set_in(n, i, make(s, "Pad", 2, (value *[]){v, by}, NULL));
    }
    infer_node(n);
}

// Outputs of the step: `rate` of the samples that the node computes, from `start` on.
static void take_outputs(streaming *s, const plan *p) {
    node *n = p->node;
    s->at = node_next(n);
    for (int j = 0; j < n->nout; j++) {
        signal *out = signal_of(s, n->out[j]);
        if (!out) continue;
        out->now = n->out[j];
        if (p->joined && p->joined[j]) out->now = p->joined[j];
        if (out->still || (p->joined && p->joined[j])) continue;
        int64_t from = p->start + p->early;
        if (length_of(out->now, out->axis) < from + out->rate)
            diag_defect(
                s->module->diag, n->loc, "a step of the stream computes %lld samples of '%s', not %lld",
                (long long)length_of(out->now, out->axis), n->out[j]->name, (long long)(from + out->rate));
        if (out->begins) out->begin = slice_of(s, out->now, out->axis, p->start, from);
        out->now = slice_of(s, out->now, out->axis, from, from + out->rate);
    }
}

// A node that only shifts samples has them already.
static void take_moved(streaming *s, const plan *p) {
    signal *out = signal_of(s, p->node->out[0]);
    for (int i = 0; i < p->node->nin; i++) {
        if (!p->inputs[i].used) continue;
        const signal *in = signal_of(s, p->in[i]);
        out->now = in->now;
        if (out->begins) out->begin = before_first(s, in, &p->reach->inputs[i], out->lead);
    }
}

// ---------------------------------------------------------------- recurrent operators
// The first sample of a step.
static int64_t lead_of(const plan *p) { return p->inputs[p->sequence.in[0]].from; }

static void set_joined(streaming *s, plan *p, int out, value *v) {
    if (!p->joined) p->joined = ARENA_ARRAY(s->arena, value *, p->node->nout + 1);
    p->joined[out] = v;
}

// The state's value before the first step: that after the samples which precede it, or the node's own. NULL: zeros.
static value *first_state(streaming *s, const plan *p, int j) {
    int in = p->sequence.first[j];
    value *own = in < p->node->nin ? p->in[in] : NULL;
    if (signal_of(s, own)) own = signal_of(s, own)->now;
    if (lead_of(p) > 0) {
        const constant *c = head_of(s, p, p->sequence.last[j], 0);
        if (!c)
            diag_fatal(s->module->diag, p->node->loc,
                       "--stream: the state of this node before the first step is not known");
        own = value_constant(s->graph, NULL, (constant *)c);
    }
    return own && own->constant && is_zero(own->constant) ? NULL : own;
}

// Callers who pass the first state and take the last one keep it themselves.
static bool is_input(const value *v) { return v && !v->def && !v->constant; }

// A scalar 0, for states of any size.
static value *zero_like(streaming *s, const value *v) {
    return value_constant(s->graph, NULL, numbers(s, v->type.elem, -1, 0, 0));
}

// n runs over the first `count` samples alone, which are before the signal until its first step, and then over the others: so
// states can begin in between. Returns the node over the former; NULL: none.
static node *split_sequence(streaming *s, plan *p, int64_t count) {
    node *n = p->node;
    map as = {.arena = s->arena};
    if (!count) return NULL;
    node *early = node_copy(n, s->graph, &as);
    node_move(early, s->graph, n);
    for (int j = 0; j < p->sequence.nin; j++) {
        int i = p->sequence.in[j], axis = p->sequence.in_axis[j];
        value *x = n->in[i];
        s->at = early;
        node_set_in(early, i, slice_of(s, x, axis, 0, count));
        s->at = n;
        node_set_in(n, i, slice_of(s, x, axis, count, length_of(x, axis)));
    }
    infer_node(early), infer_node(n);
    return early;
}

static void join_outputs(streaming *s, plan *p, const node *early) {
    const op_sequence *q = &p->sequence;
    s->at = node_next(p->node);
    for (int j = 0; early && j < q->nout; j++) {
        value *y = p->node->out[q->out[j]];
        if (y && signal_of(s, y))
            set_joined(s, p, q->out[j], join(s, early->out[q->out[j]], y, q->out_axis[j]));
    }
}

static void carry_states(streaming *s, plan *p) {
    node *n = p->node;
    const span *at = &p->inputs[p->sequence.in[0]];
    int64_t rate = at->to - at->from, before = at->from < 0 ? -at->from : 0; // samples before the signal
    node *early = split_sequence(s, p, before % rate);
    for (int j = 0; j < p->sequence.nstates; j++) {
        int in = p->sequence.first[j], out = p->sequence.last[j];
        if (is_input(node_in(n, in))) continue;
        if (!node_out(n, out)) node_output(n, out, NULL), infer_node(n);
        s->at = n;
        value *state =
            state_new(s, arena_printf(s->arena, "%s_%d", n->out[out]->name, j), &n->out[out]->type);
        value *first = first_state(s, p, j), *last = state;
        if (before && !first) first = zero_like(s, state);
        if (early) {
            if (!node_out(early, out)) node_output(early, out, NULL);
            node_set_in(early, in, state);
            infer_node(early);
            last = early->out[out];
        }
        node_set_in(n, in, first ? state_or_first(s, last, first, before / rate) : last);
        infer_node(n);
        s->at = node_next(n);
        state_next(s, state, n->out[out]);
    }
    join_outputs(s, p, early);
}

// The sum of the samples before the first step.
static value *last_of_head(streaming *s, const plan *p, int64_t lead) {
    const constant *c = head_of(s, p, 0, lead);
    if (!c)
        diag_fatal(s->module->diag, p->node->loc,
                   "--stream: the state of this node before the first step is not known");
    value *all = value_constant(s->graph, NULL, (constant *)c);
    return slice_of(s, all, p->sequence.out_axis[0], lead - 1, lead);
}

// The sum so far goes before the samples of the step.
static void carry_running(streaming *s, plan *p) {
    node *n = p->node;
    const op_sequence *q = &p->sequence;
    const signal *x = signal_of(s, p->in[0]);
    int axis = q->in_axis[0];
    s->at = n;
    type t = n->in[0]->type;
    dim **dims = ARENA_ARRAY(s->arena, dim *, t.rank + 1);
    memcpy(dims, t.dims, (size_t)t.rank * sizeof *dims);
    dims[axis] = dim_const(s->module->dims, 1);
    t = type_tensor(s->arena, t.elem, t.rank, dims);
    value *state = state_new(s, n->out[0]->name, &t), *before = state, *first = NULL;
    if (q->neutral != 0) first = value_constant(s->graph, NULL, numbers(s, t.elem, -1, q->neutral, 0));
    if (q->exclusive) node_set_attr(n, (attr){.name = "exclusive", .kind = ATTR_INT});
    if (x->lead > 0) first = last_of_head(s, p, x->lead);
    if (first) before = state_or_first(s, state, first, 0);
    node_set_in(n, 0, join(s, before, n->in[0], axis));
    infer_node(n);
    s->at = node_next(n);
    state_next(s, state, slice_of(s, n->out[0], axis, x->rate, x->rate + 1));
    int64_t from = q->exclusive ? 0 : 1;
    set_joined(s, p, 0, slice_of(s, n->out[0], axis, from, from + x->rate));
}

// Numbers of the samples of a step.
static void count_samples(streaming *s, const plan *p) {
    signal *out = signal_of(s, p->node->out[0]);
    s->at = p->node;
    attr to = {.name = "to", .kind = ATTR_INT, .i = (int)out->elem};
    value *step = make(s, "Cast", 1, (value *[]){step_number(s)}, &to);
    value *by = value_constant(s->graph, NULL, numbers(s, out->elem, 1, p->step * (double)out->rate, 0));
    value *own = value_constant(s->graph, NULL, numbers(s, out->elem, out->rate, p->first, p->step));
    out->now = make(s, "Add", 2, (value *[]){make(s, "Mul", 2, (value *[]){step, by}, NULL), own}, NULL);
    const type *t = &p->counts;
    int64_t row[MAX_RANK], all[MAX_RANK];
    for (int j = 0; j < t->rank; j++) {
        all[j] = j == out->axis ? out->rate : dim_value(t->dims[j]);
        row[j] = j == out->axis ? out->rate : 1;
    }
    if (t->rank > 1) {
        value *rows = make(s, "Reshape", 2, (value *[]){out->now, ints(s, row, t->rank)}, NULL);
        out->now = make(s, "Expand", 2, (value *[]){rows, ints(s, all, t->rank)}, NULL);
    }
    infer_node(p->node);
}

static void step_node(streaming *s, plan *p) {
    if (!p->reads) {
        infer_node(p->node);
        return;
    }
    if (p->constant) {
        for (int j = 0; j < p->node->nout; j++)
            signal_of(s, p->node->out[j])->now = constant_pair(s, p->node->out[j], 0);
        return;
    }
    if (p->positions) {
        count_samples(s, p);
        return;
    }
    if (p->relative) {
        take_relative(s, p);
        return;
    }
    find_heads(s, p);
    take_inputs(s, p);
    if (p->moves) {
        take_moved(s, p);
        return;
    }
    if (p->leading) {
        take_leading(s, p);
        return;
    }
    if (p->carries && p->sequence.is_running) carry_running(s, p);
    else if (p->carries) carry_states(s, p);
    int64_t missing = p->carries ? 0 : missing_samples(s, p);
    if (missing > 0) lengthen(s, p, missing * p->every);
    take_outputs(s, p);
}

// ---------------------------------------------------------------- the graph
static void step_outputs(streaming *s) {
    s->at = NULL;
    for (int j = 0, n = s->graph->outputs.n; j < n; j++) {
        value *v = s->graph->outputs.at[j];
        const signal *out = signal_of(s, v);
        if (!out) continue;
        if (!out->still)
            VEC_PUSH(s->arena, &s->module->stream_outputs,
                     ((stream_output){j, out->axis, out->rate, out->lead < 0 ? -out->lead : 0}));
        span all = {.used = true, .to = out->rate};
        graph_set_output(s->graph, j, !out->still && out->lead > 0 ? samples_of(s, v, &all) : out->now);
    }
}

static void step_inputs(streaming *s) {
    for (int j = 0; j < s->module->streams.n; j++) {
        const stream_input *in = &s->module->streams.at[j];
        value *v = in->input;
        signal *x = ARENA_NEW(s->arena, signal);
        *x = (signal){.axis = in->axis, .elem = v->type.elem, .rate = in->samples, .now = v};
        map_put_number(&s->signals, (uint64_t)v->id, x);
    }
}

// Inputs get the sizes of a step.
static void bind_steps(streaming *s) {
    for (int j = 0; j < s->module->streams.n; j++) {
        const stream_input *in = &s->module->streams.at[j];
        type *t = &in->input->type;
        dim **d = ARENA_ARRAY(s->arena, dim *, t->rank + 1);
        for (int i = 0; i < t->rank; i++)
            d[i] = i == in->axis ? dim_const(s->module->dims, in->samples) : t->dims[i];
        *t = type_tensor(s->arena, t->elem, t->rank, d);
    }
}

static void check_inputs(const streaming *s) {
    for (int j = 0; j < s->graph->inputs.n; j++) {
        const value *v = s->graph->inputs.at[j];
        bool several;
        if (signal_of(s, v) || time_axis(&v->type, s->length, &several) == NO_TIME) continue;
        diag_hint(s->module->diag, "--stream takes several inputs, each with its axis and number of samples");
        diag_fatal(s->module->diag, NULL,
                   "--stream: input '%s' is %s: it is as long as the streamed input, but not streamed",
                   v->name, type_text(s->arena, &v->type));
    }
}

// A counter that only dead code reads, such as that of indices that are constants of each step, is not a state.
static void count_steps(streaming *s) {
    s->at = NULL;
    pass_dce(s->context);
    if (!s->step) return;
    if (value_uses(s->step))
        state_next(s, s->step, make(s, "Add", 2, (value *[]){s->step, value_int64(s->graph, 1)}, NULL));
    else graph_drop_input(s->graph, s->step->def_index);
}

static void report(const streaming *s) {
    int64_t bytes = 0;
    for (int j = 0; j < s->module->states.n; j++)
        for (int i = 0; i < s->graph->inputs.n; i++) {
            const value *v = s->graph->inputs.at[i];
            if (strcmp(v->name, s->module->states.at[j].input) != 0) continue;
            dim *count = dim_product(s->module->dims, v->type.dims, v->type.rank);
            if (dim_is_const(count)) bytes += dtype_size(v->type.elem, dim_value(count));
        }
    diag_remark(s->module->diag, NULL, "stream: %lld bytes in %d state%s", (long long)bytes,
                s->module->states.n, s->module->states.n == 1 ? "" : "s");
}

void pass_stream(pass_context *c) {
    module *m = c->module;
    if (!m->streams.n) return;
    streaming s = {.context = c, .module = m, .arena = m->arena, .graph = m->main, .delay = m->stream_delay};
    s.signals.arena = s.sized.arena = s.endings.arena = s.relatives.arena = m->arena;
    const stream_input *first = &m->streams.at[0];
    s.length = first->input->type.dims[first->axis];
    step_inputs(&s);
    check_inputs(&s);
    plan_graph(&s);
    forget_types(&s);
    bind_steps(&s);
    for (int j = 0; j < s.plans.n; j++) step_node(&s, &s.plans.at[j]);
    step_outputs(&s);
    count_steps(&s);
    report(&s);
    m->is_step = true;
    pass_expand(c); // sequences
    pass_dce(c);
    pass_fold(c);
    if (c->opt >= 1) pass_cse(c);
    pass_dce(c);
}
