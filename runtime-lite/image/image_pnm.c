// PBM, PGM and PPM: P1 to P3 as text, P4 to P6 binary.
#include "runtime-lite/image/image.h"

static int next_byte(image_file *f) { return f->at < f->size ? f->bytes[f->at++] : -1; }

static int is_space(int c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// The first byte after white space and comments.
static int next_text(image_file *f) {
    int c = next_byte(f);
    while (is_space(c) || c == '#') {
        if (c == '#')
            while (c >= 0 && c != '\n') c = next_byte(f);
        else c = next_byte(f);
    }
    return c;
}

// A decimal number and the byte after it; -1: none, or too large a number.
static int64_t next_number(image_file *f) {
    int c = next_text(f);
    int64_t n = 0;
    if (c < '0' || c > '9') return -1;
    for (; c >= '0' && c <= '9'; c = next_byte(f))
        if ((n = n * 10 + (c - '0')) > INT32_MAX) return -1;
    return n;
}

// A sample of a text or a binary file, 0 to most; -1: none.
static int64_t next_sample(image_file *f, int text, int64_t most) {
    int high, low;
    if (text) {
        int64_t n;
        if (most > 1) return (n = next_number(f)) > most ? -1 : n;
        high = next_text(f); // P1 needs no space between samples
        return high == '0' || high == '1' ? high - '0' : -1;
    }
    high = next_byte(f);
    if (most < 256 || high < 0) return high > most ? -1 : high;
    low = next_byte(f);
    return low < 0 || high * 256 + low > most ? -1 : high * 256 + low;
}

static int read_bits(image_file *f, image *to) {
    for (int64_t y = 0; y < to->height; y++) {
        int byte = 0;
        for (int64_t x = 0; x < to->width; x++) {
            if (x % 8 == 0 && (byte = next_byte(f)) < 0) return IMAGE_CORRUPT;
            uint8_t *p = to->rgb + (y * to->width + x) * 3;
            p[0] = p[1] = p[2] = byte >> (7 - x % 8) & 1 ? 0 : 255;
        }
    }
    return IMAGE_DECODED;
}

static int read_samples(image_file *f, image *to, int kind, int64_t most) {
    int text = kind <= 3, colours = kind % 3 == 0, black_is_one = kind == 1;
    for (int64_t i = 0; i < to->height * to->width; i++) {
        uint8_t *p = to->rgb + i * 3;
        for (int c = 0; c < (colours ? 3 : 1); c++) {
            int64_t v = next_sample(f, text, most);
            if (v < 0) return IMAGE_CORRUPT;
            p[c] = (uint8_t)((v * 255 + most / 2) / most);
            if (black_is_one) p[c] = (uint8_t)(255 - p[c]);
        }
        if (!colours) p[1] = p[2] = p[0];
    }
    return IMAGE_DECODED;
}

int image_pnm(image_file *from, image *to) {
    int kind = from->bytes[1] - '0', result;
    int64_t width, height, most = 1;
    from->at = 2;
    width = next_number(from);
    height = next_number(from);
    if (kind != 1 && kind != 4) most = next_number(from);
    if (most < 1 || most > 65535) return IMAGE_CORRUPT;
    if (height > 0 && width > from->size * 8 / height) return IMAGE_CORRUPT; // at least a bit for each pixel
    result = image_new(to, height, width);
    if (result != IMAGE_DECODED) return result;
    return kind == 4 ? read_bits(from, to) : read_samples(from, to, kind, most);
}
