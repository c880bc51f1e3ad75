// Attributes of nodes as text for people.
#ifndef ONNXC_COMPILER_REPORT_ATTR_TEXT_H
#define ONNXC_COMPILER_REPORT_ATTR_TEXT_H
#include "ir/graph/graph.h"

const char *attr_value_text(arena *a, const attr *t); // "[1, 2]"; of tensors and graphs: what they are
#endif
