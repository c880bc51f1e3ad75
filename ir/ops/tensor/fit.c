// Operators that fit a tensor to another size: CenterCropPad, Col2Im, MaxUnpool. The sizes may be known only
// at run time.
#include "ir/ops/branches.h"
#include "ir/ops/contract.h"
#include "ir/ops/control/control.h"
#include "ir/ops/pointwise.h"
#include <string.h>

// ---------------------------------------------------------------- CenterCropPad
static void crop_sizes(const node *n, dim *const *given, int count, dim **out) {
    int rank = infer_rank(n, 0), naxes;
    const int64_t *axes = node_ints(n, "axes", &naxes);
    int wanted = axes ? naxes : rank;
    if (count != wanted) infer_error(n, "shape has %d values for %d axes", count, wanted);
    for (int j = 0; j < rank; j++) out[j] = infer_in(n, 0)->dims[j];
    bool seen[MAX_RANK] = {false};
    for (int j = 0; j < count; j++) {
        int a = axes ? infer_axis(n, axes[j], rank) : j;
        if (seen[a]) infer_error(n, "attribute axes names axis %d twice", a);
        seen[a] = true;
        out[a] = given[j];
    }
}

static int crop_count(const node *n) {
    int naxes;
    return node_ints(n, "axes", &naxes) ? naxes : infer_rank(n, 0);
}

static void center_crop_pad_infer(node *n) {
    dim **given, *dims[MAX_RANK];
    int count, rank = infer_rank(n, 0);
    if (!infer_argument(n, 1, crop_count(n), &given, &count, infer_in(n, 0)->elem)) return;
    crop_sizes(n, given, count, dims);
    infer_set(n, 0, infer_in(n, 0)->elem, rank, dims);
}

// out[i...] = x[i + (in - out) / 2 ...], 0 outside; the quotient is truncated
static void center_crop_pad_lower(lowering *l, node *n) {
    int count;
    dim **given = lower_argument(l, n, 1, crop_count(n), &count), *dims[MAX_RANK];
    lower_arguments(l, n);
    crop_sizes(n, given, count, dims);
    for (int j = 0; j < count; j++) lower_check_size(l, n, given[j], "a size is negative");
    lower_sizes(l, n, dims);
    buffer *x = lower_in(l, n, 0), *out = lower_out(l, n, 0);
    kernel *k;
    expr *at[MAX_RANK], *from[MAX_RANK], *inside = NULL;
    stage *s = pointwise_stage(l, n, out, &k, at);
    for (int j = 0; j < x->rank; j++) {
        dim *over = dim_sub(x->dims[j], out->dims[j]);
        from[j] = x_add(k, at[j], x_dim(k, dim_truncdiv(over, dim_const(over->table, 2))));
        if (dim_less_equal(out->dims[j], x->dims[j]) == TRI_YES) continue;
        inside = x_both(k, inside, x_inside(k, from[j], x->dims[j]));
    }
    stage_write(k, s, out, at, x_read_guarded(k, x, from, inside, NULL));
}

OPERATOR(CenterCropPad, .infer = center_crop_pad_infer, .lower = center_crop_pad_lower);

// ---------------------------------------------------------------- Col2Im
typedef struct blocks {
    int n;                                                    // axes of the image
    dim *image[MAX_RANK], *block[MAX_RANK], *count[MAX_RANK]; // count: blocks along an axis
    int64_t stride[MAX_RANK], dilation[MAX_RANK], lo[MAX_RANK];
    dim *channels, *positions; // channels of the output; positions in a block
} blocks;

static blocks blocks_of(const node *n, dim *const *image, int axes, dim *const *block, int sizes) {
    blocks b = {.n = axes};
    int npads;
    const int64_t *pads = node_ints(n, "pads", &npads);
    if (axes < 1 || axes + 2 > MAX_RANK || sizes != axes)
        infer_error(n, "image_shape has %d values, block_shape %d", axes, sizes);
    if (pads && npads != 2 * axes) infer_error(n, "attribute pads has %d values for %d axes", npads, axes);
    window_ints(n, "strides", axes, b.stride);
    window_ints(n, "dilations", axes, b.dilation);
    b.positions = dim_product(infer_dims(n), block, axes);
    for (int j = 0; j < axes; j++) {
        b.image[j] = image[j], b.block[j] = block[j];
        b.lo[j] = pads ? pads[j] : 0;
        dim *room = dim_addk(image[j], b.lo[j] + (pads ? pads[axes + j] : 0) - 1);
        room = dim_sub(room, dim_mulk(dim_addk(block[j], -1), b.dilation[j]));
        b.count[j] = dim_addk(dim_floordiv(room, infer_k(n, b.stride[j])), 1);
    }
    const type *x = infer_in(n, 0);
    b.channels = dim_floordiv(x->dims[1], dim_max(b.positions, infer_k(n, 1)));
    return b;
}

