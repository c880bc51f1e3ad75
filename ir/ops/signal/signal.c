// DFT, STFT and MelWeightMatrix. Signals have any length on one axis, and are real or complex. If the axis is
// known only at run time, tensors are viewed with three axes: the product of the dims before the axis, the
// axis, and the product of the dims after it.
#include "ir/ops/signal/fourier.h"
#include <string.h>

static dim *spectrum_size(dim *length, bool onesided) {
    return onesided ? dim_addk(dim_floordiv(length, dim_const(length->table, 2)), 1) : length;
}

// The only element of argument i as a dim, possibly a runtime symbol. NULL: left out.
static dim *scalar_argument(node *n, int i) {
    int count;
    if (!node_in(n, i)) return NULL;
    dim **v = infer_contents_or_opaque(n, i, &count);
    if (!v || count != 1) infer_error(n, "input %d must be a single integer", i);
    return v[0];
}

static void check_complex(const node *n, const type *x) {
    const dim *last = x->dims[x->rank - 1];
    if (dim_is_const(last) && !dim_is(last, 1) && !dim_is(last, 2))
        infer_error(n, "the last axis has size %s; it must be 1 (real) or 2 (complex)",
                    dim_text(infer_arena(n), last));
}

static void lower_check_complex(lowering *l, const node *n, bool real_only) {
    const type *x = infer_in(n, 0);
    dim *last = x->dims[x->rank - 1], *one = dim_const(last->table, 1), *two = dim_const(last->table, 2);
    dim *holds = real_only ? dim_eq(last, one) : dim_or(dim_eq(last, one), dim_eq(last, two));
    lower_check(l, n, holds, "the last axis must have size 1 (real), or 2 (complex) where that is allowed");
}

// The real and imaginary parts of an element of f's signal; `at` has room for the last index.
static complex_expr read_parts(const transform *f, kernel *k, expr **at, expr *guard) {
    dim *last = f->x->dims[f->x->rank - 1];
    expr **part = &at[f->x->rank - 1];
    *part = x_i64(k, 0);
    complex_expr v = {x_cast(k, x_read_guarded(k, f->x, at, guard, NULL), f->t, false), NULL};
    if (dim_is(last, 1)) return v;
    expr *second = dim_is(last, 2) ? NULL : x_lt(k, x_i64(k, 1), x_dim(k, last));
    guard = x_both(k, guard, second);
    *part = x_i64(k, 1);
    v.im = x_cast(k, x_read_guarded(k, f->x, at, guard, NULL), f->t, false);
    return v;
}

// ---------------------------------------------------------------- DFT
typedef struct dft {
    dim *axis, *size; // of the signals, in [0, rank - 2]; size of that axis
    dim *length;
    bool inverse, onesided;
} dft;

static dim *dft_axis(node *n, int rank) {
    dim *axis = scalar_argument(n, 2);
    if (!axis) return infer_k(n, rank - 2);
    if (!dim_is_const(axis)) return dim_select(dim_lt(axis, infer_k(n, 0)), dim_addk(axis, rank), axis);
    int known = infer_axis(n, dim_value(axis), rank);
    if (known == rank - 1) infer_error(n, "the axis is the one of real and imaginary parts");
    return infer_k(n, known);
}

static dft dft_of(node *n) {
    int rank = infer_rank(n, 0);
    const type *x = infer_in(n, 0);
    if (rank < 2) infer_error(n, "the input has rank %d; it must be 2 or more", rank);
    check_complex(n, x);
    dft d = {.inverse = node_int(n, "inverse", 0) != 0, .onesided = node_int(n, "onesided", 0) != 0};
    d.axis = dft_axis(n, rank), d.size = x->dims[0];
    for (int j = 1; j < rank - 1; j++) d.size = dim_select(dim_eq(d.axis, infer_k(n, j)), x->dims[j], d.size);
    d.length = scalar_argument(n, 1);
    if (!d.length && d.inverse && d.onesided) d.length = dim_mulk(dim_addk(d.size, -1), 2);
    else if (!d.length) d.length = d.size;
    if (d.length->max < 1) infer_error(n, "the length is not positive");
    if (d.onesided && !d.inverse && dim_is(x->dims[rank - 1], 2))
        infer_error(n, "a one-sided spectrum needs a real input");
    return d;
}

