// Frames by indices, as exporters write `unfold`: a Gather along time whose indices depend on positions alone, up * t + offset for
// sample t of its output and each element of a frame.
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
