// Products with weights quantised in blocks: MatMulNBits and its fusions with what comes before and after it. Sums are floats whatever the element type is; the accuracy that
// a model asks for (accuracy_level) is a minimum and changes nothing.
#include "ir/ops/contrib/packed.h"
#include <string.h>

static void check_count(const node *n, int i, int64_t count) {
    const type *t = infer_in(n, i);
    dim *has = infer_k(n, 1);
    for (int j = 0; j < infer_rank(n, i); j++) has = dim_mul(has, t->dims[j]);
    if (dim_equal(has, infer_k(n, count)) == TRI_NO)
        infer_error(n, "input %d has %s elements, not %lld", i, dim_text(infer_arena(n), has),
                    (long long)count);
}

// The block of each column, where that is not just column / block_size.
static value *block_order(const block_matrix *m, value *groups) {
    if (!groups || !groups->constant) return groups;
    for (int64_t j = 0; j < m->columns && j < groups->constant->count; j++)
        if (constant_int(groups->constant, j) != j / m->block) return groups;
    return NULL;
}

// rows x K, in input `weights` with the scales after it; zero: the input with zero points, -1: there is none.
static block_matrix matrix_at(node *n, int64_t rows, int weights, int zero) {
    block_matrix m = {.rows = rows,
                      .columns = node_int(n, "K", 0),
                      .block = node_int(n, "block_size", 0),
                      .bits = (int)node_int(n, "bits", 4),
                      .weights = n->in[weights],
                      .scales = n->in[weights + 1],
                      .zero = zero < 0 ? NULL : node_in(n, zero)};
    if (m.bits != 2 && m.bits != 4 && m.bits != 8)
        infer_error(n, "attribute bits is %d; it must be 2, 4 or 8", m.bits);
    if (m.rows < 0 || m.rows > INT32_MAX || m.columns < 0 || m.columns > INT32_MAX)
        infer_error(n, "the weights have %lld rows of K = %lld elements; both must be less than 2^31",
                    (long long)m.rows, (long long)m.columns);
    if (m.block < 16 || m.block > 1 << 24 || (m.block & (m.block - 1)))
        infer_error(n, "attribute block_size is %lld; it must be a power of two from 16 to 2^24",
                    (long long)m.block);
    int64_t blocks = (m.columns + m.block - 1) / m.block;
    check_count(n, weights, m.rows * blocks * m.block * m.bits / 8);
    check_count(n, weights + 1, m.rows * blocks);
    if (m.zero)
        check_count(n, zero, m.rows * (m.zero->type.elem == DT_U8 ? (blocks * m.bits + 7) / 8 : blocks));
    return m;
}

// x * dequantised(b)' + bias, as floats
static value *product(node *n, value *x, const block_matrix *m, value *bias) {
    value *y = product_with(n, x, m);
    return bias ? NODE(n, "Add", y, cast_to(n, bias, DT_F32)) : y;
}

static void matmul_nbits_decompose(node *n) {
    if (node_int(n, "weight_prepacked", 0))
        infer_lacks(n,
                    "attribute weight_prepacked is %lld: weights in the layout of a GPU's library cannot be "
                    "read; write the model without prepacking",
                    (long long)node_int(n, "weight_prepacked", 0));
    block_matrix m = matrix_at(n, node_int(n, "N", 0), 1, 3);
    m.groups = block_order(&m, node_in(n, 4));
    give_output(n, 0, from_float(n, product(n, n->in[0], &m, node_in(n, 5)), infer_in(n, 0)->elem));
}

// ---- Several products of one normalised input

// RMSNormalization(a + skip) * scale; *sum is what it normalises.
static value *normalised(node *n, value **sum) {
    value *scale = node_in(n, 2), *skip = node_in(n, 1);
    *sum = skip ? NODE(n, "Add", n->in[0], skip) : n->in[0];
    if (!scale) return *sum;
    return with_float(NODE(n, "RMSNormalization", *sum, scale), "epsilon", node_float(n, "epsilon", 1e-5f));
}

static void give_sum(node *n, int i, value *sum) {
    if (node_out(n, i)) give_output(n, i, NODE(n, "Identity", sum));
}

// activation(x * gate' + bias) * (x * up' + bias)
static void matmul_nbits_mlp_decompose(node *n) {
    const char *name = node_string(n, "activation", "");
    dtype t = infer_in(n, 0)->elem;
    value *sum, *x = normalised(n, &sum), *active;
    block_matrix gate = matrix_at(n, node_int(n, "N", 0), 3, -1),
                 up = matrix_at(n, node_int(n, "N", 0), 6, -1);
    value *g = product(n, x, &gate, node_in(n, 5)), *u = product(n, x, &up, node_in(n, 8));
    if (strcmp(name, "silu") == 0) active = with_float(NODE(n, "Swish", g), "alpha", 1);
    else if (strcmp(name, "gelu") == 0) active = NODE(n, "Gelu", g);
    else if (strcmp(name, "relu") == 0) active = NODE(n, "Relu", g);
    else infer_error(n, "attribute activation is '%s'; it must be silu, gelu or relu", name);
    give_sum(n, 1, sum);
    give_output(n, 0, from_float(n, NODE(n, "Mul", active, u), t));
}

