// Targets: from what the command line says (triple, CPU, features, gcc's machine flags) to a `target` that
// the schedules, the legaliser and the emitters can ask. Unknown names are errors that list the near ones.
#ifndef ONNXC_CODEGEN_TARGET_TARGETS_H
#define ONNXC_CODEGEN_TARGET_TARGETS_H
#include "compiler/base/arena.h"
#include "compiler/base/diag.h"
#include "ir/target.h"

typedef struct target_options {
    const char *triple;   // NULL: this machine's kind
    const char *cpu;      // NULL: the plainest of the triple; "native": this machine's, with its features
    const char *features; // "+x,-y" with LLVM's names; may be NULL
    VEC(const char *) machine; // gcc's machine flags in order: "-mcpu=cortex-m4", "-mthumb", "-mavx2" ...
    bool freestanding;         // asked for; a *-none-* triple implies it
    fp_mode fp;                // FP_STRICT is 0: set it
    precision precision;       // of CUDA text
    int threads;               // most worker threads; 0: not said
    const char *opt;           // "0" .. "3", "s", "z"; NULL: 2, or s where the triple is *-none-*
} target_options;

target *target_from_options(arena *a, diag *d, const target_options *o);
// The same target with another CPU ("x86-64-v3"; features of the base are dropped), for multi-version
// objects.
target *target_with_cpu(arena *a, diag *d, const target *base, const char *cpu);
// The C and CUDA text targets: no triple, scalars only.
target *target_for_text(arena *a, arch kind, const target_options *o);
// Does this machine run code of that target?
bool target_runs_here(arena *a, diag *d, const target *t);
// Text of --list-targets.
const char *target_list_text(arena *a);
#endif
