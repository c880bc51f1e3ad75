// The function that probes call (ir/ops/probe.h) in runs in this process.
#ifndef ONNXC_COMPILER_RUN_PROBE_CALL_H
#define ONNXC_COMPILER_RUN_PROBE_CALL_H
#include "compiler/driver/probes.h"
#include "runtime-lite/onnxc_custom.h"

int probe_call(onnxc_custom_call *call);
// The value as a copy in a, if `copy`; else a tensor of numbers refers to the run's memory.
import_value *probe_read(arena *a, const probe_value *v, bool copy);
#endif
