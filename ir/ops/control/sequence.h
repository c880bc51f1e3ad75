// Types of sequences and optionals, for operators that pass them on.
#ifndef ONNXC_IR_OPS_CONTROL_SEQUENCE_H
#define ONNXC_IR_OPS_CONTROL_SEQUENCE_H
#include "ir/graph/op.h"

// Generalises t, of the same kind as `given`, to include both; true if it changed. Item sizes that are not
// constant stand for any size; a rank of RANK_ANY means that there are no items yet.
bool sequence_generalise(const node *n, type *t, const type *given);
#endif
