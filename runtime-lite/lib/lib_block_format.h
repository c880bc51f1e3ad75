/* Weights packed in the block formats of GGML. In: the bytes of a block. Out: its elements as
 *
 *   q[j] * scale[j / group] - least[j / group]
 *
 * with integers q of at most 8 bits. Sums of products need no more than these, and sums of a group's other factors. */
#ifndef ONNXC_LIB_BLOCK_FORMAT_H
#define ONNXC_LIB_BLOCK_FORMAT_H
#include "runtime-lite/lib/lib_base.h"
#include "runtime-lite/lib/lib_block_grids.h"

enum { LIB_BLOCK_MOST = 256, LIB_GROUPS_MOST = 16 };

/* The numbers that files have for formats. */
typedef enum lib_block_kind {
    BLOCK_F32 = 0,
    BLOCK_F16 = 1,
    BLOCK_Q4_0 = 2,
    BLOCK_Q4_1 = 3,
    BLOCK_Q5_0 = 6,
    BLOCK_Q5_1 = 7,
    BLOCK_Q8_0 = 8,
    BLOCK_Q2_K = 10,
    BLOCK_Q3_K = 11,
    BLOCK_Q4_K = 12,
    BLOCK_Q5_K = 13,
    BLOCK_Q6_K = 14,
    BLOCK_IQ2_XXS = 16,
    BLOCK_IQ2_XS = 17,
    BLOCK_IQ3_XXS = 18,
    BLOCK_IQ4_NL = 20,
    BLOCK_IQ2_S = 22,
    BLOCK_IQ4_XS = 23,
    BLOCK_BF16 = 30,
    BLOCK_MXFP4 = 39,
    BLOCK_NVFP4 = 40,
    BLOCK_Q2_0 = 42
} lib_block_kind;

/* Bits of all elements, from byte `at` on. Elements of a run share its bytes: the lowest bits are the first elements', in
 * the order of the bytes, the next ones those of as many elements behind. */
typedef struct lib_block_bits {
    short at, bits, run;
} lib_block_bits;

/* Elements of a block, its bytes, elements of a group; q = low + 2^bits * high - zero, or what these number; whether there
 * are `least`. */
typedef struct lib_block_format {
    short kind, elements, bytes, group;
    lib_block_bits low, high;
    short zero, has_least;
} lib_block_format;

/* The bits of single floats are left out: they are q = 1 times a scale. */
static const lib_block_format LIB_BLOCK_FORMATS[] = {
    {BLOCK_F32, 1, 4, 1, {0, 0, 1}, {0, 0, 1}, -1, 0},
    {BLOCK_F16, 1, 2, 1, {0, 0, 1}, {0, 0, 1}, -1, 0},
    {BLOCK_BF16, 1, 2, 1, {0, 0, 1}, {0, 0, 1}, -1, 0},
    {BLOCK_Q4_0, 32, 18, 32, {2, 4, 32}, {0, 0, 1}, 8, 0},
    {BLOCK_Q4_1, 32, 20, 32, {4, 4, 32}, {0, 0, 1}, 0, 1},
    {BLOCK_Q5_0, 32, 22, 32, {6, 4, 32}, {2, 1, 8}, 16, 0},
    {BLOCK_Q5_1, 32, 24, 32, {8, 4, 32}, {4, 1, 8}, 0, 1},
    {BLOCK_Q8_0, 32, 34, 32, {2, 8, 1}, {0, 0, 1}, 0, 0},
    {BLOCK_Q2_K, 256, 84, 16, {16, 2, 128}, {0, 0, 1}, 0, 1},
    {BLOCK_Q3_K, 256, 110, 16, {32, 2, 128}, {0, 1, 256}, 4, 0},
    {BLOCK_Q4_K, 256, 144, 32, {16, 4, 64}, {0, 0, 1}, 0, 1},
    {BLOCK_Q5_K, 256, 176, 32, {48, 4, 64}, {16, 1, 256}, 0, 1},
    {BLOCK_Q6_K, 256, 210, 16, {0, 4, 128}, {128, 2, 128}, 32, 0},
    {BLOCK_IQ2_XXS, 256, 66, 32, {0, 0, 1}, {0, 0, 1}, 0, 0},
    {BLOCK_IQ2_XS, 256, 74, 16, {0, 0, 1}, {0, 0, 1}, 0, 0},
    {BLOCK_IQ2_S, 256, 82, 16, {0, 0, 1}, {0, 0, 1}, 0, 0},
    {BLOCK_IQ3_XXS, 256, 98, 32, {0, 0, 1}, {0, 0, 1}, 0, 0},
    {BLOCK_IQ4_NL, 32, 18, 32, {2, 4, 32}, {0, 0, 1}, 0, 0},
    {BLOCK_IQ4_XS, 256, 136, 32, {8, 4, 32}, {0, 0, 1}, 0, 0},
    {BLOCK_MXFP4, 32, 17, 32, {1, 4, 32}, {0, 0, 1}, 0, 0},
    {BLOCK_NVFP4, 64, 36, 16, {4, 4, 16}, {0, 0, 1}, 0, 0},
    {BLOCK_Q2_0, 64, 18, 64, {2, 2, 4}, {0, 0, 1}, 1, 0},
};

