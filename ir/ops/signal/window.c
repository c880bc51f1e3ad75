// Window functions of signal processing: HannWindow, HammingWindow, BlackmanWindow. One kernel that writes a
// sum of cosines; the length may be known only at run time.
#include "ir/ops/runtime_args.h"

static void window_infer(node *n) {
    dtype elem = dtype_from_onnx((int)node_int(n, "output_datatype", 1));
    dim **size;
    int count;
    if (elem == DT_NONE) infer_error(n, "attribute 'output_datatype' is not an element type");
    if (!infer_argument(n, 0, 1, &size, &count, elem)) return;
    if (count != 1) infer_error(n, "the size must be a scalar, not %d numbers", count);
    if (size[0]->max < 0) infer_error(n, "the size is negative");
    infer_set(n, 0, elem, 1, size);
}

// angle = 2 pi i / points       out[i] = a0 - a1 cos(angle) + a2 cos(2 angle)
// A periodic window has one more point than elements: its end coincides with its start.
static void window_lower(lowering *l, node *n, double a0, double a1, double a2) {
    int count;
    dim **size = lower_argument(l, n, 0, 1, &count);
    lower_arguments(l, n);
    lower_check_size(l, n, size[0], "the size is negative");
    lower_sizes(l, n, size);
    buffer *out = lower_out(l, n, 0);
    kernel *k;
    expr *index;
    stage *s = pointwise_stage(l, n, out, &k, &index);
    dtype t = dtype_is_float(out->dtype) && out->dtype != DT_F64 ? DT_F32 : DT_F64;
    dim *points = node_int(n, "periodic", 1) ? size[0] : dim_addk(size[0], -1);
    expr *turn = x_div(k, x_float(k, t, 6.28318530717958647692), x_cast(k, x_dim(k, points), t, false));
    expr *angle = x_mul(k, x_cast(k, index, t, false), turn);
    expr *once = x_mul(k, x_float(k, t, a1), x_un(k, X_COS, angle));
    expr *twice = x_mul(k, x_float(k, t, a2), x_un(k, X_COS, x_mul(k, x_float(k, t, 2), angle)));
    // In this order the peak, 0.08 + 0.5 + 0.42, is 1, also as an integer.
    expr *waves = a2 != 0 ? x_sub(k, twice, once) : x_un(k, X_NEG, once);
    stage_write(k, s, out, &index, x_cast(k, x_add(k, waves, x_float(k, t, a0)), out->dtype, false));
}

#define WINDOW(op, a0, a1, a2)                                                                               \
    static void lower_##op(lowering *l, node *n) { window_lower(l, n, a0, a1, a2); }                         \
    OPERATOR(op, .infer = window_infer, .lower = lower_##op)
WINDOW(HannWindow, 0.5, 0.5, 0);
WINDOW(HammingWindow, 25.0 / 46, 21.0 / 46, 0);
WINDOW(BlackmanWindow, 0.42, 0.5, 0.08);
