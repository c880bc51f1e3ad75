// Images in com.microsoft: sampling, crops, transposed convolutions whose pads are an input.
#include "ir/ops/decompose.h"
#include <float.h>
#include <string.h>

static void grid_sample(node *n) {
    const char *mode = node_string(n, "mode", "bilinear");
    if (infer_rank(n, 0) != 4) infer_error(n, "X has rank %d, but must have rank 4", infer_rank(n, 0));
    if (strcmp(mode, "bilinear") == 0) mode = "linear";
    else if (strcmp(mode, "bicubic") == 0) mode = "cubic";
    value *y = with_string(NODE(n, "GridSample", n->in[0], n->in[1]), "mode", mode);
    give_output(n, 0, with_attr_of(with_attr_of(y, n, "align_corners"), n, "padding_mode"));
}
MICROSOFT_OP(GridSample, grid_sample);

// ---- ConvTransposeWithDynamicPads: x, weights, pads, bias. Pads cut the edges of the result without them.
static value *cut(node *n, value *y, int spaces) {
    value *pads = NODE(n, "Reshape", n->in[2], insert_ints(n, (const int64_t[]){2, -1}, 2));
    value *rows[2];
    for (int64_t i = 0; i < 2; i++) rows[i] = NODE(n, "Gather", pads, insert_scalar(n, DT_I64, (double)i));
    value *to = NODE(n, "Sub", shape_part(n, y, 2, INT64_MAX), rows[1]);
    int64_t axes[MAX_RANK];
    for (int i = 0; i < spaces; i++) axes[i] = 2 + i;
    return NODE(n, "Slice", y, rows[0], to, insert_ints(n, axes, spaces));
}

static void conv_transpose(node *n) {
    static const char *const kept[] = {"dilations", "group", "kernel_shape", "output_padding", "strides"};
    const constant *pads = node_in(n, 2) ? infer_constant(n, 2) : NULL;
    value *y = NODE(n, "ConvTranspose", n->in[0], n->in[1], node_in(n, 3));
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) with_attr_of(y, n, kept[i]);
    if (pads) {
        int64_t sizes[2 * MAX_RANK];
        if (pads->count > 2 * MAX_RANK) infer_error(n, "Pads has %lld numbers", (long long)pads->count);
        for (int64_t i = 0; i < pads->count; i++) sizes[i] = constant_int(pads, i);
        with_ints(y, "pads", (int)pads->count, sizes);
    } else if (node_in(n, 2)) y = cut(n, y, infer_rank(n, 0) - 2);
    else with_attr_of(y, n, "auto_pad");
    give_output(n, 0, y);
}
MICROSOFT_OP(ConvTransposeWithDynamicPads, conv_transpose);

// ---- CropAndResize: X (N, C, H, W), rois (y1, x1, y2, x2), batch_indices, crop_size

// Positions (rois, size) along one axis of the image, whose extent is `last` + 1:
//   start * last + i * (end - start) * last / (size - 1), or, for one element, the middle;
// the last element is end * last, without rounding.
static value *positions(node *n, value *start, value *end, value *last, value *size) {
    value *one = insert_scalar(n, DT_I64, 1), *zero = insert_scalar(n, DT_I64, 0),
          *f1 = insert_scalar(n, DT_F32, 1);
    value *i = cast_to(n, NODE(n, "Range", zero, size, one), DT_F32);
    value *steps = NODE(n, "Sub", cast_to(n, size, DT_F32), f1), *some = NODE(n, "Max", steps, f1);
    value *from = NODE(n, "Mul", start, last), *to = NODE(n, "Mul", end, last);
    value *step = NODE(n, "Div", NODE(n, "Mul", NODE(n, "Sub", end, start), last), some);
    value *at = NODE(n, "Add", from, NODE(n, "Mul", i, step));
    at = NODE(n, "Where", NODE(n, "Equal", i, steps), to, at);
    value *half = insert_scalar(n, DT_F32, 0.5);
    value *middle = NODE(n, "Mul", NODE(n, "Mul", half, NODE(n, "Add", start, end)), last);
    return NODE(n, "Where", NODE(n, "Equal", size, one), middle, at);
}

typedef struct crops {
    value *x, *images;      // (N, H, W, C); (rois, 1, 1)
    value *last[2], *at[2]; // of y and x: the last position; positions (rois, size)
    value *inside;          // (rois, height, width)
} crops;

static value *spread(node *n, value *v, int axis) {
    return NODE(n, "Unsqueeze", v, one_int(n, axis ? 1 : 2));
}

