// Dims and index arithmetic as instructions.
#ifndef ONNXC_PASSES_SCHEDULE_COMMON_EMIT_DIM_H
#define ONNXC_PASSES_SCHEDULE_COMMON_EMIT_DIM_H
#include "ir/graph/dim.h"
#include "ir/kernel/kernel.h"
#include "ir/loops/loops.h"

// Where the values of dims come from. Dims share their parts: what is neither known nor kept is computed as
// often as it is met.
typedef struct dim_source {
    lbuild *b;
    lkind kind;                              // of the values: I32 or I64
    ins *(*known)(void *user, const dim *d); // of symbols and opaques always, of others NULL: to be computed
    void (*keep)(void *user, const dim *d, ins *v); // what was computed; may be NULL
    void *user;
} dim_source;
ins *emit_dim_value(const dim_source *s, const dim *d);
// A scalar operation of kernels on values of compute type t; y is NULL if it has one operand.
ins *emit_operation(lbuild *b, expr_op op, dtype t, ins *x, ins *y);
// op of signed integers of one type as ir/kernel/kernel.h defines it (division by 0 gives 0).
ins *emit_int_op(lbuild *b, expr_op op, ins *x, ins *y);
// The largest multiple of by that is <= x, for x >= 0.
ins *emit_int_floor(lbuild *b, ins *x, int64_t by);
// Whether they are one value, or the same constant.
static inline bool same_index(const ins *x, const ins *y) {
    return x == y || (x->op == L_CONST && y->op == L_CONST && x->i == y->i);
}
// The extent of axes[depth]: 0 where an axis around it, one of axes[0..depth), has none.
dim *extent_within(dim *const *extents, const int *axes, int depth);
#endif
