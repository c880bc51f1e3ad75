// Integer contractions of bytes: which ones go four at a time, and the instructions for four. The schedule
// itself is that of all contractions (schedule_contract.c).
//
//   B lies as [..., N/16, K/4, 16, 4]; A in rows along K:
//   for k in steps of 4:  acc[r][v] = dot4(acc[r][v], splat(A[m0 + r][k .. k+4]), B[n0/16][k/4][n0 % 16 ...])
#ifndef ONNXC_PASSES_SCHEDULE_CPU_SCHEDULE_INT8_H
#define ONNXC_PASSES_SCHEDULE_CPU_SCHEDULE_INT8_H
#include "passes/match/contract.h"
#include "passes/schedule/common/emit.h"

enum { QUAD = 4 };

// B's logical axis whose elements go in fours, as A has the same reduce axis in fours next to each other; -1:
// none.
int quad_axis(const contraction *c);
// Whether B lies in panels of quads for this contraction; *k is the reduce axis that goes in fours.
bool is_quad_operand(const contraction *c, int *k);
// Accumulators to be had beside B's vectors.
int quad_rows(const target *t, const contraction *c, int vectors);

// Four elements of A from `at`, or the first n of them (the others 0), in all lanes.
ins *load_quad(emitter *e, const contraction *c, ins *at, ins *n);
ins *load_quads(emitter *e, const contraction *c, ins *at); // of B: four for each lane
ins *dot_quads(emitter *e, const contraction *c, ins *acc, ins *a, ins *b);
#endif
