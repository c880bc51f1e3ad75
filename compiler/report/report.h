// What there is to know of a model, for people, programs and Graphviz.
#ifndef ONNXC_COMPILER_REPORT_REPORT_H
#define ONNXC_COMPILER_REPORT_REPORT_H
#include "compiler/driver/pipeline.h"

// One program and the graph it is of. With several versions each has one, else there is one without a label.
typedef struct report_part {
    const char *label; // "N=8", NULL
    const module *module;
    program *program;
    const struct memory_plan *plan; // NULL before GOAL_LOOPS
    int first_kernel;               // its kernels' numbers begin here
    const struct gpu_code *gpu;     // where its kernels run; NULL: on the CPU
} report_part;
int report_parts(pipeline *p, report_part **parts); // how many; the most general one is the last

// By id of a node + 1: the numbers of the kernels that compute it, "3, 4".
map report_kernels_of(arena *a, const report_part *part);

typedef struct report_tally {
    const char *name;
    int n;
} report_tally;
typedef struct report_facts {
    VEC(report_tally) ops; // most frequent first
    int nodes;
    int64_t parameters, parameter_bytes; // of constants that kernels read
    int nconstants;
} report_facts;
report_facts report_collect(pipeline *p);

// The pipeline went to GOAL_KERNELS at least (report_dot: GOAL_GRAPH). The memory plan is there after
// GOAL_LOOPS.
const char *report_text(pipeline *p);
const char *report_json(pipeline *p);
const char *report_dot(pipeline *p);
const char *report_html(pipeline *p);
// As report_json, in one line and with places for the graph's nodes on a page.
const char *report_page_data(pipeline *p);

// Measured seconds of kernels, as "onnxc bench --save-times" writes them. Kernels are found by name, equal
// ones in order.
typedef struct kernel_times kernel_times;
kernel_times *kernel_times_read(pipeline *p, const char *path);                     // leaves through the diag
double kernel_times_take(kernel_times *t, const char *version, const char *kernel); // -1: not measured
#endif
