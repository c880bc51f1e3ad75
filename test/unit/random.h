// Pseudo-random numbers of unit tests: the same in every run.
#ifndef ONNXC_TEST_UNIT_RANDOM_H
#define ONNXC_TEST_UNIT_RANDOM_H
#include <stdint.h>

// 24 bits.
static inline uint32_t next(uint32_t *seed) { return (*seed = *seed * 1664525u + 1013904223u) >> 8; }
static inline double between(uint32_t *seed, double lo, double hi) {
    return lo + (hi - lo) * next(seed) / 0x1p24;
}
#endif
