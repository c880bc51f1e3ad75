// ConvTranspose: the gradient of a convolution with respect to its input, in gather form: each output element
// sums over the kernel positions that the stride maps to an input element.
//
//   for n, g, m, o...:  out[n, g*M + m, o...] = bias[g*M + m] +
//       sum over c, k... where (o + pad - k*dilation) is i*stride with i inside the input
//           of x[n, g*C + c, i...] * w[g*C + c, m, k...]
//
// Few output channels leave most lanes of vectors of channels empty. On CPUs with vectors, their sums over c come first, as a product
// of matrices with a column for each i, which Col2Im adds up:
//
//   p[n, m and k..., i...] = sum over c of w[c, m, k...] * x[n, c, i...]
//
// An image of a single place, as the first one of a generator, is such a product alone:
//
//   out[n, m and k...] = sum over c of x[n, c] * w[c, m and k...]
#include "compiler/base/integers.h"
#include "ir/ops/contract.h"
#include "ir/ops/decompose.h"
#include "ir/ops/runtime_args.h"
#include <string.h>

typedef struct conv_transpose {
    int n;
    int64_t group;
    dim *in[MAX_RANK], *kernel[MAX_RANK], *out[MAX_RANK], *lo[MAX_RANK];
    int64_t stride[MAX_RANK], dilation[MAX_RANK];
} conv_transpose;

static void optional_ints(const node *n, const char *name, int count, int most, int64_t *out) {
    int given;
    const int64_t *v = node_ints(n, name, &given);
    if (given && given != count && given != most)
        infer_error(n, "attribute %s has %d values for %d spatial axes", name, given, count);
    const int64_t largest = INT64_C(1) << 40; // so that sums do not overflow
    for (int i = 0; i < given; i++)
        if (v[i] > largest || v[i] < -largest)
            infer_error(n, "attribute %s has the value %lld", name, (long long)v[i]);
    for (int i = 0; i < most; i++) out[i] = i < given ? v[i] : 0;
}

// The size before padding is subtracted: stride * (in - 1) + output_padding + extent of the kernel.
static dim *full_size(const conv_transpose *t, int i, int64_t extra) {
    dim *span = dim_mulk(dim_addk(t->kernel[i], -1), t->dilation[i]);
    return dim_addk(dim_add(dim_mulk(dim_addk(t->in[i], -1), t->stride[i]), span), extra + 1);
}

// The padding that leaves `wanted` of the full size, distributed to both sides; returns the size that is left, which
// is less than `wanted` where padding would have to be negative.
static dim *fit_padding(conv_transpose *t, int i, int64_t extra, dim *wanted, bool upper) {
    dim *full = full_size(t, i, extra);
    dim *total = dim_max(dim_sub(full, wanted), dim_const(wanted->table, 0));
    dim *less = dim_floordiv(total, dim_const(wanted->table, 2));
    t->lo[i] = upper ? less : dim_sub(total, less);
    return dim_sub(full, total);
}

static conv_transpose transposed_of(const node *n) {
    const type *x = infer_in(n, 0), *w = infer_in(n, 1);
    conv_transpose t = {.n = x->rank - 2, .group = node_int(n, "group", 1)};
    int64_t pads[2 * MAX_RANK], extra[MAX_RANK], wanted[2 * MAX_RANK];
    int nwanted;
    window_ints(n, "strides", t.n, t.stride);
    window_ints(n, "dilations", t.n, t.dilation);
    optional_ints(n, "pads", 2 * t.n, 2 * t.n, pads);
    optional_ints(n, "output_padding", t.n, t.n, extra);
    // Some exporters include batch and channels in output_shape.
    optional_ints(n, "output_shape", t.n, t.n + 2, wanted);
    node_ints(n, "output_shape", &nwanted);
    auto_pad mode = auto_pad_of(n);
    bool upper = mode == SAME_UPPER, valid = mode == VALID;
    for (int i = 0; i < t.n; i++) {
        t.in[i] = x->dims[i + 2], t.kernel[i] = w->dims[i + 2];
        int64_t lo = valid ? 0 : pads[i], hi = valid ? 0 : pads[t.n + i];
        // Beyond the full size output_shape has zeros at the end. SAME stops there, as in ONNX's shape inference.
        if (nwanted) {
            t.out[i] = infer_k(n, wanted[nwanted - t.n + i]);
            fit_padding(&t, i, extra[i], t.out[i], upper);
        } else if (upper || mode == SAME_LOWER)
            t.out[i] = fit_padding(&t, i, extra[i], dim_mulk(t.in[i], t.stride[i]), upper);
        else t.lo[i] = infer_k(n, lo), t.out[i] = dim_addk(full_size(&t, i, extra[i]), -lo - hi);
    }
    return t;
}

