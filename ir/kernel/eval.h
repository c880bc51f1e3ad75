// Scalar meaning of the kernel operations, over strips of cells. Floats are held as double and rounded to
// their compute type after each operation; integers and bools as int64 (uint64 by two's complement).
#ifndef ONNXC_IR_KERNEL_EVAL_H
#define ONNXC_IR_KERNEL_EVAL_H
#include "ir/kernel/kernel.h"

typedef union cell {
    double f;
    int64_t i;
} cell;

// out[j] = e's operation on a[j * sa], b[j * sb], c[j * sc] for j < n; strides are 0 (uniform) or 1.
// e is an operation with operands (not a leaf, not X_CHECK).
void eval_op(const expr *e, int64_t n, const cell *a, int sa, const cell *b, int sb, const cell *c, int sc,
             cell *out);
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
