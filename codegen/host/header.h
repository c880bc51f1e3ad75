// The C header of a model: everything that a program needs to call it.
#ifndef ONNXC_CODEGEN_HOST_HEADER_H
#define ONNXC_CODEGEN_HOST_HEADER_H
#include "codegen/host/host.h"
#include "compiler/base/sink.h"

void header_write(const build *b, const program *p, const sink *out);
#endif
