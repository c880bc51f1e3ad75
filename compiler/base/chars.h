// Classes of ASCII characters, independent of the locale.
#ifndef ONNXC_COMPILER_BASE_CHARS_H
#define ONNXC_COMPILER_BASE_CHARS_H
#include <stdbool.h>

static inline bool char_is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
static inline bool char_is_digit(char c) { return c >= '0' && c <= '9'; }
static inline bool char_is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
// The first character of an identifier, and the other ones.
static inline bool char_starts_name(char c) { return char_is_letter(c) || c == '_'; }
static inline bool char_in_name(char c) { return char_starts_name(c) || char_is_digit(c); }
#endif
