// Frames that are added where they overlap, by Col2Im or by a scatter to constant places, become sums of shifted frames. With
// frames of up to `parts` * `hop` samples, each of which begins `hop` samples after the one before:
//   y[t * hop + r] = sum over part of x[t - part, part * hop + r]
#include "passes/stream/stream_impl.h"
#include <string.h>

typedef struct frames {
    value *x; // [.., frames, samples of a frame, ..]
    int axis; // of the frames
    int64_t hop, parts;
    int64_t *order;    // samples of a frame in the order of their places; NULL: they are in this order
    bool oldest_first; // is added first
} frames;

// v with `open` instead of its sizes from axis to end; the axes after these have constant sizes.
static value *with_axes(streaming *s, value *v, int axis, int end, const int64_t *open, int n) {
    int64_t shape[2 * MAX_RANK] = {0};
    memcpy(shape + axis, open, (size_t)n * sizeof *open);
    for (int j = end; j < v->type.rank; j++) shape[axis + n + j - end] = dim_value(v->type.dims[j]);
    return make(s, "Reshape", 2, (value *[]){v, ints(s, shape, axis + n + v->type.rank - end)}, NULL);
}

// The samples of all frames, one after the other along the axis of the frames.
static value *overlap(streaming *s, const frames *f) {
    value *x = f->x, *sum = NULL;
    int within = f->axis + 1;
    attr along = {.name = "axis", .kind = ATTR_INT, .i = within};
    if (f->order)
        x = make(s, "Gather", 2, (value *[]){x, ints(s, f->order, (int)length_of(x, within))}, &along);
    x = pad_axis(s, x, within, 0, f->parts * f->hop - length_of(x, within), "constant");
    for (int64_t i = 0; i < f->parts; i++) {
        int64_t part = f->oldest_first ? f->parts - 1 - i : i;
        value *v = slice_of(s, x, within, part * f->hop, (part + 1) * f->hop);
        v = pad_axis(s, v, f->axis, part, f->parts - 1 - part, "constant");
        sum = sum ? make(s, "Add", 2, (value *[]){sum, v}, NULL) : v;
    }
    int64_t open = -1;
    return with_axes(s, sum, f->axis, within + 1, &open, 1);
}

// ---------------------------------------------------------------- sizes
// How much longer one size is than the other, for signals of any length. False: that depends on the length.
static bool difference(const streaming *s, const dim *a, const dim *b, int64_t *by) {
    int64_t x[2], y[2];
    if (dim_is_const(b) && exported_size(s, a) > 0) {
        *by = exported_size(s, a) - dim_value(b);
        return true;
    }
    if (!dim_at_steps(s, a, x) || !dim_at_steps(s, b, y)) return false;
    *by = x[0] - y[0];
    return x[1] - y[1] == *by;
}

// `size` samples from one of them on. What is after the last frame is zero. NULL: their number is not known.
static value *cut(streaming *s, value *v, int axis, int64_t from, dim *size) {
    int64_t more;
    if (!difference(s, v->type.dims[axis], dim_addk(size, from), &more)) return NULL;
    if (more < 0) return slice_of(s, pad_axis(s, v, axis, 0, -more, "constant"), axis, from, INT64_MAX);
    return from || more ? slice_of(s, v, axis, from, more ? -more : INT64_MAX) : v;
}

static bool constant_sizes(const type *t, int from, int to) {
    for (int j = from; j < to; j++)
        if (!dim_is_const(t->dims[j])) return false;
    return true;
}

// ---------------------------------------------------------------- Col2Im
enum { IMAGE_MOST = 4 }; // axes

static int64_t attribute(const node *n, const char *name, int i, int64_t otherwise) {
    int count;
    const int64_t *v = node_ints(n, name, &count);
    return v && i < count ? v[i] : otherwise;
}

// The axis of an image that has several blocks, of one position each on the other axes; -1: it is not the only one.
static int block_axis(const node *n, dim *const *image, dim *const *block, int axes) {
    int found = -1;
    for (int j = 0; j < axes; j++) {
        bool one = image[j] == block[j] && !attribute(n, "pads", j, 0) &&
                   !attribute(n, "pads", axes + j, 0) && attribute(n, "dilations", j, 1) == 1;
        if (!dim_is_const(block[j]) || (!one && found >= 0)) return -1;
        if (!one) found = j;
    }
    return found;
}

