// Inverses of square matrices, by elimination with pivots in doubles. Written: the inverses [count, n, n], scratch of
// n * (n + 1) doubles. Read: the matrices. Numbers: dtype (float or double), count, n.
#include "runtime-lite/lib/lib.h"

static double inverse_read(int64_t elem, const void *p, int64_t i) {
    return elem == DT_F64 ? ((const double *)p)[i] : (double)((const float *)p)[i];
}

static void inverse_write(int64_t elem, void *p, int64_t i, double v) {
    if (elem == DT_F64) ((double *)p)[i] = v;
    else ((float *)p)[i] = (float)v;
}

// The row from k on whose number in column k is the largest.
static int64_t inverse_pivot(const double *a, int64_t n, int64_t k) {
    int64_t best = k, i;
    for (i = k + 1; i < n; i++) {
        double x = a[i * n + k], y = a[best * n + k];
        if ((x < 0 ? -x : x) > (y < 0 ? -y : y)) best = i;
    }
    return best;
}

static void inverse_swap(double *x, double *y, int64_t n, int64_t step) {
    int64_t j;
    for (j = 0; j < n; j++, x += step, y += step) {
        double v = *x;
        *x = *y, *y = v;
    }
}

static void inverse_subtract(double *restrict to, const double *restrict row, double factor, int64_t n) {
    int64_t j;
    for (j = 0; j < n; j++) to[j] -= factor * row[j];
}

// In place: [matrix, identity] becomes [identity, inverse], and each column of the identity is stored in the column of the
// matrix that it replaces. Swapped rows of the matrix are swapped columns of its inverse.
static void inverse_eliminate(double *a, int64_t *swapped, int64_t n) {
    int64_t i, j, k;
    for (k = 0; k < n; k++) {
        double *row = a + k * n, scale;
        swapped[k] = inverse_pivot(a, n, k);
        if (swapped[k] != k) inverse_swap(row, a + swapped[k] * n, n, 1);
        scale = 1 / row[k];
        row[k] = 1;
        for (j = 0; j < n; j++) row[j] *= scale;
        for (i = 0; i < n; i++) {
            double *other = a + i * n, factor = other[k];
            if (i == k) continue;
            other[k] = 0;
            inverse_subtract(other, row, factor, n);
        }
    }
    for (k = n - 1; k >= 0; k--)
        if (swapped[k] != k) inverse_swap(a + k, a + swapped[k], n, n);
}

ONNXC_LIB int onnxc_lib_inverse(void **call, void *const *data, const int64_t *numbers) {
    double *a = (double *)data[1];
    int64_t elem = numbers[0], n = numbers[2], b, i;
    (void)call;
    for (b = 0; b < numbers[1]; b++) {
        for (i = 0; i < n * n; i++) a[i] = inverse_read(elem, data[2], b * n * n + i);
        inverse_eliminate(a, (int64_t *)(void *)(a + n * n), n);
        for (i = 0; i < n * n; i++) inverse_write(elem, data[0], b * n * n + i, a[i]);
    }
    return 0;
}
