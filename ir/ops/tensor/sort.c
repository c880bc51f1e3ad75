// TopK, Unique, NonMaxSuppression: library functions sort, kernels move elements.
#include "ir/ops/rows.h"
#include <string.h>

static dim *product_of(const node *n, dim *const *d, int from, int to) {
    return dim_product(infer_dims(n), d + from, to - from);
}

// Scratch memory for sorted pairs of key and index, aligned like int64.
static buffer *pairs(lowering *l, node *n, dim *count) {
    dim *words = dim_mulk(count, 2);
    return lower_temp(l, n, "scratch", DT_I64, 1, &words);
}

// ---------------------------------------------------------------- TopK
static void topk_upgrade_10(node *n) {
    int64_t k = node_int(n, "k", 0);
    node_remove_attr(n, "k");
    upgrade_set_input(n, 1, insert_ints(n, &k, 1));
}

static void topk_infer(node *n) {
    const type *in = infer_in(n, 0), *size = infer_in(n, 1);
    int rank = infer_rank(n, 0), axis = node_axis(n, -1, rank), count;
    dim **k, *out[MAX_RANK];
    if (size->rank > 1) infer_error(n, "K must have one element, but is %s", type_text(infer_arena(n), size));
    if (!infer_argument(n, 1, 1, &k, &count, in->elem)) {
        infer_set_unknown(n, 1, DT_I64);
        return;
    }
    if (count != 1) infer_error(n, "K must have one element, not %d", count);
    dim *most = k[0], *extent = in->dims[axis];
    // The node is always executed, so a larger K fails anyway.
    if (most->kind == DIM_OPAQUE && !n->graph->outer) dim_bound(most, 0, extent->max, 1);
    if (most->max < 0) infer_error(n, "K is negative: %lld", (long long)most->max);
    if (most->min > in->dims[axis]->max)
        infer_error(n, "K is %lld, but axis %d has %lld elements", (long long)most->min, axis,
                    (long long)in->dims[axis]->max);
    for (int j = 0; j < rank; j++) out[j] = j == axis ? most : in->dims[j];
    infer_set(n, 0, in->elem, rank, out);
    infer_set(n, 1, DT_I64, rank, out);
}

// Whether the one best element of a row is what ArgMax or ArgMin finds: to the latter, NaN is the smallest.
static bool is_arg(const buffer *x, const dim *k, bool largest) {
    return dim_is(k, 1) && (largest || !dtype_is_float(x->dtype));
}

// for kept: best = none; for i along the axis: best = better of (x, i) and best; values, indices = best
static void lower_best(lowering *l, node *n, buffer *x, int axis, bool largest) {
    dim *mask[MAX_RANK];
    rows_mask(l->program->dims, x->rank, axis, axis + 1, mask);
    rows r = rows_new(lower_kernel(l, n, NULL), x->rank, x->dims, mask);
    expr *index[MAX_RANK];
    stage *s = rows_stage(&r, AXIS_REDUCE, index);
    expr *element = x_read(r.k, x, index);
    expr *best = rows_arg(&r, s, element, index[axis], x->dims[axis], largest, false);
    buffer *values = lower_out(l, n, 0), *indices = lower_out(l, n, 1);
    if (values) stage_write(r.k, s, values, r.kept, x_state(r.k, 0, element->dtype));
    if (indices) stage_write(r.k, s, indices, r.kept, best);
}

// values, indices = the k best elements of every row along the axis
static void topk_lower(lowering *l, node *n) {
    enum { FEW = 64, SHARE = 16 }; // as in lib_topk.c
    int axis = node_axis(n, -1, infer_rank(n, 0)), count;
    buffer *x = lower_in(l, n, 0);
    lower_in(l, n, 1);
    lower_arguments(l, n);
    dim **contents = lower_argument(l, n, 1, 1, &count), *k = contents[0], *size = x->dims[axis];
    lower_check_size(l, n, k, "K is negative");
    lower_check(l, n, dim_at_most(k, size), "K is larger than the axis");
    bool largest = node_int(n, "largest", 1) != 0;
    if (is_arg(x, k, largest)) {
        lower_best(l, n, x, axis, largest);
        return;
    }
    buffer *values = lower_out(l, n, 0), *indices = lower_out(l, n, 1);
    dim *many = dim_and(dim_lt(infer_k(n, FEW), k), dim_lt(size, dim_mulk(k, SHARE))),
        *all = dim_mulk(size, 2);
    buffer *scratch = pairs(l, n, dim_select(many, all, dim_max(k, infer_k(n, 0))));
    lower_call(l, n, "topk", 3, BUFFERS(values, indices, scratch, x),
               DIMS(infer_k(n, x->dtype), product_of(n, x->dims, 0, axis), size,
                    product_of(n, x->dims, axis + 1, x->rank), k, infer_k(n, largest)));
}

