// Kernels compiled into this process and called by the interpreter instead of being interpreted: a test form,
// and the way in which large constants are folded.
#ifndef ONNXC_CODEGEN_LLVM_JIT_H
#define ONNXC_CODEGEN_LLVM_JIT_H
#include "ir/kernel/interp.h"
#include "ir/target.h"
#include "passes/schedule/common/schedule.h"

typedef struct jit jit;
// All kernels of p for target t, which must be this machine.
jit *jit_program(arena *a, diag *d, const program *p, const target *t);
// For interp_hooks.kernel, with the jit as user.
bool jit_kernel(void *user, struct interp *in, const kernel *k);
// void NAME(const int64_t *args): a kernel's function with its arguments from an array, and NAME.
void jit_build_caller(lmodule *m, const kernel_code *c, const target *t, diag *d);
const char *jit_caller_name(arena *a, const kernel *k);
// Seconds spent in kernel k so far.
double jit_time(const jit *j, const kernel *k);
const char *jit_schedule(const jit *j, const kernel *k);
#endif
