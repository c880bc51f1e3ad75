// Products and convolutions of f16 and bf16, and of f32 with --precision=f16, by tiles of bf16, from operands in parts: as interpreted instructions and
// where possible on this machine. Results differ from f32 sums by far less than f16 rounds, sums of whole numbers
// with eleven bits are exact, and infinities and NaN give what f32 gives.
#include "codegen/llvm/jit.h"
#include "codegen/target/targets.h"
#include "compiler/driver/pass_run.h"
#include "ir/kernel/lower.h"
#include "runtime-lite/core/runtime.h"
#include "test/build_graph.h"
#include "test/unit/loops_machine.h"
#include "test/unit/random.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// Numbers: of any size around one; their absolute values; whole numbers of eleven bits; few of -1, 0 and 1.
typedef enum numbers { REAL, POSITIVE, WHOLE, FEW } numbers;

// y = Relu(x w + bias) by MatMul, or by Conv where the height is not 0.
typedef struct model {
    dtype type;
    int64_t rows, in, out;       // rows: images of a convolution
    int64_t height, width, tall; // of the image, of the square window
    int64_t stride, pad;
    bool open;         // the number of rows is known at run time only
    bool alone;        // the code is for this level alone, so that bf16 is stored as tiles take it
    bool vectors;      // tiles do not take it
    double in_x, in_w; // an element of x and of the weights, if not 0
    numbers x, w;
} model;

static double number(numbers kind, uint32_t *seed) {
    int v = (int)(next(seed) % 4095) - 2047;
    switch (kind) {
    case REAL: return (double)v / 997;
    case POSITIVE: return (double)abs(v) / 997;
    case WHOLE: return v;
    case FEW: break;
    }
    return abs(v) < 30 ? v % 2 : 0;
}

// f32 has more bits than the numbers above.
static void fill(dtype t, void *to, int64_t n, numbers kind, double special, uint32_t seed) {
    for (int64_t j = 0; j < n; j++)
        dtype_store_float(t, to, j,
                          number(kind, &seed) * (t == DT_F32 && kind < WHOLE ? 1.0009765625 / 3 : 1), false);
    if (special != 0) dtype_store_float(t, to, n / 2, special, false);
}

static value *numbers_constant(graph *g, const model *m, const char *name, int rank, const int64_t *dims,
                               numbers kind, double special) {
    constant *c = constant_new(g->module->arena, m->type, rank, dims);
    fill(m->type, (void *)c->data, c->count, kind, special, 3);
    return value_constant(g, name, c);
}

static value *product(graph *g, const model *m, value *x) {
    int64_t conv[] = {m->out, m->in, m->tall, m->tall}, matrix[] = {m->in, m->out};
    value *w = numbers_constant(g, m, "w", m->height ? 4 : 2, m->height ? conv : matrix, m->w, m->in_w),
          *bias = numbers_constant(g, m, "bias", 1, &m->out, m->x == POSITIVE ? POSITIVE : FEW, 0);
    if (!m->height)
        return apply(g, "Add", 2, (value *[]){apply(g, "MatMul", 2, (value *[]){x, w}, "p"), bias}, "s");
    value *y = apply(g, "Conv", 3, (value *[]){x, w, bias}, "s");
    set_equal_ints(y->def, "pads", 4, m->pad);
    set_equal_ints(y->def, "strides", 2, m->stride);
    return y;
}

static program *build(arena *a, diag *d, const model *m) {
    module *mo = module_new(a, d, "parts.onnx");
    graph *g = graph_new(mo, NULL, "parts");
    mo->main = g;
    mo->name = "parts";
    dim *size[4] = {m->open ? dim_symbol(mo->dims, "M") : dim_const(mo->dims, m->rows),
                    dim_const(mo->dims, m->in), dim_const(mo->dims, m->height),
                    dim_const(mo->dims, m->width)};
    value *x = graph_add_input(g, "x", type_tensor(a, m->type, m->height ? 4 : 2, size)),
          *s = product(g, m, x);
    graph_add_output(g, apply(g, "Neg", 1, &s, "y"));
    pass_context c = {.module = mo, .opt = 2, .fold_work = 1000000, .fold_bytes = 1 << 20};
    run_passes(&c, GOAL_GRAPH, NULL);
    return lower_module(mo);
}

static tensor input_of(arena *a, const model *m) {
    tensor x = {.dtype = m->type, .rank = m->height ? 4 : 2, .dims = {m->rows, m->in, m->height, m->width}};
    x.count = m->rows * m->in * (m->height ? m->height * m->width : 1);
    x.data = arena_alloc(a, (size_t)x.count * sizeof(float) + 64);
    fill(m->type, x.data, x.count, m->x, m->in_x, 7);
    return x;
}

// ---------------------------------------------------------------- runs
static const target_options levels[] = {
    {.cpu = "x86-64-v2"},
    {.cpu = "x86-64-v3"},
    {.cpu = "x86-64-v4"},
    {.cpu = "x86-64-v4", .features = "+avx512vnni,+avx512bf16,+amx-tile,+amx-int8,+amx-bf16"}};
