// A model of one matrix product, built in memory, for the unit test and the benchmark of contractions.
#ifndef ONNXC_TEST_PRODUCT_MODEL_H
#define ONNXC_TEST_PRODUCT_MODEL_H
#include "compiler/driver/pass_run.h"
#include "ir/graph/tensor.h"
#include "ir/kernel/lower.h"
#include <stdlib.h>

// y[batch, m, n] = a[batch, m, k] b[batch, k, n], batch 1: no such axis.
typedef struct product {
    int64_t batch, m, k, n;
    bool dynamic;        // the rows are a symbol
    bool input_b;        // b is no constant
    bool turn_a, turn_b; // stored the other way round and turned by a node
    bool gelu;           // an epilogue of many operations
    bool cblas;          // by cblas_sgemm
} product;

// Inputs count in steps of 1 / 16 from -0.5, over and over, so that sums of them are exact.
static inline double product_number(int64_t j, int period) { return (double)(j % period) / 16 - 0.5; }

static inline value *product_turned(graph *g, value *x, int rank) {
    static const loc at = {.node = "Transpose", .op = "Transpose"};
    node *n = node_new(g, NULL, op_find("", "Transpose"), &at, 1, &x);
    int64_t *order = ARENA_ARRAY(g->module->arena, int64_t, rank);
    for (int j = 0; j < rank; j++) order[j] = j;
    order[rank - 1] = rank - 2, order[rank - 2] = rank - 1;
    node_set_attr(n, (attr){.name = "perm", .kind = ATTR_INTS, .n = rank, .ints = order});
    return node_output(n, 0, "turned");
}

// An operand of `rows` x `columns`, stored turned where asked for.
static inline value *product_operand(graph *g, const char *name, int64_t batch, dim *rows, dim *columns,
                                     bool turn, bool constant) {
    dims *t = g->module->dims;
    arena *a = g->module->arena;
    dim *shape[3] = {dim_const(t, batch), turn ? columns : rows, turn ? rows : columns};
    int rank = batch > 1 ? 3 : 2;
    dim **first = batch > 1 ? shape : shape + 1;
    value *v;
    if (constant) {
        int64_t sizes[3];
        for (int j = 0; j < rank; j++) sizes[j] = dim_value(first[j]);
        struct constant *c = constant_new(a, DT_F32, rank, sizes);
        for (int64_t j = 0; j < c->count; j++)
            dtype_store_float(DT_F32, (void *)c->data, j, product_number(j, 17), true);
        v = value_constant(g, name, c);
    } else {
        v = graph_add_input(g, name, type_tensor(a, DT_F32, rank, first));
    }
    return turn ? product_turned(g, v, rank) : v;
}

static inline program *product_program(arena *a, diag *d, const target *t, const product *p) {
    module *mod = module_new(a, d, "gemm");
    mod->name = "gemm";
    mod->main = graph_new(mod, NULL, "main");
    graph *g = mod->main;
    dim *rows = p->dynamic ? dim_symbol(mod->dims, "M") : dim_const(mod->dims, p->m),
        *depth = dim_const(mod->dims, p->k), *columns = dim_const(mod->dims, p->n);
    value *in[2] = {product_operand(g, "a", p->batch, rows, depth, p->turn_a, false),
                    product_operand(g, "b", p->batch, depth, columns, p->turn_b, !p->input_b)};
    static const loc at = {.node = "MatMul", .op = "MatMul"}, at_gelu = {.node = "Gelu", .op = "Gelu"};
    value *y = node_output(node_new(g, NULL, op_find("", "MatMul"), &at, 2, in), 0, "product");
    if (p->gelu) y = node_output(node_new(g, NULL, op_find("", "Gelu"), &at_gelu, 1, &y), 0, "y");
    graph_add_output(g, y);
    pass_context on_graph = {.module = mod, .opt = 2, .fold_work = 1 << 24, .fold_bytes = 1 << 26};
    run_passes(&on_graph, GOAL_GRAPH, NULL);
    pass_context c = {.program = lower_module(mod), .target = t, .opt = 2, .algorithms.cblas = p->cblas};
    run_passes(&c, GOAL_PROGRAM, NULL);
    return c.program;
}

// In memory of malloc. The operand of so many rows and columns, as it is stored.
static inline tensor product_input(const product *p, int64_t rows, int64_t columns, bool turn) {
    tensor t = {.dtype = DT_F32, .rank = p->batch > 1 ? 3 : 2, .count = p->batch * rows * columns};
    int64_t sizes[3] = {p->batch, turn ? columns : rows, turn ? rows : columns};
    for (int j = 0; j < t.rank; j++) t.dims[j] = sizes[j + 3 - t.rank];
    float *data = calloc((size_t)t.count, sizeof *data);
    for (int64_t j = 0; j < t.count; j++) data[j] = (float)product_number(j, 13);
    t.data = data;
    return t;
}
#endif
