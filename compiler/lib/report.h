// What there is to know of a model, for people, programs and Graphviz.
#ifndef ONNXC_REPORT_H
#define ONNXC_REPORT_H
#include "compiler/lib/pipeline.h"

// One program and the graph it is of. With several versions each has one, else there is one without a label.
typedef struct report_part {
    const char *label; // "N=8", NULL
    const module *module;
    program *program;
    const struct memory_plan *plan; // NULL before GOAL_LOOPS
    int first_kernel;               // its kernels' numbers begin here
} report_part;
int report_parts(pipeline *p, report_part **parts); // how many; the most general one is the last

// The pipeline went to GOAL_KERNELS at least (report_dot: GOAL_GRAPH). The memory plan is there after
// GOAL_LOOPS.
const char *report_text(pipeline *p);
const char *report_json(pipeline *p);
const char *report_dot(pipeline *p);
const char *report_html(pipeline *p);
#endif
