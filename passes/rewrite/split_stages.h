// Independent stages as kernels of their own.
#ifndef ONNXC_PASSES_REWRITE_SPLIT_STAGES_H
#define ONNXC_PASSES_REWRITE_SPLIT_STAGES_H
#include "ir/kernel/program.h"

void split_stages(program *p); // for GPUs
#endif
