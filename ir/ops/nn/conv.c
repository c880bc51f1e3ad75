// Conv, ConvInteger, and the geometry of sliding windows, which pooling shares (contract.h).
//
//   for n, g, m, o...:  out[n, g*M + m, o...] = bias[g*M + m] +
//       sum over c, k... of x[n, g*C + c, o*stride - pad + k*dilation ...] * w[g*M + m, c, k...]
#include "ir/ops/contract.h"
#include "ir/ops/runtime_args.h"
#include <string.h>

// ---- Windows

void window_ints(const node *n, const char *name, int count, int64_t *out) {
    int given;
    const int64_t *v = node_ints(n, name, &given);
    if (v && given != count)
        infer_error(n, "attribute %s has %d values for %d spatial axes", name, given, count);
    for (int i = 0; i < count; i++) {
        out[i] = v ? v[i] : 1;
        if (out[i] < 1)
            infer_error(n, "attribute %s holds %lld; it must be positive", name, (long long)out[i]);
    }
}

// The extent of the dilated window in the input.
static dim *window_span(const window *w, int axis) {
    return dim_addk(dim_mulk(dim_addk(w->kernel[axis], -1), w->dilation[axis]), 1);
}

// Output size round_up(in / stride), with the padding distributed to both sides. If windows leave gaps, pools
// skip elements at both ends (the standard's formula gives negative padding), convolutions do not.
static void same_padding(window *w, int i, bool upper, bool pool) {
    dim *zero = dim_const(w->in[i]->table, 0), *two = dim_const(zero->table, 2);
    w->out[i] = dim_ceildiv(w->in[i], dim_const(zero->table, w->stride[i]));
    dim *covered = dim_add(dim_mulk(dim_addk(w->out[i], -1), w->stride[i]), window_span(w, i));
    dim *total = dim_sub(covered, w->in[i]);
    if (pool) {
        w->lo[i] = dim_truncdiv(upper ? total : dim_addk(total, 1), two);
    } else {
        total = dim_max(total, zero);
        w->lo[i] = dim_floordiv(upper ? total : dim_addk(total, 1), two);
    }
    w->hi[i] = dim_sub(total, w->lo[i]);
}

static void given_padding(window *w, int i, bool ceil) {
    dim *stride = dim_const(w->in[i]->table, w->stride[i]);
    dim *room = dim_sub(dim_add(w->in[i], dim_add(w->lo[i], w->hi[i])), window_span(w, i));
    if (!ceil) {
        w->out[i] = dim_addk(dim_floordiv(room, stride), 1);
        return;
    }
    dim *last =
        dim_ceildiv(room, stride); // number of the last window, which must start before the end padding
    dim *inside = dim_lt(dim_mul(last, stride), dim_add(w->in[i], w->lo[i]));
    w->out[i] = dim_add(last, inside);
}

auto_pad auto_pad_of(const node *n) {
    bool empty = !*node_string(n, "auto_pad", "");
    return empty ? PADS_GIVEN : (auto_pad)node_choice(n, "auto_pad", "NOTSET SAME_UPPER SAME_LOWER VALID");
}

static void check_pads(const node *n, auto_pad mode, int count, bool pool) {
    int given;
    const int64_t *pads = node_ints(n, "pads", &given);
    if (pads && given != 2 * count)
        infer_error(n, "attribute pads has %d values for %d spatial axes", given, count);
    for (int i = 0; i < given; i++) {
        if (pads[i] && mode != PADS_GIVEN)
            infer_error(n, "attributes auto_pad '%s' and pads are both given",
                        node_string(n, "auto_pad", ""));
        if (pads[i] < 0 && pool)
            infer_error(n, "attribute pads holds %lld; it must not be negative", (long long)pads[i]);
    }
}

// Reports a kernel for which the size of the result would be negative. A window that exceeds the padded image by
// at most a stride has an empty result.
static void check_fit(const node *n, const window *w, int i) {
    const dim *image = dim_add(w->in[i], dim_add(w->lo[i], w->hi[i])), *span = window_span(w, i);
    if (!dim_is_const(image) || !dim_is_const(span)) return;
    int64_t size = dim_value(span), room = dim_value(image);
    if (size - room > w->stride[i])
        infer_error(n, "the kernel has size %lld on spatial axis %d, but the padded image has size %lld",
                    (long long)size, i, (long long)room);
}

