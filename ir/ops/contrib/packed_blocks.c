// GatherPacked and MatMulPacked of com.microsoft: weights in the block formats of GGML.
//
//   gather:    Cast(DequantizeBlocks(Gather(bytes, Where(inside, indices, 0))))
//   product:   MatMul(x, DequantizeLinear(q, scales)') - MatMul(sums of x's groups, least')
//
// Constant weights are taken apart at compile time, into integers of as few bits as hold them, with their scales; those that
// the run provides become floats. DequantizeBlocks is an operator of onnxc's own.
#include "ir/ops/contrib/packed_blocks.h"
#include "ir/ops/contrib/packed.h"
#include "ir/ops/runtime_args.h"
#include "runtime-lite/lib/lib_block_format.h"
#include <string.h>

enum { COLUMN_BYTES_MOST = 4 }; // of an element in any format

// ---------------------------------------------------------------- formats
static const lib_block_format *format_at(node *n, const char *kind) {
    int64_t number = node_int(n, kind, -1);
    const lib_block_format *f = lib_block_format_of(number);
    if (!f)
        infer_lacks(
            n,
            "attribute %s is %lld; the formats are 0 to 3, 6 to 8, 10 to 14, 16 to 18, 20, 22, 23, 30, "
            "39, 40 and 42",
            kind, (long long)number);
    return f;
}

// Checks that the last axis of input i has whole blocks, those of `columns` elements if these are not 0.
static void check_blocks(const node *n, int i, const lib_block_format *f, int64_t columns) {
    const type *t = infer_in(n, i);
    int rank = infer_rank(n, i);
    if (rank < 1) infer_error(n, "input %d is a scalar; it must be rows of bytes", i);
    bool whole = columns >= 0 && columns <= INT64_MAX / COLUMN_BYTES_MOST && columns % f->elements == 0;
    if (!whole || (columns == 0 && node_attr(n, "K")))
        infer_error(n, "K is %lld; it must be a positive multiple of the format's %d elements of a block",
                    (long long)columns, f->elements);
    const dim *bytes = t->dims[rank - 1];
    int64_t wants = columns / f->elements * f->bytes;
    bool known = dim_is_const(bytes);
    if (known && (columns ? dim_value(bytes) != wants : dim_value(bytes) % f->bytes != 0))
        infer_error(n, "rows of input %d have %lld bytes, not %s%lld", i, (long long)dim_value(bytes),
                    columns ? "" : "a multiple of ", (long long)(columns ? wants : f->bytes));
}

// ---------------------------------------------------------------- DequantizeBlocks
static void dequantize_blocks_infer(node *n) {
    const lib_block_format *f = format_at(n, "format");
    const type *t = infer_in(n, 0);
    int rank = infer_rank(n, 0);
    dim *out[MAX_RANK];
    check_blocks(n, 0, f, 0);
    for (int j = 0; j < rank; j++) out[j] = t->dims[j];
    dim *blocks = dim_floordiv(t->dims[rank - 1], infer_k(n, f->bytes));
    int64_t columns = node_int(n, "columns", 0);
    out[rank - 1] = columns ? infer_k(n, columns) : dim_mulk(blocks, f->elements);
    infer_set(n, 0, DT_F32, rank, out);
}

static void dequantize_blocks_lower(lowering *l, node *n) {
    buffer *x = lower_in(l, n, 0), *y = lower_out(l, n, 0);
    const lib_block_format *f = format_at(n, "format");
    dim *row = dim_floordiv(x->dims[x->rank - 1], infer_k(n, f->bytes));
    dim *blocks = dim_mul(dim_product(infer_dims(n), x->dims, x->rank - 1), row);
    int64_t columns = node_int(n, "columns", 0);
    dim *wants = columns ? infer_k(n, columns / f->elements * f->bytes) : dim_mulk(row, f->bytes);
    lower_check(l, n, dim_eq(x->dims[x->rank - 1], wants), "the rows do not have the bytes of whole blocks");
    lower_call(l, n, "dequantize_blocks", 1, BUFFERS(y, x), DIMS(blocks, infer_k(n, f->kind)));
}

OPERATOR_OF("onnxc", DequantizeBlocks, .infer = dequantize_blocks_infer, .lower = dequantize_blocks_lower);

// columns: how many there must be, 0: any.
static value *dequantised(node *n, value *bytes, const lib_block_format *f, int64_t columns) {
    value *v =
        node_output(node_new(n->graph, n, op_find("onnxc", "DequantizeBlocks"), n->loc, 1, &bytes), 0, NULL);
    return with_int(with_int(v, "format", f->kind), "columns", columns);
}

