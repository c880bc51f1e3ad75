// In: a graph whose signals have a symbolic length. Out: for every value its rate and lead, and for every node which samples of
// its inputs it gets in a step.
#include "passes/stream/stream_impl.h"
#include <string.h>

static _Noreturn void refuse(const streaming *s, const node *n, const char *why) {
    diag_hint(s->module->diag,
              "a stream needs a model whose outputs depend on earlier samples, a constant number of them");
    diag_fatal(s->module->diag, n->loc, "--stream: this node %s", why);
}

// ---------------------------------------------------------------- values that are not signals
bool has_length(const streaming *s, const value *v) {
    for (int j = 0; j < v->ncontents; j++)
        if (dim_has_atom(v->contents[j], s->length)) return true;
    return false;
}

sizes *sizes_of(const streaming *s, const value *v) {
    sizes *z = ARENA_NEW(s->arena, sizes);
    *z = (sizes){.type = v->type, .contents = v->contents, .count = v->ncontents};
    return z;
}

constant *sizes_at(const streaming *s, const sizes *z, int64_t length) {
    if (!z->contents || z->type.rank < 0 || z->type.rank > 1) return NULL;
    int64_t count = z->count, at;
    constant *c = constant_new(s->arena, z->type.elem, z->type.rank, &count);
    for (int j = 0; j < z->count; j++) {
        if (!dim_at(s, z->contents[j], length, &at)) return NULL;
        dtype_store_int(z->type.elem, (void *)c->data, j, at);
    }
    return c;
}

// Whether n computes sizes: small integers that inference knows as dims.
static bool computes_sizes(const node *n) {
    for (int j = 0; j < n->nout; j++)
        if (n->out[j] && !n->out[j]->contents) return false;
    return true;
}

static void mark_sized(streaming *s, const node *n) {
    for (int j = 0; j < n->nout; j++)
        if (n->out[j] && has_length(s, n->out[j]))
            map_put_number(&s->sized, (uint64_t)n->out[j]->id, sizes_of(s, n->out[j]));
}

// ---------------------------------------------------------------- windows
// The output's samples known after a step, from what is known of the input.
static int64_t lead_through(const signal *in, const window *w) {
    return div_down(w->down * in->lead - 1 - w->hi, w->up) + 1;
}

static const window *window_of(const plan *p, int input, const reach **of) {
    for (int j = 0; j < p->node->nout; j++)
        if (p->reach[j].axis != NO_TIME && p->reach[j].inputs[input].used) {
            *of = &p->reach[j];
            return &p->reach[j].inputs[input];
        }
    return NULL;
}

static bool same_window(const window *a, const window *b) {
    return a->used == b->used &&
           (!a->used || (a->up == b->up && a->down == b->down && a->lo == b->lo && a->hi == b->hi));
}

// Outputs of one node have one rate and lead.
static void check_outputs(const streaming *s, const plan *p) {
    const reach *first = NULL;
    for (int j = 0; j < p->node->nout; j++) {
        const reach *r = &p->reach[j];
        if (!p->node->out[j] || r->axis == NO_TIME) continue;
        for (int i = 0; first && i < p->node->nin; i++)
            if (!same_window(&first->inputs[i], &r->inputs[i]))
                refuse(s, p->node, "computes outputs at different places in time");
        first = r;
    }
}

static int64_t rate_through(const streaming *s, const node *n, const signal *in, const window *w) {
    if (in->rate * w->down % w->up)
        diag_fatal(
            s->module->diag, n->loc,
            "--stream: this node turns every %lld samples into %lld, but a step gives it %lld, which is "
            "not a multiple of %lld",
            (long long)w->up, (long long)w->down, (long long)in->rate, (long long)w->up);
    return in->rate * w->down / w->up;
}

// The samples of an input from which the node computes outputs [lead, lead + rate) at [start, start + rate). False: there are
// none for this start.
static bool place(const window *w, int64_t lead, int64_t rate, int64_t start, span *to) {
    int64_t shift = (lead - start) * w->up;
    if (shift % w->down || shift / w->down > div_down(w->up * lead + w->lo, w->down)) return false;
    *to = (span){.used = true,
                 .from = shift / w->down,
                 .to = div_down(w->up * (lead + rate - 1) + w->hi, w->down) + 1,
                 .past = -1};
    return true;
}

