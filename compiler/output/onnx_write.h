// The graph back to ONNX.
#ifndef ONNXC_COMPILER_OUTPUT_ONNX_WRITE_H
#define ONNXC_COMPILER_OUTPUT_ONNX_WRITE_H
#include "compiler/base/sink.h"
#include "ir/graph/graph.h"

// A binary ModelProto. Weights go from where they lie to the sink.
void onnx_write(const module *m, const sink *to);
#endif
