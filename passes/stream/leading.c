// First samples of the signal, such as x[:, :1], which have no axis of time: known from the first step on, they are a state.
#include "passes/stream/stream_impl.h"
#include <string.h>

// The number of first samples in which all are that a Gather takes. 0: it takes others, or counts from the end.
static int64_t leading_of_gather(const node *n, int time) {
    const constant *index = infer_constant(n, 1);
    int64_t count = 0;
    if (!is_axis(n, node_int(n, "axis", 0), time) || !index) return 0;
    for (int64_t i = 0; i < index->count; i++) {
        int64_t place = constant_int(index, i);
        if (place < 0) return 0;
        if (place >= count) count = place + 1;
    }
    return count;
}

static int64_t leading_of_slice(const node *n, int time) {
    int64_t step, i = place_in_slice(n, time, &step);
    if (i < 0 || step != 1) return 0;
    int64_t from = constant_int(infer_constant(n, 1), i), to = constant_int(infer_constant(n, 2), i);
    return from >= 0 && to > from && to < INT32_MAX ? to : 0;
}

// How long a step must be to have so many first samples of a signal.
static void hint_longer_step(const streaming *s, const signal *in, int64_t count) {
    int64_t missing = (count - in->lead) * s->module->streams.at[0].samples;
    diag_hint(s->module->diag, "a step of %lld samples has them",
              (long long)((missing + in->rate - 1) / in->rate));
}

bool plan_leading(streaming *s, plan *p) {
    const node *n = p->node;
    signal *in = n->nin && n->in[0] ? signal_of(s, n->in[0]) : NULL;
    bool gather = strcmp(n->op->name, "Gather") == 0, slice = strcmp(n->op->name, "Slice") == 0, several;
    if (!in || in->pair || in->still || *n->op->domain || (!gather && !slice) || !n->out[0]) return false;
    if (time_axis(&n->out[0]->type, s->length, &several) != NO_TIME) return false;
    int64_t count = (gather ? leading_of_gather : leading_of_slice)(n, in->axis);
    if (!count) return false;
    if (count > in->lead + in->rate) {
        hint_longer_step(s, in, count);
        diag_fatal(
            s->module->diag, n->loc,
            "--stream: this node takes sample %lld of its input, which is not known after the first step",
            (long long)count - 1);
    }
    p->inputs[0] = (span){.used = true, .to = count, .past = -1};
    add_past(s, in, &p->inputs[0], &(window){0});
    signal *out = ARENA_NEW(s->arena, signal);
    *out = (signal){.still = true, .elem = in->elem};
    map_put_number(&s->signals, (uint64_t)n->out[0]->id, out);
    return p->leading = true;
}

void take_leading(streaming *s, plan *p) {
    node *n = p->node;
    s->at = node_next(n);
    value *state = state_new(s, n->out[0]->name, &n->out[0]->type);
    value *first = state_or_first(s, state, n->out[0], 0);
    state_next(s, state, first);
    signal_of(s, n->out[0])->now = first;
}
