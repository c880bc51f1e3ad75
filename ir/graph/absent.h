// Operators that this build leaves out on purpose: where a file without them comes from.
#ifndef ONNXC_IR_GRAPH_ABSENT_H
#define ONNXC_IR_GRAPH_ABSENT_H

// A sentence for messages and documentation, or NULL.
const char *absent_hint(const char *domain, const char *name);
#endif
