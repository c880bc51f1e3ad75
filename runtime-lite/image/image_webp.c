// WebP by libwebp, without transparency; animations are not supported.
#include "runtime-lite/image/image.h"
#if __has_include(<webp/decode.h>)
#include <webp/decode.h>

#define FUNCTIONS(X) X(WebPGetInfo) X(WebPDecodeRGBInto)

int image_webp(image_file *from, image *to) {
    struct {
        FUNCTIONS(IMAGE_MEMBER)
    } f;
    int width, height;
    if (!IMAGE_LOAD("libwebp.so.7", &f, FUNCTIONS)) return IMAGE_NO_WEBP;
    size_t size = (size_t)from->size;
    if (!f.WebPGetInfo(from->bytes, size, &width, &height)) return IMAGE_CORRUPT;
    int result = image_new(to, height, width);
    if (result != IMAGE_DECODED) return result;
    size_t room = (size_t)to->width * (size_t)to->height * 3;
    return f.WebPDecodeRGBInto(from->bytes, size, to->rgb, room, width * 3) ? IMAGE_DECODED : IMAGE_CORRUPT;
}
#else
int image_webp(image_file *from, image *to) {
    (void)from, (void)to;
    return IMAGE_NO_WEBP;
}
#endif
