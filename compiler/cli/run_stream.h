// Runs the step of a stream (--stream) over a whole signal.
#ifndef ONNXC_COMPILER_CLI_RUN_STREAM_H
#define ONNXC_COMPILER_CLI_RUN_STREAM_H
#include "compiler/cli/command.h"
#include "compiler/run/runnable.h"

// An input or output with any number of samples of a signal.
port whole_signal(const port *p);
// r->run for each step of the signals among the inputs, one after the other; outputs have the samples of all steps.
bool run_signal(session *s, runnable *r, const tensor *in, tensor *out, const char **message);
#endif
