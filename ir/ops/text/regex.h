// Regular expressions (in RE2's syntax) to automata over bytes.
#ifndef ONNXC_IR_OPS_TEXT_REGEX_H
#define ONNXC_IR_OPS_TEXT_REGEX_H
#include "ir/graph/op.h"
#include <stdint.h>

typedef struct automaton {
    int classes, states;
    // The class of each byte; per state, whether it accepts, then its successor for each class.
    int32_t *table;
    int64_t words;
} automaton;

// REGEX_WHOLE: the automaton accepts the texts (UTF-8) that match as a whole. State 0 is dead, state 1 the start.
// REGEX_SEARCH: it accepts matches inside a text; runtime-lite/lib/lib_tokens.h has its states.
typedef enum regex_use { REGEX_WHOLE, REGEX_SEARCH } regex_use;
// For a node, which an invalid pattern stops.
automaton regex_of(const node *n, const char *pattern, size_t size, regex_use use);
#endif
