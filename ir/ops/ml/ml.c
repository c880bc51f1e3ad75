// The simple operators of ai.onnx.ml: ArrayFeatureExtractor, Binarizer, FeatureVectorizer, Imputer,
// Normalizer, OneHotEncoder, Scaler, and the linear models. Also the helpers of the whole domain (ml.h).
#include "ir/ops/ml/ml.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/rows.h"
#include "ir/ops/text/string.h"
#include <math.h>

// ---------------------------------------------------------------- shared
buffer *ml_floats(lowering *l, const char *name, dtype t, const double *v, int64_t count, int64_t columns) {
    int64_t sizes[2] = {columns ? count / columns : count, columns};
    constant *c = constant_new(l->program->arena, t, columns ? 2 : 1, sizes);
    for (int64_t i = 0; i < count; i++) dtype_store_float(t, (uint8_t *)c->data, i, v[i], false);
    return program_constant(l->program, name, c);
}

buffer *ml_float_table(lowering *l, const char *name, dtype t, const float *v, int64_t count,
                       int64_t columns) {
    double *all = ARENA_ARRAY(l->program->arena, double, count + 1);
    for (int64_t i = 0; i < count; i++) all[i] = (double)v[i];
    return ml_floats(l, name, t, all, count, columns);
}

buffer *ml_ints(lowering *l, const char *name, const int64_t *v, int64_t count) {
    return program_constant(l->program, name, int64s_constant(l->program->arena, v, count));
}

const float *ml_float_list(const node *n, const char *attribute, int *count) {
    const attr *a = node_attr(n, attribute);
    *count = a && a->kind == ATTR_FLOATS ? a->n : 0;
    return *count ? a->floats : NULL;
}

void ml_matrix(const node *n, dim **rows, dim **features) {
    int rank = infer_rank(n, 0);
    const type *x = infer_in(n, 0);
    if (rank != 1 && rank != 2) infer_error(n, "X has rank %d; it must be a matrix", rank);
    *rows = rank == 2 ? x->dims[0] : infer_k(n, 1);
    *features = x->dims[rank - 1];
}

expr *ml_read(kernel *k, buffer *x, expr *row, expr *feature, dtype t) {
    expr *at[] = {row, feature};
    return x_cast(k, x_read(k, x, x->rank == 2 ? at : at + 1), t, false);
}

dtype ml_type(const node *n) { return infer_in(n, 0)->elem == DT_F64 ? DT_F64 : DT_F32; }

ml_transform ml_transform_of(const node *n) {
    return (ml_transform)node_choice(n, "post_transform", "NONE SOFTMAX LOGISTIC SOFTMAX_ZERO PROBIT");
}

// sqrt(2) times the inverse error function of 2 v - 1, by Winitzki's approximation, as in ONNX Runtime.
static expr *probit(kernel *k, expr *v) {
    dtype t = v->dtype;
    expr *one = x_float(k, t, 1), *x = x_sub(k, x_mul(k, v, x_float(k, t, 2)), one);
    expr *rest = x_mul(k, x_sub(k, one, x), x_add(k, one, x)), *log = x_un(k, X_LOG, rest);
    expr *a =
        x_add(k, x_float(k, t, 2 / (3.14159265358979323846 * 0.147)), x_mul(k, log, x_float(k, t, 0.5)));
    expr *b = x_mul(k, log, x_float(k, t, 1 / 0.147));
    expr *root = x_un(k, X_SQRT, x_sub(k, x_un(k, X_SQRT, x_sub(k, x_mul(k, a, a), b)), a));
    root = x_select(k, x_lt(k, x, x_zero(k, t)), x_un(k, X_NEG, root), root);
    root = x_select(k, x_bin(k, X_EQ, rest, x_zero(k, t)), x_zero(k, t), root);
    return x_mul(k, root, x_float(k, t, 1.41421356));
}

static void apply_pointwise(lowering *l, const node *n, ml_transform f, buffer *from, buffer *to) {
    kernel *k;
    expr *at[2];
    stage *s = suffixed_stage(l, n, "scores", to, &k, at);
    expr *v = x_read(k, from, at);
    if (f == ML_LOGISTIC) v = x_un(k, X_SIGMOID, v);
    if (f == ML_PROBIT) v = probit(k, v);
    stage_write(k, s, to, at, x_cast(k, v, to->dtype, true));
}

