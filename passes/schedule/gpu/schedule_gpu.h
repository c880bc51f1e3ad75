// Schedules for GPUs: grids of blocks of threads with shared memory.
#ifndef ONNXC_PASSES_SCHEDULE_GPU_SCHEDULE_GPU_H
#define ONNXC_PASSES_SCHEDULE_GPU_SCHEDULE_GPU_H
#include "passes/schedule/common/emit.h"

// Emits the whole kernel, including its signature; sets the launch sizes in e->code.
void schedule_gpu(emitter *e);
#endif
