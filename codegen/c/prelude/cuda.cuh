// Support functions of emitted CUDA text: in addition to those of c99.h, or in place of those with the same name, in the
// same form. The shim (test/shim) runs on a CPU, where __CUDA_ARCH__ is not defined; instead of a snippet for the device
// alone ("//: NAME device") it has that of c99.h, if there is one. Code for sm_90a has __CUDA_ARCH_FEAT_SM90_ALL.

//: bits_f32
INLINE uint32_t ox_bits_f32(float x) { return (uint32_t)__float_as_uint(x); }
//: from_bits_f32
INLINE float ox_from_bits_f32(uint32_t u) { return __uint_as_float(u); }
//: bits_f64
INLINE uint64_t ox_bits_f64(double x) { return (uint64_t)__double_as_longlong(x); }
//: from_bits_f64
INLINE double ox_from_bits_f64(uint64_t u) { return __longlong_as_double(u); }

//each KIND  f32  f64
//each TYPE  float  double
//each SUFFIX  f  -
//: abs_KIND
INLINE TYPE ox_abs_KIND(TYPE x) { return fabsSUFFIX(x); }
//: trunc_KIND
INLINE TYPE ox_trunc_KIND(TYPE x) { return truncSUFFIX(x); }
//: floor_KIND
INLINE TYPE ox_floor_KIND(TYPE x) { return floorSUFFIX(x); }
//: ceil_KIND
INLINE TYPE ox_ceil_KIND(TYPE x) { return ceilSUFFIX(x); }
//: rint_KIND
INLINE TYPE ox_rint_KIND(TYPE x) { return rintSUFFIX(x); }

//: sqrt_f32
INLINE float ox_sqrt_f32(float x) { return __fsqrt_rn(x); }
//: sqrt_f64
INLINE double ox_sqrt_f64(double x) { return __dsqrt_rn(x); }
//: f16_to_f32 device
INLINE float ox_f16_to_f32(uint16_t h) {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h));
    return x;
}
//: f32_to_f16 device
INLINE uint16_t ox_f32_to_f16(float x) {
    uint16_t h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
    return h;
}
//: f32_to_bf16
// To nearest, ties to even.
INLINE uint16_t ox_f32_to_bf16(float x) {
#if __CUDA_ARCH__ >= 800
    uint32_t both;
    asm("cvt.rn.bf16x2.f32 %0, 0f00000000, %1;" : "=r"(both) : "f"(x));
    return (uint16_t)both;
#else
    uint32_t u = ox_bits_f32(x);
    if ((u & 0x7fffffff) > 0x7f800000) return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
#endif
}

//each KIND  us  ss  uu
//each TYPE  u32.s32  s32.s32  u32.u32
//: dot4_KIND device
INLINE int32_t ox_dot4_KIND(int32_t acc, int32_t a, int32_t b) {
    asm("dp4a.TYPE %0, %1, %2, %0;" : "+r"(acc) : "r"(a), "r"(b));
    return acc;
}

//each BYTES  16  8  4
//each TYPE  uint4  uint2  uint32_t
//: copy_BYTES
INLINE void ox_copy_BYTES(void *to, const void *from) {
#ifdef ONNXC_CUDA_SHIM
    memcpy(to, from, BYTES);
#else
    *(TYPE *)to = *(const TYPE *)from;
#endif
}

//: shared_at
INLINE uint32_t ox_shared_at(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }

//each NAME  x4  x4_trans
//each TRANSPOSE  .x4  .x4.trans
//each FLAG  0  1
//: ldmatrix_NAME
INLINE void ox_ldmatrix_NAME(void *to, const void *row) {
    uint32_t *d = (uint32_t *)to;
#ifdef ONNXC_CUDA_SHIM
    shim_ldmatrix(d, row, FLAG);
#else
    asm volatile("ldmatrix.sync.aligned.m8n8TRANSPOSE.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
                 : "r"(ox_shared_at(row)) : "memory");
#endif
}

// Before sm_80, copies are synchronous.
//: cp_async
INLINE void ox_cp_async(void *to, const void *from) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                 : : "r"(ox_shared_at(to)), "l"(from) : "memory");
#else
    ox_copy_16(to, from);
#endif
}
//: cp_async_zfill
INLINE void ox_cp_async_zfill(void *to, const void *from, int there) {
#if defined(ONNXC_CUDA_SHIM)
    if (there) memcpy(to, from, 16);
    else memset(to, 0, 16);
#elif __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 : : "r"(ox_shared_at(to)), "l"(from), "r"(there ? 16 : 0) : "memory");
#else
    *(uint4 *)to = there ? *(const uint4 *)from : uint4{};
#endif
}
//: cp_async_commit
INLINE void ox_cp_async_commit(void) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" : : : "memory");
#endif
}

