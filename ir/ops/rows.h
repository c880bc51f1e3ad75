// Rows: kernels that traverse a tensor along some of its axes for every position on the others, in one or
// more stages (reductions, softmax, normalizations, cumulative sums).
//
//   for i in kept axes (outer, parallel):
//     stage: for r in walked axes (parallel, reduce or scan): ... x[i, r] ...
//
// If the axes are known only at run time, every dim gets both an outer and a walked axis, and one of the two
// has extent 1.
#ifndef ONNXC_IR_OPS_ROWS_H
#define ONNXC_IR_OPS_ROWS_H
#include "ir/ops/runtime_args.h"

typedef struct rows {
    kernel *k;
    int rank;
    dim *walk[MAX_RANK];  // extent of the walked axis of each dim, NULL: not walked
    expr *kept[MAX_RANK]; // position on the outer axis; 0 for a dim that is only walked
} rows;

// mask[i] is 1 if dim i is walked, 0 if not, and another dim if that is known only at run time.
rows rows_new(kernel *k, int rank, dim *const *dims, dim *const *mask);
// The mask of the dims first..last-1.
void rows_mask(dims *t, int rank, int first, int last, dim **mask);
// The mask of axes given as dims (negative ones count from the end).
void rows_mask_axes(dims *t, int rank, dim *const *axes, int count, dim **mask);
bool rows_mask_known(int rank, dim *const *mask);
// Checks at run time that the axes are in [-rank, rank).
void rows_check_axes(lowering *l, const node *n, int rank, dim *const *axes, int count);
// A new stage over the walked axes; index[rank] becomes the position in the tensor.
stage *rows_stage(rows *r, axis_kind kind, expr **index);
// Writes value once per row to a local scalar; returns the expression that reads it in later stages.
expr *rows_scalar(rows *r, stage *s, const char *name, expr *value);
// The number of elements in a row, in compute type t.
expr *rows_count(rows *r, dtype t);
// Whether (a, ia) is preferred to (b, ib): the largest or smallest, of equal ones the first or last; NaN to all numbers.
expr *rows_before(kernel *k, expr *a, expr *ia, expr *b, expr *ib, bool largest, bool last);
// Adds a reduction to stage s that finds the position of the largest (or smallest) x of a row, the first or
// the last of equal ones. NaN is both largest and smallest. Empty rows give 0.
expr *rows_arg(rows *r, stage *s, expr *x, expr *position, dim *extent, bool largest, bool last);
#endif