// The number of axes of the image, if the lists or the attributes tell; else -1.
static int image_axes(const node *n) {
    static const char *const each[] = {"strides", "dilations", "pads"};
    int length = infer_common_length(n, 1, 2), count;
    for (int i = 0; i < 3 && length < 0; i++)
        if (node_ints(n, each[i], &count)) length = i == 2 ? count / 2 : count;
    return length;
}

static bool col2im_canonicalise(node *n) {
    return image_axes(n) < 0 && branch_on_length(n, 1, 1, BRANCHES_MOST - 2);
}

static void col2im_infer(node *n) {
    dim **image, **block, *dims[MAX_RANK];
    int axes, sizes, length = image_axes(n);
    const type *x = infer_in(n, 0);
    if (x->elem == DT_STRING) infer_error(n, "strings cannot be added where blocks overlap");
    if (infer_rank(n, 0) != 3) infer_error(n, "the input has rank %d, not 3", x->rank);
    if (!infer_argument(n, 1, length, &image, &axes, x->elem)) return;
    if (!infer_argument(n, 2, length, &block, &sizes, x->elem)) return;
    blocks b = blocks_of(n, image, axes, block, sizes);
    infer_same_dim(n, dim_mod(x->dims[1], dim_max(b.positions, infer_k(n, 1))), infer_k(n, 0),
                   "rows modulo positions of a block");
    infer_same_dim(n, dim_product(infer_dims(n), b.count, b.n), x->dims[2], "number of blocks");
    dims[0] = x->dims[0], dims[1] = b.channels;
    memcpy(dims + 2, b.image, (size_t)b.n * sizeof *dims);
    infer_set(n, 0, x->elem, b.n + 2, dims);
}

// The blocks over a position of an axis: `which` of them has it as its `tap`, where that is inside.
typedef struct cover {
    expr *tap, *which, *inside;
} cover;

// Those with which * stride + tap * dilation = at + pad.
static cover cover_of(kernel *k, stage *s, const blocks *b, int j, expr *at) {
    cover c = {.tap = stage_own_axis(k, s, AXIS_REDUCE, "p", b->block[j])};
    expr *stride = x_i64(k, b->stride[j]);
    expr *from = x_sub(k, x_add(k, at, x_i64(k, b->lo[j])), x_mul(k, c.tap, x_i64(k, b->dilation[j])));
    c.which = x_bin(k, X_FLOORDIV, from, stride);
    c.inside = x_inside(k, c.which, b->count[j]);
    if (b->stride[j] > 1)
        c.inside = x_and(k, c.inside, x_bin(k, X_EQ, x_bin(k, X_MOD, from, stride), x_i64(k, 0)));
    return c;
}

// Without dilation, blocks have at = q * stride + r as every stride-th tap: tap = t * stride + (r + pad) % stride, and
// which = q + (r + pad) / stride - t.
static bool has_phases(const blocks *b, int j) { return b->stride[j] > 1 && b->dilation[j] == 1; }

static cover cover_of_phase(kernel *k, stage *s, const blocks *b, int j, expr *q, expr *r) {
    expr *stride = x_i64(k, b->stride[j]), *over = x_add(k, r, x_i64(k, b->lo[j] % b->stride[j]));
    expr *first = over, *ahead = x_add(k, q, x_i64(k, b->lo[j] / b->stride[j]));
    if (over != r) {
        first = x_bin(k, X_MOD, over, stride);
        ahead = x_add(k, ahead, x_bin(k, X_FLOORDIV, over, stride));
    }
    dim *taps = dim_ceildiv(b->block[j], dim_const(b->block[j]->table, b->stride[j]));
    expr *t = stage_own_axis(k, s, AXIS_REDUCE, "t", taps);
    cover c = {.tap = x_add(k, x_mul(k, t, stride), first), .which = x_sub(k, ahead, t)};
    c.inside = x_inside(k, c.which, b->count[j]);
    if (!dim_divisible(b->block[j], b->stride[j]))
        c.inside = x_and(k, c.inside, x_lt(k, c.tap, x_dim(k, b->block[j])));
    return c;
}