static bool place_all(streaming *s, plan *p, int64_t lead, int64_t rate) {
    for (int i = 0; i < p->node->nin; i++) {
        const reach *of;
        const window *w = window_of(p, i, &of);
        const signal *in = signal_of(s, p->in[i]);
        if (w && !in->still && !place(w, lead, rate, p->start, &p->inputs[i])) return false;
    }
    return true;
}

// What a concatenation puts before the samples of `in`, unless it is known at compile time where it needs to be: NULL.
static const value *first_before(const signal *in, const window *w) {
    bool known = in->lead >= 0 && !in->begins && w->first && w->first->constant;
    return known ? NULL : w->first;
}

// Whether a step computes what stands before the samples of `in`.
static bool begins_in_step(const signal *in, const window *w) {
    return first_before(in, w) || (w->edge && in->lead <= 0);
}

static bool same_fill(const constant *a, const constant *b) {
    return a == b || (a && b && memcmp(a->splat, b->splat, sizeof a->splat) == 0);
}

// A past that serves both; NULL: there is none so far.
static past *shared_past(signal *in, const past *as) {
    for (int j = 0; j < in->pasts.n; j++) {
        past *known = &in->pasts.at[j];
        bool same = known->first == as->first && known->edge == as->edge;
        if (same && (!as->fill || !known->fill || same_fill(as->fill, known->fill))) return known;
    }
    return NULL;
}

void add_past(streaming *s, signal *in, span *at, const window *w) {
    past is = {.first = first_before(in, w), .edge = w->edge};
    if (!is.first && !is.edge)
        is.fill = in->lead < 0 && w->head ? w->head : w->padded && at->from < 0 ? w->fill : NULL;
    is.length = in->lead > at->from ? in->lead - at->from : 0;
    if (!is.length && !is.first && !is.edge && !(is.fill && in->lead < 0)) return;
    past *known = shared_past(in, &is);
    if (!known) VEC_PUSH(s->arena, &in->pasts, is), known = &in->pasts.at[in->pasts.n - 1];
    if (is.fill) known->fill = is.fill;
    if (known->length < is.length) known->length = is.length;
    at->past = (int)(known - in->pasts.at);
}

static void add_signal(streaming *s, const value *v, const signal *as) {
    signal *to = ARENA_NEW(s->arena, signal);
    *to = *as;
    to->elem = v->type.elem;
    map_put_number(&s->signals, (uint64_t)v->id, to);
}

static void add_outputs(streaming *s, const plan *p, signal as) {
    for (int j = 0; j < p->node->nout; j++) {
        if (!p->node->out[j] || p->reach[j].axis == NO_TIME) continue;
        as.axis = p->reach[j].axis;
        add_signal(s, p->node->out[j], &as);
    }
}

// Rate and lead of the outputs from the inputs'. False: no input is a signal with a rate.
static bool find_rate(streaming *s, plan *p, signal *out) {
    bool any = false;
    for (int i = 0; i < p->node->nin; i++) {
        const reach *of;
        const window *w = window_of(p, i, &of);
        const signal *in = w ? signal_of(s, p->in[i]) : NULL;
        if (!in || in->still) continue;
        if (w->up > p->every) p->every = w->up;
        if (in->lead < 0 && w->lo < 0 && !w->padded && !w->edge && !w->head && !w->first)
            refuse(s, p->node,
                   "puts samples before a signal whose first ones come later, since an earlier node reads "
                   "ahead");
        int64_t rate = rate_through(s, p->node, in, w), lead = lead_through(in, w);
        if (begins_in_step(in, w)) {
            int64_t steps =
                in->lead < 0 ? -in->lead / in->rate : 0; // before the one that has the first sample
            bool known = !w->edge && is_one_sample(w->first, in->axis);
            if (steps && !known && lead > -steps * rate) lead = -steps * rate;
            out->begins = true;
        }
        out->begins |= in->begins;
        if (any && rate != out->rate) refuse(s, p->node, "reads signals of different rates");
        if (!any || lead < out->lead)
            out->lead = lead, out->late = lead >= 0 ? NULL : in->late ? in->late : p->node;
        out->rate = rate;
        any = true;
    }
    out->begins &= out->lead > 0;
    return any;
}

