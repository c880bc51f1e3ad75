// The schedule of attention: kernels of the form scores, maximum, weights, sum, weighted values over the same
// rows.
#ifndef ONNXC_SCHEDULE_ATTENTION_H
#define ONNXC_SCHEDULE_ATTENTION_H
#include "passes/emit.h"

typedef struct attention {
    const kernel *k;
    const stage *score, *value; // first and last stage
    int i;                      // query rows: the last outer axis
    int j, d;                   // keys, and what scores are summed over (score stage)
    int e, jv;                  // columns of the result, and the keys again (value stage)
    expr *q, *key;              // factors of the scores: key has axis j
    expr *v;                    // factor of the values
    const buffer *total;        // local that the result reads as the sum of the weights
    int lanes;
    dim *scratch; // bytes it needs
} attention;

bool attention_find(const kernel *k, const target *t, attention *a);
// The whole kernel; scratch points to a->scratch bytes.
void schedule_attention(emitter *e, const attention *a, ins *scratch);
#endif
