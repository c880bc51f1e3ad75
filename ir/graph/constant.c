// Tensor data known at compile time. In: element types, shapes, bytes. Out: constants and their elements.
#include "ir/graph/graph.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static constant *make(arena *a, constant_kind kind, dtype elem, int rank, const int64_t *dims) {
    constant *c = ARENA_NEW(a, constant);
    c->kind = kind;
    c->elem = elem;
    c->rank = rank;
    c->dims = ARENA_ARRAY(a, int64_t, rank);
    c->count = 1;
    bool empty = false, overflow = false;
    for (int i = 0; i < rank; i++) {
        c->dims[i] = dims[i];
        if (dims[i] == 0) empty = true;
        else if (dims[i] < 0 || __builtin_mul_overflow(c->count, dims[i], &c->count)) overflow = true;
    }
    // A size that overflows counts as out of memory.
    if (empty) c->count = 0;
    else if (overflow) arena_calloc(a, SIZE_MAX, 2);
    return c;
}

constant *constant_new(arena *a, dtype elem, int rank, const int64_t *dims) {
    constant *c = make(a, elem == DT_STRING ? CONST_STRINGS : CONST_BYTES, elem, rank, dims);
    if (elem == DT_STRING) {
        c->strings = ARENA_ARRAY(a, const char *, c->count);
        c->string_sizes = ARENA_ARRAY(a, size_t, c->count);
        for (int64_t i = 0; i < c->count; i++) c->strings[i] = "";
        return c;
    }
    c->data = arena_calloc(a, 1, (size_t)dtype_size(elem, c->count));
    return c;
}

constant *constant_splat(arena *a, dtype elem, int rank, const int64_t *dims, const void *element) {
    constant *c = make(a, CONST_SPLAT, elem, rank, dims);
    int bits = dtype_bits(elem);
    memcpy(c->splat, element, bits < 8 ? 1 : (size_t)bits / 8);
    if (bits < 8) c->splat[0] &= (uint8_t)((1 << bits) - 1);
    return c;
}

static uint32_t word_at(const constant *c, int64_t i) {
    uint32_t word;
    memcpy(&word, (const uint8_t *)c->data + 4 * i, sizeof word);
    return word;
}

// The word without its last bits, rounded to nearest, ties to even.
static uint16_t upper_bits(uint32_t word, int dropped) {
    return (uint16_t)((word + (1u << (dropped - 1)) - 1 + (word >> dropped & 1)) >> dropped);
}

// In integers: false where the numbers, or the types, need the general form.
static bool round_word(const constant *c, int64_t i, dtype as, uint16_t *half) {
    enum { BIAS = (127 - 15) << 23, LEAST = 113, MOST = 142 }; // of exponents of normal numbers of f16
    if (c->kind != CONST_BYTES || c->elem != DT_F32 || (as != DT_BF16 && as != DT_F16)) return false;
    uint32_t word = word_at(c, i), exponent = word >> 23 & 255, sign = word >> 31 << 15;
    if (as == DT_BF16 ? exponent == 255 : exponent < LEAST || exponent > MOST) return false;
    *half =
        as == DT_BF16 ? upper_bits(word, 16) : (uint16_t)(upper_bits((word & INT32_MAX) - BIAS, 13) | sign);
    return true;
}

static void round_element(const constant *c, int64_t i, dtype as, void *to, int64_t at) {
    uint16_t half;
    if (round_word(c, i, as, &half)) memcpy((uint8_t *)to + 2 * at, &half, sizeof half);
    else dtype_store_float(as, to, at, constant_float(c, i), false);
}

const constant *constant_rounded(arena *a, const constant *c, dtype as) {
    enum { SMALL = 1024 };
    if (c->kind == CONST_SPLAT) {
        uint64_t element = 0;
        round_element(c, 0, as, &element, 0);
        return constant_splat(a, as, c->rank, c->dims, &element);
    }
    if (c->kind == CONST_BYTES && c->count > SMALL) {
        constant *later = make(a, CONST_ROUNDED, as, c->rank, c->dims);
        later->from = c;
        return later;
    }
    constant *to = constant_new(a, as, c->rank, c->dims);
    for (int64_t i = 0; i < c->count; i++) round_element(c, i, as, (uint8_t *)to->data, i);
    return to;
}

// Bits of an f32 that is not NaN: whether its last bits of precision are 0.
static bool word_fits(uint32_t x, dtype as) {
    int exponent = (int)(x >> 23 & 255) - 127, dropped = as == DT_BF16 ? 16 : 13;
    if (x << 1 == 0) return true;
    if (as == DT_F16 && (exponent > 15 || exponent < -24)) return false;
    if (as == DT_F16 && exponent < -14) dropped += -14 - exponent; // denormal
    return exponent != 128 && (x & ((1u << dropped) - 1)) == 0;
}

static bool words_fit(const constant *c, dtype as) {
    for (int64_t i = 0; i < c->count; i++) {
        if (!word_fits(word_at(c, i), as)) return false;
    }
    return true;
}

