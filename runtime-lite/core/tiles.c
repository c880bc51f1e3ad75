// Permission to use matrix tiles.
#include "runtime-lite/core/runtime.h"

#if defined(__x86_64__) && (defined(__linux__) || defined(_WIN32))
#include <cpuid.h>
#include <stdatomic.h>

static int has(unsigned reg, unsigned bits) { return (reg & bits) == bits; }

static int has_tiles(void) {
    unsigned a = 0, b = 0, c = 0, d = 0, state, high;
    if (onnxc_interface_2() < 5 || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 0;
    if (!has(d, 1u << 22 | 1u << 24 | 1u << 25)) return 0;                      // AMX-BF16, -TILE, -INT8
    if (!__get_cpuid_count(7, 1, &a, &b, &c, &d) || !has(a, 1u << 5)) return 0; // AVX512_BF16
    __asm__ volatile("xgetbv" : "=a"(state), "=d"(high) : "c"(0));
    return has(state, 3u << 17); // XTILECFG, XTILEDATA
}

#ifdef _WIN32
#include "runtime-lite/system/system.h"
#include <string.h>

// EnableProcessOptionalXStateFeatures(XSTATE_MASK_AMX_TILE_DATA): for the whole process. Windows 10 does not have it.
static int ask(void) {
    HMODULE kernel = GetModuleHandleA("kernel32.dll");
    void *f = kernel ? system_symbol(kernel, "EnableProcessOptionalXStateFeatures") : NULL;
    BOOL(WINAPI * enable)(unsigned long long);
    memcpy(&enable, &f, sizeof enable);
    return f && enable(1ull << 18);
}
#else
// arch_prctl(ARCH_REQ_XCOMP_PERM, XTILEDATA): for the whole process. Linux refuses if the alternative signal
// stack of a thread is too small for 8 KB more.
static int ask(void) {
    long result = 158, request = 0x1023, feature = 18;
    __asm__ volatile("syscall" : "+a"(result) : "D"(request), "S"(feature) : "rcx", "r11", "memory");
    return result == 0;
}
#endif

// Concurrent threads compute the same result.
int onnxc_rt_tiles(void) {
    enum { UNKNOWN, NO, YES };
    static atomic_int known;
    int answer = atomic_load_explicit(&known, memory_order_relaxed);
    if (answer == UNKNOWN) {
        answer = has_tiles() && ask() ? YES : NO;
        atomic_store_explicit(&known, answer, memory_order_relaxed);
    }
    return answer == YES;
}
#else
int onnxc_rt_tiles(void) { return 0; }
#endif
