// Operators with positions from data: Gather, GatherElements, GatherND, ScatterElements, ScatterND, Scatter,
// TensorScatter, OneHot, NonZero, Compress. Such positions are checked and clamped when used.
#include "ir/ops/pointwise.h"
#include "ir/ops/runtime_args.h"
#include "ir/ops/text/string.h"
#include <string.h>

// ---------------------------------------------------------------- Gather
typedef struct gather_source {
    int axis, index_rank, data_rank;
    int64_t data[MAX_RANK], indices[MAX_RANK];
    dim **index;
} gather_source;

static int64_t gather_position(const void *user, const int64_t *at) {
    const gather_source *g = user;
    int64_t in[MAX_RANK];
    const dim *i = g->index[flat_position(at + g->axis, g->indices, g->index_rank)];
    if (!dim_is_const(i)) return -1;
    for (int a = 0; a < g->axis; a++) in[a] = at[a];
    for (int a = g->axis + 1; a < g->data_rank; a++) in[a] = at[a + g->index_rank - 1];
    in[g->axis] = dim_value(i) < 0 ? dim_value(i) + g->data[g->axis] : dim_value(i);
    if (in[g->axis] < 0 || in[g->axis] >= g->data[g->axis]) return -1;
    return flat_position(in, g->data, g->data_rank);
}

static void gather_infer_contents(node *n, int axis) {
    gather_source g = {.axis = axis, .index_rank = infer_in(n, 1)->rank, .data_rank = infer_in(n, 0)->rank};
    int64_t count;
    int known;
    if (!infer_static(infer_in(n, 0), INT32_MAX, g.data, &count)) return;
    if (!infer_static(infer_in(n, 1), CONTENTS_MAX, g.indices, &count)) return;
    g.index = infer_contents(n, 1, &known);
    if (g.index) infer_move_contents(n, gather_position, &g);
}

static void gather_infer(node *n) {
    const type *data = infer_in(n, 0), *indices = infer_in(n, 1);
    int rank = infer_rank(n, 0), q = infer_rank(n, 1), axis = node_axis(n, 0, rank);
    int out_rank = infer_supported_rank(n, rank + q - 1);
    dim *out[MAX_RANK];
    for (int j = 0; j < out_rank; j++)
        out[j] = j < axis ? data->dims[j] : j < axis + q ? indices->dims[j - axis] : data->dims[j - q + 1];
    infer_positions(n, 1, &data->dims[axis], 1);
    infer_set(n, 0, data->elem, out_rank, out);
    gather_infer_contents(n, axis);
}

static void gather_lower(lowering *l, node *n) {
    if (lower_known_contents(l, n)) return;
    buffer *data = lower_in(l, n, 0), *indices = lower_in(l, n, 1), *out = lower_out(l, n, 0);
    int axis = node_axis(n, 0, data->rank), q = indices->rank;
    kernel *k;
    expr *index[MAX_RANK], *from[MAX_RANK];
    stage *s = pointwise_stage(l, n, out, &k, index);
    for (int a = 0; a < axis; a++) from[a] = index[a];
    for (int a = axis + 1; a < data->rank; a++) from[a] = index[a + q - 1];
    from[axis] = x_checked_position(k, x_read(k, indices, index + axis), data->dims[axis], axis);
    stage_write(k, s, out, index, x_read(k, data, from));
}

OPERATOR(Gather, .infer = gather_infer, .lower = gather_lower, .looks_up = true);

// ---------------------------------------------------------------- GatherElements
static void same_rank(const node *n, int i, int rank) {
    if (infer_rank(n, i) != rank)
        infer_error(n, "inputs 0 and %d have ranks %d and %d", i, rank, infer_rank(n, i));
}

// Along the other axes the indices may cover a part of the data, but not exceed it.
static void covered(const node *n, int axis) {
    const type *data = infer_in(n, 0), *indices = infer_in(n, 1);
    for (int a = 0; a < data->rank; a++)
        if (a != axis && dim_less(data->dims[a], indices->dims[a]) == TRI_YES)
            infer_error(n, "axis %d: indices have size %s, data has %s", a,
                        dim_text(infer_arena(n), indices->dims[a]), dim_text(infer_arena(n), data->dims[a]));
}
static void lower_covered(lowering *l, const node *n, int axis) {
    const type *data = infer_in(n, 0), *indices = infer_in(n, 1);
    for (int a = 0; a < data->rank; a++)
        if (a != axis)
            lower_check(l, n, dim_at_most(indices->dims[a], data->dims[a]),
                        "the indices are larger than the data");
}

