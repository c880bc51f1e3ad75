// Reading text: characters, words, strings and numbers, with line and column in messages. Shared by the
// readers of ONNX's text syntax and of protobuf's text format.
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
    int depth;     // of nested messages, graphs and types
    void *numbers; // the locale that numbers are read in, made when needed
} scanner;

_Noreturn void scan_fail(const scanner *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
// All but scan_next skip white space and comments (# to the end of the line) first.
int scan_peek(scanner *s); // the next character, 0: the end
static inline bool scan_ended(const scanner *s) { return s->at >= s->end; }
bool scan_match(scanner *s, char c);  // takes c if it comes next
void scan_expect(scanner *s, char c); // fails unless c comes next
// A list with commas between brackets: for (bool more = scan_open(s, '(', ')'); more; more = scan_next(s, ')')).
bool scan_open(scanner *s, char open, char close);
bool scan_next(scanner *s, char close);
// [A-Za-z_][A-Za-z_0-9]*, NULL: something else comes next.
const char *scan_word(scanner *s);
const char *scan_peek_word(scanner *s);
// One level deeper, fails when it is too deep; depth-- leaves it.
void scan_nest(scanner *s);
// The digits, signs, dots and letters of a number that comes next, NULL: none does.
const char *scan_number(scanner *s);
// The whole text as a number; false: it is none, or does not fit. Decimal, hexadecimal and octal.
bool scan_int(const char *text, int64_t *v);              // also 2^63 ... 2^64 - 1, as their bits
bool scan_real(scanner *s, const char *text, double *v);  // also inf, infinity and nan, with a sign
bool scan_float(scanner *s, const char *text, double *v); // rounded once, to float
#endif