bool constant_fits(const constant *c, dtype as) {
    if (c->kind == CONST_BYTES && c->elem == DT_F32 && (as == DT_BF16 || as == DT_F16))
        return words_fit(c, as);
    for (int64_t i = 0; i < (c->kind == CONST_SPLAT && c->count ? 1 : c->count); i++) {
        uint64_t room = 0;
        double v = constant_float(c, i);
        dtype_store_float(as, &room, 0, v, false);
        if (dtype_load_float(as, &room, 0) != v) return false;
    }
    return true;
}

// The data that holds element i; *i becomes its index there. room: for one element.
static const void *data_of(const constant *c, int64_t *i, uint64_t *room) {
    if (c->kind == CONST_ROUNDED) round_element(c->from, *i, c->elem, room, 0);
    if (c->kind != CONST_BYTES) *i = 0;
    return c->kind == CONST_SPLAT ? c->splat : c->kind == CONST_ROUNDED ? (const void *)room : c->data;
}

double constant_float(const constant *c, int64_t i) {
    uint64_t room = 0;
    const void *data = data_of(c, &i, &room);
    return dtype_load_float(c->elem, data, i);
}

// Of elements of 16 or 32 bits whose exponent has these bits.
static bool has_full_exponent(const constant *c, uint32_t exponent) {
    size_t bytes = (size_t)dtype_bits(c->elem) / 8;
    for (int64_t i = 0; i < c->count; i++) {
        uint32_t v = 0;
        memcpy(&v, (const uint8_t *)c->data + i * (int64_t)bytes, bytes);
        if ((v & exponent) == exponent) return true;
    }
    return false;
}

bool constant_is_finite(const constant *c) {
    if (!dtype_is_float(c->elem)) return true;
    if (c->kind == CONST_BYTES && c->elem == DT_F32) return !has_full_exponent(c, 0x7f800000);
    if (c->kind == CONST_BYTES && c->elem == DT_F16) return !has_full_exponent(c, 0x7c00);
    if (c->kind == CONST_BYTES && c->elem == DT_BF16) return !has_full_exponent(c, 0x7f80);
    int64_t n = c->kind == CONST_SPLAT && c->count ? 1 : c->count;
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(constant_float(c, i))) return false;
    return true;
}

int64_t constant_int(const constant *c, int64_t i) {
    uint64_t room = 0;
    const void *data = data_of(c, &i, &room);
    return dtype_load_int(c->elem, data, i);
}

void constant_copy(const constant *c, int64_t i, dtype to_type, void *to, int64_t at) {
    if (c->kind == CONST_ROUNDED && c->elem == to_type) {
        round_element(c->from, i, to_type, to, at);
        return;
    }
    uint64_t room = 0;
    const void *data = data_of(c, &i, &room);
    dtype_copy(to_type, to, at, c->elem, data, i);
}

// ---------------------------------------------------------------- lists of keys
int compare_places(const constant *c, int64_t x, int64_t y) {
    if (c->kind == CONST_STRINGS) {
        size_t n = c->string_sizes[x], m = c->string_sizes[y];
        int order = memcmp(c->strings[x], c->strings[y], n < m ? n : m);
        return order ? order : n < m ? -1 : n > m;
    }
    if (!dtype_is_float(c->elem)) {
        int64_t a = constant_int(c, x), b = constant_int(c, y);
        return a < b ? -1 : a > b;
    }
    double a = constant_float(c, x), b = constant_float(c, y);
    if (a != a || b != b) return (a != a) - (b != b);
    return a < b ? -1 : a > b;
}

// Merge sort of order[0..n); spare has room for n.
static void sort_places(const constant *c, int64_t *order, int64_t *spare, int64_t n) {
    int64_t half = n / 2, i = 0, j = half;
    if (n < 2) return;
    sort_places(c, order, spare, half);
    sort_places(c, order + half, spare, n - half);
    for (int64_t k = 0; k < n; k++)
        spare[k] =
            i < half && (j == n || compare_places(c, order[i], order[j]) <= 0) ? order[i++] : order[j++];
    memcpy(order, spare, (size_t)n * sizeof *order);
}

int64_t sort_keys(const constant *c, int64_t *order) {
    int64_t *spare = malloc((size_t)c->count * sizeof *spare + 1), count = 0;
    for (int64_t i = 0; i < c->count; i++) order[i] = i;
    sort_places(c, order, spare, c->count);
    free(spare);
    for (int64_t i = 0; i < c->count; i++) {
        if (count && compare_places(c, order[count - 1], order[i]) == 0) count--;
        order[count++] = order[i];
    }
    return count;
}

constant *pick_constant(arena *a, const constant *c, const int64_t *places, int64_t count) {
    constant *out = constant_new(a, c->elem, 1, &count);
    for (int64_t i = 0; i < count; i++) {
        if (c->kind == CONST_STRINGS) {
            out->strings[i] = c->strings[places[i]];
            out->string_sizes[i] = c->string_sizes[places[i]];
        } else {
            constant_copy(c, places[i], c->elem, (void *)out->data, i);
        }
    }
    return out;
}