static bool topk_sequence(const node *n, op_sequence *s) {
    *s = (op_sequence){.has_rows = true, .row_axis = node_axis(n, -1, infer_rank(n, 0))};
    return true;
}

static bool topk_undo_10(node *as) {
    const constant *k = downgrade_constant(as, 1);
    if (!k || k->count != 1) return false;
    upgrade_set_int(as, "k", constant_int(k, 0));
    downgrade_set_input(as, 1, NULL);
    return true;
}

OPERATOR(TopK, .infer = topk_infer, .lower = topk_lower, .sequence = topk_sequence,
         .upgrades = {{10, topk_upgrade_10, topk_undo_10}});

static dim *unique_slices(const node *n, int axis) {
    const type *in = infer_in(n, 0);
    return axis < 0 ? dim_product(infer_dims(n), in->dims, in->rank) : in->dims[axis];
}

static void unique_infer(node *n) {
    const type *in = infer_in(n, 0);
    int rank = infer_rank(n, 0), axis = infer_optional_axis(n);
    dim *slices = unique_slices(n, axis), *count = infer_count_dim(n, slices), *out[MAX_RANK + 1];
    for (int j = 0; j < rank; j++) out[j] = j == axis ? count : in->dims[j];
    if (axis < 0) out[0] = count;
    infer_set(n, 0, in->elem, axis < 0 ? 1 : rank, out);
    infer_set(n, 1, DT_I64, 1, &count);
    infer_set(n, 2, DT_I64, 1, &slices);
    infer_set(n, 3, DT_I64, 1, &count);
}

// x viewed as [before, axis, after]; the parts of complex numbers are an inner axis.
static void describe_slices(node *n, const buffer *x, int axis, dim **numbers) {
    bool complex = dtype_class_of(x->dtype) == DC_COMPLEX;
    dtype t = !complex ? x->dtype : x->dtype == DT_C64 ? DT_F32 : DT_F64;
    numbers[0] = infer_k(n, t);
    numbers[1] = axis < 0 ? infer_k(n, 1) : product_of(n, x->dims, 0, axis);
    numbers[2] = unique_slices(n, axis);
    dim *inner = axis < 0 ? infer_k(n, 1) : product_of(n, x->dims, axis + 1, x->rank);
    numbers[3] = dim_mulk(inner, complex ? 2 : 1);
    numbers[4] = infer_k(n, node_int(n, "sorted", 1) != 0);
}

// The ranks of the strings in sorted order, as keys.
static buffer *string_ranks(lowering *l, node *n, buffer *x) {
    buffer *ranks = lower_temp(l, n, "ranks", DT_I64, x->rank, x->dims);
    lower_call(l, n, "string_rank", 1, BUFFERS(ranks, x), DIMS(buffer_count(x)));
    return ranks;
}

// first, counts, inverse, total = library function; y[.., j, ..] = x[.., first[j], ..]
static void unique_lower(lowering *l, node *n) {
    int axis = infer_optional_axis(n);
    buffer *x = lower_in(l, n, 0);
    lower_arguments(l, n);
    dim *slices = unique_slices(n, axis), *one = infer_k(n, 1), *count = infer_count_dim(n, NULL);
    buffer *first = lower_temp(l, n, "first", DT_I64, 1, &slices);
    buffer *counts = lower_temp(l, n, "counts", DT_I64, 1, &slices);
    buffer *inverse = node_out(n, 2) ? lower_out(l, n, 2) : lower_temp(l, n, "inverse", DT_I64, 1, &slices);
    buffer *total = lower_temp(l, n, "total", DT_I64, 1, &one), *scratch = pairs(l, n, dim_mulk(slices, 4));
    buffer *keys = n->in[0]->type.elem == DT_STRING ? string_ranks(l, n, x) : x;
    dim *numbers[5];
    describe_slices(n, x, axis, numbers);
    lower_call(l, n, "unique", 5, BUFFERS(first, counts, inverse, total, scratch, keys), numbers, 5);
    lower_set_dim(l, n, count, total, 0);
    buffer *y = lower_out(l, n, 0);
    if (y) {
        if (axis < 0)
            x = program_view(l->program, x, arena_printf(l->program->arena, "%s.flat", x->name), 1, &slices);
        int at = axis < 0 ? 0 : axis;
        lower_check(l, n, dim_eq(y->dims[at], count), "the output does not have its declared size");
        kernel *k;
        expr *index[MAX_RANK], *from[MAX_RANK];
        stage *stage = suffixed_stage(l, n, NULL, y, &k, index);
        memcpy(from, index, sizeof from);
        from[at] = x_read(k, first, &index[at]);
        stage_write(k, stage, y, index, x_read(k, x, from));
    }
    lower_convert(l, n, "indices", first, lower_out(l, n, 1));
    lower_convert(l, n, "counts", counts, lower_out(l, n, 3));
}

