// Calibration. In: a plan and samples. Out: the range of every observed value and, if a method needs it, its histogram.
//
// The float model is compiled with the observed values as further outputs, and runs over the samples on this machine.
#include "compiler/base/clock.h"
#include "compiler/base/jobs.h"
#include "compiler/quantize/impl.h"
#include <math.h>
#include <string.h>

typedef struct calibration {
    plan *plan;
    VEC(int) observed; // ids of values
    int *output;       // by observed value: the output that gives it; -1 - j: input j
    bool *moved;       // by observed value: channels are last there
    runnable *r;
    bool histograms;
    see_hook *see; // NULL: ranges are collected
    void *user;
} calibration;

// ---------------------------------------------------------------- the model with further outputs
// The output that gives v, a new one if needed; -1 - j: v is input j.
static int place_of(const graph *g, const value *v) {
    for (int i = 0; i < g->inputs.n; i++)
        if (g->inputs.at[i] == v) return -1 - i;
    for (int i = 0; i < g->outputs.n; i++)
        if (g->outputs.at[i] == v) return i;
    return g->outputs.n;
}

// Images are observed with their channels last, as convolutions store them. The order of elements matters for sums by channel
// and for those who see the values.
static value *observable(const calibration *c, value *v) {
    if (c->see || c->plan->own->bias_correction || v->type.rank != 4) return v;
    graph *g = v->graph;
    value *in[] = {v};
    node *move =
        new_node(g, NULL, "Transpose", arena_printf(g->module->arena, "%s_Transpose", v->name), 1, in);
    int64_t *order = ARENA_ARRAY(g->module->arena, int64_t, 4);
    order[0] = 0, order[1] = 2, order[2] = 3, order[3] = 1;
    node_set_attr(move, (attr){.name = "perm", .kind = ATTR_INTS, .n = 4, .ints = order});
    return new_output(move, arena_printf(g->module->arena, "%s_channels_last", v->name));
}

static void add_outputs(void *user, module *m) {
    const calibration *c = user;
    prepare_again(c->plan, m);
    for (int i = 0; i < c->observed.n; i++) {
        value *v = m->values.at[c->observed.at[i]];
        int at = place_of(m->main, v);
        c->output[i] = at;
        if (at < m->main->outputs.n) continue;
        value *seen = observable(c, v);
        c->moved[i] = seen != v;
        graph_add_output(m->main, seen);
    }
}

// ---------------------------------------------------------------- statistics

enum { ZERO_BINS = 8 };

// Twice the width: bins merge in pairs.
static void widen(histogram *h) {
    int64_t merged[BINS] = {0};
    for (int i = 0; i < BINS; i++) merged[(int)floor((i - BINS / 2) / 2.0) + BINS / 2] += h->bins[i];
    memcpy(h->bins, merged, sizeof merged);
    h->width *= 2;
}

enum { BLOCK = 256 };

// The bin of each element of a block. Zeros, which follow each other after Relu, alternate between bins after the others, so
// that no increment waits for the one before. Returns the number of zeros.
static int bins_of(int *restrict at, const float *restrict x, float inverse) {
    int zeros = 0;
    for (int i = 0; i < BLOCK; i++) { // vectorised
        float y = x[i] * inverse;
        int whole = (int)y, bin = whole - (y < (float)whole) + BINS / 2, zero = -(x[i] == 0);
        at[i] = (bin & ~zero) | ((BINS + (i & (ZERO_BINS - 1))) & zero);
        zeros -= zero;
    }
    return zeros;
}

static void histogram_add(histogram *h, const float *x, int64_t n, double largest) {
    int at[BLOCK];
    float tail[BLOCK] = {0};
    if (largest > 0 && h->width == 0) h->width = fmax(exp2(ceil(log2(largest)) - log2(BINS / 2.0)), 0x1p-126);
    while (h->width > 0 && largest >= h->width * (BINS / 2 - 1)) widen(h);
    float inverse = h->width > 0 ? (float)(1 / h->width) : 0;
    for (int64_t i = 0; i < n; i += BLOCK) {
        int m = n - i < BLOCK ? (int)(n - i) : BLOCK;
        if (m < BLOCK) memcpy(tail, x + i, (size_t)m * sizeof *tail);
        h->zeros += bins_of(at, m < BLOCK ? tail : x + i, inverse) - (BLOCK - m);
        for (int k = 0; k < m; k++) h->bins[at[k]]++;
    }
}

typedef struct extremes {
    float least, most;
    bool finite;
} extremes;

