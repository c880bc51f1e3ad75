// Host code: from a program and targets to a module that an emitter can take, with the C interface that users
// see. Symbols of a module called NAME (docs: the header that header_write makes):
//
//   NAME_run(in, out, workspace, size)   typed entry: structs with one member per tensor
//   NAME_workspace_bytes(dims...)        size_t
//   NAME_run_generic, NAME_workspace_generic, NAME_descriptor   the same for programs that know no model
//   (hosted) NAME_run_v2 ... NAME_run_v4          static: one for each CPU level, NAME_run_generic picks
//   NAME_run_N1, NAME_run_N8 ...                  static: one for each version of the program
#ifndef ONNXC_CODEGEN_HOST_HOST_H
#define ONNXC_CODEGEN_HOST_HOST_H
#include "codegen/host/interface.h"
#include "ir/loops/loops.h"
#include "passes/memory/memory_plan.h"

struct gpu_code; // codegen/gpu/gpu.h

// A version of the program for some of its sizes, with dims of its own.
typedef struct version {
    const char *label;  // "N=8"
    const char *suffix; // of the names of its functions: "_N8", "" for the general one
    program *program;
    dim *when;        // in dims of the main program: not 0 where this version runs, unless one before it does
    memory_plan plan; // set by build_program
    int first_kernel; // kernels are counted through all versions
    const struct gpu_code *gpu; // where they run; NULL: on the CPU
} version;
typedef struct size_rule {
    dim *holds; // in dims of the main program; 0: a failure with
    const char *message;
} size_rule;

typedef struct build_options {
    const char *name; // prefix of the symbols; NULL: "model"
    bool no_generic;  // leave the generic entry and the descriptor out (freestanding does so by itself)
    bool descriptor;  // keep them even when freestanding
    const char *hook; // int hook(void *user, uint32_t kernel) between kernels, non-zero cancels; NULL: none
    bool waits;       // on a GPU each kernel is over before the hook hears of HOOK_NO_KERNEL: for measuring
    const char *version;                   // of onnxc, for the descriptor
    const char *model_hash, *options_hash; // for the descriptor, may be NULL
    const char *weights;                   // name of the file that holds the constants; NULL: the object does
    version *versions; // that run instead of the main program, which then only has the interface
    int nversions;
    const size_rule *rules;
    int nrules;
    // Kernels run there, and the program has its places (passes/memory/spaces.h). NULL: on the CPU.
    const struct gpu_code *gpu;
    program *gpu_program; // that these are of, where the program itself is for the CPU; else NULL
} build_options;

typedef struct placed_weights {
    ldata *data;
    int64_t offset; // in the file
} placed_weights;

typedef struct build {
    lmodule *module;
    interface *io;
    dim *workspace; // bytes
    memory_plan plan;
    VEC(placed_weights) weights; // of the file of weights, behind its head
    int64_t weights_bytes;       // of the file; 0: there is none
    struct onnxc_weights_head *weights_head;
    const version *versions; // of build_options
    int nversions;
    int64_t align;         // of the workspace
    dim *device_workspace; // bytes on the GPU; NULL: there is none
    bool needs_runtime;    // the object refers to runtime-lite
} build;

// A build step by step; what is passed in lies there until its end. Each leaves through d on errors.
typedef struct hosting hosting; // codegen/host/host_impl.h
hosting *host_begin(program *p, const target *const *variants, int nvariants, const build_options *o,
                    diag *d);
lmodule *host_schedule(hosting *a); // every kernel, for each variant
void host_plan(hosting *a);         // memory
build *host_write(hosting *a);      // the host functions; what is left is to legalise the module

// All of it: schedules every kernel for each variant (CPU levels of one object, the plainest first), plans
// memory and writes the host functions. The module is legal for the emitters. Leaves through d on errors.
build *build_program(program *p, const target *const *variants, int nvariants, const build_options *o,
                     diag *d);
lmodule *build_module(program *p, const target *const *variants, int nvariants, const build_options *o,
                      diag *d);
#endif
