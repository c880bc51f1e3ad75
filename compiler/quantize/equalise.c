// --equalise: cross-layer equalisation of weights (Nagel et al., Data-Free Quantization, 2019). In: products with constant weights, one
// after the other. Out: for each channel i between two of them a factor s[i] > 0 that makes their weights equally large,
//
//   w1[i] /= s[i], b1[i] /= s[i], w2[.., i] *= s[i]     with s[i] = sqrt(max |w1[i]| / max |w2[.., i]|),
//
// which leaves the result as it is, because what is between them commutes with positive factors: f(x / s) = f(x) / s.
// An upper bound, as that of ReLU6, does so for channels that stay below it: the samples tell which, and how far they
// may grow.
#include "compiler/quantize/impl.h"
#include <float.h>
#include <math.h>
#include <string.h>

// Two products and the nodes between them.
typedef struct pair {
    node *first, *second;
    node *add;         // of the bias of a MatMul; NULL: none
    const value *held; // the value before an upper bound; NULL: no bound
    double bound;
    int axis; // of channels in `held`
    int64_t channels;
    double *most; // seen in `held`, by channel
} pair;

struct equalisation {
    VEC(pair) pairs;
    double **out, **in; // factors of weights by node and channel; NULL: 1
};

// ---------------------------------------------------------------- weights
static const constant *weights_of(const node *n) { return n->in[1]->constant; }

static int64_t groups_of(const node *n) { return is_conv(n) ? node_int(n, "group", 1) : 1; }

// Whether axis 0 of the weights counts outputs.
static bool is_by_output(const node *n) {
    return is_op(n, "Conv") || (is_op(n, "Gemm") && node_int(n, "transB", 0));
}

static int64_t channels_of(const node *n, bool output) {
    const constant *w = weights_of(n);
    bool first = is_by_output(n) == output;
    return first ? w->dims[0] : w->dims[1] * groups_of(n);
}

// The channel to which element i of the weights belongs. Axis 1 counts within a group.
static int64_t channel_of(const node *n, int64_t i, bool output) {
    const constant *w = weights_of(n);
    int64_t inner = w->count / (w->dims[0] * w->dims[1]), row = i / inner / w->dims[1];
    if (is_by_output(n) == output) return row;
    return row / (w->dims[0] / groups_of(n)) * w->dims[1] + i / inner % w->dims[1];
}

static double factor(double *const *factors, const node *n, int64_t channel) {
    return factors[n->id] ? factors[n->id][channel] : 1;
}

// The largest weight of each channel.
static void find_largest(const equalisation *e, const node *n, bool output, double *largest) {
    const constant *w = weights_of(n);
    for (int64_t i = 0; i < w->count; i++) {
        int64_t to = channel_of(n, i, true), from = channel_of(n, i, false), at = output ? to : from;
        double v = fabs(constant_float(w, i)) * factor(e->out, n, to) * factor(e->in, n, from);
        if (v > largest[at]) largest[at] = v;
    }
}

// ---------------------------------------------------------------- pairs
static bool only_used_once(const value *v) { return v && v->constant && value_uses(v) == 1; }

// A constant with an element for each channel, which may change.
static bool is_row_of(const value *v, int64_t channels) {
    return only_used_once(v) && v->constant->elem == DT_F32 && v->constant->count == channels &&
           is_finite(v->constant);
}

static bool is_product(const plan *p, const node *n) {
    const qnode *q = &p->nodes[n->id];
    if (q->role != ROLE_PRODUCT || !q->quantised || !only_used_once(n->in[1]) || node_int(n, "transA", 0))
        return false;
    return is_conv(n) || weights_of(n)->rank == 2;
}

// By one number: pairs keep a bound only if the other one is 0 or missing.
static bool read_bound(const node *n, double *bound) {
    const constant *lo = node_in(n, 1) ? n->in[1]->constant : NULL,
                   *hi = node_in(n, 2) ? n->in[2]->constant : NULL;
    if ((node_in(n, 1) && !lo) || (node_in(n, 2) && !hi)) return false;
    double least = lo ? constant_float(lo, 0) : -INFINITY;
    *bound = hi ? constant_float(hi, 0) : INFINITY;
    return (least == 0 || least <= -FLT_MAX) && *bound > 0;
}

// From [N, C, 1, 1] to [N, C].
static bool drops_window(const node *n, int64_t channels) {
    const type *x = &n->in[0]->type, *y = &n->out[0]->type;
    if (x->rank < 3 || y->rank != 2) return false;
    for (int i = 2; i < x->rank; i++)
        if (!dim_is_const(x->dims[i]) || dim_value(x->dims[i]) != 1) return false;
    return dim_is_const(y->dims[1]) && dim_value(y->dims[1]) == channels;
}

