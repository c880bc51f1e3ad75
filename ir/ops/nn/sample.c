// Operators that interpolate between the elements of an image: GridSample, AffineGrid, RoiAlign, MaxRoiPool,
// DeformConv.
//
//   out[i...] = sum over neighbours of position(i...) of weight * x[neighbour]
#include "ir/ops/branches.h"
#include "ir/ops/contract.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/runtime_args.h"
#include <math.h>
#include <string.h>

// ---------------------------------------------------------------- shared
// A neighbour on one axis: its position, whether it is inside (NULL: always), and its weight (NULL: 1).
typedef struct tap {
    expr *at, *inside, *weight;
} tap;

// The neighbours on axes first..end of b, `count` per axis; index holds the positions on the other axes.
typedef struct neighbours {
    buffer *b;
    expr **index;
    int first, end;
    const tap *const *taps;
    int count;
    dtype t; // of the sum
} neighbours;

static expr *sum_from(kernel *k, const neighbours *all, int axis, expr *guard) {
    if (axis == all->end) return x_cast(k, x_read_guarded(k, all->b, all->index, guard, NULL), all->t, false);
    expr *sum = NULL;
    for (int j = 0; j < all->count; j++) {
        const tap *p = &all->taps[axis - all->first][j];
        expr *both = x_both(k, guard, p->inside);
        all->index[axis] = p->at;
        expr *v = sum_from(k, all, axis + 1, both);
        if (p->weight) v = x_mul(k, p->weight, v);
        sum = sum ? x_add(k, sum, v) : v;
    }
    return sum;
}

// Neighbours outside count as 0.
static expr *weighted_sum(kernel *k, const neighbours *all) { return sum_from(k, all, all->first, NULL); }

// The two neighbours of x (a float) on an axis.
static void linear_taps(kernel *k, expr *x, tap *out) {
    expr *floor = x_un(k, X_FLOOR, x), *rest = x_sub(k, x, floor), *at = x_cast(k, floor, DT_I64, true);
    out[0] = (tap){at, NULL, x_sub(k, x_float(k, x->dtype, 1), rest)};
    out[1] = (tap){x_add(k, at, x_i64(k, 1)), NULL, rest};
}

// Sets inside: 0 <= at < extent.
static void mark_inside(kernel *k, tap *out, int count, dim *extent) {
    for (int j = 0; j < count; j++) out[j].inside = x_inside(k, out[j].at, extent);
}

// ---------------------------------------------------------------- GridSample
enum { PAD_ZEROS, PAD_BORDER, PAD_REFLECTION };
enum { MODE_LINEAR, MODE_NEAREST, MODE_CUBIC };
static const char paddings[] = "zeros border reflection", modes[] = "linear nearest cubic";

static void grid_sample_infer(node *n) {
    int rank = infer_rank(n, 0);
    const type *x = infer_in(n, 0), *grid = infer_in(n, 1);
    if (node_choice(n, "mode", modes) != MODE_NEAREST && x->elem == DT_STRING)
        infer_error(n, "strings cannot be interpolated: mode must be nearest, not %s",
                    node_string(n, "mode", "linear"));
    node_choice(n, "padding_mode", paddings);
    if (rank < 3 || infer_rank(n, 1) != rank)
        infer_error(n, "X and grid have ranks %d and %d; they must be the same, 3 or more", rank, grid->rank);
    infer_same_dim(n, grid->dims[rank - 1], infer_k(n, rank - 2), "coordinates of a grid point");
    dim *dims[MAX_RANK] = {infer_same_dim(n, x->dims[0], grid->dims[0], "batches of X and grid"), x->dims[1]};
    for (int j = 2; j < rank; j++) dims[j] = grid->dims[j - 1];
    infer_set(n, 0, x->elem, rank, dims);
}

typedef struct grid_axis {
    dim *extent;
    expr *least, *most; // the borders
    int padding;
} grid_axis;

// x reflected at the borders until it is between them.
static expr *reflect(kernel *k, const grid_axis *g, expr *x) {
    dtype t = x->dtype;
    expr *below = x_lt(k, x, g->least), *above = x_lt(k, g->most, x), *span = x_sub(k, g->most, g->least);
    expr *past = x_select(k, below, x_sub(k, g->least, x), x_sub(k, x, g->most));
    expr *turns = x_un(k, X_TRUNC, x_div(k, past, span)), *rest = x_sub(k, past, x_mul(k, turns, span));
    expr *half = x_mul(k, turns, x_float(k, t, 0.5)), *even = x_bin(k, X_EQ, half, x_un(k, X_TRUNC, half));
    expr *up = x_add(k, g->least, rest), *down = x_sub(k, g->most, rest);
    expr *mirrored = x_select(k, x_bin(k, X_EQ, even, below), up, down);
    return x_select(k, x_bin(k, X_OR, below, above), mirrored, x);
}

