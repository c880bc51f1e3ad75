// Compiled models behind the generic interface of runtime-lite/onnxc.h.
#ifndef ONNXC_COMPILER_RUN_RUNNABLE_IMPL_H
#define ONNXC_COMPILER_RUN_RUNNABLE_IMPL_H
#include "compiler/run/runnable.h"

// Of pipelines that went to GOAL_LOOPS; text_model compiles C text with the system's C compiler.
runnable *loaded_model(pipeline *p);
runnable *text_model(pipeline *p);
// A program of its own, run through options->runner; takes a fresh pipeline.
runnable *program_model(pipeline *p, const source *s);
// What strings, sequences and optionals of these outputs hold is given back with the arena.
void runnable_own_outputs(const runnable *r, arena *a, tensor *out);
// At once, for another run into the same outputs.
void runnable_release_outputs(const runnable *r, tensor *out);
void runnable_set_ports(pipeline *p, runnable *r); // inputs and outputs of its program
#endif
