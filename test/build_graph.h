// What test programs and benchmarks share that build graphs in memory: nodes, attributes and constants in a line
// each, a sink that shows messages, and the processor time of a thread.
#ifndef ONNXC_TEST_BUILD_GRAPH_H
#define ONNXC_TEST_BUILD_GRAPH_H
#include "ir/graph/op.h"
#include <stdio.h>
#include <time.h>

static inline void show_message(void *user, const diag_message *m) {
    (void)user;
    fprintf(stderr, "%s\n", m->full);
}

// Of this thread: the machine may have other work, too.
static inline double cpu_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// The first result of a node of that operator.
static inline value *apply(graph *g, const char *op, int n, value **in, const char *out) {
    return node_output(node_new(g, NULL, op_find("", op), NULL, n, in), 0, out);
}

static inline value *scalar(graph *g, const char *name, dtype t, double v) {
    constant *c = constant_new(g->module->arena, t, 0, NULL);
    dtype_store_float(t, (void *)c->data, 0, v, true);
    return value_constant(g, name, c);
}

static inline void set_int(node *n, const char *name, int64_t v) {
    node_set_attr(n, (attr){.name = name, .kind = ATTR_INT, .i = v});
}

static inline void set_ints(node *n, const char *name, int count, int64_t a, int64_t b, int64_t c,
                            int64_t d) {
    int64_t *v = ARENA_ARRAY(n->graph->module->arena, int64_t, 4);
    v[0] = a, v[1] = b, v[2] = c, v[3] = d;
    node_set_attr(n, (attr){.name = name, .kind = ATTR_INTS, .n = count, .ints = v});
}

static inline void set_equal_ints(node *n, const char *name, int count, int64_t v) {
    int64_t *all = ARENA_ARRAY(n->graph->module->arena, int64_t, count);
    for (int j = 0; j < count; j++) all[j] = v;
    node_set_attr(n, (attr){.name = name, .kind = ATTR_INTS, .n = count, .ints = all});
}
#endif
