// A model that can be run, however it came to be: interpreted, compiled in this process, or a shared library.
#ifndef ONNXC_COMPILER_RUN_RUNNABLE_H
#define ONNXC_COMPILER_RUN_RUNNABLE_H
#include "compiler/driver/pipeline.h"
#include "compiler/values/values.h"
#include "runtime-lite/onnxc.h"

typedef struct runnable runnable;
struct runnable {
    const char *name;
    int nin, nout;
    port *in, *out;
    void *impl;
    // False when the model's own checks fail or an input does not fit: *message says what. out[j].data lives
    // in a.
    bool (*run)(runnable *r, arena *a, const tensor *in, tensor *out, const char **message);
};

// Takes a fresh pipeline all the way. How: NULL, code in this process; "", the interpreter; "program", the
// interpreter after the program's passes; "gpu", the same with its kernels as they are scheduled for GPUs.
runnable *runnable_new(pipeline *p, const source *s, const char *interpret);
// The same with CUDA text behind the shim in that folder (test/shim), on this machine's CPU.
runnable *runnable_on_shim(pipeline *p, const source *s, const char *folder);
// A shared library that onnxc made; what else the file is, is an error.
runnable *runnable_open(arena *a, diag *d, const char *path);
onnxc_model runnable_model(const runnable *r); // of one that is not interpreted
// A call with all its memory at hand, to be made again and again; NULL and *message when the first one fails.
// Answers 0 when it succeeds.
typedef struct prepared_call prepared_call;
prepared_call *runnable_prepare(runnable *r, arena *a, const tensor *in, const char **message);
int prepared_run(prepared_call *c);
// Gives back what the last call made of memory for strings, sequences and optionals: before the next one.
void prepared_release(prepared_call *c);
bool runnable_is_library(const char *path);
#endif