// exp(v - max); with SOFTMAX_ZERO scores of about 0 stay about 0.
static expr *exponential(kernel *k, expr *v, expr *max, bool zero) {
    expr *e = x_un(k, X_EXP, x_sub(k, v, max));
    if (!zero) return e;
    expr *small = x_bin(k, X_LE, x_un(k, X_ABS, v), x_float(k, v->dtype, 0.0000001));
    return x_select(k, small, x_mul(k, v, x_un(k, X_EXP, x_un(k, X_NEG, max))), e);
}

static void apply_softmax(lowering *l, const node *n, bool zero, buffer *from, buffer *to) {
    dim *mask[2];
    rows_mask(l->program->dims, 2, 1, 2, mask);
    rows r = rows_new(lower_kernel(l, n, "scores"), 2, from->dims, mask);
    kernel *k = r.k;
    expr *at[2];
    stage *s = rows_stage(&r, AXIS_REDUCE, at);
    expr *max = rows_scalar(&r, s, "max", stage_reduce(k, s, RED_MAX, x_read(k, from, at)));
    s = rows_stage(&r, AXIS_REDUCE, at);
    expr *sum = stage_reduce(k, s, RED_SUM, exponential(k, x_read(k, from, at), max, zero));
    sum = rows_scalar(&r, s, "sum", sum);
    s = rows_stage(&r, AXIS_PARALLEL, at);
    expr *v = x_div(k, exponential(k, x_read(k, from, at), max, zero), sum);
    expr *none = x_bin(k, X_EQ, sum, x_zero(k, sum->dtype));
    if (zero) v = x_select(k, none, x_float(k, v->dtype, 0.5), v);
    stage_write(k, s, to, at, x_cast(k, v, to->dtype, true));
}

void ml_apply(lowering *l, const node *n, ml_transform f, buffer *from, buffer *to) {
    if (!to) return;
    if (f == ML_SOFTMAX || f == ML_SOFTMAX_ZERO) apply_softmax(l, n, f == ML_SOFTMAX_ZERO, from, to);
    else apply_pointwise(l, n, f, from, to);
}

buffer *ml_labels(lowering *l, const node *n, const char *ints) {
    int count;
    const attr *strings = node_attr(n, "classlabels_strings");
    if (strings && strings->n)
        return lower_constant(l, "labels",
                              strings_constant(l->program->arena, strings->strings, NULL, strings->n));
    const int64_t *labels = node_ints(n, ints, &count);
    return labels && count ? ml_ints(l, "labels", labels, count) : NULL;
}

// Label number i.
static expr *label_of(lowering *l, const node *n, kernel *k, const char *attribute, expr *i) {
    buffer *labels = ml_labels(l, n, attribute);
    if (!labels) return i;
    expr *at = x_clamped(k, i, labels->dims[0]);
    return x_read(k, labels, &at);
}

void ml_label(lowering *l, const node *n, buffer *scores, const char *attribute, buffer *labels) {
    dim *mask[2];
    if (!labels) return;
    rows_mask(l->program->dims, 2, 1, 2, mask);
    rows r = rows_new(lower_kernel(l, n, "label"), 2, scores->dims, mask);
    expr *at[2];
    stage *s = rows_stage(&r, AXIS_REDUCE, at);
    expr *best = rows_arg(&r, s, x_read(r.k, scores, at), at[1], scores->dims[1], true, false);
    stage_write(r.k, s, labels, &r.kept[0], label_of(l, n, r.k, attribute, best));
}

int ml_label_count(const node *n, const char *ints) {
    const attr *numbers = node_attr(n, ints), *strings = node_attr(n, "classlabels_strings");
    return numbers && numbers->n ? numbers->n : strings ? strings->n : 0;
}

buffer *ml_pair_scores(lowering *l, const node *n, const char *name, buffer *single, bool probability) {
    dim *sizes[] = {single->dims[0], dim_const(l->program->dims, 2)};
    buffer *both = lower_temp(l, n, "both", single->dtype, 2, sizes);
    kernel *k;
    expr *at[2];
    stage *s = suffixed_stage(l, n, name, both, &k, at);
    expr *v = x_read(k, single, (expr *[]){at[0], x_i64(k, 0)});
    expr *other = probability ? x_sub(k, x_float(k, v->dtype, 1), v) : x_un(k, X_NEG, v);
    stage_write(k, s, both, at, x_select(k, x_bin(k, X_EQ, at[1], x_i64(k, 0)), other, v));
    return both;
}

