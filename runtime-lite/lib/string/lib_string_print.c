// Prints numbers. Written: n handles. Read: n numbers. Numbers: n, dtype (float, double, int64, uint64,
// bool), bits of the significand of the original type, for the fewest digits that identify the number; 0
// (floats): six decimals.
#include "runtime-lite/lib/lib.h"
#include "runtime-lite/lib/lib_value.h"
#include <stdio.h>

static int print_whole(char *to, uint64_t v, int negative) {
    char digits[24] = "0";
    int n = 0, at = 0;
    if (negative) {
        v = 0 - v;
        to[at++] = '-';
    }
    do digits[n++] = (char)('0' + v % 10);
    while (v /= 10);
    while (n) to[at++] = digits[--n];
    return at;
}

static double print_round(double v, int bits) {
    uint64_t b, drop = (uint64_t)1 << (53 - bits);
    if (bits >= 53) return v;
    memcpy(&b, &v, sizeof b);
    b += drop / 2 - 1 + (b / drop & 1);
    b &= ~(drop - 1);
    memcpy(&v, &b, sizeof v);
    return v;
}

// The fewest digits of d.ddde+XX, and the exponent.
static int print_digits(double v, int bits, char *text, int *exponent) {
    char s[48], *p;
    int count, n = 0;
    for (count = 0; count < 17; count++) {
        snprintf(s, sizeof s, "%.*e", count, v);
        if (print_round(strtod(s, NULL), bits) == v) break;
    }
    for (p = s; *p != 'e'; p++)
        if (*p >= '0' && *p <= '9') text[n++] = *p;
    *exponent = atoi(p + 1);
    while (n > 1 && text[n - 1] == '0') n--;
    return n;
}

// Like numpy's arrays: plain notation from 1e-4 to the largest integers that are exact.
static int print_real(char *to, double v, int bits) {
    char digits[24] = "0";
    double most = bits > 24 ? 1e16 : bits == 24 ? 1e6 : 1e3;
    int n, e, i, at = 0;
    if (v != v) return memcpy(to, "nan", 3), 3;
    if (v < 0 || (v == 0 && 1 / v < 0)) v = -v, to[at++] = '-';
    if (v > 1.7976931348623157e308) return memcpy(to + at, "inf", 3), at + 3;
    n = v == 0 ? (e = 0, 1) : print_digits(v, bits, digits, &e);
    if ((v != 0 && v < 1e-4) || v >= most) {
        to[at++] = digits[0];
        if (n > 1) to[at++] = '.';
        for (i = 1; i < n; i++) to[at++] = digits[i];
        return at + snprintf(to + at, 8, "e%c%02d", e < 0 ? '-' : '+', e < 0 ? -e : e);
    }
    for (i = e < 0 ? e : 0; i < n || i <= e + 1; i++) {
        if (i == e + 1) to[at++] = '.';
        if (i == e + 1 && i >= n) {
            to[at++] = '0';
            break;
        }
        to[at++] = i < 0 || i >= n ? '0' : digits[i];
    }
    return at;
}

// The decimal point of the program's locale becomes '.'.
static int print_fixed(char *to, double v) {
    char *p;
    int n = snprintf(to, 64, "%f", v);
    for (p = to; *p; p++)
        if (*p != '-' && (*p < '0' || *p > '9') && (*p < 'a' || *p > 'z')) *p = '.';
    return n;
}

ONNXC_LIB int onnxc_lib_string_print(void **call, void *const *data, const int64_t *numbers) {
    int64_t i, dtype = numbers[1], *out = (int64_t *)data[0];
    for (i = 0; i < numbers[0]; i++) {
        char text[64], *bytes;
        int n = 0, bits = (int)numbers[2];
        if (dtype == DT_F32 && !bits) n = print_fixed(text, ((const float *)data[1])[i]);
        else if (dtype == DT_F32) n = print_real(text, ((const float *)data[1])[i], bits);
        else if (dtype == DT_F64) n = print_real(text, ((const double *)data[1])[i], bits);
        else if (dtype == DT_I64)
            n = print_whole(text, ((const uint64_t *)data[1])[i], ((const int64_t *)data[1])[i] < 0);
        else if (dtype == DT_U64) n = print_whole(text, ((const uint64_t *)data[1])[i], 0);
        else n = snprintf(text, sizeof text, "%s", ((const unsigned char *)data[1])[i] ? "True" : "False");
        out[i] = lib_string_new(call, (size_t)n, &bytes);
        if (!out[i]) return LIB_NO_MEMORY;
        memcpy(bytes, text, (size_t)n);
    }
    return 0;
}