// Sizes are those of the samples of a step.
static bool reads_sizes(const streaming *s, const node *n) {
    for (int i = 0; i < n->nin; i++)
        if (n->in[i] && map_get_number(&s->sized, (uint64_t)n->in[i]->id)) return true;
    return false;
}

// Whether n only names the samples of one input anew: sample t becomes sample t + 4.
static bool only_moves(const streaming *s, const plan *p) {
    int inputs = 0;
    bool moves = true;
    for (int i = 0; i < p->node->nin; i++) {
        const reach *of;
        const window *w = window_of(p, i, &of);
        if (!w) continue;
        inputs++;
        const signal *in = signal_of(s, p->in[i]);
        bool begins = first_before(in, w) || w->edge, padded = w->padded || w->head;
        moves &= of->moves && !(in->lead && begins) && !(in->lead < 0 && padded);
    }
    return moves && inputs == 1 && p->node->nout == 1;
}

void plan_windows(streaming *s, plan *p) {
    enum { START_MOST = 1 << 24 };
    check_outputs(s, p);
    signal out = {0};
    if (!find_rate(s, p, &out)) {
        add_outputs(s, p, (signal){.still = true});
        return;
    }
    p->moves = only_moves(s, p);
    if (out.begins && !p->moves && reads_sizes(s, p->node)) out.lead = 0, out.begins = false;
    p->early = out.begins ? out.lead : 0;
    while (!place_all(s, p, out.lead - p->early, out.rate + p->early))
        if (++p->start > START_MOST) refuse(s, p->node, "reads too many samples at a time");
    for (int i = 0; !p->moves && i < p->node->nin; i++) {
        const reach *of;
        if (p->inputs[i].used) add_past(s, signal_of(s, p->in[i]), &p->inputs[i], window_of(p, i, &of));
    }
    add_outputs(s, p, out);
}

// ---------------------------------------------------------------- recurrent operators
static bool is_sequence_input(const op_sequence *q, int i) {
    for (int j = 0; j < q->nin; j++)
        if (q->in[j] == i) return true;
    return false;
}

static bool is_first_state(const op_sequence *q, int i, const signal *in) {
    for (int j = 0; j < q->nstates; j++)
        if (q->first[j] == i && in->still) return true;
    return false;
}

typedef struct captured {
    const streaming *s;
    const node *n;
} captured;

static void refuse_captured(void *user, value *v) {
    const captured *c = user;
    for (int i = 0; i < c->n->nin; i++)
        if (c->n->in[i] == v) return;
    if (signal_of(c->s, v) || map_get_number(&c->s->sized, (uint64_t)v->id))
        refuse(c->s, c->n, "reads the signal, or its length, in its body");
}

// What a sequence may read of a stream beside its samples: nothing.
static void check_sequence(const streaming *s, const plan *p, const signal *in) {
    const node *n = p->node;
    const op_sequence *q = &p->sequence;
    for (int i = 0; i < n->nin; i++)
        if (!is_sequence_input(q, i) && signal_of(s, n->in[i]) &&
            !is_first_state(q, i, signal_of(s, n->in[i])))
            refuse(s, n, "has weights or states that are signals");
    for (int j = 0; j < q->nin; j++) {
        const signal *x = signal_of(s, n->in[q->in[j]]);
        if (!x || x->still || x->pair || x->axis != q->in_axis[j] || x->rate != in->rate)
            refuse(s, n, "reads signals of different rates or axes");
    }
    for (int j = 0; in->lead < 0 && j < q->nstates; j++) {
        const value *first = node_in(n, q->first[j]);
        if (first && !first->def && !first->constant)
            refuse(s, n,
                   "takes its first state from the caller, but begins before the first sample, since an "
                   "earlier node reads ahead");
    }
    node_reads(n, refuse_captured, &(captured){s, n});
}

