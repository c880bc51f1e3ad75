// The C header of a model: all that a program needs to call it.
#ifndef ONNXC_HEADER_H
#define ONNXC_HEADER_H
#include "codegen/host.h"
#include "codegen/sink.h"

void header_write(const build *b, const program *p, const sink *out);
#endif
