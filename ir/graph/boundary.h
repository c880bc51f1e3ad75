// The form in which callers give inputs and take outputs: channels-last, or quantised. The graph behind keeps
// its own.
#ifndef ONNXC_IR_GRAPH_BOUNDARY_H
#define ONNXC_IR_GRAPH_BOUNDARY_H
#include "ir/graph/op.h"

// Of input or output i of the main graph. What stands in the way is an error.
// layout: "nhwc" and the like: N, then the axes, then C.
void boundary_layout(module *m, bool output, int i, const char *layout);
// t: what the model quantises the tensor to, or another float type.
void boundary_dtype(module *m, bool output, int i, dtype t);
#endif
