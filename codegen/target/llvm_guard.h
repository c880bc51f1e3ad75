// LLVM reports some errors by a process-wide handler and then ends the process. Inside llvm_guard they become
// errors of the compilation instead; a sleeping thread and what LLVM held at that moment are lost.
#ifndef ONNXC_CODEGEN_TARGET_LLVM_GUARD_H
#define ONNXC_CODEGEN_TARGET_LLVM_GUARD_H
#include "compiler/base/arena.h"
#include "compiler/base/diag.h"

// fn(arg) on another thread, while this one waits; it may also leave through d. `doing` is for the message:
// "compiling 'mnist'"; class says whose fault a failure is.
void llvm_guard(diag *d, diag_class class, const char *doing, void (*fn)(void *), void *arg);
#endif
