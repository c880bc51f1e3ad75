// Reports about a model, for people, programs and Graphviz.
#ifndef ONNXC_COMPILER_REPORT_REPORT_H
#define ONNXC_COMPILER_REPORT_REPORT_H
#include "compiler/driver/pipeline.h"

// A program and its graph. With several versions there is one per version, else one without a label.
typedef struct report_part {
    const char *label; // "N=8", NULL
    const module *module;
    program *program;
    const struct memory_plan *plan; // NULL before GOAL_LOOPS
    int first_kernel;               // number of its first kernel
    const struct gpu_code *gpu;     // kernels on a GPU; NULL: on the CPU
    memory_pools pools;             // instead of a workspace; none: there is one
    const struct build *build;      // of the object, which may know what a run takes; NULL: there is none
} report_part;
int report_parts(pipeline *p, report_part **parts); // their number; the last is the most general

// What the object takes in the memories of a device, in bytes.
typedef struct footprint {
    uint64_t code, constants;
    uint64_t data, zeros;      // variables, with initial values and without
    int64_t stack;             // of the deepest call; -1: not known
    const char *stack_note;    // why it is not known, or what it contains; NULL: nothing to be said
    const struct build *build; // of the object, which may know what its kernels take
} footprint;

// By id of a node + 1: numbers of the kernels that compute it, "3, 4".
map report_kernels_of(arena *a, const report_part *part);

typedef struct report_tally {
    const char *name, *versions; // "13", "9,13"; NULL: none of these nodes is the model's
    int n;
} report_tally;
typedef struct report_facts {
    VEC(report_tally) ops; // most frequent first
    int nodes;
    int64_t parameters, parameter_bytes; // of constants that kernels read
    int nconstants;
} report_facts;
report_facts report_collect(pipeline *p);

// Needs GOAL_KERNELS (report_dot: GOAL_GRAPH); the memory plan needs GOAL_LOOPS.
const char *report_text(pipeline *p);
const char *report_json(pipeline *p);
const char *report_dot(pipeline *p);
const char *report_html(pipeline *p);
// report_json on one line, with what only the page shows: nested graphs, statistics of weights, loops of kernels.
const char *report_page_data(pipeline *p);

// Measured kernel times, written by "onnxc bench --save-times". Kernels are matched by name, equal names in
// order.
const char *time_text(arena *a, double seconds); // "9.50 us"
typedef struct kernel_times kernel_times;
kernel_times *kernel_times_read(pipeline *p, const char *path);                     // leaves through the diag
double kernel_times_take(kernel_times *t, const char *version, const char *kernel); // -1: not measured
#endif
