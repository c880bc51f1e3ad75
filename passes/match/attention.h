// Attention: kernels of the form scores, maximum, weights, sum, weighted values over the same rows.
#ifndef ONNXC_PASSES_MATCH_ATTENTION_H
#define ONNXC_PASSES_MATCH_ATTENTION_H
#include "ir/kernel/kernel.h"

typedef struct attention {
    const kernel *k;
    const stage *score, *value; // first and last of these stages
    int i;                      // query rows: the last outer axis
    int j, d;                   // keys, and the axis over which scores are summed (score stage)
    int e, jv;                  // columns of the result, and the keys (value stage)
    expr *q, *key;              // factors of the scores: key has axis j
    expr *v;                    // factor of the values
    const buffer *total;        // local of the sum of the weights
    const buffer *top;          // local of the scores' maximum; the result may read both
    const stage *kept;          // a last stage that only writes top and total, NULL: none
    int lanes;                  // of the CPU schedule
    bool many, few;             // the target has code for blocks of rows; for few rows
    bool tiles, blocks;         // it uses matrix tiles, products of blocks (ir/loops/loops_blocks.h)
    dim *scratch;               // bytes of scratch memory of the CPU schedule
} attention;

// Whether k has that form, for any target; lanes and scratch are not set. k only gets new expressions.
bool attention_match(kernel *k, attention *a);
#endif
