// Weights packed in bytes, as constants of 4 or 2 bits that are dequantised where they are read.
//
//   unpacked:    v[..., j] = (bytes[..., j / n] >> bits * (j % n)) & (2^bits - 1),  n = 8 / bits
//   product:     MatMul(Pad(x), Transpose(DequantizeLinear(unpacked(weights), scales, unpacked(zero))))
#include "ir/ops/contrib/packed.h"
#include <string.h>

// ---- Elements of bytes

value *from_float(node *n, value *v, dtype t) { return t == DT_F32 ? v : cast_to(n, v, t); }

// Constant uint8[count].
static value *insert_bytes(node *n, const uint8_t *v, int count) {
    constant *c = constant_new(infer_arena(n), DT_U8, 1, (int64_t[]){count});
    memcpy((void *)c->data, v, (size_t)count);
    return insert_constant(n, c);
}

// Sizes as of Reshape, for this many elements in all.
static void resolve_sizes(node *n, const constant *c, int64_t count, int rank, const int64_t *sizes,
                          int64_t *found) {
    int64_t known = 1;
    int open = -1;
    for (int i = 0; i < rank; i++) {
        found[i] = sizes[i] == 0 && i < c->rank ? c->dims[i] : sizes[i];
        if (sizes[i] == -1) open = i;
        else known *= found[i];
    }
    if (open >= 0) found[open] = known ? count / known : 0;
    if (known * (open < 0 ? 1 : found[open]) == count) return;
    infer_error(n, "%lld packed elements do not make %lld", (long long)count, (long long)known);
}

static value *reinterpreted(node *n, const constant *c, dtype elem, int rank, const int64_t *sizes) {
    constant *made = ARENA_NEW(infer_arena(n), constant);
    *made = *c;
    if (c->kind == CONST_SPLAT) {
        made->kind = CONST_BYTES;
        uint8_t *bytes = ARENA_ARRAY(infer_arena(n), uint8_t, c->count + 1);
        memset(bytes, c->splat[0], (size_t)c->count);
        made->data = bytes;
    }
    made->elem = elem;
    made->count = c->count * (8 / dtype_bits(elem));
    made->rank = rank;
    made->dims = ARENA_ARRAY(infer_arena(n), int64_t, rank + 1);
    resolve_sizes(n, c, made->count, rank, sizes, made->dims);
    return insert_constant(n, made);
}

// Of v, or of what it is a view of: weights that are a table as well are reshaped for one of the two.
static const constant *constant_of(node *n, const value *v) {
    const value *from = v;
    while (!from->constant && from->def && from->def->op->is_view) from = from->def->in[0];
    if (from == v || !from->constant || v->type.kind != TYPE_TENSOR || v->type.rank < 0) return v->constant;
    constant *c = ARENA_NEW(infer_arena(n), constant);
    *c = *from->constant;
    c->rank = v->type.rank;
    c->dims = ARENA_ARRAY(infer_arena(n), int64_t, c->rank + 1);
    for (int i = 0; i < c->rank; i++) {
        if (!dim_is_const(v->type.dims[i])) return NULL;
        c->dims[i] = dim_value(v->type.dims[i]);
    }
    return c;
}

value *unpacked(node *n, value *v, int bits, int rank, const int64_t *sizes) {
    const constant *c = constant_of(n, v);
    if (c && bits > 1) return reinterpreted(n, c, bits == 8 ? DT_U8 : bits == 4 ? DT_U4 : DT_U2, rank, sizes);
    if (bits == 8) return reshaped(n, v, rank, sizes);
    uint8_t shifts[8];
    for (int i = 0; i < 8 / bits; i++) shifts[i] = (uint8_t)(i * bits);
    value *each = NODE(n, "Unsqueeze", v, insert_ints(n, (int64_t[]){-1}, 1));
    each = with_string(NODE(n, "BitShift", each, insert_bytes(n, shifts, 8 / bits)), "direction", "RIGHT");
    each = NODE(n, "BitwiseAnd", each, insert_scalar(n, DT_U8, (1 << bits) - 1));
    return reshaped(n, each, rank, sizes);
}

value *reinterpreted_as(node *n, value *v, dtype elem, int rank, const int64_t *sizes) {
    const constant *c = constant_of(n, v);
    if (c) return reinterpreted(n, c, elem, rank, sizes);
    if (dtype_bits(elem) == 8) return with_int(NODE(n, "BitCast", reshaped(n, v, rank, sizes)), "to", elem);
    constant *codes = constant_new(infer_arena(n), elem, 1, (int64_t[]){INT64_C(1) << dtype_bits(elem)});
    for (int64_t i = 0; i < codes->count; i++)
        ((uint8_t *)codes->data)[i * dtype_bits(elem) / 8] |= (uint8_t)(i << i * dtype_bits(elem) % 8);
    value *table = cast_to(n, insert_constant(n, codes), DT_F32);
    return NODE(n, "Gather", table, cast_to(n, unpacked(n, v, dtype_bits(elem), rank, sizes), DT_I32));
}