//each LEFT  0  1
//: cp_async_wait_LEFT
INLINE void ox_cp_async_wait_LEFT(void) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group LEFT;" : : : "memory");
#endif
}

// Executed by one thread. Before sm_90, all threads copy by cp.async, and LEFT of their groups may be pending.
//: mbarrier_init
INLINE void ox_mbarrier_init(void *at) {
#if defined(ONNXC_CUDA_SHIM)
    shim_mbarrier_init(at);
#elif __CUDA_ARCH__ >= 900
    if (threadIdx.x == 0)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" : : "r"(ox_shared_at(at)) : "memory");
#endif
}
//: mbarrier_fence
INLINE void ox_mbarrier_fence(void) {
#if defined(ONNXC_CUDA_SHIM)
    shim_mbarrier_fence();
#elif __CUDA_ARCH__ >= 900
    if (threadIdx.x == 0) asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory");
#endif
}
//: mbarrier_expect
INLINE void ox_mbarrier_expect(void *at, int bytes) {
#if defined(ONNXC_CUDA_SHIM)
    shim_mbarrier_expect(at, bytes);
#elif __CUDA_ARCH__ >= 900
    if (threadIdx.x == 0)
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                     : : "r"(ox_shared_at(at)), "r"(bytes) : "memory");
#endif
}
//: bulk_copy
INLINE void ox_bulk_copy(void *to, const void *from, int bytes, void *at, int threads) {
#ifdef ONNXC_CUDA_SHIM
    if (shim_bulk_copy(to, from, bytes, at)) return;
#endif
#if __CUDA_ARCH__ >= 900
    if (threadIdx.x == 0)
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                     " [%0], [%1], %2, [%3];"
                     : : "r"(ox_shared_at(to)), "l"(from), "r"(bytes), "r"(ox_shared_at(at)) : "memory");
#else
    for (int i = threadIdx.x * 16; i < bytes; i += threads * 16)
        ox_cp_async((char *)to + i, (const char *)from + i);
#endif
}

//each LEFT  0  1
//: mbarrier_wait_LEFT
INLINE void ox_mbarrier_wait_LEFT(void *at, int parity) {
#if defined(ONNXC_CUDA_SHIM)
    shim_mbarrier_wait(at, parity);
#elif __CUDA_ARCH__ >= 900
    uint32_t passed = 0;
    while (!passed)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;"
                     " selp.b32 %0, 1, 0, p; }"
                     : "=r"(passed) : "r"(ox_shared_at(at)), "r"(parity) : "memory");
#elif __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group LEFT;" : : : "memory");
#endif
}

// wgmma's descriptor of an operand: its address in shared memory, in lines of 128 bytes with their swizzle or in core
// matrices, 128 bytes to the next one along K, 1024 to the next rows.
//each ORDER  k  m
//: descriptor_ORDER
INLINE uint64_t ox_descriptor_ORDER(const void *p, int lead) {
    uint64_t at = (uint32_t)__cvta_generic_to_shared(p);
    return (at >> 4 & 0x3fff) | (uint64_t)(lead >> 4) << 16 | (uint64_t)(1024 >> 4) << 32 | 1ull << 62;
}

//: descriptor_c
INLINE uint64_t ox_descriptor_c(const void *p, int) {
    uint64_t at = (uint32_t)__cvta_generic_to_shared(p);
    return (at >> 4 & 0x3fff) | (uint64_t)(128 >> 4) << 16 | (uint64_t)(1024 >> 4) << 32;
}

// The same for mma.sync: four 8x8 matrices, of which this thread supplies row `row` + lane % 8 from k on.
//: swizzled
INLINE const void *ox_swizzled(const void *p, int offset) {
    uintptr_t at = (uintptr_t)p + (uintptr_t)offset;
    return (const void *)(at ^ (at >> 7 & 7) << 4);
}
//: matrices_k
INLINE void ox_matrices_k(uint32_t *to, const void *p, int, int row, int k) {
    ox_ldmatrix_x4(to, ox_swizzled(p, (row + threadIdx.x % 8) * 128 + k * 2));
}
//: matrices_m
INLINE void ox_matrices_m(uint32_t *to, const void *p, int lead, int row, int k) {
    int at = row / 64 * lead + (k + threadIdx.x % 8) * 128 + row % 64 * 2;
    ox_ldmatrix_x4_trans(to, ox_swizzled(p, at));
}
//: matrices_c
INLINE void ox_matrices_c(uint32_t *to, const void *p, int, int row, int k) {
    ox_ldmatrix_x4(to, (const char *)p + row / 8 * 1024 + k / 8 * 128 + threadIdx.x % 8 * 16);
}

