// Integer contractions of bytes with dot4 instructions (VNNI packing): which ones can use them, and their
// instructions. The schedule is that of all contractions (schedule_contract.c).
//
// B is stored as [..., N/16, K/4, 16, 4], A in rows along K:
//   for k in steps of 4:  acc[r][v] = dot4(acc[r][v], splat(A[m0 + r][k .. k+4]), B[n0/16][k/4][n0 % 16 ...])
#ifndef ONNXC_PASSES_SCHEDULE_CPU_SCHEDULE_INT8_H
#define ONNXC_PASSES_SCHEDULE_CPU_SCHEDULE_INT8_H
#include "passes/match/contract.h"
#include "passes/schedule/common/emit.h"

enum { DOT4 = 4 };

// B's logical axis to be blocked by 4, since A is contiguous along the same reduce axis; -1: none.
int dot4_axis(const contraction *c);
// Whether B is in panels blocked by 4 along K for this contraction; *k is the blocked reduce axis.
bool is_dot4_operand(const contraction *c, int *k);
// Rows of accumulators that fit beside B's vectors.
int dot4_rows(const target *t, const contraction *c, int vectors);

// Four elements of A from `at`, or the first n of them (the others 0), broadcast to all lanes.
ins *load_dot4_a(emitter *e, const contraction *c, ins *at, ins *n);
ins *load_dot4_b(emitter *e, const contraction *c, ins *at); // of B: four elements per lane
ins *dot4_products(emitter *e, const contraction *c, ins *acc, ins *a, ins *b);
#endif
