// What the machine can do at most.
#ifndef ONNXC_COMPILER_CLI_PEAK_H
#define ONNXC_COMPILER_CLI_PEAK_H
#include "compiler/base/diag.h"
#include "ir/target.h"

// Floating-point operations a second (f32, a multiply-add counts as two) of one thread with code for t,
// measured.
double measure_peak(arena *a, diag *d, const target *t);
#endif
