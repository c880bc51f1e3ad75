// Arithmetic of 64-bit integers.
#ifndef ONNXC_COMPILER_BASE_INTEGERS_H
#define ONNXC_COMPILER_BASE_INTEGERS_H
#include <stdint.h>

static inline int64_t int_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t int_max(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t int_clamp(int64_t v, int64_t lo, int64_t hi) { return v < lo ? lo : v > hi ? hi : v; }
static inline int64_t int_gcd(int64_t a, int64_t b) { return b ? int_gcd(b, a % b) : a; }
// The least multiple of unit that is no less than v. Neither is negative.
static inline int64_t round_up(int64_t v, int64_t unit) { return (v + unit - 1) / unit * unit; }
// 0, 1, -1, 2, -2 ... for j = 0, 1, 2 ...: candidates in the order of their distance.
static inline int alternate(int j) { return j % 2 ? (j + 1) / 2 : -j / 2; }
#endif