// The input of which the fewest samples are known.
static int latest_input(const streaming *s, const node *n, const op_sequence *q) {
    int latest = q->in[0];
    for (int j = 1; j < q->nin; j++) {
        const signal *x = signal_of(s, n->in[q->in[j]]);
        if (x && x->lead < signal_of(s, n->in[latest])->lead) latest = q->in[j];
    }
    return latest;
}

// Whether n hands states from sample to sample; its outputs are then at the places of its inputs.
static bool plan_sequence(streaming *s, plan *p) {
    const node *n = p->node;
    op_sequence *q = &p->sequence;
    if (!n->op->sequence) return false;
    bool forward = n->op->sequence(n, q);
    signal *in = q->nin ? signal_of(s, n->in[q->in[0]]) : NULL;
    if (!in || in->still || in->axis != q->in_axis[0]) return false;
    if (!forward) refuse(s, n, "reads the signal backwards, or lengths of sequences");
    int latest = latest_input(s, n, q);
    in = signal_of(s, n->in[latest]);
    check_sequence(s, p, in);
    p->carries = true;
    for (int j = 0; j < q->nin; j++) {
        span *at = &p->inputs[q->in[j]];
        *at = (span){.used = true, .from = in->lead, .to = in->lead + in->rate, .past = -1};
        add_past(s, signal_of(s, n->in[q->in[j]]), at, &(window){0});
    }
    for (int j = 0; j < q->nout; j++) {
        signal out = {.axis = q->out_axis[j], .rate = in->rate, .lead = in->lead, .late = in->late};
        if (n->out[q->out[j]]) add_signal(s, n->out[q->out[j]], &out);
    }
    add_last_states(s, p, n->in[latest]);
    if (q->is_running && in->lead < 0) {
        // Samples before the first one are neutral.
        VEC_PUSH(s->arena, &in->pasts, ((past){.fill = fill_with(s, in->elem, q->neutral)}));
        p->inputs[0].past = in->pasts.n - 1;
    }
    return true;
}

// Whether n runs along another axis, for each sample alone: the samples are its batch, or its rows are of one sample each.
static bool plan_batch(streaming *s, plan *p) {
    const node *n = p->node;
    op_sequence q = {0};
    const signal *in = n->nin ? signal_of(s, n->in[0]) : NULL;
    if (!in || in->pair || !n->op->sequence) return false;
    n->op->sequence(n, &q);
    if (!(q.has_batch && in->axis == q.batch_axis) && !(q.has_rows && in->axis != q.row_axis)) return false;
    p->reach = ARENA_ARRAY(s->arena, reach, n->nout + 1);
    for (int j = 0; j < n->nout; j++) {
        bool several = false;
        p->reach[j] = (reach){.axis = n->out[j] ? time_axis(&n->out[j]->type, s->length, &several) : NO_TIME,
                              .inputs = ARENA_ARRAY(s->arena, window, n->nin + 1)};
        if (several) refuse(s, n, "has a result with two axes of time");
        for (int i = 0; i < n->nin; i++)
            if (signal_of(s, n->in[i])) p->reach[j].inputs[i] = (window){.used = true, .up = 1, .down = 1};
    }
    plan_windows(s, p);
    return true;
}

// ---------------------------------------------------------------- two axes of time
static bool has_pairs(const streaming *s, const node *n) {
    int query, keys;
    bool has = false;
    for (int i = 0; i < n->nin; i++) has |= n->in[i] && is_pair(s, &n->in[i]->type, &query, &keys);
    for (int j = 0; j < n->nout; j++) has |= n->out[j] && is_pair(s, &n->out[j]->type, &query, &keys);
    return has;
}

