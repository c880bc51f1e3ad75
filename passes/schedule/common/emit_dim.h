// Dims and index arithmetic as instructions.
#ifndef ONNXC_PASSES_SCHEDULE_COMMON_EMIT_DIM_H
#define ONNXC_PASSES_SCHEDULE_COMMON_EMIT_DIM_H
#include "ir/graph/dim.h"
#include "ir/kernel/kernel.h"
#include "ir/loops/loops.h"

// The source of the values of dims. Dims share subexpressions: those neither known nor kept are computed at
// every occurrence.
typedef struct dim_source {
    lbuild *b;
    lkind kind; // of the values: I32 or I64
    ins *(*known)(void *user,
                  const dim *d); // always for symbols and opaque dims; NULL for others: to be computed
    void (*keep)(void *user, const dim *d, ins *v); // caches a computed value; may be NULL
    // NULL, or emits sums and products (X_ADD, X_MUL) with checks; `known` then sees constants, too.
    ins *(*checked)(void *user, expr_op op, ins *x, ins *y);
    void *user;
    ins *(*multiple)(void *user, const dim *d, int64_t *by); // NULL, or a known value of *by times d, or NULL
} dim_source;
ins *emit_dim_value(const dim_source *s, const dim *d);
bool idx_power_of_two(const ins *x); // a constant
// A scalar operation of kernels on values of compute type t; y is NULL if it has one operand.
ins *emit_operation(lbuild *b, expr_op op, dtype t, ins *x, ins *y);
// op on signed integers of one type as ir/kernel/kernel.h defines it (division by 0 gives 0).
ins *emit_int_op(lbuild *b, expr_op op, ins *x, ins *y);
static inline ins *emit_zero(lbuild *b, ltype t) {
    return lkind_is_float((lkind)t.kind) ? lb_float(b, t, 0) : lb_int(b, t, 0);
}
// Arithmetic on values, and on an index and a constant.
static inline ins *lb_add(lbuild *b, ins *x, ins *y) { return lb_bin(b, L_ADD, x, y); }
static inline ins *lb_sub(lbuild *b, ins *x, ins *y) { return lb_bin(b, L_SUB, x, y); }
static inline ins *lb_mul(lbuild *b, ins *x, ins *y) { return lb_bin(b, L_MUL, x, y); }
static inline ins *idx_addk(lbuild *b, ins *x, int64_t k) { return lb_bin(b, L_ADD, x, lb_idx(b, k)); }
static inline ins *idx_subk(lbuild *b, ins *x, int64_t k) { return lb_bin(b, L_SUB, x, lb_idx(b, k)); }
static inline ins *idx_mulk(lbuild *b, ins *x, int64_t k) { return lb_bin(b, L_MUL, x, lb_idx(b, k)); }
// x * y + z, in one instruction for floats.
static inline ins *emit_muladd(lbuild *b, ins *x, ins *y, ins *z) {
    return lkind_is_float((lkind)z->type.kind) ? lb_muladd(b, x, y, z) : lb_add(b, lb_mul(b, x, y), z);
}
// The largest multiple of by that is <= x, for x >= 0.
ins *emit_int_floor(lbuild *b, ins *x, int64_t by);
// Whether they are one value, or the same constant.
static inline bool same_index(const ins *x, const ins *y) {
    return x == y || (x->op == L_CONST && y->op == L_CONST && x->i == y->i);
}
// The extent of axes[depth]; 0 if an axis around it, one of axes[0..depth), is empty.
dim *extent_within(dim *const *extents, const int *axes, int depth);
#endif
