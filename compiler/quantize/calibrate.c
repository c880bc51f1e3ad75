// Calibration. In: a plan and samples. Out: the range of every observed value and, if a method needs it, its histogram.
//
// The float model is compiled with the observed values as further outputs, and runs over the samples on this machine.
#include "compiler/base/clock.h"
#include "compiler/quantize/impl.h"
#include <math.h>
#include <string.h>

typedef struct calibration {
    plan *plan;
    VEC(int) observed; // ids of values
    int *output;       // by observed value: the output that gives it; -1 - j: input j
    runnable *r;
    bool histograms;
    see_hook *see; // NULL: ranges are collected
    void *user;
} calibration;

// ---------------------------------------------------------------- the model with further outputs
// The output that gives v, a new one if there is none; -1 - j: v is input j.
static int place_of(const graph *g, const value *v) {
    for (int i = 0; i < g->inputs.n; i++)
        if (g->inputs.at[i] == v) return -1 - i;
    for (int i = 0; i < g->outputs.n; i++)
        if (g->outputs.at[i] == v) return i;
    return g->outputs.n;
}

static void add_outputs(void *user, module *m) {
    const calibration *c = user;
    prepare(m);
    if (m->values.n != c->plan->module->values.n)
        diag_defect(m->diag, NULL, "the model changed between two imports");
    for (int i = 0; i < c->observed.n; i++) {
        value *v = m->values.at[c->observed.at[i]];
        int at = place_of(m->main, v);
        if (at == m->main->outputs.n) graph_add_output(m->main, v);
        c->output[i] = at;
    }
}

// ---------------------------------------------------------------- statistics

enum { ZERO_BINS = 8 };

// Twice the width: bins merge in pairs.
static void widen(arena *a, histogram *h) {
    int64_t *merged = ARENA_ARRAY(a, int64_t, BINS);
    for (int i = 0; i < BINS; i++) merged[(int)floor((i - BINS / 2) / 2.0) + BINS / 2] += h->bins[i];
    memcpy(h->bins, merged, BINS * sizeof *merged);
    h->width *= 2;
}

enum { BLOCK = 256 };

// The bin of each element of a block. Zeros, which follow each other after Relu, alternate between bins behind the others, so
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

void histogram_add(arena *a, histogram *h, const float *x, int64_t n, double largest) {
    int at[BLOCK];
    float tail[BLOCK] = {0};
    if (!h->bins) h->bins = ARENA_ARRAY(a, int64_t, BINS + ZERO_BINS);
    if (largest > 0 && h->width == 0) h->width = fmax(exp2(ceil(log2(largest)) - log2(BINS / 2.0)), 0x1p-126);
    while (h->width > 0 && largest >= h->width * (BINS / 2 - 1)) widen(a, h);
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

static _Noreturn void refuse_value(const calibration *c, int id, const char *sample, const tensor *t) {
    const value *v = c->plan->module->values.at[id];
    const float *x = t->data;
    int64_t i = 0;
    while (i < t->count - 1 && x[i] - x[i] == 0) i++;
    diag_hint(c->plan->diag,
              v->def ? "the float model computes it for this sample; check the sample, or leave it out"
                     : "it is in the sample itself");
    diag_fatal(c->plan->diag, v->def ? v->def->loc : NULL,
               "calibration: value '%s' has %s at element %lld in sample '%s'", v->name,
               isnan(x[i]) ? "a NaN" : "an infinity", (long long)i, sample);
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

static void observe(calibration *c, int id, const char *sample, const tensor *t) {
    qvalue *q = &c->plan->values[id];
    if (t->count == 0) return;
    extremes e = extremes_of(t->data, t->count);
    if (!e.finite && c->plan->infinities) e = extremes_of_finite(t->data, t->count);
    if (!e.finite) refuse_value(c, id, sample, t);
    if (c->see) {
        c->see(c->user, id, t);
        return;
    }
    if (q->count == 0) q->least = e.least, q->most = e.most;
    if (e.least < q->least) q->least = e.least;
    if (e.most > q->most) q->most = e.most;
    q->count += t->count;
    bias_sum_inputs(c->plan, id, t);
    double largest = -e.least > e.most ? -e.least : e.most;
    if (c->histograms) histogram_add(c->plan->arena, &q->seen, t->data, t->count, largest);
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
    for (int i = 0; i < c->observed.n; i++) {
        int at = c->output[i];
        observe(c, c->observed.at[i], name, at < 0 ? &in[-1 - at] : &out[at]);
    }
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

void calibrate(plan *p, see_hook *see, void *user) {
    double start = clock_now();
    calibration c = {.plan = p, .histograms = needs_histograms(p), .see = see, .user = user};
    for (int i = 0; i < p->nvalues; i++)
        if (p->values[i].observed) VEC_PUSH(p->arena, &c.observed, i);
    c.output = ARENA_ARRAY(p->arena, int, c.observed.n + 1);
    if (!p->own->data && !p->random) {
        p->random = true;
        diag_hint(p->diag, "--data DIR names a folder of samples");
        diag_warning(p->diag, WARN_RANDOM_SAMPLES, NULL,
                     "no samples are given: ranges come from random inputs and will not suit real ones");
    }
    if (p->in->progress) p->in->progress(p->in->user, "compiling for calibration");
    c.r = compile_edited(p, p->arena, add_outputs, &c);
    p->float_model = c.r;
    samples *s = samples_open(p, c.r);
    if (p->in->progress) p->in->progress(p->in->user, "calibrating");
    samples_each(s, p->own->samples ? p->own->samples : INT64_MAX, run_sample, &c);
    if (p->nsamples == 0) diag_fatal(p->diag, NULL, "--data: '%s' has no samples", p->own->data);
    p->seconds[0] += clock_now() - start;
}
