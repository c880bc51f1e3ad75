// PNG by libpng: 16-bit samples lose their lower byte; transparency and gamma are ignored.
#include "runtime-lite/image/image.h"
#if __has_include(<png.h>)
#include <png.h>
#include <setjmp.h>
#include <stdlib.h>

#define FUNCTIONS(X)                                                                                         \
    X(png_create_read_struct)                                                                                \
    X(png_create_info_struct)                                                                                \
    X(png_destroy_read_struct)                                                                               \
    X(png_get_color_type)                                                                                    \
    X(png_get_image_height)                                                                                  \
    X(png_get_image_width)                                                                                   \
    X(png_get_rowbytes)                                                                                      \
    X(png_read_end)                                                                                          \
    X(png_read_info)                                                                                         \
    X(png_read_row)                                                                                          \
    X(png_read_update_info)                                                                                  \
    X(png_set_expand)                                                                                        \
    X(png_set_gray_to_rgb)                                                                                   \
    X(png_set_interlace_handling)                                                                            \
    X(png_set_read_fn)                                                                                       \
    X(png_set_strip_16)                                                                                      \
    X(png_set_strip_alpha)

typedef struct png {
    struct {
        FUNCTIONS(IMAGE_MEMBER)
    } f;
    jmp_buf failed;
    image_file *from;
    png_structp p;
    png_infop info;
    int result;
} png;

// What libpng passes to these functions is reached by functions of the library only.
static _Thread_local png *reading;

static void fail(png_structp p, png_const_charp message) {
    (void)p, (void)message;
    longjmp(reading->failed, 1);
}

static void ignore(png_structp p, png_const_charp message) { (void)p, (void)message; }

static void take(png_structp p, png_bytep to, size_t n) {
    if (image_read(reading->from, to, (int64_t)n) < (int64_t)n) fail(p, NULL);
}

static void decode(png *r, image *to) {
    r->f.png_set_read_fn(r->p, NULL, take);
    r->f.png_read_info(r->p, r->info);
    r->result =
        image_new(to, r->f.png_get_image_height(r->p, r->info), r->f.png_get_image_width(r->p, r->info));
    if (r->result != IMAGE_DECODED) return;
    r->f.png_set_expand(r->p);
    r->f.png_set_strip_16(r->p);
    r->f.png_set_strip_alpha(r->p);
    r->f.png_set_gray_to_rgb(r->p);
    int passes = r->f.png_set_interlace_handling(r->p);
    r->f.png_read_update_info(r->p, r->info);
    if ((int64_t)r->f.png_get_rowbytes(r->p, r->info) != to->width * 3) fail(r->p, NULL);
    for (int pass = 0; pass < passes; pass++)
        for (int64_t y = 0; y < to->height; y++) r->f.png_read_row(r->p, to->rgb + y * to->width * 3, NULL);
    r->f.png_read_end(r->p, NULL);
}

int image_png(image_file *from, image *to) {
    png *r = calloc(1, sizeof *r);
    if (!r) return IMAGE_NO_MEMORY;
    if (!IMAGE_LOAD("libpng16.so.16", &r->f, FUNCTIONS)) {
        free(r);
        return IMAGE_NO_PNG;
    }
    r->from = from;
    reading = r;
    if (setjmp(r->failed)) {
        r->result = IMAGE_CORRUPT;
    } else {
        r->p = r->f.png_create_read_struct(PNG_LIBPNG_VER_STRING, NULL, fail, ignore);
        r->info = r->p ? r->f.png_create_info_struct(r->p) : NULL;
        if (r->info) decode(r, to);
        else r->result = IMAGE_NO_MEMORY;
    }
    if (r->p) r->f.png_destroy_read_struct(&r->p, &r->info, NULL);
    int result = r->result;
    free(r);
    return result;
}
#else
int image_png(image_file *from, image *to) {
    (void)from, (void)to;
    return IMAGE_NO_PNG;
}
#endif