void ml_infer_classes(node *n, dim *rows, dim *scores) {
    const attr *strings = node_attr(n, "classlabels_strings");
    ml_transform_of(n);
    infer_set(n, 0, strings && strings->n ? DT_STRING : DT_I64, 1, &rows);
    infer_set(n, 1, DT_F32, 2, (dim *[]){rows, scores});
}

#define ML(op, infer_fn, lower_fn) OPERATOR_OF("ai.onnx.ml", op, .infer = infer_fn, .lower = lower_fn)

// ---------------------------------------------------------------- ArrayFeatureExtractor
static void extractor_infer(node *n) {
    int rank = infer_rank(n, 0), q = infer_rank(n, 1);
    const type *x = infer_in(n, 0), *y = infer_in(n, 1);
    if (rank < 1) infer_error(n, "X is a scalar");
    infer_positions(n, 1, &x->dims[rank - 1], 1);
    dim *dims[MAX_RANK], *count = dim_product(infer_dims(n), y->dims, q);
    for (int j = 0; j < rank - 1; j++) dims[j] = x->dims[j];
    if (rank == 1) dims[0] = infer_k(n, 1);
    dims[rank == 1 ? 1 : rank - 1] = count;
    infer_set(n, 0, x->elem, rank == 1 ? 2 : rank, dims);
}

static void extractor_lower(lowering *l, node *n) {
    buffer *x = lower_in(l, n, 0), *y = lower_in(l, n, 1), *out = lower_out(l, n, 0);
    buffer *flat = program_view(l->program, y, "columns", 1, &out->dims[out->rank - 1]);
    kernel *k;
    expr *at[MAX_RANK], *from[MAX_RANK];
    stage *s = pointwise_stage(l, n, out, &k, at);
    for (int j = 0; j < x->rank - 1; j++) from[j] = at[j];
    from[x->rank - 1] = x_checked_index(k, x_cast(k, x_read(k, flat, &at[out->rank - 1]), DT_I64, false),
                                        x->dims[x->rank - 1], true, "a column index is out of range");
    stage_write(k, s, out, at, x_read(k, x, from));
}
ML(ArrayFeatureExtractor, extractor_infer, extractor_lower);

// ---------------------------------------------------------------- element by element
static void float_like_x(node *n) {
    int rank = infer_rank(n, 0);
    infer_set(n, 0, DT_F32, rank, infer_in(n, 0)->dims);
}

static void binarizer_lower(lowering *l, node *n) {
    buffer *x = lower_in(l, n, 0), *out = lower_out(l, n, 0);
    kernel *k;
    expr *at[MAX_RANK];
    dtype t = x->dtype == DT_F64 || dtype_is_int(x->dtype) ? DT_F64 : DT_F32, own = dtype_compute(x->dtype);
    stage *s = pointwise_stage(l, n, out, &k, at);
    expr *over = x_lt(k, x_float(k, t, node_float(n, "threshold", 0)), x_cast(k, x_read(k, x, at), t, false));
    stage_write(k, s, out, at, x_select(k, over, x_number(k, own, 1), x_zero(k, own)));
}
ML(Binarizer, infer_like_ranked_first, binarizer_lower);

// A list with one element per feature, or one for all.
static expr *read_list(lowering *l, const node *n, kernel *k, const char *name, double fallback,
                       expr *feature, dtype t) {
    int count;
    const float *v = ml_float_list(n, name, &count);
    if (!v) return x_float(k, t, fallback);
    if (count == 1) return x_float(k, t, (double)v[0]);
    return x_read(k, ml_float_table(l, name, t, v, count, 0), &feature);
}

static void check_list(const node *n, const char *name) {
    int count, rank = infer_rank(n, 0);
    const attr *a = node_attr(n, name);
    count = a ? a->n : 0;
    if (count > 1 && rank > 0)
        infer_same_dim(n, infer_in(n, 0)->dims[rank - 1], infer_k(n, count),
                       arena_printf(infer_arena(n), "features and attribute %s", name));
}

static void scaler_infer(node *n) {
    float_like_x(n);
    check_list(n, "offset");
    check_list(n, "scale");
}

