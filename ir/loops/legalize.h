// Replaces what a target cannot do in a few instructions by what it can, so that no emitter meets an
// operation that LLVM would turn into a library call or abort on. In: a module. Out: the same module with
// expansions in place and, where needed, static helper functions ("onnxc_...") added.
#ifndef ONNXC_IR_LOOPS_LEGALIZE_H
#define ONNXC_IR_LOOPS_LEGALIZE_H
#include "ir/loops/loops.h"

// Runs once, after all functions are built and before any emitter. C and CUDA text need
// little of it: their compilers bring what is missing.
void legalize(lmodule *m, diag *d);
#endif
