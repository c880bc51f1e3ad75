// Weights as int8. In: a constant of floats. Out: integers with a scale for each channel, and a DequantizeLinear that
// readers see in its place; biases as int32 with the product of both scales.
#include "compiler/quantize/impl.h"
#include <math.h>
#include <string.h>

bool is_finite(const constant *c) {
    for (int64_t i = 0; i < c->count; i++)
        if (!isfinite(constant_float(c, i))) return false;
    return true;
}

typedef struct channels {
    int64_t count, inner; // element i belongs to channel i / inner % count
} channels;

static channels channels_of(const constant *c, int axis) {
    channels s = {1, c->count > 0 ? c->count : 1};
    if (axis < 0) return s;
    s.count = c->dims[axis], s.inner = 1;
    for (int i = axis + 1; i < c->rank; i++) s.inner *= c->dims[i];
    return s;
}

// ---------------------------------------------------------------- scales
static double largest_of(const float *w, int64_t count, channels s, int64_t channel) {
    double largest = 0;
    int64_t stride = s.count * s.inner;
    for (int64_t from = channel * s.inner; from < count; from += stride)
        for (int64_t i = from; i < from + s.inner; i++)
            if (fabs((double)w[i]) > largest) largest = fabs((double)w[i]);
    return largest;
}

static double error_of(const float *w, int64_t count, channels s, int64_t channel, double scale,
                       double most) {
    double sum = 0;
    int64_t stride = s.count * s.inner;
    for (int64_t from = channel * s.inner; from < count; from += stride)
        for (int64_t i = from; i < from + s.inner; i++) {
            double q = nearbyint(w[i] / scale), e;
            q = q > most ? most : q < -most ? -most : q;
            e = q * scale - w[i];
            sum += e * e;
        }
    return sum;
}

// The largest element, or less if clipping it makes the squared error smaller.
static double scale_of(const plan *p, const float *w, int64_t count, channels s, int64_t channel, int most) {
    enum { STEPS = 40 };
    double largest = largest_of(w, count, s, channel), best = INFINITY, found = largest;
    if (largest == 0 || !p->own->weights || strcmp(p->own->weights, "mse") != 0) return largest / most;
    for (int j = 0; j < STEPS; j++) {
        double clip = largest * (1 - 0.01 * j), e = error_of(w, count, s, channel, clip / most, most);
        if (e < best) best = e, found = clip;
    }
    return found / most;
}

// A bias must fit into int32 with the product of both scales: the scale of a channel of nearly no weights grows.
static double with_room_for(double scale, float input_scale, const constant *bias, int64_t channel) {
    if (!bias || channel >= bias->count) return scale;
    double least = fabs(constant_float(bias, channel)) / ((double)input_scale * 0x1p30);
    return scale > least ? scale : least;
}

// ---------------------------------------------------------------- nodes
static value *dequantised(plan *p, node *n, const value *of, constant *q, constant *scales, int axis) {
    graph *g = n->graph;
    arena *a = p->arena;
    constant *zeros = constant_new(a, q->elem, scales->rank, scales->dims);
    value *in[] = {value_constant(g, arena_printf(a, "%s_quantized", of->name), q),
                   value_constant(g, arena_printf(a, "%s_scale", of->name), scales),
                   value_constant(g, arena_printf(a, "%s_zero_point", of->name), zeros)};
    node *d = new_node(g, n, "DequantizeLinear", arena_printf(a, "%s_DequantizeLinear", of->name), 3, in);
    if (scales->rank) node_set_attr(d, (attr){.name = "axis", .kind = ATTR_INT, .i = axis});
    return new_output(d, arena_printf(a, "%s_dequantized", of->name));
}

static constant *scales_new(arena *a, int64_t n, bool scalar) { return floats(a, scalar ? 0 : 1, &n); }

static constant *bias_of(arena *a, const constant *bias, float input_scale, const constant *scales,
                         constant **out) {
    constant *q = constant_new(a, DT_I32, 1, &bias->count);
    *out = floats(a, 1, &bias->count);
    for (int64_t i = 0; i < bias->count; i++) {
        double scale = (double)input_scale * constant_float(scales, scales->count > 1 ? i : 0);
        double v = nearbyint(constant_float(bias, i) / (double)(float)scale);
        ((float *)(*out)->data)[i] = (float)scale;
        ((int32_t *)q->data)[i] = (int32_t)(v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : v);
    }
    return q;
}

value *quantised_weights(plan *p, node *n, int input, int axis, const float *input_scale,
                         const constant *bias) {
    arena *a = p->arena;
    const value *of = n->in[input];
    const constant *c = of->constant;
    int most = p->own->reduce_range ? 63 : 127;
    float *w = arena_alloc(a, (size_t)c->count * sizeof *w + 1);
    for (int64_t i = 0; i < c->count; i++) w[i] = (float)constant_float(c, i);
    channels s = channels_of(c, axis);
    constant *scales = scales_new(a, s.count, axis < 0), *q = constant_new(a, DT_I8, c->rank, c->dims);
    for (int64_t k = 0; k < s.count; k++) {
        double scale =
            with_room_for(scale_of(p, w, c->count, s, k, most), *input_scale, axis < 0 ? NULL : bias, k);
        ((float *)scales->data)[k] = scale > 0x1p-120 ? (float)scale : 1;
    }
    qnode *state = &p->nodes[n->id];
    for (int64_t i = 0; i < c->count; i++) {
        float scale = ((float *)scales->data)[i / s.inner % s.count];
        double v = nearbyint((double)w[i] / scale);
        v = v > most ? most : v < -most ? -most : v;
        ((int8_t *)q->data)[i] = (int8_t)v;
        double e = v * scale - w[i];
        state->weight_signal += (double)w[i] * w[i];
        state->weight_noise += e * e;
        w[i] = (float)e;
    }
    value *d = dequantised(p, n, of, q, scales, axis);
    node_set_in(n, input, d);
    if (!bias) return d;
    if (p->correct) bias = bias_corrected(p, n, c, w, bias);
    constant *bias_scales, *b = bias_of(a, bias, *input_scale, scales, &bias_scales);
    node_set_in(n, 2, dequantised(p, n, n->in[2], b, bias_scales, 0));
    return d;
}
