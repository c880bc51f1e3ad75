// The opsets of a written ONNX file.
#ifndef ONNXC_COMPILER_OUTPUT_ONNX_OPSET_H
#define ONNXC_COMPILER_OUTPUT_ONNX_OPSET_H
#include "ir/ops/downgrade.h"

// Sets opsets (domain -> version) for the domains of all nodes: as wanted ("N" or "DOMAIN=N"), else that of the
// model if it can express all nodes, else the oldest newer one that can. A node that cannot be expressed in a
// wanted opset is a fatal error.
void choose_opsets(const module *m, const string_list *wanted, map *opsets);
#endif