// The position on the axis: -1 and 1 are the borders, or with `corners` the centres of the first and last
// element.
static expr *grid_position(kernel *k, const grid_axis *g, expr *v, bool corners) {
    dtype t = v->dtype;
    expr *one = x_float(k, t, 1), *half = x_float(k, t, 0.5),
         *size = x_cast(k, x_dim(k, g->extent), t, false);
    expr *x = corners ? x_mul(k, x_mul(k, x_add(k, v, one), half), x_sub(k, size, one))
                      : x_mul(k, x_sub(k, x_mul(k, x_add(k, v, one), size), one), half);
    return x;
}

static expr *grid_padded(kernel *k, const grid_axis *g, expr *x) {
    if (g->padding == PAD_ZEROS) return x;
    if (g->padding == PAD_REFLECTION) return reflect(k, g, x);
    expr *outside = x_bin(k, X_OR, x_lt(k, x, g->least), x_lt(k, g->most, x)), *zero = x_zero(k, x->dtype);
    expr *last = x_cast(k, x_dim(k, dim_addk(g->extent, -1)), x->dtype, false);
    return x_select(k, outside, x_bin(k, X_MAX, x_bin(k, X_MIN, x, last), zero), x);
}

// Neighbours outside the image are padded, too.
static void grid_taps(kernel *k, const grid_axis *g, tap *taps, int count, dtype t) {
    if (g->padding == PAD_ZEROS) {
        mark_inside(k, taps, count, g->extent);
        return;
    }
    for (int j = 0; j < count; j++) {
        expr *at = taps[j].at;
        if (g->padding == PAD_REFLECTION)
            at = x_cast(k, reflect(k, g, x_cast(k, at, t, false)), DT_I64, true);
        taps[j].at = x_clamped(k, at, g->extent);
    }
}

// Keys' cubic convolution with a = -0.75 over the neighbours -1, 0, 1, 2 of floor(x).
static void cubic_taps(kernel *k, expr *x, tap *out) {
    const double a = -0.75;
    dtype t = x->dtype;
    expr *floor = x_un(k, X_FLOOR, x), *rest = x_sub(k, x, floor), *at = x_cast(k, floor, DT_I64, true);
    expr *one = x_float(k, t, 1);
    for (int j = 0; j < 4; j++) {
        expr *d = j < 2 ? x_add(k, rest, x_float(k, t, 1 - j)) : x_sub(k, x_float(k, t, j - 1), rest), *w;
        if (j == 1 || j == 2) {
            w = x_sub(k, x_mul(k, x_float(k, t, a + 2), d), x_float(k, t, a + 3));
            w = x_add(k, x_mul(k, x_mul(k, w, d), d), one);
        } else {
            w = x_sub(k, x_mul(k, x_float(k, t, a), d), x_float(k, t, 5 * a));
            w = x_sub(k, x_mul(k, x_add(k, x_mul(k, w, d), x_float(k, t, 8 * a)), d), x_float(k, t, 4 * a));
        }
        out[j] = (tap){x_add(k, at, x_i64(k, j - 1)), NULL, w};
    }
}

static int make_taps(kernel *k, int mode, expr *x, tap *out) {
    if (mode == MODE_NEAREST) {
        out[0] = (tap){x_cast(k, x_un(k, X_RINT, x), DT_I64, true), NULL, NULL};
        return 1;
    }
    if (mode == MODE_LINEAR) linear_taps(k, x, out);
    else cubic_taps(k, x, out);
    return mode == MODE_LINEAR ? 2 : 4;
}