static void conv_transpose_infer(node *n) {
    int rank = infer_rank(n, 0);
    if (rank < 3)
        infer_error(n, "the input has rank %d; it must have a batch, a channel and spatial axes", rank);
    if (infer_rank(n, 1) != rank)
        infer_error(n, "the weights have rank %d, the input has rank %d", infer_rank(n, 1), rank);
    conv_transpose t = transposed_of(n);
    if (t.group < 1) infer_error(n, "attribute group is %lld", (long long)t.group);
    const type *x = infer_in(n, 0), *w = infer_in(n, 1);
    infer_same_dim(n, x->dims[1], w->dims[0], "channels of input and weights");
    infer_same_dim(n, dim_mod(w->dims[0], infer_k(n, t.group)), infer_k(n, 0),
                   "input channels modulo groups");
    dim *dims[MAX_RANK] = {x->dims[0], dim_mulk(w->dims[1], t.group)};
    memcpy(dims + 2, t.out, (size_t)t.n * sizeof *dims);
    infer_shape(n, 2, "the bias", 1, &dims[1], "bias size and output channels");
    infer_set(n, 0, x->elem, rank, dims);
}

// The output positions o = stride * q + at + r, r < run, of adjacent phases per axis; `whole` axes have all
// positions.
typedef struct phase {
    bool whole[MAX_RANK];
    int64_t at[MAX_RANK], run[MAX_RANK];
} phase;

typedef struct builder {
    kernel *k;
    stage *s;
    const conv_transpose *t;
    expr *index[MAX_RANK], *x[MAX_RANK], *w[MAX_RANK];
    expr *guard, *store; // guard of the reads, of the write
} builder;

static expr *add_axis(builder *b, axis_kind kind, const char *name, dim *extent) {
    return stage_own_axis(b->k, b->s, kind, name, extent);
}

static void guard_range(builder *b, expr *at, dim *extent) {
    kernel *k = b->k;
    b->guard = x_and(k, b->guard, x_inside(k, at, extent));
}

// All positions of an axis at once: the guard includes the remainder modulo the stride.
static void whole_axis(builder *b, int i, expr *o, expr *tap) {
    kernel *k = b->k;
    const conv_transpose *t = b->t;
    expr *from = x_sub(k, x_add(k, o, x_dim(k, t->lo[i])), x_mul(k, tap, x_i64(k, t->dilation[i])));
    expr *stride = x_i64(k, t->stride[i]);
    b->guard = x_and(k, b->guard, x_bin(k, X_EQ, x_bin(k, X_MOD, from, stride), x_i64(k, 0)));
    b->x[i + 2] = x_bin(k, X_FLOORDIV, from, stride);
    b->w[i + 2] = tap;
    guard_range(b, b->x[i + 2], t->in[i]);
}

// One phase: k = first + step * tap are the kernel positions that meet inputs, at i = q + base - back * tap.
typedef struct stripe {
    int64_t first, step, base, back, taps;
} stripe;

// Requires constant padding and kernel size. False if no position of the kernel meets an input.
static bool stripe_of(const conv_transpose *t, int i, int64_t at, stripe *s) {
    int64_t stride = t->stride[i], dilation = t->dilation[i], kernel = dim_value(t->kernel[i]);
    int64_t common = int_gcd(stride, dilation), from = at + dim_value(t->lo[i]);
    s->step = stride / common, s->back = dilation / common;
    for (s->first = 0; s->first < s->step && s->first < kernel; s->first++) {
        if ((from - s->first * dilation) % stride) continue;
        s->base = (from - s->first * dilation) / stride;
        s->taps = (kernel - s->first + s->step - 1) / s->step;
        return true;
    }
    return false;
}

static bool stripe_is_known(const conv_transpose *t, int i) {
    return dim_is_const(t->lo[i]) && dim_is_const(t->kernel[i]);
}

