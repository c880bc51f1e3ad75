// In: an object. Out: a static library (with the runtime's members that it needs), a shared library or a
// program (by LLD or another linker). Files are written atomically.
#ifndef ONNXC_CODEGEN_OBJECT_LINK_H
#define ONNXC_CODEGEN_OBJECT_LINK_H
#include "compiler/base/bytes.h"
#include "ir/loops/loops.h"

typedef struct link_options {
    const char *linker;         // NULL: ld.lld beside the program or in PATH; a C compiler is used as such
    const char *sysroot;        // NULL: "/"
    const char *runtime;        // libonnxc-rt.a for the target; NULL: not needed
    const char *program_folder; // folder of onnxc; NULL: unknown
    VEC(const char *) inputs;   // more objects and libraries, for programs
} link_options;

// The object with the runtime's members that it needs, under local names. Other undefined symbols of these
// members (except memcpy and the like) cause a warning.
bytes link_runtime(arena *a, diag *d, bytes object, const lmodule *m, const link_options *o);
// object: from llvm_emit (EMIT_OBJECT); m: its module, for the data.
void link_archive(arena *a, diag *d, bytes object, const lmodule *m, const link_options *o, const char *path);
void link_shared(arena *a, diag *d, bytes object, const lmodule *m, const link_options *o, const char *path);
void link_program(arena *a, diag *d, bytes object, const lmodule *m, const link_options *o, const char *path);
#endif
