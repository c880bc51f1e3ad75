// Normalizations: one kernel of several stages computes mean and variance of each row (in two passes) and the
// normalised elements. BatchNormalization is pointwise in inference.
#include "ir/ops/pointwise.h"
#include "ir/ops/rows.h"
#include "ir/ops/runtime_args.h"
#include <string.h>

// for kept:
//   mean = sum x / count
//   scale = 1 / sqrt(sum (x - mean) ** 2 / count + epsilon)
//   out = (x - mean) * scale * gamma + beta
typedef struct norm {
    rows rows;
    kernel *k;
    buffer *x;
    dtype t;    // type of the statistics
    bool split; // the rows' dims 1 and 2 (groups, channels in a group) are x's dim 1
} norm;

static norm norm_new(lowering *l, node *n, dtype t, int rank, dim *const *dims, dim *const *mask) {
    norm m = {.k = lower_kernel(l, n, NULL), .x = lower_in(l, n, 0), .t = t};
    m.rows = rows_new(m.k, rank, dims, mask);
    return m;
}

static dtype wider(dtype a, dtype b) {
    return dtype_compute(a) == DT_F64 || dtype_compute(b) == DT_F64 ? DT_F64 : DT_F32;
}

// A stage over the row; at[] becomes the position in x. r->walk has the extents of the rows' dims.
static stage *norm_stage(norm *m, axis_kind kind, expr **at) {
    expr *index[MAX_RANK];
    stage *s = rows_stage(&m->rows, kind, index);
    if (!m->split) {
        for (int i = 0; i < m->x->rank; i++) at[i] = index[i];
        return s;
    }
    at[0] = index[0];
    at[1] = x_add(m->k, x_mul(m->k, index[1], x_dim(m->k, m->rows.walk[2])), index[2]);
    for (int i = 2; i < m->x->rank; i++) at[i] = index[i + 1];
    return s;
}

static expr *norm_x(norm *m, expr *const *at) { return x_as(m->k, x_read(m->k, m->x, at), m->t); }

static expr *per_count(norm *m, expr *sum) { return x_div(m->k, sum, rows_count(&m->rows, m->t)); }

// The mean of a row; *s is its stage, for further writes.
static expr *norm_mean(norm *m, stage **s) {
    expr *at[MAX_RANK];
    *s = norm_stage(m, AXIS_REDUCE, at);
    expr *mean = per_count(m, stage_reduce(m->k, *s, RED_SUM, norm_x(m, at)));
    return rows_scalar(&m->rows, *s, "mean", mean);
}

// The mean square of x - mean (of x if mean is NULL), not yet stored.
static expr *norm_mean_square(norm *m, expr *mean, stage **s) {
    expr *at[MAX_RANK];
    *s = norm_stage(m, AXIS_REDUCE, at);
    expr *x = norm_x(m, at);
    if (mean) x = x_sub(m->k, x, mean);
    return per_count(m, stage_reduce(m->k, *s, RED_SUM, x_mul(m->k, x, x)));
}

// 1 / sqrt(variance + epsilon)
static expr *norm_scale(norm *m, const node *n, expr *variance) {
    expr *sum = x_add(m->k, variance, x_attr(m->k, n, "epsilon", 1e-5f, m->t));
    return x_div(m->k, x_float(m->k, m->t, 1), x_un(m->k, X_SQRT, sum));
}

// Writes a result of stage s also to a tensor with one element per row.
static void write_rows(norm *m, stage *s, buffer *to, expr *const *index, expr *value) {
    if (to) stage_write(m->k, s, to, index, x_as(m->k, value, dtype_compute(to->dtype)));
}

// v * gamma + beta in the type of the output; gamma and beta may be NULL.
static expr *scale_shift(kernel *k, expr *v, expr *gamma, expr *beta, dtype t) {
    v = x_as(k, v, t);
    if (gamma) v = x_mul(k, v, x_as(k, gamma, t));
    if (beta) v = x_add(k, v, x_as(k, beta, t));
    return v;
}

// ---------------------------------------------------------------- LayerNormalization, RMSNormalization
static dtype stash_type(const node *n) {
    dtype t = dtype_from_onnx((int)node_int(n, "stash_type", 1));
    if (!dtype_is_float(t)) infer_error(n, "attribute stash_type is not a floating-point type");
    return t;
}

