// --check-interface: the model's inputs and outputs against those written down before.
#ifndef ONNXC_COMPILER_OUTPUT_CHECK_INTERFACE_H
#define ONNXC_COMPILER_OUTPUT_CHECK_INTERFACE_H
#include "compiler/driver/pipeline.h"

// An error for everything that differs from FILE, which is as --emit=json writes it. The pipeline went to
// GOAL_KERNELS at least.
void check_interface(pipeline *p, const char *file);
#endif
