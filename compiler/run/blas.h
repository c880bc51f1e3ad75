// The CBLAS of --blas: for the interpreter, and for code in this process that calls one.
#ifndef ONNXC_COMPILER_RUN_BLAS_H
#define ONNXC_COMPILER_RUN_BLAS_H
#include "compiler/driver/options.h"
#include "ir/kernel/interp.h"

typedef struct blas {
    interp_dgemm *dgemm; // NULL: no library
    void (*sgemm)(void); // cblas_sgemm, to be called by its own type
} blas;

// The library of --blas=PATH, or the installed one; a path that cannot be opened is an error. It stays open.
blas blas_open(diag *d, const options *o);
#endif
