// Contractions whose operands are in groups of 4 bytes along K (VNNI packing): which ones can use them, and their
// instructions. The schedules are those of all contractions (schedule_contract.c) and of matrix tiles.
//
// B is stored as [..., N/16, K/g, 16, g] with g elements in a group, A in rows along K:
//   bytes, g = 4:  acc[r][v] = dot4(acc[r][v], splat(A[m0 + r][k .. k+4]), B[n0/16][k/4][n0 % 16 ...])
//   bf16, g = 2:   acc[r][v] += splat(A[m0 + r][k]) * B[...] for even and odd k of the pair, in f32
#ifndef ONNXC_PASSES_SCHEDULE_CPU_SCHEDULE_GROUPS_H
#define ONNXC_PASSES_SCHEDULE_CPU_SCHEDULE_GROUPS_H
#include "passes/match/contract.h"
#include "passes/schedule/common/emit.h"

// Elements in a group of these operands; 0: they have no groups.
int group_elements(const contraction *c);
// B's logical axis to be blocked by groups, since A is contiguous along the same reduce axis; -1: none.
int group_axis(const contraction *c);
// The reduce axis of f32 operands that would be blocked by pairs if they were bf16; -1: none.
int pair_axis(const contraction *c);
// Whether B is in panels blocked by groups along K for this contraction; *k is the blocked reduce axis.
bool is_grouped_operand(const contraction *c, int *k);
// Rows of accumulators that fit beside B's vectors.
int grouped_rows(const target *t, const contraction *c, int vectors);

// A group of A from `at`, or its first n elements (the others 0), as i32 in all lanes.
ins *load_group_a(emitter *e, const contraction *c, ins *at, ins *n);
ins *load_group_b(emitter *e, const contraction *c, ins *at); // of B: a group per lane
ins *group_products(emitter *e, const contraction *c, ins *acc, ins *a, ins *b);
#endif
