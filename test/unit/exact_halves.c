// Weights of f32 that 16 bits represent exactly: which constants become bf16 or f16, and that no result changes.
#include "codegen/llvm/jit.h"
#include "codegen/target/targets.h"
#include "compiler/driver/pass_run.h"
#include "ir/kernel/lower.h"
#include "passes/memory/memory_plan.h"
#include "test/build_graph.h"
#include "test/unit/loops_machine.h"
#include <math.h>
#include <stdio.h>

// Which type is needed to represent the constants. All sums of the products with small integers are exact.
typedef enum numbers { BF16, F16, F32 } numbers;

// y = (x + rows of `table`) times `weights`
typedef struct model {
    int64_t in, out;
    numbers weights, table;
    bool also_added; // the weights are an operand of an Add, too
} model;

enum { ROWS = 19, IDS = ROWS };

static float number(numbers kind, int64_t j) {
    int v = (int)(j * 7 % 17) - 8;
    return (float)v + (kind == F16 ? 0x1p-7f : kind == F32 ? 0x1p-8f : 0);
}

static value *matrix(graph *g, const char *name, int64_t rows, int64_t columns, numbers kind) {
    constant *c = constant_new(g->module->arena, DT_F32, 2, (int64_t[]){rows, columns});
    for (int64_t j = 0; j < c->count; j++) ((float *)c->data)[j] = number(kind, j);
    return value_constant(g, name, c);
}

static value *apply_pair(graph *g, const char *op, value *x, value *y, const char *out) {
    return apply(g, op, 2, (value *[]){x, y}, out);
}

static program *build(arena *a, diag *d, const model *m) {
    module *mo = module_new(a, d, "halves.onnx");
    graph *g = graph_new(mo, NULL, "halves");
    mo->main = g;
    mo->name = "halves";
    dim *size[2] = {dim_const(mo->dims, ROWS), dim_const(mo->dims, m->in)};
    value *ids = graph_add_input(g, "ids", type_tensor(a, DT_I64, 1, size)),
          *x = graph_add_input(g, "x", type_tensor(a, DT_F32, 2, size));
    value *table = matrix(g, "table", m->out, m->in, m->table),
          *w = matrix(g, "weights", m->in, m->out, m->weights);
    x = apply_pair(g, "Add", x, apply_pair(g, "Gather", table, ids, "rows"), "sum");
    graph_add_output(g, apply_pair(g, "MatMul", x, w, "y"));
    if (m->also_added) graph_add_output(g, apply_pair(g, "Add", w, w, "twice"));
    pass_context c = {.module = mo, .opt = 2};
    run_passes(&c, GOAL_GRAPH, NULL);
    return lower_module(mo);
}

static program *optimised(arena *a, diag *d, const model *m, const target *t) {
    program *p = build(a, d, m);
    pass_context c = {.program = p, .target = t, .opt = 2};
    run_passes(&c, GOAL_PROGRAM, NULL);
    return p;
}

static dtype type_of(const program *p, const char *name) {
    for (int j = 0; j < p->buffers.n; j++)
        if (p->buffers.at[j]->role == BUF_CONST && strcmp(p->buffers.at[j]->name, name) == 0)
            return p->buffers.at[j]->dtype;
    return DT_NONE;
}

static const target_options levels[] = {
    {.triple = "x86_64-linux-gnu", .cpu = "x86-64-v2", .fp = FP_DEFAULT},
    {.triple = "x86_64-linux-gnu", .cpu = "x86-64-v3", .fp = FP_DEFAULT},
    {.triple = "x86_64-linux-gnu", .cpu = "x86-64-v4", .fp = FP_STRICT},
    {.triple = "x86_64-linux-gnu", .cpu = "znver4", .fp = FP_DEFAULT},
    {.triple = "aarch64-linux-gnu", .cpu = "generic", .features = "+bf16", .fp = FP_DEFAULT},
};
enum { LEVELS = sizeof levels / sizeof *levels };

static tensor run(arena *a, const program *p, const interp_hooks *hooks) {
    int64_t in = 0, ids[IDS];
    for (int j = 0; j < p->buffers.n; j++)
        if (strcmp(p->buffers.at[j]->name, "x") == 0) in = dim_value(p->buffers.at[j]->dims[1]);
    tensor of[2] = {{.dtype = DT_I64, .rank = 1, .dims = {IDS}, .count = IDS, .data = ids},
                    {.dtype = DT_F32, .rank = 2, .dims = {ROWS, in}, .count = ROWS * in}};
    of[1].data = arena_alloc(a, (size_t)of[1].count * sizeof(float) + 64);
    for (int j = 0; j < IDS; j++) ids[j] = j * 5;
    for (int64_t j = 0; j < of[1].count; j++) ((float *)of[1].data)[j] = (float)(j % 5) - 2;
    tensor out[2] = {0};
    const char *message = NULL;
    if (interp_program_hooked(p, a, of, out, (interp_limits){0}, &message, hooks) != INTERP_OK)
        fail_msg("%s", message);
    return out[0];
}

