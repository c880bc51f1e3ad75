// Selects the decoder by the first bytes of a file.
#include "runtime-lite/image/image.h"
#include "runtime-lite/system/system.h"
#include <stdlib.h>
#include <string.h>

enum { PIXELS_MOST = 1 << 28 };

int image_new(image *to, int64_t height, int64_t width) {
    if (height < 1 || width < 1) return IMAGE_CORRUPT;
    if (height > PIXELS_MOST || width > PIXELS_MOST / height) return IMAGE_TOO_LARGE;
    to->height = height, to->width = width;
    to->rgb = calloc((size_t)(height * width), 3);
    return to->rgb ? IMAGE_DECODED : IMAGE_NO_MEMORY;
}

int64_t image_read(image_file *from, void *to, int64_t n) {
    int64_t left = from->at < from->size ? from->size - from->at : 0;
    if (n > left) n = left;
    if (n > 0) memcpy(to, from->bytes + from->at, (size_t)n), from->at += n;
    return n > 0 ? n : 0;
}

// The library stays loaded, as other runs may use it.
int image_load(const char *library, const char *const *symbols, void *functions, size_t bytes) {
    void *handle = system_library(library);
    if (!handle) return 0;
    for (size_t i = 0; i < bytes / sizeof handle; i++) {
        void *f = system_symbol(handle, symbols[i]);
        if (!f) return 0;
        memcpy((char *)functions + i * sizeof f, &f, sizeof f); // POSIX: a function's address fits
    }
    return 1;
}

// A format is known by `magic` at byte `at`.
#define MAGIC(text) text, sizeof text - 1
static const struct {
    const char *magic;
    int64_t size, at;
    image_decoder *decode;
} formats[] = {
    {MAGIC("BM"), 0, image_bmp},
    {MAGIC("\xff\xd8\xff"), 0, image_jpeg},
    {MAGIC("\0\0\0\x0cjP  \r\n\x87\n"), 0, image_jpeg2000},
    {MAGIC("\xff\x4f\xff\x51"), 0, image_jpeg2000},
    {MAGIC("\x89PNG\r\n\x1a\n"), 0, image_png},
    {MAGIC("P1"), 0, image_pnm},
    {MAGIC("P2"), 0, image_pnm},
    {MAGIC("P3"), 0, image_pnm},
    {MAGIC("P4"), 0, image_pnm},
    {MAGIC("P5"), 0, image_pnm},
    {MAGIC("P6"), 0, image_pnm},
    {MAGIC("II*\0"), 0, image_tiff},
    {MAGIC("MM\0*"), 0, image_tiff},
    {MAGIC("II+\0"), 0, image_tiff},
    {MAGIC("MM\0+"), 0, image_tiff},
    {MAGIC("WEBP"), 8, image_webp},
};

int onnxc_rt_image_decode(const uint8_t *bytes, int64_t size, int64_t *height, int64_t *width,
                          uint8_t **rgb) {
    image_file from = {bytes, size, 0};
    image to = {0};
    int result = IMAGE_UNKNOWN;
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (size < formats[i].at + formats[i].size) continue;
        if (memcmp(bytes + formats[i].at, formats[i].magic, (size_t)formats[i].size) != 0) continue;
        result = formats[i].decode(&from, &to);
        break;
    }
    if (result != IMAGE_DECODED) free(to.rgb), to.rgb = NULL;
    *height = to.height, *width = to.width, *rgb = to.rgb;
    return result;
}
