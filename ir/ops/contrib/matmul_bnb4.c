// MatMulBnb4: weights of bitsandbytes, four bits that number the elements of a table. The first of two is in the high half of
// a byte; blocks go on from row to row.
//
//   w[i] = table[code[i]] * absmax[i / block_size], N x K
//   y = a * w', or a * w without transB
#include "ir/ops/contrib/packed.h"
#include <string.h>

static const float TABLES[2][16] = {
    {0.0f, 0x1.555556p-8f, 0x1.555556p-1f, 1.0f, 0x1.555556p-2f, 0.5f, 0x1.555556p-3f, 0.25f, -0.0f,
     -0x1.555556p-8f, -0x1.555556p-1f, -1.0f, -0x1.555556p-2f, -0.5f, -0x1.555556p-3f, -0.25f},
    {-1.0f, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f, -0.28444138169288635f,
     -0.18477343022823334f, -0.09105003625154495f, 0.0f, 0.07958029955625534f, 0.16093020141124725f,
     0.24611230194568634f, 0.33791524171829224f, 0.44070982933044434f, 0.5626170039176941f,
     0.7229568362236023f, 1.0f}};

// The halves of all bytes exchanged.
static value *swapped(node *n, value *v) {
    if (!v->constant) {
        value *four = insert_scalar(n, DT_U8, 4);
        value *low = with_string(NODE(n, "BitShift", v, four), "direction", "LEFT");
        return NODE(n, "BitwiseOr", low, with_string(NODE(n, "BitShift", v, four), "direction", "RIGHT"));
    }
    constant *c = constant_new(infer_arena(n), DT_U8, 1, &v->constant->count);
    for (int64_t i = 0; i < c->count; i++) {
        int64_t byte = constant_int(v->constant, i);
        ((uint8_t *)c->data)[i] = (uint8_t)(byte << 4 | byte >> 4);
    }
    return value_constant(n->graph, NULL, c);
}

static value *table_of(node *n, int64_t kind) {
    constant *c = constant_new(infer_arena(n), DT_F32, 1, (int64_t[]){16});
    memcpy((void *)c->data, TABLES[kind], sizeof TABLES[kind]);
    return value_constant(n->graph, NULL, c);
}

// Whole blocks in each row.
static value *whole_rows(node *n, int64_t kind, int64_t rows, int64_t columns, int64_t block) {
    value *codes = unpacked(n, swapped(n, n->in[1]), 4, 3, (int64_t[]){rows, columns / block, block});
    value *w = NODE(n, "Gather", table_of(n, kind), cast_to(n, codes, DT_I32));
    value *scales = cast_to(n, reshaped(n, n->in[2], 3, (int64_t[]){rows, columns / block, 1}), DT_F32);
    return reshaped(n, NODE(n, "Mul", w, scales), 2, (int64_t[]){rows, columns});
}

// Blocks that go on in the next row, and a last one that is not whole.
static value *odd_rows(node *n, int64_t kind, int64_t rows, int64_t columns, int64_t block) {
    int64_t count = rows * columns, blocks = (count + block - 1) / block;
    value *codes = unpacked(n, swapped(n, n->in[1]), 4, 1, (int64_t[]){-1});
    value *w = NODE(n, "Gather", table_of(n, kind), cast_to(n, codes, DT_I32));
    int64_t has = (count + 1) / 2 * 2, pads[] = {0, blocks * block - has};
    if (pads[1]) w = NODE(n, "Pad", w, insert_ints(n, pads, 2)); // a negative size cuts
    value *scales = cast_to(n, reshaped(n, n->in[2], 2, (int64_t[]){blocks, 1}), DT_F32);
    w = NODE(n, "Mul", reshaped(n, w, 2, (int64_t[]){blocks, block}), scales);
    if (blocks * block != count) w = sliced(n, reshaped(n, w, 1, (int64_t[]){-1}), 0, 0, count);
    return reshaped(n, w, 2, (int64_t[]){rows, columns});
}

static void matmul_bnb4_decompose(node *n) {
    int64_t rows = node_int(n, "N", 0), columns = node_int(n, "K", 0), block = node_int(n, "block_size", 0);
    int64_t kind = node_int(n, "quant_type", 0);
    if ((kind != 0 && kind != 1) || rows <= 0 || columns <= 0 || block < 16 || rows > INT32_MAX ||
        columns > INT32_MAX || block > INT32_MAX)
        infer_error(n,
                    "N is %lld, K is %lld, block_size is %lld, quant_type is %lld; block_size must be at "
                    "least 16, quant_type 0 (FP4) or 1 (NF4)",
                    (long long)rows, (long long)columns, (long long)block, (long long)kind);
    value *w =
        columns % block ? odd_rows(n, kind, rows, columns, block) : whole_rows(n, kind, rows, columns, block);
    // An Einsum reads the rows as they are made; a transposed copy would be written column by column.
    value *y = NODE(n, "Einsum", cast_to(n, n->in[0], DT_F32), w);
    with_string(y, "equation", node_int(n, "transB", 1) ? "...k,nk->...n" : "...k,kn->...n");
    give_output(n, 0, from_float(n, y, infer_in(n, 0)->elem));
}

MICROSOFT_OP(MatMulBnb4, matmul_bnb4_decompose);
