// Elementary functions as plain instructions: no calls, no tables in memory, any number of lanes, f32 and
// f64, with and without fused multiply-add. ir/loops/math.c has the table of error bounds.
#ifndef ONNXC_IR_LOOPS_MATH_H
#define ONNXC_IR_LOOPS_MATH_H
#include "ir/kernel/kernel.h"
#include "ir/loops/loops.h"

// X_EXP ... X_SIGMOID, and X_SQRT.
ins *math_unary(lbuild *b, expr_op op, ins *x);
// e^x of f32 for x <= 0, but 0 where that is denormal, since an instruction that computes or reads denormal numbers takes
// hundreds of cycles; NaN stays. Weights of attention.
ins *math_weight(lbuild *b, ins *x);
// X_POW, X_ATAN2, X_FMOD.
ins *math_binary(lbuild *b, expr_op op, ins *x, ins *y);
// Largest error in units in the last place over all arguments, as documented and tested.
double math_ulp_bound(expr_op op, lkind kind);
#endif
