// Orders for qsort.
#ifndef ONNXC_COMPILER_BASE_ORDER_H
#define ONNXC_COMPILER_BASE_ORDER_H

static inline int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
#endif
