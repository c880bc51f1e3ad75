// Which kernels prefer channels-last. In: a kernel. Out: its image and output, and their channel axes.
#ifndef ONNXC_PASSES_LAYOUT_CHANNELS_LAST_H
#define ONNXC_PASSES_LAYOUT_CHANNELS_LAST_H
#include "ir/kernel/program.h"
#include "ir/target.h"

// Buffers that a kernel prefers channels-last: the image of a convolution (a factor's read whose index has a
// plain reduce axis that is not last, in a contraction whose other factor is a constant) and its output,
// whose channel is the parallel axis of the other factor; or the image or output of a Winograd transform.
typedef struct conv_form {
    buffer *image;   // NULL: none
    int channel;     // logical axis of the image
    buffer *out;     // NULL: none
    int out_channel; // logical axis of the output
} conv_form;

// False: the kernel has no preference.
bool find_conv(const kernel *k, const target *t, conv_form *f);
// A product of single places of an image, not of a matrix, with weights that the run computes: it has no preference, but writes its
// result as its image is. False: another kernel.
bool find_places(const kernel *k, conv_form *f);
// Whether a convolution is the product of its weights and the row-major image, as one of single places is.
bool multiplies_rows(const kernel *k, const conv_form *f);
#endif