// The results in f32 must be those of the model, by interpreted instructions and, where possible, by this machine.
static void check(const model *m, int level, dtype weights, dtype table) {
    arena *a = arena_new();
    diag d = {.arena = a, .sink = show_message};
    jmp_buf jump;
    if (!DIAG_TRY(&d, jump)) fail();
    target *t = target_from_options(a, &d, &levels[level]);
    t->narrow_scales = t->f16_convert;
    tensor want = run(a, build(a, &d, m), &(interp_hooks){0});
    program *p = optimised(a, &d, m, t);
    assert_int_equal(type_of(p, "weights"), weights);
    assert_int_equal(type_of(p, "table"), table);
    loops_machine *machine = loops_machine_new(a, &d, p, t);
    tensor got = run(a, p, &(interp_hooks){.kernel = loops_machine_kernel, .user = machine});
    assert_memory_equal(got.data, want.data, (size_t)want.count * sizeof(float));
    if (target_runs_here(a, &d, t)) {
        got = run(a, p, &(interp_hooks){.kernel = jit_kernel, .user = jit_program(a, &d, p, t)});
        assert_memory_equal(got.data, want.data, (size_t)want.count * sizeof(float));
    }
    arena_destroy(a);
}

static void exact_weights_take_two_bytes(void **state) {
    (void)state;
    const model m = {.in = 256, .out = 272, .weights = BF16, .table = BF16};
    for (int level = 0; level < LEVELS; level++) check(&m, level, DT_BF16, DT_BF16);
}

// F16 only where a CPU level converts it; of each constant, its own type.
static void f16_is_the_second_choice(void **state) {
    (void)state;
    const model m = {.in = 256, .out = 272, .weights = F16, .table = BF16};
    check(&m, 0, DT_F32, DT_BF16);
    for (int level = 1; level < LEVELS; level++) check(&m, level, DT_F16, DT_BF16);
}

static void other_weights_stay(void **state) {
    (void)state;
    const model weights = {.in = 256, .out = 272, .weights = F32, .table = BF16},
                table = {.in = 256, .out = 272, .weights = BF16, .table = F32},
                small = {.in = 128, .out = 272, .weights = BF16, .table = BF16},
                added = {.in = 256, .out = 272, .weights = BF16, .table = BF16, .also_added = true};
    check(&weights, 1, DT_F32, DT_BF16);
    check(&table, 1, DT_BF16, DT_F32);
    check(&small, 1, DT_F32, DT_F32);
    check(&added, 1, DT_F32, DT_BF16);
}

// ---------------------------------------------------------------- what fits
static float word_as_float(uint32_t word) {
    float v;
    memcpy(&v, &word, sizeof v);
    return v;
}

// Words around each exponent, with few, many and the last bits of precision, against conversion and back.
static void fits_as_conversions_tell(void **state) {
    (void)state;
    static const uint32_t ends[] = {0,      1,      0x400,   0xfff,    0x1000,   0x2000,   0x3fff,
                                    0x4000, 0x8000, 0x10000, 0x400000, 0x7fe000, 0x7f0000, 0x7fffff};
    static const dtype types[] = {DT_BF16, DT_F16};
    arena *a = arena_new();
    constant *c = constant_new(a, DT_F32, 1, (int64_t[]){1});
    for (uint32_t high = 0; high < 512; high++)
        for (size_t j = 0; j < sizeof ends / sizeof *ends; j++)
            for (int k = 0; k < 2; k++) {
                float v = word_as_float(high << 23 | ends[j]);
                uint16_t half;
                memcpy((void *)c->data, &v, sizeof v);
                dtype_store_float(types[k], &half, 0, (double)v, false);
                bool exact = dtype_load_float(types[k], &half, 0) == (double)v && !isinf(v);
                assert_int_equal(constant_fits(c, types[k]), exact);
            }
    arena_destroy(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_weights_take_two_bytes),
        cmocka_unit_test(f16_is_the_second_choice),
        cmocka_unit_test(other_weights_stay),
        cmocka_unit_test(fits_as_conversions_tell),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