static void scaler_lower(lowering *l, node *n) {
    buffer *x = lower_in(l, n, 0), *out = lower_out(l, n, 0);
    kernel *k;
    expr *at[MAX_RANK];
    dtype t = ml_type(n);
    stage *s = pointwise_stage(l, n, out, &k, at);
    expr *feature = x->rank ? at[x->rank - 1] : x_i64(k, 0), *v = x_cast(k, x_read(k, x, at), t, false);
    v = x_sub(k, v, read_list(l, n, k, "offset", 0, feature, t));
    v = x_mul(k, v, read_list(l, n, k, "scale", 1, feature, t));
    stage_write(k, s, out, at, x_cast(k, v, out->dtype, true));
}
ML(Scaler, scaler_infer, scaler_lower);

static void imputer_infer(node *n) {
    bool whole = dtype_is_int(infer_in(n, 0)->elem);
    const attr *a = node_attr(n, whole ? "imputed_value_int64s" : "imputed_value_floats");
    if (!a || !a->n) infer_error(n, "there are no values to impute");
    infer_like_ranked_first(n);
    check_list(n, a->name);
}

static void imputer_lower(lowering *l, node *n) {
    buffer *x = lower_in(l, n, 0), *out = lower_out(l, n, 0);
    kernel *k;
    expr *at[MAX_RANK], *v, *missing, *instead;
    stage *s = pointwise_stage(l, n, out, &k, at);
    expr *feature = x->rank ? at[x->rank - 1] : x_i64(k, 0);
    v = x_read(k, x, at);
    dtype t = v->dtype;
    if (dtype_is_int(t)) {
        int count;
        const int64_t *all = node_ints(n, "imputed_value_int64s", &count);
        missing =
            x_bin(k, X_EQ, x_cast(k, v, DT_I64, false), x_i64(k, node_int(n, "replaced_value_int64", 0)));
        expr *first = x_i64(k, 0);
        instead =
            x_cast(k, x_read(k, ml_ints(l, "imputed", all, count), count == 1 ? &first : &feature), t, false);
    } else {
        double replaced = node_float(n, "replaced_value_float", 0);
        missing = isnan(replaced) ? x_un(k, X_ISNAN, v) : x_bin(k, X_EQ, v, x_float(k, t, replaced));
        instead = read_list(l, n, k, "imputed_value_floats", 0, feature, t);
    }
    stage_write(k, s, out, at, x_select(k, missing, instead, v));
}
ML(Imputer, imputer_infer, imputer_lower);

// ---------------------------------------------------------------- Normalizer
enum { NORM_MAX, NORM_L1, NORM_L2 };
static int norm_of(const node *n) { return node_choice(n, "norm", "MAX L1 L2"); }

static void normalizer_infer(node *n) {
    norm_of(n);
    if (infer_rank(n, 0) < 1) infer_error(n, "X is a scalar");
    float_like_x(n);
}

// norm = the maximum, the sum of |x|, or the root of the sum of squares; out = x / norm, x if the norm is 0
static void normalizer_lower(lowering *l, node *n) {
    int norm = norm_of(n);
    buffer *x = lower_in(l, n, 0), *out = lower_out(l, n, 0);
    dim *mask[MAX_RANK];
    rows_mask(l->program->dims, x->rank, x->rank - 1, x->rank, mask);
    rows r = rows_new(lower_kernel(l, n, NULL), x->rank, x->dims, mask);
    kernel *k = r.k;
    dtype t = ml_type(n);
    expr *at[MAX_RANK];
    stage *s = rows_stage(&r, AXIS_REDUCE, at);
    expr *v = x_cast(k, x_read(k, x, at), t, false);
    expr *term = norm == NORM_L2 ? x_mul(k, v, v) : norm == NORM_L1 ? x_un(k, X_ABS, v) : v;
    expr *size = stage_reduce(k, s, norm == NORM_MAX ? RED_MAX : RED_SUM, term);
    if (norm == NORM_L2) size = x_un(k, X_SQRT, size);
    size = rows_scalar(&r, s, "norm", size);
    s = rows_stage(&r, AXIS_PARALLEL, at);
    v = x_cast(k, x_read(k, x, at), t, false);
    expr *none = x_bin(k, X_EQ, size, x_zero(k, t));
    v = x_select(k, none, v, x_div(k, v, size));
    stage_write(k, s, out, at, x_cast(k, v, out->dtype, true));
}
ML(Normalizer, normalizer_infer, normalizer_lower);

