// Values that are known for each channel at compile time: arithmetic on constants and on reads of constants. A channel is
// a position on the axes that decide on the values, such as the group and the column within it.
#ifndef ONNXC_PASSES_REWRITE_CHANNEL_VALUES_H
#define ONNXC_PASSES_REWRITE_CHANNEL_VALUES_H
#include "ir/kernel/eval.h"

enum { CHANNEL_AXES = 3, CHANNELS_MOST = 1 << 14 };

// Axes of a kernel, in its order. Channels are numbered row-major.
typedef struct channel_axes {
    const kernel *k;
    int n, axis[CHANNEL_AXES];
    int64_t elements; // of the largest constant that is read
} channel_axes;

// Adds the axes on which x depends. False: x is not known for each channel; a is unchanged.
bool channel_join(channel_axes *a, const expr *x);
// 1 without axes, 0: not known, too many, or more on several axes than the elements of any one constant.
int64_t channel_count(const channel_axes *a);
cell channel_value(const channel_axes *a, const expr *x, int64_t channel);
// Integers or floats of all channels, as a constant of that name unless all are equal.
expr *channel_numbers(const channel_axes *a, kernel *k, const char *name, dtype t, const cell *v);
#endif