static void gather_elements_infer(node *n) {
    int rank = infer_rank(n, 0), axis = node_axis(n, 0, rank);
    same_rank(n, 1, rank);
    covered(n, axis);
    infer_positions(n, 1, &infer_in(n, 0)->dims[axis], 1);
    infer_set(n, 0, infer_in(n, 0)->elem, rank, infer_in(n, 1)->dims);
}

static void gather_elements_lower(lowering *l, node *n) {
    buffer *data = lower_in(l, n, 0), *indices = lower_in(l, n, 1);
    int axis = node_axis(n, 0, data->rank);
    lower_covered(l, n, axis);
    buffer *out = lower_out(l, n, 0);
    kernel *k;
    expr *index[MAX_RANK], *from[MAX_RANK];
    stage *s = pointwise_stage(l, n, out, &k, index);
    memcpy(from, index, sizeof from);
    from[axis] = x_checked_position(k, x_read(k, indices, index), data->dims[axis], axis);
    stage_write(k, s, out, index, x_read(k, data, from));
}

OPERATOR(GatherElements, .infer = gather_elements_infer, .lower = gather_elements_lower);

// ---------------------------------------------------------------- GatherND
// The number of axes in an index tuple: the last size of input 1, or the length implied by the ranks if that
// is not constant (-1: none).
static int tuple_length(const node *n, int most, int by_ranks) {
    const type *indices = infer_in(n, 1);
    if (infer_rank(n, 1) < 1) infer_error(n, "the indices have rank 0");
    const dim *last = indices->dims[indices->rank - 1];
    if (!dim_is_const(last) && by_ranks < 0) return -1;
    int64_t length = dim_is_const(last) ? dim_value(last) : by_ranks;
    if (length < 1 || length > most)
        infer_error(n, "index tuples have length %lld; it must be in [1, %d]", (long long)length, most);
    return (int)length;
}
static void lower_tuple_length(lowering *l, const node *n, int length) {
    const type *indices = infer_in(n, 1);
    lower_check(l, n, dim_eq(indices->dims[indices->rank - 1], infer_k(n, length)),
                "index tuples do not have the length that the ranks require");
}

// The tuple at index[0..rank of indices - 1), as positions on data's axes from `first` on.
static void read_tuple(kernel *k, buffer *indices, expr *const *index, const buffer *data, int first,
                       int length, expr **position) {
    expr *at[MAX_RANK];
    for (int j = 0; j < indices->rank - 1; j++) at[j] = index[j];
    for (int j = 0; j < length; j++) {
        at[indices->rank - 1] = x_i64(k, j);
        position[j] = x_checked_position(k, x_read(k, indices, at), data->dims[first + j], first + j);
    }
}

// Sets the sizes of the output and returns its rank.
static int gather_nd_dims(const node *n, int batch, int length, dim **out) {
    const type *data = infer_in(n, 0), *indices = infer_in(n, 1);
    int q = indices->rank, slice = data->rank - batch - length;
    int rank = infer_supported_rank(n, q - 1 + slice);
    for (int j = 0; j < batch; j++)
        out[j] = infer_same_dim(n, data->dims[j], indices->dims[j], "batch sizes");
    for (int j = batch; j < q - 1; j++) out[j] = indices->dims[j];
    for (int j = 0; j < slice; j++) out[q - 1 + j] = data->dims[batch + length + j];
    return rank;
}

static void gather_nd_infer(node *n) {
    int rank = infer_rank(n, 0), q = infer_rank(n, 1), batch = (int)node_int(n, "batch_dims", 0);
    if (batch < 0 || batch >= rank || batch >= q)
        infer_error(n, "batch_dims is %d, the ranks are %d and %d", batch, rank, q);
    dim *out[MAX_RANK];
    int length = tuple_length(n, rank - batch, rank - batch == 1 ? 1 : -1);
    if (length > 0) infer_positions(n, 1, &infer_in(n, 0)->dims[batch], length);
    if (length < 0) infer_set_unknown(n, 0, infer_in(n, 0)->elem);
    else infer_set(n, 0, infer_in(n, 0)->elem, gather_nd_dims(n, batch, length, out), out);
}

