// The CPU schedule of attention.
#ifndef ONNXC_PASSES_SCHEDULE_CPU_SCHEDULE_ATTENTION_H
#define ONNXC_PASSES_SCHEDULE_CPU_SCHEDULE_ATTENTION_H
#include "passes/match/attention.h"
#include "passes/schedule/common/emit.h"

bool attention_find(kernel *k, const target *t, attention *a);
// Emits the whole kernel; scratch points to a->scratch bytes.
void schedule_attention(emitter *e, const attention *a, ins *scratch);
#endif
