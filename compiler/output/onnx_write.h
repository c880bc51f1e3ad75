// Writes the graph as ONNX.
#ifndef ONNXC_COMPILER_OUTPUT_ONNX_WRITE_H
#define ONNXC_COMPILER_OUTPUT_ONNX_WRITE_H
#include "compiler/base/sink.h"
#include "ir/graph/graph.h"

// Writes a binary ModelProto; weights are not copied.
// opsets: of --opset
void onnx_write(const module *m, const string_list *opsets, const sink *to);
#endif
