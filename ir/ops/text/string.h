// Lookup of elements in constant lists of strings and numbers.
#ifndef ONNXC_IR_OPS_TEXT_STRING_H
#define ONNXC_IR_OPS_TEXT_STRING_H
#include "ir/kernel/lower.h"

// A constant list of strings; empty if s is NULL.
constant *strings_constant(arena *a, const char *const *s, const size_t *sizes, int64_t count);
constant *int64s_constant(arena *a, const int64_t *v, int64_t count);
// Output 0 = function of two broadcast tensors of strings.
void lower_string_pairs(lowering *l, node *n, const char *function);
// The indices (int64, -1: none) of x's elements among the keys of the same type, which are in ascending
// order.
buffer *lower_find(lowering *l, const node *n, value *x, const constant *keys);
buffer *lower_find_in(lowering *l, const node *n, dtype t, buffer *wanted, buffer *keys);
#endif
