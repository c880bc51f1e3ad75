// The graph back to ONNX.
#ifndef ONNXC_ONNX_WRITE_H
#define ONNXC_ONNX_WRITE_H
#include "codegen/sink.h"
#include "ir/graph.h"

// A binary ModelProto. Weights go from where they lie to the sink.
void onnx_write(const module *m, const sink *to);
#endif
