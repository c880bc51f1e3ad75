// Identifiers of C and C++.
#ifndef ONNXC_CODEGEN_C_CNAME_H
#define ONNXC_CODEGEN_C_CNAME_H
#include "compiler/base/arena.h"
#include <stdbool.h>

bool c_is_reserved(const char *s); // a word of C or C++, or a name that C's headers or onnxc's take
bool c_is_word_of(const char *words, const char *s); // words: each of them between spaces
// s as a C and C++ identifier: others than letters, digits and _ replaced, no keyword, not reserved.
const char *c_identifier(arena *a, const char *s, const char *fallback);
#endif
