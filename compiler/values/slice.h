// Parts of tensors, in numpy's notation: "0, 1:3, ::2, -1, ...".
#ifndef ONNXC_COMPILER_VALUES_SLICE_H
#define ONNXC_COMPILER_VALUES_SLICE_H
#include "ir/graph/tensor.h"
#include <stdbool.h>

// The part of t that the text within the brackets says; false: *why says what is wrong with it.
bool tensor_slice(arena *a, const tensor *t, const char *said, tensor *part, const char **why);
#endif