static void grid_sample_lower(lowering *l, node *n) {
    buffer *x = lower_parts(l, lower_in(l, n, 0)), *grid = lower_in(l, n, 1);
    buffer *out = lower_parts(l, lower_out(l, n, 0));
    int rank = grid->rank;
    int mode = node_choice(n, "mode", modes), padding = node_choice(n, "padding_mode", paddings), count = 1;
    bool corners = node_int(n, "align_corners", 0) != 0;
    dtype t = dtype_compute(grid->dtype) == DT_F64 || x->dtype == DT_F64 ? DT_F64 : DT_F32;
    kernel *k;
    expr *at[MAX_RANK], *from[MAX_RANK], *point[MAX_RANK];
    stage *s = pointwise_stage(l, n, out, &k, at);
    point[0] = at[0];
    for (int j = 2; j < rank; j++) point[j - 1] = at[j];
    tap all[MAX_RANK][4];
    const tap *taps[MAX_RANK];
    for (int j = 2; j < rank; j++) {
        grid_axis g = {.extent = x->dims[j], .padding = padding};
        g.least = x_float(k, t, corners ? 0 : -0.5);
        g.most = x_sub(k, x_cast(k, x_dim(k, g.extent), t, false), x_float(k, t, corners ? 1 : 0.5));
        point[rank - 1] = x_i64(k, rank - 1 - j); // the last axis has the first coordinate
        expr *v = grid_position(k, &g, x_cast(k, x_read(k, grid, point), t, false), corners);
        if (mode == MODE_NEAREST) v = x_un(k, X_RINT, v);
        v = grid_padded(k, &g, v);
        if (mode == MODE_NEAREST) v = x_un(k, X_TRUNC, v);
        count = make_taps(k, mode, v, all[j]);
        grid_taps(k, &g, all[j], count, t);
        taps[j - 2] = all[j];
    }
    from[0] = at[0], from[1] = at[1], from[x->rank - 1] = at[x->rank - 1];
    dtype values = mode == MODE_NEAREST ? dtype_compute(x->dtype) : t;
    expr *v = weighted_sum(k, &(neighbours){x, from, 2, rank, taps, count, values});
    stage_write(k, s, out, at, x_cast(k, v, out->dtype, true));
}

static void grid_sample_upgrade_20(node *n) {
    const char *mode = node_string(n, "mode", "bilinear");
    if (strcmp(mode, "bilinear") == 0) upgrade_set_string(n, "mode", "linear");
    if (strcmp(mode, "bicubic") == 0) upgrade_set_string(n, "mode", "cubic");
}

static bool grid_sample_undo_20(node *as) {
    const char *mode = node_string(as, "mode", "linear");
    if (strcmp(mode, "linear") == 0) upgrade_set_string(as, "mode", "bilinear");
    if (strcmp(mode, "cubic") == 0) upgrade_set_string(as, "mode", "bicubic");
    bool older = as->loc->version && as->loc->version < 20;
    return older || (downgrade_has_rank(as, 0) && as->in[0]->type.rank == 4);
}

OPERATOR(GridSample, .upgrades = {{20, grid_sample_upgrade_20, grid_sample_undo_20}},
         .infer = grid_sample_infer, .lower = grid_sample_lower);

// ---------------------------------------------------------------- AffineGrid
// The output's sizes: batch, space, coordinates.
static void affine_sizes(const node *n, dim *const *size, int count, dim **out) {
    if (count != 4 && count != 5) infer_error(n, "size has %d elements; it must have 4 or 5", count);
    out[0] = size[0];
    for (int j = 2; j < count; j++) out[j - 1] = size[j];
    out[count - 1] = infer_k(n, count - 2);
}

static void affine_grid_infer(node *n) {
    dim **size, *dims[MAX_RANK];
    const type *theta = infer_in(n, 0);
    if (infer_rank(n, 0) != 3) infer_error(n, "theta has rank %d, not 3", theta->rank);
    const dim *rows = theta->dims[1];
    int count, expected = dim_is_const(rows) ? (int)dim_value(rows) + 2 : -1;
    if (!infer_argument(n, 1, expected, &size, &count, theta->elem)) return;
    affine_sizes(n, size, count, dims);
    infer_same_dim(n, theta->dims[0], size[0], "batches of theta and size");
    infer_same_dim(n, theta->dims[1], infer_k(n, count - 2), "rows of theta");
    infer_same_dim(n, theta->dims[2], infer_k(n, count - 1), "columns of theta");
    infer_set(n, 0, theta->elem, count, dims);
}

// The coordinate in [-1, 1] of position i: of the element's centre, or with `corners` such that the first and
// last elements are at the ends (a single one at the beginning).
static expr *affine_coordinate(kernel *k, expr *i, dim *extent, bool corners) {
    expr *at = x_cast(k, i, DT_F64, false), *size = x_cast(k, x_dim(k, extent), DT_F64, false);
    expr *one = x_float(k, DT_F64, 1), *two = x_float(k, DT_F64, 2);
    if (corners) return x_sub(k, x_div(k, x_mul(k, at, two), x_bin(k, X_MAX, x_sub(k, size, one), one)), one);
    return x_sub(k, x_div(k, x_add(k, x_mul(k, at, two), one), size), one);
}

