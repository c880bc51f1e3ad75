// The pipeline from a model to code and files, for the command line, the library and tests.
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

// The origin of the model.
typedef struct source {
    const char *path;
    const void *data; // not NULL: the model in memory, and path only names it
    size_t size;
    const char *folder; // of external data, for models in memory; NULL: none
} source;
// Standard input is read into memory, as a model may be imported several times.
source source_at(arena *a, diag *d, const char *path);
bool source_is_program(const source *s); // by the extension ".kernels"

// Levels of the pipeline and of passes: graph; unscheduled kernels (the semantics); kernels after the passes;
// loops; machine code and files.
typedef enum goal { GOAL_GRAPH, GOAL_KERNELS, GOAL_PROGRAM, GOAL_LOOPS, GOAL_FILES } goal;

// Requested from NVRTC: machine code and PTX; resource usage (a warning without NVRTC); nothing.
typedef enum gpu_want { GPU_IMAGES, GPU_USES, GPU_NOTHING } gpu_want;

typedef struct pipeline pipeline;

// Callbacks of the caller; any may be NULL.
typedef struct pipeline_hooks {
    void *user;
    void (*print)(void *user, const char *pass, const char *text); // for --print-after
    void (*time)(void *user, const char *pass, const char *text);  // for --time-passes
    bool (*cancelled)(void *user);                                 // asked between passes
    // The pass that starts, or goes on; the share of the compilation that is done; kernels, 0: not known yet. May be
    // called by several threads during code generation.
    void (*progress)(void *user, const char *pass, double share, int kernels);
    void (*edit)(void *user, module *m); // changes the imported module
    // How to treat an input that --override does not name.
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
    int (*hook)(void *user, uint32_t kernel); // what options->hook names, for JIT code
    bool text_target;                         // loops for C text
    bool runs_here;                           // the code is loaded into this process
    gpu_want gpu_want;                        // where host code launches kernels
    struct probes *probes;                    // values that runs show (compiler/driver/probes.h); NULL: none

    // By pipeline_run, from options and source.
    const source *source;
    goal goal;                           // how far it runs
    const char *name;                    // C identifier
    target *target;                      // the first of:
    VEC(const struct target *) variants; // CPUs to compile for
    const struct target *gpu_target;     // of kernels launched by host code; NULL: none
    struct size_list *lists;             // the parsed --dim options
    int64_t patched_to;                  // bytes that kernels run in patches for; 0: none does

    // In pipelines derived from another (pipeline_derived.c); else NULL.
    const pipeline *of;           // the original pipeline
    const char *label;            // of a version, or of the GPU
    const int *choice;            // of sizes, of a version
    algorithm_options algorithms; // receives the choices of a trial

    // Set by rows of the table, as far as the pipeline runs.
    struct digest *model_digest;       // import: digest of the model; NULL: not needed
    file_list files;                   // import: files that were read
    module *module;                    // import
    program *program;                  // lower
    VEC(struct version) versions;      // of the program for certain sizes; none: a single program
    VEC(pipeline *) pipelines;         // of the versions
    program *gpu_program;              // for the GPU, if `program` is for the CPU; else NULL
    struct gpu_code *gpu;              // schedule: kernels for the GPU
    struct host_builder *host_builder; // schedule, for host code: the build in progress
    lmodule *loops;                    // schedule: of the build, or GPU kernels
    struct build *build;               // host; NULL for a GPU alone

    // By the caller, before pipeline_output; NULL: not needed.
    bytes (*make_code)(pipeline *p);
    void (*write_files)(pipeline *p);
    void *writer;            // of write_files
    const char *header_name; // that C text includes; NULL: none
    bytes code;              // codegen: result of make_code

    const struct footprint
        *footprint; // of the object, for reports (compiler/report/report.h); NULL: not wanted

    // By pass_run.c.
    bool stopped; // by --stop-after
    bool was_cancelled;
    double *seconds;     // by row, of this level
    const char *printed; // by --print-after, last
};

pipeline *pipeline_new(arena *a, diag *d, const options *o, const pipeline_hooks *hooks);
// Errors leave through the diag.
void pipeline_run(pipeline *p, const source *s, goal g);
// Adds the functions that machine code calls to what is known of the build (codegen/host/real_time.h).
void note_object_calls(pipeline *p, bytes object);
// Makes machine code and outputs, after GOAL_LOOPS.
void pipeline_output(pipeline *p);
// For --tune: runs a new pipeline in `a` up to the program passes, for the first target, with these choices. It
// prints no diagnostics and calls only `chosen` (passes/rewrite/algorithm.h).
pipeline *pipeline_trial(pipeline *p, arena *a, const int *choice, const struct choice_table *t,
                         algorithm_hook *chosen, void *user);
// The number of versions of a model: one for each choice of sizes, or 1 (*choices is NULL then).
int pipeline_choices(pipeline *p, int **choices);
// -j and --cache.
struct emit_means pipeline_means(pipeline *p);
const char *loops_text(arena *a, const lmodule *m);
bool is_identifier(const char *s); // of C
// The C identifier of a model: --name, or made of the name of the output, or of the model's file.
const char *model_identifier(arena *a, diag *d, const options *o, const char *path);
#endif