static void dft_sizes(node *n, const dft *d, dim **sizes) {
    const type *x = infer_in(n, 0);
    dim *kept = spectrum_size(d->length, d->onesided && !d->inverse);
    for (int j = 0; j < x->rank - 1; j++)
        sizes[j] = dim_select(dim_eq(d->axis, infer_k(n, j)), kept, x->dims[j]);
    sizes[x->rank - 1] = infer_k(n, d->onesided && d->inverse ? 1 : 2);
}

static void dft_infer(node *n) {
    dft d = dft_of(n);
    dim *sizes[MAX_RANK];
    dft_sizes(n, &d, sizes);
    infer_set(n, 0, infer_in(n, 0)->elem, infer_in(n, 0)->rank, sizes);
}

// x at index, zero-padded.
static complex_expr read_signal(const transform *f, kernel *k, expr *const *index, expr *guard) {
    expr *at[MAX_RANK];
    memcpy(at, index, (size_t)f->rank * sizeof *at);
    dim *size = f->x->dims[f->axis];
    if (dim_less_equal(f->length, size) != TRI_YES)
        guard = x_both(k, guard, x_lt(k, at[f->axis], x_dim(k, size)));
    return read_parts(f, k, at, guard);
}

// A one-sided spectrum: frequency k past the middle is the conjugate of N - k.
static complex_expr read_half(const transform *f, kernel *k, expr *const *index, expr *guard) {
    expr *at[MAX_RANK], *length = x_dim(k, f->length), *i = index[f->axis];
    memcpy(at, index, (size_t)f->rank * sizeof *at);
    expr *past = x_lt(k, x_dim(k, dim_floordiv(f->length, dim_const(f->length->table, 2))), i);
    at[f->axis] = x_select(k, past, x_sub(k, length, i), i);
    guard = x_both(k, guard, x_lt(k, at[f->axis], x_dim(k, f->x->dims[f->axis])));
    complex_expr v = read_parts(f, k, at, guard);
    if (v.im) v.im = x_select(k, past, x_un(k, X_NEG, v.im), v.im);
    return v;
}

// b viewed as [before, axis, after, parts] around an axis known only at run time.
static buffer *around_axis(lowering *l, buffer *b, dim *axis) {
    dims *t = axis->table;
    dim *one = dim_const(t, 1), *sizes[] = {one, one, one, b->dims[b->rank - 1]};
    for (int j = 0; j < b->rank - 1; j++) {
        dim *at = dim_const(t, j), *is[] = {dim_lt(at, axis), dim_eq(at, axis), dim_lt(axis, at)};
        for (int i = 0; i < 3; i++) sizes[i] = dim_mul(sizes[i], dim_select(is[i], b->dims[j], one));
    }
    return program_view(l->program, b, arena_printf(l->program->arena, "%s.signals", b->name), 4, sizes);
}

static void dft_lower(lowering *l, node *n) {
    lower_arguments(l, n);
    dft d = dft_of(n);
    dim *sizes[MAX_RANK];
    transform f = {.l = l, .n = n, .x = lower_in(l, n, 0), .length = d.length};
    f.t = dtype_compute(f.x->dtype) == DT_F64 ? DT_F64 : DT_F32;
    f.inverse = d.inverse;
    f.real = d.onesided && d.inverse;
    f.kept = spectrum_size(d.length, d.onesided && !d.inverse);
    f.read = f.real ? read_half : read_signal;
    lower_check(l, n, dim_at_most(infer_k(n, 0), d.axis), "the axis is out of range for the input's rank");
    lower_check(l, n, dim_lt(d.axis, infer_k(n, f.x->rank - 1)), "the axis is not an axis of the signal");
    lower_check_size(l, n, f.kept, "the length is negative");
    lower_check_complex(l, n, d.onesided && !d.inverse);
    dft_sizes(n, &d, sizes);
    lower_sizes(l, n, sizes);
    f.out = lower_out(l, n, 0);
    if (!dim_is_const(d.axis)) {
        f.x = around_axis(l, f.x, d.axis), f.out = around_axis(l, f.out, d.axis);
        d.axis = infer_k(n, 1);
    }
    f.axis = (int)dim_value(d.axis), f.rank = f.x->rank - 1;
    for (int j = 0; j < f.rank; j++) f.dims[j] = f.x->dims[j];
    run_transform(&f);
}