// grid[n, space..., c] = sum over j of theta[n, c, j] * coordinate(j) + theta[n, c, last]
static void affine_grid_lower(lowering *l, node *n) {
    int count;
    dim **size = lower_argument(l, n, 1, n->out[0]->type.rank, &count), *dims[MAX_RANK];
    lower_arguments(l, n);
    affine_sizes(n, size, count, dims);
    for (int j = 0; j < count; j++) lower_check_size(l, n, size[j], "a size is negative");
    lower_sizes(l, n, dims);
    buffer *theta = lower_in(l, n, 0), *out = lower_out(l, n, 0);
    bool corners = node_int(n, "align_corners", 0) != 0;
    dtype t = dtype_compute(theta->dtype) == DT_F64 ? DT_F64 : DT_F32;
    int space = out->rank - 2;
    kernel *k;
    expr *at[MAX_RANK], *sum = NULL;
    stage *s = pointwise_stage(l, n, out, &k, at);
    for (int j = 0; j <= space; j++) {
        expr *from[] = {at[0], at[out->rank - 1], x_i64(k, j)};
        expr *v = x_cast(k, x_read(k, theta, from), t, false);
        int axis = space - j; // coordinate x is the last axis
        if (j < space)
            v = x_mul(k, v, x_cast(k, affine_coordinate(k, at[axis], out->dims[axis], corners), t, false));
        sum = sum ? x_add(k, sum, v) : v;
    }
    stage_write(k, s, out, at, x_cast(k, sum, out->dtype, true));
}

static bool affine_grid_canonicalise(node *n) { return branch_on_length(n, 1, 4, 5); }

OPERATOR(AffineGrid, .canonicalise = affine_grid_canonicalise, .infer = affine_grid_infer,
         .lower = affine_grid_lower);

// ---------------------------------------------------------------- RoiAlign
enum { MOST_SAMPLES = 1 << 16 };

static void roi_align_infer(node *n) {
    if (infer_rank(n, 0) != 4 || infer_rank(n, 1) != 2 || infer_rank(n, 2) != 1)
        infer_error(n, "X, rois and batch_indices have ranks %d, %d and %d; they must be 4, 2 and 1",
                    infer_rank(n, 0), infer_rank(n, 1), infer_rank(n, 2));
    const type *x = infer_in(n, 0), *rois = infer_in(n, 1), *batch = infer_in(n, 2);
    int64_t height = node_int(n, "output_height", 1), width = node_int(n, "output_width", 1);
    if (height < 1 || width < 1)
        infer_error(n, "attributes output_height and output_width are %lld and %lld; they must be positive",
                    (long long)height, (long long)width);
    infer_same_dim(n, rois->dims[1], infer_k(n, 4), "numbers of a RoI");
    dim *count = infer_same_dim(n, rois->dims[0], batch->dims[0], "lengths of rois and batch_indices");
    node_choice(n, "mode", "avg max");
    if (node_int(n, "sampling_ratio", 0) < 0)
        infer_error(n, "attribute sampling_ratio is %lld; it must not be negative",
                    (long long)node_int(n, "sampling_ratio", 0));
    infer_set(n, 0, x->elem, 4, (dim *[]){count, x->dims[1], infer_k(n, height), infer_k(n, width)});
}

typedef struct roi {
    expr *start, *bin; // on one axis
    expr *samples;     // in a bin (int64)
    expr *per_bin;     // the same number as a float
} roi;

// RoI number r on axis 0 (height) or 1 (width).
static roi roi_axis(const node *n, kernel *k, buffer *rois, expr *r, int axis, dtype t) {
    bool half = node_choice(n, "coordinate_transformation_mode", "half_pixel output_half_pixel") == 0;
    expr *scale = x_float(k, t, node_float(n, "spatial_scale", 1)), *offset = x_float(k, t, half ? 0.5 : 0);
    expr *from[] = {r, x_i64(k, 1 - axis)}, *to[] = {r, x_i64(k, 3 - axis)};
    expr *start = x_sub(k, x_mul(k, x_cast(k, x_read(k, rois, from), t, false), scale), offset);
    expr *end = x_sub(k, x_mul(k, x_cast(k, x_read(k, rois, to), t, false), scale), offset);
    expr *size = x_sub(k, end, start);
    if (!half) size = x_bin(k, X_MAX, size, x_float(k, t, 1));
    int64_t bins = node_int(n, axis ? "output_width" : "output_height", 1);
    roi o = {.start = start, .bin = x_div(k, size, x_float(k, t, (double)bins))};
    int64_t ratio = node_int(n, "sampling_ratio", 0);
    expr *samples = ratio > 0 ? x_float(k, t, (double)ratio) : x_un(k, X_CEIL, o.bin);
    o.per_bin = samples;
    o.samples = x_bin(k, X_MAX, x_cast(k, samples, DT_I64, true), x_i64(k, 0));
    return o;
}

