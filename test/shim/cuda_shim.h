// CUDA text on a CPU: compiled as C++ behind this header (-include), together with cuda_shim.c. A block's
// threads are fibers that take turns at barriers and shuffles; shared memory is static and holds garbage when
// a block begins. Threads run in the order asked for, so that a missing barrier shows in some order. One
// launch at a time in a process.
#ifndef CUDA_SHIM_H
#define CUDA_SHIM_H
#include <math.h>
#include <stdint.h>
#include <string.h>
#ifdef __cplusplus
#include <utility>
#endif

#define ONNXC_CUDA_SHIM 1
#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __shared__   static __attribute__((section("shim_shared")))

#ifdef __cplusplus
extern "C" {
#endif
typedef struct shim_dim3 {
    unsigned x, y, z;
} shim_dim3;
extern shim_dim3 threadIdx, blockIdx, blockDim, gridDim;

typedef enum shim_order { SHIM_FORWARD, SHIM_REVERSE, SHIM_PERMUTED } shim_order;
// Runs body(args), which calls the kernel, as every thread of every block. 0, or 1 when threads wait for each
// other for ever: some at a barrier that others never reach.
int shim_launch(shim_dim3 grid, shim_dim3 block, shim_order order, uint64_t seed, void (*body)(void *args),
                void *args);

void __syncthreads(void);
// *to = *from of the thread of this warp whose number differs by lane_xor; garbage when there is none.
void shim_exchange(const void *from, void *to, int bytes, int lane_xor);

// d += a * b by a warp with the fragments of mma.sync.m<m>n8k<k>.
typedef enum shim_mma_type {
    SHIM_f16,
    SHIM_bf16,
    SHIM_tf32,
    SHIM_s8,
    SHIM_u8s8,
    SHIM_s8u8,
    SHIM_u8
} shim_mma_type;
void shim_mma(int m, int k, shim_mma_type type, void *d, const uint32_t *a, const uint32_t *b);
// ldmatrix of four 8x8 matrices.
void shim_ldmatrix(uint32_t *d, const void *row, int transposed);
// The block's dynamic shared memory; a kernel that wants more than the launch brings ends the program.
void *shim_dynamic(int64_t bytes);
extern int64_t shim_dynamic_brought;              // less than 0: as much as is wanted
uint64_t __cvta_generic_to_shared(const void *p); // of dynamic shared memory
// d += a * b of wgmma.m64n<n>, at once; a and b are its matrix descriptors. 0: a GPU without it.
int shim_wgmma(int n, shim_mma_type type, void *d, uint64_t a, uint64_t b, int transposed_a,
               int transposed_b);
extern int shim_no_wgmma;
// Bulk copies and their barriers, which all threads call and the first one means; made when somebody waits
// for them. They do nothing, and shim_bulk_copy answers 0, on a GPU without them (shim_no_wgmma).
void shim_mbarrier_init(void *at);
void shim_mbarrier_fence(void);
void shim_mbarrier_expect(void *at, int bytes);
int shim_bulk_copy(void *to, const void *from, int bytes, void *at);
void shim_mbarrier_wait(void *at, int parity);
#ifdef __cplusplus
}

template <class T> static inline T __shfl_xor_sync(unsigned, T v, int lane_xor) {
    T r;
    shim_exchange(&v, &r, sizeof v, lane_xor);
    return r;
}
template <class T> static inline T atomicAdd(T *p, T v) {
    T old = *p;
    *p = old + v;
    return old;
}
template <class To, class From> static inline To shim_bits(From v) {
    To r;
    static_assert(sizeof r == sizeof v, "the same bits");
    memcpy(&r, &v, sizeof r);
    return r;
}
// f on arguments of its types that args point to, as for cudaLaunchKernel.
template <class... T, std::size_t... I>
static inline void shim_call_each(void (*f)(T...), void *const *args, std::index_sequence<I...>) {
    f(*(T *)args[I]...);
}
template <class... T> static inline void shim_call(void (*f)(T...), void *const *args) {
    shim_call_each(f, args, std::index_sequence_for<T...>());
}
static inline uint32_t __float_as_uint(float v) { return shim_bits<uint32_t>(v); }
static inline float __uint_as_float(uint32_t v) { return shim_bits<float>(v); }
static inline int64_t __double_as_longlong(double v) { return shim_bits<int64_t>(v); }
static inline double __longlong_as_double(int64_t v) { return shim_bits<double>(v); }
static inline float __fsqrt_rn(float v) { return sqrtf(v); }
static inline double __dsqrt_rn(double v) { return sqrt(v); }
#endif
#endif
