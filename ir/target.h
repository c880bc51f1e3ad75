// What the schedules, the legaliser and the emitters need to know of where the code runs. Filled from triple,
// CPU and features by codegen/target/targets.c.
#ifndef ONNXC_IR_TARGET_H
#define ONNXC_IR_TARGET_H
#include <stdbool.h>

typedef enum arch { ARCH_X86_64, ARCH_AARCH64, ARCH_ARM, ARCH_RISCV, ARCH_OTHER, ARCH_C, ARCH_CUDA } arch;
// What sums of products of f32 may be reduced to.
typedef enum precision { PRECISION_OWN, PRECISION_TF32, PRECISION_BF16, PRECISION_F16 } precision;
typedef enum fp_mode { FP_STRICT, FP_DEFAULT, FP_FAST } fp_mode;
typedef struct target {
    const char *triple, *cpu, *features; // normalised, as LLVM takes them; NULL for ARCH_C, ARCH_CUDA
    const char *abi, *float_abi;         // "hard", "soft", NULL: the triple's
    arch arch;
    int ptr_bits;
    int vector_bits;             // 0: scalars only (C text, M4, CUDA)
    int vector_regs;             // SIMD registers
    bool fma;                    // fused multiply-add for f32 (and f64 where there are vectors of it)
    bool f64;                    // hardware double
    bool f32;                    // hardware float
    bool f16_convert;            // hardware f16 <-> f32 (F16C, ...)
    bool bf16_convert;           // f32 -> bf16 is best left to the emitter: hardware, or code
    bool round_instr;            // hardware floor/ceil/trunc/rint for f32
    bool vnni, avx512, amx, dsp; // dot4 u8*s8; dsp: SMLAD
    bool no_divider;             // integers are divided by code
    bool no_wide_product;        // products of 64 bits are made by code
    bool masked;                 // cheap masked vector loads and stores (AVX, AVX-512, SVE)
    bool hosted, freestanding, little_endian;
    fp_mode fp;
    precision precision; // ARCH_CUDA
    int threads;         // most worker threads the code may use; 1: no thread code
    int opt;             // 0..3
    int size_level;      // 0, 1 (-Os), 2 (-Oz)
    int sm;              // ARCH_CUDA: the oldest architecture that must run it, 75, 80, 90 ...
    bool warpgroups;     // ARCH_CUDA: code for sm_90a is wanted, nothing before sm_80
    int shared_most;     // ARCH_CUDA: bytes of shared memory that a block has wherever it runs
    bool placed;         // ARCH_CUDA: buffers begin at multiples of 64 bytes, views apart
    int processors;      // ARCH_CUDA: how many a kernel's blocks should keep busy
    const struct choice_table
        *choices; // passes/schedule/common/choices.h: what was measured for it; NULL: nothing
} target;

// Caches of a core that schedules count on, in bytes: the first one for data; the second one of cores with
// 512-bit vectors, and the least of all.
enum { L1_BYTES = 32 << 10, L2_BYTES = 1 << 20, L2_LEAST_BYTES = 256 << 10 };

// Vector lanes of an element of so many bits: 1 where there are no vectors.
static inline int target_lanes(const target *t, int bits) {
    return t->vector_bits ? t->vector_bits / bits : 1;
}
#endif