// The maximum number of samples per bin of any RoI on the axis.
static dim *most_samples(lowering *l, const node *n, buffer *rois, int axis, dtype t) {
    dims *all = l->program->dims;
    int64_t ratio = node_int(n, "sampling_ratio", 0);
    if (ratio > 0) return dim_const(all, ratio);
    const char *what = axis ? "most_columns" : "most_rows";
    buffer *most = lower_temp(l, n, what, DT_I64, 0, NULL);
    kernel *k = lower_kernel(l, n, what);
    stage *s = kernel_stage(k);
    expr *r = stage_own_axis(k, s, AXIS_REDUCE, "r", rois->dims[0]);
    expr *count = stage_reduce(k, s, RED_MAX, roi_axis(n, k, rois, r, axis, t).samples);
    stage_write(k, s, most, NULL, x_bin(k, X_MAX, count, x_i64(k, 0)));
    dim *d = dim_opaque(all, what, 0, INT64_MAX);
    lower_set_dim(l, n, d, most, 0);
    lower_check(l, n, dim_at_most(d, dim_const(all, MOST_SAMPLES)), "a RoI is too large for its bins");
    return d;
}

// The two neighbours on an axis, clamped to the image. Returns whether the position is at most one element
// outside; samples further away count as 0.
static expr *roi_taps(kernel *k, const roi *o, expr *bin, expr *sample, dim *extent, tap *out) {
    dtype t = o->start->dtype;
    expr *half = x_float(k, t, 0.5), *zero = x_zero(k, t), *size = x_cast(k, x_dim(k, extent), t, false);
    expr *within = x_div(k, x_mul(k, x_add(k, x_cast(k, sample, t, false), half), o->bin), o->per_bin);
    expr *x = x_add(k, x_add(k, o->start, x_mul(k, x_cast(k, bin, t, false), o->bin)), within);
    expr *inside = x_and(k, x_bin(k, X_LE, x_float(k, t, -1), x), x_bin(k, X_LE, x, size));
    expr *last = x_sub(k, size, x_float(k, t, 1));
    linear_taps(k, x_bin(k, X_MIN, x_bin(k, X_MAX, x, zero), last), out);
    for (int j = 0; j < 2; j++) out[j].at = x_clamped(k, out[j].at, extent);
    return inside;
}

// The largest weighted neighbour: the sample of mode max.
static expr *largest_tap(kernel *k, buffer *x, expr **at, const tap *rows, const tap *columns, dtype t) {
    expr *best = NULL;
    for (int j = 0; j < 4; j++) {
        at[2] = rows[j / 2].at, at[3] = columns[j % 2].at;
        expr *v = x_mul(k, x_mul(k, rows[j / 2].weight, columns[j % 2].weight),
                        x_cast(k, x_read(k, x, at), t, false));
        best = best ? x_bin(k, X_MAX, best, v) : v;
    }
    return best;
}

// for r, c, ph, pw:  reduce iy, ix: sample; the average of the samples in the bin, or the largest
static void roi_align_lower(lowering *l, node *n) {
    buffer *x = lower_in(l, n, 0), *rois = lower_in(l, n, 1), *batch = lower_in(l, n, 2);
    buffer *out = lower_out(l, n, 0);
    dtype t = dtype_compute(x->dtype) == DT_F64 ? DT_F64 : DT_F32;
    bool largest = node_choice(n, "mode", "avg max") == 1;
    dim *most[2] = {most_samples(l, n, rois, 0, t), most_samples(l, n, rois, 1, t)};
    kernel *k;
    expr *at[4], *inside = NULL, *taken = NULL, *count;
    stage *s = pointwise_stage(l, n, out, &k, at);
    count = x_i64(k, 1);
    tap taps[2][2];
    for (int j = 0; j < 2; j++) {
        expr *a = stage_own_axis(k, s, AXIS_REDUCE, j ? "x" : "y", most[j]);
        roi o = roi_axis(n, k, rois, at[0], j, t);
        expr *in = roi_taps(k, &o, at[2 + j], a, x->dims[2 + j], taps[j]);
        expr *used = x_lt(k, a, o.samples);
        inside = x_both(k, inside, in);
        taken = x_both(k, taken, used);
        count = x_mul(k, count, o.samples);
    }
    expr *b = x_cast(k, x_read(k, batch, &at[0]), DT_I64, false), *zero = x_zero(k, t);
    b = x_checked_index(k, b, x->dims[0], false, "a value of batch_indices is out of range for the batch");
    expr *from[4] = {b, at[1]};
    const tap *both[] = {taps[0], taps[1]};
    expr *v = largest ? largest_tap(k, x, from, taps[0], taps[1], t)
                      : weighted_sum(k, &(neighbours){x, from, 2, 4, both, 2, t});
    v = x_select(k, inside, v, zero);
    expr *result;
    if (largest) {
        expr *best = stage_reduce(k, s, RED_MAX, x_select(k, taken, v, reduce_neutral(k, RED_MAX, t)));
        result = x_select(k, x_bin(k, X_EQ, count, x_i64(k, 0)), zero, best);
    } else {
        expr *sum = stage_reduce(k, s, RED_SUM, x_select(k, taken, v, zero));
        result = x_div(k, sum, x_cast(k, x_bin(k, X_MAX, count, x_i64(k, 1)), t, false));
    }
    stage_write(k, s, out, at, x_cast(k, result, out->dtype, true));
}