// Whether n commutes with a positive factor for each channel.
static bool passes(pair *x, node *n) {
    static const char *const pointwise[] = {"Relu", "LeakyRelu", "PRelu", "Identity"};
    static const char *const windows[] = {"MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool"};
    static const char *const shapes[] = {"Flatten", "Reshape", "Squeeze"};
    for (size_t i = 0; i < sizeof pointwise / sizeof *pointwise; i++)
        if (is_op(n, pointwise[i])) return true;
    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++)
        if (is_op(n, windows[i])) return is_conv(x->first) && (n->nout == 1 || !n->out[1]);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (is_op(n, shapes[i])) return is_conv(x->first) && drops_window(n, x->channels);
    double bound = INFINITY;
    if (!is_op(n, "Clip") || !read_bound(n, &bound)) return false;
    if (bound >= FLT_MAX) return true;
    if (x->held) return false;
    x->held = n->in[0], x->bound = bound;
    x->axis = is_conv(x->first) ? 1 : n->in[0]->type.rank - 1;
    return true;
}

static bool is_bias(const plan *p, const pair *x, node *n, int index) {
    return p->nodes[n->id].role == ROLE_BIAS && n->in[0]->def == x->first && !x->add && !x->held &&
           index == 0 && is_row_of(n->in[1], x->channels);
}

// The pair that begins with n.
static bool find_pair(const plan *p, node *n, pair *x) {
    if (!is_product(p, n)) return false;
    *x = (pair){.first = n, .channels = channels_of(n, true)};
    if (node_in(n, 2) && !is_row_of(n->in[2], x->channels)) return false;
    for (const value *v = n->out[0]; value_uses(v) == 1; v = v->uses.at[0].node->out[0]) {
        node *user = v->uses.at[0].node;
        int index = v->uses.at[0].index;
        if (!user || user->graph != n->graph || user->id >= p->nnodes || user->nout < 1) return false;
        x->second = user;
        if (is_product(p, user)) return index == 0 && channels_of(user, false) == x->channels;
        if (is_bias(p, x, user, index)) x->add = user;
        else if (index != 0 || !passes(x, user)) return false;
    }
    return false;
}

static equalisation *equalisation_new(const plan *p) {
    const graph *g = p->module->main;
    equalisation *e = ARENA_NEW(p->arena, equalisation);
    e->out = ARENA_ARRAY(p->arena, double *, p->nnodes + 1);
    e->in = ARENA_ARRAY(p->arena, double *, p->nnodes + 1);
    for (int i = 0; i < g->nodes.n; i++) {
        pair x;
        if (find_pair(p, g->nodes.at[i], &x)) VEC_PUSH(p->arena, &e->pairs, x);
    }
    return e;
}

// ---------------------------------------------------------------- upper bounds
typedef struct bound_observer {
    plan *plan;
    equalisation *e;
} bound_observer;

static void observe_held(void *user, int id, const tensor *t) {
    const bound_observer *l = user;
    const float *data = t->data;
    for (int i = 0; i < l->e->pairs.n; i++) {
        pair *x = &l->e->pairs.at[i];
        if (!x->held || x->held->id != id || x->axis >= t->rank || t->dims[x->axis] != x->channels) continue;
        int64_t inner = 1;
        for (int k = x->axis + 1; k < t->rank; k++) inner *= t->dims[k];
        for (int64_t k = 0; k < t->count; k++) {
            int64_t c = k / inner % x->channels;
            if ((double)data[k] > x->most[c]) x->most[c] = (double)data[k];
        }
    }
}

static void observe_bounds(plan *p, equalisation *e) {
    bool any = false;
    for (int i = 0; i < p->nvalues; i++) p->values[i].observed = false;
    for (int i = 0; i < e->pairs.n; i++) {
        pair *x = &e->pairs.at[i];
        if (!x->held) continue;
        x->most = ARENA_ARRAY(p->arena, double, x->channels + 1);
        p->values[x->held->id].observed = any = true;
    }
    bound_observer l = {p, e};
    if (any) calibrate(p, observe_held, &l);
}

// ---------------------------------------------------------------- factors
// The factor of a channel's values that the bound allows, if `wanted` is best.
static double allowed(const pair *x, int64_t c, double wanted) {
    if (!x->held || x->most[c] <= 0) return wanted;
    if (x->most[c] >= x->bound) return 1;
    return fmin(wanted, x->bound / x->most[c]);
}

static double *ones(arena *a, int64_t n) {
    double *x = ARENA_ARRAY(a, double, n + 1);
    for (int64_t i = 0; i < n; i++) x[i] = 1;
    return x;
}

