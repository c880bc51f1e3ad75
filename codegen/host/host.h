// Host code. In: a program and its targets. Out: a module for an emitter, with the C interface of the model.
// Symbols of a module called NAME (header_write documents them):
//
//   NAME_run(in, out, workspace, size)   typed entry: structs with one member per tensor
//   NAME_workspace_bytes(dims...)        size_t
//   NAME_output_dims(in, out)            sizes of the outputs, where any is not constant
//   NAME_run_generic, NAME_workspace_generic, NAME_descriptor   the same for callers of arbitrary models
//   (hosted) NAME_run_v2 ... NAME_run_v4          static: one for each CPU level, chosen by NAME_run_generic
//   NAME_run_N1, NAME_run_N8 ...                  static: one for each version of the program
#ifndef ONNXC_CODEGEN_HOST_HOST_H
#define ONNXC_CODEGEN_HOST_HOST_H
#include "codegen/host/interface.h"
#include "codegen/llvm/run_cost.h"
#include "ir/loops/loops.h"
#include "passes/memory/memory_plan.h"

struct gpu_code;  // codegen/gpu/gpu.h
struct real_time; // codegen/host/real_time.h

// A version of the program for some sizes, with its own table of dims.
typedef struct version {
    const char *label;  // "N=8"
    const char *suffix; // of function names: "_N8", "" for the general version
    program *program;
    dim *when;        // condition in dims of the main program; the first version whose condition holds runs
    memory_plan plan; // set by build_program
    int first_kernel; // kernels are numbered across all versions
    const struct gpu_code *gpu; // its kernels; NULL: they run on the CPU
} version;
typedef struct size_rule {
    dim *holds;          // in dims of the main program; 0: the run fails
    const char *message; // with this message
} size_rule;

typedef struct build_options {
    const char *name; // prefix of the symbols; NULL: "model"
    bool no_generic;  // omit the generic entry and the descriptor (the default for freestanding targets)
    bool descriptor;  // keep them for freestanding targets, too
    bool capacities;  // outputs whose size is not constant have a capacity
    const char *hook; // int hook(void *user, uint32_t kernel) between kernels, non-zero cancels; NULL: none
    bool waits;     // for measurements on a GPU: wait for each kernel, then call the hook with HOOK_NO_KERNEL
    bool runtime;   // there is a runtime to call, though the program alone may not need it
    bool real_time; // messages have no numbers, which would be in memory of the thread
    const char *version;                   // of onnxc, for the descriptor
    const char *model_hash, *options_hash; // for the descriptor, may be NULL
    const char *weights;       // name of the weights file; NULL: the object contains the constants
    const char *const_section; // of the constants; NULL: the section of read-only data
    bool check_weights;        // there will be NAME_check_weights
    const memory_pools *pools; // instead of a workspace; NULL: none
    version *versions;         // run instead of the main program, which then only defines the interface
    int nversions;
    const size_rule *rules;
    int nrules;
    // The kernels of a program with device buffers (passes/memory/spaces.h). NULL: they run on the CPU.
    const struct gpu_code *gpu;
    program *gpu_program; // the program of `gpu` if the main program runs on the CPU; else NULL
} build_options;

typedef struct placed_weights {
    ldata *data;
    int64_t offset; // in the file
} placed_weights;

// The function that computes a kernel.
typedef struct kernel_function {
    const char *name;
    int kernel; // its number
} kernel_function;

typedef struct build {
    lmodule *module;
    interface *io;
    dim *workspace; // bytes, of the typed interface
    memory_plan plan;
    VEC(placed_weights) weights; // contents of the weights file, after its head
    int64_t weights_bytes;       // size of the weights file; 0: none
    struct onnxc_weights_head *weights_head;
    const version *versions;
    int nversions;
    const size_rule *rules; // of the sizes that have versions
    int nrules;
    bool check_weights;    // the header has NAME_check_weights
    int64_t align;         // of the workspace
    dim *device_workspace; // bytes on the GPU; NULL: no GPU
    int scratch_threads;   // the workspace has scratch memory for this number of threads; 0: none
    bool needs_runtime;    // the object refers to runtime-lite
    struct real_time *real_time;
    VEC(kernel_function) kernel_functions;
    // Set after code generation:
    int64_t stack; // bytes of the deepest stack of a call; -1: not known; 0: there is no machine code
    const char *stack_note; // a note on it for the user
    const run_cost *cost;   // NULL: not known
    bool imported;          // the header is for a DLL of Windows
} build;

// What a run spends in a kernel; 0 where nothing is known.
code_cost build_kernel_cost(const build *b, int kernel);

// A build, step by step. The arguments of host_begin must live until its end. Errors are fatal (d->jump).
typedef struct host_builder host_builder; // codegen/host/host_impl.h
host_builder *host_begin(program *p, const target *const *variants, int nvariants, const build_options *o,
                         diag *d);
lmodule *host_schedule(host_builder *a); // every kernel, for each variant
void host_plan(host_builder *a);         // memory
build *host_write(host_builder *a);      // the host functions; the caller legalises the module

// All steps: schedules every kernel for each variant (CPU levels of one object, lowest first), plans memory,
// writes the host functions and legalises the module.
build *build_program(program *p, const target *const *variants, int nvariants, const build_options *o,
                     diag *d);
#endif
