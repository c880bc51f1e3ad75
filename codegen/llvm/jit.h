// Kernels compiled in this process, which the interpreter calls instead of interpreting them. Used to fold
// large constants, and by tests.
#ifndef ONNXC_CODEGEN_LLVM_JIT_H
#define ONNXC_CODEGEN_LLVM_JIT_H
#include "ir/kernel/interp.h"
#include "ir/target.h"
#include "passes/schedule/common/schedule.h"

typedef struct jit jit;
// Compiles all kernels of p for target t, which must be this machine.
jit *jit_program(arena *a, diag *d, const program *p, const target *t);
// For interp_hooks.kernel, with the jit as user.
bool jit_kernel(void *user, struct interp *in, const kernel *k);
// Builds void NAME(const int64_t *args), which calls the kernel with arguments from an array.
void jit_build_caller(lmodule *m, const kernel_code *c, const target *t, diag *d);
const char *jit_caller_name(arena *a, const kernel *k);
// Seconds spent in kernel k so far.
double jit_time(const jit *j, const kernel *k);
const char *jit_schedule(const jit *j, const kernel *k);
#endif