static void gather_nd_lower(lowering *l, node *n) {
    buffer *data = lower_in(l, n, 0), *indices = lower_in(l, n, 1);
    int batch = (int)node_int(n, "batch_dims", 0), most = data->rank - batch;
    if (n->out[0]->type.rank == RANK_UNKNOWN) lower_out(l, n, 0); // reports the unknown rank
    int length = tuple_length(n, most, indices->rank - 1 + most - n->out[0]->type.rank);
    dim *sizes[MAX_RANK];
    lower_tuple_length(l, n, length);
    gather_nd_dims(n, batch, length, sizes);
    lower_sizes(l, n, sizes);
    buffer *out = lower_out(l, n, 0);
    kernel *k;
    expr *index[MAX_RANK], *from[MAX_RANK];
    stage *s = pointwise_stage(l, n, out, &k, index);
    for (int j = 0; j < batch; j++) from[j] = index[j];
    read_tuple(k, indices, index, data, batch, length, from + batch);
    for (int j = batch + length; j < data->rank; j++) from[j] = index[indices->rank - 1 + j - batch - length];
    stage_write(k, s, out, index, x_read(k, data, from));
}

OPERATOR(GatherND, .infer = gather_nd_infer, .lower = gather_nd_lower);

// ---------------------------------------------------------------- ScatterElements, ScatterND
static write_combine reduction_of(const node *n, dtype t) {
    static const write_combine numbers[] = {COMBINE_SET, COMBINE_ADD, COMBINE_MUL, COMBINE_MIN, COMBINE_MAX};
    int r = node_choice(n, "reduction", "none add mul min max");
    if (infer_in(n, 0)->elem == DT_STRING && r)
        infer_error(n, "strings cannot be reduced by '%s'", node_string(n, "reduction", ""));
    if (dtype_class_of(infer_in(n, 0)->elem) == DC_COMPLEX &&
        (numbers[r] == COMBINE_MIN || numbers[r] == COMBINE_MAX))
        infer_error(n, "complex numbers have no order for '%s'", node_string(n, "reduction", ""));
    if (t == DT_BOOL && numbers[r] == COMBINE_ADD) return COMBINE_MAX; // logical or
    return t == DT_BOOL && numbers[r] == COMBINE_MUL ? COMBINE_MIN : numbers[r];
}

// A stage over b's dims in which the axes of `scan` are innermost and sequential: updates that may collide
// differ only in their positions on these.
static stage *scatter_stage(kernel *k, const buffer *b, const bool *scan, expr **index) {
    stage *s = kernel_stage(k);
    for (int ordered = 0; ordered < 2; ordered++)
        for (int j = 0; j < b->rank; j++) {
            if (scan[j] != ordered) continue;
            axis_kind kind = ordered ? AXIS_SCAN : AXIS_PARALLEL;
            index[j] = stage_own_axis(k, s, kind, arena_printf(k->arena, "i%d", j), b->dims[j]);
        }
    return s;
}

// The kernels of a scatter: sums of complex numbers are sums of their parts, and products a library function.
typedef struct scattering {
    lowering *l;
    node *n;
    buffer *data, *out, *updates, *places; // places: of the products
    kernel *k;
    stage *s;
    expr *index[MAX_RANK]; // of the update
    bool ordered;          // updates may collide
} scattering;

static scattering scatter_begin(lowering *l, node *n, const bool *scan) {
    scattering c = {.l = l, .n = n, .data = lower_in(l, n, 0), .updates = lower_in(l, n, 2)};
    bool complex = dtype_class_of(c.data->dtype) == DC_COMPLEX;
    write_combine how = reduction_of(n, c.data->dtype);
    c.out = lower_out(l, n, 0);
    if (complex && how == COMBINE_MUL) {
        c.places = lower_temp(l, n, "places", DT_I64, c.updates->rank, c.updates->dims);
    } else {
        lower_convert(l, n, "copy", c.data, c.out);
        c.out = complex && how != COMBINE_SET ? lower_parts(l, c.out) : c.out;
        c.updates = complex && how != COMBINE_SET ? lower_parts(l, c.updates) : c.updates;
    }
    bool order[MAX_RANK];
    for (int j = 0; j < c.updates->rank; j++) {
        order[j] = scan[j] && (how != COMBINE_SET || !dim_is(c.updates->dims[j], 1));
        c.ordered |= order[j];
    }
    c.k = lower_kernel(l, n, "scatter");
    c.s = scatter_stage(c.k, c.updates, order, c.index);
    return c;
}