// ---------------------------------------------------------------- OneHotEncoder
static void encoder_infer(node *n) {
    int rank = infer_rank(n, 0), count;
    const attr *strings = node_attr(n, "cats_strings");
    node_ints(n, "cats_int64s", &count);
    if (infer_in(n, 0)->elem == DT_STRING) count = strings ? strings->n : 0;
    if (!count) infer_error(n, "there are no categories of X's type");
    if (rank + 1 > MAX_RANK) infer_error(n, "X has rank %d", rank);
    dim *dims[MAX_RANK];
    for (int j = 0; j < rank; j++) dims[j] = infer_in(n, 0)->dims[j];
    dims[rank] = infer_k(n, count);
    infer_set(n, 0, DT_F32, rank + 1, dims);
}

// If attribute zeros is 0, a value that is not a category fails the run.
static void encoder_check(lowering *l, const node *n, buffer *x, buffer *classes) {
    kernel *k = lower_kernel(l, n, "check");
    buffer *known = lower_temp(l, n, "known", DT_BOOL, x->rank, x->dims);
    stage *s = kernel_stage(k);
    expr *at[MAX_RANK];
    axes_over(k, s, x, at);
    expr *category = stage_own_axis(k, s, AXIS_REDUCE, "c", classes->dims[0]),
         *v = x_cast(k, x_read(k, x, at), DT_I64, true);
    expr *found = stage_reduce(k, s, RED_OR, x_bin(k, X_EQ, v, x_read(k, classes, &category)));
    kernel_message(k, "a value of X is not one of the categories", NULL);
    stage_write(k, s, known, at, x_check(k, found, found, k->messages.n - 1));
}

// Strings are compared by a library function, which finds them among the sorted categories.
static void encode_strings(lowering *l, node *n) {
    arena *a = l->program->arena;
    const attr *strings = node_attr(n, "cats_strings");
    const constant *all = strings_constant(a, strings->strings, NULL, strings->n);
    int64_t *order = ARENA_ARRAY(a, int64_t, all->count + 1), count = sort_keys(all, order);
    buffer *places = lower_find(l, n, n->in[0], pick_constant(a, all, order, count));
    buffer *classes = ml_ints(l, "order", order, count), *out = lower_out(l, n, 0);
    kernel *k;
    expr *at[MAX_RANK];
    stage *s = pointwise_stage(l, n, out, &k, at);
    expr *place = x_read(k, places, at), *known = x_bin(k, X_LE, x_i64(k, 0), place);
    if (!node_int(n, "zeros", 1)) {
        kernel_message(k, "a value of X is not one of the categories", NULL);
        place = x_check(k, place, known, k->messages.n - 1);
    }
    expr *category = x_read_guarded(k, classes, &place, known, x_i64(k, -1));
    expr *hit = x_bin(k, X_EQ, category, at[places->rank]);
    stage_write(k, s, out, at, x_select(k, hit, x_float(k, DT_F32, 1), x_float(k, DT_F32, 0)));
}

static void encoder_lower(lowering *l, node *n) {
    if (n->in[0]->type.elem == DT_STRING) {
        encode_strings(l, n);
        return;
    }
    int count;
    const int64_t *all = node_ints(n, "cats_int64s", &count);
    buffer *x = lower_in(l, n, 0), *classes = ml_ints(l, "categories", all, all ? count : 0);
    if (!node_int(n, "zeros", 1)) encoder_check(l, n, x, classes);
    buffer *out = lower_out(l, n, 0);
    kernel *k;
    expr *at[MAX_RANK];
    stage *s = pointwise_stage(l, n, out, &k, at);
    expr *hit = x_bin(k, X_EQ, x_cast(k, x_read(k, x, at), DT_I64, true), x_read(k, classes, &at[x->rank]));
    stage_write(k, s, out, at, x_select(k, hit, x_float(k, DT_F32, 1), x_float(k, DT_F32, 0)));
}
ML(OneHotEncoder, encoder_infer, encoder_lower);

