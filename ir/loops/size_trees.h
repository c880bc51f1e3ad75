// Arithmetic on sizes as trees: integer scalars that follow from others, without what the trees share. In: a function of loops. Out:
// facts about its instructions.
#ifndef ONNXC_IR_LOOPS_SIZE_TREES_H
#define ONNXC_IR_LOOPS_SIZE_TREES_H
#include "ir/loops/loops.h"

enum { MOST_TREE_NODES = 24 };

typedef struct size_trees {
    int n;          // instructions
    int *nodes;     // by id: of the tree that the instruction is the root of; 0: it is none, or has too many
    int64_t *least; // by id: the least operand that kernels may differ in; 0: any but 0 and 1
} size_trees;

// least: that of the function. Outside of the innermost loops it does not matter whether LLVM knows a size; in them only for strides,
// which it adds up.
size_trees size_trees_of(arena *a, const lfunc *f, int64_t least);
bool is_innermost_loop(const ins *x, const lblock *body);
// Drops constants, and trees and copies of trees without uses: functions that differ in these only become equal.
void size_trees_drop(arena *scratch, const size_trees *t, lfunc *f);
#endif
