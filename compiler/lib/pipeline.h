// The whole way of a model through the compiler, for the command line, the library and the tests.
#ifndef ONNXC_PIPELINE_H
#define ONNXC_PIPELINE_H
#include "compiler/import/import.h"
#include "ir/program.h"
#include "ir/target.h"

typedef struct pipeline_options {
    import_options import;
    int opt;                 // 0..3
    const char *print_after; // pass name or "all", NULL: none
    const char *stop_after;  // pass name, NULL: go on
    bool time_passes;
    void (*print)(void *user, const char *pass, const char *text); // for print_after and time_passes
    void *user;
} pipeline_options;

typedef struct pipeline {
    arena *arena;
    diag *diag;
    module *module;
    program *program; // NULL when stopped before lowering
    bool stopped;
} pipeline;

// Model file to program of unscheduled kernels. Leaves through d on errors.
pipeline pipeline_file(arena *a, diag *d, const char *path, const pipeline_options *o);
pipeline pipeline_module(arena *a, diag *d, module *m, const pipeline_options *o);
#endif
