// Clones of expressions and stages with substitution, into another kernel or into the same one, rebuilt.
#ifndef ONNXC_IR_KERNEL_CLONE_H
#define ONNXC_IR_KERNEL_CLONE_H
#include "ir/kernel/kernel.h"

typedef struct cloning cloning;
struct cloning {
    kernel *to;
    const kernel *from;
    expr **axis;    // by axis of from: its replacement
    int *number;    // by axis of from: its axis in `to`, where stages are copied
    buffer **local; // by local of from
    expr *guard;    // NULL, or: nothing is read or checked where this is false
    expr *(*read)(cloning *g, const expr *e, expr **index, expr *guard,
                  expr *fill);                // NULL result: the read is copied
    expr *(*node)(cloning *g, const expr *e); // likewise for other nodes, whose operands are cloned already
    void *user;
    expr **done; // by id in from
    uint8_t *want;
};
cloning *clone_new(arena *scratch, kernel *to, const kernel *from);
expr *clone_expr(cloning *g, expr *e);
stage *clone_stage(cloning *g, const stage *s); // axes and states
write *clone_write(cloning *g, stage *s, const write *w);
kernel *kernel_copy(const kernel *k); // a kernel of the same program that computes the same
// Clears k's stages and expressions to rebuild them from the returned copy of k.
kernel *kernel_begin(kernel *k);
cloning *clone_same(arena *scratch, kernel *k,
                    const kernel *old); // axes and locals are kept
#endif
