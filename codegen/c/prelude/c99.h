// Support functions of emitted C text, in C99 that is C++ as well. "//: NAME" begins a snippet; a module contains the
// snippets that it refers to, and those to which they refer, in this order. INLINE stands for the linkage, ox_ for the
// prefix of the module's names. "//each WORD  VALUE  VALUE" (separated by two spaces; - is an empty value) repeats the
// paragraph below it, with WORD replaced by each value. tools/embed_prelude.awk makes the table of snippets.
// clang-format off: words become longer

// NVRTC has no headers.
//: cuda_types
#ifdef __CUDACC_RTC__
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
typedef long long intptr_t;
typedef unsigned long long uintptr_t;
#else
#include <stdint.h>
#endif

//: no_fast_math
#ifdef __FAST_MATH__
#error "compile this without -ffast-math"
#endif

// Elementary functions rely on products and sums that are rounded separately.
//: no_contraction
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("fp-contract=off")
#else
#pragma STDC FP_CONTRACT OFF
#endif

// Rounding by adding 2^23 needs sums without excess precision, which gcc has with x87 and, as C99, on s390x.
//: no_wide_floats
#if defined(__GNUC__) && __GNUC__ >= 11 && !defined(__clang__) && defined(__s390__)
#pragma GCC optimize("excess-precision=fast")
#elif FLT_EVAL_METHOD != 0 && FLT_EVAL_METHOD != 16
#error "intermediate results are wider than their types: -msse2 -mfpmath=sse, on s390x -std=gnu11"
#endif

// Compilers for 8-bit machines may have a double of 32 bits.
//: no_short_doubles
#if defined(DBL_MANT_DIG) && DBL_MANT_DIG < 53
#error "double must have 64 bits (gcc: -mdouble=64)"
#endif

//each KIND  i16  i32  i64  f32  f64  ptr
//each TYPE  int16_t  int32_t  int64_t  float  double  void *
//: load_KIND
INLINE TYPE ox_load_KIND(const void *p) {
    TYPE v;
    memcpy(&v, p, sizeof v);
    return v;
}
//: store_KIND
INLINE void ox_store_KIND(void *p, TYPE v) { memcpy(p, &v, sizeof v); }

//each KIND  f32  f64
//each TYPE  float  double
//each UINT  uint32_t  uint64_t
//: bits_KIND
INLINE UINT ox_bits_KIND(TYPE x) {
    UINT u;
    memcpy(&u, &x, sizeof u);
    return u;
}
//: from_bits_KIND
INLINE TYPE ox_from_bits_KIND(UINT u) {
    TYPE x;
    memcpy(&x, &u, sizeof x);
    return x;
}

//each KIND  i8  i16  i32  i64  u8  u16  u32  u64  f32  f64
//each TYPE  int8_t  int16_t  int32_t  int64_t  uint8_t  uint16_t  uint32_t  uint64_t  float  double
//: min_KIND
INLINE TYPE ox_min_KIND(TYPE a, TYPE b) { return a < b ? a : b; }
//: max_KIND
INLINE TYPE ox_max_KIND(TYPE a, TYPE b) { return a > b ? a : b; }

//each KIND  f32  f64
//each TYPE  float  double
//each FAST  __FP_FAST_FMAF  __FP_FAST_FMA
//each CALL  fmaf  fma
//: muladd_KIND
// Fused, that is, rounded once, where the machine has an instruction for it.
INLINE TYPE ox_muladd_KIND(TYPE a, TYPE b, TYPE c) {
#if defined(FAST) || (defined(__GNUC__) && defined(__FMA__))
    return __builtin_CALL(a, b, c);
#else
    return a * b + c;
#endif
}

