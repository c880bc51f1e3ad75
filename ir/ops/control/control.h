// Helpers for lowering If, Loop and Scan: values handed out of a region, and loops of the host code.
#ifndef ONNXC_IR_OPS_CONTROL_CONTROL_H
#define ONNXC_IR_OPS_CONTROL_CONTROL_H
#include "ir/kernel/lower.h"

// Attribute of an If that stands for Squeeze without axes.
#define SQUEEZES_AXES "squeezes_axes"

// Reports a value that is not a tensor of one element of type t; `what` names it.
void infer_single(const node *n, const value *v, dtype t, const char *what);
void set_dim(lowering *l, const node *n, dim *target, dim *value);
void check_dims(lowering *l, const node *n, dim *a, dim *b, const char *message); // checked at run time
// A heap buffer that is not allocated yet.
buffer *heap_buffer(lowering *l, const node *n, const char *suffix, dtype t, int rank, dim *const *dims);
void step_buffer(lowering *l, const node *n, step_kind kind, buffer *b);                 // ALLOC, FREE
void step_between(lowering *l, const node *n, step_kind kind, buffer *to, buffer *from); // COPY, MOVE
// Opens a loop of the host code: steps go to its body, executed for counter < count (NULL: unbounded) while
// *condition (NULL: always), until close_loop gets the enclosing region.
region *open_loop(lowering *l, const node *n, dim *counter, dim *count, buffer *condition);
void close_loop(lowering *l, region *outside);
// Copies one element; the ranks may differ.
void copy_scalar(lowering *l, const node *n, buffer *to, buffer *from);

// Values that leave region g. Each `to` is unallocated heap memory, or existing memory. All copies come
// before the moves, so that no copy reads memory that has been moved.
typedef struct handover {
    buffer *to, *from;
    bool moved; // from's memory becomes to's
} handover;
bool may_move(const graph *g, const handover *all, int i);
void hand_over(lowering *l, const node *n, handover *all, int count, bool moves);

// whole[.., at, ..] = part[..] (store), or the reverse.
void slice_kernel(lowering *l, const node *n, const char *suffix, buffer *whole, buffer *part, int axis,
                  dim *at, bool store);
#endif
