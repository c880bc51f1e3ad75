/* Numbers from text and from a generator, their text and comparison, and the formats of their files, as onnxc run and programs
 * from --emit exe have them in common. */
#ifndef ONNXC_NUMBERS_H
#define ONNXC_NUMBERS_H
#include <ctype.h>
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Random: SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators). */
static inline uint64_t number_random(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}
static inline double number_random_unit(uint64_t *state) {
    return (double)(number_random(state) >> 11) * 0x1p-53;
}

/* The state for an input: FNV-1a of its name, by words. */
static inline uint64_t number_random_begin(uint64_t seed, const char *name) {
    uint64_t h = 0xcbf29ce484222325u ^ seed, word;
    size_t n = strlen(name);
    for (; n >= sizeof word; n -= sizeof word, name += sizeof word) {
        memcpy(&word, name, sizeof word);
        h = (h ^ word) * 0x9e3779b97f4a7c15u;
        h ^= h >> 32;
    }
    for (; n; n--) h = (h ^ (unsigned char)*name++) * 0x100000001b3u;
    return h;
}

/* LO..HI of "random:LO..HI", LO <= HI; 0: another text. */
static inline int number_range(const char *s, double *lo, double *hi) {
    char first[64] = "", *end;
    const char *dots = strstr(s, "..");
    if (!dots || dots == s || dots - s >= (long)sizeof first || !dots[2]) return 0;
    memcpy(first, s, (size_t)(dots - s));
    *lo = strtod(first, &end);
    if (*end) return 0;
    *hi = strtod(dots + 2, &end);
    return !*end && isfinite(*lo) && isfinite(*hi) && *lo <= *hi;
}

/* ---- Text: words between white space, commas and semicolons. */
static inline int number_between(char c) { return isspace((unsigned char)c) || c == ',' || c == ';'; }
static inline size_t number_word_size(const char *s) {
    size_t n = 0;
    while (s[n] && !number_between(s[n])) n++;
    return n;
}
/* The next word; NULL at the end. */
static inline const char *number_next_word(const char *s) {
    while (*s && number_between(*s)) s++;
    return *s ? s : NULL;
}
static inline int number_is_word(const char *s, const char *word) {
    return number_word_size(s) == strlen(word) && strncmp(s, word, strlen(word)) == 0;
}

/* Integers written as such are parsed exactly, not as double; "1e3" and "2.0" are integers too. 0: none from lo to hi;
 * with `large` up to UINT64_MAX. */
static inline int number_int(const char *s, int64_t lo, int64_t hi, int large, uint64_t *v) {
    char *end;
    errno = 0;
    long long small = strtoll(s, &end, 10);
    int whole = end == s + number_word_size(s);
    *v = (uint64_t)small;
    if (whole && !errno) return small >= lo && small <= hi;
    errno = 0;
    if (whole) return large && *s != '-' && (*v = strtoull(s, &end, 10), !errno);
    double x = strtod(s, &end);
    if (end != s + number_word_size(s) || !(fabs(x) <= 0x1p53) || x != trunc(x)) return 0;
    *v = (uint64_t)(int64_t)x;
    return (int64_t)x >= lo && (int64_t)x <= hi;
}

/* The fewest digits that read back as v, a float if `single`, which is read directly or as a double first. Numbers of up to
 * FLT_DIG or DBL_DIG digits are the result of rounding to as many, except where floats are denormal. */
static inline int number_reads_back(const char *s, double v, int single) {
    double d = strtod(s, NULL);
    return single ? strtof(s, NULL) == (float)v && (float)d == (float)v : d == v;
}
static inline void number_shortest(char *s, size_t size, double v, int single) {
    int normal = fabs(v) >= (single ? (double)FLT_MIN : DBL_MIN);
    int digits = !normal ? 1 : single ? FLT_DIG : DBL_DIG, most = single ? FLT_DECIMAL_DIG : DBL_DECIMAL_DIG;
    do snprintf(s, size, "%.*g", digits, v);
    while (digits++ < most && !number_reads_back(s, v, single));
}

/* ---- Files: the extension of a path that names no format of tensors; NULL: it has another, or none, as devices. */
static inline const char *number_unknown_extension(const char *path) {
    static const char *const known[] = {".npy", ".npz", ".pb", ".csv", ".bin", ".raw"};
    const char *dot = strrchr(path, '.');
    if (!dot || strpbrk(dot, "/\\=")) return NULL; /* '.' in a folder, or in the name of NAME=FILE */
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(dot, known[i]) == 0) return NULL;
    return dot;
}

/* ---- Comparison: |got - want| <= atol + rtol * |want|; NaN equals NaN, infinities must be equal. */
typedef struct number_errors {
    double abs, rel; /* the largest so far */
} number_errors;

static inline int number_same(double got, double want) { return got == want || (isnan(got) && isnan(want)); }
static inline int number_near(number_errors *e, double error, double want, double rtol, double atol) {
    if (error > e->abs || isnan(error)) e->abs = error;
    if (want != 0 && isfinite(want) && error / fabs(want) > e->rel) e->rel = error / fabs(want);
    return isfinite(error) && isfinite(want) && error <= atol + rtol * fabs(want);
}
#endif
