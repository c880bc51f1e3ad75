// Which kernels want channels last. In: a kernel; out: its image and output, and their channels.
#ifndef ONNXC_PASSES_LAYOUT_CHANNELS_LAST_H
#define ONNXC_PASSES_LAYOUT_CHANNELS_LAST_H
#include "ir/kernel/program.h"

// What a kernel wants to lie channels-last: the image of a convolution (a factor's read whose index has a
// plain reduce axis that is not last, in a contraction whose other factor is a constant) with its output,
// where the channel is the other factor's own parallel axis; or the image or output of a transform.
typedef struct conv_form {
    buffer *image;   // NULL: none
    int channel;     // logical axis of the image
    buffer *out;     // NULL: none
    int out_channel; // logical axis of the output
} conv_form;

// False: the kernel has no such wish.
bool find_conv(const kernel *k, conv_form *f);
#endif