static void infer_layer_normalization(node *n) {
    const type *x = infer_in(n, 0);
    int rank = infer_rank(n, 0), axis = node_axis(n, -1, rank);
    dim *dims[MAX_RANK];
    infer_same(n, 0, 0);
    infer_broadcast_into(n, 1, rank, x->dims, "Scale");
    if (node_in(n, 2)) infer_broadcast_into(n, 2, rank, x->dims, "B");
    for (int i = 0; i < rank; i++) dims[i] = i < axis ? x->dims[i] : infer_k(n, 1);
    for (int out = 1; out < 3; out++) infer_set(n, out, stash_type(n), rank, dims);
}

static norm rows_from_axis(lowering *l, node *n) {
    const type *x = infer_in(n, 0);
    dim *mask[MAX_RANK];
    rows_mask(l->program->dims, x->rank, node_axis(n, -1, infer_rank(n, 0)), x->rank, mask);
    return norm_new(l, n, dtype_compute(stash_type(n)), x->rank, x->dims, mask);
}

static void lower_layer_normalization(lowering *l, node *n) {
    buffer *gamma = lower_in(l, n, 1), *beta = lower_in(l, n, 2), *out = lower_out(l, n, 0);
    buffer *mean_out = lower_out(l, n, 1), *scale_out = lower_out(l, n, 2);
    norm m = rows_from_axis(l, n);
    kernel *k = m.k;
    int rank = m.x->rank;
    stage *s;
    expr *at[MAX_RANK];
    expr *mean = norm_mean(&m, &s);
    write_rows(&m, s, mean_out, m.rows.kept, s->writes.at[0].value);
    expr *scale = norm_scale(&m, n, norm_mean_square(&m, mean, &s));
    write_rows(&m, s, scale_out, m.rows.kept, scale);
    scale = rows_scalar(&m.rows, s, "scale", scale);
    s = norm_stage(&m, AXIS_PARALLEL, at);
    expr *v = x_mul(k, x_sub(k, norm_x(&m, at), mean), scale);
    expr *b = beta ? read_broadcast(k, beta, at, rank) : NULL;
    if (out)
        stage_write(k, s, out, at,
                    scale_shift(k, v, read_broadcast(k, gamma, at, rank), b, dtype_compute(out->dtype)));
}

static void infer_rms_normalization(node *n) {
    const type *x = infer_in(n, 0);
    int rank = infer_rank(n, 0);
    stash_type(n);
    node_axis(n, -1, infer_rank(n, 0));
    infer_broadcast_into(n, 1, rank, x->dims, "scale");
    infer_set(n, 0, infer_in(n, 1)->elem, rank, x->dims);
}

static void lower_rms_normalization(lowering *l, node *n) {
    buffer *gamma = lower_in(l, n, 1), *out = lower_out(l, n, 0);
    norm m = rows_from_axis(l, n);
    kernel *k = m.k;
    stage *s;
    expr *at[MAX_RANK];
    expr *scale = norm_scale(&m, n, norm_mean_square(&m, NULL, &s));
    scale = rows_scalar(&m.rows, s, "scale", scale);
    s = norm_stage(&m, AXIS_PARALLEL, at);
    expr *v = x_mul(k, norm_x(&m, at), scale);
    stage_write(k, s, out, at,
                scale_shift(k, v, read_broadcast(k, gamma, at, m.x->rank), NULL, dtype_compute(out->dtype)));
}

// Version 1 is ONNX Runtime's own.
OPERATOR(LayerNormalization, .upgrades = {{17, NULL, NULL}}, .infer = infer_layer_normalization,
         .lower = lower_layer_normalization);
OPERATOR(RMSNormalization, .infer = infer_rms_normalization, .lower = lower_rms_normalization);