static void phase_axis(builder *b, int i, const stripe *s, expr *q, expr *r, expr *tap) {
    kernel *k = b->k;
    b->w[i + 2] = x_add(k, x_add(k, x_mul(k, tap, x_i64(k, s->step)), x_i64(k, s->first)), r);
    b->x[i + 2] = x_sub(k, x_add(k, q, x_i64(k, s->base)), x_mul(k, tap, x_i64(k, s->back)));
    guard_range(b, b->x[i + 2], b->t->in[i]);
}

static void channel_axes(builder *b, const buffer *w, const buffer *out, expr **g) {
    kernel *k = b->k;
    b->index[0] = add_axis(b, AXIS_PARALLEL, "n", out->dims[0]);
    *g = x_i64(k, 0);
    if (b->t->group > 1) *g = add_axis(b, AXIS_PARALLEL, "g", dim_const(out->dims[0]->table, b->t->group));
    b->w[1] = add_axis(b, AXIS_PARALLEL, "m", w->dims[1]);
    b->index[1] = x_add(k, x_mul(k, *g, x_dim(k, w->dims[1])), b->w[1]);
}

static dim *phase_extent(const conv_transpose *t, const phase *p, int i) {
    if (p->whole[i]) return t->out[i];
    return dim_ceildiv(dim_addk(t->out[i], -p->at[i]), dim_const(t->out[i]->table, t->stride[i]));
}

static void space_axes(builder *b, const phase *p, const stripe *stripes, dim *channels, expr *g) {
    kernel *k = b->k;
    const conv_transpose *t = b->t;
    expr *q[MAX_RANK], *r[MAX_RANK];
    for (int i = 0; i < t->n; i++) {
        q[i] = add_axis(b, AXIS_PARALLEL, arena_printf(k->arena, "o%d", i), phase_extent(t, p, i));
        b->index[i + 2] = q[i], r[i] = x_i64(k, 0);
        if (p->whole[i]) continue;
        if (p->run[i] > 1) r[i] = add_axis(b, AXIS_PARALLEL, "r", dim_const(channels->table, p->run[i]));
        b->index[i + 2] =
            x_add(k, x_add(k, x_mul(k, q[i], x_i64(k, t->stride[i])), x_i64(k, p->at[i])), r[i]);
    }
    expr *c = add_axis(b, AXIS_REDUCE, "c", channels);
    b->x[0] = b->index[0];
    b->x[1] = b->w[0] = x_add(k, x_mul(k, g, x_dim(k, channels)), c);
    for (int i = 0; i < t->n; i++) {
        dim *taps = p->whole[i] ? t->kernel[i] : dim_const(channels->table, stripes[i].taps);
        expr *tap = add_axis(b, AXIS_REDUCE, arena_printf(k->arena, "k%d", i), taps);
        if (p->whole[i]) whole_axis(b, i, q[i], tap);
        else phase_axis(b, i, &stripes[i], q[i], r[i], tap);
    }
}

static void lower_phase(lowering *l, const node *n, const conv_transpose *t, const phase *p,
                        const char *suffix) {
    buffer *x = lower_in(l, n, 0), *w = lower_in(l, n, 1), *bias = lower_in(l, n, 2),
           *out = lower_out(l, n, 0);
    builder b = {.k = lower_kernel(l, n, suffix), .t = t};
    b.s = kernel_stage(b.k);
    b.guard = x_int(b.k, DT_BOOL, 1);
    stripe stripes[MAX_RANK];
    bool meets = true;
    for (int i = 0; i < t->n; i++)
        if (!p->whole[i] && !stripe_of(t, i, p->at[i], &stripes[i]))
            meets = false, stripes[i] = (stripe){.step = 1};
    dim *channels = dim_floordiv(w->dims[0], dim_const(w->dims[0]->table, t->group));
    expr *g;
    channel_axes(&b, w, out, &g);
    space_axes(&b, p, stripes, meets ? channels : dim_const(channels->table, 0), g);
    expr *term = x_mul(b.k, x_read_guarded(b.k, x, b.x, b.guard, NULL), x_read(b.k, w, b.w));
    expr *v = stage_reduce(b.k, b.s, RED_SUM, term);
    if (bias) v = x_add(b.k, v, x_read(b.k, bias, &b.index[1]));
    stage_write(b.k, b.s, out, b.index, v);
}

