// Values that are known for each channel at compile time: arithmetic on constants and on reads of constants.
#ifndef ONNXC_PASSES_REWRITE_CHANNEL_VALUES_H
#define ONNXC_PASSES_REWRITE_CHANNEL_VALUES_H
#include "ir/kernel/eval.h"

enum { NO_CHANNEL = -1, SEVERAL_CHANNELS = -2, CHANNELS_MOST = 1 << 14 };

// The axis whose position decides on the value, NO_CHANNEL if the value is the same everywhere; SEVERAL_CHANNELS: the
// value is not known, or depends on more than one axis.
int channel_axis(const expr *x);
// Reads have constant indices or plain axes only.
bool has_plain_reads(const expr *x);
// Of an expression with an axis or without, and with plain reads.
cell channel_value(const expr *x, int64_t position);
#endif
