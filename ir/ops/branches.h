// Nodes whose result has a rank that only the run knows.
#ifndef ONNXC_IR_OPS_BRANCHES_H
#define ONNXC_IR_OPS_BRANCHES_H
#include "ir/graph/op.h"

// The greatest rank that becomes a branch where only the run knows it.
enum { BRANCHES_MOST = 8 };
// An attribute of Reshape, of onnxc's own: what a run says if the new shape has another number of elements.
#define RESHAPE_WRONG_COUNT "wrong_count"
// For .canonicalise: if input i is a list whose length is known only at run time, and the output has no declared
// rank, replaces n by branches, one for each length first..last. False: nothing changed.
bool branch_on_length(node *n, int i, int first, int last);
// Replaces an input of the model without a rank by branches for each rank up to `most`.
void branch_on_rank(value *input, int most);
// For .canonicalise: if output 0 is an item of no known rank that nodes compute with, lets them read branches for
// each of its ranks. False: nothing changed.
bool branch_on_item_rank(node *n);
// The same for any value, with the branches before `before`.
bool branch_on_value_rank(value *v, const loc *at, node *before);
// Declares an output of If to be as large as in the branch where it grows from the input of the model, which the run checks in the
// other branch.
void grow_in_branches(value *out, const value *in);
// Lets a Loop carry value i as the only item of a sequence, whose rank may change.
void carry_any_rank(node *loop, graph *body, int i);
// The declared rank of output 0, RANK_UNKNOWN if it has none.
int declared_rank(const node *n);
#endif