static void find_positions(node *n, crops *c) {
    for (int j = 0; j < 2; j++) {
        value *extent = NODE(n, "Squeeze", shape_part(n, n->in[0], 2 + j, 3 + j));
        c->last[j] = cast_to(n, NODE(n, "Sub", extent, insert_scalar(n, DT_I64, 1)), DT_F32);
        value *start = sliced(n, n->in[1], 1, j, j + 1), *end = sliced(n, n->in[1], 1, j + 2, j + 3);
        value *size = with_int(NODE(n, "Gather", n->in[3], insert_scalar(n, DT_I64, j)), "axis", 0);
        c->at[j] = positions(n, start, end, c->last[j], cast_to(n, size, DT_I64));
        value *over = NODE(n, "LessOrEqual", c->at[j], c->last[j]);
        value *in = NODE(n, "And", NODE(n, "GreaterOrEqual", c->at[j], insert_scalar(n, DT_F32, 0)), over);
        in = spread(n, in, j);
        c->inside = j ? NODE(n, "And", c->inside, in) : in;
    }
}

// A whole number of the position along axis j, inside of the image.
static value *whole(node *n, const crops *c, int j, const char *op) {
    value *at = c->at[j];
    if (!op) { // nearest, halves away from zero; positions outside do not count
        at = NODE(n, "Add", at, insert_scalar(n, DT_F32, 0.5));
        op = "Floor";
    }
    value *v = NODE(n, "Clip", NODE(n, op, at), insert_scalar(n, DT_F32, 0), c->last[j]);
    return spread(n, cast_to(n, v, DT_I64), j);
}

// Elements (rois, height, width, C) at whole positions.
static value *taken(node *n, const crops *c, value *y, value *x) {
    value *parts[] = {c->images, y, x}, *shape = shape_part(n, c->inside, 0, INT64_MAX);
    for (int i = 0; i < 3; i++)
        parts[i] = NODE(n, "Unsqueeze", NODE(n, "Expand", parts[i], shape), one_int(n, 3));
    value *index = with_int(NODE(n, "Concat", parts[0], parts[1], parts[2]), "axis", 3);
    return NODE(n, "GatherND", c->x, index);
}

// a + (b - a) * share
static value *mixed(node *n, value *a, value *b, value *share) {
    return NODE(n, "Add", a, NODE(n, "Mul", NODE(n, "Sub", b, a), share));
}

static value *bilinear(node *n, const crops *c) {
    value *low[2], *high[2], *share[2];
    for (int j = 0; j < 2; j++) {
        low[j] = whole(n, c, j, "Floor");
        high[j] = whole(n, c, j, "Ceil");
        value *rest = NODE(n, "Sub", c->at[j], NODE(n, "Floor", c->at[j]));
        share[j] = NODE(n, "Unsqueeze", spread(n, rest, j), one_int(n, 3));
    }
    value *top = mixed(n, taken(n, c, low[0], low[1]), taken(n, c, low[0], high[1]), share[1]);
    value *bottom = mixed(n, taken(n, c, high[0], low[1]), taken(n, c, high[0], high[1]), share[1]);
    return mixed(n, top, bottom, share[0]);
}

static void crop_and_resize(node *n) {
    const char *mode = node_string(n, "mode", "bilinear");
    bool nearest = strcmp(mode, "nearest") == 0;
    if (!nearest && strcmp(mode, "bilinear") != 0)
        infer_error(n, "attribute mode is '%s', but must be bilinear or nearest", mode);
    if (infer_rank(n, 0) != 4) infer_error(n, "X has rank %d, but must have rank 4", infer_rank(n, 0));
    crops c = {.x = channels_moved(n, n->in[0], 4, false)};
    c.images =
        NODE(n, "Reshape", cast_to(n, n->in[2], DT_I64), insert_ints(n, (const int64_t[]){-1, 1, 1}, 3));
    find_positions(n, &c);
    value *y = nearest ? taken(n, &c, whole(n, &c, 0, NULL), whole(n, &c, 1, NULL)) : bilinear(n, &c);
    value *other = insert_scalar(n, DT_F32, node_float(n, "extrapolation_value", 0));
    y = NODE(n, "Where", NODE(n, "Unsqueeze", c.inside, one_int(n, 3)), y, other);
    give_output(n, 0, channels_moved(n, y, 4, true));
}
MICROSOFT_OP(CropAndResize, crop_and_resize);

// ---- MaxpoolWithMask: X (N, C, ...), mask. Along the last axis a window ends before the first zero of the mask;
// over the other axes it is a maximum of such rows. The first element of an image of two axes or more always counts.

