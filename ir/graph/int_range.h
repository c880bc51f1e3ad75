// Ranges of 64-bit integers: interval arithmetic in which INT64_MIN and INT64_MAX are infinities.
#ifndef ONNXC_IR_GRAPH_INT_RANGE_H
#define ONNXC_IR_GRAPH_INT_RANGE_H
#include <stdbool.h>
#include <stdint.h>

typedef struct int_range {
    int64_t min, max; // both included
} int_range;

#define INT_RANGE_ALL ((int_range){INT64_MIN, INT64_MAX})

static inline bool is_infinite(int64_t end) { return end == INT64_MIN || end == INT64_MAX; }
static inline bool int_range_within(int_range x, int_range of) { return x.min >= of.min && x.max <= of.max; }

// The results for operands of two ranges, without wrapping: beyond 64 bits there is only infinity.
int_range int_range_add(int_range a, int_range b);
int_range int_range_sub(int_range a, int_range b);
int_range int_range_mul(int_range a, int_range b);
int_range int_range_min(int_range a, int_range b);
int_range int_range_max(int_range a, int_range b);
int_range int_range_hull(int_range a, int_range b); // of one or the other
// Division that rounds down, and its remainder, which has the sign of b; by other numbers than 0.
int_range int_range_floordiv(int_range a, int_range b);
int_range int_range_mod(int_range a, int_range b);

int64_t floor_div(int64_t a, int64_t b); // b not 0, no overflow
#endif
