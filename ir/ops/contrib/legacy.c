// Experimental operators of the first operator sets, which the standard dropped in version 10 and ONNX Runtime still
// runs, as graphs of today's operators.
#include "ir/ops/decompose.h"

#define LEGACY_OP(NAME, function)                                                                            \
    const op_def op_##NAME = {.name = #NAME, .domain = "", .decompose = function}

static value *times(node *n, value *v, double factor) { return NODE(n, "Mul", v, number_like(n, factor, 0)); }

// alpha * x + beta
static void affine(node *n) {
    value *product = times(n, n->in[0], node_float(n, "alpha", 1));
    give_output(n, 0, NODE(n, "Add", product, number_like(n, node_float(n, "beta", 0), 0)));
}

static void scale(node *n) { give_output(n, 0, times(n, n->in[0], node_float(n, "scale", 1))); }

// alpha * op(beta * x)
static void scaled(node *n, const char *op) {
    value *y = NODE(n, op, times(n, n->in[0], node_float(n, "beta", 1)));
    give_output(n, 0, times(n, y, node_float(n, "alpha", 1)));
}

static void scaled_tanh(node *n) { scaled(n, "Tanh"); }
static void parametric_softplus(node *n) { scaled(n, "Softplus"); }
LEGACY_OP(Affine, affine);
LEGACY_OP(Scale, scale);
LEGACY_OP(ScaledTanh, scaled_tanh);
LEGACY_OP(ParametricSoftplus, parametric_softplus);

// ---- Images
static void need_image(const node *n) {
    if (infer_rank(n, 0) != 4)
        infer_error(n, "the input has rank %d, but must have rank 4 (N, C, H, W)", infer_rank(n, 0));
}

// scale * x + bias[channel]
static void image_scaler(node *n) {
    need_image(n);
    value *y = times(n, n->in[0], node_float(n, "scale", 1));
    const attr *bias = node_attr(n, "bias");
    if (bias && bias->n) {
        value *column = insert_floats(n, bias->floats, bias->n);
        column = reshaped(n, cast_to(n, column, infer_in(n, 0)->elem), 3, (const int64_t[]){bias->n, 1, 1});
        infer_same_dim(n, infer_in(n, 0)->dims[1], infer_k(n, bias->n), "channels and their bias");
        y = NODE(n, "Add", y, column);
    }
    give_output(n, 0, y);
}

// border: left, top, right, bottom; scale: height and width, measured from left and top
static void crop(node *n) {
    need_image(n);
    int borders, scales;
    const int64_t *border = node_ints(n, "border", &borders), *extent = node_ints(n, "scale", &scales);
    if (borders != 4) infer_error(n, "attribute border has %d numbers, but needs 4", borders);
    if (scales && scales != 2) infer_error(n, "attribute scale has %d numbers, but needs 2", scales);
    for (int i = 0; i < 4; i++)
        if (border[i] < 0)
            infer_error(n, "attribute border has a negative number, %lld", (long long)border[i]);
    const int64_t from[] = {border[1], border[0]}, axes[] = {2, 3};
    value *to;
    if (scales) to = insert_ints(n, (const int64_t[]){border[1] + extent[0], border[0] + extent[1]}, 2);
    else
        to = NODE(n, "Sub", shape_part(n, n->in[0], 2, 4),
                  insert_ints(n, (const int64_t[]){border[3], border[2]}, 2));
    give_output(n, 0, NODE(n, "Slice", n->in[0], insert_ints(n, from, 2), to, insert_ints(n, axes, 2)));
}
LEGACY_OP(ImageScaler, image_scaler);
LEGACY_OP(Crop, crop);

// ---- Shapes
static void dynamic_slice(node *n) {
    give_output(n, 0, NODE(n, "Slice", n->in[0], n->in[1], n->in[2], node_in(n, 3)));
}

// values with the shape of the attribute, of the input, or in the input, and then the sizes of extra_shape.
static void given_tensor_fill(node *n) {
    int count, extras;
    const int64_t *shape = node_ints(n, "shape", &count), *extra = node_ints(n, "extra_shape", &extras);
    const attr *values = node_attr(n, "values");
    if (!values) infer_error(n, "attribute values is missing");
    value *sizes = insert_ints(n, shape, count);
    if (node_in(n, 0) && node_int(n, "input_as_shape", 0)) sizes = cast_to(n, n->in[0], DT_I64);
    else if (node_in(n, 0)) sizes = shape_part(n, n->in[0], 0, INT64_MAX);
    if (extras) sizes = JOINED(n, sizes, insert_ints(n, extra, extras));
    value *y = NODE(n, "Reshape", insert_floats(n, values->floats, values->n), sizes);
    give_output(n, 0, node_in(n, 0) ? cast_to(n, y, infer_in(n, 0)->elem) : y);
}
LEGACY_OP(DynamicSlice, dynamic_slice);
LEGACY_OP(GivenTensorFill, given_tensor_fill);
