// Compiled models behind the generic interface of runtime-lite/onnxc.h.
#ifndef ONNXC_COMPILER_RUN_RUNNABLE_IMPL_H
#define ONNXC_COMPILER_RUN_RUNNABLE_IMPL_H
#include "compiler/run/runnable.h"

// After GOAL_LOOPS; text_model compiles C text with the system's C compiler.
runnable *loaded_model(pipeline *p);
runnable *text_model(pipeline *p);
// An executable, run by options->runner; takes a new pipeline.
runnable *program_model(pipeline *p, const source *s);
// Frees strings, sequences and optionals of the outputs with the arena.
void runnable_own_outputs(const runnable *r, arena *a, tensor *out);
// Frees them now, for another run with the same outputs.
void runnable_release_outputs(const runnable *r, tensor *out);
void runnable_set_ports(pipeline *p, runnable *r); // inputs and outputs of its program
#endif