bool add_blocks(streaming *s, const node *n) {
    if (!node_is(n, "Col2Im")) return false;
    const type *of = &n->in[0]->type;
    int axes, sizes;
    dim **image = infer_contents(n, 1, &axes), **block = infer_contents(n, 2, &sizes);
    if (!image || !block || axes != sizes || axes > IMAGE_MOST || of->rank != 3) return false;
    int axis = block_axis(n, image, block, axes);
    if (axis < 0 || attribute(n, "dilations", axis, 1) != 1 || of->elem == DT_BOOL) return false;
    if (!dim_has_atom(of->dims[2], s->length) || !dim_is_const(of->dims[1])) return false;
    int64_t outer = 1, inner = 1, length = dim_value(block[axis]), hop = attribute(n, "strides", axis, 1);
    for (int j = 0; j < axis; j++) outer *= dim_value(block[j]);
    for (int j = axis + 1; j < axes; j++) inner *= dim_value(block[j]);
    if (length < 1 || outer < 1 || inner < 1) return false;
    int64_t rows = dim_value(of->dims[1]) / (length * inner);
    int64_t split[] = {0, rows, length, inner, -1}, shape[2 + IMAGE_MOST] = {0, rows / outer};
    const int64_t order[] = {0, 1, 4, 2, 3};
    attr by = {.name = "perm", .kind = ATTR_INTS, .ints = ARENA_ARRAY(s->arena, int64_t, 5), .n = 5};
    memcpy(by.ints, order, sizeof order);
    s->at = (node *)n;
    value *x = make(s, "Reshape", 2, (value *[]){n->in[0], ints(s, split, 5)}, NULL);
    frames f = {.axis = 2, .hop = hop, .parts = (length + hop - 1) / hop};
    f.x = make(s, "Transpose", 1, &x, &by);
    value *y = cut(s, overlap(s, &f), 2, attribute(n, "pads", axis, 0), image[axis]);
    if (!y) return false;
    for (int j = 0; j < axes; j++) shape[2 + j] = j == axis ? -1 : dim_value(block[j]);
    value_replace(n->out[0], make(s, "Reshape", 2, (value *[]){y, ints(s, shape, 2 + axes)}, NULL));
    return true;
}

// ---------------------------------------------------------------- ScatterND
// From the places of the samples of frames: how many samples a frame has, and how far apart frames are. False: they are no frames.
static bool find_frames(const constant *c, int64_t *samples, int64_t *hop) {
    for (int64_t p = 1; 2 * p <= c->count; p++) {
        int64_t by = constant_int(c, p) - constant_int(c, 0);
        bool are = by > 0 && c->count % p == 0;
        for (int64_t i = p; are && i < c->count; i++) are = constant_int(c, i) - constant_int(c, i - p) == by;
        *samples = p, *hop = by;
        if (are) return true;
    }
    return false;
}

// Samples of a frame by their places: 0, 1, 2 ... without gaps. NULL: they have others.
static int64_t *order_of(streaming *s, const constant *c, int64_t samples) {
    int64_t *order = ARENA_ARRAY(s->arena, int64_t, samples);
    bool *seen = ARENA_ARRAY(s->arena, bool, samples);
    for (int64_t i = 0; i < samples; i++) {
        int64_t at = constant_int(c, i);
        if (at < 0 || at >= samples || seen[at]) return NULL;
        order[at] = i, seen[at] = true;
    }
    return order;
}

static bool is_identity(const int64_t *order, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (order[i] != i) return false;
    return true;
}

bool add_scattered(streaming *s, const node *n, const constant *data, const constant *places) {
    if (!node_is(n, "ScatterND") || strcmp(node_string(n, "reduction", "none"), "add") != 0) return false;
    const type *x = &n->in[2]->type, *to = &n->in[0]->type;
    int outer = places ? places->rank - 1 : 0;
    int64_t samples, hop;
    if (!data || !places || !is_zero(data) || outer < 1 || places->dims[outer] != 1 || x->elem == DT_BOOL)
        return false;
    if (x->rank < 1 || to->rank != x->rank - outer + 1 || !constant_sizes(x, outer, x->rank)) return false;
    if (!dim_has_atom(x->dims[0], s->length) || !constant_sizes(x, 1, outer) ||
        !find_frames(places, &samples, &hop))
        return false;
    int64_t *order = order_of(s, places, samples), split[] = {-1, samples};
    if (!order) return false;
    s->at = (node *)n;
    frames f = {.hop = hop, .parts = (samples + hop - 1) / hop, .oldest_first = true};
    f.x = with_axes(s, n->in[2], 0, outer, split, 2);
    f.order = is_identity(order, samples) ? NULL : order;
    value *y = cut(s, overlap(s, &f), 0, 0, to->dims[0]);
    if (!y) return false;
    value_replace(n->out[0], y);
    return true;
}
