// Functions that emitted C and CUDA text contains: codegen/c/prelude, embedded when onnxc is built. In: names
// that a text refers to. Out: the snippets that define them.
#ifndef ONNXC_CODEGEN_C_PRELUDE_H
#define ONNXC_CODEGEN_C_PRELUDE_H
#include "compiler/base/arena.h"
#include <stdbool.h>

typedef struct prelude_snippet {
    const char *name, *c, *cuda; // cuda NULL: the same as c; c NULL: CUDA only
} prelude_snippet;
extern const prelude_snippet prelude_snippets[]; // ends with a NULL name

const prelude_snippet *prelude_find(const char *name); // NULL: none
// `own`, preceded by the snippets in `names` (NULL: all of the dialect) and the snippets that `own` uses. INLINE and
// ox_ are replaced by the linkage and the prefix.
const char *prelude_text(arena *a, bool cuda, const char *prefix, const map *names, const char *own);
#endif
