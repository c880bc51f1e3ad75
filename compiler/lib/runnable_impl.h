// Compiled models behind the generic interface of runtime-lite/onnxc.h.
#ifndef ONNXC_RUNNABLE_IMPL_H
#define ONNXC_RUNNABLE_IMPL_H
#include "compiler/lib/runnable.h"

// Of pipelines that went to GOAL_LOOPS; text_model compiles C text with the system's C compiler.
runnable *loaded_model(pipeline *p);
runnable *text_model(pipeline *p);
#endif
