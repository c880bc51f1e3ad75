// Windows that roll: rows move to the front of a state, and new ones take the places at its end.
#ifndef ONNXC_PASSES_MEMORY_ROLL_H
#define ONNXC_PASSES_MEMORY_ROLL_H
#include "ir/kernel/uses.h"

// If the kernel at this site moves rows of `in` to the front of `out` and nothing reads `in` after it: they move one after the other,
// so that `out` may be in the memory of `in`.
void roll_in_order(const site *at, const buffer *in, const buffer *out);
// Whether they do.
bool rolls_in_order(const kernel *k, const buffer *in, const buffer *out);
// `out` is in the memory of `in`: while the window grows, its rows stay where they are, and nothing moves.
void roll_if_moved(kernel *k, const buffer *in, const buffer *out);
#endif