static void scatter_end(scattering *c, expr **to) {
    kernel *k = c->k;
    int rank = c->data->rank;
    if (!c->places) {
        if (c->out->rank > rank) to[rank] = c->index[c->updates->rank - 1];
        write *w = stage_write(k, c->s, c->out, to, x_read(k, c->updates, c->index));
        w->combine = reduction_of(c->n, c->out->dtype);
        w->when = c->ordered || w->combine != COMBINE_SET ? WRITE_AFTER : WRITE_END;
        return;
    }
    expr *place = x_i64(k, 0);
    for (int j = 0; j < rank; j++) place = x_add(k, x_mul(k, place, x_dim(k, c->data->dims[j])), to[j]);
    stage_write(k, c->s, c->places, c->index, place)->when = WRITE_AFTER;
    lower_call(
        c->l, c->n, "scatter_mul", 1, BUFFERS(c->out, c->data, c->places, c->updates),
        DIMS(buffer_count(c->data), buffer_count(c->updates), infer_k(c->n, c->data->dtype == DT_C128)));
}

static void scatter_elements_infer(node *n) {
    int rank = infer_rank(n, 0), axis = node_axis(n, 0, rank);
    same_rank(n, 1, rank);
    same_rank(n, 2, rank);
    covered(n, axis);
    for (int a = 0; a < rank; a++)
        infer_same_dim(n, infer_in(n, 1)->dims[a], infer_in(n, 2)->dims[a], "sizes of indices and updates");
    infer_positions(n, 1, &infer_in(n, 0)->dims[axis], 1);
    reduction_of(n, infer_in(n, 0)->elem);
    infer_same(n, 0, 0);
}

// out = data; for the updates, in order along the axis: out[.., indices[i], ..] (op)= updates[i]
static void scatter_elements_lower(lowering *l, node *n) {
    buffer *indices = lower_in(l, n, 1);
    int axis = node_axis(n, 0, indices->rank);
    expr *to[MAX_RANK];
    bool scan[MAX_RANK] = {false};
    lower_covered(l, n, axis);
    scan[axis] = true;
    scattering c = scatter_begin(l, n, scan);
    memcpy(to, c.index, sizeof to);
    to[axis] = x_checked_position(c.k, x_read(c.k, indices, c.index), c.data->dims[axis], axis);
    scatter_end(&c, to);
}

static int scatter_nd_length(const node *n) {
    int rank = infer_rank(n, 0);
    return tuple_length(n, rank, infer_rank(n, 1) - 1 + rank - infer_rank(n, 2));
}

static void scatter_nd_infer(node *n) {
    const type *data = infer_in(n, 0), *indices = infer_in(n, 1), *updates = infer_in(n, 2);
    reduction_of(n, data->elem);
    infer_same(n, 0, 0);
    int length = scatter_nd_length(n), q = indices->rank, want = q - 1 + data->rank - length;
    if (updates->rank != want) infer_error(n, "updates have rank %d, not %d", updates->rank, want);
    infer_positions(n, 1, data->dims, length);
    for (int j = 0; j < updates->rank; j++)
        infer_same_dim(n, updates->dims[j], j < q - 1 ? indices->dims[j] : data->dims[length + j - (q - 1)],
                       "size of updates");
}

// out = data; for the tuples in order: out[tuple, slice] (op)= updates[.., slice]
static void scatter_nd_lower(lowering *l, node *n) {
    buffer *indices = lower_in(l, n, 1);
    int length = scatter_nd_length(n);
    expr *to[MAX_RANK];
    bool scan[MAX_RANK] = {false};
    lower_tuple_length(l, n, length);
    for (int j = 0; j < indices->rank - 1; j++) scan[j] = true;
    scattering c = scatter_begin(l, n, scan);
    read_tuple(c.k, indices, c.index, c.data, 0, length, to);
    for (int j = length; j < c.data->rank; j++) to[j] = c.index[indices->rank - 1 + j - length];
    scatter_end(&c, to);
}

// Scatter is ScatterElements without reductions.
static void scatter_upgrade_11(node *n) { n->op = op_find("", "ScatterElements"); }

// Reductions to the larger and the smaller number.
static bool scatter_undo_18(node *as) {
    const char *reduction = node_string(as, "reduction", "none");
    return strcmp(reduction, "max") != 0 && strcmp(reduction, "min") != 0;
}

