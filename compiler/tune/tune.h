// --tune: chooses algorithms and schedules by measuring kernels on this machine.
#ifndef ONNXC_COMPILER_TUNE_TUNE_H
#define ONNXC_COMPILER_TUNE_TUNE_H
#include "compiler/driver/pipeline.h"

// Adds to t the choices that were measured to be faster than those of the cost models, within the time of
// --tune; a pipeline's hook `tune`. Kernels that t has entries for are not measured again.
void tune_kernels(pipeline *p, struct choice_table *t);
#endif