window window_of(const node *n, int count, dim *const *in, dim *const *kernel, bool pool) {
    window w = {.n = count};
    window_ints(n, "strides", count, w.stride);
    window_ints(n, "dilations", count, w.dilation);
    auto_pad mode = auto_pad_of(n);
    bool ceil = pool && node_int(n, "ceil_mode", 0) != 0, same = mode == SAME_UPPER || mode == SAME_LOWER;
    w.fits = !ceil && !same;
    int npads;
    const int64_t *pads = mode == PADS_GIVEN ? node_ints(n, "pads", &npads) : NULL;
    check_pads(n, mode, count, pool);
    for (int i = 0; i < count; i++) {
        w.in[i] = in[i];
        w.kernel[i] = kernel[i];
        w.lo[i] = infer_k(n, pads ? pads[i] : 0);
        w.hi[i] = infer_k(n, pads ? pads[count + i] : 0);
        if (same) same_padding(&w, i, mode == SAME_UPPER, pool);
        else given_padding(&w, i, ceil);
        if (!same && !ceil) check_fit(n, &w, i);
    }
    return w;
}

void window_taps(kernel *k, stage *s, const window *w, expr **tap) {
    for (int i = 0; i < w->n; i++)
        tap[i] = stage_own_axis(k, s, AXIS_REDUCE, arena_printf(k->arena, "k%d", i), w->kernel[i]);
}

expr *window_index(kernel *k, const window *w, expr *const *out, expr *const *tap, expr **index) {
    expr *guard = x_int(k, DT_BOOL, 1);
    for (int i = 0; i < w->n; i++) {
        dim *lo = w->lo[i], *zero = dim_const(lo->table, 0);
        expr *start = x_mul(k, out[i], x_i64(k, w->stride[i]));
        expr *at = x_add(k, start, x_mul(k, tap[i], x_i64(k, w->dilation[i])));
        at = x_sub(k, at, x_dim(k, lo));
        index[i] = at;
        dim *end = dim_add(dim_mulk(dim_addk(w->out[i], -1), w->stride[i]), dim_sub(window_span(w, i), lo));
        if (dim_less_equal(lo, zero) != TRI_YES) guard = x_and(k, guard, x_bin(k, X_LE, x_i64(k, 0), at));
        bool fits = w->fits && dim_less_equal(w->hi[i], zero) == TRI_YES;
        if (!fits && dim_less_equal(end, w->in[i]) != TRI_YES)
            guard = x_and(k, guard, x_lt(k, at, x_dim(k, w->in[i])));
    }
    return guard == x_int(k, DT_BOOL, 1) ? NULL : guard;
}

void window_check(lowering *l, const node *n, const window *w) {
    for (int i = 0; i < w->n; i++) {
        dim *d = w->out[i], *zero = dim_const(d->table, 0);
        if (dim_less_equal(zero, d) == TRI_YES) continue;
        lower_check(l, n, dim_sub(dim_const(d->table, 1), dim_lt(d, zero)),
                    arena_printf(l->program->arena, "spatial axis %d is smaller than the window", i));
    }
}

// ---- Convolutions

static window conv_window(const node *n, int x, int w) {
    const type *tx = infer_in(n, x), *tw = infer_in(n, w);
    return window_of(n, tx->rank - 2, tx->dims + 2, tw->dims + 2, false);
}

static int64_t conv_group(const node *n) {
    int64_t group = node_int(n, "group", 1);
    if (group < 1) infer_error(n, "attribute group is %lld", (long long)group);
    return group;
}

// kernel_shape is redundant with the shape of the weights.
static void check_kernel_shape(const node *n, int w) {
    int count;
    const int64_t *shape = node_ints(n, "kernel_shape", &count);
    const type *t = infer_in(n, w);
    if (!shape || !count) return;
    if (count != t->rank - 2)
        infer_error(n, "attribute kernel_shape has %d values for %d axes", count, t->rank - 2);
    for (int i = 0; i < count; i++) infer_same_dim(n, t->dims[i + 2], infer_k(n, shape[i]), "kernel_shape");
}

