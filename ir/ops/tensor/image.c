// ImageDecoder: a library function of the runtime decodes into a new tensor and returns its sizes.
#include "ir/ops/runtime_args.h"
#include "ir/ops/value.h"
#include <string.h>

static const char *const orders[] = {"RGB", "BGR", "Grayscale"}; // as lib_image_decode.c numbers them

static int pixel_order(const node *n) {
    const char *format = node_string(n, "pixel_format", "RGB");
    for (int j = 0; j < (int)(sizeof orders / sizeof *orders); j++)
        if (strcmp(format, orders[j]) == 0) return j;
    infer_error(n, "pixel_format is '%s', not RGB, BGR or Grayscale", format);
}

static void decoder_infer(node *n) {
    const type *in = infer_in(n, 0);
    if (infer_rank(n, 0) != 1)
        infer_error(n, "the file must be a list of bytes, but is %s", type_text(infer_arena(n), in));
    dim *channels = infer_k(n, pixel_order(n) == 2 ? 1 : 3);
    dim *out[] = {infer_data_dim(n, "height", NULL), infer_data_dim(n, "width", NULL), channels};
    infer_set(n, 0, DT_U8, 3, out);
}

#define NEEDS(format, library)                                                                               \
    format " images need " library                                                                           \
           ", which is not installed on this machine or was not found when the runtime was built"

// By the numbers of runtime-lite/image/image.h.
static const char *const decoder_messages[] = {
    "the data is not an image in a known format (BMP, JPEG, JPEG 2000, PNG, PNM, TIFF, WebP)",
    "the image is corrupt, uses a feature of its format that is not supported, or needs too much memory",
    "the image has more than 2^28 pixels",
    NEEDS("JPEG", "libjpeg-turbo"),
    NEEDS("JPEG 2000", "OpenJPEG"),
    NEEDS("PNG", "libpng"),
    NEEDS("TIFF", "libtiff 4.5"),
    NEEDS("WebP", "libwebp"),
};

static void decoder_lower(lowering *l, node *n) {
    buffer *file = lower_in(l, n, 0), *handle = lower_temp(l, n, "image", DT_I64, 0, NULL);
    step *s = lower_call(l, n, "image_decode", 1, BUFFERS(handle, file),
                         DIMS(file->dims[0], infer_k(n, pixel_order(n))));
    s->messages = decoder_messages;
    s->nmessages = sizeof decoder_messages / sizeof *decoder_messages;
    value_to_output(l, n, handle);
}

OPERATOR(ImageDecoder, .infer = decoder_infer, .lower = decoder_lower, .uses_system = true);
