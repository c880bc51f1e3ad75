// Removes stop words and changes case. Written: handles of the remaining strings (one empty string if none
// remains), their number. Read: n handles, m handles of stop words. Numbers: n, m, whether stop words are
// case-sensitive, case of the result (0: unchanged, 1: lower, 2: upper).
#include "runtime-lite/lib/lib.h"
#include "runtime-lite/lib/lib_slots.h"
#include "runtime-lite/lib/lib_value.h"

// Latin, Greek, Cyrillic and Armenian letters whose cases differ by a fixed distance; others are unchanged.
static uint32_t normalize_lower(uint32_t c) {
    if ((c >= 'A' && c <= 'Z') || (c >= 0xc0 && c <= 0xde && c != 0xd7)) return c + 32;
    if (c >= 0x391 && c <= 0x3a9 && c != 0x3a2) return c + 32;
    if (c >= 0x410 && c <= 0x42f) return c + 32;
    if (c >= 0x400 && c <= 0x40f) return c + 80;
    if (c >= 0x531 && c <= 0x556) return c + 48;
    if (c == 0x178) return 0xff;
    if ((c >= 0x139 && c <= 0x148) || (c >= 0x179 && c <= 0x17e)) return c & 1 ? c + 1 : c;
    if ((c >= 0x100 && c <= 0x177 && c != 0x130 && c != 0x131 && c != 0x138) || (c >= 0x460 && c <= 0x481) ||
        (c >= 0x1e00 && c <= 0x1e95) || (c >= 0x1ea0 && c <= 0x1eff) || (c >= 0x48a && c <= 0x4bf))
        return c | 1;
    return c;
}

static uint32_t normalize_upper(uint32_t c) {
    uint32_t other;
    if (c < 0x80) return c >= 'a' && c <= 'z' ? c - 32 : c;
    if (c == 0xb5) return 0x39c;
    if (c == 0xff) return 0x178;
    if (c == 0x3c2) return 0x3a3;
    if (c == 0x131) return 'I';
    for (other = 1; other <= 80; other = other == 1 ? 32 : other == 32 ? 48 : other == 48 ? 80 : 81)
        if (c > other && normalize_lower(c - other) == c && c - other != c) return c - other;
    return c;
}

// The code point at p[0..n) and its length; 0xffffffff and 1: not the start of a code point of up to three
// bytes.
static uint32_t normalize_read(const char *p, size_t n, size_t *length) {
    const unsigned char *s = (const unsigned char *)p;
    *length = 1;
    if (s[0] >= 0xc2 && s[0] < 0xe0 && n > 1) {
        *length = 2;
        return (uint32_t)(s[0] & 31) << 6 | (s[1] & 63);
    }
    if (s[0] >= 0xe0 && s[0] < 0xf0 && n > 2) {
        *length = 3;
        return (uint32_t)(s[0] & 15) << 12 | (uint32_t)(s[1] & 63) << 6 | (s[2] & 63);
    }
    return s[0] < 0x80 ? s[0] : 0xffffffffu;
}