// ---------------------------------------------------------------- FeatureVectorizer
static int64_t features_of(const node *n, int i) {
    int count;
    const int64_t *sizes = node_ints(n, "inputdimensions", &count);
    if (sizes && count != n->nin)
        infer_error(n, "attribute inputdimensions has %d values for %d inputs", count, n->nin);
    if (sizes) return sizes[i];
    int rank = infer_rank(n, i);
    const dim *d = rank ? infer_in(n, i)->dims[rank - 1] : NULL;
    if (!d || !dim_is_const(d)) infer_error(n, "the width of input %d is not known", i);
    return rank == 2 ? dim_value(d) : 1;
}

static void vectorizer_infer(node *n) {
    int64_t total = 0;
    dim *rows = NULL;
    for (int i = 0; i < n->nin; i++) {
        int rank = infer_rank(n, i);
        if (rank != 1 && rank != 2) infer_error(n, "input %d has rank %d; it must be 1 or 2", i, rank);
        dim *own = infer_in(n, i)->dims[0];
        rows = rows ? infer_same_dim(n, rows, own, "rows of the inputs") : own;
        int64_t width = features_of(n, i);
        if (width < 0 || width > INT32_MAX) infer_error(n, "input %d has %lld features", i, (long long)width);
        total += width;
    }
    infer_set(n, 0, DT_F32, 2, (dim *[]){rows, infer_k(n, total)});
}

static void vectorizer_lower(lowering *l, node *n) {
    buffer *out = lower_out(l, n, 0);
    int64_t first = 0;
    for (int i = 0; i < n->nin; i++) {
        buffer *x = lower_in(l, n, i);
        int64_t width = features_of(n, i);
        kernel *k = lower_kernel(l, n, arena_printf(l->program->arena, "%d", i));
        stage *s = kernel_stage(k);
        expr *at[2];
        dim *extents[] = {out->dims[0], dim_const(l->program->dims, width)};
        for (int j = 0; j < 2; j++) at[j] = stage_own_axis(k, s, AXIS_PARALLEL, j ? "j" : "i", extents[j]);

        dim *own = x->rank == 2 ? x->dims[1] : dim_const(l->program->dims, 1);
        expr *inside = dim_less_equal(extents[1], own) == TRI_YES ? NULL : x_lt(k, at[1], x_dim(k, own));
        expr *v = x_cast(k, x_read_guarded(k, x, at, inside, NULL), DT_F32, true);
        expr *to[] = {at[0], x_add(k, at[1], x_i64(k, first))};
        stage_write(k, s, out, to, v);
        first += width;
    }
}
ML(FeatureVectorizer, vectorizer_infer, vectorizer_lower);

// ---------------------------------------------------------------- linear models
typedef struct linear {
    const float *w, *b;
    int count, offsets; // coefficients and intercepts
    dim *rows, *features;
} linear;

static linear linear_of(const node *n) {
    linear m;
    m.w = ml_float_list(n, "coefficients", &m.count), m.b = ml_float_list(n, "intercepts", &m.offsets);
    ml_matrix(n, &m.rows, &m.features);
    return m;
}

// The coefficients of a score. The example of ONNX Runtime's package has more than X has features: it takes the first ones.
static int64_t linear_width(const linear *m, int64_t scores) {
    int64_t all = m->count / scores;
    bool surplus = dim_is_const(m->features) && m->offsets == scores && all > dim_value(m->features);
    return surplus ? dim_value(m->features) : all;
}

// to[row, j] = sum over f of x[row, f] * coefficients[j, f] + intercepts[j]
static void linear_scores(lowering *l, const node *n, buffer *to) {
    linear m = linear_of(n);
    buffer *x = lower_in(l, n, 0);
    int64_t scores = dim_value(to->dims[1]), width = linear_width(&m, scores);
    buffer *weights = ml_float_table(l, "coefficients", to->dtype, m.w, scores * width, width);
    lower_check(l, n, dim_eq(m.features, weights->dims[1]),
                "X and the coefficients have different numbers of features");
    kernel *k;
    expr *at[2];
    stage *s = suffixed_stage(l, n, "linear", to, &k, at);
    expr *feature = stage_own_axis(k, s, AXIS_REDUCE, "f", weights->dims[1]), *from[] = {at[1], feature};
    expr *term = x_mul(k, ml_read(k, x, at[0], feature, to->dtype), x_read(k, weights, from));
    expr *sum = stage_reduce(k, s, RED_SUM, term);
    if (m.offsets) {
        buffer *bias = ml_float_table(l, "intercepts", to->dtype, m.b, m.offsets, 0);
        expr *own = m.offsets == 1 ? x_i64(k, 0) : at[1];
        sum = x_add(k, sum, x_read(k, bias, &own));
    }
    stage_write(k, s, to, at, sum);
}