OPERATOR(ScatterElements, .upgrades = {{18, NULL, scatter_undo_18}}, .infer = scatter_elements_infer,
         .lower = scatter_elements_lower);
OPERATOR(ScatterND, .upgrades = {{18, NULL, scatter_undo_18}}, .infer = scatter_nd_infer,
         .lower = scatter_nd_lower);
OPERATOR(Scatter, .upgrades = {{11, scatter_upgrade_11}}, .infer = scatter_elements_infer,
         .lower = scatter_elements_lower);

// ---------------------------------------------------------------- TensorScatter
static bool is_circular(const node *n) { return node_choice(n, "mode", "linear circular") == 1; }

// Reports constant starts at which the update does not fit in the cache.
static void check_starts(const node *n, const dim *size, const dim *length) {
    int count;
    dim **starts = infer_contents(n, 2, &count);
    if (is_circular(n) || !dim_is_const(size) || !dim_is_const(length)) return;
    for (int i = 0; starts && i < count; i++) {
        if (!dim_is_const(starts[i])) continue;
        int64_t start = dim_value(starts[i]), most = dim_value(size) - dim_value(length);
        if (start < 0 || start > most)
            infer_error(n, "write index %lld is outside [0, %lld]: the update does not fit in the cache",
                        (long long)start, (long long)most);
    }
}

static void tensor_scatter_infer(node *n) {
    int rank = infer_rank(n, 0), axis = node_axis(n, -2, rank);
    const type *cache = infer_in(n, 0), *update = infer_in(n, 1);
    if (axis == 0) infer_error(n, "axis 0 is the batch");
    same_rank(n, 1, rank);
    is_circular(n);
    for (int a = 0; a < rank; a++)
        if (a != axis) infer_same_dim(n, cache->dims[a], update->dims[a], "sizes of cache and update");
    if (dim_less(cache->dims[axis], update->dims[axis]) == TRI_YES)
        infer_error(n, "the update is longer than the cache");
    infer_shape(n, 2, "write_indices", 1, cache->dims, "batch size and length of write_indices");
    check_starts(n, cache->dims[axis], update->dims[axis]);
    infer_same(n, 0, 0);
}

// The cache's element at index; with an input `leaving` (int64[b], of decompositions only) that many rows further on, if there is one.
static expr *cache_element(lowering *l, node *n, kernel *k, buffer *cache, int axis, expr **index) {
    expr *kept = x_read(k, cache, index), *from[MAX_RANK];
    if (!node_in(n, 3)) return kept;
    memcpy(from, index, sizeof from);
    expr *leaving = x_bin(k, X_MAX, x_read(k, lower_in(l, n, 3), index), x_i64(k, 0));
    from[axis] = x_add(k, index[axis], leaving);
    return x_read_guarded(k, cache, from, x_inside(k, from[axis], cache->dims[axis]), kept);
}

// out[b, .., i, ..] = the update at i - write_indices[b] (modulo the cache's size if circular) if that is in
// range, else the cache's element
static void tensor_scatter_lower(lowering *l, node *n) {
    buffer *cache = lower_in(l, n, 0), *update = lower_in(l, n, 1), *starts = lower_in(l, n, 2);
    int axis = node_axis(n, -2, cache->rank);
    dim *size = cache->dims[axis], *length = update->dims[axis];
    lower_check(l, n, dim_at_most(length, size), "the update is longer than the cache");
    buffer *out = lower_out(l, n, 0);
    kernel *k;
    expr *index[MAX_RANK], *from[MAX_RANK];
    stage *s = pointwise_stage(l, n, out, &k, index);
    memcpy(from, index, sizeof from);
    expr *start = starts ? x_read(k, starts, index) : x_i64(k, 0);
    if (!is_circular(n))
        start = x_checked_index(k, start, dim_addk(dim_sub(size, length), 1), false,
                                "the update does not fit in the cache");
    else start = x_bin(k, X_MOD, start, x_dim(k, size));
    from[axis] = x_sub(k, index[axis], start);
    if (is_circular(n)) from[axis] = x_bin(k, X_MOD, from[axis], x_dim(k, size));
    expr *inside = x_inside(k, from[axis], length), *kept = cache_element(l, n, k, cache, axis, index);
    stage_write(k, s, out, index, x_read_guarded(k, update, from, inside, kept));
}

OPERATOR(TensorScatter, .infer = tensor_scatter_infer, .lower = tensor_scatter_lower);