//each NAME  wgmma_commit  proxy_fence
//each PTX  wgmma.commit_group.sync.aligned  fence.proxy.async.shared::cta
//: NAME
INLINE void ox_NAME(void) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    asm volatile("PTX;" : : : "memory");
#endif
}

//: dynamic_shared
#ifdef ONNXC_CUDA_SHIM
#define ox_dynamic_shared(bytes) (unsigned char *)shim_dynamic(bytes)
#else
extern __shared__ __align__(1024) unsigned char ox_dynamic[];
#define ox_dynamic_shared(bytes) ox_dynamic
#endif

// d += a * b by one warp, with the fragments of mma.sync. Before sm_80, by smaller products or by multiply-adds:
// thread 4 g + t computes rows g and g + 8 and columns 2 t and 2 t + 1 from what the other threads hold.
//: mma_m16n8k8_f16
INLINE void ox_mma_m16n8k8_f16(float *d, const uint32_t *a, const uint32_t *b) {
#ifdef ONNXC_CUDA_SHIM
    shim_mma(16, 8, SHIM_f16, d, a, b);
#else
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32"
                 " {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(b[0]));
#endif
}
//: mma_m8n8k16_s8
INLINE void ox_mma_m8n8k16_s8(int32_t *d, const uint32_t *a, const uint32_t *b) {
#ifdef ONNXC_CUDA_SHIM
    shim_mma(8, 16, SHIM_s8, d, a, b);
#else
    asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32"
                 " {%0, %1}, {%2}, {%3}, {%0, %1};"
                 : "+r"(d[0]), "+r"(d[1]) : "r"(a[0]), "r"(b[0]));
#endif
}
//: small_mma_f16
INLINE void ox_small_mma_f16(float *d, const uint32_t *a, const uint32_t *b) {
    ox_mma_m16n8k8_f16(d, a, b);
    ox_mma_m16n8k8_f16(d, a + 2, b + 1);
}

//each NAME  bf16  tf32
//each DEPTH  16  8
//each PER  2  1
//each WORD  p % 2 ? word & 0xffff0000u : word << 16  word
//: small_mma_NAME device
INLINE void ox_small_mma_NAME(float *d, const uint32_t *a, const uint32_t *b) {
    int lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    for (int p = 0; p < DEPTH; p++) {
        int half = p / (DEPTH / 2), at = p % (DEPTH / 2) / PER;
        float v[4];
        for (int i = 0; i < 4; i++) {
            uint32_t word = i < 2 ? a[half * 2 + i] : b[half];
            word = __shfl_sync(0xffffffffu, word, (i < 2 ? lane & 28 : (lane & 3) * 8 + i % 2 * 4) + at);
            v[i] = __uint_as_float(WORD);
        }
        for (int i = 0; i < 4; i++) d[i] = fmaf(v[i / 2], v[2 + i % 2], d[i]);
    }
}

//each NAME  s8  u8s8  s8u8  u8
//each TYPES  s32.s8.s8.s32  s32.u8.s8.s32  s32.s8.u8.s32  s32.u8.u8.s32
//: small_mma_NAME device
INLINE void ox_small_mma_NAME(int32_t *d, const uint32_t *a, const uint32_t *b) {
    for (int i = 0; i < 4; i++)
        asm volatile("mma.sync.aligned.m8n8k16.row.col.TYPES {%0, %1}, {%2}, {%3}, {%0, %1};"
                     : "+r"(d[i % 2 * 2]), "+r"(d[i % 2 * 2 + 1]) : "r"(a[i]), "r"(b[i / 2]));
}

//each DEPTH  16  16  8  32  32  32  32
//each SUM  float  float  float  int32_t  int32_t  int32_t  int32_t
//each REG  f  f  f  r  r  r  r
//each NAME  f16  bf16  tf32  s8  u8s8  s8u8  u8
//each TYPES  f32.f16.f16.f32  f32.bf16.bf16.f32  f32.tf32.tf32.f32  s32.s8.s8.s32  s32.u8.s8.s32  s32.s8.u8.s32  s32.u8.u8.s32
//: mma_m16n8kDEPTH_NAME
INLINE void ox_mma_m16n8kDEPTH_NAME(SUM *d, const uint32_t *a, const uint32_t *b) {
#if defined(ONNXC_CUDA_SHIM)
    shim_mma(16, DEPTH, SHIM_NAME, d, a, b);
#elif __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8kDEPTH.row.col.TYPES"
                 " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+REG"(d[0]), "+REG"(d[1]), "+REG"(d[2]), "+REG"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
    ox_small_mma_NAME(d, a, b);
#endif
}

