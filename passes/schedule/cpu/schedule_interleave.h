// The schedule of pointwise kernels that interleave a few planes, such as the channels of an image.
#ifndef ONNXC_PASSES_SCHEDULE_CPU_SCHEDULE_INTERLEAVE_H
#define ONNXC_PASSES_SCHEDULE_CPU_SCHEDULE_INTERLEAVE_H
#include "passes/schedule/common/nest.h"

typedef struct interleave {
    nest *n;
    int channel, planes; // the write is contiguous along this short axis
    int x;               // and strided by its length along this one, along which reads are contiguous
    int lanes;
    bool whole; // one vector has the lanes of all planes
} interleave;

bool interleave_find(nest *n, interleave *i);
void schedule_interleave(interleave *i, bool alone); // alone: the kernel's only stage
#endif
