// Prints numbers. Written: n handles. Read: n numbers. Numbers: n, dtype (float, double, int64, uint64,
// bool), bits of the significand of the original type, for the fewest digits that identify the number; 0
// (floats): six decimals.
#include "runtime-lite/lib/lib.h"
#include "runtime-lite/lib/lib_decimal.h"
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

// v times a power of ten.
static double print_scaled(double v, int tens) {
    return tens < 0 ? v / lib_ten_to(-tens) : v * lib_ten_to(tens);
}

// The same as below for numbers of up to 24 bits, which have at most nine digits; 0: too large or small, or too near to the middle
// between two decimal numbers.
static int print_few_digits(double v, int bits, char *text, int *exponent) {
    int tens = 0, count, n;
    double scaled;
    if (bits > 24 || v < 1e-13 || v >= 1e29) return 0;
    while (print_scaled(v, tens) < 1e8) tens++;
    while (print_scaled(v, tens) >= 1e9) tens--;
    scaled = print_scaled(v, tens);
    for (count = 1; count <= 9; count++) {
        double unit = lib_ten_to(9 - count), part = scaled / unit, rest;
        int64_t whole = (int64_t)part;
        rest = part - (double)whole;
        if (rest > 0.5 - 1e-6 && rest < 0.5 + 1e-6) return 0;
        whole += rest > 0.5;
        if ((double)whole >= lib_ten_to(count)) return 0;
        if (print_round(print_scaled((double)whole * unit, -tens), bits) != v) continue;
        *exponent = 8 - tens;
        for (n = count; n > 0; whole /= 10) text[--n] = (char)('0' + whole % 10);
        for (n = count; n > 1 && text[n - 1] == '0';) n--;
        return n;
    }
    return 0;
}

// The fewest digits of d.ddde+XX, and the exponent.
static int print_digits(double v, int bits, char *text, int *exponent) {
    char s[48], *p;
    int count, n = print_few_digits(v, bits, text, exponent);
    if (n) return n;
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