// ------------------------------------------------ InstanceNormalization, GroupNormalization, MVN
// Normalizes each row of m, then scales and shifts by channel (dim 1 of x).
static void lower_by_channel(lowering *l, node *n, norm *m) {
    buffer *gamma = lower_in(l, n, 1), *beta = lower_in(l, n, 2), *out = lower_out(l, n, 0);
    kernel *k = m->k;
    stage *s;
    expr *at[MAX_RANK];
    expr *mean = norm_mean(m, &s);
    expr *scale = norm_scale(m, n, norm_mean_square(m, mean, &s));
    scale = rows_scalar(&m->rows, s, "scale", scale);
    s = norm_stage(m, AXIS_PARALLEL, at);
    expr *v = x_mul(k, x_sub(k, norm_x(m, at), mean), scale);
    v = scale_shift(k, v, x_read(k, gamma, &at[1]), x_read(k, beta, &at[1]), dtype_compute(out->dtype));
    stage_write(k, s, out, at, v);
}

static void infer_by_channel(node *n) {
    infer_like_ranked_first(n);
    const type *x = infer_in(n, 0);
    if (x->rank < 2) infer_error(n, "the input has rank %d, but needs batch and channel dims", x->rank);
    for (int i = 1; i < 3; i++) {
        const type *t = infer_in(n, i);
        if (t->rank != 1) infer_error(n, "input %d must have rank 1, not %d", i, t->rank);
        infer_same_dim(n, x->dims[1], t->dims[0], "channels and their scale or bias");
    }
}

static void lower_instance_normalization(lowering *l, node *n) {
    const type *x = infer_in(n, 0);
    dim *mask[MAX_RANK];
    rows_mask(l->program->dims, x->rank, 2, x->rank, mask);
    norm m = norm_new(l, n, dtype_compute(x->elem), x->rank, x->dims, mask);
    lower_by_channel(l, n, &m);
}

static void infer_group_normalization(node *n) {
    infer_by_channel(n);
    const type *x = infer_in(n, 0);
    int64_t groups = node_int(n, "num_groups", 0);
    stash_type(n);
    if (groups < 1) infer_error(n, "attribute num_groups is %lld", (long long)groups);
    if (dim_is_const(x->dims[1]) && dim_value(x->dims[1]) % groups)
        infer_error(n, "%lld channels cannot be divided into %lld equal groups",
                    (long long)dim_value(x->dims[1]), (long long)groups);
}

static void lower_group_normalization(lowering *l, node *n) {
    const type *x = infer_in(n, 0);
    dim *groups = dim_const(l->program->dims, node_int(n, "num_groups", 0)), *mask[MAX_RANK], *dims[MAX_RANK];
    lower_check(l, n, dim_eq(dim_mod(x->dims[1], groups), dim_const(l->program->dims, 0)),
                "the channels cannot be divided into equal groups");
    dims[0] = x->dims[0], dims[1] = groups, dims[2] = dim_floordiv(x->dims[1], groups);
    for (int i = 2; i < x->rank; i++) dims[i + 1] = x->dims[i];
    rows_mask(l->program->dims, x->rank + 1, 2, x->rank + 1, mask);
    norm m = norm_new(l, n, dtype_compute(stash_type(n)), x->rank + 1, dims, mask);
    m.split = true;
    lower_by_channel(l, n, &m);
}

// Version 18 has one scale and bias per group, to be repeated for its channels.
static void upgrade_group_normalization(node *n) {
    value *channels = with_int(with_int(NODE(n, "Shape", n->in[0]), "start", 1), "end", 2);
    value *groups = insert_ints(n, (const int64_t[]){node_int(n, "num_groups", 1)}, 1);
    value *one = insert_ints(n, (const int64_t[]){1}, 1);
    value *repeat = with_int(NODE(n, "Concat", one, NODE(n, "Div", channels, groups)), "axis", 0);
    for (int i = 1; i < 3; i++) {
        value *column = reshaped_to(n, n->in[i], insert_ints(n, (const int64_t[]){-1, 1}, 2));
        value *repeated = NODE(n, "Expand", column, repeat);
        node_set_in(n, i, reshaped_to(n, repeated, insert_ints(n, (const int64_t[]){-1}, 1)));
    }
}

OPERATOR(InstanceNormalization, UPGRADE_FROM_1, .infer = infer_by_channel,
         .lower = lower_instance_normalization);
OPERATOR(GroupNormalization, .upgrades = {{21, upgrade_group_normalization}},
         .infer = infer_group_normalization, .lower = lower_group_normalization);

