// Gradients of convolutions and pooling.
#include "ir/ops/training/gradient.h"
#include <string.h>

// The attributes of a convolution or pool over `rank` spatial axes.
typedef struct window {
    int rank;
    int64_t strides[MAX_RANK], dilations[MAX_RANK], pads[2 * MAX_RANK], group;
} window;

static void read_list(const node *n, const char *name, int64_t *to, int most, int64_t fallback) {
    int count;
    const int64_t *given = node_ints(n, name, &count);
    for (int i = 0; i < most; i++) to[i] = given && i < count ? given[i] : fallback;
}

// SAME: the output has ceil(input / stride) positions; an odd element of padding is at the end, or the begin.
static void read_same_pads(gradient *g, window *w, value *x, value *kernel, bool lower) {
    for (int i = 0; i < w->rank; i++) {
        const dim *size = x->type.dims[2 + i], *taps = kernel->type.dims[2 + i];
        if (!dim_is_const(size) || !dim_is_const(taps))
            gradient_missing(g, "auto_pad and sizes known only at run time");
        int64_t positions = (size->min + w->strides[i] - 1) / w->strides[i];
        int64_t total = (positions - 1) * w->strides[i] + (taps->min - 1) * w->dilations[i] + 1 - size->min;
        if (total < 0) total = 0;
        w->pads[i] = lower ? total - total / 2 : total / 2;
        w->pads[w->rank + i] = total - w->pads[i];
    }
}

static window window_of(gradient *g, value *x, value *kernel) {
    window w = {.rank = x->type.rank - 2, .group = node_int(g->of, "group", 1)};
    read_list(g->of, "strides", w.strides, w.rank, 1);
    read_list(g->of, "dilations", w.dilations, w.rank, 1);
    read_list(g->of, "pads", w.pads, 2 * w.rank, 0);
    const char *mode = node_string(g->of, "auto_pad", "NOTSET");
    if (strncmp(mode, "SAME_", 5) == 0) read_same_pads(g, &w, x, kernel, strcmp(mode, "SAME_LOWER") == 0);
    return w;
}

static value *with_window(value *v, const window *w, const int64_t *strides, const int64_t *dilations) {
    with_ints(with_ints(v, "strides", w->rank, strides), "dilations", w->rank, dilations);
    return with_ints(v, "pads", 2 * w->rank, w->pads);
}

// v with zeros added at the end of its axes, up to the sizes of `like`.
static value *extended(gradient *g, value *v, value *like) {
    int64_t zeros[MAX_RANK] = {0};
    value *missing = G("Sub", gradient_shape(g, like), G("Shape", v));
    value *pads = G("Concat", insert_ints(g->at, zeros, like->type.rank), missing);
    return G("Pad", v, with_int(pads, "axis", 0));
}

// v, of the type of `like`, with the batch as its channels: [N, group * C, ...] as [C, group * N, ...].
static value *batch_as_channels(gradient *g, value *v, value *like, int64_t group) {
    int rank = like->type.rank;
    int64_t order[MAX_RANK + 1] = {1, 0};
    for (int i = 2; i <= rank; i++) order[i] = i;
    if (group == 1) return transposed(g->at, v, rank, order);
    const dim *channels = like->type.dims[1];
    if (!dim_is_const(channels))
        gradient_missing(g, "groups of channels whose number is known only at run time");
    int64_t each = channels->min / group;
    value *batch = shape_part(g->at, like, 0, 1), *rest = shape_part(g->at, like, 2, rank);
    v = G("Reshape", v, JOINED(g->at, batch, insert_ints(g->at, (int64_t[]){group, each}, 2), rest));
    order[0] = 2, order[1] = 1, order[2] = 0;
    v = transposed(g->at, v, rank + 1, order);
    value *many = G("Mul", batch, insert_ints(g->at, &group, 1));
    return G("Reshape", v, JOINED(g->at, insert_ints(g->at, &each, 1), many, rest));
}

// The gradient of the weights [M, C / group, taps...] of a convolution of x, of the type of `like`: a convolution
// over the batch whose kernel is the gradient d of the output. Strides and dilations change places.
//     dw[m, c, k] = sum over n, o: x[n, c, o * stride + k * dilation] * d[n, m, o]
static value *weight_gradient(gradient *g, const window *w, value *x, value *like, value *d, value *weight) {
    int rank = w->rank + 2;
    int64_t order[MAX_RANK] = {1, 0}, axes[MAX_RANK], zeros[MAX_RANK] = {0};
    for (int i = 2; i < rank; i++) order[i] = axes[i - 2] = i;
    value *v = G("Conv", batch_as_channels(g, x, like, w->group), transposed(g->at, d, rank, order));
    with_int(with_window(v, w, w->dilations, w->strides), "group", w->group);
    value *taps = shape_part(g->at, weight, 2, rank);
    v = G("Slice", v, insert_ints(g->at, zeros, w->rank), taps, insert_ints(g->at, axes, w->rank));
    return transposed(g->at, v, rank, order);
}

static value *bias_gradient(gradient *g, int rank) {
    int64_t axes[MAX_RANK] = {0};
    for (int i = 2; i < rank; i++) axes[i - 1] = i;
    return with_int(G("ReduceSum", g->dy[0], insert_ints(g->at, axes, rank - 1)), "keepdims", 0);
}

static void conv(gradient *g) {
    value *x = g->of->in[0], *weight = g->of->in[1], *dy = g->dy[0];
    window w = window_of(g, x, weight);
    if (g->wanted[0]) {
        value *v = with_window(G("ConvTranspose", dy, weight), &w, w.strides, w.dilations);
        g->dx[0] = extended(g, with_int(v, "group", w.group), x);
    }
    if (g->wanted[1]) g->dx[1] = weight_gradient(g, &w, x, x, dy, weight);
    if (g->of->nin > 2 && g->wanted[2]) g->dx[2] = bias_gradient(g, x->type.rank);
}

static void conv_transpose(gradient *g) {
    value *x = g->of->in[0], *weight = g->of->in[1], *dy = g->dy[0];
    const char *mode = node_string(g->of, "auto_pad", "NOTSET");
    if (node_attr(g->of, "output_shape")) gradient_missing(g, "output_shape");
    if (strncmp(mode, "SAME_", 5) == 0) gradient_missing(g, "auto_pad");
    window w = window_of(g, x, weight);
    if (g->wanted[0]) {
        value *v = with_window(G("Conv", dy, weight), &w, w.strides, w.dilations);
        g->dx[0] = with_int(v, "group", w.group);
    }
    if (g->wanted[1]) g->dx[1] = weight_gradient(g, &w, dy, g->of->out[0], x, weight);
    if (g->of->nin > 2 && g->wanted[2]) g->dx[2] = bias_gradient(g, x->type.rank);
}

// The maximum's position receives the gradient: the first one, of equal elements.
static void max_pool(gradient *g) {
    if (node_int(g->of, "storage_order", 0)) gradient_missing(g, "storage_order 1");
    bool known = node_out(g->of, 1) != NULL;
    value *places = output_of(g->of->out[0], 1);
    if (!known) infer_node(g->of);
    g->dx[0] = gradient_scattered(g, g->dy[0], places, g->of->in[0]);
}

const gradient_rule gradient_window_rules[] = {
    {.op = "Conv", .apply = conv},
    {.op = "ConvTranspose", .apply = conv_transpose},
    {.op = "MaxPool", .apply = max_pool},
    {0},
};
