// Attention: kernels of the form scores, maximum, weights, sum, weighted values over the same rows.
#ifndef ONNXC_PASSES_MATCH_ATTENTION_H
#define ONNXC_PASSES_MATCH_ATTENTION_H
#include "ir/kernel/kernel.h"

typedef struct attention {
    const kernel *k;
    const stage *score, *value; // first and last stage
    int i;                      // query rows: the last outer axis
    int j, d;                   // keys, and what scores are summed over (score stage)
    int e, jv;                  // columns of the result, and the keys again (value stage)
    expr *q, *key;              // factors of the scores: key has axis j
    expr *v;                    // factor of the values
    const buffer *total;        // local that the result reads as the sum of the weights
    const buffer *top;          // local of the scores' maximum
    const stage *kept;          // a last stage that only writes top and total, NULL: none
    int lanes;                  // of CPUs' schedule
    dim *scratch;               // bytes that it needs
} attention;

// Whether it has that form, whatever the target; lanes and scratch are not set. k only gets expressions.
bool attention_match(kernel *k, attention *a);
#endif
