// Writes the graph as ONNX.
#ifndef ONNXC_COMPILER_OUTPUT_ONNX_WRITE_H
#define ONNXC_COMPILER_OUTPUT_ONNX_WRITE_H
#include "compiler/base/sink.h"
#include "ir/graph/graph.h"

// A file beside the model that gets large weights.
typedef struct onnx_external {
    const char *location; // its name in the model
    const sink *to;
    int64_t size; // so far
} onnx_external;

// Writes a binary ModelProto; weights are not copied.
// opsets: of --opset; external: NULL: all weights are in the model
void onnx_write(const module *m, const string_list *opsets, const sink *to, onnx_external *external);
// Bytes of the weights in the model.
int64_t onnx_weight_bytes(const module *m);
#endif
