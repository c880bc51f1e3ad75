// Products of matrices as XNNPACK's kernels for RISC-V's vectors compute them: tiles of seven rows and a vector of four
// registers, B in panels of such vectors. A yardstick for test/bench/riscv.py; argv[1]: which, argv[2]: how often.
#include <riscv_vector.h>
#include <stdint.h>
#include <stdlib.h>

// Not static, so that the compiler does not see that nobody writes them.
enum { M = 112, K = 256, N = 128 };
float fa[M * K], fb[K * N], fc[M * N];
int8_t qa[M * K], qb[K * N], qc[M * N];
int32_t bias[N];
float scale[N];

#define ROWS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6)

static void f32_tile(const float *a, const float *b, float *c, size_t vl) {
#define ZERO(r) vfloat32m4_t s##r = __riscv_vfmv_v_f_f32m4(0, vl);
    ROWS(ZERO)
    for (int k = 0; k < K; k++) {
        vfloat32m4_t v = __riscv_vle32_v_f32m4(b, vl);
        b += vl;
#define ADD(r) s##r = __riscv_vfmacc_vf_f32m4(s##r, a[r * K + k], v, vl);
        ROWS(ADD)
#undef ADD
    }
#define STORE(r) __riscv_vse32_v_f32m4(c + r * N, s##r, vl);
    ROWS(STORE)
#undef STORE
}

static void s8_tile(const int8_t *a, const int8_t *b, int8_t *c, int n, size_t vl) {
    vint32m4_t first = __riscv_vle32_v_i32m4(bias + n, vl);
#define START(r) vint32m4_t s##r = first;
    ROWS(START)
    for (int k = 0; k < K; k++) {
        vint16m2_t v = __riscv_vsext_vf2_i16m2(__riscv_vle8_v_i8m1(b, vl), vl);
        b += vl;
#define ADD(r) s##r = __riscv_vwmacc_vx_i32m4(s##r, a[r * K + k], v, vl);
        ROWS(ADD)
#undef ADD
    }
    vfloat32m4_t by = __riscv_vle32_v_f32m4(scale + n, vl);
#define STORE(r)                                                                                             \
    {                                                                                                        \
        vfloat32m4_t f = __riscv_vfmul_vv_f32m4(__riscv_vfcvt_f_x_v_f32m4(s##r, vl), by, vl);                \
        f = __riscv_vfmin_vf_f32m4(__riscv_vfmax_vf_f32m4(f, -128 - 3, vl), 127 - 3, vl);                    \
        vint16m2_t h = __riscv_vfncvt_x_f_w_i16m2(f, vl);                                                    \
        h = __riscv_vadd_vx_i16m2(h, 3, vl);                                                                 \
        __riscv_vse8_v_i8m1(c + r * N, __riscv_vncvt_x_x_w_i8m1(h, vl), vl);                                 \
    }
    ROWS(STORE)
#undef STORE
}

int main(int argc, char **argv) {
    size_t vl = __riscv_vsetvlmax_e32m4();
    for (int times = argc > 2 ? atoi(argv[2]) : 1; times > 0; times--)
        for (int n = 0; n < N; n += (int)vl) {
            size_t some = __riscv_vsetvl_e32m4((size_t)(N - n));
            for (int m = 0; m < M; m += 7) {
                if (argv[1][0] == 'f') f32_tile(fa + m * K, fb + n * K, fc + m * N + n, some);
                else s8_tile(qa + m * K, qb + n * K, qc + m * N + n, n, some);
            }
        }
    return fc[0] != 0 || qc[0] > 3;
}
