// Between the files of the reports.
#ifndef ONNXC_COMPILER_REPORT_REPORT_IMPL_H
#define ONNXC_COMPILER_REPORT_REPORT_IMPL_H
#include "compiler/base/json.h"
#include "compiler/report/report.h"

// report_gpu.c: the launch of a kernel, and what its code for each --gpu-arch uses. Nothing for the CPU's kernels.
void report_gpu_text(text *t, const report_part *part, const kernel *k);
void report_gpu_json(json *j, const report_part *part, const kernel *k); // a member "gpu"
void report_dim(json *j, const char *key, const dim *d); // a number; text where it is symbolic

// report_drawing.c: positions of a graph's nodes on a page, inputs on top, every node below what it reads.
typedef struct report_place {
    int x, y;
} report_place;

// Arrays by position in the graph's lists.
typedef struct report_layout {
    report_place *inputs, *nodes, *outputs;
    int width, height;
} report_layout;

enum { REPORT_BOX_WIDTH = 160, REPORT_BOX_HEIGHT = 40 };
report_layout report_layout_of(arena *a, const graph *g);

extern const char report_page[]; // report_page.html, which tools/embed_text.awk makes a part of the library
#endif
