// A model of one convolution, built in memory, for the unit test and the benchmark of its algorithms.
#ifndef ONNXC_TEST_CONV_MODEL_H
#define ONNXC_TEST_CONV_MODEL_H
#include "compiler/driver/pass_run.h"
#include "ir/kernel/lower.h"
#include "test/build_graph.h"

typedef struct conv_case {
    int64_t batch, channels, height, width, outputs;
    int64_t pads[4]; // top, left, bottom, right
    bool symbolic_batch, symbolic_size;
    int64_t taps, stride, dilation; // 0: 3, 1, 1
    int64_t groups;                 // 0: 1
    dtype type;                     // 0: f32
} conv_case;

// The same numbers in -0.5 .. 0.5 for the same seed.
static inline float conv_random(uint32_t *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return (float)(*seed >> 8) / 16777216.0f - 0.5f;
}

static inline dtype conv_type(const conv_case *c) { return c->type ? c->type : DT_F32; }

static inline constant *conv_constant(arena *a, dtype type, int rank, const int64_t *dims, uint32_t seed) {
    constant *c = constant_new(a, type, rank, dims);
    for (int64_t j = 0; j < c->count; j++)
        dtype_store_float(type, (void *)c->data, j, (double)conv_random(&seed), false);
    return c;
}

static inline program *conv_program(arena *a, diag *d, const conv_case *c) {
    module *m = module_new(a, d, "conv.onnx");
    graph *g = graph_new(m, NULL, "conv");
    m->main = g;
    m->name = "conv";
    dims *t = m->dims;
    dim *size[4] = {c->symbolic_batch ? dim_symbol(t, "N") : dim_const(t, c->batch),
                    dim_const(t, c->channels),
                    c->symbolic_size ? dim_symbol(t, "H") : dim_const(t, c->height),
                    c->symbolic_size ? dim_symbol(t, "W") : dim_const(t, c->width)};
    int64_t taps = c->taps ? c->taps : 3, groups = c->groups ? c->groups : 1;
    int64_t weights[4] = {c->outputs, c->channels / groups, taps, taps};
    value *in[3] = {graph_add_input(g, "x", type_tensor(a, conv_type(c), 4, size)),
                    value_constant(g, "w", conv_constant(a, conv_type(c), 4, weights, 1)),
                    value_constant(g, "b", conv_constant(a, conv_type(c), 1, weights, 2))};
    node *n = node_new(g, NULL, op_find("", "Conv"), NULL, 3, in);
    set_ints(n, "pads", 4, c->pads[0], c->pads[1], c->pads[2], c->pads[3]);
    set_ints(n, "strides", 2, c->stride ? c->stride : 1, c->stride ? c->stride : 1, 0, 0);
    set_ints(n, "dilations", 2, c->dilation ? c->dilation : 1, c->dilation ? c->dilation : 1, 0, 0);
    node_set_attr(n, (attr){.name = "group", .kind = ATTR_INT, .i = groups});
    graph_add_output(g, node_output(n, 0, "y"));
    pass_context p = {.module = m, .opt = 2, .fold_work = 1000000, .fold_bytes = 1 << 20};
    run_passes(&p, GOAL_GRAPH, NULL);
    return lower_module(m);
}
#endif