static void roi_align_upgrade_16(node *n) {
    upgrade_set_string(n, "coordinate_transformation_mode", "output_half_pixel");
}

static bool roi_align_undo_16(node *as) {
    bool same = strcmp(node_string(as, "coordinate_transformation_mode", ""), "output_half_pixel") == 0;
    node_remove_attr(as, "coordinate_transformation_mode");
    return same;
}

OPERATOR(RoiAlign, .upgrades = {{16, roi_align_upgrade_16, roi_align_undo_16}}, .infer = roi_align_infer,
         .lower = roi_align_lower);

// ---------------------------------------------------------------- MaxRoiPool
static void max_roi_pool_infer(node *n) {
    int count;
    const int64_t *shape = node_ints(n, "pooled_shape", &count);
    if (infer_rank(n, 0) != 4 || infer_rank(n, 1) != 2)
        infer_error(n, "X and rois have ranks %d and %d; they must be 4 and 2", infer_rank(n, 0),
                    infer_rank(n, 1));
    if (count != 2 || shape[0] < 1 || shape[1] < 1)
        infer_error(n, "attribute pooled_shape must be two positive numbers");
    const type *x = infer_in(n, 0), *rois = infer_in(n, 1);
    infer_same_dim(n, rois->dims[1], infer_k(n, 5), "numbers of a RoI");
    infer_set(n, 0, x->elem, 4,
              (dim *[]){rois->dims[0], x->dims[1], infer_k(n, shape[0]), infer_k(n, shape[1])});
}

typedef struct bin {
    const node *n;
    kernel *k;
    dtype t;
    buffer *rois;
    expr *const *at;    // of the output
    expr *inside, *any; // whether the position read is in the bin; whether one is
} bin;

// Along an axis of the image of `extent`, at position i: the bin has positions [floor, ceil) of an equal share of the RoI.
static void add_axis_of_bin(bin *x, int axis, expr *i, dim *extent) {
    const node *n = x->n;
    kernel *k = x->k;
    dtype t = x->t;
    expr *const *at = x->at;
    int count;
    const int64_t *shape = node_ints(n, "pooled_shape", &count);
    expr *scale = x_float(k, t, node_float(n, "spatial_scale", 1)), *edge[2], *one = x_float(k, t, 1);
    for (int j = 0; j < 2; j++) { // halves are rounded away from zero, as by C's round
        expr *from[] = {at[0], x_i64(k, 1 + 2 * j + (1 - axis))}, *half = x_float(k, t, 0.5);
        expr *v = x_mul(k, x_cast(k, x_read(k, x->rois, from), t, false), scale);
        expr *up = x_un(k, X_FLOOR, x_add(k, v, half)), *down = x_un(k, X_CEIL, x_sub(k, v, half));
        edge[j] = x_select(k, x_lt(k, v, x_zero(k, t)), down, up);
    }
    expr *size = x_bin(k, X_MAX, x_add(k, x_sub(k, edge[1], edge[0]), one), one);
    expr *share = x_div(k, size, x_float(k, t, (double)shape[axis])),
         *bin = x_cast(k, at[2 + axis], t, false);
    expr *start = x_add(k, x_un(k, X_FLOOR, x_mul(k, bin, share)), edge[0]);
    expr *end = x_add(k, x_un(k, X_CEIL, x_mul(k, x_add(k, bin, one), share)), edge[0]);
    expr *place = x_cast(k, i, t, false), *last = x_cast(k, x_dim(k, extent), t, false);
    expr *first = x_bin(k, X_MAX, start, x_zero(k, t));
    x->any = x_both(k, x->any, x_lt(k, first, x_bin(k, X_MIN, end, last)));
    x->inside = x_both(k, x->inside, x_and(k, x_bin(k, X_LE, start, place), x_lt(k, place, end)));
}