// Rate and lead of the queries. Scores come when the keys ahead of them do, also those of positions, so that scores can be added.
static signal queries_of(streaming *s, const plan *p) {
    signal out = {0};
    bool any = false, pairs = false;
    for (int i = 0; i < p->node->nin; i++) pairs |= signal_of(s, p->in[i]) && signal_of(s, p->in[i])->pair;
    for (int i = 0; i < p->node->nin; i++) {
        const signal *in = signal_of(s, p->in[i]);
        if (!in) continue;
        if (in->still)
            refuse(s, p->node, "combines two axes of time with a value that is the same for all samples");
        int64_t lead = in->lead - (!pairs || (!in->pair && p->roles[i] == ROLE_KEY) ? s->ahead : 0);
        if (out.rate && in->rate != out.rate) refuse(s, p->node, "reads signals of different rates");
        out.rate = in->rate;
        if (in->constant || (any && lead >= out.lead)) continue;
        out.lead = lead, out.late = lead >= 0 ? NULL : in->late ? in->late : p->node;
        any = true;
    }
    for (int i = 0; i < p->node->nin; i++) {
        const signal *in = signal_of(s, p->in[i]);
        if (in && in->pair && !in->constant && in->lead != out.lead)
            refuse(s, p->node, "combines scores and masks of different samples");
    }
    return out;
}

// Sums over keys need keys outside of the masks to add nothing.
static void check_sums(streaming *s, const plan *p, const signal *out) {
    bool zero = true;
    for (int i = 0; i < p->node->nin; i++) {
        const signal *in = signal_of(s, p->in[i]);
        if (in && in->pair) zero &= in->outside_known && in->outside == 0;
    }
    if (out->pair ? out->outside_known : zero) return;
    diag_hint(
        s->module->diag,
        "a mask must hide all but the last few hundred samples, or all later ones: then --stream-capacity=N "
        "lets attention see the last N samples");
    refuse(s, p->node, "reads the whole signal");
}

static void plan_pairs(streaming *s, plan *p) {
    const node *n = p->node;
    const char *why;
    p->pairs = true;
    p->roles = ARENA_ARRAY(s->arena, pair_role, n->nin + 1);
    if (!read_pairs(s, p, &why)) refuse(s, n, why);
    signal out = queries_of(s, p);
    for (int i = 0; i < n->nin; i++) {
        signal *in = signal_of(s, p->in[i]);
        if (!in || in->pair) continue;
        bool keys = p->roles[i] == ROLE_KEY;
        window w = {.padded = in->lead < 0, .fill = in->lead < 0 ? fill_with(s, in->elem, 0) : NULL};
        p->inputs[i] = (span){.used = true,
                              .from = out.lead - (keys ? s->before : 0),
                              .to = out.lead + out.rate + (keys ? s->ahead : 0),
                              .past = -1};
        // What precedes the signal has weights of 0, but must be finite.
        add_past(s, in, &p->inputs[i], &w);
    }
    for (int j = 0; j < n->nout; j++) {
        if (!n->out[j]) continue;
        bool several;
        out.pair = is_pair(s, &n->out[j]->type, &out.axis, &out.keys);
        if (!out.pair) out.axis = time_axis(&n->out[j]->type, s->length, &several);
        if (out.axis == NO_TIME) refuse(s, n, "reads the whole signal");
        if (out.pair && of_positions(s, n->out[j]))
            out.outside_known = outside_of_mask(s, n->out[j], &out.outside);
        else if (out.pair) set_outside(s, p, &out, n->out[j]->type.rank);
        if (p->sums_keys) check_sums(s, p, &out);
        add_signal(s, n->out[j], &out);
    }
}

// ---------------------------------------------------------------- positions
static bool at_large(void *user, const dim *atom, int64_t *value) {
    *value = INT64_C(1) << 40;
    return atom == ((const streaming *)user)->length;
}

// The rate of a function of positions, from its size. 0: it is not whole.
static int64_t rate_of_positions(streaming *s, const value *v, int axis) {
    int64_t large;
    if (!dim_eval(v->type.dims[axis], at_large, s, &large)) return 0;
    double samples = (double)s->module->streams.at[0].samples * (double)large / (double)(INT64_C(1) << 40);
    int64_t rate = (int64_t)(samples + 0.5);
    return samples - (double)rate > 1e-6 || (double)rate - samples > 1e-6 ? 0 : rate;
}