// The image with whole strides along axes that have phases: out, or a temporary.
static buffer *rounded_image(lowering *l, const node *n, const blocks *b, buffer *out) {
    bool rounds = false;
    dim *dims[MAX_RANK];
    memcpy(dims, out->dims, (size_t)out->rank * sizeof *dims);
    for (int j = 0; j < b->n; j++) {
        if (!has_phases(b, j) || dim_divisible(b->image[j], b->stride[j])) continue;
        dim *stride = dim_const(b->image[j]->table, b->stride[j]);
        dims[2 + j] = dim_mul(dim_ceildiv(b->image[j], stride), stride);
        rounds = true;
    }
    return rounds ? lower_temp(l, n, "rounded", out->dtype, out->rank, dims) : out;
}

static void crop_image(lowering *l, const node *n, buffer *from, buffer *out) {
    kernel *k;
    expr *at[MAX_RANK];
    stage *s = pointwise_stage(l, n, out, &k, at);
    stage_write(k, s, out, at, x_read(k, from, at));
}

// out[n, c, i...] = sum over positions p... of x[n, c and p..., j...]
//   where j * stride + p * dilation = i + pad
static void add_blocks(lowering *l, const node *n, const blocks *b, buffer *x, buffer *out) {
    kernel *k = lower_kernel(l, n, NULL);
    stage *s = kernel_stage(k);
    expr *at[MAX_RANK], *q[MAX_RANK], *r[MAX_RANK], *inside = NULL;
    for (int j = 0; j < 2; j++) at[j] = stage_own_axis(k, s, AXIS_PARALLEL, "i", out->dims[j]);
    for (int j = 0; j < b->n; j++) {
        dim *size = out->dims[2 + j], *stride = dim_const(size->table, has_phases(b, j) ? b->stride[j] : 1);
        q[j] = stage_own_axis(k, s, AXIS_PARALLEL, "q", dim_floordiv(size, stride));
        r[j] = has_phases(b, j) ? stage_own_axis(k, s, AXIS_PARALLEL, "r", stride) : NULL;
        at[2 + j] = r[j] ? x_add(k, x_mul(k, q[j], x_dim(k, stride)), r[j]) : q[j];
    }
    bool parts = out->rank > b->n + 2; // of complex numbers
    if (parts) at[b->n + 2] = stage_own_axis(k, s, AXIS_PARALLEL, "part", out->dims[b->n + 2]);
    expr *row = at[1], *column = x_i64(k, 0);
    for (int j = 0; j < b->n; j++) {
        cover c = r[j] ? cover_of_phase(k, s, b, j, q[j], r[j]) : cover_of(k, s, b, j, q[j]);
        inside = x_both(k, inside, c.inside);
        row = x_add(k, x_mul(k, row, x_dim(k, b->block[j])), c.tap);
        column = x_add(k, x_mul(k, column, x_dim(k, b->count[j])), c.which);
    }
    expr *v = x_read_guarded(k, x, (expr *[]){at[0], row, column, parts ? at[b->n + 2] : NULL}, inside, NULL);
    // The sum of booleans is whether one is true.
    stage_write(k, s, out, at, stage_reduce(k, s, out->dtype == DT_BOOL ? RED_MAX : RED_SUM, v));
}

static void col2im_lower(lowering *l, node *n) {
    int axes, sizes, length = n->out[0]->type.rank - 2;
    dim **image = lower_argument(l, n, 1, length, &axes), **block = lower_argument(l, n, 2, length, &sizes);
    lower_arguments(l, n);
    blocks b = blocks_of(n, image, axes, block, sizes);
    buffer *x = lower_in(l, n, 0);
    dim *dims[MAX_RANK] = {x->dims[0], b.channels};
    for (int j = 0; j < b.n; j++) {
        lower_check_size(l, n, dim_addk(block[j], -1), "a block is empty");
        lower_check_size(l, n, dims[2 + j] = image[j], "a size is negative");
    }
    lower_sizes(l, n, dims);
    buffer *out = lower_parts(l, lower_out(l, n, 0)), *whole = rounded_image(l, n, &b, out);
    add_blocks(l, n, &b, lower_parts(l, x), whole);
    if (whole != out) crop_image(l, n, whole, out);
}

OPERATOR(Col2Im, .canonicalise = col2im_canonicalise, .infer = col2im_infer, .lower = col2im_lower);

// ---------------------------------------------------------------- MaxUnpool
// The sizes of the tensor that was pooled, in which the indices count.
static void pooled_sizes(const node *n, dim **out) {
    const type *x = infer_in(n, 0);
    int count, npads, axes = infer_rank(n, 0) - 2;
    const int64_t *shape = node_ints(n, "kernel_shape", &count), *pads = node_ints(n, "pads", &npads);
    int64_t stride[MAX_RANK];
    if (axes < 1 || count != axes)
        infer_error(n, "attribute kernel_shape has %d values for %d spatial axes", count, axes);
    if (pads && npads != 2 * axes) infer_error(n, "attribute pads has %d values for %d axes", npads, axes);
    window_ints(n, "strides", axes, stride);
    out[0] = x->dims[0], out[1] = x->dims[1];
    for (int j = 0; j < axes; j++) {
        int64_t more = shape[j] - (pads ? pads[j] + pads[axes + j] : 0);
        out[2 + j] = dim_addk(dim_mulk(dim_addk(x->dims[2 + j], -1), stride[j]), more);
    }
}