//each KIND  f32  f64
//each TYPE  float  double
//each INT  int32_t  int64_t
//each WHOLE  8388608.0f  4503599627370496.0
//each HALF  0.5f  0.5
//each ONE  1.0f  1.0
//each SIGN  0x80000000u  0x8000000000000000u
//: abs_KIND
INLINE TYPE ox_abs_KIND(TYPE x) { return ox_from_bits_KIND(ox_bits_KIND(x) & ~SIGN); }
//: signed_KIND
// x with the sign of y.
INLINE TYPE ox_signed_KIND(TYPE x, TYPE y) {
    return ox_from_bits_KIND((ox_bits_KIND(x) & ~SIGN) | (ox_bits_KIND(y) & SIGN));
}
//: trunc_KIND
INLINE TYPE ox_trunc_KIND(TYPE x) {
    return ox_abs_KIND(x) < WHOLE ? ox_signed_KIND((TYPE)(INT)x, x) : x;
}
//: floor_KIND
INLINE TYPE ox_floor_KIND(TYPE x) {
    if (!(ox_abs_KIND(x) < WHOLE)) return x;
    TYPE t = (TYPE)(INT)x;
    return ox_signed_KIND(t > x ? t - ONE : t, x);
}
//: ceil_KIND
INLINE TYPE ox_ceil_KIND(TYPE x) {
    if (!(ox_abs_KIND(x) < WHOLE)) return x;
    TYPE t = (TYPE)(INT)x;
    return ox_signed_KIND(t < x ? t + ONE : t, x);
}
//: rint_KIND
// To nearest, ties to even.
INLINE TYPE ox_rint_KIND(TYPE x) {
    if (!(ox_abs_KIND(x) < WHOLE)) return x;
    INT whole = (INT)x;
    TYPE rest = ox_abs_KIND(x - (TYPE)whole);
    if (rest > HALF || (rest == HALF && (whole & 1))) whole += x < 0 ? -1 : 1;
    return ox_signed_KIND((TYPE)whole, x);
}

//each KIND  f32  f64
//each TYPE  float  double
//each UINT  uint32_t  uint64_t
//each ROOT  _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x)))  _mm_cvtsd_f64(_mm_sqrt_sd(_mm_set_sd(x), _mm_set_sd(x)))
//each LETTER  s  d
//each BIT  4  8
//each REG  %  %P
//each CON  t  w
//each RISCV  defined(__riscv_fdiv)  defined(__riscv_fdiv) && __riscv_flen >= 64
//each INFINITE  0x7f800000  0x7ff0000000000000u
//each FRACTION  0x7fffff  0xfffffffffffffu
//each HIDDEN  0x800000  0x10000000000000u
//each PLACES  23  52
//each ABOVE  39  10
//each DIGITS  25  54
//each EXPONENT  (e - 175) / 2 + 151  (e - 1129) / 2 + 1076
//: sqrt_KIND
// Correctly rounded: by the machine's instruction, or digit by digit with one more bit than the result; ties cannot occur.
#if defined(__SSE2__)
#include <emmintrin.h>
INLINE TYPE ox_sqrt_KIND(TYPE x) { return ROOT; }
#elif defined(__GNUC__) && defined(__aarch64__)
INLINE TYPE ox_sqrt_KIND(TYPE x) {
    __asm__("fsqrt %LETTER0, %LETTER1" : "=w"(x) : "w"(x));
    return x;
}
#elif defined(__GNUC__) && defined(__ARM_FP) && (__ARM_FP & BIT)
INLINE TYPE ox_sqrt_KIND(TYPE x) {
    __asm__("vsqrt.KIND REG0, REG1" : "=CON"(x) : "CON"(x));
    return x;
}
#elif defined(__GNUC__) && RISCV
INLINE TYPE ox_sqrt_KIND(TYPE x) {
    __asm__("fsqrt.LETTER %0, %1" : "=f"(x) : "f"(x));
    return x;
}
#else
INLINE TYPE ox_sqrt_KIND(TYPE x) {
    UINT u;
    memcpy(&u, &x, sizeof u);
    if (x == 0 || u == INFINITE) return x;
    if (!(x > 0)) return x < 0 ? (x - x) / (x - x) : x + x;
    uint64_t m = u & FRACTION;
    int e = (int)(u >> PLACES);
    if (e) m |= HIDDEN;
    else e = 1;
    for (; m < HIDDEN; e--) m <<= 1;
    if (e % 2 == 0) {
        m <<= 1;
        e--;
    }
    m <<= ABOVE;
    uint64_t rest = 0, root = 0;
    for (int i = 0; i < DIGITS; i++) {
        uint64_t next = root << 2 | 1;
        rest = rest << 2 | m >> 62;
        m <<= 2;
        root <<= 1;
        if (rest >= next) {
            rest -= next;
            root |= 1;
        }
    }
    u = (UINT)((root + 1) >> 1) - HIDDEN + ((UINT)(EXPONENT) << PLACES);
    memcpy(&x, &u, sizeof x);
    return x;
}
#endif

