// Operators that make tensors from attributes and scalars: Constant, ConstantOfShape, Range, EyeLike.
#include "ir/ops/branches.h"
#include "ir/ops/runtime_args.h"
#include "ir/ops/text/string.h"
#include <math.h>

// ---------------------------------------------------------------- Constant
static constant *string_constant(arena *a, const attr *v) {
    constant *c = strings_constant(a, &v->s, &v->size, 1);
    c->rank = 0;
    return c;
}

static constant *attribute_constant(const node *n, const attr *v) {
    arena *a = infer_arena(n);
    switch (v->kind) {
    case ATTR_TENSOR: return v->tensor; // sparse tensors were made dense by the import
    case ATTR_FLOAT:
    case ATTR_FLOATS:
    case ATTR_INT:
    case ATTR_INTS: return attr_numbers(a, v);
    case ATTR_STRING: return string_constant(a, v);
    case ATTR_STRINGS: return strings_constant(a, v->strings, NULL, v->n);
    case ATTR_NONE:
    case ATTR_GRAPH:
    case ATTR_TENSORS:
    case ATTR_GRAPHS:
    case ATTR_SPARSE_TENSOR:
    case ATTR_SPARSE_TENSORS:
    case ATTR_TYPE:
    case ATTR_TYPES: break;
    }
    infer_error(n, "attribute '%s' has the wrong kind", v->name);
}

static void constant_infer(node *n) {
    static const char *const names[] = {"value",      "value_float",  "value_floats",  "value_int",
                                        "value_ints", "value_string", "value_strings", "sparse_value"};
    const attr *given = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const attr *v = node_attr(n, names[i]);
        if (v && given) infer_error(n, "attributes '%s' and '%s' are both given", given->name, v->name);
        if (v) given = v;
    }
    if (!given) infer_error(n, "no value is given");
    constant *c = attribute_constant(n, given);
    value *v = node_out(n, 0);
    if (!v) return;
    v->constant = c;
    v->type = type_tensor_const(infer_dims(n), infer_arena(n), c->elem, c->rank, c->dims);
}

// The data is the constant of the output's value.
static void constant_lower(lowering *l, node *n) { (void)l, (void)n; }

OPERATOR(Constant, .infer = constant_infer, .lower = constant_lower);

// ---------------------------------------------------------------- ConstantOfShape
static const constant *fill_value(const node *n) {
    const attr *v = node_attr(n, "value");
    if (!v) return NULL;
    if (v->kind != ATTR_TENSOR || v->tensor->count != 1)
        infer_error(n, "attribute 'value' must be a one-element tensor");
    return v->tensor;
}

static void fill_infer_contents(node *n, const constant *fill) {
    int64_t sizes[MAX_RANK], count;
    const value *out = node_out(n, 0);
    if (!fill || !out || (!dtype_is_int(fill->elem) && fill->elem != DT_BOOL)) return;
    if (!infer_static(&out->type, CONTENTS_MAX, sizes, &count)) return;
    dim *contents[CONTENTS_MAX];
    for (int64_t j = 0; j < count; j++) contents[j] = infer_k(n, constant_int(fill, 0));
    infer_set_contents(n, 0, contents, (int)count);
}

static void constant_of_shape_infer(node *n) {
    const constant *fill = fill_value(n);
    dtype elem = fill ? fill->elem : DT_F32;
    dim **shape;
    int rank;
    if (!infer_argument(n, 0, -1, &shape, &rank, elem)) return;
    for (int j = 0; j < rank; j++)
        if (shape[j]->max < 0)
            infer_error(n, "dimension %d of the shape is %s", j, dim_text(infer_arena(n), shape[j]));
    infer_set(n, 0, elem, rank, shape);
    fill_infer_contents(n, fill);
}

static void constant_of_shape_lower(lowering *l, node *n) {
    int rank;
    dim **shape = lower_argument(l, n, 0, n->out[0]->type.rank, &rank);
    lower_arguments(l, n);
    for (int j = 0; j < rank; j++) lower_check_size(l, n, shape[j], "the shape has a negative size");
    lower_sizes(l, n, shape);
    if (lower_known_contents(l, n)) return;
    const constant *fill = fill_value(n);
    buffer *out = lower_out(l, n, 0);
    kernel *k;
    expr *index[MAX_RANK];
    stage *s = pointwise_stage(l, n, out, &k, index);
    dtype t = dtype_compute(out->dtype);
    expr *x = !fill               ? x_zero(k, t)
              : dtype_is_float(t) ? x_float(k, t, constant_float(fill, 0))
                                  : x_int(k, t, constant_int(fill, 0));
    stage_write(k, s, out, index, x);
}

static bool constant_of_shape_canonicalise(node *n) { return branch_on_length(n, 0, 0, BRANCHES_MOST); }

OPERATOR(ConstantOfShape, .infer = constant_of_shape_infer, .lower = constant_of_shape_lower,
         .canonicalise = constant_of_shape_canonicalise);

// ---------------------------------------------------------------- Range
// The three scalars as dims; false if they are not integers known to inference.
static bool range_limits(node *n, dim **limits) {
    for (int i = 0; i < 3; i++) {
        int count;
        dim **c = infer_contents_or_opaque(n, i, &count);
        if (!c) return false;
        if (count != 1) infer_error(n, "start, limit and delta must be scalars");
        limits[i] = c[0];
    }
    return true;
}

