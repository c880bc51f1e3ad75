// Windows along rows whose columns stay in registers.
#ifndef ONNXC_PASSES_SCHEDULE_CPU_SCHEDULE_SLIDE_H
#define ONNXC_PASSES_SCHEDULE_CPU_SCHEDULE_SLIDE_H
#include "passes/schedule/common/nest.h"

// NULL: the kernel has another form, or the target no cheap masks.
typedef struct slide slide;
slide *slide_find(emitter *e);
// All stages for one position of the outer axes, whose loops are open.
void schedule_slide(slide *s);
#endif