static extremes extremes_of(const float *x, int64_t n) {
    enum { LANES = 16 };
    float lo[LANES], hi[LANES], odd[LANES];
    for (int k = 0; k < LANES; k++) lo[k] = hi[k] = x[0], odd[k] = 0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++) {
            float v = x[i + k];
            lo[k] = v < lo[k] ? v : lo[k];
            hi[k] = v > hi[k] ? v : hi[k];
            odd[k] += v - v; // NaN for infinities and NaN
        }
    for (; i < n; i++) {
        lo[0] = x[i] < lo[0] ? x[i] : lo[0];
        hi[0] = x[i] > hi[0] ? x[i] : hi[0];
        odd[0] += x[i] - x[i];
    }
    extremes e = {lo[0], hi[0], true};
    for (int k = 0; k < LANES; k++) {
        e.least = lo[k] < e.least ? lo[k] : e.least;
        e.most = hi[k] > e.most ? hi[k] : e.most;
        e.finite &= odd[k] == 0;
    }
    return e;
}

// Of element i with channels last, before they were moved.
static int64_t place_before(const tensor *t, int64_t i) {
    int64_t channels = t->dims[3], plane = t->dims[1] * t->dims[2], at = i / channels;
    return (at / plane * channels + i % channels) * plane + at % plane;
}

static _Noreturn void refuse_value(const calibration *c, int id, bool moved, const char *sample,
                                   const tensor *t) {
    const value *v = c->plan->module->values.at[id];
    const float *x = t->data;
    int64_t i = 0;
    while (i < t->count - 1 && x[i] - x[i] == 0) i++;
    diag_hint(c->plan->diag,
              v->def ? "the float model computes it for this sample; check the sample, or leave it out"
                     : "it is in the sample itself");
    diag_fatal(c->plan->diag, v->def ? v->def->loc : NULL,
               "calibration: value '%s' has %s at element %lld in sample '%s'", v->name,
               isnan(x[i]) ? "a NaN" : "an infinity", (long long)(moved ? place_before(t, i) : i), sample);
}

// Without infinities, which masks have and 16-bit floats represent.
static extremes extremes_of_finite(const float *x, int64_t n) {
    extremes e = {0, 0, true};
    for (int64_t i = 0; i < n; i++) {
        if (isnan(x[i])) e.finite = false;
        if (!isfinite(x[i])) continue;
        e.least = x[i] < e.least ? x[i] : e.least;
        e.most = x[i] > e.most ? x[i] : e.most;
    }
    return e;
}

// The values of one sample, which threads observe.
typedef struct observation {
    const calibration *c;
    const tensor **seen; // by observed value
    extremes *found;
} observation;

static void observe(void *user, int i) {
    const observation *s = user;
    const calibration *c = s->c;
    qvalue *q = &c->plan->values[c->observed.at[i]];
    const tensor *t = s->seen[i];
    extremes e = {.finite = true};
    if (t->count > 0) e = extremes_of(t->data, t->count);
    if (!e.finite && c->plan->infinities) e = extremes_of_finite(t->data, t->count);
    s->found[i] = e;
    if (c->see || !e.finite || t->count == 0) return;
    if (q->count == 0) q->least = e.least, q->most = e.most;
    if (e.least < q->least) q->least = e.least;
    if (e.most > q->most) q->most = e.most;
    q->count += t->count;
    double largest = -e.least > e.most ? -e.least : e.most;
    if (c->histograms) histogram_add(&q->seen, t->data, t->count, largest);
}

static void observe_all(calibration *c, arena *a, const char *name, const tensor *in, const tensor *out) {
    enum { LEAST = 1 << 16 }; // elements that are worth threads
    int n = c->observed.n;
    observation s = {c, ARENA_ARRAY(a, const tensor *, n + 1), ARENA_ARRAY(a, extremes, n + 1)};
    int64_t elements = 0;
    for (int i = 0; i < n; i++) {
        int at = c->output[i];
        s.seen[i] = at < 0 ? &in[-1 - at] : &out[at];
        elements += s.seen[i]->count;
    }
    jobs_run(n, elements < LEAST ? 1 : c->plan->threads, observe, &s);
    for (int i = 0; i < n; i++) {
        int id = c->observed.at[i];
        if (!s.found[i].finite) refuse_value(c, id, c->moved[i], name, s.seen[i]);
        if (s.seen[i]->count == 0) continue;
        if (c->see) c->see(c->user, id, s.seen[i]);
        else bias_sum_inputs(c->plan, id, s.seen[i]);
    }
}

