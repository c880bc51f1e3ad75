// The form in which callers pass inputs and take outputs: channels-last, or quantised. The graph keeps its
// own form.
#ifndef ONNXC_IR_GRAPH_BOUNDARY_H
#define ONNXC_IR_GRAPH_BOUNDARY_H
#include "ir/graph/op.h"

// For input or output i of the main graph; an obstacle is an error.
// layout: "nhwc" and the like: N, then the spatial axes, then C.
void boundary_layout(module *m, bool output, int i, const char *layout);
// t: the type to which the model quantises the tensor, or another float type.
void boundary_dtype(module *m, bool output, int i, dtype t);
// The last position of output i along the axis before its last one, which stays with that position alone.
void boundary_last(module *m, int i);
#endif
