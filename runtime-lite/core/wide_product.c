// The 128-bit product that clang's code for overflow checks calls, in place of compiler-rt's, which few systems have for
// WebAssembly.
#ifdef __wasm__
#include <stdint.h>

__int128 __multi3(__int128 x, __int128 y);
__attribute__((weak)) __int128 __multi3(__int128 x, __int128 y) {
    uint64_t a = (uint64_t)x, b = (uint64_t)y, a0 = (uint32_t)a, a1 = a >> 32, b0 = (uint32_t)b, b1 = b >> 32;
    uint64_t middle = a1 * b0 + (a0 * b0 >> 32), other = a0 * b1 + (uint32_t)middle;
    uint64_t high =
        a1 * b1 + (middle >> 32) + (other >> 32) + (uint64_t)(x >> 64) * b + a * (uint64_t)(y >> 64);
    return (__int128)((unsigned __int128)high << 64 | (other << 32) | (uint32_t)(a0 * b0));
}
#else
typedef int onnxc_no_wide_product;
#endif
