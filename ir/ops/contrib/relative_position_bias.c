// RelativePositionBias: T5's bias of scores by the distance of query and key.
//
//   d = key - query;  the buckets of keys after the query follow those of keys before it if is_bidirectional
//   bucket = d up to half of the buckets, then by the logarithm of d up to max_distance
//   output[0, h, query, key] = bias_table[h * buckets + bucket]        the table is stored by columns
#include "ir/ops/contrib/attention.h"
#include <math.h>

// The bucket of distance d among `count`.
static int64_t bucket_of(int64_t d, int64_t count, int64_t most) {
    int64_t exact = count / 2;
    if (d < exact) return d;
    float grows = logf((float)d / (float)exact) / logf((float)most / (float)exact);
    int64_t bucket = exact + (int64_t)(grows * (float)(count - exact));
    return bucket < count ? bucket : count - 1;
}

// int64[most + 1]
static value *buckets(node *n, int64_t count, int64_t most) {
    int64_t *table = ARENA_ARRAY(infer_arena(n), int64_t, most + 1);
    for (int64_t d = 0; d <= most; d++) table[d] = bucket_of(d, count, most);
    return insert_ints(n, table, (int)(most + 1));
}

static void relative_position_bias_decompose(node *n) {
    int64_t most = node_int(n, "max_distance", 0);
    bool both = node_int(n, "is_bidirectional", 0) == 1;
    if (infer_rank(n, 0) != 2) infer_error(n, "bias_table has rank %d, not 2", infer_rank(n, 0));
    const dim *rows = infer_in(n, 0)->dims[0];
    if (!dim_is_const(rows)) infer_error(n, "the number of buckets must be known when the model is compiled");
    int64_t count = both ? dim_value(rows) / 2 : dim_value(rows);
    if (count < 2 || most <= count / 2 || most > 1 << 20)
        infer_error(n,
                    "max_distance is %lld; for %lld buckets it must be more than %lld, and at most 1048576",
                    (long long)most, (long long)count, (long long)(count / 2));
    value *query = NODE(n, "Unsqueeze", numbers_to(n, as_int64(n, n->in[1])), one_int(n, 1));
    value *d = NODE(n, "Sub", numbers_to(n, as_int64(n, n->in[2])), query),
          *zero = insert_scalar(n, DT_I64, 0);
    value *away = both ? NODE(n, "Abs", d) : NODE(n, "Max", NODE(n, "Neg", d), zero);
    value *index = NODE(n, "Gather", buckets(n, count, most),
                        NODE(n, "Min", away, insert_scalar(n, DT_I64, (double)most)));
    if (both)
        index = NODE(
            n, "Add", index,
            NODE(n, "Where", NODE(n, "Greater", d, zero), insert_scalar(n, DT_I64, (double)count), zero));
    value *shape =
        with_int(NODE(n, "Concat", axis_size(n, n->in[0], 1), axis_size(n, n->in[0], 0)), "axis", 0);
    value *found = with_int(NODE(n, "Gather", NODE(n, "Reshape", n->in[0], shape), index), "axis", 1);
    give_output(n, 0, NODE(n, "Unsqueeze", found, one_int(n, 0)));
}

MICROSOFT_OP(RelativePositionBias, relative_position_bias_decompose);
