// Regular expressions (in RE2's syntax) to automata over bytes.
#ifndef ONNXC_IR_OPS_TEXT_REGEX_H
#define ONNXC_IR_OPS_TEXT_REGEX_H
#include "ir/graph/op.h"
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

// REGEX_WHOLE: the automaton accepts the texts (UTF-8) that match as a whole. State 0 is dead, state 1 the start.
// REGEX_SEARCH: it accepts matches inside a text; runtime-lite/lib/lib_tokens.h has its states.
typedef enum regex_use { REGEX_WHOLE, REGEX_SEARCH } regex_use;
regex_result regex_compile(arena *a, const char *pattern, size_t size, regex_use use, automaton *out,
                           const char **message);
// For a node, which an invalid pattern stops.
automaton regex_of(const node *n, const char *pattern, size_t size, regex_use use);
#endif
