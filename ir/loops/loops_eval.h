// Pure instructions on values in words: one word for each lane, integers zero-extended, floats as their bits.
#ifndef ONNXC_IR_LOOPS_LOOPS_EVAL_H
#define ONNXC_IR_LOOPS_LOOPS_EVAL_H
#include "ir/loops/loops.h"

// clang-format off
#define LEVAL_OPS(X) \
    X(L_CONST) X(L_NULL) X(L_SPLAT) X(L_IOTA) X(L_EXTRACT) X(L_INSERT) X(L_SHUFFLE) X(L_HADD) X(L_HMUL) \
    X(L_HSMIN) X(L_HSMAX) X(L_HUMIN) X(L_HUMAX) X(L_HOR) X(L_HAND) X(L_ADD) X(L_SUB) X(L_MUL) \
    X(L_MULADD) X(L_FMA) X(L_FDIV) X(L_SDIV) X(L_UDIV) X(L_SREM) X(L_UREM) X(L_SMIN) X(L_SMAX) X(L_UMIN) \
    X(L_UMAX) X(L_FMIN) X(L_FMAX) X(L_AND) X(L_OR) X(L_XOR) X(L_SHL) X(L_LSHR) X(L_ASHR) X(L_FNEG) \
    X(L_FABS) X(L_SQRT) X(L_FLOOR) X(L_CEIL) X(L_TRUNC) X(L_RINT) X(L_EQ) X(L_NE) X(L_SLT) X(L_SLE) \
    X(L_ULT) X(L_ULE) X(L_SELECT) X(L_SEXT) X(L_ZEXT) X(L_ITRUNC) X(L_SITOF) X(L_UITOF) X(L_FTOSI) \
    X(L_FTOUI) X(L_FEXT) X(L_FTRUNC) X(L_BITCAST) X(L_DOT4_US) X(L_DOT4_SS) X(L_DOT2)
// clang-format on

enum { LEVAL_PATTERN = 0xa5 }; // byte of values that the language leaves open

// Computes x from its operands' types and words; fused: L_MULADD rounds once. What is wrong, or NULL.
const char *leval(const ins *x, const ltype *types, const uint64_t *const *args, bool fused, uint64_t *out);
uint64_t leval_bin(lop op, lkind k, uint64_t x, uint64_t y); // ADD ... ASHR without division, comparisons
int64_t leval_signed(lkind k, uint64_t v);                   // I1 gives 0 or 1
uint64_t leval_fit(lkind k, uint64_t v);                     // cut to the kind's width
#endif
