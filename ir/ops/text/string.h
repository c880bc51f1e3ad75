// Lookup of elements in constant lists of strings and numbers.
#ifndef ONNXC_IR_OPS_TEXT_STRING_H
#define ONNXC_IR_OPS_TEXT_STRING_H
#include "ir/kernel/lower.h"

// A constant list of strings; empty if s is NULL.
constant *strings_constant(arena *a, const char *const *s, const size_t *sizes, int64_t count);
constant *int64s_constant(arena *a, const int64_t *v, int64_t count);
// Output 0 = function of two broadcast tensors of strings.
void lower_string_pairs(lowering *l, node *n, const char *function);
// The indices (int64, -1: none) of x's elements among constant keys of the same type, which all differ.
buffer *lower_find(lowering *l, const node *n, value *x, const constant *keys);
// Among the keys in a buffer, which are in ascending order.
buffer *lower_find_in(lowering *l, const node *n, dtype t, buffer *wanted, buffer *keys);

// A table (runtime-lite/lib/lib_slots.h) of keys that all differ, whose hash depends on a seed.
typedef uint64_t key_hash(const void *user, uint64_t seed, int64_t key);
constant *slots_constant(arena *a, int64_t count, key_hash *hash, const void *user);
#endif
