// Text scanner: characters, words, strings and numbers, with line and column in messages. Shared by the
// readers of ONNX's text syntax and protobuf's text format.
#ifndef ONNXC_COMPILER_IMPORT_TEXT_SCAN_H
#define ONNXC_COMPILER_IMPORT_TEXT_SCAN_H
#include "compiler/base/arena.h"
#include "compiler/base/diag.h"
#include <stdbool.h>

enum { SCAN_DEPTH_MOST = 100 };

typedef struct scanner {
    arena *arena;
    diag *diag;
    const char *begin, *at, *end;
    int depth; // of nested messages, graphs and types
} scanner;

_Noreturn void scan_fail(const scanner *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
// All but scan_next skip white space and comments (# to the end of the line) first.
int scan_peek(scanner *s); // the next character, 0: the end
static inline bool scan_ended(const scanner *s) { return s->at >= s->end; }
bool scan_match(scanner *s, char c);  // consumes c if it is next
void scan_expect(scanner *s, char c); // fails unless c is next
// A list with commas between brackets: for (bool more = scan_open(s, '(', ')'); more; more = scan_next(s, ')')).
bool scan_open(scanner *s, char open, char close);
bool scan_next(scanner *s, char close);
// [A-Za-z_][A-Za-z_0-9]*; NULL: something else is next.
const char *scan_word(scanner *s);
const char *scan_peek_word(scanner *s);
// Enters a level, fails if it is too deep; depth-- leaves it.
void scan_nest(scanner *s);
// The digits, signs, dots and letters of a number; NULL: none is next.
const char *scan_number(scanner *s);
// Parses the whole text as a number, decimal, hexadecimal or octal; false: not a number, or out of range.
bool scan_int(const char *text, int64_t *v);  // also 2^63 ... 2^64 - 1, wrapped
bool scan_real(const char *text, double *v);  // also inf, infinity and nan, with a sign
bool scan_float(const char *text, double *v); // rounded once, to float
#endif