// out[r, c, ph, pw] = max over h, w in the bin of x[batch, c, h, w]; 0 if the bin is empty
static void max_roi_pool_lower(lowering *l, node *n) {
    buffer *x = lower_in(l, n, 0), *rois = lower_in(l, n, 1), *out = lower_out(l, n, 0);
    dtype t = dtype_compute(x->dtype);
    kernel *k;
    expr *at[4];
    stage *s = pointwise_stage(l, n, out, &k, at);
    bin in = {.n = n, .k = k, .t = t, .rois = rois, .at = at};
    expr *which[] = {at[0], x_i64(k, 0)};
    expr *b = x_cast(k, x_read(k, rois, which), DT_I64, true);
    b = x_checked_index(k, b, x->dims[0], false, "a batch index in rois is out of range");
    expr *from[4] = {b, at[1]};
    for (int j = 0; j < 2; j++) {
        from[2 + j] = stage_own_axis(k, s, AXIS_REDUCE, j ? "x" : "y", x->dims[2 + j]);
        add_axis_of_bin(&in, j, from[2 + j], x->dims[2 + j]);
    }
    expr *lowest = reduce_neutral(k, RED_MAX, t);
    expr *best = stage_reduce(k, s, RED_MAX, x_select(k, in.inside, x_read(k, x, from), lowest));
    stage_write(k, s, out, at, x_select(k, in.any, best, x_zero(k, t)));
}

OPERATOR(MaxRoiPool, .infer = max_roi_pool_infer, .lower = max_roi_pool_lower);

// ---------------------------------------------------------------- DeformConv
typedef struct deform {
    window w;
    int space;
    int64_t group, offset_group;
    dim *taps; // positions of the kernel
} deform;

static deform deform_of(const node *n) {
    const type *x = infer_in(n, 0), *w = infer_in(n, 1);
    deform d = {.space = x->rank - 2};
    d.group = node_int(n, "group", 1), d.offset_group = node_int(n, "offset_group", 1);
    if (d.group < 1 || d.offset_group < 1)
        infer_error(n, "attributes group and offset_group are %lld and %lld", (long long)d.group,
                    (long long)d.offset_group);
    d.w = window_of(n, d.space, x->dims + 2, w->dims + 2, false);
    d.taps = dim_product(infer_dims(n), w->dims + 2, d.space);
    return d;
}

static void deform_conv_infer(node *n) {
    dim *dims[MAX_RANK], *unused[MAX_RANK];
    int rank = conv_dims(n, 0, 1, unused);
    if (infer_rank(n, 2) != rank || (node_in(n, 4) && infer_rank(n, 4) != rank))
        infer_error(n, "offset and mask must have X's rank %d", rank);
    deform d = deform_of(n);
    const type *x = infer_in(n, 0), *w = infer_in(n, 1), *offset = infer_in(n, 2);
    dim *channels = dim_mulk(d.taps, d.offset_group);
    infer_same_dim(n, offset->dims[0], x->dims[0], "batches of X and offset");
    infer_same_dim(n, offset->dims[1], dim_mulk(channels, d.space), "channels of offset");
    infer_same_dim(n, dim_mod(x->dims[1], infer_k(n, d.offset_group)), infer_k(n, 0),
                   "channels modulo offset groups");
    infer_shape(n, 3, "the bias", 1, &w->dims[0], "bias size and output channels");
    if (node_in(n, 4)) {
        infer_same_dim(n, infer_in(n, 4)->dims[0], x->dims[0], "batches of X and mask");
        infer_same_dim(n, infer_in(n, 4)->dims[1], channels, "channels of mask");
    }
    dims[0] = x->dims[0], dims[1] = w->dims[0];
    for (int j = 2; j < rank; j++) {
        dims[j] = infer_same_dim(n, d.w.out[j - 2], offset->dims[j], "output size and offset");
        if (node_in(n, 4)) infer_same_dim(n, infer_in(n, 4)->dims[j], dims[j], "output size and mask");
    }
    infer_set(n, 0, x->elem, rank, dims);
}

