// An example program that calls a model: C text and a makefile.
#ifndef ONNXC_CODEGEN_HOST_EXAMPLE_H
#define ONNXC_CODEGEN_HOST_EXAMPLE_H
#include "codegen/host/host.h"
#include "compiler/base/sink.h"

void example_main(arena *a, diag *d, const build *b, const sink *to);
void example_makefile(arena *a, const build *b, const sink *to);
#endif
