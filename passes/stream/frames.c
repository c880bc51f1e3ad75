// Frames by indices, as exporters write `unfold`: a Gather along time whose indices depend on positions alone, up * t + offset for
// sample t of its output and each element of a frame. Samples that are repeated by indices, as exporters write the two samples that a
// linear interpolation reads, for sample t the one at min(max(floor((t + shift) / times), first), last), become a Resize between edges.
#include "passes/stream/stream_impl.h"
#include <string.h>

// Negative indices count from the end: they are none.
bool window_of_indices(const constant *c, int axis, window *w) {
    int64_t stride = stride_of(c, axis), length = c->dims[axis];
    if (length < 2 || !c->count) return false;
    *w = (window){
        .used = true, .up = constant_int(c, stride) - constant_int(c, 0), .down = 1, .lo = INT64_MAX};
    for (int64_t e = 0; e < c->count; e++) {
        int64_t t = e / stride % length, first = constant_int(c, e - t * stride);
        if (constant_int(c, e) != first + t * w->up) return false;
        if (first < w->lo) w->lo = first;
        if (first > w->hi) w->hi = first;
    }
    return w->up > 0 && w->lo >= 0;
}

bool plan_frames(streaming *s, plan *p) {
    const node *n = p->node;
    if (strcmp(n->op->name, "Gather") != 0 || *n->op->domain || !n->out[0]) return false;
    const signal *in = signal_of(s, n->in[0]);
    const constant *c = map_get_number(&s->probes, (uint64_t)n->in[1]->id);
    bool several, later = map_get_number(&s->doubtful, (uint64_t)n->in[1]->id);
    if (!in || in->pair || in->still || !c || later) return false;
    int along = time_axis(&n->in[1]->type, s->length, &several);
    if (!is_axis(n, node_int(n, "axis", 0), in->axis) || along == NO_TIME || several) return false;
    p->reach = ARENA_ARRAY(s->arena, reach, 1);
    *p->reach = (reach){.axis = in->axis + along, .inputs = ARENA_ARRAY(s->arena, window, n->nin)};
    if (!window_of_indices(c, along, p->reach->inputs)) return false;
    p->indices = c, p->indices_axis = along;
    plan_windows(s, p);
    return true;
}

int64_t frames_in(const plan *p, int64_t samples) {
    const window *w = p->reach->inputs;
    return samples > w->hi ? (samples - 1 - w->hi) / w->up + 1 : 0;
}

constant *indices_of(streaming *s, const plan *p, int64_t count) {
    const constant *c = p->indices;
    int64_t dims[MAX_RANK], stride = stride_of(c, p->indices_axis), up = p->reach->inputs->up;
    memcpy(dims, c->dims, (size_t)c->rank * sizeof *dims);
    dims[p->indices_axis] = count;
    constant *all = new_constant(s, c->elem, c->rank, dims);
    for (int64_t e = 0; all && e < all->count; e++) {
        int64_t t = e / stride % count, outer = e / stride / count;
        int64_t first = constant_int(c, outer * c->dims[p->indices_axis] * stride + e % stride);
        dtype_store_int(c->elem, (void *)all->data, e, first + t * up);
    }
    return all;
}

// ---------------------------------------------------------------- repeated samples
typedef struct repeats {
    int64_t times, shift, first;
} repeats;

static int64_t repeated_at(const repeats *r, int64_t t, int64_t last) {
    int64_t at = t + r->shift, i = (at >= 0 ? at : at - r->times + 1) / r->times;
    return i < r->first ? r->first : i < last ? i : last;
}

// False: the constant has no such indices of a signal of so many samples.
static bool find_repeats(const constant *c, int64_t samples, repeats *r) {
    if (c->rank != 1 || samples < 2 || c->count % samples || c->count < samples) return false;
    int64_t middle = c->count / 2, at = constant_int(c, middle), from = middle;
    while (from > 0 && constant_int(c, from - 1) == at) from--;
    r->times = c->count / samples, r->first = constant_int(c, 0);
    r->shift = at * r->times - from;
    for (int64_t t = 0; t < c->count; t++)
        if (constant_int(c, t) != repeated_at(r, t, samples - 1)) return false;
    return r->first >= 0 && r->first < at && at < samples - 1;
}

static value *resized(streaming *s, value *v, int axis, int64_t times) {
    int64_t rank = v->type.rank;
    constant *c = constant_new(s->arena, DT_F32, 1, &rank);
    for (int64_t j = 0; j < rank; j++) ((float *)c->data)[j] = j == axis ? (float)times : 1;
    return make(s, "Resize", 3, (value *[]){v, NULL, value_constant(s->graph, NULL, c)}, NULL);
}

bool repeat_samples(streaming *s, node *n, const constant *c, int64_t samples) {
    repeats r;
    value *y = n->in[0];
    int axis = (int)node_int(n, "axis", 0);
    if (axis < 0) axis += y->type.rank;
    if (!c || !find_repeats(c, samples, &r)) return false;
    s->at = n;
    int64_t behind = r.shift - r.times * r.first; // the first sample of the output among the repeated ones
    if (r.first) y = slice_of(s, y, axis, r.first, INT64_MAX);
    if (r.times > 1) y = resized(s, y, axis, r.times);
    y = pad_axis(s, y, axis, behind < 0 ? -behind : 0, r.shift > 0 ? r.shift : 0, "edge");
    if (behind > 0 || r.shift < 0)
        y = slice_of(s, y, axis, behind > 0 ? behind : 0, r.shift < 0 ? r.shift : INT64_MAX);
    value_replace(n->out[0], y);
    return true;
}
