// What several operators' upgrades share: rewriting attributes of old versions into inputs.
#ifndef ONNXC_IR_OPS_UPGRADE_H
#define ONNXC_IR_OPS_UPGRADE_H
#include "ir/graph/op.h"

// Input i becomes v; inputs before it that do not exist are left out.
void upgrade_set_input(node *n, int i, value *v);
// The ints attribute becomes int64 input i, when it is there.
void upgrade_ints_to_input(node *n, const char *attribute, int i);
void upgrade_set_int(node *n, const char *attribute, int64_t i);
// The float as a scalar of the type of value `like`.
value *upgrade_scalar_like(node *n, double v, value *like);
// Shape of v as int64[rank].
value *upgrade_shape(node *n, value *v);
// v reshaped to `shape` (an int64 tensor; its zeros mean 0).
value *upgrade_reshape(node *n, value *v, value *shape);
// All users of output i see it reshaped to `shape`.
void upgrade_reshape_output(node *n, int i, value *shape);
// Input i gets ones appended to its shape such that its first dim meets dim `axis` of input 0.
void upgrade_align_input(node *n, int i, int64_t axis);

// Nodes before n, with their output returned.
value *insert_binary(node *n, const char *op, value *a, value *b);
value *insert_cast(node *n, value *v, dtype to);
value *insert_concat(node *n, int count, value *const *parts); // of lists
value *insert_ones(node *n, value *shape, dtype t);
void upgrade_set_string(node *n, const char *attribute, const char *s);

// Steps.
void upgrade_drop_consumed_inputs(node *n); // version 1's optimisation hint
void upgrade_old_broadcast(node *n);        // attributes broadcast and axis, before version 7
// Functions of real numbers that took integers once: computed in double, and truncated, where the model says
// that input 0 is an integer tensor.
void upgrade_real_function(node *n);

#define UPGRADE_FROM_1    .upgrades = {{6, upgrade_drop_consumed_inputs}}
#define UPGRADE_BROADCAST .upgrades = {{7, upgrade_old_broadcast}}
#endif
