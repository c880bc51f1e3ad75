// First samples of the signal, such as x[:, :1], which have no axis of time: known from the first step on, they are a state.
#include "passes/stream/stream_impl.h"
#include <string.h>

static bool is_axis(const node *n, int64_t axis, int time) {
    return (axis < 0 ? axis + n->in[0]->type.rank : axis) == time;
}

// The samples [from, to) in which all are that a Gather takes. False: it takes others, or counts from the end.
static bool firsts_of_gather(const node *n, int time, span *at) {
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

// The place of the axis of time among those of a Slice with constant places; -1: it has none.
static int64_t place_in_slice(const node *n, int time) {
    const constant *starts = infer_constant(n, 1), *ends = infer_constant(n, 2), *axes = infer_constant(n, 3),
                   *steps = infer_constant(n, 4);
    if (!starts || !ends || (node_in(n, 3) && !axes) || (node_in(n, 4) && !steps)) return -1;
    for (int64_t i = 0; i < starts->count; i++)
        if (is_axis(n, axes ? constant_int(axes, i) : i, time))
            return steps && constant_int(steps, i) != 1 ? -1 : i;
    return -1;
}

static bool firsts_of_slice(const node *n, int time, span *at) {
    int64_t i = place_in_slice(n, time);
    if (i < 0) return false;
    *at = (span){.used = true,
                 .from = constant_int(infer_constant(n, 1), i),
                 .to = constant_int(infer_constant(n, 2), i),
                 .past = -1};
    return at->from >= 0 && at->to > at->from && at->to < INT32_MAX;
}

bool plan_firsts(streaming *s, plan *p) {
    const node *n = p->node;
    signal *in = n->nin && n->in[0] ? signal_of(s, n->in[0]) : NULL;
    bool gather = strcmp(n->op->name, "Gather") == 0, slice = strcmp(n->op->name, "Slice") == 0, several;
    if (!in || in->pair || in->still || *n->op->domain || (!gather && !slice) || !n->out[0]) return false;
    if (time_axis(&n->out[0]->type, s->length, &several) != NO_TIME) return false;
    span *at = &p->inputs[0];
    if (!(gather ? firsts_of_gather : firsts_of_slice)(n, in->axis, at)) return false;
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
    return p->firsts = true;
}

// The same places in samples that begin with the first one that the node takes.
static value *shifted(streaming *s, const constant *c, int64_t only, int64_t by) {
    constant *to = constant_new(s->arena, c->elem, c->rank, c->dims);
    for (int64_t i = 0; i < c->count; i++)
        dtype_store_int(c->elem, (void *)to->data, i, constant_int(c, i) - (only < 0 || only == i ? by : 0));
    return value_constant(s->graph, NULL, to);
}

void take_firsts(streaming *s, plan *p) {
    node *n = p->node;
    bool slice = strcmp(n->op->name, "Slice") == 0;
    int64_t only = slice ? place_in_slice(n, signal_of(s, p->in[0])->axis) : -1;
    for (int i = 1; i <= 1 + slice; i++)
        node_set_in(n, i, shifted(s, infer_constant(n, i), only, p->inputs[0].from));
    infer_node(n);
    s->at = node_next(n);
    value *state = state_new(s, n->out[0]->name, &n->out[0]->type);
    value *first = state_or_first(s, state, n->out[0], 0);
    state_next(s, state, first);
    signal_of(s, n->out[0])->now = first;
}