// ---------------------------------------------------------------- GatherPacked
// Indices outside the table count as 0, as in ONNX Runtime.
static void gather_packed_decompose(node *n) {
    const lib_block_format *f = format_at(n, "packed_type");
    if (infer_rank(n, 0) != 2) infer_error(n, "the table has rank %d, not 2", infer_rank(n, 0));
    check_blocks(n, 0, f, node_int(n, "K", 0));
    dtype index = infer_in(n, 1)->elem, t = dtype_from_onnx((int)node_int(n, "output_dtype", 16));
    if (t != DT_F32 && t != DT_F16 && t != DT_BF16)
        infer_error(n, "attribute output_dtype is %lld; it must be float, float16 or bfloat16",
                    (long long)node_int(n, "output_dtype", 16));
    value *zero = insert_scalar(n, index, 0), *i = n->in[1];
    value *size = cast_to(n, NODE(n, "Squeeze", shape_part(n, n->in[0], 0, 1)), index);
    value *inside = NODE(n, "And", NODE(n, "Less", i, size), NODE(n, "GreaterOrEqual", i, zero));
    value *rows = NODE(n, "Gather", n->in[0], NODE(n, "Where", inside, i, zero));
    give_output(n, 0, from_float(n, dequantised(n, rows, f, node_int(n, "K", 0)), t));
}

MICROSOFT_OP(GatherPacked, gather_packed_decompose);

// ---------------------------------------------------------------- constant weights

// The type that holds a format's integers, less `zero`.
static dtype type_of_integers(const lib_block_format *f, int *zero) {
    *zero = f->zero;
    if (f->kind == BLOCK_MXFP4 || f->kind == BLOCK_NVFP4) return DT_F4E2M1;
    if (f->low.bits && f->low.bits <= 4 && !f->high.bits && f->kind != BLOCK_IQ4_NL &&
        f->kind != BLOCK_IQ4_XS)
        return f->low.bits == 2 ? DT_U2 : DT_U4;
    *zero = 0;
    return DT_I8;
}

// The code of an integer in that type; floats of 4 bits are half of theirs.
static int64_t code_of_integer(dtype t, int zero, int q) {
    static const signed char codes[] = {0, 1, 2, 3, 4, -1, 5, -1, 6, -1, -1, -1, 7};
    if (t != DT_F4E2M1) return q + zero;
    return q < 0 ? 8 | codes[-q] : codes[q];
}

static void store_code(dtype t, uint8_t *to, int64_t i, int64_t code) {
    int bits = dtype_bits(t);
    if (bits == 8) to[i] = (uint8_t)code;
    else to[i * bits / 8] |= (uint8_t)(code << i * bits % 8);
}

typedef struct parts {
    constant *codes, *scales, *least;
} parts;

static constant *constant_like(node *n, const constant *c, dtype t, int64_t columns) {
    int64_t dims[MAX_RANK];
    for (int j = 0; j < c->rank; j++) dims[j] = j == c->rank - 1 ? columns : c->dims[j];
    return constant_new(infer_arena(n), t, c->rank, dims);
}

static parts parts_of(node *n, const lib_block_format *f, const constant *c, dtype t, int zero) {
    int64_t blocks = c->count / f->bytes, columns = c->dims[c->rank - 1] / f->bytes * f->elements;
    int groups = f->elements / f->group;
    float scale[LIB_GROUPS_MOST], least[LIB_GROUPS_MOST];
    signed char q[LIB_BLOCK_MOST];
    uint8_t splat[LIB_BLOCK_MOST];
    memset(splat, c->splat[0], sizeof splat);
    parts p = {constant_like(n, c, t, columns), constant_like(n, c, DT_F32, columns / f->group),
               f->has_least ? constant_like(n, c, DT_F32, columns / f->group) : NULL};
    for (int64_t i = 0; i < blocks; i++) {
        const uint8_t *block = c->kind == CONST_BYTES ? c->data + i * f->bytes : splat;
        lib_block_integers(f, block, q);
        lib_block_scales(f, block, scale, least);
        for (int j = 0; j < f->elements; j++)
            store_code(t, (uint8_t *)p.codes->data, i * f->elements + j, code_of_integer(t, zero, q[j]));
        for (int g = 0; g < groups; g++) {
            ((float *)p.scales->data)[i * groups + g] = t == DT_F4E2M1 ? 2 * scale[g] : scale[g];
            if (p.least) ((float *)p.least->data)[i * groups + g] = least[g];
        }
    }
    return p;
}