// ---------------------------------------------------------------- OneHot
// The number of classes; *counted if it is a float known only at run time, which the lowering converts.
static dim *one_hot_depth(node *n, bool *counted) {
    int count;
    dim **depth = infer_contents_or_opaque(n, 1, &count);
    const constant *c = infer_constant(n, 1);
    *counted = false;
    if (depth && count != 1) infer_error(n, "depth must be a scalar");
    if (depth) return depth[0];
    if (c && c->count == 1) return infer_k(n, (int64_t)constant_float(c, 0));
    *counted = true;
    return infer_count_dim(n, NULL);
}

static void one_hot_infer_contents(node *n, int axis, dim *depth) {
    int ni, nv;
    dim **index = infer_contents(n, 0, &ni), **values = infer_contents(n, 2, &nv), *to[CONTENTS_MAX];
    int64_t sizes[MAX_RANK], at[MAX_RANK] = {0}, count;
    const type *in = infer_in(n, 0), *out = &n->out[0]->type;
    if (!index || !values || nv != 2 || !infer_static(out, CONTENTS_MAX, sizes, &count)) return;
    for (int64_t e = 0; e < count; e++) {
        int64_t p = 0;
        for (int j = 0; j < in->rank; j++) p = p * dim_value(in->dims[j]) + at[j + (j >= axis)];
        dim *here = infer_k(n, at[axis]);
        dim *hit = dim_or(dim_eq(index[p], here), dim_eq(index[p], dim_sub(here, depth)));
        to[e] = dim_select(hit, values[1], values[0]);
        for (int j = out->rank - 1; j >= 0 && ++at[j] == sizes[j]; j--) at[j] = 0;
    }
    infer_set_contents(n, 0, to, (int)count);
}

static void one_hot_infer(node *n) {
    const type *indices = infer_in(n, 0);
    int rank = infer_rank(n, 0), axis = node_axis(n, -1, rank + 1);
    const type *values = infer_in(n, 2);
    bool counted;
    dim *depth = one_hot_depth(n, &counted), *out[MAX_RANK + 1];
    infer_one_element(n, 1, "depths");
    if (values->rank == 1)
        infer_same_dim(n, values->dims[0], infer_k(n, 2), "the number of values, which must be 2");
    else if (values->rank != RANK_UNKNOWN) infer_error(n, "values has rank %d, not 1", values->rank);
    infer_supported_rank(n, rank + 1);
    for (int j = 0; j <= rank; j++)
        out[j] = j < axis ? indices->dims[j] : j == axis ? depth : indices->dims[j - 1];
    infer_set(n, 0, infer_in(n, 2)->elem, rank + 1, out);
    if (node_out(n, 0)) one_hot_infer_contents(n, axis, depth);
}

static void one_hot_set_depth(lowering *l, node *n, dim *depth) {
    dim *one = infer_k(n, 1);
    buffer *from = lower_in(l, n, 1), *b = lower_temp(l, n, "depth", DT_I64, 1, &one);
    kernel *k = lower_kernel(l, n, "depth");
    expr *zero[MAX_RANK];
    zero[0] = x_i64(k, 0);
    for (int j = 1; j < from->rank; j++) zero[j] = zero[0];
    stage_write(k, kernel_stage(k), b, zero, x_cast(k, x_read(k, from, zero), DT_I64, false));
    lower_set_dim(l, n, depth, b, 0);
}

static void one_hot_lower(lowering *l, node *n) {
    bool counted;
    dim *depth = one_hot_depth(n, &counted);
    if (counted) one_hot_set_depth(l, n, depth);
    lower_arguments(l, n);
    lower_check_size(l, n, depth, "depth is negative");
    if (lower_known_contents(l, n)) return;
    buffer *indices = lower_in(l, n, 0), *values = lower_in(l, n, 2), *out = lower_out(l, n, 0);
    int axis = node_axis(n, -1, out->rank);
    kernel *k;
    expr *index[MAX_RANK], *from[MAX_RANK];
    stage *s = pointwise_stage(l, n, out, &k, index);
    for (int j = 0; j < indices->rank; j++) from[j] = index[j + (j >= axis)];
    expr *i = x_read(k, indices, from), *zero = x_i64(k, 0), *one = x_i64(k, 1);
    bool is_signed = dtype_is_signed(indices->dtype);
    i = x_cast(k, i, DT_I64, false);
    if (is_signed) i = x_select(k, x_lt(k, i, zero), x_add(k, i, x_dim(k, depth)), i);
    expr *on = x_read(k, values, &one), *off = x_read(k, values, &zero);
    stage_write(k, s, out, index, x_select(k, x_bin(k, X_EQ, i, index[axis]), on, off));
}

