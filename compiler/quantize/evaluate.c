// What quantisation loses. In: samples with the outputs of the float model. Out: errors of the quantised model's outputs, and
// of the values within.
#include "compiler/quantize/impl.h"
#include <math.h>
#include <string.h>

double decibels(double signal, double noise) {
    if (noise <= 0) return signal > 0 ? INFINITY : 0;
    return signal > 0 ? 10 * log10(signal / noise) : -INFINITY;
}

void hold_samples(plan *p) {
    if (p->nsamples) return;
    for (int i = 0; i < p->nvalues; i++) p->values[i].observed = false;
    calibrate(p, NULL, NULL);
}

// Winograd's transforms are more code than they save time over the samples.
static const options *options_of_few_runs(const plan *p, arena *a) {
    options *o = ARENA_NEW(a, options);
    *o = *p->in->options;
    o->disabled = (string_list){0};
    for (int i = 0; i < p->in->options->disabled.n; i++)
        VEC_PUSH(a, &o->disabled, p->in->options->disabled.at[i]);
    VEC_PUSH(a, &o->disabled, "winograd");
    return o;
}

runnable *compile_edited(const plan *p, arena *a, void (*edit)(void *user, module *m), void *user) {
    const quantize_input *in = p->in;
    pipeline_hooks hooks = {.user = user, .edit = edit, .input = in->import.input};
    return runnable_new(pipeline_new(a, in->diag, options_of_few_runs(p, a), &hooks), &in->source, NULL);
}

void edit_quantised(void *user, module *m) {
    plan own = *(plan *)user;
    prepare_again(&own, m);
    own.module = m, own.arena = m->arena;
    own.nodes = ARENA_ARRAY(m->arena, qnode, own.nnodes + 1); // sums of errors are not wanted twice
    memcpy(own.nodes, ((plan *)user)->nodes, (size_t)own.nnodes * sizeof *own.nodes);
    own.apply(&own);
}

// ---------------------------------------------------------------- outputs
static int64_t largest_in_row(const tensor *t, int64_t row, int64_t n) {
    int64_t best = 0;
    double most = -INFINITY;
    for (int64_t i = 0; i < n; i++) {
        double v = dtype_load_float(t->dtype, t->data, row * n + i);
        if (v > most) most = v, best = i;
    }
    return best;
}

typedef struct label_list {
    tensor t;
    int64_t at;
} label_list;

static void compare_answers(loss *l, const tensor *got, const tensor *want, label_list *labels) {
    int64_t n = want->rank ? want->dims[want->rank - 1] : 1;
    for (int64_t r = 0; n > 1 && r < want->count / n; r++) {
        int64_t before = largest_in_row(want, r, n), after = largest_in_row(got, r, n);
        l->rows++;
        l->changed += before != after;
        if (labels->at >= labels->t.count) continue;
        int64_t right = dtype_load_int(labels->t.dtype, labels->t.data, labels->at++);
        l->labelled++;
        l->right_before += before == right;
        l->right_after += after == right;
    }
}

typedef struct products {
    double dot, got, want;
} products;

static void compare_output(loss *l, products *s, const tensor *got, const tensor *want) {
    for (int64_t i = 0; i < want->count && i < got->count; i++) {
        double g = dtype_load_float(got->dtype, got->data, i),
               w = dtype_load_float(want->dtype, want->data, i);
        if (!isfinite(w)) continue; // masks
        if (!isfinite(g)) g = 0;
        l->signal += w * w;
        l->noise += (g - w) * (g - w);
        s->dot += g * w, s->got += g * g, s->want += w * w;
    }
}

static label_list read_labels(plan *p) {
    label_list l = {0};
    if (!p->own->labels) return l;
    port any = {.name = "labels", .kind = TYPE_TENSOR, .dtype = DT_I64, .rank = RANK_UNKNOWN};
    l.t = tensor_of_value(p->arena, &any, value_read(p->arena, p->diag, &any, p->own->labels));
    return l;
}

static double cosine_of(const products *s) {
    if (s->want == 0 || s->got == 0) return s->want == s->got;
    return s->dot / sqrt(s->got * s->want);
}

// After a comparison of all samples, whose answers are counted.
static void check_labels(const plan *p, const label_list *labels, int64_t answers) {
    bool all = p->held_bytes < p->held_most && !p->own->samples; // of the data
    if (!p->own->labels || (all ? labels->t.count == answers : labels->t.count >= answers)) return;
    diag_fatal(p->diag, NULL, "--labels: '%s' has %lld labels, but the samples have %lld answers",
               p->own->labels, (long long)labels->t.count, (long long)answers);
}

