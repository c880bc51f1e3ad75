// Tensors in and out of the handles that stand for sequences and optionals.
#ifndef ONNXC_IR_OPS_VALUE_H
#define ONNXC_IR_OPS_VALUE_H
#include "ir/kernel/lower.h"

// The type of an item that is taken out: sizes that are not constant become unknown ones of n.
type value_item(const node *n, const type *item);
buffer *value_from_tensor(lowering *l, const node *n, value *v, const char *suffix); // its handle
// Checks that the handle is of a tensor of type t, and sets t's unknown sizes.
void value_sizes(lowering *l, const node *n, buffer *handle, const type *t, const char *suffix);
void value_fetch(lowering *l, const node *n, buffer *handle, buffer *out);
void value_to_output(lowering *l, node *n, buffer *handle); // output 0 becomes the tensor
#endif
