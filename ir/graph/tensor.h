// A tensor in memory, row-major, packed types packed.
#ifndef ONNXC_IR_GRAPH_TENSOR_H
#define ONNXC_IR_GRAPH_TENSOR_H
#include "ir/graph/graph.h"

typedef struct tensor {
    dtype dtype;
    int rank;
    int64_t dims[MAX_RANK];
    int64_t count;
    void *data;
} tensor;
#endif
