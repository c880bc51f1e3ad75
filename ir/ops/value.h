// Conversion of tensors to and from the handles of sequences and optionals.
#ifndef ONNXC_IR_OPS_VALUE_H
#define ONNXC_IR_OPS_VALUE_H
#include "ir/kernel/lower.h"

// The type of an extracted item: sizes that are not constant become runtime symbols of n.
type value_item(const node *n, const type *item);
buffer *value_from_tensor(lowering *l, const node *n, value *v, const char *suffix); // returns its handle
// Checks that the handle refers to a tensor of type t, and sets the unknown sizes of t.
void value_sizes(lowering *l, const node *n, buffer *handle, const type *t, const char *suffix,
                 const char *wrong);
void value_fetch(lowering *l, const node *n, buffer *handle, buffer *out);
void value_to_output(lowering *l, node *n, buffer *handle); // output 0 becomes the tensor
#endif
