// The roofline of 128-bit SIMD in WebAssembly, for test/bench/wasm.py: multiplications and additions per second in registers.
// Built for wasm32, without a C library; the caller divides by its own time.
#ifdef __wasm__
#include <wasm_simd128.h>

enum { SUMS = 10 };

#define EXPORT(name) __attribute__((export_name(name)))

// 8 * SUMS operations in each round.
EXPORT("peak_f32") float peak_f32(int rounds, float x) {
    v128_t sum[SUMS], a = wasm_f32x4_splat(x), b = wasm_f32x4_splat(1 - x);
    for (int i = 0; i < SUMS; i++) sum[i] = wasm_f32x4_splat((float)i);
    for (; rounds > 0; rounds--)
        for (int i = 0; i < SUMS; i++) sum[i] = wasm_f32x4_add(wasm_f32x4_mul(sum[i], a), b);
    for (int i = 1; i < SUMS; i++) sum[0] = wasm_f32x4_add(sum[0], sum[i]);
    return wasm_f32x4_extract_lane(sum[0], 0);
}

// 16 * SUMS operations in each round: products of 16 bits, sums of 32.
EXPORT("peak_i16") int peak_i16(int rounds, int x) {
    v128_t sum[SUMS], a = wasm_i16x8_splat((short)x);
    for (int i = 0; i < SUMS; i++) sum[i] = wasm_i32x4_splat(i);
    for (; rounds > 0; rounds--)
        for (int i = 0; i < SUMS; i++) sum[i] = wasm_i32x4_add(sum[i], wasm_i32x4_dot_i16x8(sum[i], a));
    for (int i = 1; i < SUMS; i++) sum[0] = wasm_i32x4_add(sum[0], sum[i]);
    return wasm_i32x4_extract_lane(sum[0], 0);
}
#else
int main(void) { return 0; }
#endif
