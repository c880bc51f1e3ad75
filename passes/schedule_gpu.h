// Schedules for GPUs: grids of blocks of threads with shared memory.
#ifndef ONNXC_SCHEDULE_GPU_H
#define ONNXC_SCHEDULE_GPU_H
#include "passes/emit.h"

// The whole kernel, from its signature on; sets the launch sizes in e->code.
void schedule_gpu(emitter *e);
#endif
