// Operators of QONNX that prepare networks for FPGAs: channels last, products of bits, pooling by shifts, patches of images.
#include "ir/ops/decompose.h"
#include <math.h>
#include <string.h>

enum { PATCH_MOST = 4096 }; // elements of a kernel, each of which becomes a node

// Of elements 0 and 1: the number of equal pairs, from the product of -1 and 1.
static void xnor_popcount_decompose(node *n) {
    value *one = number_like(n, 1, 0), *two = number_like(n, 2, 0), *half = number_like(n, 0.5, 0);
    value *a = NODE(n, "Sub", NODE(n, "Mul", n->in[0], two), one);
    value *b = NODE(n, "Sub", NODE(n, "Mul", n->in[1], two), one);
    value *size = NODE(n, "Squeeze", shape_part(n, n->in[0], -1, INT64_MAX));
    value *sum = NODE(n, "Add", NODE(n, "MatMul", a, b), cast_to(n, size, infer_in(n, 0)->elem));
    give_output(n, 0, NODE(n, "Mul", sum, half));
}

static int bits_of(uint64_t v) {
    int bits = 0;
    for (; v; v >>= 1) bits++;
    return bits;
}

// The sum of a window, shifted right so that it has `obits`.
static void quant_avg_pool_decompose(node *n) {
    int64_t k = node_int(n, "kernel", 1), stride = node_int(n, "stride", 1), in = node_int(n, "ibits", 1);
    int64_t out = node_int(n, "obits", 1);
    if (infer_rank(n, 0) != 4) infer_error(n, "the image has rank %d, not 4", infer_rank(n, 0));
    if (k < 1 || k > 1 << 16 || in < 1 || in > 31 || out < 1 || out > 64)
        infer_error(n,
                    "kernel is %lld, ibits %lld, obits %lld; they must be 1 to 65536, 1 to 31, and 1 to 64",
                    (long long)k, (long long)in, (long long)out);
    int64_t shift = bits_of(((UINT64_C(1) << in) - 1) * (uint64_t)(k * k)) - out;
    bool last = strcmp(node_string(n, "data_layout", "NCHW"), "NHWC") == 0;
    value *x = last ? channels_moved(n, n->in[0], 4, true) : n->in[0];
    value *y = with_ints(with_ints(NODE(n, "AveragePool", x), "kernel_shape", INTS(k, k)), "strides",
                         INTS(stride, stride));
    y = NODE(n, "Round", NODE(n, "Mul", y, number_like(n, (double)(k * k), 0)));
    if (shift > 0) y = NODE(n, "Floor", NODE(n, "Div", y, number_like(n, ldexp(1, (int)shift), 0)));
    give_output(n, 0, last ? channels_moved(n, y, 4, false) : y);
}

// ---------------------------------------------------------------- channels last
// The standard's operator on tensors whose last axis is that of the channels.
static void on_channels_last(node *n, const char *op, bool also_weights) {
    int rank = infer_rank(n, 0);
    value *in[8] = {NULL};
    if (rank < 2) infer_error(n, "the input has rank %d; it must be at least 2", rank);
    if (also_weights && infer_rank(n, 1) != rank)
        infer_error(n, "the input has rank %d, the weights %d", rank, infer_rank(n, 1));
    for (int i = 1; i < n->nout; i++)
        if (n->out[i]) infer_error(n, "with channels last the operator has one output only");
    for (int i = 0; i < n->nin && i < 8; i++) in[i] = n->in[i];
    in[0] = channels_moved(n, in[0], rank, true);
    if (also_weights) in[1] = channels_moved(n, in[1], rank, true);
    value *y = insert_node(n, op, (size_t)n->nin, in);
    for (int i = 0; i < n->nattrs; i++) node_set_attr(y->def, n->attrs[i]);
    give_output(n, 0, channels_moved(n, y, rank, false));
}

static void conv_decompose(node *n) { on_channels_last(n, "Conv", true); }
static void max_pool_decompose(node *n) { on_channels_last(n, "MaxPool", false); }
static void batch_normalization_decompose(node *n) { on_channels_last(n, "BatchNormalization", false); }

static void max_pool_nhwc_decompose(node *n) { on_channels_last(n, "MaxPool", false); }

// ---------------------------------------------------------------- Im2Col
static const int64_t *two_sizes(const node *n, const char *name, int64_t most) {
    int count;
    const int64_t *sizes = node_ints(n, name, &count);
    if (count != 2) infer_error(n, "attribute %s has %d elements, not 2", name, count);
    for (int i = 0; i < 2; i++)
        if (sizes[i] < 1 || sizes[i] > most)
            infer_error(n, "attribute %s has %lld; it must be from 1 to %lld", name, (long long)sizes[i],
                        (long long)most);
    return sizes;
}

static value *padded_image(node *n) {
    int count;
    const int64_t *p = node_ints(n, "pad_amount", &count);
    if (count != 4) infer_error(n, "attribute pad_amount has %d elements, not 4", count);
    if (!p[0] && !p[1] && !p[2] && !p[3]) return n->in[0];
    value *pads = insert_ints(n, (const int64_t[]){0, p[0], p[1], 0, 0, p[2], p[3], 0}, 8);
    return NODE(n, "Pad", n->in[0], pads, number_like(n, (double)node_int(n, "pad_value", 0), 0));
}

// Patches of an image (N, H, W, C) as (N, H', W', kernel * C): a strided slice for each element of the kernel.
static void im2col_decompose(node *n) {
    const int64_t *k = two_sizes(n, "kernel_size", PATCH_MOST), *stride = two_sizes(n, "stride", INT32_MAX);
    const int64_t *dilation = two_sizes(n, "dilations", INT32_MAX);
    if (infer_rank(n, 0) != 4) infer_error(n, "the image has rank %d, not 4", infer_rank(n, 0));
    if (k[0] * k[1] > PATCH_MOST)
        infer_error(n, "the kernel has %lld elements; at most %d are supported", (long long)(k[0] * k[1]),
                    PATCH_MOST);
    value *x = padded_image(n), *axes = insert_ints(n, (const int64_t[]){1, 2}, 2);
    value *steps = insert_ints(n, stride, 2), **patches = ARENA_ARRAY(infer_arena(n), value *, k[0] * k[1]);
    for (int64_t i = 0; i < k[0] * k[1]; i++) {
        int64_t from[2] = {i / k[1] * dilation[0], i % k[1] * dilation[1]}, to[2];
        for (int j = 0; j < 2; j++) {
            int64_t rest = (k[j] - 1) * dilation[j] - from[j];
            to[j] = rest ? -rest : INT64_MAX;
        }
        patches[i] = NODE(n, "Slice", x, insert_ints(n, from, 2), insert_ints(n, to, 2), axes, steps);
    }
    give_output(n, 0, with_int(insert_node(n, "Concat", (size_t)(k[0] * k[1]), patches), "axis", 3));
}

QONNX_OP(Im2Col, im2col_decompose);
QONNX_OP(MaxPoolNHWC, max_pool_nhwc_decompose);
QONNX_OP(QuantAvgPool2d, quant_avg_pool_decompose);
QONNX_OP(XnorPopcountMatMul, xnor_popcount_decompose);

#define LAST_OP(NAME, function)                                                                              \
    const op_def op_channels_last_##NAME = {                                                                 \
        .name = #NAME, .domain = "qonnx.custom_op.channels_last", .decompose = function}
LAST_OP(BatchNormalization, batch_normalization_decompose);
LAST_OP(Conv, conv_decompose);
LAST_OP(MaxPool, max_pool_decompose);
