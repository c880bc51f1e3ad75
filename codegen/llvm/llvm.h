// The LLVM backend: a legal module of loops in, machine code (or one of LLVM's text forms) in memory out.
// Every function is compiled for its own target, so variants for several CPUs lie in one object.
#ifndef ONNXC_CODEGEN_LLVM_LLVM_H
#define ONNXC_CODEGEN_LLVM_LLVM_H
#include "compiler/base/bytes.h"
#include "ir/loops/loops.h"

typedef enum emit_kind {
    EMIT_OBJECT,  // ELF; the module's data are undefined symbols in it until elf_write adds them
    EMIT_ASM,     // text
    EMIT_LLVM_IR, // text, after the passes
    EMIT_BITCODE,
    EMIT_LOADABLE, // an object for load_module: data and functions may be far apart, nothing is shared or
                   // hidden
} emit_kind;

// Safe to call in several threads at once, with different arenas and diags.
bytes llvm_emit(const lmodule *m, emit_kind kind, arena *a, diag *d);
// What makes it quicker, and changes no byte.
typedef struct emit_means {
    int threads;               // most, for large modules; 0: one
    const struct cache *cache; // NULL: none
} emit_means;
// An object, by these means.
bytes llvm_emit_object(const lmodule *m, const emit_means *by, arena *a, diag *d);
bytes llvm_emit_loadable(const lmodule *m, const emit_means *by, arena *a, diag *d);
#endif