static void max_unpool_infer(node *n) {
    dim *dims[MAX_RANK], **given;
    int rank = infer_rank(n, 0), count;
    const type *x = infer_in(n, 0);
    if (infer_rank(n, 1) != rank) infer_error(n, "X and I have ranks %d and %d", rank, infer_rank(n, 1));
    for (int j = 0; j < rank; j++) infer_same_dim(n, x->dims[j], infer_in(n, 1)->dims[j], "sizes of X and I");
    pooled_sizes(n, dims);
    if (node_in(n, 2)) {
        if (!infer_argument(n, 2, rank, &given, &count, x->elem)) return;
        if (count != rank) infer_error(n, "output_shape has %d values, X has rank %d", count, rank);
        memcpy(dims, given, (size_t)rank * sizeof *dims);
    }
    infer_set(n, 0, x->elem, rank, dims);
}

static buffer *flat_view(lowering *l, buffer *b) {
    dim *all = buffer_count(b);
    return program_view(l->program, b, arena_printf(l->program->arena, "%s.flat", b->name), 1, &all);
}

static expr *pooled_index(kernel *k, buffer *indices, expr *const *at, dim *count) {
    return x_checked_index(k, x_read(k, indices, at), count, false,
                           "a value of I is outside the tensor that was pooled");
}

// If the result has the sizes of the tensor that was pooled: for the elements in order: out.flat[I] = x
static void unpool_same(lowering *l, const node *n, buffer *x, buffer *indices, buffer *out) {
    kernel *k = lower_kernel(l, n, NULL);
    stage *s = kernel_stage(k);
    buffer *from = flat_view(l, x), *to = flat_view(l, out);
    expr *at = stage_own_axis(k, s, AXIS_SCAN, "i", from->dims[0]);
    expr *index = pooled_index(k, flat_view(l, indices), &at, to->dims[0]);
    stage_write(k, s, to, &index, x_read(k, from, &at))->when = WRITE_BEFORE;
}

// Else: out[coordinates of I in the pooled tensor] = x, where there is such an element.
static void unpool_other(lowering *l, const node *n, buffer *x, buffer *indices, buffer *out, dim **pooled) {
    kernel *k = lower_kernel(l, n, NULL);
    stage *s = kernel_stage(k);
    expr *at[MAX_RANK], *to[MAX_RANK], *inside = NULL;
    for (int j = 0; j < x->rank; j++) at[j] = stage_own_axis(k, s, AXIS_SCAN, "i", x->dims[j]);
    expr *flat = pooled_index(k, indices, at, dim_product(l->program->dims, pooled, x->rank));
    for (int j = x->rank - 1; j >= 0; j--) {
        expr *size = x_dim(k, pooled[j]);
        to[j] = j ? x_bin(k, X_MOD, flat, size) : flat;
        flat = x_bin(k, X_FLOORDIV, flat, size);
        inside = x_both(k, inside, x_lt(k, to[j], x_dim(k, out->dims[j])));
    }
    write *w = stage_write(k, s, out, to, x_read(k, x, at));
    w->guard = inside;
    w->when = WRITE_BEFORE;
}

// out = 0, then the elements.
static void max_unpool_lower(lowering *l, node *n) {
    buffer *x = lower_in(l, n, 0), *indices = lower_in(l, n, 1);
    dim *pooled[MAX_RANK], **given = pooled;
    int count;
    pooled_sizes(n, pooled);
    if (node_in(n, 2)) given = lower_argument(l, n, 2, x->rank, &count);
    lower_arguments(l, n);
    for (int j = 0; j < x->rank; j++) lower_check_size(l, n, given[j], "a size is negative");
    lower_sizes(l, n, given);
    buffer *out = lower_out(l, n, 0);
    kernel *k;
    expr *at[MAX_RANK];
    stage *s = suffixed_stage(l, n, "clear", out, &k, at);
    stage_write(k, s, out, at, x_zero(k, dtype_compute(out->dtype)));
    if (given == pooled) unpool_same(l, n, x, indices, out);
    else unpool_other(l, n, x, indices, out, pooled);
}

OPERATOR(MaxUnpool, .infer = max_unpool_infer, .lower = max_unpool_lower);
