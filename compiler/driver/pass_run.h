// The table of passes: rows are found by name and run in order, each printed, timed and verified.
#ifndef ONNXC_COMPILER_DRIVER_PASS_RUN_H
#define ONNXC_COMPILER_DRIVER_PASS_RUN_H
#include "compiler/driver/pipeline.h"
#include "passes/passes.h"

// What the code is for; a model may be on its way to several of them at once.
enum {
    ON_CPU = 1,
    ON_GPU_ALONE = 2, // kernels as CUDA text, PTX or a cubin, which the caller launches
    ON_GPU_SEEN = 4,  // kernels for a look into the compiler
    ON_GPU_HOST = 8,  // kernels that the build's host code launches
    ON_CODE = 16,     // machine code is wanted
    ON_FILES = 32,    // and outputs
    ON_GPU_LAID = ON_GPU_SEEN | ON_GPU_HOST, // onnxc decides where buffers lie
    ON_GPU = ON_GPU_ALONE | ON_GPU_LAID,
    ON_HOST = ON_CPU | ON_GPU_HOST, // there is host code
    ON_ANY = ON_CPU | ON_GPU,
};
enum {
    REQUIRED = 1, // cannot be disabled: later rows rely on it
    RELAXED = 2,  // changes rounding: not with --fp strict
};

// One row. Rows of one group are adjacent; the group's name stands for all of them, and "after" the group
// means after the last one.
typedef struct pass {
    const char *name, *group;     // names may repeat: they mean all of their rows
    void (*run)(pass_context *c); // one of the two
    void (*step)(pipeline *p);
    goal level; // that needs the row
    int opt;    // the least -O
    unsigned on, flags;
    // Back to the row of that name, as long as one of the rows from there to here changed something.
    const char *again;
} pass;
extern const pass passes[]; // pipeline.c; ends with a NULL name

// Runs the rows of a level; false: --stop-after names one of them.
bool run_level(pipeline *p, goal level);
// The same without a pipeline, for tests: no options, nobody watches. group: only its rows; NULL: all.
void run_passes(pass_context *c, goal level, const char *group);

// The last row of that name or group; NULL: there is none.
const pass *pass_find(const char *name);
bool pass_may_be_disabled(const char *name); // one of its rows is not required
// "import, infer, ...; groups: fuse, ..."; over_kernels: only those that --passes takes.
const char *pass_names(arena *a, bool over_kernels);
// Whether a pass that makes machine code or files is to be printed, or to be the last.
bool pass_shows_code(arena *a, const options *o);
#endif
