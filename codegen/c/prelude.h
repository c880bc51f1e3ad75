// Functions that emitted C and CUDA text brings along: codegen/c/prelude, embedded when onnxc is built. In:
// what a text refers to. Out: the snippets that it needs.
#ifndef ONNXC_CODEGEN_C_PRELUDE_H
#define ONNXC_CODEGEN_C_PRELUDE_H
#include "compiler/base/arena.h"
#include <stdbool.h>

typedef struct prelude_snippet {
    const char *name, *c, *cuda; // cuda: in place of c, NULL: the same; c: NULL: for CUDA only
} prelude_snippet;
extern const prelude_snippet prelude_snippets[]; // ends with a NULL name

const prelude_snippet *prelude_find(const char *name); // NULL: none
// `own` and, before it, the snippets named in `names` (NULL: all of the dialect) or used in `own`. INLINE and
// ox_ become the linkage and the prefix.
const char *prelude_text(arena *a, bool cuda, const char *prefix, const map *names, const char *own);
#endif
