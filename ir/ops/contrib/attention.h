// What the decompositions of attention operators share.
#ifndef ONNXC_IR_OPS_CONTRIB_ATTENTION_H
#define ONNXC_IR_OPS_CONTRIB_ATTENTION_H
#include "ir/ops/decompose.h"

// Inputs of the standard's Attention, and what decompositions add to it (ir/ops/nn/attention.c).
typedef struct attention_parts {
    value *q, *k, *v, *mask, *past_key, *past_value;
    value *valid; // int64[batch]: how many keys are valid
    value *sink;  // [heads]
    value *start; // int64[batch]: the position of the first query
} attention_parts;
// The result of Attention with these numbers of heads; its other outputs are output_of(it, i).
value *attention_of(node *n, const attention_parts *p, int64_t heads, int64_t kv_heads);

int64_t number_of_heads(const node *n);              // attribute num_heads
value *axis_size(node *n, const value *v, int axis); // int64[1]
value *as_int64(node *n, value *v);       // a small integer input, as int64[its number of elements]
value *numbers_to(node *n, value *count); // 0 .. count - 1; count: int64[1]
// Consecutive parts of v along the axis; sizes: int64[count].
void split_parts(node *n, value *v, int64_t axis, value *sizes, int count, value **parts);
// [batch, row, heads * size] as [batch, head, row, size]; size: int64[1]
value *heads_apart(node *n, value *v, int64_t heads, value *size);
// v with `more` zeros (int64[1]) after its end along an axis of a 4-d tensor.
value *padded_at_end(node *n, value *v, int axis, value *more);
// sizes [batch, row, heads * size] of a 3-d input, rotated by the angles of caches at positions [batch, row]
value *rotated(node *n, value *v, value *cosines, value *sines, value *positions, int64_t heads,
               bool interleaved);
#endif
