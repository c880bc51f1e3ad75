// Sequences of different lengths one after the other in one buffer of tokens, whose bounds the cumulative lengths give
// (starts, and after them the end).
#ifndef ONNXC_IR_OPS_CONTRIB_VARLEN_H
#define ONNXC_IR_OPS_CONTRIB_VARLEN_H
#include "ir/ops/contrib/attention.h"

typedef struct sequences {
    node *n;
    int64_t before;          // places before each sequence, with what an earlier call left
    value *starts, *lengths; // of each sequence, int64
    value *owner, *place;    // of each token: its sequence, its place in that
} sequences;

// bounds: n's input with the cumulative lengths; tokens: along axis 0 of that value.
sequences sequences_at(node *n, value *tokens, int bounds, int64_t before);

value *as_column(node *n, value *v); // with a last axis of size 1
#endif
