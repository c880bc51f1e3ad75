// Values at the end of the signal, which have no axis of time: last states of recurrent operators, last samples, and what
// follows from them. A step gives them as if the signal ended with it.
#include "passes/stream/stream_impl.h"
#include <string.h>

static _Noreturn void refuse(const streaming *s, const node *n, const char *why) {
    diag_fatal(s->module->diag, n->loc, "--stream: this node %s", why);
}

static ending *ending_of(const streaming *s, const value *v) {
    return map_get_number(&s->endings, (uint64_t)v->id);
}

static bool has_length_of(void *user, const dim *atom, int64_t *value) {
    const streaming *s = user;
    *value = s->module->streams.at[0].samples << 20;
    return atom == s->length;
}

// How many samples after its last one, in a signal that ends with the step, are known of v. Negative: the number of
// missing samples.
static int64_t known_behind(const streaming *s, const value *v, const signal *as) {
    int64_t size;
    if (!dim_eval(v->type.dims[as->axis], has_length_of, (void *)s, &size)) size = as->rate << 20;
    return as->lead - (size - (as->rate << 20));
}

static void add_ending(streaming *s, const value *v, int64_t lead, const node *late) {
    ending *e = ARENA_NEW(s->arena, ending);
    *e = (ending){.lead = lead, .late = late};
    map_put_number(&s->endings, (uint64_t)v->id, e);
}

static void add_endings(streaming *s, const node *n, int64_t lead, const node *late) {
    bool several;
    for (int j = 0; j < n->nout; j++) {
        if (!n->out[j] || !value_uses(n->out[j]) || signal_of(s, n->out[j])) continue;
        if (time_axis(&n->out[j]->type, s->length, &several) != NO_TIME)
            refuse(s, n, "gives all samples what is known at the end of the signal");
        add_ending(s, n->out[j], lead, late);
    }
}

void add_last_states(streaming *s, const plan *p, const value *samples) {
    const node *n = p->node;
    const signal *in = signal_of(s, samples);
    int64_t behind = known_behind(s, samples, in);
    bool used = false;
    for (int j = 0; j < n->nout; j++) used |= n->out[j] && !signal_of(s, n->out[j]) && value_uses(n->out[j]);
    if (used && behind > 0)
        refuse(s, n, "gives its state before the last samples of the signal, which an earlier node cuts off");
    add_endings(s, n, behind, behind >= 0 ? NULL : in->late ? in->late : n);
}

// ---------------------------------------------------------------- values derived from ends
typedef struct inputs {
    const streaming *s;
    const ending *first;
    bool differ, signals;
} inputs;

static void see_input(void *user, value *v) {
    inputs *x = user;
    const ending *e = ending_of(x->s, v);
    x->signals |= signal_of(x->s, v) || map_get_number(&x->s->sized, (uint64_t)v->id);
    if (!e) return;
    x->differ |= x->first && x->first->lead != e->lead;
    x->first = e;
}

bool plan_ending(streaming *s, const plan *p) {
    inputs x = {.s = s};
    node_reads(p->node, see_input, &x);
    if (!x.first) return false;
    if (x.signals) refuse(s, p->node, "combines samples with what is known at the end of the signal");
    if (x.differ) refuse(s, p->node, "combines values of different times");
    add_endings(s, p->node, x.first->lead, x.first->late);
    return true;
}

// ---------------------------------------------------------------- the last samples
// An index from the end; 0: it is an index from the start.
static int64_t from_end(const constant *c, int64_t i) {
    int64_t at = c && i < c->count ? constant_int(c, i) : 0;
    return at < 0 && at > INT32_MIN ? -at : 0;
}

bool is_axis(const node *n, int64_t axis, int time) {
    return (axis < 0 ? axis + n->in[0]->type.rank : axis) == time;
}

// The number of last samples in which all are that a Gather takes. 0: it takes others.
static int64_t last_of_gather(const node *n, int time) {
    const constant *index = infer_constant(n, 1);
    int64_t most = 0;
    if (!is_axis(n, node_int(n, "axis", 0), time) || !index) return 0;
    for (int64_t i = 0; i < index->count; i++) {
        int64_t at = from_end(index, i);
        if (!at) return 0;
        if (at > most) most = at;
    }
    return most;
}

int64_t place_in_slice(const node *n, int time, int64_t *step) {
    const constant *starts = infer_constant(n, 1), *ends = infer_constant(n, 2), *axes = infer_constant(n, 3),
                   *steps = infer_constant(n, 4);
    if (!starts || !ends || (node_in(n, 3) && !axes) || (node_in(n, 4) && !steps)) return -1;
    for (int64_t i = 0; i < starts->count; i++) {
        *step = steps ? constant_int(steps, i) : 1;
        if (is_axis(n, axes ? constant_int(axes, i) : i, time)) return i;
    }
    return -1;
}

static int64_t last_of_slice(const node *n, int time) {
    const constant *ends = infer_constant(n, 2);
    int64_t step, i = place_in_slice(n, time, &step);
    bool ends_with = i >= 0 && (from_end(ends, i) || constant_int(ends, i) >= INT32_MAX);
    return ends_with && step > 0 ? from_end(infer_constant(n, 1), i) : 0;
}

bool plan_last(streaming *s, plan *p) {
    const node *n = p->node;
    signal *in = n->nin && n->in[0] ? signal_of(s, n->in[0]) : NULL;
    bool gather = node_is(n, "Gather"), slice = node_is(n, "Slice"), several;
    if (!in || in->pair || in->still || *n->op->domain || (!gather && !slice) || !n->out[0]) return false;
    if (time_axis(&n->out[0]->type, s->length, &several) != NO_TIME) return false;
    int64_t last = gather ? last_of_gather(n, in->axis) : last_of_slice(n, in->axis);
    if (!last) return false;
    int64_t behind = known_behind(s, n->in[0], in), lead = behind > 0 ? 0 : behind;
    int64_t end = in->lead + in->rate - (behind - lead);
    p->inputs[0] = (span){.used = true, .from = end - last, .to = end, .past = -1};
    add_past(s, in, &p->inputs[0], &(window){0});
    add_endings(s, n, lead, lead >= 0 ? NULL : in->late ? in->late : n);
    return true;
}

void plan_ending_output(streaming *s, int i) {
    const ending *e = ending_of(s, s->graph->outputs.at[i]);
    if (e) accept_delay(s, i, e->lead, e->late);
}