static void check_conv_ranks(const node *n, int x, int w) {
    int rank = infer_rank(n, x);
    if (rank < 3)
        infer_error(n, "the input has rank %d; it must have a batch, a channel and spatial axes", rank);
    if (infer_rank(n, w) != rank)
        infer_error(n, "the weights have rank %d, the input has rank %d", infer_rank(n, w), rank);
    check_kernel_shape(n, w);
}

int conv_dims(const node *n, int x, int w, dim **dims) {
    check_conv_ranks(n, x, w);
    const type *tx = infer_in(n, x), *tw = infer_in(n, w);
    int64_t group = conv_group(n);
    infer_same_dim(n, tx->dims[1], dim_mulk(tw->dims[1], group), "channels of input and weights");
    dim *remainder = dim_mod(tw->dims[0], infer_k(n, group));
    if (dim_is_const(tw->dims[0]) && !dim_is(remainder, 0))
        infer_error(n, "%lld output channels cannot be divided into %lld groups",
                    (long long)dim_value(tw->dims[0]), (long long)group);
    infer_same_dim(n, remainder, infer_k(n, 0), "output channels modulo groups");
    window win = conv_window(n, x, w);
    dims[0] = tx->dims[0], dims[1] = tw->dims[0];
    memcpy(dims + 2, win.out, (size_t)win.n * sizeof *dims);
    return tx->rank;
}

// The axes of batch, group, channel within the group, and space; sets the output's index and channel. Returns
// the group.
static expr *conv_outputs(conv *c, int64_t group, const buffer *out) {
    kernel *k = c->k;
    dim *per_group = dim_floordiv(out->dims[1], dim_const(out->dims[1]->table, group));
    c->index[0] = stage_own_axis(k, c->s, AXIS_PARALLEL, "n", out->dims[0]);
    expr *g = x_i64(k, 0);
    if (group > 1) g = stage_own_axis(k, c->s, AXIS_PARALLEL, "g", dim_const(per_group->table, group));
    expr *m = stage_own_axis(k, c->s, AXIS_PARALLEL, "m", per_group);
    c->channel = c->index[1] = x_add(k, x_mul(k, g, x_dim(k, per_group)), m);
    for (int i = 2; i < out->rank; i++)
        c->index[i] =
            stage_own_axis(k, c->s, AXIS_PARALLEL, arena_printf(k->arena, "o%d", i - 2), out->dims[i]);
    return g;
}

// Of weights: 0 in the padding times an infinity or NaN is NaN.
static bool are_finite(const node *n, const buffer *w) {
    if (!dtype_is_float(w->dtype)) return true;
    const value *v = n->in[1];
    bool dequantised =
        v->def && node_is(v->def, "DequantizeLinear") && !dtype_is_float(infer_in(v->def, 0)->elem);
    if (dequantised) v = v->def->in[1]; // its scale
    return v->constant && constant_is_finite(v->constant);
}

// The taps of spatial axis i from `first` to `end` that are inside the image for some output: of an image of one pixel
// one alone. False: it is not known, or all of them are.
static bool inner_taps(const window *w, int i, int64_t *first, int64_t *end) {
    const dim *sizes[] = {w->in[i], w->out[i], w->kernel[i], w->lo[i], w->hi[i]};
    for (int j = 0; j < 5; j++)
        if (!dim_is_const(sizes[j])) return false;
    int64_t lo = dim_value(w->lo[i]), all = dim_value(w->kernel[i]), step = w->dilation[i];
    int64_t before =
        lo - (dim_value(w->out[i]) - 1) * w->stride[i]; // pixels in front of the last window's image
    int64_t reach = dim_value(w->in[i]) - 1 + lo;       // of the first window
    *first = before > 0 ? (before - 1) / step + 1 : 0;
    *end = reach < 0 ? 0 : reach / step + 1;
    if (*end > all) *end = all;
    return *first < *end && *end - *first < all;
}

