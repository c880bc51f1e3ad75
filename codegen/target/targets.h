// In: triple, CPU, features and gcc's machine flags as given on the command line. Out: a `target`, whose
// facts schedules, legaliser and emitters ask for. An unknown name is an error that lists similar names.
#ifndef ONNXC_CODEGEN_TARGET_TARGETS_H
#define ONNXC_CODEGEN_TARGET_TARGETS_H
#include "compiler/base/arena.h"
#include "compiler/base/diag.h"
#include "ir/target.h"

typedef struct target_options {
    const char *triple;        // NULL: this machine's
    const char *cpu;           // NULL: the baseline of the triple; "native": this machine's CPU and features
    const char *features;      // "+x,-y" with LLVM's names; may be NULL
    VEC(const char *) machine; // gcc's machine flags in order: "-mcpu=cortex-m4", "-mthumb", "-mavx2" ...
    bool freestanding;         // implied by a *-none-* triple
    fp_mode fp;                // zero is FP_STRICT
    precision precision;       // CUDA text
    int threads;               // maximum number of worker threads; 0: not given
    const char *opt;           // "0" .. "3", "s", "z"; NULL: 2, or s where the triple is *-none-*
} target_options;

target *target_from_options(arena *a, diag *d, const target_options *o);
// The same target with another CPU ("x86-64-v3"; features of the base are dropped), for multi-version
// objects.
target *target_with_cpu(arena *a, diag *d, const target *base, const char *cpu);
// The names of the CPUs for which objects have variants by default, between commas; NULL: none.
const char *target_default_levels(arena *a, const target *t);
// C and CUDA text: no triple, scalars only. The CPU of CUDA text is its oldest architecture: "sm_80".
target *target_for_c(arena *a, const target_options *o);
target *target_for_cuda(arena *a, const target_options *o);
bool target_is_host_arch(const target *t);
// Whether this machine can run code for that target.
bool target_runs_here(arena *a, diag *d, const target *t);
// Name of the folder with the runtime library for that target: Debian's for Linux ("aarch64-linux-gnu"), else
// the triple without vendor and, where it has several, the calling convention ("thumbv7em-none-eabihf",
// "riscv32-none-elf-ilp32"). NULL: none is built for it.
const char *target_runtime_folder(arena *a, const target *t);
// The text of --list-targets.
const char *target_list_text(arena *a);
#endif
