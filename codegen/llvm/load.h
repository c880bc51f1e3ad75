// Code into this process: a module compiled in memory and made callable at once, without files or a linker.
// The module's data are used where they lie.
#ifndef ONNXC_CODEGEN_LLVM_LOAD_H
#define ONNXC_CODEGEN_LLVM_LOAD_H
#include "compiler/base/bytes.h"
#include "ir/loops/loops.h"

typedef struct load_name {
    const char *name;
    const void *address;
} load_name;
typedef struct loaded loaded;

// The module must be compiled for this machine (target_runs_here). `outside` are the runtime's symbols that
// it may refer to; those of the process (libc) are found by themselves. Lives until loaded_close or as long
// as the arena.
loaded *load_module(arena *a, diag *d, const lmodule *m, const load_name *outside, int n);
// The same with an object that llvm_emit_loadable made of it.
loaded *load_emitted(arena *a, diag *d, const lmodule *m, bytes object, const load_name *outside, int n);
// The same for an object that llvm_emit made as EMIT_LOADABLE.
loaded *load_object(arena *a, diag *d, bytes object, const load_name *outside, int n);
// Address of a function or data of the module; NULL when there is none of that name.
void *loaded_symbol(loaded *l, const char *name);
void loaded_close(loaded *l);
#endif