static size_t normalize_write(char *to, uint32_t c) {
    if (c < 0x80) {
        to[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        to[0] = (char)(0xc0 | c >> 6);
        to[1] = (char)(0x80 | (c & 63));
        return 2;
    }
    to[0] = (char)(0xe0 | c >> 12);
    to[1] = (char)(0x80 | (c >> 6 & 63));
    to[2] = (char)(0x80 | (c & 63));
    return 3;
}

// Eight bytes of ASCII in the other case; false: not all are ASCII. The sums of bytes below 128 have no carries, and those of letters
// of the first case alone differ in their upper bit.
static int normalize_eight(char *to, const char *from, int upper) {
    const uint64_t ones = UINT64_C(0x0101010101010101);
    uint64_t word, first = upper ? 'a' : 'A', letters;
    memcpy(&word, from, 8);
    if (word & ones << 7) return 0;
    letters = ((word + ones * (128 - first)) ^ (word + ones * (128 - first - 26))) & ones << 7;
    word ^= letters >> 2;
    memcpy(to, &word, 8);
    return 1;
}

// A copy in the other case; 0: out of memory. The upper case of German sharp s is SS.
static int64_t normalize_case(void **call, onnxc_string s, int upper) {
    char *to, *own;
    size_t i, n, length;
    int64_t handle = lib_string_new(call, 2 * s.size, &own), size;
    if (!handle) return 0;
    for (i = 0, to = own; i < s.size; i += length) {
        uint32_t c, other;
        length = 8;
        if (s.size - i >= 8 && normalize_eight(to, s.data + i, upper)) {
            to += 8;
            continue;
        }
        c = normalize_read(s.data + i, s.size - i, &length);
        other = upper ? normalize_upper(c) : normalize_lower(c);
        n = length;
        if (upper && c == 0xdf) {
            memcpy(to, "SS", 2);
            n = 2;
        } else if (c == 0xffffffffu || other == c) memcpy(to, s.data + i, length);
        else n = normalize_write(to, other);
        to += n;
    }
    size = to - own;
    memcpy(own - sizeof size, &size, sizeof size);
    return handle;
}

// A hash table with linear probing: slots have the number of a stop word + 1, or 0.
typedef struct normalize_stops {
    const int64_t *words;
    int64_t *slots;
    size_t mask;
} normalize_stops;

// The slot of a stop word, or the free one where it would be.
static int64_t *normalize_slot(const normalize_stops *t, onnxc_string x) {
    size_t at = (size_t)lib_hash_bytes(0, x.data, x.size);
    for (;; at++) {
        int64_t *slot = &t->slots[at & t->mask];
        onnxc_string stop;
        if (!*slot) return slot;
        stop = lib_string(t->words[*slot - 1]);
        if (stop.size == x.size && memcmp(stop.data, x.data, x.size) == 0) return slot;
    }
}

// Words that are compared without regard to their case are lower-case copies. 0: out of memory.
static int normalize_start(void **call, normalize_stops *t, const int64_t *words, int64_t count,
                           int sensitive) {
    int64_t *own = sensitive ? NULL : (int64_t *)lib_alloc(call, 8 * count), i;
    size_t slots = 2;
    while (slots < 2 * (size_t)count) slots *= 2;
    t->slots = (int64_t *)lib_alloc(call, 8 * (int64_t)slots);
    t->mask = slots - 1;
    t->words = sensitive ? words : own;
    if (!t->slots || (!sensitive && !own)) return 0;
    memset(t->slots, 0, 8 * slots);
    for (i = 0; i < count; i++) {
        if (!sensitive && !(own[i] = normalize_case(call, lib_string(words[i]), 0))) return 0;
        *normalize_slot(t, lib_string(t->words[i])) = i + 1;
    }
    return 1;
}

ONNXC_LIB int onnxc_lib_string_normalize(void **call, void *const *data, const int64_t *numbers) {
    int64_t *out = (int64_t *)data[0], count = 0, i;
    const int64_t *x = (const int64_t *)data[2];
    int sensitive = numbers[2] != 0;
    normalize_stops stops;
    if (!normalize_start(call, &stops, (const int64_t *)data[3], numbers[1], sensitive)) return LIB_NO_MEMORY;
    for (i = 0; i < numbers[0]; i++) {
        int64_t lower = 0, kept = x[i];
        if (numbers[3] == 1 || (!sensitive && numbers[1])) {
            lower = normalize_case(call, lib_string(x[i]), 0);
            if (!lower) return LIB_NO_MEMORY;
        }
        if (numbers[1] && *normalize_slot(&stops, lib_string(sensitive ? x[i] : lower))) continue;
        if (numbers[3]) kept = numbers[3] == 2 ? normalize_case(call, lib_string(x[i]), 1) : lower;
        if (numbers[3] && !kept) return LIB_NO_MEMORY;
        out[count++] = kept;
    }
    if (!count) out[count++] = 0;
    *(int64_t *)data[1] = count;
    return 0;
}
