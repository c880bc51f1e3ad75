// Regular expressions (in RE2's syntax) to automata over bytes.
#ifndef ONNXC_IR_OPS_TEXT_REGEX_H
#define ONNXC_IR_OPS_TEXT_REGEX_H
#include "compiler/base/arena.h"
#include <stdint.h>

typedef enum regex_result {
    REGEX_OK,
    REGEX_WRONG,   // not valid in RE2; *message gives the reason
    REGEX_MISSING, // valid, but not supported
} regex_result;

typedef struct automaton {
    int classes, states;
    int32_t
        *table; // the class of each byte; per state, whether it accepts, then its successor for each class
    int64_t words;
} automaton;

// The automaton that accepts the texts (UTF-8) that match as a whole. State 0 is dead, state 1 the start.
regex_result regex_compile(arena *a, const char *pattern, size_t size, automaton *out, const char **message);
#endif