// Before version 20 the axis was an attribute.
static void dft_upgrade_20(node *n) {
    upgrade_set_input(n, 2, value_int64(n->graph, node_int(n, "axis", 1)));
    node_remove_attr(n, "axis");
}

static bool dft_undo_20(node *as) {
    const constant *axis = downgrade_constant(as, 2);
    if (node_in(as, 2) && !axis) return false;
    upgrade_set_int(as, "axis", axis ? constant_int(axis, 0) : -2);
    downgrade_set_input(as, 2, NULL);
    return true;
}

OPERATOR(DFT, .upgrades = {{20, dft_upgrade_20, dft_undo_20}}, .infer = dft_infer, .lower = dft_lower);

// ---------------------------------------------------------------- STFT
typedef struct stft {
    dim *step, *length, *frames, *kept;
} stft;

static stft stft_of(node *n) {
    const type *x = infer_in(n, 0);
    if (infer_rank(n, 0) != 3) infer_error(n, "the signal has rank %d, not 3", x->rank);
    check_complex(n, x);
    stft s = {.step = scalar_argument(n, 1), .length = scalar_argument(n, 3)};
    if (node_in(n, 2)) {
        if (infer_rank(n, 2) != 1) infer_error(n, "the window has rank %d, not 1", infer_rank(n, 2));
        dim *window = infer_in(n, 2)->dims[0];
        s.length = s.length ? infer_same_dim(n, window, s.length, "window and frame_length") : window;
    }
    if (!s.length) s.length = x->dims[1];
    if (s.step->max < 1)
        infer_error(n, "the frame step is %s; it must be positive", dim_text(infer_arena(n), s.step));
    bool onesided = node_int(n, "onesided", 1) != 0;
    if (onesided && dim_is(x->dims[2], 2)) infer_error(n, "a one-sided spectrum needs a real signal");
    dim *room = dim_sub(x->dims[1], s.length), *zero = infer_k(n, 0);
    s.frames = dim_max(dim_addk(dim_floordiv(room, s.step), 1), zero);
    s.kept = spectrum_size(s.length, onesided);
    return s;
}

static void stft_infer(node *n) {
    stft s = stft_of(n);
    infer_set(n, 0, infer_in(n, 0)->elem, 4,
              (dim *[]){infer_in(n, 0)->dims[0], s.frames, s.kept, infer_k(n, 2)});
}

// Rounded as if the weighted frames were stored.
static expr *weighted(const transform *f, kernel *k, expr *v, expr *weight) {
    return weight ? x_cast(k, x_mul(k, v, weight), f->x->dtype, true) : v;
}

static complex_expr read_frame(const transform *f, kernel *k, expr *const *index, expr *guard) {
    expr *place = x_add(k, x_mul(k, index[1], x_dim(k, f->step)), index[2]);
    expr *at[] = {index[0], place, NULL}, *weight = NULL;
    if (f->window) weight = x_cast(k, x_read_guarded(k, f->window, &index[2], guard, NULL), f->t, false);
    complex_expr v = read_parts(f, k, at, guard);
    v.re = weighted(f, k, v.re, weight);
    if (v.im) v.im = weighted(f, k, v.im, weight);
    return v;
}

static void stft_lower(lowering *l, node *n) {
    lower_arguments(l, n);
    stft s = stft_of(n);
    lower_check(l, n, dim_lt(infer_k(n, 0), s.step), "the frame step is not positive");
    lower_check_size(l, n, s.length, "the frame length is negative");
    lower_check_complex(l, n, node_int(n, "onesided", 1) != 0);
    transform f = {.l = l, .n = n, .x = lower_in(l, n, 0), .axis = 2, .rank = 3, .length = s.length};
    f.t = dtype_compute(f.x->dtype) == DT_F64 ? DT_F64 : DT_F32;
    f.kept = s.kept, f.step = s.step;
    f.read = read_frame;
    f.window = lower_in(l, n, 2);
    lower_sizes(l, n, (dim *[]){f.x->dims[0], s.frames, s.kept, infer_k(n, 2)});
    f.out = lower_out(l, n, 0);
    f.dims[0] = f.out->dims[0], f.dims[1] = f.out->dims[1], f.dims[2] = s.length;
    run_transform(&f);
}

