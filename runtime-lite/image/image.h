/* Decoders of image files, each from bytes in memory to pixels of 8-bit red, green and blue. Those of BMP
 * and PNM are here. The others load a library of the system when they are called, so that objects need
 * nothing to link with; a decoder exists if the library's header was found when the runtime was built. */
#ifndef ONNXC_IMAGE_H
#define ONNXC_IMAGE_H
#include <stddef.h>
#include <stdint.h>

/* Those above 0 select a message of the operator (ir/ops/tensor/image.c). */
enum {
    IMAGE_NO_MEMORY = -1,
    IMAGE_DECODED,
    IMAGE_UNKNOWN, /* no known format */
    IMAGE_CORRUPT,
    IMAGE_TOO_LARGE,
    IMAGE_NO_JPEG, /* the library is missing, or its header was */
    IMAGE_NO_JPEG2000,
    IMAGE_NO_PNG,
    IMAGE_NO_TIFF,
    IMAGE_NO_WEBP
};

typedef struct image {
    int64_t height, width;
    uint8_t *rgb; /* from malloc; NULL until the size is known */
} image;

typedef struct image_file {
    const uint8_t *bytes;
    int64_t size, at; /* the position is for readers that the libraries call */
} image_file;

typedef int image_decoder(image_file *from, image *to);
image_decoder image_bmp, image_jpeg, image_jpeg2000, image_png, image_pnm, image_tiff, image_webp;

/* Gives the image its size and zeroed pixels: IMAGE_DECODED, or why not. Sizes below 1 are corrupt. */
int image_new(image *to, int64_t height, int64_t width);
/* Copies at most n bytes from the position, and advances it. */
int64_t image_read(image_file *from, void *to, int64_t n);

/* LIST(X) names functions of a library. They become members of a struct, which image_load fills. */
#define IMAGE_MEMBER(f) __typeof__(f) *f;
#define IMAGE_SYMBOL(f) #f,
#define IMAGE_LOAD(library, functions, LIST)                                                                 \
    image_load(library, (const char *const[]){LIST(IMAGE_SYMBOL) NULL}, functions, sizeof *(functions))
int image_load(const char *library, const char *const *symbols, void *functions, size_t bytes);

/* Called by the library function image_decode. The caller frees *rgb, which is set if the result is 0. */
int onnxc_rt_image_decode(const uint8_t *bytes, int64_t size, int64_t *height, int64_t *width, uint8_t **rgb);
#endif