enum { LEVELS = sizeof levels / sizeof *levels };

static target *target_of_level(arena *a, diag *d, int level, dtype type) {
    target_options o = levels[level];
    o.triple = "x86_64-linux-gnu", o.fp = FP_DEFAULT;
    o.precision = type == DT_F32 ? PRECISION_F16 : PRECISION_OWN;
    return target_from_options(a, d, &o);
}

typedef void check(const model *m, const tensor *want, const tensor *size, const tensor *got);

// size: the result of the absolute values. Calls `is_right` for interpreted instructions and for this machine.
static void test_at(const model *m, int level, check *is_right) {
    arena *a = arena_new();
    diag d = {.arena = a, .sink = show_message};
    jmp_buf jump;
    if (!DIAG_TRY(&d, jump)) fail();
    target *t = target_of_level(a, &d, level, m->type);
    t->bf16_products = m->alone, t->half_units = true;
    model absolute = *m;
    if (m->x == REAL) absolute.x = absolute.w = POSITIVE;
    tensor x = input_of(a, m), positive = input_of(a, &absolute);
    tensor want = run_program(a, build(a, &d, m), &x, &(interp_hooks){0}),
           size = run_program(a, build(a, &d, &absolute), &positive, &(interp_hooks){0});
    program *p = build(a, &d, m);
    run_passes(&(pass_context){.program = p, .target = t, .opt = 2}, GOAL_PROGRAM, NULL);
    loops_machine *machine = loops_machine_new(a, &d, p, t);
    assert_int_equal(loops_machine_count(machine, p, "matrix tiles"), t->amx_bf16 && !m->vectors);
    tensor got = run_program(a, p, &x, &(interp_hooks){.kernel = loops_machine_kernel, .user = machine});
    is_right(m, &want, &size, &got);
    if (target_runs_here(a, &d, t) && (!t->amx_bf16 || onnxc_rt_tiles())) {
        got = run_program(a, p, &x, &(interp_hooks){.kernel = jit_kernel, .user = jit_program(a, &d, p, t)});
        is_right(m, &want, &size, &got);
    }
    arena_destroy(a);
}

static void test(const model *m, check *is_right) { test_at(m, LEVELS - 1, is_right); }

static double element(const tensor *t, int64_t j) { return dtype_load_float(t->dtype, t->data, j); }

// A product of f16 lacks one of the low parts, at most 2^-16 of it; then the sum may round to the next number.
static void is_near(const model *m, const tensor *want, const tensor *size, const tensor *got) {
    double next_number = m->type == DT_F16 ? 0x1p-10 : 0x1p-7, lost = m->type == DT_F16 ? 0x1p-16 : 0;
    double depth = (double)(m->in * (m->height ? m->tall * m->tall : 1));
    assert_int_equal(got->count, want->count);
    for (int64_t j = 0; j < want->count; j++) {
        double w = element(want, j), s = fabs(element(size, j)), g = element(got, j);
        if (!(fabs(g - w) <= next_number * fabs(w) + (lost + depth * 0x1p-23) * s))
            fail_msg("element %d is %.9g instead of %.9g", (int)j, g, w);
    }
}

// Weights are off by 2^-11 of themselves, with tiles the other operands by 2^-16.
static void is_narrow(const model *m, const tensor *want, const tensor *size, const tensor *got) {
    double depth = (double)(m->in * (m->height ? m->tall * m->tall : 1));
    double most = 0x1p-11 + 2 * 0x1p-16 + (depth + 2) * 0x1p-23, error = 0;
    for (int64_t j = 0; j < want->count; j++) {
        double off = fabs(element(want, j) - element(got, j));
        if (!(off <= most * fabs(element(size, j)))) fail_msg("element %d is off by %g", (int)j, off);
        error += off;
    }
    assert_true(error > 0);
}

static void is_equal(const model *m, const tensor *want, const tensor *size, const tensor *got) {
    (void)m;
    (void)size;
    assert_int_equal(got->count, want->count);
    for (int64_t j = 0; j < want->count; j++) {
        double w = element(want, j), g = element(got, j);
        if (!(g == w || (isnan(g) && isnan(w)))) fail_msg("element %d is %.9g instead of %.9g", (int)j, g, w);
    }
}

// ---------------------------------------------------------------- tests
static void in_both_types(model m, check *is_right) {
    m.type = DT_F16;
    test(&m, is_right);
    m.type = DT_BF16;
    test(&m, is_right);
    m.alone = true;
    if (!m.vectors) test(&m, is_right);
}

static void products_are_near(void **state) {
    (void)state;
    static const int64_t shapes[][3] = {{16, 64, 17}, {17, 64, 31}, {31, 96, 33},  {32, 32, 48},
                                        {33, 40, 33}, {49, 72, 16}, {100, 64, 33}, {20, 2, 33},
                                        {33, 14, 17}, {18, 30, 20}};
    for (size_t j = 0; j < sizeof shapes / sizeof *shapes; j++) {
        model m = {.rows = shapes[j][0], .in = shapes[j][1], .out = shapes[j][2]};
        in_both_types(m, is_near);
    }
}

