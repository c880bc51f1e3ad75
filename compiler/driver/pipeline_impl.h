// Shared by the files of the pipeline.
//   pipeline.c         the table of all passes, and the way of a model through it
//   pass_run.c         rows of the table: run, timed, verified, printed
//   pipeline_steps.c   rows that are not passes over one graph or program: import, lowering, the build
//   pipeline_derived.c pipelines for the same model: of versions, for the GPU beside the CPU, trials of --tune
//   pipeline_target.c  targets
//   tuned_choices.c    --tune and --tune-db
//   real_time.c        --real-time
//   model_name.c       the C identifier
#ifndef ONNXC_COMPILER_DRIVER_PIPELINE_IMPL_H
#define ONNXC_COMPILER_DRIVER_PIPELINE_IMPL_H
#include "compiler/driver/pass_run.h"
#include "compiler/driver/versions.h"

#define CODEGEN_BEGINS 0.3 // share of the time before it

// pipeline_steps.c: rows.
void step_import(pipeline *p);
void step_lower(pipeline *p);    // or a program is read from its text
void step_schedule(pipeline *p); // kernels become loops
void step_memory(pipeline *p);   // the workspace is planned
void step_host(pipeline *p);     // the host functions
void step_legalise(pipeline *p); // replaces what the target lacks
void step_numbers(pipeline *p);  // makes kernels equal that differ only in numbers
void step_roll(pipeline *p);     // host code that repeats becomes loops
void step_checksum(pipeline *p); // NAME_check_weights is added
void step_images(pipeline *p);   // NVRTC's part
void step_codegen(pipeline *p);
void step_write(pipeline *p);

void check_program_options(pipeline *p); // a program as text takes no options of a model

// pipeline_target.c
void set_targets(pipeline *p);
void set_gpu_target(pipeline *p); // for a GPU alone, or with host code
// Drops the variant for int8 products if the model has none.
void drop_variants_for_units(pipeline *p);

// pipeline_derived.c
void parse_sizes(pipeline *p); // --dim
string_list sizes_with_versions(const pipeline *p);
bool has_interface_of_another(const pipeline *p); // whose graph is known
void run_versions(pipeline *p);                   // a pipeline for each choice of sizes, up to its program
void run_for_gpu(pipeline *p);                    // for --device=cuda,cpu
// Sizes allowed by --dim, checked by host code at entry and, for the interpreter, by steps of the program.
struct size_rule *size_rules(pipeline *p, int *n);
void add_size_checks(pipeline *p);

// real_time.c
void check_real_time(pipeline *p); // what --real-time promises; else errors

// Bytes of the workspace if kernels run in patches for this limit; -1: not constant.
int64_t pipeline_workspace(pipeline *p, arena *a, int64_t patched_to);

// tuned_choices.c
void use_tuned_choices(pipeline *p, goal g); // before the program's passes
const char *tuned_choices_text(pipeline *p); // the choices that the code uses, for the hash of the options
void report_tuned_choices(pipeline *p);      // remarks on how many entries of --tune-db were used
#endif
