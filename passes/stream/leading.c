// First samples of the signal, such as x[:, :1], which have no axis of time: known from the first step on, they are a state.
#include "passes/stream/stream_impl.h"
#include <string.h>

// The samples [from, to) in which all are that a Gather takes. False: it takes others, or counts from the end.
static bool leading_of_gather(const node *n, int time, span *at) {
    const constant *index = infer_constant(n, 1);
    if (!is_axis(n, node_int(n, "axis", 0), time) || !index || !index->count) return false;
    *at = (span){.used = true, .from = INT64_MAX, .past = -1};
    for (int64_t i = 0; i < index->count; i++) {
        int64_t place = constant_int(index, i);
        if (place < at->from) at->from = place;
        if (place >= at->to) at->to = place + 1;
    }
    return at->from >= 0;
}

static bool leading_of_slice(const node *n, int time, span *at) {
    int64_t step, i = place_in_slice(n, time, &step);
    if (i < 0 || step != 1) return false;
    *at = (span){.used = true,
                 .from = constant_int(infer_constant(n, 1), i),
                 .to = constant_int(infer_constant(n, 2), i),
                 .past = -1};
    return at->from >= 0 && at->to > at->from && at->to < INT32_MAX;
}

bool plan_leading(streaming *s, plan *p) {
    const node *n = p->node;
    signal *in = n->nin && n->in[0] ? signal_of(s, n->in[0]) : NULL;
    bool gather = strcmp(n->op->name, "Gather") == 0, slice = strcmp(n->op->name, "Slice") == 0, several;
    if (!in || in->pair || in->still || *n->op->domain || (!gather && !slice) || !n->out[0]) return false;
    if (time_axis(&n->out[0]->type, s->length, &several) != NO_TIME) return false;
    span *at = &p->inputs[0];
    if (!(gather ? leading_of_gather : leading_of_slice)(n, in->axis, at)) return false;
    if (at->to > in->lead + in->rate) {
        diag_hint(s->module->diag, "a step of more samples has them");
        diag_fatal(
            s->module->diag, n->loc,
            "--stream: this node takes sample %lld of its input, which is not known after the first step",
            (long long)at->to - 1);
    }
    add_past(s, in, at, &(window){0});
    signal *out = ARENA_NEW(s->arena, signal);
    *out = (signal){.still = true, .elem = in->elem};
    map_put_number(&s->signals, (uint64_t)n->out[0]->id, out);
    return p->leading = true;
}

// The same places in samples that begin with the first one that the node takes.
static value *shifted(streaming *s, const constant *c, int64_t only, int64_t by) {
    constant *to = constant_new(s->arena, c->elem, c->rank, c->dims);
    for (int64_t i = 0; i < c->count; i++)
        dtype_store_int(c->elem, (void *)to->data, i, constant_int(c, i) - (only < 0 || only == i ? by : 0));
    return value_constant(s->graph, NULL, to);
}

void take_leading(streaming *s, plan *p) {
    node *n = p->node;
    bool slice = strcmp(n->op->name, "Slice") == 0;
    int64_t step, only = slice ? place_in_slice(n, signal_of(s, p->in[0])->axis, &step) : -1;
    for (int i = 1; i <= 1 + slice; i++)
        node_set_in(n, i, shifted(s, infer_constant(n, i), only, p->inputs[0].from));
    infer_node(n);
    s->at = node_next(n);
    value *state = state_new(s, n->out[0]->name, &n->out[0]->type);
    value *first = state_or_first(s, state, n->out[0], 0);
    state_next(s, state, first);
    signal_of(s, n->out[0])->now = first;
}