OPERATOR(Unique, .infer = unique_infer, .lower = unique_lower);

// ---------------------------------------------------------------- NonMaxSuppression
// The maximum number of boxes selected per class.
static dim *nms_chosen(const node *n, dim *most) {
    return dim_max(infer_k(n, 0), dim_min(most, infer_in(n, 0)->dims[1]));
}

static void nms_infer(node *n) {
    const type *boxes = infer_in(n, 0), *scores = infer_in(n, 1);
    dim **most, *chosen = infer_k(n, 0);
    int count;
    if (infer_rank(n, 0) != 3 || infer_rank(n, 1) != 3)
        infer_error(
            n, "boxes must be [batches, boxes, 4] and scores [batches, classes, boxes], but are %s and %s",
            type_text(infer_arena(n), boxes), type_text(infer_arena(n), scores));
    infer_same_dim(n, boxes->dims[0], scores->dims[0], "number of batches");
    infer_same_dim(n, boxes->dims[1], scores->dims[2], "number of boxes");
    infer_same_dim(n, boxes->dims[2], infer_k(n, 4), "size of a box");
    if (node_in(n, 2)) {
        bool known = infer_has_rank(n, 2) && infer_argument(n, 2, 1, &most, &count, DT_I64);
        if (known && count != 1)
            infer_error(n, "max_output_boxes_per_class must have one element, not %d", count);
        chosen = known ? nms_chosen(n, most[0]) : NULL;
    }
    dim *classes = dim_mul(scores->dims[0], scores->dims[1]);
    dim *out[2] = {infer_count_dim(n, chosen ? dim_mul(classes, chosen) : NULL), infer_k(n, 3)};
    infer_set(n, 0, DT_I64, 2, out);
}

static dim *nms_most(lowering *l, node *n) {
    int count;
    if (!node_in(n, 2)) return infer_k(n, 0);
    lower_in(l, n, 2);
    lower_arguments(l, n);
    dim **most = lower_argument(l, n, 2, 1, &count);
    return nms_chosen(n, most[0]);
}

static void nms_lower(lowering *l, node *n) {
    buffer *boxes = lower_in(l, n, 0), *scores = lower_in(l, n, 1);
    dim *most = nms_most(l, n), *one = infer_k(n, 1), *count = infer_count_dim(n, NULL);
    lower_checks(l, n);
    dim *bound[2] = {dim_mul(dim_mul(scores->dims[0], scores->dims[1]), most), infer_k(n, 3)};
    buffer *chosen = lower_temp(l, n, "chosen", DT_I64, 2, bound);
    buffer *total = lower_temp(l, n, "total", DT_I64, 1, &one);
    buffer *scratch = pairs(l, n, dim_mulk(scores->dims[2], 2));
    lower_call(l, n, "nms", 3,
               BUFFERS(chosen, total, scratch, boxes, scores, lower_in(l, n, 3), lower_in(l, n, 4)),
               DIMS(scores->dims[0], scores->dims[1], scores->dims[2], most,
                    infer_k(n, node_int(n, "center_point_box", 0) != 0)));
    lower_set_dim(l, n, count, total, 0);
    buffer *out = lower_out(l, n, 0);
    lower_check(l, n, dim_eq(out->dims[0], count), "the output does not have its declared size");
    lower_convert(l, n, NULL, chosen, out);
}

OPERATOR(NonMaxSuppression, .infer = nms_infer, .lower = nms_lower);