// Masks and biases that depend on distances alone, or repeat in every step, are constants of all steps.
static bool plan_constant_pairs(streaming *s, plan *p) {
    const node *n = p->node;
    for (int j = 0; j < n->nout; j++)
        if (!n->out[j] || !of_positions(s, n->out[j])) return false;
    for (int j = 0; j < n->nout; j++) {
        signal out = {.pair = true, .constant = true};
        if (!is_pair(s, &n->out[j]->type, &out.axis, &out.keys)) return false;
        out.rate = rate_of_positions(s, n->out[j], out.axis);
        out.period = period_of_pair(s, n->out[j], out.rate);
        if (!out.period || !extends_to(s, n->out[j], s->before + out.rate + s->ahead + out.period))
            return false;
        if (out.period > 1 && !pair_of_step(s, n->out[j], &out, 0)) return false;
        out.outside_known = outside_of_mask(s, n->out[j], &out.outside);
        add_signal(s, n->out[j], &out);
    }
    return p->constant = true;
}

// Whether all rows of c along the axis are first, first + step, ...
static bool is_progression(const plan *p, const constant *c, int axis) {
    int64_t inner = 1;
    for (int j = axis + 1; j < c->rank; j++) inner *= c->dims[j];
    for (int64_t i = 0; i < c->count; i++)
        if (constant_float(c, i) != p->first + p->step * (double)(i / inner % c->dims[axis])) return false;
    return true;
}

// n counts samples: first, first + step, ...
static bool plan_positions(streaming *s, plan *p) {
    const node *n = p->node;
    const value *v = n->nout == 1 ? n->out[0] : NULL;
    const constant *c = v ? map_get_number(&s->probes, (uint64_t)v->id) : NULL;
    bool several = false;
    int axis = c ? time_axis(&v->type, s->length, &several) : NO_TIME;
    if (axis == NO_TIME || several || c->rank != v->type.rank || c->count < 2 || c->dims[axis] < 2)
        return false;
    for (int i = 0; i < n->nin; i++)
        if (signal_of(s, n->in[i]) && !signal_of(s, n->in[i])->still) return false;
    for (int j = 0; j < c->rank; j++)
        if (j != axis && !dim_is_const(v->type.dims[j])) return false;
    int64_t inner = 1;
    for (int j = axis + 1; j < c->rank; j++) inner *= c->dims[j];
    p->first = constant_float(c, 0), p->step = constant_float(c, inner) - p->first;
    if ((c->rank > 1 && !p->step) || !is_progression(p, c, axis)) return false;
    signal out = {.axis = axis, .rate = rate_of_positions(s, v, axis)};
    if (!out.rate) return false;
    p->positions = true;
    p->counts = v->type;
    add_signal(s, v, &out);
    return true;
}

// ---------------------------------------------------------------- nodes
static void see_signal(void *user, value *v) {
    struct {
        const streaming *s;
        bool found;
    } *see = user;
    see->found |= signal_of(see->s, v) || map_get_number(&see->s->sized, (uint64_t)v->id);
}

static bool reads_signals(streaming *s, const node *n) {
    struct {
        const streaming *s;
        bool found;
    } see = {.s = s};
    node_reads(n, see_signal, &see);
    return see.found;
}

