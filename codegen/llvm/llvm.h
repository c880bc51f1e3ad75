// The LLVM backend. In: a legal module of loops. Out: machine code or one of LLVM's text forms, in memory.
// Every function is compiled for its own target, so an object contains variants for several CPUs.
#ifndef ONNXC_CODEGEN_LLVM_LLVM_H
#define ONNXC_CODEGEN_LLVM_LLVM_H
#include "compiler/base/bytes.h"
#include "ir/loops/loops.h"

typedef enum emit_kind {
    EMIT_OBJECT,  // ELF; the module's data are undefined symbols until elf_write adds them
    EMIT_ASM,     // text
    EMIT_LLVM_IR, // text, after the passes
    EMIT_BITCODE,
    EMIT_LISTING,  // the object's machine code as text, for estimates (codegen/llvm/run_cost.h)
    EMIT_LOADABLE, // an object for load_module: data may be far from functions, all symbols are plain globals
} emit_kind;

// Thread-safe with different arenas and diags.
bytes llvm_emit(const lmodule *m, emit_kind kind, arena *a, diag *d);
// A listing, and by name of a function its label.
bytes llvm_emit_listing(const lmodule *m, map *labels, arena *a, diag *d);
// Options that affect speed, but not the result.
typedef struct emit_means {
    int threads;               // maximum for large modules; 0: one
    const struct cache *cache; // NULL: none
    // Called by the threads after each piece of a large module; NULL: by none.
    void (*progress)(void *user, int done, int all);
    void *user;
} emit_means;
bytes llvm_emit_object(const lmodule *m, const emit_means *by, arena *a, diag *d);
bytes llvm_emit_loadable(const lmodule *m, const emit_means *by, arena *a, diag *d);
#endif
