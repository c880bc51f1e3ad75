// BMP: 1, 4, 8, 16, 24 and 32 bits per pixel, with a palette, with masks, and compressed by run lengths.
#include "runtime-lite/image/image.h"
#include <string.h>

enum { FILE_HEADER = 14, CORE_HEADER = 12, INFO_HEADER = 40, V2_HEADER = 52 };
enum { BMP_RGB, BMP_RLE8, BMP_RLE4, BMP_MASKS };

typedef struct bmp {
    image_file *from;
    image *to;
    int64_t pixels, palette, entry; // positions; bytes of an entry of the palette
    int64_t colours;
    uint32_t header, bits, compression, masks[3];
    int top_down;
} bmp;

// Little-endian; 0 beyond the end.
static uint32_t number_at(const image_file *f, int64_t at, int bytes) {
    uint32_t n = 0;
    for (int i = 0; i < bytes; i++)
        if (at >= 0 && at + i < f->size) n |= (uint32_t)f->bytes[at + i] << (8 * i);
    return n;
}

static int set_colour(const bmp *b, uint8_t *p, int64_t index) {
    int64_t at = b->palette + index * b->entry;
    if (index >= b->colours || at + 3 > b->from->size) return 0;
    for (int c = 0; c < 3; c++) p[c] = b->from->bytes[at + 2 - c];
    return 1;
}

// The bits of a mask as a number from 0 to 255.
static uint8_t masked(uint32_t pixel, uint32_t mask) {
    uint64_t most = mask, v = pixel & mask;
    if (!mask) return 0;
    while (!(most & 1)) most >>= 1, v >>= 1;
    return (uint8_t)((v * 255 + most / 2) / most);
}

static int read_row(const bmp *b, int64_t at, uint8_t *row) {
    const image_file *f = b->from;
    for (int64_t x = 0; x < b->to->width; x++) {
        uint8_t *p = row + x * 3;
        if (b->bits <= 8) {
            uint32_t per_byte = 8 / b->bits, shift = 8 - b->bits * (1 + (uint32_t)(x % per_byte));
            if (!set_colour(b, p, f->bytes[at + x / per_byte] >> shift & ((1u << b->bits) - 1))) return 0;
        } else if (b->bits == 24) {
            for (int c = 0; c < 3; c++) p[c] = f->bytes[at + x * 3 + 2 - c];
        } else {
            int bytes = (int)b->bits / 8;
            uint32_t pixel = number_at(f, at + x * bytes, bytes);
            for (int c = 0; c < 3; c++) p[c] = masked(pixel, b->masks[c]);
        }
    }
    return 1;
}

static int64_t row_bytes(const bmp *b, int64_t width) { return (width * b->bits + 31) / 32 * 4; }

// Whether the file has all rows, if they are not compressed.
static int is_whole(const bmp *b, int64_t height, int64_t width) {
    int64_t left = b->from->size - b->pixels;
    if (b->compression == BMP_RLE8 || b->compression == BMP_RLE4 || height < 1 || width < 1) return 1;
    return left >= 0 && row_bytes(b, width) <= left / height;
}

static int read_rows(const bmp *b) {
    int64_t stride = row_bytes(b, b->to->width);
    for (int64_t y = 0; y < b->to->height; y++) {
        int64_t from = b->top_down ? y : b->to->height - 1 - y;
        if (!read_row(b, b->pixels + from * stride, b->to->rgb + y * b->to->width * 3)) return IMAGE_CORRUPT;
    }
    return IMAGE_DECODED;
}

// ---------------------------------------------------------------- run lengths
// Pixel i of a run: both halves of a byte alternate, or the next byte.
static int run_pixel(const bmp *b, int64_t x, int64_t y, int64_t at, int64_t i, int literal) {
    int half = b->compression == BMP_RLE4;
    int64_t byte = at + (!literal ? 0 : half ? i / 2 : i);
    if (x >= b->to->width || y >= b->to->height || byte >= b->from->size) return 0;
    int v = b->from->bytes[byte];
    if (half) v = i % 2 ? v & 15 : v >> 4;
    return set_colour(b, b->to->rgb + ((b->to->height - 1 - y) * b->to->width + x) * 3, v);
}

