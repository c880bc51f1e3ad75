// What the contraction families (matmul, conv, pool, quant) share: operand indices under broadcasting,
// the axes of matrix products and the geometry of sliding windows.
#ifndef ONNXC_IR_OPS_CONTRACT_H
#define ONNXC_IR_OPS_CONTRACT_H
#include "ir/kernel/lower.h"

// index on an axis of `extent` as an index on a dim of size d that is that extent or 1.
expr *broadcast_index(kernel *k, dim *d, dim *extent, expr *index);

// ---- Matrix products with numpy's rules for batches and 1-d operands
int matmul_dims(const node *n, int a, int b, dim **dims); // inference: dims of the product, returns its rank
typedef struct product {
    kernel *k;
    stage *s;
    buffer *a, *b, *out;
    expr *index[MAX_RANK];   // of the output
    int nbatch;              // leading output axes that are not row and column
    expr *row, *col, *inner; // 0 where the operand is 1-d
} product;
// Parallel axes over out, reduce axis over the inner size.
product product_begin(lowering *l, const node *n, buffer *a, buffer *b, buffer *out);
expr *product_read_a(product *p);
expr *product_read_b(product *p);
// A scale or zero point of a (per row) or b (per column): scalar, one element, vector, or a's rank.
expr *product_param_a(product *p, buffer *param);
expr *product_param_b(product *p, buffer *param);

// ---- Windows sliding over spatial axes
typedef struct window {
    int n; // spatial axes
    dim *in[MAX_RANK], *kernel[MAX_RANK], *out[MAX_RANK];
    dim *lo[MAX_RANK], *hi[MAX_RANK]; // padding
    int64_t stride[MAX_RANK], dilation[MAX_RANK];
    bool fits; // no window goes past the padding: output sizes were rounded down
} window;
// From attributes auto_pad, pads, strides, dilations of n; in and kernel are `count` sizes. Pools have
// attribute ceil_mode too: sizes rounded up, but no window that would start in the end padding.
typedef enum auto_pad { PADS_GIVEN, SAME_UPPER, SAME_LOWER, VALID } auto_pad;
auto_pad auto_pad_of(const node *n);
window window_of(const node *n, int count, dim *const *in, dim *const *kernel, bool pool);
// A list attribute of `count` positive ints, or all 1.
void window_ints(const node *n, const char *name, int count, int64_t *out);
// The dims of the window in the input: size of the kernel with its gaps.
dim *window_span(const window *w, int axis);
// Reduce axes over the kernel's positions.
void window_taps(kernel *k, stage *s, const window *w, expr **tap);
// index = out * stride - lo + tap * dilation; returns where that is inside the input, NULL: everywhere.
expr *window_index(kernel *k, const window *w, expr *const *out, expr *const *tap, expr **index);
// A run-time check that the input is not smaller than the window, where that is not sure.
void window_check(lowering *l, const node *n, const window *w);

// ---- Convolutions
int conv_dims(const node *n, int x, int w, dim **dims); // inference
typedef struct conv {
    kernel *k;
    stage *s;
    expr *index[MAX_RANK];                   // of the output
    expr *channel;                           // output channel
    expr *x[MAX_RANK], *w[MAX_RANK], *guard; // indices of the operands; guard as window_index gives
} conv;
conv conv_begin(lowering *l, const node *n, buffer *x, buffer *w, buffer *out);
// A parameter that is a scalar or one element for each output channel.
expr *conv_param(conv *c, buffer *param);

// ---- Quantised sums: cast(x) - zero_point in the type that products accumulate in
// zero_point NULL: none.
expr *quant_centre(kernel *k, expr *x, expr *zero_point);
// Input i of n, NULL when it is left out or known to be all zero.
buffer *quant_zero_point(lowering *l, const node *n, int i);
// The reduction of a quantised convolution; padding counts as the zero point, that is as nothing.
expr *quant_conv_sum(conv *c, buffer *x, buffer *x_zero, buffer *w, buffer *w_zero);
#endif
