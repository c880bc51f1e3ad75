// GatherBlockQuantized: rows of a table that is quantised in blocks.
//
//   table = DequantizeLinear(unpacked(data), scales, zero points)
//   inside = -size <= indices < size
//   y = Where(inside, Gather(table, Where(inside, indices, 0)), 0)
#include "ir/ops/contrib/packed.h"

typedef struct table {
    int rank, gather, quantize;
    int64_t block;
    int bits;   // of an element in a byte; 0: the elements are the data's own
    dtype elem; // of data
} table;

static table table_of(node *n) {
    table t = {
        .rank = infer_rank(n, 0), .block = node_int(n, "block_size", 128), .elem = infer_in(n, 0)->elem};
    t.gather = infer_axis(n, node_int(n, "gather_axis", 0), t.rank);
    t.quantize = infer_axis(n, node_int(n, "quantize_axis", 1), t.rank);
    bool whole = t.block == 0 && dtype_is_float(t.elem);
    if (!whole && (t.block < 16 || (t.block & (t.block - 1))))
        infer_error(n, "attribute block_size is %lld; it must be a power of two, at least 16",
                    (long long)t.block);
    if (t.elem != DT_U8) return t;
    t.bits = (int)node_int(n, "bits", 4);
    if (t.bits != 2 && t.bits != 4 && t.bits != 8)
        infer_error(n, "attribute bits is %d; it must be 2, 4 or 8", t.bits);
    if (t.quantize != t.rank - 1 || t.gather == t.quantize)
        infer_error(n,
                    "gather_axis is %d and quantize_axis is %d; packed bytes need the last axis (%d) "
                    "quantised and another one gathered",
                    t.gather, t.quantize, t.rank - 1);
    return t;
}

static value *unpacked_rows(node *n, const table *t, value *v) {
    int64_t sizes[MAX_RANK] = {0};
    sizes[t->rank - 1] = -1;
    return unpacked(n, v, t->bits, t->rank, sizes);
}

// Of type `elem`, as many along the last axis as there are scales.
static value *zero_points(node *n, const table *t, dtype elem) {
    if (!node_in(n, 3)) return t->bits ? insert_scalar(n, elem, 1 << (t->bits - 1)) : NULL;
    if (!t->bits || t->bits == 8) return n->in[3];
    const type *scales = infer_in(n, 2);
    value *v = unpacked_rows(n, t, n->in[3]);
    if (scales->rank > 0 && dim_is_const(scales->dims[scales->rank - 1]))
        return cast_to(n, first_of_rows(n, v, dim_value(scales->dims[scales->rank - 1])), elem);
    value *count = with_int(NODE(n, "Shape", n->in[2]), "start", -1);
    v = NODE(n, "Slice", v->constant ? cast_to(n, v, DT_U8) : v, insert_ints(n, (int64_t[]){0}, 1), count,
             insert_ints(n, (int64_t[]){-1}, 1));
    return cast_to(n, v, elem);
}

// A size of 1 stands for all others but that of the quantised axis.
static value *expanded_scales(node *n, const table *t) {
    const type *x = infer_in(n, 0), *s = infer_in(n, 2);
    bool same = true;
    for (int i = 0; i < t->rank && s->rank == t->rank; i++)
        same &= i == t->quantize || dim_equal(s->dims[i], x->dims[i]) == TRI_YES;
    if (same || !dtype_is_float(t->elem)) return n->in[2];
    value *sizes = NODE(n, "Shape", n->in[0]);
    value *blocks =
        NODE(n, "Gather", NODE(n, "Shape", n->in[2]), insert_ints(n, (int64_t[]){t->quantize}, 1));
    sizes = NODE(n, "ScatterElements", sizes, insert_ints(n, (int64_t[]){t->quantize}, 1), blocks);
    return NODE(n, "Expand", n->in[2], sizes);
}

static value *dequantised_table(node *n, const table *t) {
    if (t->block == 0) { // one block: the scales broadcast
        value *v = NODE(n, "Mul", cast_to(n, n->in[0], DT_F32), cast_to(n, n->in[2], DT_F32));
        return from_float(n, v, infer_in(n, 2)->elem);
    }
    value *x = t->bits ? unpacked_rows(n, t, n->in[0]) : n->in[0];
    dtype elem = x->constant ? x->constant->elem : t->elem;
    value *v = NODE(n, "DequantizeLinear", x, expanded_scales(n, t), zero_points(n, t, elem));
    return with_int(with_int(v, "axis", t->quantize), "block_size", t->block);
}

// v with `count` more axes of size 1 at the end.
static value *with_axes(node *n, value *v, int rank, int count) {
    int64_t axes[MAX_RANK];
    for (int i = 0; i < count; i++) axes[i] = rank + i;
    return count ? NODE(n, "Unsqueeze", v, insert_ints(n, axes, count)) : v;
}

static void gather_blocks_decompose(node *n) {
    table t = table_of(n);
    int rank = infer_rank(n, 1);
    dtype index = infer_in(n, 1)->elem;
    value *size = NODE(n, "Shape", n->in[0]), *zero = insert_scalar(n, index, 0);
    size = cast_to(n, NODE(n, "Gather", size, insert_scalar(n, DT_I64, t.gather)), index);
    value *inside = NODE(n, "And", NODE(n, "Less", n->in[1], size),
                         NODE(n, "GreaterOrEqual", n->in[1], NODE(n, "Neg", size)));
    value *rows = NODE(n, "Gather", dequantised_table(n, &t), NODE(n, "Where", inside, n->in[1], zero));
    inside = with_axes(n, inside, rank, t.rank - 1 - t.gather);
    give_output(n, 0,
                NODE(n, "Where", inside, with_int(rows, "axis", t.gather),
                     insert_scalar(n, infer_in(n, 2)->elem, 0)));
}

MICROSOFT_OP(GatherBlockQuantized, gather_blocks_decompose);