//: f16_to_f32
INLINE float ox_f16_to_f32(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = h & 0x7fff;
    if (rest < 0x400) return ox_from_bits_f32(sign | ox_bits_f32((float)rest * 5.9604644775390625e-08f));
    if (rest > 0x7c00) rest |= 0x200;
    return ox_from_bits_f32(sign | ((rest << 13) + (rest >= 0x7c00 ? 0x70000000 : 0x38000000)));
}
//: f32_to_f16
// To nearest, ties to even; subnormal results, too.
INLINE uint16_t ox_f32_to_f16(float x) {
    uint32_t u = ox_bits_f32(x), sign = u >> 16 & 0x8000, a = u & 0x7fffffff;
    if (a > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (a >> 13 & 0x3ff));
    if (a >= 0x477ff000) return (uint16_t)(sign | 0x7c00);
    if (a >= 0x38800000) return (uint16_t)(sign | ((a - 0x38000000 + 0xfff + (a >> 13 & 1)) >> 13));
    uint32_t shift = 126 - (a >> 23), m = (a & 0x7fffff) | 0x800000;
    if (shift > 24) return (uint16_t)sign;
    uint32_t r = m >> shift, half = (uint32_t)1 << (shift - 1), rest = m & (2 * half - 1);
    return (uint16_t)(sign | (r + (rest > half || (rest == half && (r & 1)))));
}
//: bf16_to_f32
INLINE float ox_bf16_to_f32(uint16_t h) { return ox_from_bits_f32((uint32_t)h << 16); }
//: f32_to_bf16
// To nearest, ties to even.
INLINE uint16_t ox_f32_to_bf16(float x) {
    uint32_t u = ox_bits_f32(x);
    if ((u & 0x7fffffff) > 0x7f800000) return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
//: to_odd_f32
// Rounds to odd: an inexact result has an odd last bit, so that a second rounding is not a double rounding.
INLINE float ox_to_odd_f32(double x) {
    float r = (float)x;
    if ((double)r == x || x != x) return r;
    return ox_from_bits_f32((ox_bits_f32(r) - (ox_abs_f64((double)r) > ox_abs_f64(x))) | 1);
}

//each KIND  us  ss  uu
//each TYPE  uint8_t  int8_t  uint8_t
//each OTHER  int8_t  int8_t  uint8_t
//each BYTES  four unsigned bytes of a with four signed ones of b  four signed bytes  four unsigned bytes
//: dot4_KIND
// acc + sum of the products of BYTES.
INLINE int32_t ox_dot4_KIND(int32_t acc, int32_t a, int32_t b) {
    int32_t sum = 0;
    for (int i = 0; i < 32; i += 8) sum += (int32_t)(TYPE)(a >> i) * (OTHER)(b >> i);
    return (int32_t)((uint32_t)acc + (uint32_t)sum);
}

//: dot2
// acc + sum of the products of two signed 16-bit halves.
INLINE int32_t ox_dot2(int32_t acc, int32_t a, int32_t b) {
    int32_t low = (int32_t)(int16_t)a * (int16_t)b, high = (a >> 16) * (b >> 16);
    return (int32_t)((uint32_t)acc + (uint32_t)low + (uint32_t)high);
}

//each KIND  s8  u8
//each TYPE  int8_t  uint8_t
//each SIGN  signed  unsigned
//: dot2_KIND
// acc + sum of the products of two signed 16-bit halves of a with SIGN bytes 0 and 2 of b.
INLINE int32_t ox_dot2_KIND(int32_t acc, int32_t a, int32_t b) {
    int32_t low = (int16_t)a * (TYPE)b, high = (a >> 16) * (TYPE)(b >> 16);
    return (int32_t)((uint32_t)acc + (uint32_t)low + (uint32_t)high);
}