static dim *range_count(const node *n, dim *const *limits) {
    return dim_max(infer_k(n, 0), dim_ceildiv(dim_sub(limits[1], limits[0]), limits[2]));
}

static dim *range_constant_count(const node *n) {
    double v[3];
    for (int i = 0; i < 3; i++) {
        const constant *c = infer_constant(n, i);
        if (!c) return NULL;
        v[i] = constant_float(c, 0);
    }
    double count = ceil((v[1] - v[0]) / v[2]);
    if (!(fabs(count) < 0x1p62)) infer_error(n, "the range is infinite");
    return infer_k(n, count > 0 ? (int64_t)count : 0);
}

static const char range_scalars[] = "start, limit and delta must be scalars";

// Lists of one number count as scalars, as in both engines; whether a list has one may be known only at run time.
static dim *range_has_scalars(const node *n) {
    dim *one = infer_k(n, 1), *all = one;
    for (int i = 0; i < 3; i++) {
        const type *t = infer_in(n, i);
        all = dim_mul(all, dim_eq(dim_product(one->table, t->dims, t->rank), one));
    }
    return all;
}

static void range_infer(node *n) {
    dtype elem = infer_in(n, 0)->elem;
    if (dim_is(range_has_scalars(n), 0)) infer_error(n, "%s", range_scalars);
    dim *limits[3], *count;
    bool known = range_limits(n, limits);
    if (known && dim_is(limits[2], 0)) infer_error(n, "delta is 0");
    if (known) count = range_count(n, limits);
    else if (!(count = range_constant_count(n))) {
        count = infer_count_dim(n, NULL);
        count->is_count = false; // arguments decide it, as with integers: a declared size holds
    }
    infer_set(n, 0, elem, 1, &count);
    if (!known || !dim_is_const(count) || dim_value(count) > CONTENTS_MAX) return;
    dim *contents[CONTENTS_MAX];
    int elements = (int)dim_value(count);
    for (int j = 0; j < elements; j++) contents[j] = dim_add(limits[0], dim_mulk(limits[2], j));
    infer_set_contents(n, 0, contents, elements);
}

// The count of a float range known only at run time, computed in double.
static void range_set_count(lowering *l, node *n, buffer *const *in, dim *count) {
    dim *one = infer_k(n, 1);
    buffer *b = lower_temp(l, n, "count", DT_I64, 1, &one);
    kernel *k = lower_kernel(l, n, "count");
    expr *v[3], *zero = x_i64(k, 0);
    for (int i = 0; i < 3; i++) v[i] = x_cast(k, x_read_first(k, in[i]), DT_F64, false);
    expr *steps = x_un(k, X_CEIL, x_div(k, x_sub(k, v[1], v[0]), v[2]));
    expr *whole = x_bin(k, X_MAX, x_cast(k, steps, DT_I64, false), zero);
    stage_write(k, kernel_stage(k), b, &zero, whole);
    lower_set_dim(l, n, count, b, 0);
}

static void range_lower(lowering *l, node *n) {
    dim *limits[3];
    lower_arguments(l, n);
    lower_check(l, n, range_has_scalars(n), range_scalars);
    bool known = range_limits(n, limits);
    if (known) lower_check(l, n, dim_not(dim_eq(limits[2], infer_k(n, 0))), "delta is 0");
    if (lower_known_contents(l, n)) return;
    buffer *in[3] = {lower_in(l, n, 0), lower_in(l, n, 1), lower_in(l, n, 2)};
    if (!known && !range_constant_count(n)) {
        dim *count = infer_count_dim(n, NULL);
        range_set_count(l, n, in, count);
        lower_arguments(l, n);
        lower_check(l, n, dim_eq(n->out[0]->type.dims[0], count),
                    "the output does not have its declared size");
    }
    buffer *out = lower_out(l, n, 0);
    kernel *k;
    expr *index;
    stage *s = pointwise_stage(l, n, out, &k, &index);
    dtype t = dtype_compute(out->dtype);
    expr *start = x_read_first(k, in[0]), *delta = x_read_first(k, in[2]);
    stage_write(k, s, out, &index, x_add(k, start, x_mul(k, x_cast(k, index, t, false), delta)));
}

OPERATOR(Range, .infer = range_infer, .lower = range_lower);

// ---------------------------------------------------------------- EyeLike
static void eye_like_infer(node *n) {
    const type *in = infer_in(n, 0);
    dtype elem = node_attr(n, "dtype") ? dtype_from_onnx((int)node_int(n, "dtype", 0)) : in->elem;
    if (elem == DT_NONE)
        infer_error(n, "attribute 'dtype' is %lld, which is not an element type",
                    (long long)node_int(n, "dtype", 0));
    if (infer_rank(n, 0) != 2) infer_error(n, "the input has rank %d, not 2", in->rank);
    infer_set(n, 0, elem, 2, in->dims);
}

static void eye_like_lower(lowering *l, node *n) {
    buffer *out = lower_out(l, n, 0);
    kernel *k;
    expr *index[2];
    stage *s = pointwise_stage(l, n, out, &k, index);
    dtype t = dtype_compute(out->dtype);
    expr *on = x_bin(k, X_EQ, index[1], x_add(k, index[0], x_i64(k, node_int(n, "k", 0))));
    stage_write(k, s, out, index, x_select(k, on, x_number(k, t, 1), x_zero(k, t)));
}

OPERATOR(EyeLike, .infer = eye_like_infer, .lower = eye_like_lower);