// A copy that outlives the run.
static tensor *kept(arena *a, const tensor *t, int n, int64_t *bytes) {
    tensor *copy = ARENA_ARRAY(a, tensor, n + 1);
    for (int i = 0; i < n; i++) {
        copy[i] = t[i];
        int64_t size = t[i].data ? dtype_size(t[i].dtype, t[i].count) : 0;
        if (!t[i].data) continue;
        copy[i].data = memcpy(arena_alloc(a, (size_t)size + 64), t[i].data, (size_t)size);
        *bytes += size;
    }
    return copy;
}

static void hold(calibration *c, const char *name, const tensor *in, const tensor *out) {
    plan *p = c->plan;
    int nout = p->module->main->outputs.n;
    for (int i = 0; i < c->r->nin; i++)
        if (c->r->in[i].boxed || c->r->in[i].dtype == DT_STRING) return;
    for (int i = 0; i < nout; i++)
        if (c->r->out[i].boxed || c->r->out[i].dtype == DT_STRING) return;
    held_sample h = {.name = arena_strdup(p->arena, name)};
    h.in = kept(p->arena, in, c->r->nin, &p->held_bytes);
    h.out = kept(p->arena, out, nout, &p->held_bytes);
    VEC_PUSH(p->arena, &p->held, h);
}

static void run_sample(void *user, arena *a, const char *name, const tensor *in) {
    calibration *c = user;
    plan *p = c->plan;
    tensor *out = ARENA_ARRAY(a, tensor, c->r->nout + 1);
    const char *message = NULL;
    if (!c->r->run(c->r, a, in, out, &message))
        diag_fatal(p->diag, NULL, "calibration: sample '%s': %s", name, message ? message : "the run failed");
    observe_all(c, a, name, in, out);
    if (p->held_bytes < p->held_most) hold(c, name, in, out);
    p->nsamples++;
}

static bool needs_histograms(const plan *p) {
    if (p->infinities) return false;
    if (strcmp(p->own->ranges, "minmax") != 0) return true;
    for (int i = 0; i < p->nnodes; i++)
        if (p->nodes[i].ranges && strcmp(p->nodes[i].ranges, "minmax") != 0) return true;
    return false;
}

// Code for one thread compiles faster, and runs of small models take less time than that.
static bool runs_are_short(const plan *p) {
    const double most = 0x1p30; // multiplications
    const graph *g = p->module->main;
    double sum = 0;
    for (int i = 0; i < g->nodes.n; i++) {
        const node *n = g->nodes.at[i];
        if (p->nodes[n->id].role != ROLE_PRODUCT) continue;
        for (int j = 0; j < n->out[0]->type.rank; j++)
            if (!dim_is_const(n->out[0]->type.dims[j])) return false;
        sum += multiplications(n);
    }
    return sum < most;
}

static runnable *compile_for_samples(const plan *p, calibration *c) {
    options *o = ARENA_NEW(p->arena, options);
    quantize_input in = *p->in;
    plan here = *p;
    *o = *in.options;
    if (runs_are_short(p)) o->threads = 1;
    in.options = o;
    here.in = &in;
    return compile_edited(&here, p->arena, add_outputs, c);
}

void calibrate(plan *p, see_hook *see, void *user) {
    double start = clock_now(), work = clock_thread();
    calibration c = {.plan = p, .histograms = needs_histograms(p), .see = see, .user = user};
    for (int i = 0; i < p->nvalues; i++)
        if (p->values[i].observed) VEC_PUSH(p->arena, &c.observed, i);
    c.output = ARENA_ARRAY(p->arena, int, c.observed.n + 1);
    c.moved = ARENA_ARRAY(p->arena, bool, c.observed.n + 1);
    for (int i = 0; i < c.observed.n && c.histograms; i++) {
        histogram *h = &p->values[c.observed.at[i]].seen;
        if (!h->bins) h->bins = ARENA_ARRAY(p->arena, int64_t, BINS + ZERO_BINS);
    }
    if (!p->own->data && !p->random) {
        p->random = true;
        diag_hint(p->diag, "--data DIR names a folder of samples");
        diag_warning(p->diag, WARN_RANDOM_SAMPLES, NULL,
                     "no samples are given: ranges come from random inputs and will not suit real ones");
    }
    if (p->in->progress) p->in->progress(p->in->user, "compiling for calibration");
    c.r = compile_for_samples(p, &c);
    samples *s = samples_open(p, c.r);
    if (p->in->progress) p->in->progress(p->in->user, "calibrating");
    samples_each(s, p->own->samples ? p->own->samples : INT64_MAX, run_sample, &c);
    if (p->nsamples == 0) diag_fatal(p->diag, NULL, "--data: '%s' has no samples", p->own->data);
    p->seconds[0] += clock_now() - start;
    p->calibration_work += clock_thread() - work;
}
