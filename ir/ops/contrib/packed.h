// Weights that ONNX Runtime's operators take as bytes with several elements in each.
#ifndef ONNXC_IR_OPS_CONTRIB_PACKED_H
#define ONNXC_IR_OPS_CONTRIB_PACKED_H
#include "ir/ops/decompose.h"

// The unsigned elements of `bits` bits (1, 2, 4, 8) that the bytes v hold, lowest bits first, with these sizes (as of
// Reshape). A constant keeps its bytes and is reinterpreted; elements that are known only at run time become one byte each.
value *unpacked(node *n, value *v, int bits, int rank, const int64_t *sizes);
// The first `wants` elements along the last axis.
value *first_of_rows(node *n, value *v, int64_t wants);
// The elements of `elem`, of the same or fewer bits than a byte, that the bytes v hold, with these sizes.
value *reinterpreted_as(node *n, value *v, dtype elem, int rank, const int64_t *sizes);
value *from_float(node *n, value *v, dtype t); // the floats v as type t

// A matrix of weights, rows x columns, quantised in blocks along its columns.
typedef struct block_matrix {
    int64_t rows, columns, block;
    int bits;
    value *weights, *scales;
    value *zero;   // NULL: half of the range; bytes are packed, floats are not
    value *groups; // the block of each column; NULL: in order
} block_matrix;
// x * the transpose of the matrix, as floats.
value *product_with(node *n, value *x, const block_matrix *m);
#endif
