// Types of sequences and optionals, for operators that hand them on.
#ifndef ONNXC_IR_OPS_CONTROL_SEQUENCE_H
#define ONNXC_IR_OPS_CONTROL_SEQUENCE_H
#include "ir/graph/op.h"

// Makes t, of the kind of `given`, as general as both; true when that changed it. Sizes of items that are not
// constant stand for any size, a rank of RANK_ANY for those of no item at all.
bool sequence_generalise(const node *n, type *t, const type *given);
#endif
