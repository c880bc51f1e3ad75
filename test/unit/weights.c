// Weights stay in the file that is mapped: folding copies none that readers can read there.
#include "compiler/driver/pass_run.h"
#include "ir/graph/op.h"
#include "passes/passes.h"
#include "test/build_graph.h"
#include <setjmp.h>
#include <stdio.h>
// cmocka.h must follow the headers it needs.
#include <cmocka.h>

static value *shape(graph *g, int64_t rows, int64_t columns) {
    constant *c = constant_new(g->module->arena, DT_I64, 1, (int64_t[]){2});
    ((int64_t *)c->data)[0] = rows, ((int64_t *)c->data)[1] = columns;
    return value_constant(g, "shape", c);
}

static void views_share_data(void **state) {
    (void)state;
    arena *a = arena_new();
    diag d = {.arena = a, .sink = show_message};
    jmp_buf jump;
    if (!DIAG_TRY(&d, jump)) fail();
    module *m = module_new(a, &d, "views.onnx");
    graph *g = m->main = graph_new(m, NULL, "views");
    constant *c = constant_new(a, DT_F32, 2, (int64_t[]){6, 20});
    value *w = value_constant(g, "w", c);
    value *reshaped = apply(g, "Reshape", 2, (value *[]){w, shape(g, 4, 30)}, "");
    graph_add_output(g, apply(g, "Identity", 1, &reshaped, ""));
    pass_context context = {.module = m, .opt = 2, .fold_work = 1000000, .fold_bytes = 1 << 20};
    run_passes(&context, GOAL_GRAPH, NULL);
    const constant *k = g->outputs.at[0]->constant;
    assert_non_null(k);
    assert_ptr_equal(k->data, c->data);
    assert_int_equal(k->dims[1], 30);
    arena_destroy(a);
}

// Whether Transpose of a constant n x n is still a node after folding, for a product or for another reader.
static bool stays(const char *reader, int64_t size) {
    arena *a = arena_new();
    diag d = {.arena = a, .sink = show_message};
    jmp_buf jump;
    if (!DIAG_TRY(&d, jump)) fail();
    module *m = module_new(a, &d, "transpose.onnx");
    graph *g = m->main = graph_new(m, NULL, "transpose");
    dim *dims[2] = {dim_const(m->dims, 4), dim_const(m->dims, size)};
    value *x = graph_add_input(g, "x", type_tensor(a, DT_F32, 2, dims));
    value *w = value_constant(g, "w", constant_new(a, DT_F32, 2, (int64_t[]){size, size}));
    value *in[2] = {x, apply(g, "Transpose", 1, &w, "")};
    graph_add_output(g, reader ? apply(g, reader, 2, in, "") : in[1]);
    pass_context c = {.module = m, .opt = 2, .fold_work = 200000000, .fold_bytes = 64 << 20};
    run_passes(&c, GOAL_GRAPH, NULL);
    bool found = false;
    for (int j = 0; j < g->nodes.n; j++) found |= g->nodes.at[j]->op->permutes;
    arena_destroy(a);
    return found;
}

static void products_read_transposes(void **state) {
    (void)state;
    assert_true(stays("MatMul", 1024));
    assert_false(stays("MatMul", 64));
    assert_false(stays(NULL, 1024));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(views_share_data),
                                       cmocka_unit_test(products_read_transposes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
