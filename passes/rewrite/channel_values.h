// Values that are known for each channel at compile time: arithmetic on constants and on reads of constants. A channel is
// a position on the axes that decide on the values, such as the group and the column within it, or the value of an integer
// that depends on several axes but takes few values, such as the number of elements of a window at the edge of an image.
#ifndef ONNXC_PASSES_REWRITE_CHANNEL_VALUES_H
#define ONNXC_PASSES_REWRITE_CHANNEL_VALUES_H
#include "ir/kernel/eval.h"

enum { CHANNEL_AXES = 3, CHANNELS_MOST = 1 << 14 };

// Axes of a kernel, in its order. Channels are numbered row-major.
typedef struct channel_axes {
    const kernel *k;
    int n, axis[CHANNEL_AXES];
    int64_t elements; // of the largest constant that is read
    expr *number;     // whose values are the channels instead; NULL: none
    int_range values; // of it
} channel_axes;

// Adds the axes on which x depends. False: x is not known for each channel; a is unchanged.
bool channel_join(channel_axes *a, const expr *x);
// 1 without axes, 0: not known, too many, or more on several axes than the elements of any one constant.
int64_t channel_count(const channel_axes *a);
cell channel_value(const channel_axes *a, const expr *x, int64_t channel);
// Of the channel in a constant of all channels: indices and sizes. Out: how many, at most CHANNEL_AXES.
int channel_index(const channel_axes *a, kernel *k, expr **index, int64_t *sizes);
// Integers or floats of all channels, as a constant of that name unless all are equal.
expr *channel_numbers(const channel_axes *a, kernel *k, const char *name, dtype t, const cell *v);
#endif