static dtype type_of_floats(const lib_block_format *f) {
    return f->kind == BLOCK_F32    ? DT_F32
           : f->kind == BLOCK_F16  ? DT_F16
           : f->kind == BLOCK_BF16 ? DT_BF16
                                   : DT_NONE;
}

static packed_weights constant_weights(node *n, const lib_block_format *f, const constant *c) {
    int zero, last = c->rank - 1;
    dtype floats = type_of_floats(f), t = type_of_integers(f, &zero);
    if (floats != DT_NONE) {
        constant *same = constant_like(n, c, floats, c->dims[last] / f->bytes);
        if (c->kind == CONST_BYTES) memcpy((void *)same->data, c->data, (size_t)c->count);
        else memset((void *)same->data, c->splat[0], (size_t)c->count);
        value *w = insert_constant(n, same);
        return (packed_weights){cast_to(n, w, DT_F32), NULL, 0};
    }
    parts p = parts_of(n, f, c, t, zero);
    value *z = t == DT_U4 || t == DT_U2 ? insert_scalar(n, t, zero) : NULL;
    value *w = NODE(n, "DequantizeLinear", insert_constant(n, p.codes), insert_constant(n, p.scales), z);
    with_int(with_int(w, "axis", last), "block_size", f->group);
    return (packed_weights){w, p.least ? insert_constant(n, p.least) : NULL, f->group};
}

packed_weights packed_weights_at(node *n, int i, const char *kind, int64_t columns) {
    const lib_block_format *f = format_at(n, kind);
    check_blocks(n, i, f, columns);
    const constant *c = infer_constant(n, i);
    if (c) return constant_weights(n, f, c);
    return (packed_weights){dequantised(n, n->in[i], f, columns), NULL, 0};
}

// ---------------------------------------------------------------- MatMulPacked
value *sums_of_groups(node *n, value *x, int rank, int group) {
    int64_t sizes[MAX_RANK] = {0};
    sizes[rank - 1] = -1, sizes[rank] = group;
    value *apart = reshaped(n, x, rank + 1, sizes);
    return with_int(NODE(n, "ReduceSum", apart, one_int(n, -1)), "keepdims", 0);
}

static value *activated(node *n, const char *name, value *v) {
    if (strcmp(name, "silu") == 0) return with_float(NODE(n, "Swish", v), "alpha", 1);
    if (strcmp(name, "relu2") != 0 && strcmp(name, "relu_squared") != 0) return NULL;
    value *relu = NODE(n, "Relu", v);
    return NODE(n, "Mul", relu, relu);
}

static void matmul_packed_decompose(node *n) {
    const char *name = node_string(n, "activation_type", "none");
    int64_t rows = node_int(n, "N", 0);
    dtype t = infer_in(n, 0)->elem;
    int rank = infer_rank(n, 0);
    if (rank < 1 || infer_rank(n, 1) != 2)
        infer_error(n, "A and B have ranks %d and %d; these must be at least 1, and 2", rank,
                    infer_rank(n, 1));
    const dim *has = infer_in(n, 1)->dims[0];
    if (dim_is_const(has) && dim_value(has) != rows)
        infer_error(n, "B has %lld rows; N is %lld", (long long)dim_value(has), (long long)rows);
    packed_weights p = packed_weights_at(n, 1, "packed_type", node_int(n, "K", 0));
    value *x = cast_to(n, n->in[0], DT_F32), *y = NODE(n, "MatMul", x, swapped_last(n, p.w, 2));
    if (p.least) {
        value *sums = sums_of_groups(n, x, rank, p.group);
        y = NODE(n, "Sub", y, NODE(n, "MatMul", sums, swapped_last(n, p.least, 2)));
    }
    if (node_in(n, 2)) y = NODE(n, "Mul", y, reshaped(n, n->in[2], 0, NULL));
    y = from_float(n, y, t);
    if (strcmp(name, "none") != 0) {
        value *active = activated(n, name, cast_to(n, y, DT_F32));
        if (!active)
            infer_error(n, "attribute activation_type is '%s'; it must be none, relu2, relu_squared or silu",
                        name);
        y = from_float(n, active, t);
    }
    give_output(n, 0, y);
}

MICROSOFT_OP(MatMulPacked, matmul_packed_decompose);
