// The GPU's schedule of attention by tiles.
#ifndef ONNXC_SCHEDULE_GPU_ATTENTION_H
#define ONNXC_SCHEDULE_GPU_ATTENTION_H
#include "passes/attention.h"
#include "passes/schedule_gpu_impl.h"

bool gpu_attention_fits(const emitter *e, attention *a);
// The kernel has no memory for locals.
void gpu_schedule_attention(gpu *g, const attention *a);
#endif