OPERATOR(OneHot, .infer = one_hot_infer, .lower = one_hot_lower);

// ---------------------------------------------------------------- NonZero
static expr *is_true(kernel *k, expr *x) {
    return x->dtype == DT_BOOL ? x : x_bin(k, X_NE, x, x_zero(k, x->dtype));
}

// Whether b's element at index[0..rank) is nonzero; b may have an additional axis of real and imaginary
// parts.
static expr *is_nonzero(kernel *k, buffer *b, expr *const *index, int rank) {
    if (b->rank == rank) return is_true(k, x_read(k, b, index));
    expr *part[MAX_RANK + 1];
    memcpy(part, index, (size_t)rank * sizeof *part);
    part[rank] = x_i64(k, 0);
    expr *real = is_true(k, x_read(k, b, part));
    part[rank] = x_i64(k, 1);
    return x_bin(k, X_OR, real, is_true(k, x_read(k, b, part)));
}

// Sets n's count to the number of nonzero elements of b: of all elements, or of the first `extent` of a list.
// rank: of the input.
static void lower_count(lowering *l, node *n, buffer *b, int rank, dim *extent, dim *count) {
    dim *one = infer_k(n, 1);
    buffer *to = lower_temp(l, n, "count", DT_I64, 1, &one);
    kernel *k = lower_kernel(l, n, "count");
    stage *s = kernel_stage(k);
    expr *index[MAX_RANK], *zero = x_i64(k, 0);
    for (int j = 0; j < rank; j++) {
        index[j] =
            stage_own_axis(k, s, AXIS_REDUCE, arena_printf(k->arena, "r%d", j), extent ? extent : b->dims[j]);
    }
    expr *chosen = is_nonzero(k, b, index, rank);
    expr *total = stage_reduce(k, s, RED_SUM, x_select(k, chosen, x_i64(k, 1), zero));
    stage_write(k, s, to, &zero, total);
    lower_set_dim(l, n, count, to, 0);
}

static void nonzero_infer(node *n) {
    const type *in = infer_in(n, 0);
    int rank = infer_rank(n, 0);
    dim *most = dim_product(infer_dims(n), in->dims, rank);
    dim *out[2] = {infer_k(n, rank), infer_count_dim(n, most)};
    infer_set(n, 0, DT_I64, 2, out);
}

// position = 0; for all elements in order: if nonzero: out[axis, position] = index on axis, position++
static void nonzero_lower(lowering *l, node *n) {
    buffer *in = lower_in(l, n, 0), *parts = lower_parts(l, in);
    dim *count = infer_count_dim(n, NULL);
    lower_count(l, n, parts, in->rank, NULL, count);
    lower_arguments(l, n);
    buffer *out = lower_out(l, n, 0);
    lower_check(l, n, dim_eq(out->dims[1], count), "the output does not have its declared size");
    kernel *k = lower_kernel(l, n, NULL);
    expr *index[MAX_RANK];
    bool scan[MAX_RANK];
    memset(scan, true, sizeof scan);
    stage *s = scatter_stage(k, in, scan, index);
    expr *position = stage_state(k, s, DT_I64, x_i64(k, 0)), *chosen = is_nonzero(k, parts, index, in->rank);
    stage_step(s, 0, x_select(k, chosen, x_add(k, position, x_i64(k, 1)), position), NULL);
    for (int j = 0; j < in->rank; j++) {
        expr *to[2] = {x_i64(k, j), position};
        write *w = stage_write(k, s, out, to, index[j]);
        w->when = WRITE_BEFORE, w->guard = chosen;
    }
}

// A string is nonzero if it is not empty.
static bool nonzero_canonicalise(node *n) {
    if (n->in[0]->type.elem != DT_STRING) return false;
    const char *empty = "";
    constant *c = strings_constant(infer_arena(n), &empty, NULL, 1);
    value *pair[] = {n->in[0], value_constant(n->graph, NULL, c)};
    value *equal = insert_before(n, "Equal", 2, pair, NULL);
    node_set_in(n, 0, insert_before(n, "Not", 1, &equal, NULL));
    return true;
}

