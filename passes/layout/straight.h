// Operands that move by other positions than axes, as buffers with a dim for each axis.
#ifndef ONNXC_PASSES_LAYOUT_STRAIGHT_H
#define ONNXC_PASSES_LAYOUT_STRAIGHT_H
#include "ir/target.h"
#include "passes/match/contract.h"

typedef struct straight_operand {
    const expr *read; // how the kernel reads the operand otherwise; NULL: it has none
    buffer *by_axes;  // dim i is axis axes[i] of the kernel
    int axes[MAX_RANK];
} straight_operand;

// Makes the kernel read B, if it is bytes that are not a constant and are not multiplied in groups as they are, as such a buffer, which
// nothing writes yet; if nothing will, restore_operand follows.
void straighten_operand(program *p, const target *t, contraction *c, straight_operand *of);
void restore_operand(const straight_operand *of, kernel *k); // or in a copy of the kernel
// What kernel k writes to the buffer at this index.
expr *read_straight(kernel *k, const straight_operand *of, expr *const *index, expr *guard);
#endif
