// JPEG 2000 by OpenJPEG: a JP2 file or a bare codestream.
#include "runtime-lite/image/image.h"
#if __has_include(<openjpeg-2.5/openjpeg.h>)
#include <openjpeg-2.5/openjpeg.h>
#define HAS_HEADER
#elif __has_include(<openjpeg.h>)
#include <openjpeg.h>
#define HAS_HEADER
#endif
#ifdef HAS_HEADER
enum { STREAM_BUFFER = 1 << 16 };

#define FUNCTIONS(X)                                                                                         \
    X(opj_create_decompress)                                                                                 \
    X(opj_decode)                                                                                            \
    X(opj_destroy_codec)                                                                                     \
    X(opj_image_destroy)                                                                                     \
    X(opj_read_header)                                                                                       \
    X(opj_set_default_decoder_parameters)                                                                    \
    X(opj_setup_decoder)                                                                                     \
    X(opj_stream_create)                                                                                     \
    X(opj_stream_destroy)                                                                                    \
    X(opj_stream_set_read_function)                                                                          \
    X(opj_stream_set_seek_function)                                                                          \
    X(opj_stream_set_skip_function)                                                                          \
    X(opj_stream_set_user_data)                                                                              \
    X(opj_stream_set_user_data_length)

typedef struct jpeg2000 {
    FUNCTIONS(IMAGE_MEMBER)
} jpeg2000;

static OPJ_SIZE_T take(void *to, OPJ_SIZE_T n, void *user) {
    int64_t got = image_read(user, to, (int64_t)n);
    return got ? (OPJ_SIZE_T)got : (OPJ_SIZE_T)-1;
}

static OPJ_BOOL seek(OPJ_OFF_T to, void *user) {
    image_file *f = user;
    if (to < 0 || to > f->size) return OPJ_FALSE;
    f->at = to;
    return OPJ_TRUE;
}

static OPJ_OFF_T skip(OPJ_OFF_T n, void *user) {
    image_file *f = user;
    if (n < 0 || n > f->size - f->at) return -1;
    f->at += n;
    return n;
}

static opj_stream_t *open_stream(const jpeg2000 *f, image_file *from) {
    opj_stream_t *s = f->opj_stream_create(STREAM_BUFFER, OPJ_TRUE);
    if (!s) return NULL;
    f->opj_stream_set_user_data(s, from, NULL);
    f->opj_stream_set_user_data_length(s, (OPJ_UINT64)from->size);
    f->opj_stream_set_read_function(s, take);
    f->opj_stream_set_seek_function(s, seek);
    f->opj_stream_set_skip_function(s, skip);
    return s;
}

static uint8_t to_byte(double v) { return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v + 0.5); }

// A component at a pixel, from 0 to 255. Components may have fewer columns and rows.
static double sample(const opj_image_t *from, int component, int64_t x, int64_t y) {
    const opj_image_comp_t *c = &from->comps[component];
    x /= c->dx, y /= c->dy;
    if (x >= c->w) x = c->w - 1;
    if (y >= c->h) y = c->h - 1;
    double v = c->data[y * c->w + x], most = (double)((1ull << c->prec) - 1);
    if (c->sgnd) v += (double)(1ull << (c->prec - 1));
    return v * 255 / most;
}

static int is_whole(const opj_image_t *from, int components) {
    for (int j = 0; j < components; j++) {
        const opj_image_comp_t *c = &from->comps[j];
        if (!c->data || !c->w || !c->h || !c->dx || !c->dy || c->prec < 1 || c->prec > 31) return 0;
    }
    return 1;
}

static int store(const opj_image_t *from, image *to) {
    int components = from->numcomps >= 3 ? 3 : 1;
    if (!from->numcomps || !is_whole(from, components)) return IMAGE_CORRUPT;
    for (int64_t y = 0; y < to->height; y++)
        for (int64_t x = 0; x < to->width; x++) {
            uint8_t *p = to->rgb + (y * to->width + x) * 3;
            double v[3];
            for (int c = 0; c < 3; c++) v[c] = sample(from, components == 3 ? c : 0, x, y);
            if (components == 3 && from->color_space == OPJ_CLRSPC_SYCC) {
                double luma = v[0], blue = v[1] - 128, red = v[2] - 128;
                v[0] = luma + 1.402 * red;
                v[1] = luma - 0.344136 * blue - 0.714136 * red;
                v[2] = luma + 1.772 * blue;
            }
            for (int c = 0; c < 3; c++) p[c] = to_byte(v[c]);
        }
    return IMAGE_DECODED;
}

static int decode(const jpeg2000 *f, opj_codec_t *codec, opj_stream_t *s, image *to) {
    opj_dparameters_t parameters;
    opj_image_t *from = NULL;
    int result = IMAGE_CORRUPT;
    f->opj_set_default_decoder_parameters(&parameters);
    if (f->opj_setup_decoder(codec, &parameters) && f->opj_read_header(s, codec, &from))
        result = image_new(to, (int64_t)from->y1 - from->y0, (int64_t)from->x1 - from->x0);
    if (result == IMAGE_DECODED) result = f->opj_decode(codec, s, from) ? store(from, to) : IMAGE_CORRUPT;
    if (from) f->opj_image_destroy(from);
    return result;
}

int image_jpeg2000(image_file *from, image *to) {
    jpeg2000 f;
    if (!IMAGE_LOAD("libopenjp2.so.7", &f, FUNCTIONS)) return IMAGE_NO_JPEG2000;
    opj_codec_t *codec = f.opj_create_decompress(from->bytes[0] == 0xff ? OPJ_CODEC_J2K : OPJ_CODEC_JP2);
    opj_stream_t *s = open_stream(&f, from);
    int result = codec && s ? decode(&f, codec, s, to) : IMAGE_NO_MEMORY;
    if (s) f.opj_stream_destroy(s);
    if (codec) f.opj_destroy_codec(codec);
    return result;
}
#else
int image_jpeg2000(image_file *from, image *to) {
    (void)from, (void)to;
    return IMAGE_NO_JPEG2000;
}
#endif