/* NULL: there is none of this number. */
ONNXC_MAYBE_UNUSED static const lib_block_format *lib_block_format_of(int64_t kind) {
    size_t i;
    for (i = 0; i < sizeof LIB_BLOCK_FORMATS / sizeof *LIB_BLOCK_FORMATS; i++)
        if (LIB_BLOCK_FORMATS[i].kind == kind) return &LIB_BLOCK_FORMATS[i];
    return NULL;
}

/* ---- Numbers */
static uint32_t lib_block_word(const unsigned char *p, int bytes) {
    uint32_t v = 0;
    int i;
    for (i = 0; i < bytes; i++) v |= (uint32_t)p[i] << 8 * i;
    return v;
}

static float lib_block_float(uint32_t bits) {
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

/* 2^e */
static float lib_block_power(int e) {
    return e < -126 ? lib_block_float((uint32_t)1 << (e + 149)) : lib_block_float((uint32_t)(e + 127) << 23);
}

static float lib_block_half(const unsigned char *p) {
    uint32_t h = lib_block_word(p, 2), sign = (h & 0x8000) << 16, rest = h & 0x7fff;
    if (rest >= 0x7c00) return lib_block_float(sign | 0x7f800000 | (rest & 0x3ff) << 13);
    if (rest >= 0x400) return lib_block_float(sign | ((rest << 13) + ((uint32_t)112 << 23)));
    return (float)rest * (sign ? -lib_block_power(-24) : lib_block_power(-24));
}

/* Floats of 4 bits of exponent and 3 of fraction; one code has no value. */
static float lib_block_small(int code) {
    int e = code >> 3 & 15, fraction = code & 7;
    if ((code & 0x7f) == 0x7f) return 0;
    return e ? (float)(8 + fraction) * lib_block_power(e - 10) : (float)fraction * lib_block_power(-9);
}

/* ---- Integers */
static int lib_block_field(const unsigned char *block, const lib_block_bits *f, int j) {
    int bytes = f->run * f->bits / 8, inside = j % f->run;
    if (!f->bits) return 0;
    return block[f->at + j / f->run * bytes + inside % bytes] >> inside / bytes * f->bits &
           ((1 << f->bits) - 1);
}

static int lib_block_numbered(int kind, int code) {
    static const signed char uneven[] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                         1,    13,   25,  38,  53,  69,  89,  113};
    static const signed char doubled[] = {0, 1, 2, 3, 4, 6, 8, 12};
    if (kind == BLOCK_IQ4_NL || kind == BLOCK_IQ4_XS) return uneven[code];
    if (kind == BLOCK_MXFP4 || kind == BLOCK_NVFP4) return code & 8 ? -doubled[code & 7] : doubled[code];
    return kind == BLOCK_Q8_0 && code > 127 ? code - 256 : code;
}

/* The signs of 8 elements from 7 bits: an even number of them is negative. */
static int lib_block_signs(uint32_t seven) {
    uint32_t odd = seven ^ seven >> 4;
    odd ^= odd >> 2, odd ^= odd >> 1;
    return (int)(seven | (odd & 1) << 7);
}

/* 8 elements from the number of their vector, or of two of 4 elements. */
static void lib_block_vector(const uint16_t *grid, int first, int second, int signs, signed char *q) {
    static const unsigned char two[] = {8, 25, 43, 0}, three[] = {4, 12, 20, 28, 36, 44, 52, 62};
    int j, v;
    for (j = 0; j < 8; j++) {
        if (second < 0) v = two[grid[first] >> 2 * j & 3];
        else v = three[grid[j < 4 ? first : second] >> 3 * (j % 4) & 7];
        q[j] = (signed char)(signs >> j & 1 ? -v : v);
    }
}