// The default, [0, 2, 3], is all axes but that of the channels: inputs of fewer axes have fewer of them.
static int mvn_axes(const node *n, int rank, dim **axes) {
    static const int64_t standard[] = {0, 2, 3};
    int count;
    const int64_t *given = node_ints(n, "axes", &count);
    if (!given) given = standard, count = 3;
    if (count == 3 && memcmp(given, standard, sizeof standard) == 0 && rank < 4)
        count = rank < 2 ? 1 : rank - 1;
    if (count > MAX_RANK) infer_error(n, "attribute axes has %d elements", count);
    for (int i = 0; i < count; i++) axes[i] = infer_k(n, infer_axis(n, given[i], rank));
    infer_distinct_axes(n, axes, count, rank);
    return count;
}

static void infer_mvn(node *n) {
    dim *axes[MAX_RANK];
    infer_like_ranked_first(n);
    mvn_axes(n, infer_rank(n, 0), axes);
}

static void lower_mvn(lowering *l, node *n) {
    const type *x = infer_in(n, 0);
    dim *axes[MAX_RANK], *mask[MAX_RANK];
    int count = mvn_axes(n, x->rank, axes);
    rows_mask_axes(l->program->dims, x->rank, axes, count, mask);
    buffer *out = lower_out(l, n, 0);
    norm m = norm_new(l, n, dtype_compute(x->elem), x->rank, x->dims, mask);
    kernel *k = m.k;
    stage *s;
    expr *at[MAX_RANK];
    expr *mean = norm_mean(&m, &s);
    expr *deviation = x_un(k, X_SQRT, norm_mean_square(&m, mean, &s));
    deviation = rows_scalar(&m.rows, s, "deviation", x_add(k, deviation, x_float(k, m.t, 1e-9)));
    s = norm_stage(&m, AXIS_PARALLEL, at);
    stage_write(k, s, out, at, x_div(k, x_sub(k, norm_x(&m, at), mean), deviation));
}

// Version 1, which only ONNX Runtime has: statistics of each channel or of all of them, and perhaps the mean alone.
static void upgrade_mvn(node *n) {
    static const int64_t own[] = {0, 2, 3}, together[] = {0, 1, 2, 3};
    bool all = node_int(n, "across_channels", 0), variance = node_int(n, "normalize_variance", 1);
    node_remove_attr(n, "across_channels");
    node_remove_attr(n, "normalize_variance");
    if (!variance) {
        value *mean_of[] = {n->in[0], insert_ints(n, all ? together : own, all ? 4 : 3)};
        value *difference[] = {n->in[0], insert_before(n, "ReduceMean", 2, mean_of, NULL)};
        replace_output(n, 0, insert_before(n, "Sub", 2, difference, NULL));
        node_delete(n);
    } else if (all) {
        int64_t *axes = ARENA_ARRAY(n->graph->module->arena, int64_t, 4);
        memcpy(axes, together, sizeof together);
        node_set_attr(n, (attr){.name = "axes", .kind = ATTR_INTS, .ints = axes, .n = 4});
    }
}

OPERATOR(MeanVarianceNormalization, .upgrades = {{9, upgrade_mvn}}, .infer = infer_mvn, .lower = lower_mvn);

// ---------------------------------------------------------------- BatchNormalization
// Outputs 1 and 2 are the running statistics; 3 and 4, which exist before version 14, the statistics of the batch.
static void infer_batch_normalization(node *n) {
    infer_like_ranked_first(n);
    const type *x = infer_in(n, 0);
    if (x->rank < 1) infer_error(n, "the input must have rank 1 or more");
    dim *channels = x->rank > 1 ? x->dims[1] : infer_k(n, 1);
    for (int i = 1; i < 5; i++) {
        const type *t = infer_in(n, i);
        if (t->rank != 1) infer_error(n, "input %d must have rank 1, not %d", i, t->rank);
        channels = infer_same_dim(n, channels, t->dims[0], "channels and their parameters");
    }
    bool training = node_int(n, "training_mode", 0);
    for (int i = 1; i < n->nout && i < 5; i++) {
        if (n->out[i] && !training) infer_error(n, "output %d exists in training mode only", i);
        infer_set(n, i, infer_in(n, 3)->elem, 1, &channels);
    }
}

