// The version of the interface, and the level of this CPU.
#include "runtime-lite/core/runtime.h"
#include <stdatomic.h>

#if defined(__x86_64__)
#include <cpuid.h>

typedef struct registers {
    unsigned a, b, c, d;
} registers;

static registers cpuid_part(unsigned leaf, unsigned part) {
    registers r = {0, 0, 0, 0};
    if (!__get_cpuid_count(leaf, part, &r.a, &r.b, &r.c, &r.d)) r = (registers){0, 0, 0, 0};
    return r;
}

static registers cpuid(unsigned leaf) { return cpuid_part(leaf, 0); }

// Register state that the operating system saves: bits 1, 2 AVX, 5 to 7 AVX-512.
static unsigned saved_state(void) {
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

static int has(unsigned reg, unsigned bits) { return (reg & bits) == bits; }

// The levels of the x86-64 psABI, and a fifth: v4 with AVX512_VNNI.
static int find_level(void) {
    registers one = cpuid(1), seven = cpuid(7), extended = cpuid(0x80000001);
    unsigned v2 = bit_SSE3 | bit_SSSE3 | bit_SSE4_1 | bit_SSE4_2 | bit_POPCNT | bit_CMPXCHG16B;
    unsigned v3 = bit_AVX | bit_F16C | bit_FMA | bit_MOVBE | bit_OSXSAVE;
    if (!has(one.c, v2) || !has(extended.c, bit_LAHF_LM)) return 1;
    if (!has(one.c, v3) || !has(seven.b, bit_AVX2 | bit_BMI | bit_BMI2) || !has(extended.c, bit_LZCNT))
        return 2;
    unsigned state = saved_state();
    if (!has(state, 0x6)) return 2;
#ifdef __APPLE__
    state |= 0xe0; // macOS enables AVX-512 for a thread when it first uses it
#endif
    unsigned v4 = bit_AVX512F | bit_AVX512BW | bit_AVX512CD | bit_AVX512DQ | bit_AVX512VL;
    if (!has(seven.b, v4) || !has(state, 0xe6)) return 3;
    return has(seven.c, bit_AVX512VNNI) ? 5 : 4;
}

// CPUID takes microseconds under a hypervisor. Concurrent threads compute the same result.
int onnxc_interface_2(void) {
    static atomic_int known;
    int level = atomic_load_explicit(&known, memory_order_relaxed);
    if (level) return level;
    level = find_level();
    atomic_store_explicit(&known, level, memory_order_relaxed);
    return level;
}

static int remember(atomic_int *known, int (*find)(void)) {
    enum { UNKNOWN, NO, YES };
    int answer = atomic_load_explicit(known, memory_order_relaxed);
    if (answer == UNKNOWN) {
        answer = find() ? YES : NO;
        atomic_store_explicit(known, answer, memory_order_relaxed);
    }
    return answer == YES;
}

static int find_avx_vnni(void) { return onnxc_interface_2() >= 3 && has(cpuid_part(7, 1).a, 1u << 4); }

int onnxc_rt_avx_vnni(void) {
    static atomic_int known;
    return remember(&known, find_avx_vnni);
}

// AVX512_BF16, and of AMD: SSE4a.
static int find_bf16_pairs(void) {
    return onnxc_interface_2() >= 5 && has(cpuid_part(7, 1).a, 1u << 5) &&
           has(cpuid(0x80000001).c, bit_SSE4a);
}

int onnxc_rt_bf16_pairs(void) {
    static atomic_int known;
    return remember(&known, find_bf16_pairs);
}
#elif defined(__aarch64__) && (defined(__linux__) || defined(_WIN32) || defined(__APPLE__))
typedef struct features {
    int dotprod, i8mm, bf16;
} features;

#ifdef _WIN32
#include "runtime-lite/system/system.h"

static features find_features(void) {
    enum { DOTPROD = 43, I8MM = 66, BF16 = 68 }; // PF_ARM_V82_DP_INSTRUCTIONS_AVAILABLE ...
    return (features){IsProcessorFeaturePresent(DOTPROD), IsProcessorFeaturePresent(I8MM),
                      IsProcessorFeaturePresent(BF16)};
}
#elif defined(__APPLE__)
#include <sys/sysctl.h>

static int feature(const char *name) {
    int value = 0;
    size_t size = sizeof value;
    return sysctlbyname(name, &value, &size, NULL, 0) == 0 && value;
}

static features find_features(void) {
    return (features){feature("hw.optional.arm.FEAT_DotProd"), feature("hw.optional.arm.FEAT_I8MM"),
                      feature("hw.optional.arm.FEAT_BF16")};
}
#else
#include <sys/auxv.h>

static features find_features(void) {
    enum { DOTPROD = 1 << 20, I8MM = 1 << 13, BF16 = 1 << 14 }; // HWCAP, HWCAP2
    unsigned long first = getauxval(AT_HWCAP), second = getauxval(AT_HWCAP2);
    return (features){(first & DOTPROD) != 0, (second & I8MM) != 0, (second & BF16) != 0};
}
#define HAS_SCALABLE_VECTORS 1

// SVE, with the products of blocks that the CPU has without it. RDVL is written as its code, since assemblers refuse it
// without SVE.
int onnxc_rt_vector_bits(void) {
    enum { SVE = 1 << 22, I8MM = 1 << 13, BF16 = 1 << 14, SVE_I8MM = 1 << 9, SVE_BF16 = 1 << 12 };
    unsigned long second = getauxval(AT_HWCAP2);
    register unsigned long bytes __asm__("x0") = 0;
    if (!(getauxval(AT_HWCAP) & SVE)) return 0;
    if (((second & I8MM) && !(second & SVE_I8MM)) || ((second & BF16) && !(second & SVE_BF16))) return 0;
    __asm__ volatile(".inst 0x04bf5020" : "=r"(bytes)); // rdvl x0, #1
    return (int)bytes * 8;
}
#endif

// ARMv8-A; with the dot product; and with products of blocks of bytes and of bf16.
int onnxc_interface_2(void) {
    static atomic_int known;
    int level = atomic_load_explicit(&known, memory_order_relaxed);
    if (level) return level;
    features f = find_features();
    level = !f.dotprod ? 1 : f.i8mm && f.bf16 ? 3 : 2;
    atomic_store_explicit(&known, level, memory_order_relaxed);
    return level;
}
#ifdef __APPLE__
// Before main, so that no run makes a system call.
__attribute__((constructor)) static void know(void) { (void)onnxc_interface_2(); }
#endif
int onnxc_rt_avx_vnni(void) { return 0; }
int onnxc_rt_bf16_pairs(void) { return 0; }
#else
int onnxc_interface_2(void) { return 1; }
int onnxc_rt_avx_vnni(void) { return 0; }
int onnxc_rt_bf16_pairs(void) { return 0; }
#endif

#if defined(__riscv) && __riscv_xlen == 64 && defined(__linux__)
#include <stdint.h>
#include <sys/auxv.h>
#define HAS_SCALABLE_VECTORS 1

static long system_call(long number, long a, long b) {
    register long a7 __asm__("a7") = number, a0 __asm__("a0") = a, a1 __asm__("a1") = b;
    register long a2 __asm__("a2") = 0, a3 __asm__("a3") = 0, a4 __asm__("a4") = 0;
    __asm__ volatile("ecall" : "+r"(a0) : "r"(a7), "r"(a1), "r"(a2), "r"(a3), "r"(a4) : "memory");
    return a0;
}

// Whether all CPUs have V 1.0, and the process may use it. Linux before 6.5 tells by AT_HWCAP only, if at all.
static int has_vectors(void) {
    enum { HWPROBE = 258, EXTENSIONS = 4, V = 1 << 2, PRCTL = 167, GET_CONTROL = 70, CURRENT = 3, OFF = 1 };
    struct {
        int64_t key;
        uint64_t value;
    } pair = {EXTENSIONS, 0};
    long control = system_call(PRCTL, GET_CONTROL, 0);
    if (control >= 0 && (control & CURRENT) == OFF) return 0;
    if (system_call(HWPROBE, (long)&pair, 1) == 0 && pair.key == EXTENSIONS) return (pair.value & V) != 0;
    return (int)(getauxval(AT_HWCAP) >> ('v' - 'a') & 1);
}

int onnxc_rt_vector_bits(void) {
    enum { NONE = 1 };
    static atomic_int known;
    int bits = atomic_load_explicit(&known, memory_order_relaxed);
    if (bits) return bits == NONE ? 0 : bits;
    unsigned long bytes = 0;
    if (has_vectors()) __asm__ volatile("csrr %0, 0xc22" : "=r"(bytes)); // vlenb
    atomic_store_explicit(&known, bytes ? (int)bytes * 8 : NONE, memory_order_relaxed);
    return (int)bytes * 8;
}
// Before main, so that no run makes a system call.
__attribute__((constructor)) static void know(void) { (void)onnxc_rt_vector_bits(); }
#endif

#ifndef HAS_SCALABLE_VECTORS
int onnxc_rt_vector_bits(void) { return 0; }
#endif
