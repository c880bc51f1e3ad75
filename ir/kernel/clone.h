// Clones of expressions and stages with substitution: in another kernel, or in the same one, made anew.
#ifndef ONNXC_IR_KERNEL_CLONE_H
#define ONNXC_IR_KERNEL_CLONE_H
#include "ir/kernel/kernel.h"

typedef struct cloning cloning;
struct cloning {
    kernel *to;
    const kernel *from;
    expr **axis;    // by axis of from: what stands for it
    int *number;    // by axis of from: the axis of `to` that stands for it, where stages are copied
    buffer **local; // by local of from
    int *message;   // by message of from, -1: not there yet
    expr *guard;    // NULL, or where values are wanted: nothing is read or checked elsewhere
    expr *(*read)(cloning *g, const expr *e, expr **index, expr *guard,
                  expr *fill);                // NULL result: copied as it is
    expr *(*node)(cloning *g, const expr *e); // the same for nodes other than reads; operands are done
    void *user;
    expr **done; // by id in from
    uint8_t *want;
};
cloning *clone_new(arena *scratch, kernel *to, const kernel *from);
expr *clone_expr(cloning *g, expr *e);
stage *clone_stage(cloning *g, const stage *s); // axes and states
write *clone_write(cloning *g, stage *s, const write *w);
// Empties k's stages and expressions to build them anew from the copy that it returns (kept for going back).
kernel *kernel_begin(kernel *k);
cloning *clone_same(arena *scratch, kernel *k,
                    const kernel *old); // axes, locals and messages stay what they are
#endif
