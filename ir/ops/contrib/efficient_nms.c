// EfficientNMS_TRT, a plug-in of TensorRT that exporters of detectors write: boxes of all classes, greedily in the order of their
// scores, up to a number for each image (github.com/NVIDIA/TensorRT, plugin/efficientNMSPlugin/README.md).
#include "ir/ops/decompose.h"
#include <math.h>

enum { CANDIDATES_MOST = 4096 }; // of an image: those with the highest scores

// Box k of each image.
typedef struct candidates {
    value *scores, *boxes, *classes; // [B, K], [B, K, 4] by corners, [B, K]
    value *count;                    // K: int64[1]
} candidates;

static value *coordinate(node *n, value *boxes, int from, int to) { return sliced(n, boxes, -1, from, to); }
static value *paired(node *n, value *first, value *second) {
    return with_int(NODE(n, "Concat", first, second), "axis", -1);
}

static value *ordered_corners(node *n, value *b) {
    value *first = coordinate(n, b, 0, 2), *last = coordinate(n, b, 2, 4);
    return paired(n, NODE(n, "Min", first, last), NODE(n, "Max", first, last));
}

static value *corners_of(node *n, value *centers) {
    value *half = NODE(n, "Mul", coordinate(n, centers, 2, 4), insert_scalar(n, DT_F32, 0.5));
    value *at = coordinate(n, centers, 0, 2);
    return paired(n, NODE(n, "Sub", at, half), NODE(n, "Add", at, half));
}

// Corners are added to those of the anchor; centers are in units of the anchor's size, sizes are logarithms of factors.
static value *decoded(node *n, value *b, value *anchor, bool centers) {
    if (!centers) return NODE(n, "Add", ordered_corners(n, b), ordered_corners(n, anchor));
    value *size = coordinate(n, anchor, 2, 4);
    value *at = NODE(n, "Add", NODE(n, "Mul", coordinate(n, b, 0, 2), size), coordinate(n, anchor, 0, 2));
    return paired(n, at, NODE(n, "Mul", size, NODE(n, "Exp", coordinate(n, b, 2, 4))));
}

// Rows `rows` [B, K] of each image's v [B, ...].
static value *rows_of(node *n, value *v, value *rows) {
    return with_int(NODE(n, "GatherND", v, NODE(n, "Unsqueeze", rows, one_int(n, -1))), "batch_dims", 1);
}

static value *without_background(node *n, value *scores, value *classes) {
    int64_t background = node_int(n, "background_class", -1);
    if (background < 0) return scores;
    value *numbers = NODE(n, "Range", int64_scalar(n, 0), NODE(n, "Squeeze", classes), int64_scalar(n, 1));
    value *is_background = NODE(n, "Equal", numbers, int64_scalar(n, background));
    return NODE(n, "Where", is_background, insert_scalar(n, DT_F32, -INFINITY), scores);
}

// Boxes [B, N, 4] or [B, N, 1, 4] are those of all classes, [B, N, C, 4] of one each.
static value *boxes_at(node *n, value *boxes_of, value *classes) {
    bool centers = node_int(n, "box_coding", 0) == 1;
    value *b = widened(n, 0), *anchors = widened(n, 2), *rows = boxes_of;
    if (infer_rank(n, 0) == 4) {
        value *count = shape_part(n, n->in[0], 2, 3), *last = NODE(n, "Sub", count, one_int(n, 1));
        rows = NODE(n, "Add", NODE(n, "Mul", boxes_of, count), NODE(n, "Min", classes, last));
        b = reshaped(n, b, 3, (const int64_t[]){0, -1, 4});
    }
    b = rows_of(n, b, rows);
    if (anchors) {
        value *image = shape_part(n, n->in[0], 0, 1);
        value *shape = JOINED(n, image, shape_part(n, n->in[2], 1, INT64_MAX));
        b = decoded(n, b, rows_of(n, NODE(n, "Expand", anchors, shape), boxes_of), centers);
    }
    return centers ? corners_of(n, b) : b;
}

// What is no candidate stays none.
static value *activated(node *n, value *scores) {
    value *none = insert_scalar(n, DT_F32, -INFINITY);
    return NODE(n, "Where", NODE(n, "Equal", scores, none), none, NODE(n, "Sigmoid", scores));
}

static candidates candidates_of(node *n) {
    candidates c;
    value *classes = shape_part(n, n->in[1], 2, 3), *scores = without_background(n, widened(n, 1), classes);
    scores = reshaped(n, scores, 2, (const int64_t[]){0, -1});
    c.count =
        NODE(n, "Min", NODE(n, "Mul", classes, shape_part(n, n->in[1], 1, 2)), one_int(n, CANDIDATES_MOST));
    c.scores = NODE(n, "TopK", scores, c.count);
    value *places = output_of(c.scores, 1), *boxes_of = NODE(n, "Div", places, classes);
    c.classes = NODE(n, "Sub", places, NODE(n, "Mul", boxes_of, classes));
    c.boxes = boxes_at(n, boxes_of, c.classes);
    if (node_int(n, "score_activation", 0)) c.scores = activated(n, c.scores);
    return c;
}

