// Shared by the files that make a target: its names as LLVM spells them, and the architectures. An
// architecture is a line in ARCHS, a file arch_NAME.c, and its CPUs and features in llvm_names.c.
#ifndef ONNXC_CODEGEN_TARGET_TARGET_IMPL_H
#define ONNXC_CODEGEN_TARGET_TARGET_IMPL_H
#include "codegen/target/targets.h"

// LLVM's name of the target, the name here, and the triple whose names tools/llvm_names.py asks llc for. The
// first architecture with a prefix of a triple is its architecture.
#define ARCHS(X)                                                                                             \
    X(X86, x86, "x86_64")                                                                                    \
    X(AArch64, aarch64, "aarch64")                                                                           \
    X(ARM, arm, "thumbv7em")                                                                                 \
    X(RISCV, riscv, "riscv64")                                                                               \
    X(WebAssembly, wasm, "wasm32")

struct arch_row;

typedef struct target_names {
    const struct arch_row *arch;
    const char *triple;          // arch-vendor-os-environment
    const char *cpu;             // NULL: not given
    text features;               // "+x,-y"
    bool cpu_chosen;             // by a name or by features
    int sve_bits;                // the least length of SVE's registers, 0: not given
    const char *abi, *float_abi; // RISC-V: "lp64d"; ARM: "hard", "softfp", "soft"; NULL: not given
} target_names;

// The start of a triple, the width of pointers, and the CPU if none is named.
typedef struct arch_prefix {
    const char *prefix;
    int ptr_bits;
    const char *cpu;
} arch_prefix;

typedef struct arch_row {
    arch facts;
    const char *title;           // in messages and lists
    const char *cpus, *features; // LLVM's names between spaces
    arch_prefix prefixes[10];
    const char *narrow, *wide; // the architecture of the triple for -m32 and -m64, if these are supported
    bool has_abis;             // -mabi= selects the calling convention; elsewhere it has no effect
    // All but `fill` may be NULL. gcc's -mcpu= and -march=, then other flags; false: unknown flag.
    void (*set_cpu)(target_names *n, arena *a, diag *d, const char *value);
    void (*set_march)(target_names *n, arena *a, diag *d, const char *value);
    bool (*set_flag)(target_names *n, arena *a, diag *d, const char *flag);
    void (*resolve)(target_names *n, arena *a); // defaults that depend on other names
    void (*fill)(target *t, arena *a, diag *d); // the facts of CPU and features
} arch_row;

#define DECLARE(llvm, name, triple)                                                                          \
    extern const char name##_cpus[], name##_features[];                                                      \
    extern const arch_row arch_##name;
ARCHS(DECLARE)
#undef DECLARE

// target_flags.c
void names_add_features(target_names *n, const char *list); // "+x,-y"
void names_apply_flags(target_names *n, arena *a, diag *d, const char *const *flags, int nflags);
// "+dsp+nofp" after a CPU or an architecture. Extensions that the table lacks are errors, or LLVM's features
// if d is NULL.
typedef struct spelling {
    const char *gcc, *llvm; // gcc: one or several words
} spelling;
void names_add_extensions(target_names *n, arena *a, diag *d, const spelling *table, const char *list);
// LLVM's spelling of the first n characters; NULL: the table, which ends with {NULL, NULL}, lacks it.
const char *find_spelling(const spelling *table, const char *gcc, size_t n);
// What follows the prefix; NULL: the flag does not begin with it.
const char *flag_after(const char *flag, const char *prefix);
// The part of the triple (0 arch, 1 vendor, 2 OS, 3 environment).
const char *triple_part(arena *a, const char *triple, int part);
const char *triple_with_part(arena *a, const char *triple, int part, const char *with);
bool triple_is_bare(const char *triple); // no operating system

// Questions to LLVM (target_probe.c).
void probe_initialise(void); // registers LLVM's targets, once per process
void probe_check_names(arena *a, diag *d, const target_names *n);
// A CPU whose features never change, such as a level of a psABI, with its features that targets ask for. LLVM is not
// asked about it, or about the levels of an architecture: the answer takes longer than compiling a small model. A table
// ends with {NULL, NULL}.
typedef struct fixed_cpu {
    const char *cpu, *features; // "+x,+y"
} fixed_cpu;
// has[i]: does that CPU with those features have names[i] ("avx2", or several: "avx2,+fma")? fixed: NULL or a table.
void probe_features(arena *a, diag *d, const target *t, const fixed_cpu *fixed, const char *const *names,
                    int n, bool *has);
// The value of that attribute in the assembly of an empty module.
const char *probe_attribute(arena *a, diag *d, const target *t, int attribute);
// May code of the first (CPU, features) run where the second is present?
bool probe_is_subset(diag *d, const target *t, const char *in_cpu, const char *in_features);
#endif
