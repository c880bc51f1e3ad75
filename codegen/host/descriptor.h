// The generic descriptor: what a program that knows no model learns about one (runtime-lite/onnxc.h has its
// layout).
#ifndef ONNXC_CODEGEN_HOST_DESCRIPTOR_H
#define ONNXC_CODEGEN_HOST_DESCRIPTOR_H
#include "codegen/host/host.h"
#include "compiler/base/bytes.h"

bytes descriptor_make(const build *b, const program *p, const build_options *o);
void descriptor_add(build *b, const program *p, const build_options *o); // as data NAME_descriptor
#endif