// Pairs of bytes: a count and a value; or 0 and: 0 end of row, 1 end of image, 2 a step, else the count of values.
static int read_runs(const bmp *b) {
    const image_file *f = b->from;
    int64_t x = 0, y = 0, at = b->pixels;
    if (b->top_down) return IMAGE_CORRUPT;
    for (int64_t i = 0; i < b->to->height * b->to->width; i++) set_colour(b, b->to->rgb + i * 3, 0);
    while (at <= f->size - 2) {
        int count = f->bytes[at], value = f->bytes[at + 1], literal = !count && value > 2;
        at += 2;
        if (!count && value == 1) return IMAGE_DECODED;
        if (!count && value == 0) {
            x = 0, y++;
        } else if (!count && value == 2) {
            x += number_at(f, at, 1), y += number_at(f, at + 1, 1);
            at += 2;
        } else {
            int n = literal ? value : count;
            for (int64_t i = 0; i < n; i++)
                if (!run_pixel(b, x++, y, literal ? at : at - 1, i, literal)) return IMAGE_CORRUPT;
            if (literal) at += b->compression == BMP_RLE4 ? (n + 3) / 4 * 2 : (n + 1) / 2 * 2;
        }
    }
    return IMAGE_CORRUPT; // the end is missing
}

// ---------------------------------------------------------------- headers
static void read_masks(bmp *b) {
    static const uint32_t of_16[] = {0x7c00, 0x3e0, 0x1f}, of_32[] = {0xff0000, 0xff00, 0xff};
    memcpy(b->masks, b->bits == 16 ? of_16 : of_32, sizeof b->masks);
    for (int c = 0; c < 3 && b->compression == BMP_MASKS; c++)
        b->masks[c] = number_at(b->from, FILE_HEADER + INFO_HEADER + 4 * c, 4);
}

static int is_supported(const bmp *b) {
    switch (b->compression) {
    case BMP_RGB:
        return b->bits == 1 || b->bits == 4 || b->bits == 8 || b->bits == 16 || b->bits == 24 ||
               b->bits == 32;
    case BMP_RLE8: return b->bits == 8;
    case BMP_RLE4: return b->bits == 4;
    case BMP_MASKS: return b->bits == 16 || b->bits == 32;
    }
    return 0;
}

// The palette ends where the pixels begin.
static void read_palette(bmp *b) {
    int after = b->header == INFO_HEADER && b->compression == BMP_MASKS ? V2_HEADER - INFO_HEADER : 0;
    b->palette = FILE_HEADER + (int64_t)b->header + after;
    b->entry = b->header == CORE_HEADER ? 3 : 4;
    b->colours = b->bits <= 8 ? 1 << b->bits : 0;
    if (b->pixels > b->palette && b->colours > (b->pixels - b->palette) / b->entry)
        b->colours = (b->pixels - b->palette) / b->entry;
}

int image_bmp(image_file *from, image *to) {
    bmp b = {.from = from, .to = to, .pixels = number_at(from, 10, 4), .header = number_at(from, 14, 4)};
    int64_t width, height;
    if (b.header == CORE_HEADER) {
        width = number_at(from, 18, 2), height = number_at(from, 20, 2);
        b.bits = number_at(from, 24, 2);
    } else {
        width = (int32_t)number_at(from, 18, 4), height = (int32_t)number_at(from, 22, 4);
        b.bits = number_at(from, 28, 2), b.compression = number_at(from, 30, 4);
        if (b.header < INFO_HEADER) return IMAGE_CORRUPT;
    }
    if (!is_supported(&b)) return IMAGE_CORRUPT;
    b.top_down = height < 0;
    if (height < 0) height = -height;
    read_palette(&b);
    read_masks(&b);
    int result = is_whole(&b, height, width) ? image_new(to, height, width) : IMAGE_CORRUPT;
    if (result != IMAGE_DECODED) return result;
    return b.compression == BMP_RLE8 || b.compression == BMP_RLE4 ? read_runs(&b) : read_rows(&b);
}