static void plan_node(streaming *s, node *n) {
    plan p = {.node = n,
              .in = ARENA_ARRAY(s->arena, value *, n->nin + 1),
              .inputs = ARENA_ARRAY(s->arena, span, n->nin + 1),
              .reads = reads_signals(s, n)};
    memcpy(p.in, n->in, (size_t)n->nin * sizeof *p.in);
    const char *why;
    bool ending = plan_ending(s, &p);
    if (ending || !p.reads || computes_sizes(n)) mark_sized(s, n);
    else if (has_pairs(s, n)) {
        p.relative = n->out[0] ? map_get_number(&s->relatives, (uint64_t)n->out[0]->id) : NULL;
        if (!plan_constant_pairs(s, &p)) plan_pairs(s, &p);
    } else if (!plan_positions(s, &p) && !plan_sequence(s, &p) && !plan_batch(s, &p) && !plan_last(s, &p) &&
               !plan_leading(s, &p) && !plan_frames(s, &p)) {
        p.reach = node_reach(n, s->length, &s->sized, &why);
        const char *no_scan = !p.reach && node_is(n, "Loop") ? loop_to_scan(s, n) : NULL;
        if (!p.reach) refuse(s, n, no_scan ? no_scan : why);
        plan_windows(s, &p);
    }
    VEC_PUSH(s->arena, &s->plans, p);
}

void accept_delay(streaming *s, int output, int64_t lead, const node *late) {
    const char *name = s->graph->output_names.at[output];
    if (lead >= 0) return;
    if (-lead > s->delay) {
        diag_hint(s->module->diag, "--stream-delay=%lld lets outputs come that many samples later",
                  (long long)-lead);
        diag_fatal(s->module->diag, late ? late->loc : NULL,
                   "--stream: this node reads ahead: output '%s' depends on %lld samples after it", name,
                   (long long)-lead);
    }
    diag_remark(s->module->diag, NULL, "stream: output '%s' comes %lld samples later than in the model", name,
                (long long)-lead);
}

// An output of the model has the samples of the step: none is missing, and none comes before the step.
static void plan_output(streaming *s, int i) {
    signal *out = signal_of(s, s->graph->outputs.at[i]);
    plan_ending_output(s, i);
    if (!out || out->still) return;
    accept_delay(s, i, out->lead, out->late);
    if (out->lead > 0) VEC_PUSH(s->arena, &out->pasts, ((past){.length = out->lead}));
}

static const constant *elements_of(const streaming *s, const value *v) {
    return v->constant ? v->constant : map_get_number(&s->probes, (uint64_t)v->id);
}

// A scatter to places that depend on positions alone.
static bool add_frames(streaming *s, node *n) {
    if (!node_is(n, "ScatterND") || !add_scattered(s, n, elements_of(s, n->in[0]), elements_of(s, n->in[1])))
        return false;
    node_delete(n);
    return true;
}

// A Gather of samples by indices that depend on positions alone.
static bool add_repeats(streaming *s, node *n) {
    const value *at = node_is(n, "Gather") ? n->in[1] : NULL;
    const type *x = at ? &n->in[0]->type : NULL;
    int64_t axis = x ? node_int(n, "axis", 0) : 0, samples;
    if (x && axis < 0) axis += x->rank;
    if (!x || axis < 0 || axis >= x->rank || !dim_at(s, x->dims[axis], PROBE, &samples)) return false;
    if (!dim_has_atom(x->dims[axis], s->length) || map_get_number(&s->doubtful, (uint64_t)at->id))
        return false;
    if (!repeat_samples(s, n, map_get_number(&s->probes, (uint64_t)at->id), samples)) return false;
    node_delete(n);
    return true;
}

// False: nothing changed. Sizes after padding that depends on the length of the signal are known once that is replaced.
static bool replace_nodes(streaming *s) {
    bool changed = false;
    for (int j = 0; j < s->graph->nodes.n; j++) {
        node *n = s->graph->nodes.at[j];
        changed |= pad_signal(s, n) || add_frames(s, n) || add_repeats(s, n) || find_relative(s, n);
    }
    if (!changed) return false;
    pass_dce(s->context);
    forget_types(s);
    for (int j = 0; j < s->graph->nodes.n; j++) infer_node(s->graph->nodes.at[j]);
    return true;
}

void plan_graph(streaming *s) {
    do find_probes(s);
    while (replace_nodes(s));
    find_bands(s);
    for (int j = 0; j < s->graph->nodes.n; j++) plan_node(s, s->graph->nodes.at[j]);
    for (int j = 0; j < s->graph->outputs.n; j++) plan_output(s, j);
}
