// The descriptor, from which callers of arbitrary models learn a model's interface (layout:
// runtime-lite/onnxc.h).
#ifndef ONNXC_CODEGEN_HOST_DESCRIPTOR_H
#define ONNXC_CODEGEN_HOST_DESCRIPTOR_H
#include "codegen/host/host.h"
#include "compiler/base/bytes.h"

void descriptor_add(build *b, const program *p, const build_options *o); // as data NAME_descriptor
#endif
