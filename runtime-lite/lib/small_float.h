/* Floating formats of up to 16 bits with a sign: from codes to numbers and back. */
#ifndef ONNXC_SMALL_FLOAT_H
#define ONNXC_SMALL_FLOAT_H
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

/* The use of the largest exponent: infinities and NaNs (IEEE); S.111..1 as the only NaN (FN); numbers only,
 * with the code of -0 as the only NaN (FNUZ); numbers only (FINITE). */
typedef enum float_special { FORMAT_NONE, FORMAT_IEEE, FORMAT_FN, FORMAT_FNUZ, FORMAT_FINITE } float_special;
typedef struct float_format {
    int ebits, mbits, bias;
    float_special special;
    int64_t all, max, nan; // codes without sign: all ones, the largest number, NaN
} float_format;

/* NaN codes: the quiet NaN for IEEE; the code of -0 for FNUZ; 6 for FINITE, as ONNX has it. */
#define SMALL_FLOAT_ONES(n) (INT64_MAX >> (63 - (n)))
#define SMALL_FLOAT(e, m, special)                                                                           \
    {e,                                                                                                      \
     m,                                                                                                      \
     (1 << (e)) / 2 - 1 + ((special) == FORMAT_FNUZ),                                                        \
     (special),                                                                                              \
     SMALL_FLOAT_ONES(e + m),                                                                                \
     SMALL_FLOAT_ONES(e + m) - ((special) == FORMAT_IEEE ? INT64_C(1) << (m) : (special) == FORMAT_FN),      \
     SMALL_FLOAT_ONES(e + m) +                                                                               \
         ((special) == FORMAT_IEEE ? 1 - (INT64_C(1) << (m)) / 2 : (special) == FORMAT_FNUZ)}

/* x * 2^e for -1022 <= e <= 1023: ldexp takes its time. */
static inline double small_float_scale(double x, int e) {
    union {
        uint64_t code;
        double value;
    } power = {.code = (uint64_t)(1023 + e) << 52};
    return x * power.value;
}

static inline double small_float_decode(const float_format *f, uint32_t code) {
    uint32_t magnitude = code & (uint32_t)f->all, sign = code >> (f->ebits + f->mbits) & 1;
    if (f->special == FORMAT_FNUZ && sign && !magnitude) return NAN;
    int exponent = (int)(magnitude >> f->mbits);
    uint32_t fraction = magnitude & ((1u << f->mbits) - 1);
    double v;
    if (magnitude > f->max) v = f->special == FORMAT_IEEE && !fraction ? INFINITY : NAN;
    else if (exponent) v = small_float_scale(fraction | 1u << f->mbits, exponent - f->bias - f->mbits);
    else v = small_float_scale(fraction, 1 - f->bias - f->mbits);
    return sign ? -v : v;
}

/* The code of |v| rounded to nearest even, as if exponents had no upper end. */
static inline uint64_t small_float_round(const float_format *f, double v) {
    int e;
    frexp(v, &e); // v = m * 2^e, 0.5 <= m < 1
    int biased = e - 1 + f->bias;
    if (v == 0 || biased < 1) return (uint64_t)nearbyint(small_float_scale(v, f->bias - 1 + f->mbits));
    // A carry out of the fraction lands in the exponent, which is what rounding up means.
    uint64_t fraction = (uint64_t)nearbyint(small_float_scale(v, f->mbits - (e - 1)));
    return ((uint64_t)(biased - 1) << f->mbits) + fraction;
}

static inline uint32_t small_float_encode(const float_format *f, double v, bool saturate) {
    bool negative = signbit(v);
    uint32_t sign = (uint32_t)negative << (f->ebits + f->mbits), max = (uint32_t)f->max;
    uint32_t nan = (uint32_t)f->nan | (f->special == FORMAT_IEEE || f->special == FORMAT_FN ? sign : 0);
    if (isnan(v)) return nan;
    uint64_t code = isinf(v) ? (uint64_t)max + 1 : small_float_round(f, fabs(v));
    if (code > max) {
        if (saturate) code = max;
        else if (f->special == FORMAT_IEEE) code = max + 1;
        else return nan;
    }
    if (f->special == FORMAT_FNUZ && !code) return 0;
    return sign | (uint32_t)code;
}
#endif