typedef struct batch_norm {
    buffer *gamma, *beta, *mean, *variance, *out;
} batch_norm;

// gamma / sqrt(variance + epsilon) for channel c
static expr *batch_norm_scale(kernel *k, const node *n, const batch_norm *b, expr *c, expr *variance,
                              dtype t) {
    expr *sum = x_add(k, x_as(k, variance, t), x_attr(k, n, "epsilon", 1e-5f, t));
    return x_div(k, x_as(k, x_read(k, b->gamma, &c), t), x_un(k, X_SQRT, sum));
}

// (x - mean) * scale + beta for channel c
static expr *batch_norm_value(kernel *k, const batch_norm *b, expr *c, expr *x, expr *mean, expr *scale,
                              dtype t) {
    expr *v = x_mul(k, x_sub(k, x_as(k, x, t), x_as(k, mean, t)), scale);
    v = x_add(k, v, x_as(k, x_read(k, b->beta, &c), t));
    return x_as(k, v, dtype_compute(b->out->dtype));
}

// The scale has a separate kernel, which is inlined unless every row would compute it again.
static void lower_inference(lowering *l, node *n, const batch_norm *b, buffer *x, dtype t) {
    kernel *k;
    expr *index[MAX_RANK], *c;
    buffer *scale = lower_temp(l, n, "scale", t, 1, b->variance->dims);
    stage *s = suffixed_stage(l, n, "scale", scale, &k, &c);
    stage_write(k, s, scale, &c, batch_norm_scale(k, n, b, c, x_read(k, b->variance, &c), t));
    s = pointwise_stage(l, n, b->out, &k, index);
    c = x->rank > 1 ? index[1] : x_i64(k, 0);
    expr *mean = x_read(k, b->mean, &c), *factor = x_read(k, scale, &c);
    stage_write(k, s, b->out, index, batch_norm_value(k, b, c, x_read(k, x, index), mean, factor, t));
}

// running = input * momentum + current * (1 - momentum)
static expr *running(kernel *k, const node *n, buffer *before, expr *c, expr *current) {
    dtype t = current->dtype;
    double momentum = node_float(n, "momentum", 0.9f);
    expr *old = x_mul(k, x_as(k, x_read(k, before, &c), t), x_float(k, t, momentum));
    return x_add(k, old, x_mul(k, current, x_float(k, t, 1 - momentum)));
}

static void lower_training(lowering *l, node *n, const batch_norm *b, dtype t) {
    const type *x = infer_in(n, 0);
    buffer *stat[5] = {NULL};
    for (int i = 1; i < 5; i++) stat[i] = lower_out(l, n, i);
    dim *mask[MAX_RANK];
    rows_mask(l->program->dims, x->rank, 0, x->rank, mask);
    if (x->rank > 1) mask[1] = dim_const(l->program->dims, 0);
    norm m = norm_new(l, n, t, x->rank, x->dims, mask);
    kernel *k = m.k;
    expr *at[MAX_RANK], *c = x->rank > 1 ? m.rows.kept[1] : x_i64(k, 0);
    stage *s;
    expr *mean = norm_mean(&m, &s), *mean_now = s->writes.at[0].value;
    write_rows(&m, s, stat[1], &c, running(k, n, b->mean, c, mean_now));
    write_rows(&m, s, stat[3], &c, mean_now);
    expr *variance = norm_mean_square(&m, mean, &s);
    write_rows(&m, s, stat[2], &c, running(k, n, b->variance, c, variance));
    write_rows(&m, s, stat[4], &c, variance);
    variance = rows_scalar(&m.rows, s, "variance", variance);
    s = norm_stage(&m, AXIS_PARALLEL, at);
    expr *scale = batch_norm_scale(k, n, b, c, variance, t);
    if (b->out) stage_write(k, s, b->out, at, batch_norm_value(k, b, c, x_read(k, m.x, at), mean, scale, t));
}

