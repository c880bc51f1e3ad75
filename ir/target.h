// The facts about a target that schedules, legaliser and emitters ask for. codegen/target/targets.c derives
// them from triple, CPU and features; other code knows no architecture by its name.
#ifndef ONNXC_IR_TARGET_H
#define ONNXC_IR_TARGET_H
#include <stdbool.h>

// Instructions for dot products of bytes (codegen/llvm/llvm_dot.c).
typedef enum dot_family { DOT_NONE, DOT_X86, DOT_AARCH64, DOT_ARM, DOT_WASM } dot_family;
// The format of objects.
typedef enum object_format { OBJECT_ELF, OBJECT_COFF, OBJECT_MACHO, OBJECT_WASM } object_format;
// One of the CPUs for which an object has a variant of its code, selected at run time: the last one in the table of the
// architecture that this machine can run.
typedef struct cpu_level {
    const char *name;     // the CPU with features: "x86-64-v4+avx512vnni"
    const char *suffix;   // of its functions' names
    int level;            // at least, as the runtime counts (onnxc_interface_2)
    const char *question; // the function of the runtime that must hold, too, or NULL
    const char *at_start; // the same, asked before main, for runs without system calls
    int vector_bits; // at least, of vector registers whose length the CPU decides (onnxc_rt_vector_bits); 0: any
    unsigned by_default; // LEVEL_...: the objects that have it without --multiversion
    bool compact;        // of old CPUs: its code is small first, then fast
} cpu_level;
enum { LEVEL_ELF = 1, LEVEL_COFF = 2, LEVEL_MACHO = 4, LEVEL_ANY = 7 };

// Columns of a packed panel at least. One packed copy serves all CPU levels, and one may have longer vectors.
// Without vectors, of few columns no more than tiles take side by side.
enum { PANEL = 16, LEAST_PANEL = 4 };

