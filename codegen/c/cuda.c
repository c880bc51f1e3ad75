// The CUDA dialect of the C-family emitter. In: a module for a CUDA target. Out: its text.
#include "codegen/c/cuda.h"
#include "codegen/c/ctext_impl.h"

void cuda_write(const lmodule *m, const sink *out, diag *d) { ctext_emit(m, DIALECT_CUDA, NULL, out, d); }
