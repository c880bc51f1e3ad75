// Probes: nodes without outputs that hand the values of their inputs to a C function of the process that runs the
// model, so that a run can show values inside of the model. No operator of ONNX; no pass removes or merges them.
#ifndef ONNXC_IR_OPS_PROBE_H
#define ONNXC_IR_OPS_PROBE_H
#include "ir/graph/op.h"

// The function that probes call, an onnxc_custom_function. Its attributes: those given to probe_node, and "forms"
// with a probe_form for each input.
#define PROBE_SYMBOL "onnxc_probe"

typedef enum probe_form {
    PROBE_NUMBERS,  // a tensor of numbers
    PROBE_CONSTANT, // likewise, known at compile time: what reads the value need not read this memory
    PROBE_STRINGS,  // handles of strings (runtime-lite/lib/lib_value.h)
    PROBE_VALUE,    // the handle of a sequence, an optional, a map or a tensor of unknown rank
    PROBE_OPTIONAL, // the handle of an optional
} probe_form;

const op_def *probe_op(arena *a);
// A probe in g before `before` (NULL: at its end). number: tells probes apart; user: a pointer that reaches the
// function.
node *probe_node(graph *g, node *before, const op_def *probe, const loc *at, int64_t number, void *user,
                 int nin, value *const *in);
#endif