// Beyond MOST_PHASES, or if there is only one channel to compute, which vectors of channels would waste,
// adjacent phases are positions of an axis.
enum { MOST_PHASES = 64, MANY_PHASES = 8, LONGEST_RUN = 4096 };

// Whether phase at + n of an axis reads the same inputs as phase `at`, at the next positions of the kernel.
static bool continues(const conv_transpose *t, int i, int64_t at, int64_t n) {
    phase a = {.at = {0}}, b = a;
    stripe s = {0}, r = {0};
    a.at[i] = at, b.at[i] = at + n;
    bool meets = stripe_of(t, i, at, &s);
    if (stripe_of(t, i, at + n, &r) != meets) return false;
    if (dim_equal(phase_extent(t, &a, i), phase_extent(t, &b, i)) != TRI_YES) return false;
    return !meets || (r.first == s.first + n && r.base == s.base && r.taps == s.taps && s.back == 1);
}

static int64_t run_from(const conv_transpose *t, int i, int64_t at) {
    int64_t n = 1;
    while (at + n < t->stride[i] && continues(t, i, at, n)) n++;
    return n;
}

// Kernels for the phases of axis i and of the axes after it; number: of the phases of the axes before.
static void lower_phases(lowering *l, const node *n, const conv_transpose *t, phase *p, const bool *runs,
                         int i, int number) {
    if (i == t->n) {
        bool all = true;
        for (int j = 0; j < t->n; j++) all &= p->whole[j] || p->run[j] == t->stride[j];
        lower_phase(l, n, t, p, all ? NULL : arena_printf(l->program->arena, "phase%d", number));
        return;
    }
    int64_t phases = p->whole[i] ? 1 : t->stride[i];
    for (int64_t at = 0; at < phases; at += p->run[i]) {
        p->at[i] = at;
        p->run[i] = runs[i] ? run_from(t, i, at) : 1;
        lower_phases(l, n, t, p, runs, i + 1, number * (int)phases + (int)at);
    }
}

// Kernels per phase, or run of phases, of the strides keep the indices affine and skip the zeros between
// inputs. With sizes unknown at compile time, axes are computed whole.
static void conv_transpose_lower(lowering *l, node *n) {
    conv_transpose t = transposed_of(n);
    phase p = {{0}};
    bool runs[MAX_RANK] = {0}, one = t.group == 1 && dim_is(lower_in(l, n, 1)->dims[1], 1);
    int64_t phases = 1;
    for (int i = 0; i < t.n; i++) {
        p.whole[i] = !stripe_is_known(&t, i);
        if (p.whole[i]) continue;
        bool many = t.stride[i] > MOST_PHASES / phases;
        runs[i] = t.dilation[i] == 1 && t.stride[i] <= LONGEST_RUN &&
                  (many || (one && i == t.n - 1 && t.stride[i] >= MANY_PHASES));
        p.whole[i] = many && !runs[i];
        if (!p.whole[i] && !runs[i]) phases *= t.stride[i];
    }
    lower_phases(l, n, &t, &p, runs, 0, 0);
}

// ---------------------------------------------------------------- as a product
// The sizes of an image, each a number of strides more than that of the input, and its padding.
typedef struct overlap {
    int64_t more[MAX_RANK], pads[2 * MAX_RANK];
} overlap;

// False: the run computes them otherwise, or padding is negative.
static bool overlap_of(const conv_transpose *t, overlap *o) {
    for (int i = 0; i < t->n; i++) {
        dim *more = dim_sub(t->out[i], dim_mulk(t->in[i], t->stride[i]));
        if (!stripe_is_known(t, i) || !dim_is_const(more) || dim_value(t->lo[i]) < 0) return false;
        int64_t span = (dim_value(t->kernel[i]) - 1) * t->dilation[i] + 1;
        o->more[i] = dim_value(more), o->pads[i] = dim_value(t->lo[i]);
        // So that the last block begins at the last stride.
        o->pads[t->n + i] = span - t->stride[i] - o->more[i] - o->pads[i];
    }
    return true;
}

// Integers that are multiplied stay so.
static bool multiplies_floats(const node *n, const conv_transpose *t) {
    dtype elem = infer_in(n, 0)->elem;
    for (int i = 0; i < 2; i++)
        if (n->in[i]->def && node_is(n->in[i]->def, "DequantizeLinear")) return false;
    return t->group == 1 && (elem == DT_F32 || elem == DT_F64);
}

