// --bias-correction: biases make up for the mean error of rounded weights (Nagel et al., 2019). In: means of the inputs of
// products, from calibration. Out: for each output channel c of a product y = w x + b
//
//   b[c] -= sum over k of (rounded w[c][k] - w[c][k]) * mean(x[channel of k])
//
// Padding counts as if it had the mean, so that only a run of the model tells whether the corrections help.
#include "compiler/quantize/impl.h"
#include <string.h>

// Products with a bias input.
static bool can_correct(const plan *p, const node *n) {
    const qnode *q = &p->nodes[n->id];
    if (!q->quantised || q->role != ROLE_PRODUCT) return false;
    bool plain = node_is(n, "Gemm") && !node_int(n, "transA", 0) && node_float(n, "alpha", 1) == 1 &&
                 node_float(n, "beta", 1) == 1;
    return is_op(n, "Conv") || plain;
}

// ---------------------------------------------------------------- calibration
static void sum_channels(plan *p, qnode *q, const tensor *t, int axis) {
    int64_t channels = t->dims[axis], inner = 1;
    const float *x = t->data;
    for (int i = axis + 1; i < t->rank; i++) inner *= t->dims[i];
    if (!q->sums) q->sums = ARENA_ARRAY(p->arena, double, channels + 1), q->channels = channels;
    for (int64_t from = 0; from < t->count; from += inner) {
        double sum = 0;
        for (int64_t i = from; i < from + inner; i++) sum += (double)x[i];
        q->sums[from / inner % channels] += sum;
    }
    q->summed += t->count / channels;
}

void bias_sum_inputs(plan *p, int id, const tensor *t) {
    const value *v = p->module->values.at[id];
    if (!p->own->bias_correction || t->rank < 2) return;
    for (int i = 0; i < v->uses.n; i++) {
        const node *n = v->uses.at[i].node;
        if (n && v->uses.at[i].index == 0 && can_correct(p, n))
            sum_channels(p, &p->nodes[n->id], t, is_op(n, "Conv") ? 1 : t->rank - 1);
    }
}

// ---------------------------------------------------------------- correction
// Convolutions have weights [outputs, inputs of the group, window...], Gemm has [inputs, outputs] unless transposed.
static double shift_of(const qnode *q, const node *n, const constant *w, const float *error, int64_t c) {
    bool by_row = is_op(n, "Conv") || node_int(n, "transB", 0);
    int64_t each = w->count / w->dims[by_row ? 0 : 1], inner = 1, inputs = w->dims[by_row ? 1 : 0];
    for (int i = 2; i < w->rank; i++) inner *= w->dims[i];
    int64_t groups = is_op(n, "Conv") ? node_int(n, "group", 1) : 1,
            first = c / (w->dims[0] / groups) * inputs;
    double shift = 0;
    for (int64_t k = 0; k < each; k++) {
        double mean = q->sums[(is_op(n, "Conv") ? first : 0) + k / inner] / (double)q->summed;
        shift += (double)error[by_row ? c * each + k : k * w->dims[1] + c] * mean;
    }
    return shift;
}

const constant *bias_corrected(const plan *p, const node *n, const constant *w, const float *error,
                               const constant *bias) {
    const qnode *q = &p->nodes[n->id];
    if (!q->sums || !q->summed) return bias;
    constant *b = floats(p->arena, 1, &bias->count);
    for (int64_t c = 0; c < b->count; c++)
        ((float *)b->data)[c] = (float)(constant_float(bias, c) - shift_of(q, n, w, error, c));
    return b;
}

// A bias of zeros, so that there is one to correct.
void bias_add_missing(const plan *p, node *n) {
    if (!p->correct || !p->nodes[n->id].sums || node_in(n, 2)) return;
    const constant *w = n->in[1]->constant;
    int64_t channels = w->dims[is_op(n, "Conv") || node_int(n, "transB", 0) ? 0 : 1];
    const char *name = arena_printf(p->arena, "%s_bias", n->out[0]->name);
    node_set_in(n, 2, value_constant(n->graph, name, floats(p->arena, 1, &channels)));
}

// ---------------------------------------------------------------- the choice
static void measure(plan *p, bool correct) {
    arena *a = arena_within(p->arena);
    p->correct = correct;
    loss l = measure_loss(p, compile_edited(p, a, edit_quantised, p), INT32_MAX, NULL);
    p->bias_signal = l.signal, p->bias_noise[correct] = l.noise;
    arena_destroy(a);
}

void bias_decide(plan *p) {
    if (p->in->progress) p->in->progress(p->in->user, "comparing biases");
    measure(p, false);
    measure(p, true);
    p->correct = p->bias_noise[true] < p->bias_noise[false];
}
