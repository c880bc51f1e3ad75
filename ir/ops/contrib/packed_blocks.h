// Weights in the block formats of GGML (runtime-lite/lib/lib_block_format.h).
#ifndef ONNXC_IR_OPS_CONTRIB_PACKED_BLOCKS_H
#define ONNXC_IR_OPS_CONTRIB_PACKED_BLOCKS_H
#include "ir/ops/decompose.h"

// ... x rows x columns, as floats: w[..., k] - least[..., k / group].
typedef struct packed_weights {
    value *w;
    value *least; // NULL: there are none
    int group;
} packed_weights;

// Input i, whose bytes are of the format that attribute `kind` numbers. columns: of the weights; 0: as many as there are.
packed_weights packed_weights_at(node *n, int i, const char *kind, int64_t columns);
// The sums of x's groups, by which `least` is multiplied.
value *sums_of_groups(node *n, value *x, int rank, int group);
#endif
