// Between the files of the reports.
#ifndef ONNXC_COMPILER_REPORT_REPORT_IMPL_H
#define ONNXC_COMPILER_REPORT_REPORT_IMPL_H
#include "compiler/base/json.h"
#include "compiler/report/report.h"

// report_gpu.c: the launch of a kernel, and what its code for each --gpu-arch uses. Nothing for the CPU's kernels.
void report_gpu_text(text *t, const report_part *part, const kernel *k);
void report_gpu_json(json *j, const report_part *part, const kernel *k); // a member "gpu"
void report_dim(json *j, const char *key, const dim *d); // a number; text where it is symbolic

// report_weights.c: "weights", what the constants of a graph's nodes contain: ranges, moments and histograms.
void report_weights(json *j, const graph *g);

// The files of compiler/report/page, which tools/embed_text.awk makes a part of the library.
extern const char report_style[], report_body[], report_script[];
#endif
