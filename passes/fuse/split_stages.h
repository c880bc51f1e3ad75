// Kernels of several independent stages.
#ifndef ONNXC_PASSES_FUSE_SPLIT_STAGES_H
#define ONNXC_PASSES_FUSE_SPLIT_STAGES_H
#include "ir/kernel/program.h"

// A step for each stage instead of this step of the region, if no stage depends on another one.
void split_stages(program *p, region *r, step *s);
#endif