// (N, C, ...): the mask of each image; a mask of fewer images or channels repeats, in the order of all channels.
static value *mask_of(node *n, int rank) {
    value *zero = insert_scalar(n, DT_I64, 0), *one = insert_scalar(n, DT_I64, 1),
          *shape = shape_part(n, n->in[0], 0, INT64_MAX);
    value *space = shape_part(n, n->in[0], 2, INT64_MAX), *flat = JOINED(n, one_int(n, -1), space);
    value *rows = NODE(n, "Reshape", n->in[1], flat);
    value *images = NODE(n, "Squeeze", NODE(n, "ReduceProd", shape_part(n, n->in[0], 0, 2), one_int(n, 0)));
    value *places = NODE(n, "Mod", NODE(n, "Range", zero, images, one), shape_part(n, rows, 0, 1));
    value *open =
        NODE(n, "Not", NODE(n, "Equal", NODE(n, "Gather", rows, places), insert_scalar(n, DT_I32, 0)));
    if (rank > 3) { // the first element
        value *size = NODE(n, "Squeeze", NODE(n, "ReduceProd", space, one_int(n, 0)));
        value *first = NODE(n, "Equal", NODE(n, "Range", zero, size, one), zero);
        open = NODE(n, "Or", open, NODE(n, "Reshape", first, space));
    }
    return NODE(n, "Reshape", open, shape);
}

// Elements (..., windows, kernel) of v's last axis: padded with `fill`.
static value *windows_of(node *n, value *v, value *fill, const int64_t *window) {
    value *pads = insert_ints(n, window + 2, 2), *zero = insert_scalar(n, DT_I64, 0),
          *one = insert_scalar(n, DT_I64, 1);
    value *padded = NODE(n, "Pad", v, pads, fill, one_int(n, -1));
    value *starts = NODE(n, "Sub", shape_part(n, padded, -1, INT64_MAX), one_int(n, window[0] - 1));
    starts = NODE(n, "Range", zero, NODE(n, "Squeeze", starts), insert_scalar(n, DT_I64, (double)window[1]));
    value *steps = NODE(n, "Range", zero, insert_scalar(n, DT_I64, (double)window[0]), one);
    value *index = NODE(n, "Add", NODE(n, "Unsqueeze", starts, one_int(n, 1)), steps);
    return with_int(NODE(n, "Gather", padded, index), "axis", -1);
}

// The axes of the image but the last one, without a mask.
static value *pooled_outside(node *n, value *y, int spaces, const int64_t *kernel, const int64_t *strides,
                             const int64_t *pads) {
    int64_t sizes[MAX_RANK], steps[MAX_RANK], edges[2 * MAX_RANK];
    for (int i = 0; i < spaces; i++) {
        bool last = i == spaces - 1;
        sizes[i] = last ? 1 : kernel[i];
        steps[i] = last || !strides ? 1 : strides[i];
        edges[i] = last || !pads ? 0 : pads[i];
        edges[spaces + i] = last || !pads ? 0 : pads[spaces + i];
    }
    y = with_ints(with_ints(NODE(n, "MaxPool", y), "kernel_shape", spaces, sizes), "strides", spaces, steps);
    return with_ints(y, "pads", 2 * spaces, edges);
}

static void maxpool_with_mask(node *n) {
    int rank = infer_rank(n, 0), spaces = rank - 2, count, nstrides, npads;
    const int64_t *kernel = node_ints(n, "kernel_shape", &count),
                  *strides = node_ints(n, "strides", &nstrides);
    const int64_t *pads = node_ints(n, "pads", &npads);
    const char *auto_pad = node_string(n, "auto_pad", "NOTSET");
    if (rank < 3 || infer_rank(n, 1) != rank) infer_error(n, "X and M must have the same rank, of 3 or more");
    if (count != spaces || (nstrides && nstrides != spaces) || (npads && npads != 2 * spaces))
        infer_error(n, "attributes kernel_shape, strides and pads must have %d, %d and %d numbers", spaces,
                    spaces, 2 * spaces);
    if (strcmp(auto_pad, "NOTSET") != 0 && strcmp(auto_pad, "VALID") != 0)
        diag_fatal_missing(n->graph->module->diag, n->loc, "attribute auto_pad of '%s' is not supported",
                           auto_pad);
    if (strcmp(auto_pad, "VALID") == 0) pads = NULL;
    int last = spaces - 1;
    const int64_t window[] = {kernel[last], strides ? strides[last] : 1, pads ? pads[last] : 0,
                              pads ? pads[spaces + last] : 0};
    value *least = insert_scalar(n, DT_F32, -FLT_MAX), *zero = insert_scalar(n, DT_I32, 0);
    value *x = windows_of(n, n->in[0], least, window);
    value *closed = cast_to(n, NODE(n, "Not", mask_of(n, rank)), DT_I32);
    value *so_far = NODE(n, "CumSum", windows_of(n, closed, zero, window), insert_scalar(n, DT_I64, rank));
    value *y = NODE(n, "Where", NODE(n, "Equal", so_far, zero), x, least);
    y = with_int(NODE(n, "ReduceMax", y, one_int(n, rank)), "keepdims", 0);
    if (spaces > 1) y = NODE(n, "Max", pooled_outside(n, y, spaces, kernel, strides, pads), least);
    give_output(n, 0, y);
}
MICROSOFT_OP(MaxpoolWithMask, maxpool_with_mask);
