// The CPUs' schedule of attention.
#ifndef ONNXC_SCHEDULE_ATTENTION_H
#define ONNXC_SCHEDULE_ATTENTION_H
#include "passes/attention.h"
#include "passes/emit.h"

bool attention_find(const kernel *k, const target *t, attention *a);
// The whole kernel; scratch points to a->scratch bytes.
void schedule_attention(emitter *e, const attention *a, ins *scratch);
#endif
