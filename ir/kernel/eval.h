// Scalar meaning of the kernel operations, over strips of cells. Floats are held as double and rounded to
// their compute type after each operation; integers and bools as int64 (uint64 by two's complement).
#ifndef ONNXC_IR_KERNEL_EVAL_H
#define ONNXC_IR_KERNEL_EVAL_H
#include "ir/kernel/kernel.h"

typedef union cell {
    double f;
    int64_t i;
} cell;

// An operand: its value for position j is at[j * stride]. NULL: the operation has no such operand.
typedef struct cells {
    const cell *at;
    int stride; // 0: uniform; 1
} cells;

// out[j] = e's operation on its operands at position j, for j < n. e is an operation with operands (not a leaf,
// not X_CHECK).
void eval_op(const expr *e, int64_t n, const cells in[3], cell *out);
cell eval_scalar(const expr *e, const cell operands[3]);
// Values of expressions of a single integer, for `count` consecutive values of it.
typedef struct eval_span {
    arena *scratch;
    const expr *source; // that integer
    int64_t first, count;
    cell **done; // by id, NULL: not yet
} eval_span;
// e has no leaves but the source and constants.
const cell *eval_over(eval_span *s, const expr *e);
// One value converted as x_cast says.
cell eval_cast(cell v, dtype from, dtype to, bool saturate);
// Element i of storage as a compute-type cell, and back (the cell has dtype_compute(t)).
cell eval_load(dtype t, const void *data, int64_t i);
void eval_store(dtype t, void *data, int64_t i, cell v);
#endif
