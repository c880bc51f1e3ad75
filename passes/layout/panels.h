// Layouts of the N operand of products.
#ifndef ONNXC_PASSES_LAYOUT_PANELS_H
#define ONNXC_PASSES_LAYOUT_PANELS_H
#include "ir/target.h"
#include "passes/match/contract.h"

// [batch ..., N, K in A's order ...].
layout *column_layout(arena *a, const contraction *c, int n_axis);
// The same for products of vectors along K; constant columns shorter than a few vectors are followed by as many bytes as one has.
layout *vector_rows_layout(arena *a, const target *t, const contraction *c, int n_axis);
// [batch ..., N / 16, K in A's order ..., 16], with the last of K in groups [..., K / g, 16, g] where group >= 0, or
// [..., K / g, 8, g, 2] where these alternate with columns.
layout *panel_layout(arena *a, const target *t, const contraction *c, int n_axis, int group);
// [batch ..., K in A's order ..., N]: without vectors, columns that a tile reads at a time are adjacent without padding.
layout *row_layout(arena *a, const contraction *c, int n_axis);
// Of scales and zero points of B's blocks, in the order of its panels: [batch ..., N / 16, blocks ..., 16].
layout *side_layout(arena *a, const target *t, const contraction *c, const expr *read, int n_axis);
#endif
