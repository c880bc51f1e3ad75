// The GPU schedule of attention.
#ifndef ONNXC_PASSES_SCHEDULE_GPU_SCHEDULE_GPU_ATTENTION_H
#define ONNXC_PASSES_SCHEDULE_GPU_SCHEDULE_GPU_ATTENTION_H
#include "passes/match/attention.h"
#include "passes/schedule/gpu/schedule_gpu_impl.h"

bool gpu_attention_fits(const emitter *e, attention *a);
// The signature has no memory for locals.
void gpu_schedule_attention(gpu *g, const attention *a);
#endif