static void check_linear(const node *n, int64_t scores) {
    linear m = linear_of(n);
    if (scores < 1 || !m.count || m.count % scores)
        infer_error(n, "%d coefficients cannot be divided among %lld scores", m.count, (long long)scores);
    if (m.offsets > 1 && m.offsets != scores)
        infer_error(n, "%d intercepts do not match %lld scores", m.offsets, (long long)scores);
    infer_same_dim(n, m.features, infer_k(n, linear_width(&m, scores)),
                   "features of X and of the coefficients");
}

static void regressor_infer(node *n) {
    dim *rows, *features;
    int64_t targets = node_int(n, "targets", 1);
    check_linear(n, targets);
    ml_transform_of(n);
    ml_matrix(n, &rows, &features);
    infer_set(n, 0, DT_F32, 2, (dim *[]){rows, infer_k(n, targets)});
}

static void regressor_lower(lowering *l, node *n) {
    buffer *out = lower_out(l, n, 0);
    buffer *raw = lower_temp(l, n, "raw", ml_type(n), 2, out->dims);
    linear_scores(l, n, raw);
    ml_apply(l, n, ml_transform_of(n), raw, out);
}
ML(LinearRegressor, regressor_infer, regressor_lower);

// The rows of coefficients: one per class, but two classes may share a single one.
static int64_t linear_rows(const node *n) {
    linear m = linear_of(n);
    int classes = ml_label_count(n, "classlabels_ints");
    if (dim_is_const(m.features) && dim_value(m.features) > 0) {
        int64_t most = m.count / dim_value(m.features);
        return m.offsets > 1 && m.offsets < most && m.count % m.offsets == 0 ? m.offsets : most;
    }
    return m.offsets ? m.offsets : classes > 0 ? classes : 1;
}

static void classifier_infer(node *n) {
    dim *rows, *features;
    ml_matrix(n, &rows, &features);
    int64_t scores = linear_rows(n);
    check_linear(n, scores);
    if (scores == 1 && ml_label_count(n, "classlabels_ints") == 2) scores = 2;
    ml_infer_classes(n, rows, infer_k(n, scores));
}

// A single score: the label if it is at least 0 (for a probability: a half), else 0.
static void label_single(lowering *l, node *n, buffer *scores, buffer *labels) {
    kernel *k;
    expr *row;
    if (!labels) return;
    buffer *known = ml_labels(l, n, "classlabels_ints");
    stage *s = suffixed_stage(l, n, "label", labels, &k, &row);
    expr *at[] = {row, x_i64(k, 0)}, *v = x_read(k, scores, at);
    expr *limit = x_float(k, v->dtype, ml_transform_of(n) == ML_NONE ? 0 : 0.5);
    expr *first = x_i64(k, 0), *label = known ? x_read(k, known, &first) : x_i64(k, 1);
    bool strings = n->out[0]->type.elem == DT_STRING; // a single string label is used for both outcomes
    stage_write(k, s, labels, &row, strings ? label : x_select(k, x_bin(k, X_LE, limit, v), label, first));
}

static void classifier_lower(lowering *l, node *n) {
    buffer *labels = lower_out(l, n, 0), *out = lower_out(l, n, 1);
    dim *rows, *features;
    ml_matrix(n, &rows, &features);
    int64_t scores = linear_rows(n);
    dims *t = l->program->dims;
    bool pair = scores == 1 && ml_label_count(n, "classlabels_ints") == 2;
    buffer *raw = lower_temp(l, n, "raw", ml_type(n), 2, (dim *[]){rows, dim_const(t, scores)});
    linear_scores(l, n, raw);
    if (pair) {
        raw = ml_pair_scores(l, n, "pair", raw, false);
        scores = 2;
    }
    buffer *final = out ? out : lower_temp(l, n, "final", DT_F32, 2, (dim *[]){rows, dim_const(t, scores)});
    ml_apply(l, n, ml_transform_of(n), raw, final);
    if (scores > 1) ml_label(l, n, final, "classlabels_ints", labels);
    else label_single(l, n, final, labels);
}
ML(LinearClassifier, classifier_infer, classifier_lower);
