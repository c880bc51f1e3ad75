// Inverses of square matrices, by elimination with pivots in doubles. Written: the inverses [count, n, n], scratch of
// n * 2n doubles. Read: the matrices. Numbers: dtype (float or double), count, n.
#include "runtime-lite/lib/lib.h"

static double inverse_read(int64_t elem, const void *p, int64_t i) {
    return elem == DT_F64 ? ((const double *)p)[i] : (double)((const float *)p)[i];
}

static void inverse_write(int64_t elem, void *p, int64_t i, double v) {
    if (elem == DT_F64) ((double *)p)[i] = v;
    else ((float *)p)[i] = (float)v;
}

// The row from k on whose number in column k is the largest, in row k's place.
static void inverse_pivot(double *a, int64_t n, int64_t k) {
    int64_t best = k, i, j;
    for (i = k + 1; i < n; i++) {
        double x = a[i * 2 * n + k], y = a[best * 2 * n + k];
        if ((x < 0 ? -x : x) > (y < 0 ? -y : y)) best = i;
    }
    for (j = 0; best != k && j < 2 * n; j++) {
        double v = a[k * 2 * n + j];
        a[k * 2 * n + j] = a[best * 2 * n + j], a[best * 2 * n + j] = v;
    }
}

// [matrix, identity] becomes [identity, inverse].
static void inverse_eliminate(double *a, int64_t n) {
    int64_t i, j, k;
    for (k = 0; k < n; k++) {
        double *row = a + k * 2 * n, scale;
        inverse_pivot(a, n, k);
        scale = 1 / row[k];
        for (j = k; j < 2 * n; j++) row[j] *= scale;
        for (i = 0; i < n; i++) {
            double *other = a + i * 2 * n, factor = other[k];
            for (j = k; i != k && j < 2 * n; j++) other[j] -= factor * row[j];
        }
    }
}

ONNXC_LIB int onnxc_lib_inverse(void **call, void *const *data, const int64_t *numbers) {
    double *a = (double *)data[1];
    int64_t elem = numbers[0], n = numbers[2], b, i, j;
    (void)call;
    for (b = 0; b < numbers[1]; b++) {
        for (i = 0; i < n; i++)
            for (j = 0; j < n; j++) {
                a[i * 2 * n + j] = inverse_read(elem, data[2], (b * n + i) * n + j);
                a[i * 2 * n + n + j] = i == j;
            }
        inverse_eliminate(a, n);
        for (i = 0; i < n; i++)
            for (j = 0; j < n; j++) inverse_write(elem, data[0], (b * n + i) * n + j, a[i * 2 * n + n + j]);
    }
    return 0;
}