// Slice takes no elements of less than a byte, so a constant of them is cut here.
value *first_of_rows(node *n, value *v, int64_t wants) {
    const constant *c = v->constant;
    int64_t has = c && c->rank ? c->dims[c->rank - 1] : -1;
    if (has == wants) return v;
    if (!c || dtype_bits(c->elem) >= 8) return sliced(n, v, -1, 0, wants);
    int64_t dims[MAX_RANK];
    for (int i = 0; i < c->rank; i++) dims[i] = i == c->rank - 1 ? wants : c->dims[i];
    constant *made = constant_new(infer_arena(n), c->elem, c->rank, dims);
    for (int64_t i = 0; i < made->count; i++)
        dtype_store_int(c->elem, (void *)made->data, i, constant_int(c, i / wants * has + i % wants));
    return insert_constant(n, made);
}

// ---- Matrices

static int64_t block_count(const block_matrix *m) { return (m->columns + m->block - 1) / m->block; }

static bool has_float_zero(const block_matrix *m) { return m->zero && m->zero->type.elem != DT_U8; }

// rows x blocks, of type t where they are not floats.
static value *zero_points(node *n, const block_matrix *m, dtype t) {
    int64_t blocks = block_count(m), per_byte = 8 / m->bits;
    if (!m->zero) return insert_scalar(n, t, 1 << (m->bits - 1));
    if (has_float_zero(m)) return reshaped(n, m->zero, 2, (int64_t[]){m->rows, blocks});
    int64_t stored = (blocks + per_byte - 1) / per_byte * per_byte;
    value *all = unpacked(n, m->zero, m->bits, 2, (int64_t[]){m->rows, stored});
    return cast_to(n, stored == blocks ? all : first_of_rows(n, all, blocks), t);
}

// v of rows x blocks for each column.
static value *of_groups(node *n, const block_matrix *m, value *v) {
    if (v->type.kind == TYPE_TENSOR && dtype_bits(v->type.elem) < 8) v = cast_to(n, v, DT_U8);
    return with_int(NODE(n, "Gather", v, sliced(n, m->groups, 0, 0, m->columns)), "axis", 1);
}

// (w - zero) * scales for floats, with each block of columns as an axis: w is rows x blocks x columns of a block.
static value *from_float_zero(node *n, const block_matrix *m, value *w, value *scales, value *zero) {
    int64_t per_block[] = {m->rows, -1, 1};
    w = NODE(n, "Sub", cast_to(n, w, DT_F32), cast_to(n, reshaped(n, zero, 3, per_block), DT_F32));
    w = NODE(n, "Mul", w, cast_to(n, reshaped(n, scales, 3, per_block), DT_F32));
    return reshaped(n, w, 2, (int64_t[]){m->rows, -1});
}

static value *from_integer_zero(node *n, value *w, value *scales, value *zero, int64_t block) {
    value *v = with_int(NODE(n, "DequantizeLinear", w, scales, zero), "axis", 1);
    return with_int(with_int(v, "block_size", block), "output_dtype", DT_F32);
}

// Each column has the scale and zero point of its group.
static value *dequantised_groups(node *n, const block_matrix *m, value *scales) {
    int64_t stored = block_count(m) * m->block;
    value *w = unpacked(n, m->weights, m->bits, 2, (int64_t[]){m->rows, stored});
    dtype t = w->constant ? w->constant->elem : DT_U8;
    value *zero = zero_points(n, m, t);
    if (stored != m->columns) w = first_of_rows(n, w, m->columns);
    scales = of_groups(n, m, scales);
    if (m->zero) zero = of_groups(n, m, zero);
    if (!has_float_zero(m)) return from_integer_zero(n, w, scales, cast_to(n, zero, t), 1);
    return from_float_zero(n, m, reshaped(n, w, 3, (int64_t[]){m->rows, m->columns, 1}), scales, zero);
}

// rows x (blocks * block): columns of the last block that are not the matrix's are there as well.
static value *dequantised_blocks(node *n, const block_matrix *m, value *scales) {
    int64_t blocks = block_count(m);
    if (has_float_zero(m)) {
        value *w = unpacked(n, m->weights, m->bits, 3, (int64_t[]){m->rows, blocks, m->block});
        return from_float_zero(n, m, w, scales, zero_points(n, m, DT_F32));
    }
    value *w = unpacked(n, m->weights, m->bits, 2, (int64_t[]){m->rows, blocks * m->block});
    return from_integer_zero(n, w, scales, zero_points(n, m, w->constant ? w->constant->elem : DT_U8),
                             m->block);
}

// Zeros in x stand against the columns that fill the last block, so that all blocks have the same size.
value *product_with(node *n, value *x, const block_matrix *m) {
    int64_t blocks = block_count(m), pads[] = {0, blocks * m->block - m->columns};
    value *scales = reshaped(n, m->scales, 2, (int64_t[]){m->rows, blocks});
    value *w = m->groups ? dequantised_groups(n, m, scales) : dequantised_blocks(n, m, scales);
    x = cast_to(n, x, DT_F32);
    if (pads[1] && !m->groups)
        x = NODE(n, "Pad", x, insert_ints(n, pads, 2), NULL, insert_ints(n, (int64_t[]){-1}, 1));
    return NODE(n, "MatMul", x, transposed(n, w, 2, (int64_t[]){1, 0}));
}
