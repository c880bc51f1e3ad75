// Products with weights quantised in blocks: MatMulNBits. Sums are floats whatever the element type is; the accuracy that
// a model asks for (accuracy_level) is a minimum and changes nothing.
#include "ir/ops/contrib/packed.h"

static void check_count(const node *n, int i, int64_t count) {
    const type *t = infer_in(n, i);
    dim *has = infer_k(n, 1);
    for (int j = 0; j < infer_rank(n, i); j++) has = dim_mul(has, t->dims[j]);
    if (dim_equal(has, infer_k(n, count)) == TRI_NO)
        infer_error(n, "input %d has %s elements, not %lld", i, dim_text(infer_arena(n), has),
                    (long long)count);
}

// The block of each column, where that is not just column / block_size.
static value *block_order(node *n, const block_matrix *m) {
    value *groups = node_in(n, 4);
    if (!groups || !groups->constant) return groups;
    for (int64_t j = 0; j < m->columns && j < groups->constant->count; j++)
        if (constant_int(groups->constant, j) != j / m->block) return groups;
    return NULL;
}

static block_matrix matrix_of(node *n) {
    block_matrix m = {.rows = node_int(n, "N", 0),
                      .columns = node_int(n, "K", 0),
                      .block = node_int(n, "block_size", 0),
                      .bits = (int)node_int(n, "bits", 4),
                      .weights = n->in[1],
                      .scales = n->in[2],
                      .zero = node_in(n, 3)};
    if (m.bits != 2 && m.bits != 4 && m.bits != 8)
        infer_error(n, "attribute bits is %d; it must be 2, 4 or 8", m.bits);
    if (m.rows < 0 || m.columns < 0 || m.block < 16 || (m.block & (m.block - 1)))
        infer_error(n, "N is %lld, K is %lld, block_size is %lld; it must be a power of two, at least 16",
                    (long long)m.rows, (long long)m.columns, (long long)m.block);
    if (node_int(n, "weight_prepacked", 0))
        infer_error(
            n,
            "attribute weight_prepacked is %lld: weights in the layout of a GPU's library cannot be read; "
            "write the model without prepacking",
            (long long)node_int(n, "weight_prepacked", 0));
    int64_t blocks = (m.columns + m.block - 1) / m.block;
    check_count(n, 1, m.rows * blocks * m.block * m.bits / 8);
    check_count(n, 2, m.rows * blocks);
    if (m.zero) check_count(n, 3, m.rows * (m.zero->type.elem == DT_U8 ? (blocks * m.bits + 7) / 8 : blocks));
    m.groups = block_order(n, &m);
    return m;
}

// y = a * dequantised(b)' + bias
static void matmul_nbits_decompose(node *n) {
    block_matrix m = matrix_of(n);
    value *y = product_with(n, n->in[0], &m), *bias = node_in(n, 5);
    if (bias) y = NODE(n, "Add", y, cast_to(n, bias, DT_F32));
    give_output(n, 0, from_float(n, y, infer_in(n, 0)->elem));
}

MICROSOFT_OP(MatMulNBits, matmul_nbits_decompose);
