// Runs the step of a stream (--stream) over a whole signal.
#ifndef ONNXC_COMPILER_CLI_RUN_STREAM_H
#define ONNXC_COMPILER_CLI_RUN_STREAM_H
#include "compiler/run/runnable.h"

// An input or output with any number of samples of a signal.
port whole_signal(const port *p);
// r->run for each step of the signals among the inputs, one after the other. Outputs have the samples of all steps, in the places
// that they have in the whole model: those that a delay puts before the first are dropped.
bool run_signal(arena *a, diag *d, runnable *r, const tensor *in, tensor *out, const char **message);
// The state `j` before the first sample: zeros. Sizes that the model leaves open are taken from the inputs before it.
tensor state_before(arena *a, const runnable *r, const tensor *in, int j);
// The samples of an output of the whole model that `got` has: with a delay, the last ones are missing.
const import_value *samples_in(arena *a, const port *p, const tensor *got, const import_value *want);
// Whether the steps end with the signal, so that outputs other than samples equal the whole model's.
bool ends_with_step(const runnable *r, const tensor *in);
#endif
