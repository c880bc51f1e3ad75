// Integers of 64 bits on 32-bit Linux machines: functions that compilers call, for linkers that have no compiler's library.
#include <stdint.h>

#if defined(__linux__) && __SIZEOF_POINTER__ == 4
#define HELPER __attribute__((weak, visibility("hidden")))

// Quotient and remainder by shifting and subtracting; of a division by 0: 0 and n.
#define DIVIDE(type, n, d, q, leading_zeros)                                                                 \
    if (d && n >= d)                                                                                         \
        for (int shift = leading_zeros(d) - leading_zeros(n); shift >= 0; shift--)                           \
            if (n >= d << shift) n -= d << shift, q |= (type)1 << shift;

uint64_t onnxc_rt_divide_unsigned(uint64_t n, uint64_t d, uint64_t *rest);
uint64_t onnxc_rt_divide_unsigned(uint64_t n, uint64_t d, uint64_t *rest) {
    uint64_t q = 0;
    if (!((n | d) >> 32) && d) {
        *rest = (uint32_t)n % (uint32_t)d;
        return (uint32_t)n / (uint32_t)d;
    }
    DIVIDE(uint64_t, n, d, q, __builtin_clzll)
    *rest = n;
    return q;
}

int64_t onnxc_rt_divide_signed(int64_t n, int64_t d, int64_t *rest);
int64_t onnxc_rt_divide_signed(int64_t n, int64_t d, int64_t *rest) {
    uint64_t r, q = onnxc_rt_divide_unsigned(n < 0 ? 0 - (uint64_t)n : (uint64_t)n,
                                             d < 0 ? 0 - (uint64_t)d : (uint64_t)d, &r);
    *rest = (int64_t)(n < 0 ? 0 - r : r);
    return (int64_t)((n < 0) != (d < 0) ? 0 - q : q);
}

#ifdef __arm__ // Run-time ABI for the Arm Architecture
#define NAMED(name) HELPER __attribute__((pcs("aapcs"))) name

// Two results in r0 to r3.
#define PAIR(name, divide)                                                                                   \
    HELPER __attribute__((naked)) void name(void);                                                           \
    void name(void) {                                                                                        \
        __asm__("push {r4, lr}\n\tsub sp, sp, #16\n\tadd r4, sp, #8\n\tstr r4, [sp]\n\tbl " #divide          \
                "\n\tldr r2, [sp, #8]\n\tldr r3, [sp, #12]\n\tadd sp, sp, #16\n\tpop {r4, pc}");             \
    }
PAIR(__aeabi_uldivmod, onnxc_rt_divide_unsigned)
PAIR(__aeabi_ldivmod, onnxc_rt_divide_signed)

// The remainder in the upper half.
uint64_t NAMED(__aeabi_uidivmod)(uint32_t n, uint32_t d);
uint64_t __aeabi_uidivmod(uint32_t n, uint32_t d) {
    uint32_t q = 0;
    DIVIDE(uint32_t, n, d, q, __builtin_clz)
    return (uint64_t)n << 32 | q;
}
uint64_t NAMED(__aeabi_idivmod)(int32_t n, int32_t d);
uint64_t __aeabi_idivmod(int32_t n, int32_t d) {
    uint64_t both =
        __aeabi_uidivmod(n < 0 ? 0 - (uint32_t)n : (uint32_t)n, d < 0 ? 0 - (uint32_t)d : (uint32_t)d);
    uint32_t q = (uint32_t)both, r = (uint32_t)(both >> 32);
    return (uint64_t)(n < 0 ? 0 - r : r) << 32 | ((n < 0) != (d < 0) ? 0 - q : q);
}
uint32_t NAMED(__aeabi_uidiv)(uint32_t n, uint32_t d);
uint32_t __aeabi_uidiv(uint32_t n, uint32_t d) { return (uint32_t)__aeabi_uidivmod(n, d); }
int32_t NAMED(__aeabi_idiv)(int32_t n, int32_t d);
int32_t __aeabi_idiv(int32_t n, int32_t d) { return (int32_t)(uint32_t)__aeabi_idivmod(n, d); }

// From the halves, which are exact: only their sum is rounded.
double NAMED(__aeabi_ul2d)(uint64_t x);
double __aeabi_ul2d(uint64_t x) { return (double)(uint32_t)(x >> 32) * 0x1p32 + (double)(uint32_t)x; }
double NAMED(__aeabi_l2d)(int64_t x);
double __aeabi_l2d(int64_t x) {
    return (double)(int32_t)((uint64_t)x >> 32) * 0x1p32 + (double)(uint32_t)(uint64_t)x;
}

// Bits beyond the precision of f64 become a sticky bit: only the result is rounded.
float NAMED(__aeabi_ul2f)(uint64_t x);
float __aeabi_ul2f(uint64_t x) {
    if (x >> 53 && (x & 0x7ff)) x = (x & ~(uint64_t)0x7ff) | 0x800;
    return (float)__aeabi_ul2d(x);
}
float NAMED(__aeabi_l2f)(int64_t x);
float __aeabi_l2f(int64_t x) { return x < 0 ? -__aeabi_ul2f(0 - (uint64_t)x) : __aeabi_ul2f((uint64_t)x); }

uint64_t NAMED(__aeabi_d2ulz)(double x);
uint64_t __aeabi_d2ulz(double x) {
    uint32_t high = (uint32_t)(x * 0x1p-32);
    return (uint64_t)high << 32 | (uint32_t)(x - (double)high * 0x1p32);
}
int64_t NAMED(__aeabi_d2lz)(double x);
int64_t __aeabi_d2lz(double x) { return (int64_t)(x < 0 ? 0 - __aeabi_d2ulz(-x) : __aeabi_d2ulz(x)); }
uint64_t NAMED(__aeabi_f2ulz)(float x);
uint64_t __aeabi_f2ulz(float x) { return __aeabi_d2ulz(x); }
int64_t NAMED(__aeabi_f2lz)(float x);
int64_t __aeabi_f2lz(float x) { return __aeabi_d2lz(x); }
#else
HELPER uint64_t __udivmoddi4(uint64_t n, uint64_t d, uint64_t *rest);
uint64_t __udivmoddi4(uint64_t n, uint64_t d, uint64_t *rest) {
    uint64_t r, q = onnxc_rt_divide_unsigned(n, d, &r);
    if (rest) *rest = r;
    return q;
}
HELPER int64_t __divmoddi4(int64_t n, int64_t d, int64_t *rest);
int64_t __divmoddi4(int64_t n, int64_t d, int64_t *rest) { return onnxc_rt_divide_signed(n, d, rest); }
HELPER uint64_t __udivdi3(uint64_t n, uint64_t d);
uint64_t __udivdi3(uint64_t n, uint64_t d) { return onnxc_rt_divide_unsigned(n, d, &d); }
HELPER uint64_t __umoddi3(uint64_t n, uint64_t d);
uint64_t __umoddi3(uint64_t n, uint64_t d) {
    onnxc_rt_divide_unsigned(n, d, &d);
    return d;
}
HELPER int64_t __divdi3(int64_t n, int64_t d);
int64_t __divdi3(int64_t n, int64_t d) { return onnxc_rt_divide_signed(n, d, &d); }
HELPER int64_t __moddi3(int64_t n, int64_t d);
int64_t __moddi3(int64_t n, int64_t d) {
    onnxc_rt_divide_signed(n, d, &d);
    return d;
}
#endif
#endif