// Facts that hold for all CPUs of an architecture.
typedef struct arch {
    const char *name; // in keys of measurements: "x86_64"
    bool is_text;     // C or CUDA: a C compiler supplies what the processor lacks
    bool is_gpu;      // CUDA
    dot_family dot;
    bool dot_unsigned;       // the first operand of a fast dot product is unsigned
    bool dot_signed;         // both operands of the fast dot product of all CPUs are signed
    bool dot_lanes;          // an operand may be one lane of a register, for all lanes of the other
    bool no_roundeven;       // LLVM selects an instruction for llvm.rint, but none for llvm.roundeven
    bool large_data;         // 64-bit code can address more than 2 GiB of constants (.lrodata)
    bool sign_extends_words; // 64-bit calling convention: 32-bit arguments are sign-extended
    bool medium_code;        // the code model is "medium", so that addresses are relative to the code
    bool no_unwind_tables;   // they would need libgcc's unwinder
    int stack_align;         // of the stack pointer at calls; 0: frames are not known
    int red_zone;            // bytes below the stack pointer that hosted functions without calls use
    int pushes_after;  // number of arguments after which calls push them; 0: these are in the caller's frame
    bool shifts_call;  // 32-bit code for the least size calls a support library for shifts of 64 bits
    bool vectors_vary; // frames with vectors have a size that is known at run time only
    bool scalar_operands; // vector instructions take a scalar operand for all lanes
    bool widens_products; // ... and add products of 16 bits to sums of 32: bytes need no groups
    bool vector_lengths;  // ... and work on the first n lanes, for any n
    bool divides_floats;  // vector instructions divide floats of 32 and 64 bits, but no integers
    bool looks_up_bytes;  // vector instructions find bytes in registers: tables of bytes are stored as bytes
    bool strided_loads;   // one instruction loads elements that are equally far apart; also of some ARM CPUs
    bool is_wasm;         // WebAssembly: a stack machine, linked at fixed addresses by its own linker
    bool compiled_again;  // by an engine, whose register allocator spills where loads come early
    const char *protect[2];       // module flags of branch protection
    const char *protect_function; // function attribute of branch protection
    const cpu_level *levels;      // of hosted 64-bit code, from the least to the best; the last name is NULL
} arch;
// The format to which factors of f32 products may be rounded; int8: only rows multiplied by constants with fewer bits.
typedef enum precision {
    PRECISION_OWN,
    PRECISION_TF32,
    PRECISION_BF16,
    PRECISION_F16,
    PRECISION_INT8
} precision;
typedef enum fp_mode { FP_STRICT, FP_DEFAULT, FP_FAST } fp_mode;
typedef struct target {
    const char *triple, *cpu, *features; // normalised, as LLVM spells them; NULL for C and CUDA text
    const cpu_level *level;              // NULL: cannot be selected at run time
    const char *abi, *float_abi;         // "hard", "soft", NULL: the triple's
    object_format format;
    const char *folder, *loader; // Linux: Debian's folder of libraries, the dynamic loader
    arch arch;
    bool cpu_chosen; // by the user: code has no other CPU levels
    int ptr_bits;
    int vector_bits;     // 0: scalars only (C text, M4, CUDA)
    int vector_regs;     // width of SIMD registers in bits
    int tile_regs;       // without vectors and dot products: registers for tiles of sums of bytes, 0: too few
    int float_regs;      // without vectors: registers for tiles of sums of f32, 0: too few
    int register_bits;   // of one register, where a vector takes several (RISC-V: LMUL); else vector_bits
    int panel;           // columns of the widest packed panels, for all CPU levels; 0: PANEL
    bool scalar_panels;  // no CPU level has vectors
    int widest_bits;     // of vectors, of all CPU levels: what all of them share suits each
    int sve_bits;        // SVE: the least number of bits of a vector register; 0: without SVE
    bool scalar_floats;  // f32 is computed lane by lane: vectors would flush denormal numbers
    bool fma;            // fused multiply-add for f32 (and f64 if there are vectors of it)
    bool relaxed_muladd; // WebAssembly: one instruction for vectors that rounds once or twice
    bool f64;            // hardware double
    bool f32;            // hardware float
    bool f16_convert;    // hardware f16 <-> f32 (F16C, ...)
    bool bf16_convert;   // the emitter converts f32 to bf16 best: by an instruction, or its own code
    bool round_instr;    // hardware floor/ceil/trunc/rint for f32
    bool truncates_narrow; // x86: vector instructions truncate floats to integers of 32 bits, not of 64
    bool scale_instr;      // one instruction multiplies whole vectors of f32 by powers of two
    bool
        round_to_int; // one instruction from f32 to i32, halves to even: for whole vectors; without vectors, for one
    int permuted_words;     // x86: one instruction looks up words of 32 bits in a vector of them: 16, 8 or 0
    bool permutes_bytes;    // x86: one instruction looks up 64 bytes in two vectors of 64
    bool vnni, avx512, dsp; // fast dot4; dsp: SMLAD
    bool dot_across;        // one instruction adds the products of two vectors of bytes to a scalar
    bool narrow_scales; // scales of weights are stored as f16 where that is exact: a CPU level converts it
    bool i8mm, bf16mm;  // AArch64: dot4 u8*s8, blocks of bytes; of bf16 (ir/loops/loops_blocks.h)
    bool bf16_pairs;    // x86: products of pairs of bf16, faster than products of f32
    bool wide_groups;   // constants are packed for such blocks (passes/schedule/cpu/schedule_groups.h)
    bool amx_int8, amx_bf16; // matrix tiles (ir/loops/loops_tiles.h)
    bool spread_rows;        // for tiles of some CPU level (passes/layout/spread_rows.c)
    bool no_divider;         // no instruction for integer division
    bool no_wide_product;    // no instruction for 64-bit products
    bool adds_wide_products; // one instruction adds such a product to a number of 64 bits
    bool gathers;            // fast vector gathers of 32 and 64 bits
    bool masked;             // cheap masked vector loads and stores (AVX, AVX-512, SVE)
    int masked_least;        // bits of the narrowest elements that have them
    bool hosted, freestanding, little_endian;
    fp_mode fp;
    precision precision; // that products of f32 may have
    bool bf16_products;  // CPU: products of bf16 read it in pairs, as units for it do
    bool half_units;     // CPU: a variant of the object has a unit for products that `precision` rounds
    int threads;         // maximum number of worker threads; 1: no thread code
    int opt;             // 0..3
    int size_level;      // 0, 1 (-Os), 2 (-Oz)
    bool compact;    // of a level of old CPUs: one copy of a tile for all numbers of rows, few unrolled loops
    int sm;          // CUDA: the oldest architecture that must run the code, 75, 80, 90 ...
    bool warpgroups; // CUDA: emit code for sm_90a, too, and nothing for GPUs before sm_80
    int shared_most; // CUDA: bytes of shared memory that a block has on every such architecture
    bool placed;     // CUDA: buffers, but not views, begin at multiples of 64 bytes
    int processors;  // CUDA: number of multiprocessors to keep busy
    const struct choice_table
        *choices; // measured for this target (passes/schedule/common/choices.h), or NULL
} target;

// Whether some instruction multiplies bf16 faster than f32.
static inline bool has_bf16_unit(const target *t) { return t->amx_bf16 || t->bf16mm || t->bf16_pairs; }

// Cache sizes that schedules assume, in bytes: L1 data, L2 of cores with 512-bit vectors, L2 of any core.
enum { L1_BYTES = 32 << 10, L2_BYTES = 1 << 20, L2_LEAST_BYTES = 256 << 10 };

// Whether instructions round this many lanes of f32: whole vectors, or at most half of one. Without
// vectors: whether one instruction rounds a number.
static inline bool rounds_to_int(const target *t, int lanes) {
    if (!t->vector_bits) return t->round_to_int && lanes == 1;
    return t->round_to_int && lanes >= 4 &&
           (lanes * 32 <= t->vector_bits || lanes * 32 % t->vector_bits == 0);
}

// Whether the instruction that rounds a number saturates, to 0 for NaN: ARM's.
static inline bool rounding_saturates(const target *t) { return t->round_to_int && !t->vector_bits; }

// Whether sums of products of 16-bit integers pay: on bare machines, without floating point, with Helium, and on Cortex-M4 and
// later, which load, multiply and add integers in fewer cycles than floats.
static inline bool sums_halves(const target *t) {
    return t->freestanding && (t->vector_bits ? t->dot_across : t->dsp || !t->f32);
}

// Whether functions compute f32, in integers.
static inline bool soft_floats(const target *t) { return t->freestanding && !t->arch.is_text && !t->f32; }

// Vector lanes of elements of that width; 1 without vectors.
static inline int target_lanes(const target *t, int bits) {
    return t->vector_bits ? t->vector_bits / bits : 1;
}
#endif
