// What the decompositions of attention operators share.
#include "ir/ops/contrib/attention.h"

value *attention_of(node *n, const attention_parts *p, int64_t heads, int64_t kv_heads) {
    value *y = NODE(n, "Attention", p->q, p->k, p->v, p->mask, p->past_key, p->past_value, p->valid, p->sink,
                    p->start);
    return with_int(with_int(y, "q_num_heads", heads), "kv_num_heads", kv_heads);
}

value *axis_size(node *n, const value *v, int axis) {
    return with_int(with_int(NODE(n, "Shape", (value *)v), "start", axis), "end", axis + 1);
}

value *as_int64(node *n, value *v) { return NODE(n, "Reshape", cast_to(n, v, DT_I64), one_int(n, -1)); }

int64_t number_of_heads(const node *n) {
    int64_t heads = node_int(n, "num_heads", 0);
    if (heads < 1) infer_error(n, "attribute num_heads is %lld; it must be positive", (long long)heads);
    return heads;
}

value *numbers_to(node *n, value *count) {
    return NODE(n, "Range", insert_scalar(n, DT_I64, 0), as_scalar(n, count), insert_scalar(n, DT_I64, 1));
}

void split_parts(node *n, value *v, int64_t axis, value *sizes, int count, value **parts) {
    value *first = with_int(NODE(n, "Split", v, sizes), "axis", axis);
    for (int i = 0; i < count; i++) parts[i] = output_of(first, i);
}

value *heads_apart(node *n, value *v, int64_t heads, value *size) {
    value *shape = with_int(NODE(n, "Concat", insert_ints(n, (int64_t[]){0, 0, heads}, 3), size), "axis", 0);
    return transposed(n, NODE(n, "Reshape", v, shape), 4, (int64_t[]){0, 2, 1, 3});
}

value *padded_at_end(node *n, value *v, int axis, value *more) {
    static const int64_t zeros[7] = {0};
    value *ends = NODE(n, "Concat", insert_ints(n, zeros, 4 + axis), more, insert_ints(n, zeros, 3 - axis));
    return NODE(n, "Pad", v, with_int(ends, "axis", 0));
}

value *rotated(node *n, value *v, value *cosines, value *sines, value *positions, int64_t heads,
               bool interleaved) {
    value *y = with_int(NODE(n, "RotaryEmbedding", v, cosines, sines, positions), "num_heads", heads);
    return with_int(with_int(y, "interleaved", interleaved), "rotary_embedding_dim", -1);
}