// The standard requires [batch, length, 1], but torch's exporter omits the last axis, and ONNX Runtime
// accepts that.
static bool stft_canonicalise(node *n) {
    if (infer_in(n, 0)->rank != 2) return false;
    node_set_in(n, 0, NODE(n, "Unsqueeze", n->in[0], insert_ints(n, (int64_t[]){2}, 1)));
    return true;
}

OPERATOR(STFT, .canonicalise = stft_canonicalise, .infer = stft_infer, .lower = stft_lower);

// ---------------------------------------------------------------- MelWeightMatrix
static void mel_sizes(node *n, dim **sizes) {
    dim *bins = scalar_argument(n, 0), *length = scalar_argument(n, 1);
    if (!bins || !length) infer_error(n, "the number of bins and the length must be given");
    sizes[0] = spectrum_size(length, true), sizes[1] = bins;
}

static void mel_infer(node *n) {
    dtype elem = dtype_from_onnx((int)node_int(n, "output_datatype", 1));
    dim *sizes[2];
    if (elem == DT_NONE) infer_error(n, "attribute output_datatype is not an element type");
    mel_sizes(n, sizes);
    infer_one_element(n, 2, "sample rates");
    infer_one_element(n, 3, "lower edges");
    infer_one_element(n, 4, "upper edges");
    infer_set(n, 0, elem, 2, sizes);
}

static expr *double_argument(lowering *l, const node *n, kernel *k, int i) {
    return x_cast(k, x_read_first(k, lower_in(l, n, i)), DT_F64, false);
}

// The spectrum bin of edge i: the edges are equidistant on the scale 2595 log10(1 + f / 700).
static expr *mel_edge(lowering *l, const node *n, kernel *k, expr *i) {
    const double scale = 2595 / 2.30258509299404568402;
    expr *one = x_float(k, DT_F64, 1), *width = x_float(k, DT_F64, 700), *mel[2];
    for (int j = 0; j < 2; j++) {
        expr *hertz = double_argument(l, n, k, 3 + j);
        mel[j] = x_mul(k, x_un(k, X_LOG1P, x_div(k, hertz, width)), x_float(k, DT_F64, scale));
    }
    expr *bins = x_add(k, double_argument(l, n, k, 0), x_float(k, DT_F64, 2));
    expr *step = x_div(k, x_sub(k, mel[1], mel[0]), bins);
    expr *at = x_add(k, x_mul(k, x_cast(k, i, DT_F64, false), step), mel[0]);
    expr *hertz = x_mul(k, width, x_un(k, X_EXPM1, x_div(k, at, x_float(k, DT_F64, scale))));
    expr *place = x_mul(k, x_add(k, double_argument(l, n, k, 1), one), hertz);
    return x_un(k, X_FLOOR, x_div(k, place, double_argument(l, n, k, 2)));
}

// Triangular filters: rising from edge b to edge b + 1, falling to edge b + 2.
static void mel_lower(lowering *l, node *n) {
    dim *sizes[2];
    lower_arguments(l, n);
    mel_sizes(n, sizes);
    for (int j = 0; j < 2; j++) lower_check_size(l, n, sizes[j], "a size is negative");
    lower_sizes(l, n, sizes);
    buffer *out = lower_out(l, n, 0);
    kernel *k;
    expr *at[2], *edge[3];
    stage *s = pointwise_stage(l, n, out, &k, at);
    for (int j = 0; j < 3; j++) edge[j] = mel_edge(l, n, k, x_add(k, at[1], x_i64(k, j)));
    expr *bin = x_cast(k, at[0], DT_F64, false), *zero = x_float(k, DT_F64, 0), *one = x_float(k, DT_F64, 1);
    expr *rising = x_div(k, x_sub(k, bin, edge[0]), x_sub(k, edge[1], edge[0]));
    expr *falling = x_div(k, x_sub(k, edge[2], bin), x_sub(k, edge[2], edge[1]));
    rising = x_select(k, x_bin(k, X_LE, edge[0], bin), rising, zero);
    falling = x_select(k, x_lt(k, bin, edge[2]), falling, zero);
    expr *v = x_select(k, x_lt(k, bin, edge[1]), rising, falling);
    v = x_select(k, x_bin(k, X_EQ, bin, edge[1]), one, v);
    stage_write(k, s, out, at, x_cast(k, v, out->dtype, true));
}

OPERATOR(MelWeightMatrix, .infer = mel_infer, .lower = mel_lower);
