// Dims and index arithmetic as instructions.
#ifndef ONNXC_EMIT_DIM_H
#define ONNXC_EMIT_DIM_H
#include "ir/dim.h"
#include "ir/kernel.h"
#include "ir/loops.h"

// d as a scalar of kind I32 or I64; atom gives the value of each symbol and opaque.
ins *emit_dim_value(lbuild *b, const dim *d, lkind kind, ins *(*atom)(void *user, const dim *atom),
                    void *user);
// op of signed integers of one type as ir/kernel.h defines it (division by 0 gives 0).
ins *emit_int_op(lbuild *b, expr_op op, ins *x, ins *y);
// The largest multiple of by that is <= x, for x >= 0.
ins *emit_int_floor(lbuild *b, ins *x, int64_t by);
#endif
