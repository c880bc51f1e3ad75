// Loads a module into this process: compiles it in memory and makes it callable, without files or a linker.
// Data of the module are not copied.
#ifndef ONNXC_CODEGEN_LLVM_LOAD_H
#define ONNXC_CODEGEN_LLVM_LOAD_H
#include "compiler/base/bytes.h"
#include "ir/loops/loops.h"

typedef struct load_name {
    const char *name;
    const void *address;
} load_name;
typedef struct loaded loaded;

// The module must be for this machine (target_runs_here). `outside` defines the runtime's symbols; those of
// the process (libc) are found automatically. The code lives until loaded_close or the end of the arena.
loaded *load_module(arena *a, diag *d, const lmodule *m, const load_name *outside, int n);
// The same with an object of the module from llvm_emit_loadable.
loaded *load_emitted(arena *a, diag *d, const lmodule *m, bytes object, const load_name *outside, int n);
// The address of a function or data of the module; NULL: not found.
void *loaded_symbol(loaded *l, const char *name);
#endif
