// Contractions whose operands are in groups along K (VNNI packing): which ones can use them, and their instructions.
// The schedules are those of all contractions (schedule_contract.c, contract_groups.c) and of matrix tiles.
//
// B is stored as [..., N/16, K/g, 16, g] with g elements in a group, A in rows along K. Groups of one word:
//   bytes, g = 4:  acc[r][v] = dot4(acc[r][v], splat(A[m0 + r][k .. k+4]), B[n0/16][k/4][n0 % 16 ...])
//   16 bits, g = 2: the same by dot2 without vectors, where A's are signed; B's bytes are [..., N/16, K/2, 8, 2, 2]; a word has
//                  bytes of two columns: 0 and 2 of the first one, 1 and 3 of the second
//   bf16, g = 2:   the same by dot2, or acc[r][v] += splat(A[m0 + r][k]) * B[...] for even and odd k of the pair, in f32, as which CPUs
//                  without a unit for bf16 store A (--precision)
// Groups of two words, g = 8 or 4, are rows of blocks (ir/loops/loops_blocks.h):
//   acc[2 rows][2 columns] = block(acc, A[m0 + r, m0 + r + 1][k .. k+g], B[n0/16][k/g][two columns])
// CPUs without such instructions split the groups into words.
#ifndef ONNXC_PASSES_SCHEDULE_CPU_SCHEDULE_GROUPS_H
#define ONNXC_PASSES_SCHEDULE_CPU_SCHEDULE_GROUPS_H
#include "passes/match/contract.h"
#include "passes/schedule/common/emit.h"

// What multiplies groups: vectors by a word of A in all lanes, by a word of A in a lane, or blocks of two rows.
typedef enum group_unit { UNIT_WORDS, UNIT_LANES, UNIT_BLOCKS } group_unit;

// Elements of a word of these operands; 0: they have no groups.
int group_elements(const contraction *c);
// B's logical axis to be blocked by groups, since A is contiguous along the same reduce axis; -1: none.
int group_axis(const target *t, const contraction *c);
// Whether both operands are bytes, whose products the target adds without groups.
bool widens_bytes(const target *t, const contraction *c);
// Products of integers of 16 bits and of 8 or 16, on bare machines.
bool multiplies_halves(const target *t, const contraction *c);
// Products of words of 32 bits whose sums have 64, in fixed point (passes/rewrite/fixed_rows.c), on cores without floating point.
bool multiplies_words(const target *t, const contraction *c);
// Whether B is in such groups of integers that A's of 16 bits are multiplied with, and whether words have two columns.
bool are_halves(const contraction *c);
bool interleaves_columns(const contraction *c);
// Elements of the groups in which B is packed along that axis.
int packed_elements(const target *t, const contraction *c);
// The reduce axis of f32 operands that would be blocked by pairs if they were bf16; -1: none.
int pair_axis(const contraction *c);
// The elements of the groups of B's panels for this contraction, 0: there are none; *k is the blocked reduce axis.
int grouped_operand(const contraction *c, int *k);
// The reduce axis along which the rows of bytes are multiplied in vectors (contract_across.c); -1: none.
int across_axis(const target *t, const contraction *c);
// Where such rows would be too short: the axis whose positions are lanes instead, which counts the columns of a group, or the
// groups; -1: they are not.
int short_rows_axis(const target *t, const contraction *c);
// The same, or that of the positions in rows of an image with one result for each, where sums do not run along neighbours.
int lanes_axis(const target *t, const contraction *c);
// Emits the contraction so (contract_across.c); false, and nothing emitted: it has no such axis.
bool schedule_across(emitter *e, const contraction *c);
group_unit unit_of(const target *t, const contraction *c, int packed);
// Rows of accumulators that fit beside B's vectors.
int grouped_rows(const target *t, const contraction *c, int packed, int vectors);

// A word of A from `at`, or its first n elements (the others 0); n may be out of range.
ins *load_word_a(emitter *e, const contraction *c, ins *at, ins *n);
// The same, where the others may be anything that is in memory.
ins *load_part_a(emitter *e, const contraction *c, ins *at, int n);
// The low or high bf16 of each lane as f32.
ins *half_of_pairs(lbuild *b, ins *x, bool high);
// Whether the unit has no product for these signs, but for A with the other one: the top bit of A's bytes is flipped.
bool flips_a(const target *t, const contraction *c, int packed);
// Whether products of signed bytes are added in pairs of 16 bits, which holds any two neighbours' since no two of B are
// both -128.
bool adds_halves(const target *t, const contraction *c);
// Not for pairs as words without t->bf16_pairs: their elements are multiplied one by one.
typedef struct group_form {
    group_unit unit;
    bool flipped, halves; // flips_a, adds_halves
} group_form;
ins *group_products(emitter *e, const contraction *c, group_form form, ins *acc, ins *a, ins *b);
bool blocks_are_transposed(const contraction *c); // the sums of a block lie column by column
#endif
