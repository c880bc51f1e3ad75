// A model that can be run: interpreted, compiled in this process, or from a shared library.
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
    struct probes *probes; // compiler/driver/probes.h; NULL: none
    void *impl;
    // False: a check of the model failed or an input does not fit; *message says why. out[j].data is
    // allocated in a.
    bool (*run)(runnable *r, arena *a, const tensor *in, tensor *out, const char **message);
};

// Runs a new pipeline completely. interpret: NULL: code in this process; "": the interpreter; "program": the
// interpreter after the program's passes; "gpu": likewise with kernels scheduled for GPUs.
void runnable_check_interpret(diag *d, const char *interpret);
runnable *runnable_new(pipeline *p, const source *s, const char *interpret);
// Likewise with CUDA text run by the shim in that folder (test/shim), on this machine's CPU.
runnable *runnable_on_shim(pipeline *p, const source *s, const char *folder);
// Opens a shared library made by onnxc; another file is an error.
runnable *runnable_open(arena *a, diag *d, const char *path);
onnxc_model runnable_model(const runnable *r); // must not be interpreted
// A call with all its memory, for repeated runs; NULL and *message if the first one fails. prepared_run
// returns 0 on success.
typedef struct prepared_call prepared_call;
prepared_call *runnable_prepare(runnable *r, arena *a, const tensor *in, const char **message);
int prepared_run(prepared_call *c);
// Frees strings, sequences and optionals of the last run; before the next one.
void prepared_release(prepared_call *c);
// Seconds of this number of runs of a program under options->runner, after one that does not count. False and *message: it
// failed.
bool runnable_times(const runnable *r, arena *a, const tensor *in, int64_t runs, double *seconds,
                    const char **message);
bool runnable_is_library(const char *path);
#endif