// Few rows take vectors in the run.
static void rows_known_late_are_near(void **state) {
    (void)state;
    static const int64_t rows[] = {1, 2, 15, 16, 17, 31, 32, 40};
    for (size_t j = 0; j < sizeof rows / sizeof *rows; j++)
        in_both_types((model){.rows = rows[j], .in = 64, .out = 49, .open = true}, is_near);
}

static void convolutions_are_near(void **state) {
    (void)state;
    static const model all[] = {
        {0, 1, 32, 48, 7, 7, 3, 1, 1},   {0, 1, 32, 33, 6, 14, 3, 1, 1},
        {0, 2, 16, 17, 5, 20, 3, 1, 1},  {0, 1, 32, 16, 3, 56, 3, 1, 1},
        {0, 1, 32, 40, 13, 13, 3, 2, 1}, {0, 1, 64, 31, 9, 14, 1, 1, 0},
        {0, 1, 40, 20, 9, 16, 3, 1, 1},  {0, 2, 32, 33, 6, 14, 3, 1, 1, .open = true},
    };
    for (size_t j = 0; j < sizeof all / sizeof *all; j++) in_both_types(all[j], is_near);
}

// Both parts of either operand count.
static void whole_numbers_are_exact(void **state) {
    (void)state;
    model left = {DT_F16, 35, 128, 35, .x = WHOLE, .w = FEW},
          right = {DT_F16, 35, 128, 35, .x = FEW, .w = WHOLE};
    test(&left, is_equal);
    test(&right, is_equal);
}

// inf * 0 is NaN, but no product of inf with a weight whose low part is 0.
static void special_values_are_those_of_f32(void **state) {
    (void)state;
    static const double values[] = {INFINITY, -INFINITY, NAN, 65504, 0x1p-24};
    for (size_t j = 0; j < sizeof values / sizeof *values; j++) {
        model m = {DT_F16, 35, 64, 35, .in_x = values[j], .x = FEW, .w = WHOLE};
        test(&m, is_equal);
        m.x = WHOLE, m.w = FEW;
        test(&m, is_equal);
    }
}

static void infinite_weights_take_vectors(void **state) {
    (void)state;
    model m = {DT_F16, 35, 64, 35, .in_w = INFINITY, .x = WHOLE, .w = FEW, .vectors = true};
    test(&m, is_equal);
}

static void few_rows_take_vectors(void **state) {
    (void)state;
    in_both_types((model){.rows = 15, .in = 64, .out = 33, .vectors = true}, is_near);
}

static void precision_f16_rounds_weights(void **state) {
    (void)state;
    static const model all[] = {{DT_F32, 40, 64, 33},
                                {DT_F32, 3, 64, 33, .vectors = true},
                                {DT_F32, 40, 64, 33, .open = true},
                                {DT_F32, 1, 32, 40, 7, 14, 3, 1, 1}};
    for (int level = 0; level < LEVELS; level++)
        for (size_t j = 0; j < sizeof all / sizeof *all; j++) test_at(&all[j], level, is_narrow);
}

// Whole numbers of eleven bits are f16; weights out of its range stay f32, and then all of their products.
static void precision_f16_keeps_what_fits(void **state) {
    (void)state;
    model m = {DT_F32, 35, 128, 35, .x = WHOLE, .w = FEW};
    for (int level = 0; level < LEVELS; level++) test_at(&m, level, is_equal);
    m.in_w = 65520, m.vectors = true;
    for (int level = 0; level < LEVELS; level++) test_at(&m, level, is_equal);
}

// Rows that several tiles of vectors share: columns are widened once for all of them, in blocks of K.
static void vectors_widen_columns(void **state) {
    (void)state;
    const dtype types[] = {DT_F16, DT_BF16};
    for (int level = 0; level < LEVELS - 1; level++)
        for (int j = 0; j < 2; j++) {
            test_at(&(model){types[j], 33, 2100, 70}, level, is_near);
            test_at(&(model){types[j], 1, 80, 33, 9, 9, 3, 1, 1}, level, is_near);
            test_at(&(model){types[j], 64, 200, 130}, level, is_near);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_are_near),
        cmocka_unit_test(rows_known_late_are_near),
        cmocka_unit_test(convolutions_are_near),
        cmocka_unit_test(whole_numbers_are_exact),
        cmocka_unit_test(special_values_are_those_of_f32),
        cmocka_unit_test(infinite_weights_take_vectors),
        cmocka_unit_test(few_rows_take_vectors),
        cmocka_unit_test(precision_f16_rounds_weights),
        cmocka_unit_test(precision_f16_keeps_what_fits),
        cmocka_unit_test(vectors_widen_columns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
