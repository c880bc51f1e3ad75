// The text of library functions for emitted C, embedded when onnxc is built.
#ifndef ONNXC_CODEGEN_C_LIBRARY_H
#define ONNXC_CODEGEN_C_LIBRARY_H
#include "ir/loops/loops.h"

typedef struct library_source {
    const char *name, *text;
} library_source;
extern const library_source library_sources[]; // ends with a NULL name

const char *library_source_of(const char *name); // by the name without its folder; NULL: no such file
// The files of the module's library functions, each once; "" if it has none.
const char *library_text(arena *a, const lmodule *m);
#endif
