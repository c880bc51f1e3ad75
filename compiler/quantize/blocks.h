// Weights in blocks with a scale each.
#ifndef ONNXC_COMPILER_QUANTIZE_BLOCKS_H
#define ONNXC_COMPILER_QUANTIZE_BLOCKS_H
#include "compiler/quantize/impl.h"

typedef enum block_method { BLOCK_MINMAX, BLOCK_MSE, BLOCK_KQUANT, BLOCK_GPTQ } block_method;

typedef struct block_format {
    dtype type, scale;
    int least, most; // codes
    bool symmetric;  // the zero point is 0
} block_format;

typedef struct block_scale {
    double scale;
    int zero;
} block_scale;

// What the samples say of the rows that a product reads.
typedef struct moments {
    int64_t length, rows;
    double *squares; // by element, their mean
    float *products; // X^T X; NULL: not needed
} moments;

typedef struct block_weights {
    block_format format;
    block_method method;
    int input, axis; // of the node's weights
    int64_t block;   // 0: the whole axis
    const double *moments;
    const float *inverse; // gptq: the upper Cholesky factor of the inverse of X^T X; NULL: no samples
    // By block_quantise:
    int64_t length, inner, nblocks;
    const float *w;
    int8_t *codes;
    block_scale *scales;
} block_weights;

int block_code(const block_format *f, const block_scale *s, double w);
block_scale block_fit(const block_format *f, block_method method, const float *w, const double *h, int n);
// The DequantizeLinear of input b.input of n, before n.
value *block_quantise(plan *p, node *n, block_weights b);

// gptq.c
typedef struct algebra algebra;
algebra *algebra_open(const plan *p);
// c += x^T x; x has `rows` rows of n.
void add_products(const algebra *l, const float *x, int64_t rows, int64_t n, float *c);
// The factor for gptq_rows; NULL: the matrix is not positive definite.
float *inverse_factor(const algebra *l, arena *a, const float *products, int64_t n);
// Rows of w, which change: each element takes over what rounding the ones before has lost.
void gptq_rows(const block_weights *b, int nrows, float *w, int *codes, block_scale *scales);
#endif