static void lower_batch_normalization(lowering *l, node *n) {
    buffer *x = lower_in(l, n, 0);
    batch_norm b = {lower_in(l, n, 1), lower_in(l, n, 2), lower_in(l, n, 3), lower_in(l, n, 4),
                    lower_out(l, n, 0)};
    dtype t = wider(wider(x->dtype, b.gamma->dtype), b.mean->dtype);
    if (node_int(n, "training_mode", 0)) lower_training(l, n, &b, t);
    else lower_inference(l, n, &b, x, t);
}

static bool has_statistics(const node *n) {
    for (int i = 1; i < n->nout; i++)
        if (n->out[i]) return true;
    return false;
}

// Before version 7 is_test selects the mode; statistics are outputs in training mode only.
static void upgrade_batch_normalization_7(node *n) {
    upgrade_drop_consumed_inputs(n);
    for (int i = 1; i < n->nout && node_int(n, "is_test", 0); i++) n->out[i] = NULL;
    node_remove_attr(n, "is_test");
}

// Before version 9 parameters may be per element of a sample instead of per channel: each element becomes a
// channel.
static void upgrade_batch_normalization_9(node *n) {
    bool spatial = node_int(n, "spatial", 1);
    node_remove_attr(n, "spatial");
    if (spatial) return;
    value *flat = insert_ints(n, (const int64_t[]){-1}, 1);
    value *shape = upgrade_shape(n, n->in[0]), *statistics = upgrade_shape(n, n->in[3]);
    node_set_in(n, 0, NODE(n, "Flatten", n->in[0]));
    for (int i = 1; i < 5; i++) node_set_in(n, i, reshaped_to(n, n->in[i], flat));
    for (int i = 0; i < n->nout; i++) upgrade_reshape_output(n, i, i == 0 ? shape : statistics);
}

static void upgrade_batch_normalization_14(node *n) {
    if (has_statistics(n)) upgrade_set_int(n, "training_mode", 1);
}

static bool undo_batch_normalization_14(node *as) {
    return !node_int(as, "training_mode", 0) && !has_statistics(as);
}

OPERATOR(BatchNormalization,
         .upgrades = {{7, upgrade_batch_normalization_7},
                      {9, upgrade_batch_normalization_9, undo_nothing},
                      {14, upgrade_batch_normalization_14, undo_batch_normalization_14}},
         .infer = infer_batch_normalization, .lower = lower_batch_normalization);

// ---------------------------------------------------------------- LRN
static void infer_lrn(node *n) {
    infer_like_ranked_first(n);
    if (infer_rank(n, 0) < 2)
        infer_error(n, "the input has rank %d, but needs a channel dim", infer_rank(n, 0));
    if (node_int(n, "size", 0) < 1) infer_error(n, "attribute size must be positive");
}

// for i: sum = 0; for r in size: sum += x[c - (size - 1) / 2 + r] ** 2 if inside
//       out = x / (bias + alpha / size * sum) ** beta
static void lower_lrn(lowering *l, node *n) {
    buffer *x = lower_in(l, n, 0), *out = lower_out(l, n, 0);
    int64_t size = node_int(n, "size", 1);
    kernel *k;
    expr *index[MAX_RANK], *near[MAX_RANK];
    stage *s = pointwise_stage(l, n, out, &k, index);
    expr *r = stage_own_axis(k, s, AXIS_REDUCE, "r", dim_const(l->program->dims, size));
    for (int i = 0; i < x->rank; i++) near[i] = index[i];
    near[1] = x_add(k, x_add(k, index[1], r), x_i64(k, -((size - 1) / 2)));
    expr *v = x_read_guarded(k, x, near, x_inside(k, near[1], x->dims[1]), NULL);
    dtype t = v->dtype;
    expr *sum = stage_reduce(k, s, RED_SUM, x_mul(k, v, v));
    double alpha = node_float(n, "alpha", 0.0001f);
    expr *base = x_add(k, x_attr(k, n, "bias", 1, t), x_mul(k, sum, x_float(k, t, alpha / (double)size)));
    expr *power = x_bin(k, X_POW, base, x_attr(k, n, "beta", 0.75, t));
    stage_write(k, s, out, index, x_div(k, x_read(k, x, index), power));
}

OPERATOR(LRN, .infer = infer_lrn, .lower = lower_lrn);
