// Nodes as older versions of their operators express them, for files that import an older opset.
#ifndef ONNXC_IR_OPS_DOWNGRADE_H
#define ONNXC_IR_OPS_DOWNGRADE_H
#include "ir/graph/op.h"

// Sets *as to a node with the meaning of n in that opset. It is no part of the graph, and its inputs do not
// count as uses. False: no node of that opset has the meaning, for the reason *why.
bool node_downgrade(const node *n, int opset, node *as, const char **why);
// The newest opset with the operator; INT_MAX: the operator is not deprecated.
int newest_opset_with(const op_def *op);
// The newest version of the operator that is not deprecated: the meaning of nodes in memory. NULL: the
// operator is outside the standard.
const schema_version *newest_version(const op_def *op);

// ---- For the undo functions of op_upgrade, on the node *as: false if older versions cannot express it.
// The data of an input, even if a Constant node computes it; NULL: not known, or the input is omitted.
const constant *downgrade_constant(const node *as, int i);
void downgrade_set_input(node *as, int i, value *v); // NULL: omitted
// Constant input i becomes an attribute: a list of ints, or a number.
bool downgrade_input_to_ints(node *as, int i, const char *attribute);
bool downgrade_input_to_float(node *as, int i, const char *attribute);
bool downgrade_has_rank(const node *as, int i); // the rank of input i is known

// Undo steps.
bool undo_nothing(node *as);   // what newer versions changed does not concern nodes that older ones allow
bool undo_axes(node *as);      // input 1 becomes attribute axes, as of operators that reduce
bool undo_broadcast(node *as); // all inputs have the same shape
#endif
