// LLVM reports some errors to a process-wide handler and then ends the process. Inside llvm_guard they become
// errors of the compilation instead, at the cost of a thread that sleeps forever and memory that LLVM holds.
#ifndef ONNXC_CODEGEN_TARGET_LLVM_GUARD_H
#define ONNXC_CODEGEN_TARGET_LLVM_GUARD_H
#include "compiler/base/arena.h"
#include "compiler/base/diag.h"

// Runs fn(arg) on another thread and waits; fn may report a fatal error to d. The message says what failed
// ("compiling 'mnist'"), and the class whether the user's input or a defect is the cause.
void llvm_guard(diag *d, diag_class class, const char *doing, void (*fn)(void *), void *arg);
#endif