loss measure_loss(plan *p, runnable *r, int most, const tensor *extra) {
    loss l = {.cosine = 1};
    int nout = p->module->main->outputs.n;
    products *sums = ARENA_ARRAY(p->arena, products, nout + 1);
    label_list labels = read_labels(p);
    for (int k = 0; k < p->held.n && k < most; k++) {
        const held_sample *h = &p->held.at[k];
        arena *a = arena_within(p->arena);
        tensor *in = ARENA_ARRAY(a, tensor, r->nin + 1), *out = ARENA_ARRAY(a, tensor, r->nout + 1);
        memcpy(in, h->in, (size_t)(r->nin - (extra != NULL)) * sizeof *in);
        if (extra) in[r->nin - 1] = *extra;
        const char *message = NULL;
        if (!r->run(r, a, in, out, &message))
            diag_fatal(p->diag, NULL, "the quantised model fails for sample '%s': %s", h->name,
                       message ? message : "the run failed");
        bool answered = false;
        for (int j = 0; j < nout; j++) {
            if (!dtype_is_float(h->out[j].dtype)) continue;
            compare_output(&l, &sums[j], &out[j], &h->out[j]);
            if (!answered && h->out[j].rank && h->out[j].dims[h->out[j].rank - 1] > 1)
                compare_answers(&l, &out[j], &h->out[j], &labels), answered = true;
        }
        arena_destroy(a);
    }
    if (most >= p->held.n) check_labels(p, &labels, l.rows);
    for (int j = 0; j < nout; j++) l.cosine = fmin(l.cosine, cosine_of(&sums[j]));
    return l;
}

// ---------------------------------------------------------------- values within
typedef struct inside {
    plan *plan;
    bool quantised;
    VEC(int) shown; // ids of values
    int first;      // of their outputs
} inside;

static void edit_shown(void *user, module *m) {
    const inside *x = user;
    if (x->quantised) edit_quantised(x->plan, m);
    else prepare_again(x->plan, m);
    for (int i = 0; i < x->shown.n; i++) graph_add_output(m->main, m->values.at[x->shown.at[i]]);
}

static bool is_output(const graph *g, const value *v) {
    for (int i = 0; i < g->outputs.n; i++)
        if (g->outputs.at[i] == v) return true;
    return false;
}

static void choose_shown(inside *x) {
    const graph *g = x->plan->module->main;
    for (int i = 0; i < g->nodes.n; i++) {
        const node *n = g->nodes.at[i];
        const value *v = node_out(n, 0);
        bool plain = v && v->type.kind == TYPE_TENSOR && dtype_is_float(v->type.elem) && !is_output(g, v);
        if (x->plan->nodes[n->id].quantised && plain) VEC_PUSH(x->plan->arena, &x->shown, v->id);
    }
    x->first = g->outputs.n;
}

static void add_error(qvalue *v, const tensor *got, const tensor *want) {
    for (int64_t i = 0; i < want->count && i < got->count; i++) {
        double g = dtype_load_float(got->dtype, got->data, i),
               w = dtype_load_float(want->dtype, want->data, i);
        if (!isfinite(w) || !isfinite(g)) continue;
        v->signal += w * w;
        v->noise += (g - w) * (g - w);
        v->dot += g * w;
        v->norm += g * g;
    }
}

// Errors of the values within, for the first samples: both models with these values as outputs.
static void compare_inside(plan *p) {
    enum { SAMPLES = 4 };
    inside before = {.plan = p}, after;
    choose_shown(&before);
    after = before;
    after.quantised = true;
    arena *a = arena_within(p->arena);
    runnable *x = compile_edited(p, a, edit_shown, &before), *y = compile_edited(p, a, edit_shown, &after);
    for (int k = 0; k < p->held.n && k < SAMPLES; k++) {
        arena *own = arena_within(a);
        tensor *want = ARENA_ARRAY(own, tensor, x->nout + 1), *got = ARENA_ARRAY(own, tensor, y->nout + 1);
        const char *message;
        bool ok = x->run(x, own, p->held.at[k].in, want, &message) &&
                  y->run(y, own, p->held.at[k].in, got, &message);
        for (int i = 0; ok && i < before.shown.n; i++)
            add_error(&p->values[before.shown.at[i]], &got[before.first + i], &want[before.first + i]);
        arena_destroy(own);
    }
    arena_destroy(a);
}

void compare_values_of(plan *p) {
    hold_samples(p);
    if (p->in->progress) p->in->progress(p->in->user, "comparing");
    if (!p->loss) {
        arena *a = arena_within(p->arena);
        runnable *r = compile_edited(p, a, edit_quantised, p);
        p->loss = ARENA_NEW(p->arena, loss);
        *p->loss = measure_loss(p, r, INT32_MAX, NULL);
        arena_destroy(a);
    }
    if (p->own->report) compare_inside(p);
}
