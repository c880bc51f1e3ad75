// --check-interface: compares the model's inputs and outputs with an earlier report.
#ifndef ONNXC_COMPILER_DRIVER_CHECK_INTERFACE_H
#define ONNXC_COMPILER_DRIVER_CHECK_INTERFACE_H
#include "compiler/driver/pipeline.h"

// Reports every difference from `file`, which --emit=json wrote, as an error. The model must be typed.
void check_interface(pipeline *p, const char *file);
#endif
