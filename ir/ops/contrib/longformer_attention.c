// LongformerAttention (Beltagy et al. 2020), as two nodes of the standard's Attention.
//
//   local[i]  = Attention of x * weight + bias, over keys j with |i - j| <= window or global[j]
//   global[i] = Attention of x * global_weight + global_bias, over all keys
//   output[i] = global[i] if the token has the global flag, else local[i]; keys with a mask below 0 are masked in both
#include "ir/ops/contrib/attention.h"

enum { IN_X, IN_WEIGHT, IN_BIAS, IN_MASK, IN_GLOBAL_WEIGHT, IN_GLOBAL_BIAS, IN_GLOBAL };

// seen: bool, broadcast to [batch, head, query, key]
static value *attend(node *n, int weight, int bias, value *seen, int64_t heads) {
    value *x = NODE(n, "Add", NODE(n, "MatMul", n->in[IN_X], n->in[weight]), n->in[bias]), *parts[3];
    value *part = axis_size(n, n->in[IN_X], 2);
    split_parts(n, x, 2, with_int(NODE(n, "Concat", part, part, part), "axis", 0), 3, parts);
    attention_parts p = {.q = parts[0], .k = parts[1], .v = parts[2], .mask = seen};
    return attention_of(n, &p, heads, heads);
}

static void longformer_attention_decompose(node *n) {
    int64_t heads = node_int(n, "num_heads", 0), window = node_int(n, "window", 0);
    if (heads < 1 || window < 1)
        infer_error(n, "%lld heads and a window of %lld; both must be positive", (long long)heads,
                    (long long)window);
    if (infer_rank(n, IN_X) != 3) infer_error(n, "the input has rank %d, not 3", infer_rank(n, IN_X));
    if (infer_rank(n, IN_MASK) != 2 || infer_rank(n, IN_GLOBAL) != 2)
        infer_error(n, "mask and global flags have ranks %d and %d, not 2", infer_rank(n, IN_MASK),
                    infer_rank(n, IN_GLOBAL));
    value *places = numbers_to(n, axis_size(n, n->in[IN_X], 1)), *one = one_int(n, 1);
    value *away = NODE(n, "Abs", NODE(n, "Sub", places, NODE(n, "Unsqueeze", places, one)));
    value *near = NODE(n, "LessOrEqual", away, insert_scalar(n, DT_I64, (double)window));
    value *columns = insert_ints(n, (int64_t[]){1, 2}, 2);
    value *valid = NODE(n, "GreaterOrEqual", n->in[IN_MASK], number_like(n, 0, IN_MASK));
    value *flags = NODE(n, "Greater", n->in[IN_GLOBAL], number_like(n, 0, IN_GLOBAL));
    valid = NODE(n, "Unsqueeze", valid, columns);
    value *seen = NODE(n, "And", valid, NODE(n, "Or", near, NODE(n, "Unsqueeze", flags, columns)));
    value *local = attend(n, IN_WEIGHT, IN_BIAS, seen, heads);
    value *global = attend(n, IN_GLOBAL_WEIGHT, IN_GLOBAL_BIAS, valid, heads);
    give_output(n, 0, NODE(n, "Where", NODE(n, "Unsqueeze", flags, one_int(n, 2)), global, local));
}

MICROSOFT_OP(LongformerAttention, longformer_attention_decompose);
