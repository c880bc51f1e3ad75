// Helpers of the contraction families (matmul, conv, pool, quant): operand indices under broadcasting, the
// axes of matrix products and the geometry of sliding windows.
#ifndef ONNXC_IR_OPS_CONTRACT_H
#define ONNXC_IR_OPS_CONTRACT_H
#include "ir/kernel/lower.h"

// The index on a dim of size d, which is `extent` or 1 (broadcast), from the index on an axis of `extent`.
expr *broadcast_index(kernel *k, dim *d, dim *extent, expr *index);

// ---- Matrix products with numpy's rules for batches and 1-d operands
int matmul_dims(const node *n, int a, int b,
                dim **dims); // inference: sets the dims of the product, returns its rank
typedef struct product {
    kernel *k;
    stage *s;
    buffer *a, *b, *out;
    expr *index[MAX_RANK];   // of the output
    int nbatch;              // leading output axes, before row and column
    expr *row, *col, *inner; // 0 for a 1-d operand
} product;
// Parallel axes over out, a reduce axis over the inner dimension.
product product_begin(lowering *l, const node *n, buffer *a, buffer *b, buffer *out);
expr *product_read_a(product *p);
expr *product_read_b(product *p);
// A scale or zero point of a (per row) or b (per column): a scalar, one element, a vector, or a tensor of the
// operand's rank.
expr *product_param_a(product *p, buffer *param);
expr *product_param_b(product *p, buffer *param);
// Inference: input i of n, if given, is one of b, or else of a, for the product of inputs a and b.
void product_check_param(const node *n, int i, int a, int b, bool of_b);

// ---- Windows sliding over spatial axes
typedef struct window {
    int n; // spatial axes
    dim *in[MAX_RANK], *kernel[MAX_RANK], *out[MAX_RANK];
    dim *lo[MAX_RANK], *hi[MAX_RANK]; // padding
    int64_t stride[MAX_RANK], dilation[MAX_RANK];
    bool fits; // no window extends past the padding: output sizes were rounded down
} window;
// From the attributes auto_pad, pads, strides and dilations of n; in and kernel are `count` sizes. Pools also
// have ceil_mode: sizes are rounded up, except for windows that would start in the end padding.
typedef enum auto_pad { PADS_GIVEN, SAME_UPPER, SAME_LOWER, VALID } auto_pad;
auto_pad auto_pad_of(const node *n);
window window_of(const node *n, int count, dim *const *in, dim *const *kernel, bool pool);
// A list attribute of `count` positive ints; all 1 if it is absent.
void window_ints(const node *n, const char *name, int count, int64_t *out);
// Reduce axes over the kernel's positions.
void window_taps(kernel *k, stage *s, const window *w, expr **tap);
// index = out * stride - lo + tap * dilation; returns the condition that it is inside the input (NULL:
// always).
expr *window_index(kernel *k, const window *w, expr *const *out, expr *const *tap, expr **index);
// A run-time check that the input is at least as large as the window, unless that is certain.
void window_check(lowering *l, const node *n, const window *w);

// ---- Convolutions
int conv_dims(const node *n, int x, int w, dim **dims); // inference
typedef struct conv {
    kernel *k;
    stage *s;
    expr *index[MAX_RANK];                   // of the output
    expr *channel;                           // output channel
    expr *x[MAX_RANK], *w[MAX_RANK], *guard; // indices of the operands; the guard of window_index
} conv;
conv conv_begin(lowering *l, const node *n, buffer *x, buffer *w, buffer *out);
// A parameter that is a scalar or has one element per output channel.
expr *conv_param(conv *c, buffer *param);
void conv_check_param(const node *n, int i, dim *channels); // inference: input i of n, if given, is one

// ---- Quantised sums: cast(x) - zero_point in the type that products accumulate in
// zero_point may be NULL.
expr *quant_centre(kernel *k, expr *x, expr *zero_point);
// Input i of n; NULL if it is left out or known to be all zero.
buffer *quant_zero_point(lowering *l, const node *n, int i);
// A tensor of floats rounded to bytes as by DynamicQuantizeLinear, and the scalars of its scale and zero point.
typedef struct quant_bytes {
    buffer *at, *scale, *zero;
} quant_bytes;
// Which elements of x take part in its range.
typedef struct quant_counted {
    expr *(*holds)(kernel *k, expr *const *at, const void *of);
    const void *of;
} quant_counted;
// counted: NULL: all elements.
quant_bytes quant_dynamic(lowering *l, const node *n, const char *what, buffer *x,
                          const quant_counted *counted);
// The reduction of a quantised convolution; padding equals the zero point and so contributes nothing.
expr *quant_conv_sum(conv *c, buffer *x, buffer *x_zero, buffer *w, buffer *w_zero);
#endif
