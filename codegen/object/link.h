// Finished products from an object: static library (object and the runtime's members that it needs), shared
// library and program (through LLD or another linker). All are written whole or not at all.
#ifndef ONNXC_CODEGEN_OBJECT_LINK_H
#define ONNXC_CODEGEN_OBJECT_LINK_H
#include "compiler/base/bytes.h"
#include "ir/loops/loops.h"

typedef struct link_options {
    const char *linker;         // NULL: ld.lld beside the program or in PATH; a C compiler is used as such
    const char *sysroot;        // NULL: "/"
    const char *runtime;        // libonnxc-rt.a for the target; NULL: none is needed
    const char *program_folder; // where onnxc lies; NULL: unknown
    VEC(const char *) inputs;   // more objects and libraries, for programs
} link_options;

// The object with those of the runtime's members inside that it needs, under local names. What these need but
// do not have (besides memcpy and its like) is a warning.
bytes link_runtime(arena *a, diag *d, bytes object, const lmodule *m, const link_options *o);
// object: from llvm_emit (EMIT_OBJECT); m: its module, for the data.
void link_archive(arena *a, diag *d, bytes object, const lmodule *m, const link_options *o, const char *path);
void link_shared(arena *a, diag *d, bytes object, const lmodule *m, const link_options *o, const char *path);
void link_program(arena *a, diag *d, bytes object, const lmodule *m, const link_options *o, const char *path);
#endif
