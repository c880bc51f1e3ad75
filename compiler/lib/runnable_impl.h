// Compiled models behind the generic interface of runtime-lite/onnxc.h.
#ifndef ONNXC_RUNNABLE_IMPL_H
#define ONNXC_RUNNABLE_IMPL_H
#include "compiler/lib/runnable.h"

runnable *loaded_model(pipeline *p); // that went to GOAL_LOOPS
#endif
