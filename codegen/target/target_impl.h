// Shared by the files that make a target: what was asked for, as strings in LLVM's terms.
#ifndef ONNXC_CODEGEN_TARGET_TARGET_IMPL_H
#define ONNXC_CODEGEN_TARGET_TARGET_IMPL_H
#include "codegen/target/targets.h"

typedef struct target_names {
    arch arch;
    const char *triple;          // arch-vendor-os-environment
    const char *cpu;             // NULL: not said
    text features;               // "+x,-y"
    const char *abi, *float_abi; // RISC-V: "lp64d"; ARM: "hard", "softfp", "soft"; NULL: not said
    bool soft_float;
} target_names;

void names_add_features(target_names *n, const char *list); // "+x,-y"
// The part of the triple (0 arch, 1 vendor, 2 OS, 3 environment) replaced or read.
const char *triple_part(arena *a, const char *triple, int part);
const char *triple_with_part(arena *a, const char *triple, int part, const char *with);
arch triple_arch(const char *triple);
const char *triple_normalise(arena *a, const char *triple);

// gcc's machine flags into names (target_flags.c).
void names_apply_flags(target_names *n, arena *a, diag *d, const char *const *flags, int nflags);

// Questions to LLVM (target_probe.c).
void probe_initialise(void); // registers LLVM's targets, once per process
void probe_check_names(arena *a, diag *d, const target_names *n);
// has[i]: does that CPU with those features have names[i] ("avx2", or several: "avx2,+fma")?
void probe_features(arena *a, diag *d, const char *triple, const char *cpu, const char *features,
                    const char *const *names, int n, bool *has);
// RISC-V: the whole ISA string, such as "rv64i2p1_m2p0_f2p2".
const char *probe_riscv_isa(arena *a, diag *d, const char *triple, const char *cpu, const char *features);
// May code of the first (CPU, features) run where the second is present?
bool probe_is_subset(arena *a, diag *d, const char *triple, const char *cpu, const char *features,
                     const char *in_cpu, const char *in_features);
const char *probe_cpu_list(arch k);
#endif
