// Evaluates pure instructions on one word per lane: integers zero-extended, floats as their bits.
#ifndef ONNXC_IR_LOOPS_LOOPS_EVAL_H
#define ONNXC_IR_LOOPS_LOOPS_EVAL_H
#include "ir/loops/loops.h"

enum { LEVAL_PATTERN = 0xa5 }; // fills undefined values

// Computes x, of a PURE row of ir/loops/loops.def, from the types and words of its operands; fused: L_MULADD
// rounds once. Returns an error, or NULL.
const char *leval(const ins *x, const ltype *types, const uint64_t *const *args, bool fused, uint64_t *out);
// The same on scalar integers; false: x or an operand is not a scalar integer.
bool leval_integer(const ins *x, const int64_t *args, int64_t *out);
uint64_t leval_bin(lop op, lkind k, uint64_t x, uint64_t y); // ADD ... ASHR without division, comparisons
int64_t leval_signed(lkind k, uint64_t v);                   // I1 gives 0 or 1
uint64_t leval_fit(lkind k, uint64_t v);                     // truncated to the width
double leval_float(lkind k, uint64_t v);
float leval_flush(float v);                   // denormals become 0, as in products of bf16
uint64_t leval_float_word(lkind k, double v); // rounded to the kind
#endif