// Both thresholds are reached by values that are equal to them; NonMaxSuppression wants more.
static value *threshold(node *n, const char *name, float otherwise) {
    return insert_scalar(n, DT_F32, nextafterf((float)node_float(n, name, otherwise), -INFINITY));
}

// Whether each candidate stays: bool [B, K].
static value *kept(node *n, candidates c) {
    value *scores = NODE(n, "Unsqueeze", c.scores, one_int(n, 1)),
          *none = insert_scalar(n, DT_F32, -INFINITY);
    if (!node_int(n, "class_agnostic", 0)) {
        value *count = NODE(n, "Squeeze", shape_part(n, n->in[1], 2, 3));
        value *numbers = NODE(n, "Range", int64_scalar(n, 0), count, int64_scalar(n, 1));
        value *mine = NODE(n, "Equal", NODE(n, "Unsqueeze", c.classes, one_int(n, 1)),
                           NODE(n, "Unsqueeze", numbers, one_int(n, -1)));
        scores = NODE(n, "Where", mine, scores, none);
    }
    value *chosen = NODE(n, "NonMaxSuppression", c.boxes, scores, int64_scalar(n, CANDIDATES_MOST),
                         threshold(n, "iou_threshold", 0.5f), threshold(n, "score_threshold", 0.25f));
    value *at = NODE(n, "Gather", chosen, insert_ints(n, (const int64_t[]){0, 2}, 2));
    with_int(at, "axis", 1);
    value *yes = NODE(n, "Expand", insert_scalar(n, DT_BOOL, 1), shape_part(n, chosen, 0, 1));
    value *no = NODE(n, "Less", c.scores, none);
    return NODE(n, "ScatterND", no, at, yes);
}

// v [B, k, ...] for the valid ones, then zeros up to `most`.
static value *filled(node *n, value *v, value *is_valid, value *missing, dtype t, int rank) {
    if (rank == 3) is_valid = NODE(n, "Unsqueeze", is_valid, one_int(n, -1));
    v = NODE(n, "Where", is_valid, v, insert_scalar(n, t, 0));
    value *zero = one_int(n, 0), *before = insert_ints(n, (const int64_t[]){0, 0, 0}, rank);
    value *pads = rank == 3 ? JOINED(n, before, zero, missing, zero) : JOINED(n, before, zero, missing);
    return NODE(n, "Pad", v, pads);
}

static void check_inputs(const node *n) {
    int boxes = infer_rank(n, 0), scores = infer_rank(n, 1);
    bool anchors = node_in(n, 2) != NULL;
    if ((boxes != 3 && boxes != 4) || scores != 3 || (anchors && infer_rank(n, 2) != 3))
        infer_error(n, "boxes have rank %d, scores %d; they must have 3 or 4, and 3, as anchors", boxes,
                    scores);
    const type *b = infer_in(n, 0), *s = infer_in(n, 1);
    infer_same_dim(n, b->dims[0], s->dims[0], "images of boxes and scores");
    infer_same_dim(n, b->dims[1], s->dims[1], "boxes and their scores");
    if (boxes == 4 && dim_is_const(b->dims[2]) && dim_value(b->dims[2]) != 1)
        infer_same_dim(n, b->dims[2], s->dims[2], "classes of boxes and scores");
    int64_t most = node_int(n, "max_output_boxes", 100), coding = node_int(n, "box_coding", 0);
    if (most < 0 || most > INT32_MAX || (coding != 0 && coding != 1))
        infer_error(n, "max_output_boxes is %lld, box_coding %lld; they must be 0 to 2147483647, and 0 or 1",
                    (long long)most, (long long)coding);
}

static void efficient_nms_decompose(node *n) {
    check_inputs(n);
    dtype t = infer_in(n, 0)->elem, wide = wide_type(t);
    value *none = insert_scalar(n, DT_F32, -INFINITY),
          *most = one_int(n, node_int(n, "max_output_boxes", 100));
    candidates c = candidates_of(n);
    value *count = NODE(n, "Min", c.count, most), *missing = NODE(n, "Sub", most, count);
    value *scores = NODE(n, "TopK", NODE(n, "Where", kept(n, c), c.scores, none), count);
    value *place = output_of(scores, 1), *valid = NODE(n, "Greater", scores, none);
    value *total = NODE(n, "ReduceSum", cast_to(n, valid, DT_I32), one_int(n, 1));
    give_output(n, 0, total);
    give_output(n, 1, narrowed(n, filled(n, rows_of(n, c.boxes, place), valid, missing, wide, 3), t));
    give_output(n, 2, narrowed(n, filled(n, scores, valid, missing, wide, 2), t));
    value *classes = cast_to(n, rows_of(n, c.classes, place), DT_I32);
    give_output(n, 3, filled(n, classes, valid, missing, DT_I32, 2));
}

OPERATOR_OF("TRT", EfficientNMS_TRT, .decompose = efficient_nms_decompose);
