// Decodes an image. Written: the handle of a tensor of bytes, [height, width, channels]. Read: the file.
// Numbers: its size, the order of channels: 0 red, green and blue, 1 reversed, 2 grey only. Returns the number
// of a message of runtime-lite/image/image.h.
#include "runtime-lite/lib/lib.h"
#include "runtime-lite/lib/lib_value.h"

/* In the runtime, also for emitted C. */
int onnxc_rt_image_decode(const uint8_t *bytes, int64_t size, int64_t *height, int64_t *width, uint8_t **rgb);

ONNXC_LIB int onnxc_lib_image_decode(void **call, void *const *data, const int64_t *numbers) {
    int64_t dims[3] = {0, 0, 3}, order = numbers[1], i;
    uint8_t *rgb = NULL, *to;
    int failed = onnxc_rt_image_decode((const uint8_t *)data[1], numbers[0], &dims[0], &dims[1], &rgb);
    onnxc_value *v;
    if (failed) return failed;
    if (order == 2) dims[2] = 1;
    v = lib_tensor(call, DT_U8, 3, dims);
    to = v ? (uint8_t *)v->data : NULL;
    for (i = 0; v && i < dims[0] * dims[1]; i++) {
        const uint8_t *p = rgb + 3 * i;
        if (order == 2)
            to[i] = (uint8_t)((19595u * p[0] + 38470u * p[1] + 7471u * p[2] + 0x8000u) >> 16); /* BT.601 */
        else to[3 * i] = p[order ? 2 : 0], to[3 * i + 1] = p[1], to[3 * i + 2] = p[order ? 0 : 2];
    }
    free(rgb);
    if (!v) return LIB_NO_MEMORY;
    *(int64_t *)data[0] = lib_handle(v);
    return 0;
}
