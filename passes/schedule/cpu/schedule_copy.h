// Stages of large kernels that only copy.
#ifndef ONNXC_PASSES_SCHEDULE_CPU_SCHEDULE_COPY_H
#define ONNXC_PASSES_SCHEDULE_CPU_SCHEDULE_COPY_H
#include "passes/schedule/common/nest.h"

// False: it is another kind of stage, for which nothing was done.
bool schedule_copy(nest *n);
#endif
