// Statistics of tensors: extremes, mean, deviation, and how many elements are NaN, infinite or zero.
#ifndef ONNXC_COMPILER_VALUES_STATS_H
#define ONNXC_COMPILER_VALUES_STATS_H
#include "compiler/base/json.h"
#include "ir/graph/tensor.h"

typedef struct stats {
    int64_t count, nans, infs, zeros;
    int64_t finite;         // elements that are neither
    double min, max;        // without NaN, with infinities; of no such elements: NaN
    double mean, squares;   // of finite elements; squares: sum of squared differences from the mean
    int64_t nan_at, inf_at; // the first of them; -1: none
    bool numbers;           // false: strings, complex numbers
} stats;

stats stats_none(void);
void stats_add(stats *s, const tensor *t); // the elements of t as well
double stats_deviation(const stats *s);    // standard deviation of the population
void stats_json(json *j, const stats *s);  // fields of an object
// "min -1, max 4, mean 0.5, 2 NaN"
const char *stats_text(arena *a, const stats *s);
// "%.4g", with "-" for NaN.
const char *number_text(arena *a, double v);
// "[1, 0]", where element i of t is; "" for scalars.
const char *position_text(arena *a, const tensor *t, int64_t i);
#endif