// sampled[n, c, k..., o...] = mask * x[n, c, o * stride - pad + k * dilation + offset ...]
static buffer *deform_samples(lowering *l, node *n, const deform *d, dtype t) {
    buffer *x = lower_in(l, n, 0), *offset = lower_in(l, n, 2), *mask = lower_in(l, n, 4);
    dim *dims[MAX_RANK] = {x->dims[0], x->dims[1]};
    int space = d->space;
    for (int j = 0; j < space; j++) dims[2 + j] = d->w.kernel[j], dims[2 + space + j] = offset->dims[2 + j];
    buffer *sampled = lower_temp(l, n, "sampled", t, 2 + 2 * space, dims);
    kernel *k;
    expr *at[MAX_RANK], *from[MAX_RANK], *place[MAX_RANK];
    stage *s = suffixed_stage(l, n, "sample", sampled, &k, at);
    dim *each = dim_floordiv(x->dims[1], dim_const(x->dims[1]->table, d->offset_group));
    expr *position = x_bin(k, X_FLOORDIV, at[1], x_dim(k, each)); // offset group, then kernel position
    for (int j = 0; j < space; j++)
        position = x_add(k, x_mul(k, position, x_dim(k, d->w.kernel[j])), at[2 + j]);
    place[0] = at[0];
    for (int j = 0; j < space; j++) place[2 + j] = at[2 + space + j];
    tap all[MAX_RANK][2];
    const tap *taps[MAX_RANK];
    for (int j = 0; j < space; j++) {
        expr *base =
            x_add(k, x_sub(k, x_mul(k, at[2 + space + j], x_i64(k, d->w.stride[j])), x_dim(k, d->w.lo[j])),
                  x_mul(k, at[2 + j], x_i64(k, d->w.dilation[j])));
        place[1] = x_add(k, x_mul(k, position, x_i64(k, space)), x_i64(k, j));
        expr *moved = x_add(k, x_cast(k, base, t, false), x_cast(k, x_read(k, offset, place), t, false));
        linear_taps(k, moved, all[j]);
        mark_inside(k, all[j], 2, x->dims[2 + j]);
        taps[j] = all[j];
    }
    from[0] = at[0], from[1] = at[1], place[1] = position;
    expr *v = weighted_sum(k, &(neighbours){x, from, 2, x->rank, taps, 2, t});
    if (mask) v = x_mul(k, v, x_cast(k, x_read(k, mask, place), t, false));
    stage_write(k, s, sampled, at, v);
    return sampled;
}

// out[n, g * M + m, o...] = bias +
//   sum over c, k... of sampled[n, g * C + c, k..., o...] * w[g * M + m, c, k...]
static void deform_conv_lower(lowering *l, node *n) {
    buffer *x = lower_in(l, n, 0), *w = lower_in(l, n, 1), *bias = lower_in(l, n, 3);
    deform d = deform_of(n);
    window_check(l, n, &d.w);
    dtype t = dtype_compute(x->dtype);
    buffer *sampled = deform_samples(l, n, &d, t), *out = lower_out(l, n, 0);
    kernel *k = lower_kernel(l, n, NULL);
    stage *s = kernel_stage(k);
    dim *each = dim_floordiv(out->dims[1], dim_const(out->dims[1]->table, d.group));
    expr *at[MAX_RANK], *from[MAX_RANK], *weight[MAX_RANK], *g = x_i64(k, 0);
    at[0] = stage_own_axis(k, s, AXIS_PARALLEL, "n", out->dims[0]);
    if (d.group > 1) g = stage_own_axis(k, s, AXIS_PARALLEL, "g", dim_const(each->table, d.group));
    at[1] = x_add(k, x_mul(k, g, x_dim(k, each)), stage_own_axis(k, s, AXIS_PARALLEL, "m", each));
    for (int j = 0; j < d.space; j++)
        from[2 + d.space + j] = at[2 + j] = stage_own_axis(k, s, AXIS_PARALLEL, "o", out->dims[2 + j]);
    weight[0] = at[1], from[0] = at[0];
    weight[1] = stage_own_axis(k, s, AXIS_REDUCE, "c", w->dims[1]);
    from[1] = x_add(k, x_mul(k, g, x_dim(k, w->dims[1])), weight[1]);
    for (int j = 0; j < d.space; j++)
        from[2 + j] = weight[2 + j] = stage_own_axis(k, s, AXIS_REDUCE, "k", w->dims[2 + j]);
    expr *v = stage_reduce(k, s, RED_SUM,
                           x_mul(k, x_read(k, sampled, from), x_cast(k, x_read(k, w, weight), t, false)));
    if (bias) v = x_add(k, v, x_cast(k, x_read(k, bias, &at[1]), t, false));
    stage_write(k, s, out, at, x_cast(k, v, out->dtype, true));
}

OPERATOR(DeformConv, .infer = deform_conv_infer, .lower = deform_conv_lower);
