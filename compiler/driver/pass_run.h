// The table of passes: rows are found by name and run in order, each printed, timed and verified.
#ifndef ONNXC_COMPILER_DRIVER_PASS_RUN_H
#define ONNXC_COMPILER_DRIVER_PASS_RUN_H
#include "compiler/driver/pipeline.h"
#include "passes/passes.h"

// Targets of the code; a model may be compiled for several at once.
enum {
    ON_CPU = 1,
    ON_GPU_ALONE = 2,                        // kernels as CUDA text, PTX or a cubin, for the caller to launch
    ON_GPU_SEEN = 4,                         // kernels for a view into the compiler
    ON_GPU_HOST = 8,                         // kernels launched by the host code
    ON_CODE = 16,                            // machine code is wanted
    ON_FILES = 32,                           // outputs are wanted
    ON_GPU_LAID = ON_GPU_SEEN | ON_GPU_HOST, // onnxc decides layout and space of buffers
    ON_GPU = ON_GPU_ALONE | ON_GPU_LAID,
    ON_HOST = ON_CPU | ON_GPU_HOST, // there is host code
    ON_ANY = ON_CPU | ON_GPU,
};
enum {
    REQUIRED = 1, // cannot be disabled: later rows rely on it
    RELAXED = 2,  // changes rounding: not with --fp strict
};

// One row. Rows of a group are adjacent; the name of the group means all of them, and "after" it means after
// the last.
typedef struct pass {
    const char *name, *group;     // names may repeat: they mean all these rows
    void (*run)(pass_context *c); // one of the two
    void (*step)(pipeline *p);
    goal level; // level of the row
    int opt;    // the least -O
    unsigned on, flags;
    // Repeats from the row of that name while one of the rows in between changes something.
    const char *again;
} pass;
extern const pass passes[]; // pipeline.c; ends with a NULL name

// Runs the rows of a level; false: --stop-after ended it.
bool run_level(pipeline *p, goal level);
// Likewise without a pipeline, for tests: no options, no hooks. group: only its rows; NULL: all.
void run_passes(pass_context *c, goal level, const char *group);

// The last row of that name or group; NULL: none.
const pass *pass_find(const char *name);
bool pass_may_be_disabled(const char *name); // one of its rows is not required
// "import, infer, ...; groups: fuse, ..."; over_kernels: only passes that --passes takes.
const char *pass_names(arena *a, bool over_kernels);
// Whether --print-after or --stop-after names a pass that makes machine code or files.
bool pass_shows_code(arena *a, const options *o);
#endif
