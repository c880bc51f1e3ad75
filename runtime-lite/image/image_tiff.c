// TIFF by libtiff: the first image of the file.
#include "runtime-lite/image/image.h"
#if __has_include(<tiffio.h>)
#include <tiffio.h>
#endif
#if defined(TIFFLIB_VERSION) && TIFFLIB_VERSION >= 20221213 // 4.5, the first with messages by file
#include <stdlib.h>

enum { BYTES_MOST = 1 << 30 }; // of one allocation

#define FUNCTIONS(X)                                                                                         \
    X(TIFFClientOpenExt)                                                                                     \
    X(TIFFClose)                                                                                             \
    X(TIFFGetField)                                                                                          \
    X(TIFFReadRGBAImageOriented)                                                                             \
    X(TIFFOpenOptionsAlloc)                                                                                  \
    X(TIFFOpenOptionsFree)                                                                                   \
    X(TIFFOpenOptionsSetMaxSingleMemAlloc)                                                                   \
    X(TIFFOpenOptionsSetErrorHandlerExtR)                                                                    \
    X(TIFFOpenOptionsSetWarningHandlerExtR)

typedef struct tiff_functions {
    FUNCTIONS(IMAGE_MEMBER)
} tiff_functions;

static int ignore(TIFF *t, void *user, const char *module, const char *format, va_list list) {
    (void)t, (void)user, (void)module, (void)format, (void)list;
    return 1;
}

static tmsize_t take(thandle_t user, void *to, tmsize_t n) { return (tmsize_t)image_read(user, to, n); }

static tmsize_t give(thandle_t user, void *from, tmsize_t n) {
    (void)user, (void)from, (void)n;
    return -1;
}

static toff_t seek(thandle_t user, toff_t to, int whence) {
    image_file *f = user;
    int64_t base = whence == SEEK_CUR ? f->at : whence == SEEK_END ? f->size : 0;
    if (to > INT64_MAX - (uint64_t)base) return (toff_t)-1;
    return (toff_t)(f->at = base + (int64_t)to);
}

static int leave(thandle_t user) {
    (void)user;
    return 0;
}

static toff_t size_of(thandle_t user) { return (toff_t)((image_file *)user)->size; }

static TIFF *open_file(const tiff_functions *f, image_file *from) {
    TIFFOpenOptions *o = f->TIFFOpenOptionsAlloc();
    if (!o) return NULL;
    f->TIFFOpenOptionsSetMaxSingleMemAlloc(o, BYTES_MOST);
    f->TIFFOpenOptionsSetErrorHandlerExtR(o, ignore, NULL);
    f->TIFFOpenOptionsSetWarningHandlerExtR(o, ignore, NULL);
    TIFF *t = f->TIFFClientOpenExt("", "rm", from, take, give, seek, leave, size_of, NULL, NULL, o);
    f->TIFFOpenOptionsFree(o);
    return t;
}

static int decode(const tiff_functions *f, TIFF *t, image *to) {
    uint32_t height = 0, width = 0;
    if (!f->TIFFGetField(t, TIFFTAG_IMAGEWIDTH, &width) || !f->TIFFGetField(t, TIFFTAG_IMAGELENGTH, &height))
        return IMAGE_CORRUPT;
    int result = image_new(to, height, width);
    if (result != IMAGE_DECODED) return result;
    size_t n = (size_t)height * width;
    uint32_t *pixels = malloc(n * sizeof *pixels);
    if (!pixels) return IMAGE_NO_MEMORY;
    if (!f->TIFFReadRGBAImageOriented(t, width, height, pixels, ORIENTATION_TOPLEFT, 1))
        result = IMAGE_CORRUPT;
    for (size_t i = 0; i < n && result == IMAGE_DECODED; i++) {
        to->rgb[3 * i] = (uint8_t)TIFFGetR(pixels[i]);
        to->rgb[3 * i + 1] = (uint8_t)TIFFGetG(pixels[i]);
        to->rgb[3 * i + 2] = (uint8_t)TIFFGetB(pixels[i]);
    }
    free(pixels);
    return result;
}

int image_tiff(image_file *from, image *to) {
    tiff_functions f;
    if (!IMAGE_LOAD("libtiff.so.6", &f, FUNCTIONS)) return IMAGE_NO_TIFF;
    TIFF *t = open_file(&f, from);
    if (!t) return IMAGE_CORRUPT;
    int result = decode(&f, t, to);
    f.TIFFClose(t);
    return result;
}
#else
int image_tiff(image_file *from, image *to) {
    (void)from, (void)to;
    return IMAGE_NO_TIFF;
}
#endif
