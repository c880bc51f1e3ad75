// Products of complex numbers at given places. Written: a copy of data in which the element at each place is
// multiplied by the factor there, in order. Read: n data, m places (int64), m factors. Numbers: n, m, whether
// the parts are double instead of float.
#include "runtime-lite/lib/lib.h"

ONNXC_LIB int onnxc_lib_scatter_mul(void **call, void *const *data, const int64_t *numbers) {
    const int64_t *place = (const int64_t *)data[2];
    int64_t i, wide = numbers[2];
    (void)call;
    memcpy(data[0], data[1], (size_t)(numbers[0] * (wide ? 16 : 8)));
    for (i = 0; i < numbers[1]; i++)
        if (wide) {
            double *x = (double *)data[0] + 2 * place[i], re = x[0];
            const double *y = (const double *)data[3] + 2 * i;
            x[0] = re * y[0] - x[1] * y[1];
            x[1] = re * y[1] + x[1] * y[0];
        } else {
            float *x = (float *)data[0] + 2 * place[i], re = x[0];
            const float *y = (const float *)data[3] + 2 * i;
            x[0] = re * y[0] - x[1] * y[1];
            x[1] = re * y[1] + x[1] * y[0];
        }
    return 0;
}
