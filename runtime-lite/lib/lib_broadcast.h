/* Visits pairs of elements of two broadcast operands. Numbers: rank, dims, strides of both operands (in
 * elements; 0: the operand is broadcast). */
#ifndef ONNXC_LIB_BROADCAST_H
#define ONNXC_LIB_BROADCAST_H
#include "runtime-lite/lib/lib_base.h"

typedef struct lib_pairs {
    const int64_t *numbers;
    int64_t at[32], a, b, left;
} lib_pairs;

static void lib_pairs_start(lib_pairs *p, const int64_t *numbers) {
    int64_t j;
    memset(p, 0, sizeof *p);
    p->numbers = numbers;
    p->left = 1;
    for (j = 0; j < numbers[0]; j++) p->left *= numbers[1 + j];
}

static void lib_pairs_next(lib_pairs *p) {
    int64_t rank = p->numbers[0], j;
    const int64_t *dims = p->numbers + 1, *a = dims + rank, *b = a + rank;
    p->left--;
    for (j = rank - 1; j >= 0; j--) {
        p->a += a[j];
        p->b += b[j];
        if (++p->at[j] < dims[j]) return;
        p->a -= a[j] * dims[j];
        p->b -= b[j] * dims[j];
        p->at[j] = 0;
    }
}
#endif
