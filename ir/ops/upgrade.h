// Helpers for upgrades, which mostly turn attributes of old versions into inputs.
#ifndef ONNXC_IR_OPS_UPGRADE_H
#define ONNXC_IR_OPS_UPGRADE_H
#include "ir/ops/decompose.h"
#include "ir/ops/downgrade.h"

// Sets input i; missing inputs before it are left out.
void upgrade_set_input(node *n, int i, value *v);
// Turns the ints attribute, if present, into int64 input i.
void upgrade_ints_to_input(node *n, const char *attribute, int i);
void upgrade_set_int(node *n, const char *attribute, int64_t i);
// v as a scalar of the element type of `like`.
value *upgrade_scalar_like(node *n, double v, value *like);
// Shape of v as int64[rank].
value *upgrade_shape(node *n, value *v);
// Output i reshaped to `shape` for all of its users.
void upgrade_reshape_output(node *n, int i, value *shape);
// Appends ones to the shape of input i, so that its first dim is aligned with dim `axis` of input 0.
void upgrade_align_input(node *n, int i, int64_t axis);

// A tensor of ones with that shape.
value *insert_ones(node *n, value *shape, dtype t);
void upgrade_set_string(node *n, const char *attribute, const char *s);

// Upgrade steps.
void upgrade_drop_consumed_inputs(node *n); // version 1's optimisation hint
void upgrade_old_broadcast(node *n);        // attributes broadcast and axis, before version 7
// Functions of real numbers that older versions also allowed for integers: computed in double and truncated
// if the model declares input 0 as an integer tensor.
void upgrade_real_function(node *n);

#define UPGRADE_FROM_1    .upgrades = {{6, upgrade_drop_consumed_inputs}}
#define UPGRADE_VARIADIC  .upgrades = {{6, upgrade_drop_consumed_inputs}, {8, NULL, undo_broadcast}}
#define UPGRADE_BROADCAST .upgrades = {{7, upgrade_old_broadcast}}
#endif
