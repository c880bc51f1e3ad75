// --custom-op: operators that C functions of the user's compute.
#ifndef ONNXC_COMPILER_DRIVER_CUSTOM_H
#define ONNXC_COMPILER_DRIVER_CUSTOM_H
#include "compiler/driver/options.h"
#include "ir/ops/custom.h"

void check_custom_ops(arena *a, diag *d, const options *o); // reports wrong options
// The custom operators of the options, checked; NULL at the end.
const op_def *const *custom_ops(arena *a, diag *d, const options *o);
#endif