// Leaves out the taps at the ends that are outside the image for all outputs; returns in `first` the number of those in front.
static void trim_taps(const node *n, const buffer *weights, window *w, int64_t *first) {
    for (int i = 0; i < w->n; i++) {
        int64_t end, all;
        if (!inner_taps(w, i, &first[i], &end) || !are_finite(n, weights)) {
            first[i] = 0;
            continue;
        }
        all = dim_value(w->kernel[i]);
        w->kernel[i] = dim_const(w->kernel[i]->table, end - first[i]);
        w->lo[i] = dim_addk(w->lo[i], -first[i] * w->dilation[i]);
        w->hi[i] = dim_addk(w->hi[i], -(all - end) * w->dilation[i]);
    }
}

conv conv_begin(lowering *l, const node *n, buffer *x, buffer *w, buffer *out) {
    window win = window_of(n, x->rank - 2, x->dims + 2, w->dims + 2, false);
    window_check(l, n, &win);
    int64_t first[MAX_RANK];
    trim_taps(n, w, &win, first);
    conv c = {.k = lower_kernel(l, n, NULL)};
    kernel *k = c.k;
    c.s = kernel_stage(k);
    expr *g = conv_outputs(&c, conv_group(n), out), *tap[MAX_RANK];
    expr *in = stage_own_axis(k, c.s, AXIS_REDUCE, "c", w->dims[1]);
    window_taps(k, c.s, &win, tap);
    c.x[0] = c.index[0];
    c.x[1] = x_add(k, x_mul(k, g, x_dim(k, w->dims[1])), in);
    c.guard = window_index(k, &win, c.index + 2, tap, c.x + 2);
    c.w[0] = c.channel, c.w[1] = in;
    for (int i = 0; i < win.n; i++) c.w[i + 2] = x_add(k, tap[i], x_i64(k, first[i]));
    return c;
}

expr *conv_param(conv *c, buffer *param) { return read_broadcast(c->k, param, &c->channel, 1); }

void conv_check_param(const node *n, int i, dim *channels) {
    if (node_in(n, i)) infer_broadcast_into(n, i, 1, &channels, "scale or zero point");
}

static void conv_infer(node *n) {
    dim *dims[MAX_RANK];
    int rank = conv_dims(n, 0, 1, dims);
    infer_shape(n, 2, "the bias", 1, &dims[1], "bias size and output channels");
    infer_set(n, 0, infer_in(n, 0)->elem, rank, dims);
}

static void conv_lower(lowering *l, node *n) {
    buffer *x = lower_in(l, n, 0), *w = lower_in(l, n, 1), *bias = lower_in(l, n, 2),
           *out = lower_out(l, n, 0);
    conv c = conv_begin(l, n, x, w, out);
    expr *term = x_mul(c.k, x_read_guarded(c.k, x, c.x, c.guard, NULL), x_read(c.k, w, c.w));
    expr *v = stage_reduce(c.k, c.s, RED_SUM, term);
    if (bias) v = x_add(c.k, v, x_read(c.k, bias, &c.channel));
    stage_write(c.k, c.s, out, c.index, v);
}

OPERATOR(Conv, .infer = conv_infer, .lower = conv_lower);

// ---- ConvInteger

static void conv_integer_infer(node *n) {
    dim *dims[MAX_RANK];
    int rank = conv_dims(n, 0, 1, dims);
    infer_one_element(n, 2, "zero points of the input");
    conv_check_param(n, 3, dims[1]);
    infer_set(n, 0, DT_I32, rank, dims);
}

static void conv_integer_lower(lowering *l, node *n) {
    buffer *x = lower_in(l, n, 0), *w = lower_in(l, n, 1), *out = lower_out(l, n, 0);
    buffer *zx = quant_zero_point(l, n, 2), *zw = quant_zero_point(l, n, 3);
    conv c = conv_begin(l, n, x, w, out);
    stage_write(c.k, c.s, out, c.index, quant_conv_sum(&c, x, zx, w, zw));
}

OPERATOR(ConvInteger, .infer = conv_integer_infer, .lower = conv_integer_lower);