OPERATOR(NonZero, .infer = nonzero_infer, .lower = nonzero_lower, .canonicalise = nonzero_canonicalise);

// The number of positions that the condition covers: it may be shorter than the axis.
static dim *compress_extent(const node *n, int axis) {
    const type *in = infer_in(n, 0);
    const type *condition = infer_in(n, 1);
    dim *size = axis < 0 ? dim_product(infer_dims(n), in->dims, in->rank) : in->dims[axis];
    return dim_min(size, dim_product(infer_dims(n), condition->dims, condition->rank));
}

static void compress_infer(node *n) {
    const type *in = infer_in(n, 0);
    int rank = infer_rank(n, 0), axis = infer_optional_axis(n);
    if (infer_rank(n, 1) != 1 && axis >= 0)
        infer_error(n, "the condition has rank %d, not 1", infer_rank(n, 1));
    dim *count = infer_count_dim(n, compress_extent(n, axis)), *out[MAX_RANK];
    for (int a = 0; a < rank; a++) out[a] = a == axis ? count : in->dims[a];
    if (axis < 0) out[0] = count;
    infer_set(n, 0, in->elem, axis < 0 ? 1 : rank, out);
}

// position = 0; for i in order: if condition[i]: to[position] = value(i), position++
static void compress_along(kernel *k, buffer *condition, dim *extent, buffer *to, buffer *in) {
    stage *s = kernel_stage(k);
    expr *i = stage_own_axis(k, s, AXIS_SCAN, "i", extent), *chosen = x_read(k, condition, &i);
    expr *position = stage_state(k, s, DT_I64, x_i64(k, 0));
    stage_step(s, 0, x_select(k, chosen, x_add(k, position, x_i64(k, 1)), position), NULL);
    expr *value = in ? x_read(k, in, &i) : x_cast(k, i, to->dtype, false);
    write *w = stage_write(k, s, to, &position, value);
    w->when = WRITE_BEFORE, w->guard = chosen;
}

// The chosen positions, from the first on.
static buffer *compress_positions(lowering *l, node *n, buffer *condition, dim *extent) {
    dtype t = extent->max <= INT32_MAX ? DT_I32 : DT_I64;
    buffer *chosen = lower_temp(l, n, "chosen", t, 1, &extent);
    compress_along(lower_kernel(l, n, "chosen"), condition, extent, chosen, NULL);
    return chosen;
}

// for all axes: out[.., t, ..] = in[.., chosen[t], ..]; of a list directly, as compress_along
static void compress_lower(lowering *l, node *n) {
    buffer *in = lower_in(l, n, 0), *condition = lower_in(l, n, 1);
    int axis = infer_optional_axis(n);
    dim *extent = compress_extent(n, axis), *count = infer_count_dim(n, NULL);
    lower_count(l, n, condition, 1, extent, count);
    lower_arguments(l, n);
    buffer *out = lower_out(l, n, 0);
    if (axis < 0) {
        dim *all = buffer_count(in);
        in = program_view(l->program, in, arena_printf(l->program->arena, "%s.flat", in->name), 1, &all);
        axis = 0;
    }
    lower_check(l, n, dim_eq(out->dims[axis], count), "the output does not have its declared size");
    if (in->rank == 1) {
        compress_along(lower_kernel(l, n, NULL), condition, extent, out, in);
        return;
    }
    buffer *chosen = compress_positions(l, n, condition, extent);
    kernel *k;
    expr *from[MAX_RANK], *to[MAX_RANK];
    stage *s = pointwise_stage(l, n, out, &k, to);
    memcpy(from, to, (size_t)in->rank * sizeof *from);
    from[axis] = x_cast(k, x_read(k, chosen, &to[axis]), DT_I64, false);
    stage_write(k, s, out, to, x_read(k, in, from));
}

// Exporters give conditions of the data's shape, and ONNX Runtime takes them.
static bool compress_canonicalise(node *n) {
    int rank = infer_in(n, 1)->rank;
    if (rank == 1 || rank == RANK_UNKNOWN || node_attr(n, "axis")) return false;
    value *flat[] = {n->in[1], value_int64s(n->graph, NULL, (int64_t[]){-1}, 1)};
    node_set_in(n, 1, insert_before(n, "Reshape", 2, flat, NULL));
    return true;
}

OPERATOR(Compress, .infer = compress_infer, .lower = compress_lower, .canonicalise = compress_canonicalise);