// Equalises one pair; returns the largest change.
static double balance(const plan *p, equalisation *e, const pair *x) {
    const double most = 0x1p10; // further apart, a channel counts as unused
    arena *a = arena_within(p->arena);
    double *before = ARENA_ARRAY(a, double, x->channels + 1),
           *after = ARENA_ARRAY(a, double, x->channels + 1), change = 0;
    find_largest(e, x->first, true, before);
    find_largest(e, x->second, false, after);
    double **out = &e->out[x->first->id], **in = &e->in[x->second->id];
    if (!*out) *out = ones(p->arena, x->channels);
    if (!*in) *in = ones(p->arena, x->channels);
    for (int64_t c = 0; c < x->channels; c++) {
        if (before[c] <= 0 || after[c] <= 0) continue;
        double now = (*out)[c], wanted = now * sqrt(after[c] / before[c]);
        double factor = allowed(x, c, fmax(1 / most, fmin(most, wanted)));
        (*out)[c] = factor;
        (*in)[c] *= now / factor;
        change = fmax(change, fabs(log(factor / now)));
    }
    arena_destroy(a);
    return change;
}

static void find_factors(plan *p, equalisation *e) {
    enum { ROUNDS = 20 };
    observe_bounds(p, e);
    double change = INFINITY;
    for (int round = 0; round < ROUNDS && change > 0.01; round++) {
        change = 0;
        for (int i = 0; i < e->pairs.n; i++) change = fmax(change, balance(p, e, &e->pairs.at[i]));
    }
}

// ---------------------------------------------------------------- models
static void scale_row(value *v, const double *by) {
    if (!v || !by) return;
    const constant *old = v->constant;
    constant *c = floats(v->graph->module->arena, old->rank, old->dims);
    for (int64_t i = 0; i < c->count; i++) ((float *)c->data)[i] = (float)(constant_float(old, i) * by[i]);
    v->constant = c;
}

static void scale_weights(const equalisation *e, const node *n) {
    value *v = n->in[1];
    const constant *old = v->constant;
    constant *c = floats(n->graph->module->arena, old->rank, old->dims);
    for (int64_t i = 0; i < c->count; i++) {
        double by = factor(e->out, n, channel_of(n, i, true)) * factor(e->in, n, channel_of(n, i, false));
        ((float *)c->data)[i] = (float)(constant_float(old, i) * by);
    }
    v->constant = c;
}

void equalise(const equalisation *e, module *m) {
    for (int i = 0; i < m->main->nodes.n; i++) {
        node *n = m->main->nodes.at[i];
        if (!e->out[n->id] && !e->in[n->id]) continue;
        scale_weights(e, n);
        scale_row(node_in(n, 2), e->out[n->id]);
    }
    for (int i = 0; i < e->pairs.n; i++) {
        const pair *x = &e->pairs.at[i];
        if (x->add) scale_row(m->nodes.at[x->add->id]->in[1], e->out[x->first->id]);
    }
}

// ---------------------------------------------------------------- the choice
static loss measure(plan *p) {
    arena *a = arena_within(p->arena);
    loss l = measure_loss(p, compile_edited(p, a, edit_quantised, p), INT32_MAX, NULL);
    arena_destroy(a);
    return l;
}

// As before calibration.
static void forget(plan *p) {
    for (int i = 0; i < p->nvalues; i++) {
        qvalue *v = &p->values[i];
        v->observed = v->quantised;
        v->least = v->most = 0;
        v->count = 0;
        v->seen = (histogram){0};
    }
    for (int i = 0; i < p->nnodes; i++) p->nodes[i].sums = NULL, p->nodes[i].summed = 0;
    p->nsamples = 0;
}

void decide_equalisation(plan *p) {
    equalisation *e = equalisation_new(p);
    p->pairs = e->pairs.n;
    if (!e->pairs.n) return;
    if (p->in->progress) p->in->progress(p->in->user, "equalising");
    qvalue *values = ARENA_ARRAY(p->arena, qvalue, p->nvalues + 1);
    qnode *nodes = ARENA_ARRAY(p->arena, qnode, p->nnodes + 1);
    int64_t held_most = p->held_most, nsamples = p->nsamples;
    loss before = measure(p);
    memcpy(values, p->values, (size_t)p->nvalues * sizeof *values);
    memcpy(nodes, p->nodes, (size_t)p->nnodes * sizeof *nodes);
    p->held_most = 0; // the outputs of the model as it was are what counts
    find_factors(p, e);
    forget(p);
    p->equalisation = e;
    calibrate(p, NULL, NULL);
    choose_ranges(p);
    loss after = measure(p);
    p->equal_signal = before.signal, p->equal_noise[false] = before.noise, p->equal_noise[true] = after.noise;
    p->held_most = held_most, p->nsamples = nsamples;
    if (after.noise < before.noise) {
        equalise(e, p->module);
        return;
    }
    p->equalisation = NULL;
    memcpy(p->values, values, (size_t)p->nvalues * sizeof *values);
    memcpy(p->nodes, nodes, (size_t)p->nnodes * sizeof *nodes);
}