static void lib_block_vectors(int kind, const unsigned char *block, signed char *q) {
    int i;
    for (i = 0; i < 32; i++, q += 8) {
        const unsigned char *part = block + 2 + i / 4 * 8;
        uint32_t word, pair = lib_block_word(block + 2 + 2 * i, 2);
        if (kind == BLOCK_IQ2_XXS) {
            word = lib_block_word(part + 4, 4) >> 7 * (i % 4) & 127;
            lib_block_vector(LIB_IQ2_XXS, part[i % 4], -1, lib_block_signs(word), q);
        } else if (kind == BLOCK_IQ2_XS) {
            lib_block_vector(LIB_IQ2_XS, pair & 511, -1, lib_block_signs(pair >> 9), q);
        } else if (kind == BLOCK_IQ2_S) {
            word = (uint32_t)block[2 + i] | (uint32_t)(block[66 + i / 4] >> 2 * (i % 4) & 3) << 8;
            lib_block_vector(LIB_IQ2_S, (int)word, -1, block[34 + i], q);
        } else {
            word = lib_block_word(block + 66 + i / 4 * 4, 4) >> 7 * (i % 4) & 127;
            lib_block_vector(LIB_IQ3_XXS, pair & 255, (int)(pair >> 8), lib_block_signs(word), q);
        }
    }
}

ONNXC_MAYBE_UNUSED static void lib_block_integers(const lib_block_format *f, const unsigned char *block,
                                                  signed char *q) {
    int j;
    if (f->elements == LIB_BLOCK_MOST && !f->low.bits) {
        lib_block_vectors(f->kind, block, q);
        return;
    }
    for (j = 0; j < f->elements; j++) {
        int low = lib_block_field(block, &f->low, j), high = lib_block_field(block, &f->high, j);
        q[j] = (signed char)(lib_block_numbered(f->kind, low | high << f->low.bits) - f->zero);
    }
}

/* ---- Scales */

/* Eight scales and minima of 6 bits in 12 bytes. */
static int lib_block_six(const unsigned char *p, int group, int minimum) {
    int at = group % 4 + 4 * minimum;
    if (group < 4) return p[at] & 63;
    return (p[8 + group % 4] >> 4 * minimum & 15) | p[at] >> 6 << 4;
}

static float lib_block_scale(const lib_block_format *f, const unsigned char *b, int g) {
    float d = lib_block_half(b);
    int code = 0;
    switch ((lib_block_kind)f->kind) {
    case BLOCK_F32: return lib_block_float(lib_block_word(b, 4));
    case BLOCK_BF16: return lib_block_float(lib_block_word(b, 2) << 16);
    case BLOCK_Q2_K: return lib_block_half(b + 80) * (float)(b[g] & 15);
    case BLOCK_Q3_K:
        code = (b[96 + g % 8] >> (g < 8 ? 0 : 4) & 15) | (b[104 + g % 4] >> 2 * (g / 4) & 3) << 4;
        return lib_block_half(b + 108) * (float)(code - 32);
    case BLOCK_Q4_K:
    case BLOCK_Q5_K: return d * (float)lib_block_six(b + 4, g, 0);
    case BLOCK_Q6_K: return lib_block_half(b + 208) * (float)(signed char)b[192 + g];
    case BLOCK_IQ2_XXS: code = b[9 + 8 * g] >> 4; break;
    case BLOCK_IQ2_XS: code = b[66 + g / 2] >> 4 * (g % 2) & 15; break;
    case BLOCK_IQ2_S: code = b[74 + g / 2] >> 4 * (g % 2) & 15; break;
    case BLOCK_IQ3_XXS: return d * (0.5f + (float)(b[69 + 4 * g] >> 4)) * 0.5f;
    case BLOCK_IQ4_XS:
        code = (b[4 + g / 2] >> 4 * (g % 2) & 15) | (int)(lib_block_word(b + 2, 2) >> 2 * g & 3) << 4;
        return d * (float)(code - 32);
    case BLOCK_MXFP4: return lib_block_power(b[0] - 128); /* half of it: integers are doubled */
    case BLOCK_NVFP4: return lib_block_small(b[g]) * 0.5f;
    case BLOCK_F16:
    case BLOCK_Q4_0:
    case BLOCK_Q4_1:
    case BLOCK_Q5_0:
    case BLOCK_Q5_1:
    case BLOCK_Q8_0:
    case BLOCK_IQ4_NL:
    case BLOCK_Q2_0: return d;
    }
    return d * (0.5f + (float)code) * 0.25f;
}

static float lib_block_least(const lib_block_format *f, const unsigned char *b, int g) {
    if (f->kind == BLOCK_Q2_K) return lib_block_half(b + 82) * (float)(b[g] >> 4);
    if (f->elements == LIB_BLOCK_MOST) return lib_block_half(b + 2) * (float)lib_block_six(b + 4, g, 1);
    return -lib_block_half(b + 2);
}

/* least: untouched where there are none. */
ONNXC_MAYBE_UNUSED static void lib_block_scales(const lib_block_format *f, const unsigned char *block,
                                                float *scale, float *least) {
    int g;
    for (g = 0; g < f->elements / f->group; g++) {
        scale[g] = lib_block_scale(f, block, g);
        if (f->has_least) least[g] = lib_block_least(f, block, g);
    }
}
#endif
