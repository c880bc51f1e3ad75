// What there is to know of a model, for people, programs and Graphviz.
#ifndef ONNXC_REPORT_H
#define ONNXC_REPORT_H
#include "compiler/lib/pipeline.h"

// The pipeline went to GOAL_KERNELS at least (report_dot: GOAL_GRAPH). The memory plan is there after
// GOAL_LOOPS.
const char *report_text(pipeline *p);
const char *report_json(pipeline *p);
const char *report_dot(pipeline *p);
const char *report_html(pipeline *p);
#endif
