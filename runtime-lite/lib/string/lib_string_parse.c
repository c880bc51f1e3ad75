// Parses numbers. Written: n numbers. Read: n handles. Numbers: n, dtype (float, double, int64, uint64).
// Accepts plain and scientific notation, and INF, NaN, True (1) and False (0) in any case. Returns 1: a
// string is not a number.
#include "runtime-lite/lib/lib.h"
#include "runtime-lite/lib/lib_decimal.h"
#include "runtime-lite/lib/lib_value.h"
#include <stdio.h>

enum { PARSE_MOST = 1100 }; /* characters; doubles have up to 767 significant digits */

static int parse_same(const char *s, const char *word) {
    for (; *word; s++, word++)
        if ((*s | 32) != *word) return 0;
    return !*s;
}

// *exact: it is an integer in range.
static uint64_t parse_whole(const char *s, int *exact) {
    int negative = *s == '-';
    uint64_t v = 0;
    if (*s == '-' || *s == '+') s++;
    for (*exact = *s != 0; *s; s++) {
        if (*s < '0' || *s > '9' || v > (UINT64_MAX - 9) / 10) *exact = 0;
        else v = 10 * v + (uint64_t)(*s - '0');
    }
    return negative ? 0 - v : v;
}

// Up to 15 digits with a point at most. 0: another form, or a double halfway between two floats, which may have been rounded to it.
static int parse_plain(const char *s, int single, double *v) {
    int digits = 0, places = 0, point = 0, negative = *s == '-';
    int64_t whole = 0;
    uint64_t bits;
    if (*s == '-' || *s == '+') s++;
    for (; *s; s++) {
        if (*s == '.' && !point) point = 1;
        else if (*s < '0' || *s > '9' || ++digits > 15) return 0;
        else {
            whole = 10 * whole + (*s - '0');
            places += point;
        }
    }
    if (!digits) return 0;
    *v = (double)whole / lib_ten_to(places);
    memcpy(&bits, v, sizeof bits);
    if (single && (bits & 0x1fffffffu) == 0x10000000u) return 0;
    if (negative) *v = -*v;
    return 1;
}

// Replaces the decimal point by that of the program's locale.
static int parse_real(char *s, int single, double *v) {
    char half[8], *p, *end;
    if (parse_plain(s, single, v)) return 1;
    snprintf(half, sizeof half, "%.1f", 0.5);
    for (p = s; *p; p++) {
        if (*p == 'x' || *p == 'X' || *p == 'p' || *p == '(') return 0;
        if (*p == '.') *p = half[1];
    }
    *v = single ? (double)strtof(s, &end) : strtod(s, &end);
    return end != s && !*end;
}

static int parse_text(onnxc_string s, char *to) {
    size_t i;
    while (s.size && (*s.data == ' ' || (*s.data >= 9 && *s.data <= 13))) s.data++, s.size--;
    while (s.size && (s.data[s.size - 1] == ' ' || (s.data[s.size - 1] >= 9 && s.data[s.size - 1] <= 13)))
        s.size--;
    if (!s.size || s.size >= PARSE_MOST) return 0;
    for (i = 0; i < s.size; i++)
        if (!s.data[i]) return 0;
    memcpy(to, s.data, s.size);
    to[s.size] = 0;
    if (parse_same(to, "true")) memcpy(to, "1", 2);
    if (parse_same(to, "false")) memcpy(to, "0", 2);
    return 1;
}

static void parse_store(void *to, int64_t i, int64_t dtype, double v) {
    if (dtype == DT_F32) ((float *)to)[i] = (float)v;
    else if (dtype == DT_F64) ((double *)to)[i] = v;
    else if (dtype == DT_U64)
        ((uint64_t *)to)[i] = v >= 18446744073709551616.0 ? UINT64_MAX : v > 0 ? (uint64_t)v : 0;
    else
        ((int64_t *)to)[i] = v >= 9223372036854775808.0   ? INT64_MAX
                             : v < -9223372036854775808.0 ? INT64_MIN
                             : v != v                     ? 0
                                                          : (int64_t)v;
}

ONNXC_LIB int onnxc_lib_string_parse(void **call, void *const *data, const int64_t *numbers) {
    int64_t i, dtype = numbers[1];
    (void)call;
    for (i = 0; i < numbers[0]; i++) {
        char text[PARSE_MOST];
        int exact = 0;
        double v;
        uint64_t whole;
        if (!parse_text(lib_string(((const int64_t *)data[1])[i]), text)) return 1;
        whole = dtype == DT_I64 || dtype == DT_U64 ? parse_whole(text, &exact) : 0;
        if (exact) ((uint64_t *)data[0])[i] = whole;
        else if (parse_real(text, dtype == DT_F32, &v)) parse_store(data[0], i, dtype, v);
        else return 1;
    }
    return 0;
}
