// JPEG by libjpeg, with its default transform and upsampling.
#include "runtime-lite/image/image.h"
#if __has_include(<jpeglib.h>) && __has_include(<jconfig.h>)
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
// after the headers that they need
#include <jerror.h>
#include <jpeglib.h>

#if JPEG_LIB_VERSION >= 80
#define LIBRARY "libjpeg.so.8"
#else
#define LIBRARY "libjpeg.so.62"
#endif

#define FUNCTIONS(X)                                                                                         \
    X(jpeg_std_error)                                                                                        \
    X(jpeg_CreateDecompress)                                                                                 \
    X(jpeg_mem_src)                                                                                          \
    X(jpeg_read_header)                                                                                      \
    X(jpeg_start_decompress)                                                                                 \
    X(jpeg_read_scanlines)                                                                                   \
    X(jpeg_finish_decompress)                                                                                \
    X(jpeg_destroy_decompress)

typedef struct jpeg {
    struct {
        FUNCTIONS(IMAGE_MEMBER)
    } f;
    struct jpeg_decompress_struct d;
    struct jpeg_error_mgr errors;
    jmp_buf failed;
    uint8_t *row; // of an image with four components
    int result;
} jpeg;

static void fail(j_common_ptr d) {
    jpeg *j = d->client_data;
    j->result = d->err->msg_code == JERR_OUT_OF_MEMORY ? IMAGE_NO_MEMORY : IMAGE_CORRUPT;
    longjmp(j->failed, 1);
}

// The end of the data is only a warning of the library.
static void note(j_common_ptr d, int level) {
    if (level < 0 && d->err->msg_code == JWRN_JPEG_EOF) fail(d);
}

// The components are stored inverted in Adobe's files.
static void from_cmyk(const uint8_t *row, uint8_t *rgb, int64_t width, int inverted) {
    for (int64_t x = 0; x < width; x++)
        for (int c = 0; c < 3; c++) {
            int ink = row[x * 4 + c], black = row[x * 4 + 3];
            if (!inverted) ink = 255 - ink, black = 255 - black;
            rgb[x * 3 + c] = (uint8_t)((ink * black + 127) / 255);
        }
}

static void read_rows(jpeg *j, image *to) {
    int four = j->d.out_color_space == JCS_CMYK;
    while (j->d.output_scanline < j->d.output_height) {
        uint8_t *rgb = to->rgb + (int64_t)j->d.output_scanline * to->width * 3;
        JSAMPROW row = four ? j->row : rgb;
        j->f.jpeg_read_scanlines(&j->d, &row, 1);
        if (four) from_cmyk(j->row, rgb, to->width, j->d.saw_Adobe_marker);
    }
}

static void decode(jpeg *j, const image_file *from, image *to) {
    j->f.jpeg_CreateDecompress(&j->d, JPEG_LIB_VERSION, sizeof j->d);
    j->f.jpeg_mem_src(&j->d, (unsigned char *)from->bytes, (unsigned long)from->size);
    j->f.jpeg_read_header(&j->d, TRUE);
    j->result = image_new(to, j->d.image_height, j->d.image_width);
    if (j->result != IMAGE_DECODED) return;
    int four = j->d.jpeg_color_space == JCS_CMYK || j->d.jpeg_color_space == JCS_YCCK;
    j->d.out_color_space = four ? JCS_CMYK : JCS_RGB;
    if (four && !(j->row = malloc((size_t)to->width * 4))) {
        j->result = IMAGE_NO_MEMORY;
        return;
    }
    j->f.jpeg_start_decompress(&j->d);
    read_rows(j, to);
    j->f.jpeg_finish_decompress(&j->d);
}

int image_jpeg(image_file *from, image *to) {
    jpeg *j = calloc(1, sizeof *j);
    if (!j) return IMAGE_NO_MEMORY;
    if (!IMAGE_LOAD(LIBRARY, &j->f, FUNCTIONS)) {
        free(j);
        return IMAGE_NO_JPEG;
    }
    j->d.err = j->f.jpeg_std_error(&j->errors);
    j->d.client_data = j;
    j->errors.error_exit = fail;
    j->errors.emit_message = note;
    if (!setjmp(j->failed)) decode(j, from, to);
    j->f.jpeg_destroy_decompress(&j->d);
    int result = j->result;
    free(j->row);
    free(j);
    return result;
}
#else
int image_jpeg(image_file *from, image *to) {
    (void)from, (void)to;
    return IMAGE_NO_JPEG;
}
#endif
