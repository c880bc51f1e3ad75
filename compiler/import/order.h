// The order in which the nodes of a graph are imported.
#ifndef ONNXC_COMPILER_IMPORT_ORDER_H
#define ONNXC_COMPILER_IMPORT_ORDER_H
#include "compiler/import/impl.h"

// Indices of the nodes, each after the nodes that compute its inputs, otherwise as in the file; nodes of a cycle
// in any order. s->made_by is filled in.
const size_t *topological_order(arena *a, const scope *s, Onnx__NodeProto **nodes, size_t count);

#endif
