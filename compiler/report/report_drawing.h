// Places for the nodes of a graph on a page: inputs on top, every node below what it reads.
#ifndef ONNXC_COMPILER_REPORT_REPORT_DRAWING_H
#define ONNXC_COMPILER_REPORT_REPORT_DRAWING_H
#include "ir/graph/graph.h"

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
#endif
