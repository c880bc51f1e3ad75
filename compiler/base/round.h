// Rounding of sizes: the least multiple of unit that is no less than v. Neither is negative.
#ifndef ONNXC_COMPILER_BASE_ROUND_H
#define ONNXC_COMPILER_BASE_ROUND_H
#include <stdint.h>

static inline int64_t round_up(int64_t v, int64_t unit) { return (v + unit - 1) / unit * unit; }
#endif
