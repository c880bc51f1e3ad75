// Old versions of glibc's symbols for shared libraries, which then load on systems older than the one that they were linked on.
#ifndef ONNXC_CODEGEN_OBJECT_GLIBC_H
#define ONNXC_CODEGEN_OBJECT_GLIBC_H
#include "codegen/object/archive.h"

typedef struct glibc_wraps {
    VEC(const char *) names;  // functions to link by --wrap
    const char *libraries[2]; // where old systems have them; NULL: not needed
} glibc_wraps;

// The functions that the object needs through members of the runtime, and that the runtime has wrappers of.
glibc_wraps glibc_wraps_of(arena *a, diag *d, bytes object, const archive *runtime);
#endif
