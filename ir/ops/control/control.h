// What If, Loop and Scan share when they are lowered: values handed out of a region.
#ifndef ONNXC_IR_OPS_CONTROL_CONTROL_H
#define ONNXC_IR_OPS_CONTROL_CONTROL_H
#include "ir/kernel/lower.h"

void set_dim(lowering *l, const node *n, dim *target, dim *value);
void check_dims(lowering *l, const node *n, dim *a, dim *b, const char *message); // equal at run time
// A heap buffer that nothing has allocated yet.
buffer *heap_buffer(lowering *l, const node *n, const char *suffix, dtype t, int rank, dim *const *dims);
void step_buffer(lowering *l, const node *n, step_kind kind, buffer *b);                 // ALLOC, FREE
void step_between(lowering *l, const node *n, step_kind kind, buffer *to, buffer *from); // COPY, MOVE
// Steps go to the body of a new loop, for counter < count (NULL: unbounded) while *condition (NULL: always), until
// close_loop gets the region in which the loop stands.
region *open_loop(lowering *l, const node *n, dim *counter, dim *count, buffer *condition);
void close_loop(lowering *l, region *outside);
// to = from, one element each: ranks may differ.
void copy_scalar(lowering *l, const node *n, buffer *to, buffer *from);

// Values of region g that leave it. Each `to` is heap memory not allocated yet, or memory that is there.
// First all copies, then the moves, so that none reads what another took.
typedef struct handover {
    buffer *to, *from;
    bool moved; // from's memory can become to's
} handover;
bool may_move(const graph *g, const handover *all, int i);
void hand_over(lowering *l, const node *n, handover *all, int count, bool moves);

void map_value(lowering *l, value *v, buffer *b); // b holds v
// whole[.., at, ..] = part[..] (store), or the other way round.
void slice_kernel(lowering *l, const node *n, const char *suffix, buffer *whole, buffer *part, int axis,
                  dim *at, bool store);
#endif
