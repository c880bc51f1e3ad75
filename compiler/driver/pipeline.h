// The whole way of a model through the compiler, for the command line, the library and the tests.
#ifndef ONNXC_COMPILER_DRIVER_PIPELINE_H
#define ONNXC_COMPILER_DRIVER_PIPELINE_H
#include "compiler/base/bytes.h"
#include "compiler/driver/options.h"
#include "compiler/import/import.h"
#include "ir/loops/loops.h"
#include "ir/target.h"

typedef struct program program; // ir/kernel/program.h
struct build;                   // codegen/host/host.h
struct gpu_code;                // codegen/gpu/gpu.h
struct emit_means;              // codegen/llvm/llvm.h
struct digest;                  // codegen/llvm/digest.h

// Where the model comes from.
typedef struct source {
    const char *path; // "-" is standard input
    const void *data; // not NULL: the model lies in memory, and path only names it
    size_t size;
    const char *folder; // of external data, for models in memory; NULL: none
} source;
bool source_is_program(const source *s); // as text, by its ending ".kernels"

// How far a model goes: its graph; unscheduled kernels, the meaning; the same after the program's passes;
// loops; machine code and files. The same are the levels of passes.
typedef enum goal { GOAL_GRAPH, GOAL_KERNELS, GOAL_PROGRAM, GOAL_LOOPS, GOAL_FILES } goal;

// Of NVRTC's work: machine code and PTX, what it uses (without NVRTC a warning), nothing.
typedef enum gpu_want { GPU_IMAGES, GPU_USES, GPU_NOTHING } gpu_want;

typedef struct pipeline pipeline;

// What the caller sees of the way; any may be NULL.
typedef struct pipeline_hooks {
    void *user;
    void (*print)(void *user, const char *pass, const char *text); // for --print-after
    void (*time)(void *user, const char *pass, const char *text);  // for --time-passes
    bool (*cancelled)(void *user);                                 // asked between passes
    void (*progress)(void *user, const char *pass);                // the pass that begins
    void (*edit)(void *user, module *m);                           // of the imported module
    // What becomes of an input that --override does not name.
    default_use (*input)(void *user, const model_input *i);
    void (*tune)(pipeline *p, struct choice_table *t); // for --tune: compiler/tune/tune.h
} pipeline_hooks;

struct pipeline {
    // By pipeline_new.
    arena *arena;
    diag *diag;
    const options *options;
    pipeline_hooks hooks;

    // By the caller, before pipeline_run.
    int (*hook)(void *user, uint32_t kernel); // what options->hook names, for code loaded into this process
    bool text_target;                         // loops for C text
    gpu_want gpu_want;                        // where the build's host code launches kernels
    bool all_outputs;                         // every computed value of the main graph becomes an output

    // By pipeline_run, from options and source.
    const source *source;
    const char *name;                    // C identifier
    target *target;                      // the first of:
    VEC(const struct target *) variants; // CPUs that the code is compiled for
    const struct target *gpu_target;     // of kernels that the build's host code launches; NULL: none
    struct size_list *lists;             // what each --dim says

    // In further ways of the same model (pipeline_ways.c); NULL in its own.
    const pipeline *of;           // the model's own way
    const char *label;            // a version's, or the GPU's
    const int *choice;            // of sizes, of a version
    algorithm_options algorithms; // who wants to hear of choices, of a trial

    // By the rows of the table, up to where the way ends.
    struct digest *model_digest;  // import: of the model as it was read; NULL: not wanted
    file_list files;              // import: that were read
    module *module;               // import
    program *program;             // lower
    VEC(struct version) versions; // of the program, for some sizes each; none: it runs itself
    VEC(pipeline *) ways;         // of the versions
    program *gpu_program;         // the GPU's, where `program` is the CPU's; else NULL
    struct gpu_code *gpu;         // schedule: the GPU's kernels
    struct hosting *hosting;      // schedule, for host code: the build under way
    lmodule *loops;               // schedule: of the build, or the GPU's kernels
    struct build *build;          // host; NULL for a GPU alone

    // By the caller, before pipeline_output; NULL: not wanted.
    bytes (*make_code)(pipeline *p);
    void (*write_files)(pipeline *p);
    void *writer;            // of write_files
    const char *header_name; // that C text includes; NULL: none
    bytes code;              // codegen: what make_code made

    // By pass_run.c.
    bool stopped; // by --stop-after
    bool was_cancelled;
    double *seconds;     // by row, of this level
    const char *printed; // by --print-after, last
};

pipeline *pipeline_new(arena *a, diag *d, const options *o, const pipeline_hooks *hooks);
// Leaves through the diag on errors.
void pipeline_run(pipeline *p, const source *s, goal g);
// Machine code and outputs, of a way that came to its loops.
void pipeline_output(pipeline *p);
// For --tune: a way up to the program's passes of a's, for the first target with these choices. Nobody hears
// of it but `chosen` (passes/rewrite/algorithm.h).
pipeline *pipeline_trial(pipeline *p, arena *a, const int *choice, const struct choice_table *t,
                         way_hook *chosen, void *user);
// How many ways a model goes: one for each choice of sizes, or one (*choices is NULL then).
int pipeline_choices(pipeline *p, int **choices);
// -j and --cache.
struct emit_means pipeline_means(pipeline *p);
const char *loops_text(arena *a, const lmodule *m);
bool is_identifier(const char *s); // of C
// The C identifier of a model: --name, or made of its file's name.
const char *model_identifier(arena *a, diag *d, const options *o, const char *path);
#endif