// Whether the product gains more than its result, written and read once more, costs.
static bool multiplies_well(const node *n, const conv_transpose *t) {
    enum { FEW = 4, LEAST_CHANNELS = 8, LEAST_COLUMNS = 16, MOST_GROWTH = 16 };
    const type *w = infer_in(n, 1);
    dim *columns = dim_product(infer_dims(n), t->in, t->n),
        *rows = dim_product(infer_dims(n), w->dims + 1, t->n + 1);
    bool open = t->n == 1 || dim_is_const(columns);
    return dim_is_const(w->dims[0]) && dim_is_const(rows) && open && w->dims[0]->min >= LEAST_CHANNELS &&
           w->dims[1]->max <= FEW && columns->max >= LEAST_COLUMNS && rows->min >= 1 &&
           rows->max <= MOST_GROWTH * w->dims[0]->min;
}

// Whether the image has a single place, whose kernel is the result.
static bool is_single_place(const node *n, const conv_transpose *t) {
    const type *w = infer_in(n, 1);
    dim *size = dim_product(infer_dims(n), w->dims, t->n + 2);
    for (int i = 0; i < t->n; i++)
        if (!dim_is(t->in[i], 1) || !dim_is(t->lo[i], 0) || t->out[i] != t->kernel[i]) return false;
    return dim_is_const(size) && dim_value(size) > 0;
}

// The dims of a matrix from axis `from` on, which are known: all in one.
static value *as_columns(node *n, value *v, int from) {
    int64_t sizes[MAX_RANK] = {0}, count = 1;
    const type *t = &v->type;
    if (t->rank == from + 1) return v;
    for (int j = from; j < t->rank; j++) count *= dim_value(t->dims[j]);
    sizes[from] = count;
    return reshaped(n, v, from + 1, sizes);
}

static value *add_bias(node *n, const conv_transpose *t, value *y) {
    int64_t shape[MAX_RANK] = {-1};
    for (int i = 1; i <= t->n; i++) shape[i] = 1;
    return node_in(n, 2) ? NODE(n, "Add", y, reshaped(n, n->in[2], t->n + 1, shape)) : y;
}

static value *product_of_place(node *n, const conv_transpose *t) {
    int64_t shape[MAX_RANK] = {0};
    for (int i = 0; i <= t->n; i++) shape[1 + i] = dim_value(infer_in(n, 1)->dims[1 + i]);
    value *p = NODE(n, "MatMul", as_columns(n, n->in[0], 1), as_columns(n, n->in[1], 1));
    return reshaped(n, p, t->n + 2, shape);
}

static value *product_of_image(node *n, const conv_transpose *t, const overlap *o) {
    int64_t kernel[MAX_RANK];
    for (int i = 0; i < t->n; i++) kernel[i] = dim_value(t->kernel[i]);
    value *image = NODE(n, "Mul", shape_part(n, n->in[0], 2, INT64_MAX), insert_ints(n, t->stride, t->n));
    image = NODE(n, "Add", image, insert_ints(n, o->more, t->n));
    value *w = transposed(n, as_columns(n, n->in[1], 1), 2, (int64_t[]){1, 0});
    value *p = NODE(n, "MatMul", w, as_columns(n, n->in[0], 2));
    value *y = NODE(n, "Col2Im", p, image, insert_ints(n, kernel, t->n));
    with_ints(y, "strides", t->n, t->stride);
    with_ints(y, "dilations", t->n, t->dilation);
    with_ints(y, "pads", 2 * t->n, o->pads);
    return y;
}

static bool conv_transpose_as_product(node *n) {
    conv_transpose t = transposed_of(n);
    overlap o;
    if (!multiplies_floats(n, &t)) return false;
    bool single = is_single_place(n, &t);
    if (!single && !(multiplies_well(n, &t) && overlap_of(&t, &o))) return false;
    give_output(n, 0, add_bias(n, &t, single ? product_of_place(n, &t) : product_of_image(n, &t, &o)));
    return true;
}

OPERATOR(ConvTranspose, .infer = conv_transpose_infer, .lower = conv_transpose_lower,
         .as_product = conv_transpose_as_product);
