// A model that can be run, however it came to be: interpreted, compiled in this process, or a shared library.
#ifndef ONNXC_RUNNABLE_H
#define ONNXC_RUNNABLE_H
#include "compiler/lib/pipeline.h"
#include "compiler/lib/values.h"

typedef struct runnable runnable;
struct runnable {
    const char *name;
    int nin, nout;
    port *in, *out;
    void *impl;
    // False when the model's own checks fail or an input does not fit: *message says what. out[j].data lives in a.
    bool (*run)(runnable *r, arena *a, const tensor *in, tensor *out, const char **message);
};

// Takes a fresh pipeline all the way: to the interpreter, or to code in this process.
runnable *runnable_new(pipeline *p, const source *s, bool interpret);
#endif
