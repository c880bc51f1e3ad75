// Host code: from a program and targets to a module that an emitter can take, with the C interface that users
// see. Symbols of a module called NAME (docs: the header that header_write makes):
//
//   NAME_run(in, out, workspace, size)   typed entry: structs with one member per tensor
//   NAME_workspace_bytes(dims...)        size_t
//   NAME_run_generic, NAME_workspace_generic, NAME_descriptor   the same for programs that know no model
//   (hosted) NAME_run_v2 ... NAME_run_v4          static: one for each CPU level, NAME_run_generic picks
#ifndef ONNXC_HOST_H
#define ONNXC_HOST_H
#include "codegen/interface.h"
#include "ir/loops.h"
#include "passes/memory.h"

typedef struct build_options {
    const char *name; // prefix of the symbols; NULL: "model"
    bool no_generic;  // leave the generic entry and the descriptor out (freestanding does so by itself)
    bool descriptor;  // keep them even when freestanding
    const char *hook; // int hook(void *user, uint32_t kernel) between kernels, non-zero cancels; NULL: none
    const char *version;                   // of onnxc, for the descriptor
    const char *model_hash, *options_hash; // for the descriptor, may be NULL
    const char *weights;                   // name of the file that holds the constants; NULL: the object does
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
    int64_t align;      // of the workspace
    bool needs_runtime; // the object refers to runtime-lite
} build;

// Schedules every kernel for each variant (CPU levels of one object, the plainest first), plans memory and
// writes the host functions. The module is legal for the emitters. Leaves through d on errors.
build *build_program(program *p, const target *const *variants, int nvariants, const build_options *o,
                     diag *d);
lmodule *build_module(program *p, const target *const *variants, int nvariants, const build_options *o,
                      diag *d);
#endif
