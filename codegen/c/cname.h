// Identifiers of C and C++.
#ifndef ONNXC_CODEGEN_C_CNAME_H
#define ONNXC_CODEGEN_C_CNAME_H
#include "compiler/base/arena.h"
#include <stdbool.h>

bool c_is_reserved(const char *s); // a keyword of C or C++, or a name of C's or onnxc's headers
bool c_is_word_of(const char *words, const char *s); // words: separated and surrounded by spaces
// s as an identifier of C and C++: other characters than letters, digits and _ are replaced, reserved names
// changed.
const char *c_identifier(arena *a, const char *s, const char *fallback);
// Without the middle if it is long: C compilers need not distinguish identifiers beyond 63 characters.
const char *c_short_name(arena *a, const char *s, size_t n);
const char *c_short_names(arena *a,
                          const char *text); // all names except the ones in the first line; text may be NULL
#endif
