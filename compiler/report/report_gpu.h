// What a kernel takes of a GPU, in reports: its launch, and for each --gpu-arch what its code uses. Nothing
// for kernels that run on the CPU.
#ifndef ONNXC_COMPILER_REPORT_REPORT_GPU_H
#define ONNXC_COMPILER_REPORT_REPORT_GPU_H
#include "compiler/base/json.h"
#include "compiler/report/report.h"

void report_gpu_text(text *t, const report_part *part, const kernel *k);
void report_gpu_json(json *j, const report_part *part, const kernel *k); // a member "gpu"
void report_dim(json *j, const char *key, const dim *d); // a number; text where it is symbolic
#endif
