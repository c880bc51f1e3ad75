// Rings: states that keep the last samples of a signal (passes/stream/past.c). A ring of `size` samples has each sample twice,
// `size` apart, so that any `size` samples in a row are next to each other, wherever they begin. Two operators of onnxc's own,
// over an axis of time:
//
//   RingPut(ring, x, at)[i] = x[(i - at) mod size] if that is one of its samples, else ring[i]
//   RingWindow(ring, at)[i] = ring[at + i], `length` samples
//
// In a state, RingPut writes the samples of x alone (passes/memory/states.c).
#include "ir/ops/pointwise.h"
#include "ir/ops/runtime_args.h"
#include <string.h>

static int ring_axis(const node *n) { return (int)node_int(n, "axis", 0); }

static dim *ring_size(const node *n) {
    int64_t twice = dim_value(infer_in(n, 0)->dims[ring_axis(n)]);
    return infer_k(n, twice / 2);
}

static void ring_put_lower(lowering *l, node *n) {
    int axis = ring_axis(n);
    buffer *ring = lower_in(l, n, 0), *x = lower_in(l, n, 1), *at = lower_in(l, n, 2);
    kernel *k;
    expr *index[MAX_RANK], *from[MAX_RANK];
    stage *s = pointwise_stage(l, n, lower_out(l, n, 0), &k, index);
    memcpy(from, index, sizeof from);
    expr *first = x_read(k, at, (expr *[]){x_i64(k, 0)});
    from[axis] = x_bin(k, X_MOD, x_sub(k, index[axis], first), x_dim(k, ring_size(n)));
    expr *is_new = x_lt(k, from[axis], x_dim(k, x->dims[axis]));
    expr *kept = x_read(k, ring, index);
    stage_write(k, s, lower_out(l, n, 0), index, x_read_guarded(k, x, from, is_new, kept));
}

static void ring_window_infer(node *n) {
    const type *t = infer_in(n, 0);
    dim *dims[MAX_RANK];
    memcpy(dims, t->dims, (size_t)t->rank * sizeof *dims);
    dims[ring_axis(n)] = infer_k(n, node_int(n, "length", 0));
    infer_set(n, 0, t->elem, t->rank, dims);
}

static void ring_window_lower(lowering *l, node *n) {
    int axis = ring_axis(n);
    dim *at = dim_opaque(l->program->dims, "at", 0, ring_size(n)->max - 1);
    lower_set_dim(l, n, at, lower_in(l, n, 1), 0);
    kernel *k;
    expr *index[MAX_RANK];
    buffer *out = lower_out(l, n, 0);
    stage *s = pointwise_stage(l, n, out, &k, index);
    expr *from[MAX_RANK];
    memcpy(from, index, sizeof from);
    from[axis] = x_add(k, index[axis], x_dim(k, at));
    stage_write(k, s, out, index, x_read(k, lower_in(l, n, 0), from));
}

OPERATOR_OF("onnxc", RingPut, .infer = infer_like_first, .lower = ring_put_lower);
OPERATOR_OF("onnxc", RingWindow, .infer = ring_window_infer, .lower = ring_window_lower);
