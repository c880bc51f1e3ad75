// Products of vector registers as small matrices (AArch64's FEAT_I8MM and FEAT_BF16), and dot products of pairs of
// bf16. In: operands of one instruction. Out: checks, and what the instruction computes.
//
// A block is four lanes: two rows of two sums. It adds the products of two rows of b, of two words (8 bytes or 4
// bf16) each, and two rows of c; acc[2 i + j] += sum over k of b[i][k] * c[j][k].
#ifndef ONNXC_IR_LOOPS_LOOPS_BLOCKS_H
#define ONNXC_IR_LOOPS_LOOPS_BLOCKS_H
#include "ir/loops/loops.h"

enum { BLOCK_LANES = 4, BLOCK_WORDS = 2 };

const char *block_ins_error(const ins *x, const struct target *t); // NULL: none
// A lane of the result, from the words of the operands.
uint64_t block_lane(lop op, const uint64_t *const *operands, int lane);
#endif
