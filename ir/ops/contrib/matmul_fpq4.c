// MatMulFpQ4: weights as blocks of one column each, one column after the other: a scale, a zero point (type 1), and codes of
// four bits. A group of 32 codes has its first half in the low halves of 16 bytes.
#include "ir/ops/contrib/packed.h"
#include <string.h>

typedef struct blob {
    int64_t rows, columns, blocks; // rows of the transpose, which are columns of B
    int block, codes;              // elements of a block; the place of its codes
    const uint8_t *data;
} blob;

static constant *bytes_of(node *n, int64_t rows, int64_t columns) {
    return constant_new(infer_arena(n), DT_U8, 2, (int64_t[]){rows, columns});
}

static const uint8_t *all_bytes(node *n, const constant *c) {
    if (c->kind == CONST_BYTES) return c->data;
    uint8_t *bytes = ARENA_ARRAY(infer_arena(n), uint8_t, c->count + 1);
    memset(bytes, c->splat[0], (size_t)c->count);
    return bytes;
}

static blob blob_of(node *n) {
    const constant *shape = infer_constant(n, 2), *data = infer_constant(n, 1);
    int64_t kind = node_int(n, "blk_quant_type", 1);
    if (!shape || !data || shape->count != 2)
        infer_error(n, "the weights (input 1) and their two sizes (input 2) must be constants");
    if (kind < 0 || kind > 2)
        infer_error(n, "attribute blk_quant_type is %lld; it must be 0, 1 or 2", (long long)kind);
    blob b = {.columns = constant_int(shape, 0),
              .rows = constant_int(shape, 1),
              .block = kind == 2 ? 64 : 32,
              .codes = kind == 1 ? 5 : 4};
    if (b.rows < 1 || b.columns < 1 || b.rows > INT32_MAX || b.columns > INT32_MAX)
        infer_error(n, "input 2 gives %lld x %lld as the sizes of the weights", (long long)b.columns,
                    (long long)b.rows);
    b.blocks = (b.columns + b.block - 1) / b.block;
    int64_t bytes = b.rows * b.blocks * (b.codes + b.block / 2);
    if (data->count != bytes)
        infer_error(n, "the weights have %lld bytes; %lld x %lld elements need %lld", (long long)data->count,
                    (long long)b.columns, (long long)b.rows, (long long)bytes);
    b.data = all_bytes(n, data);
    return b;
}

// In the order of MatMulNBits, lowest bits first.
static void reorder(const uint8_t *from, int block, uint8_t *to) {
    for (int j = 0; j < block; j++) {
        uint8_t byte = from[j / 32 * 16 + j % 16], code = j % 32 < 16 ? byte & 15 : byte >> 4;
        to[j / 2] |= (uint8_t)(code << j % 2 * 4);
    }
}

static void matmul_fpq4_decompose(node *n) {
    blob b = blob_of(n);
    constant *codes = bytes_of(n, b.rows, b.blocks * b.block / 2),
             *zeros = bytes_of(n, b.rows, (b.blocks + 1) / 2);
    constant *scales = constant_new(infer_arena(n), DT_F32, 2, (int64_t[]){b.rows, b.blocks});
    for (int64_t i = 0; i < b.rows * b.blocks; i++) {
        const uint8_t *from = b.data + i * (b.codes + b.block / 2);
        memcpy((uint8_t *)scales->data + 4 * i, from, 4);
        reorder(from + b.codes, b.block, (uint8_t *)codes->data + i * b.block / 2);
        int64_t j = i % b.blocks;
        int zero = b.codes == 5 ? from[4] & 15 : 8;
        ((uint8_t *)zeros->data)[i / b.blocks * ((b.blocks + 1) / 2) + j / 2] |= (uint8_t)(zero << j % 2 * 4);
    }
    block_matrix m = {.rows = b.rows,
                      .columns = b.columns,
                      .block = b.block,
                      .bits = 4,
                      .weights = value_constant(n->graph, NULL, codes),
                      .scales = value_constant(n->graph, NULL, scales),
                      .zero = value_constant(n->graph, NULL, zeros)};
    give_output(n, 0, product_with(n, n->in[0], &m));
}

MICROSOFT_OP(MatMulFpQ4, matmul_fpq4_decompose);