static void matmul_nbits_qkv_decompose(node *n) {
    dtype t = infer_in(n, 0)->elem;
    value *sum, *x = normalised(n, &sum);
    give_sum(n, 3, sum);
    for (int i = 0; i < 3; i++) {
        block_matrix m = matrix_at(n, node_int(n, i ? "Nkv" : "Nq", 0), 3 + 3 * i, -1);
        give_output(n, i, from_float(n, product(n, x, &m, node_in(n, 5 + 3 * i)), t));
    }
}

// ---- A product with an adapter of low rank
//
// The matrices of the adapter are small, and may be inputs of any rank, or empty: they are dequantised as a whole.

// rows x columns as floats, from the input `weights` with its scales after it. columns: int64[1], at most what is there.
static value *dequantised(node *n, int weights, value *columns) {
    int bits = (int)node_int(n, "lora_bits", 8);
    if (bits != 2 && bits != 4 && bits != 8)
        infer_error(n, "attribute lora_bits is %d; it must be 2, 4 or 8", bits);
    if (infer_rank(n, weights) != 3 || infer_rank(n, weights + 1) != 2)
        infer_error(n, "inputs %d and %d have ranks %d and %d; they must be 3 and 2", weights, weights + 1,
                    infer_rank(n, weights), infer_rank(n, weights + 1));
    value *sizes = shape_part(n, n->in[weights], 0, 2), *zero = insert_scalar(n, DT_F32, 1 << (bits - 1));
    value *w = unpacked(n, n->in[weights], bits, 3, (int64_t[]){0, 0, node_int(n, "lora_block_size", 32)});
    value *scales = NODE(n, "Slice", n->in[weights + 1], insert_ints(n, (int64_t[]){0, 0}, 2), sizes);
    scales = NODE(n, "Unsqueeze", cast_to(n, scales, DT_F32), one_int(n, -1));
    w = NODE(n, "Mul", NODE(n, "Sub", cast_to(n, w, DT_F32), zero), scales);
    w = reshaped(n, w, 2, (int64_t[]){0, -1});
    return NODE(n, "Slice", w, one_int(n, 0), columns, one_int(n, 1));
}

// x * w', rounded
static value *adapted(node *n, value *x, value *w) {
    value *y = NODE(n, "MatMul", cast_to(n, x, DT_F32), transposed(n, w, 2, (int64_t[]){1, 0}));
    return from_float(n, y, infer_in(n, 0)->elem);
}

// x * w' + (x * a') * b'. Without rows of a the inner product is zero, without blocks of b the outer one.
static void matmul_nbits_qlora_decompose(node *n) {
    enum { W = 1, A = 3, B = 5 };
    int64_t block = node_int(n, "lora_block_size", 32);
    int rank = infer_rank(n, 0);
    if (block < 16 || block > 1 << 24 || (block & (block - 1)))
        infer_error(n, "attribute lora_block_size is %lld; it must be a power of two from 16 to 2^24",
                    (long long)block);
    if (rank < 1) infer_error(n, "X is a scalar");
    block_matrix base = matrix_at(n, node_int(n, "N", 0), W, -1);
    value *y = from_float(n, product(n, n->in[0], &base, NULL), infer_in(n, 0)->elem);
    value *low = adapted(n, n->in[0], dequantised(n, A, one_int(n, node_int(n, "K", 0))));
    value *wants = shape_part(n, n->in[A + 1], 0, 1),
          *none = NODE(n, "Sub", wants, shape_part(n, low, -1, INT64_MAX));
    low = NODE(n, "Pad", low, JOINED(n, one_int(n, 0), none), NULL, one_int(n, -1));
    value *room = NODE(n, "Mul", shape_part(n, n->in[B], 1, 2), one_int(n, block));
    value *columns = NODE(n, "Min", wants, room);
    low = NODE(n, "Slice", low, one_int(n, 0), columns, one_int(n, -1));
    give_output(n, 0, NODE(n, "Add", y, adapted(n, low, dequantised(n, B, columns))));
}
MICROSOFT_OP(MatMulNBitsQLoRA, matmul_nbits_qlora_decompose);

MICROSOFT_OP(MatMulNBits, matmul_nbits_decompose);
MICROSOFT_OP(MatMulNBitsMlp, matmul_nbits_mlp_decompose);
MICROSOFT_OP(MatMulNBitsQkv, matmul_nbits_qkv_decompose);
