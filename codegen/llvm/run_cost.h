// What a run of a model takes on a microcontroller: an estimate, from its machine code and the trip counts of its loops.
#ifndef ONNXC_CODEGEN_LLVM_RUN_COST_H
#define ONNXC_CODEGEN_LLVM_RUN_COST_H
#include "codegen/target/core_model.h"
#include "ir/loops/loops.h"

typedef struct run_cost {
    code_cost all;   // with what is not part of a kernel
    map of_function; // by name of a kernel's function: code_cost
} run_cost;
// NULL: there is no model of the core, or trip counts depend on data or on sizes that are not constant.
const run_cost *run_cost_estimate(const lmodule *m, const char *entry, arena *a, diag *d);
#endif
