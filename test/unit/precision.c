// --precision=bf16 on CPUs: products and convolutions whose operands are rounded, at levels with and without
// tiles, as interpreted instructions and where possible on this machine. Errors stay within what rounding to
// eight bits explains, sums of exact operands are exact, and other readers see the rounded values.
#include "codegen/llvm/jit.h"
#include "codegen/target/targets.h"
#include "compiler/driver/pass_run.h"
#include "ir/kernel/layout.h"
#include "ir/kernel/lower.h"
#include "passes/memory/memory_plan.h"
#include "runtime-lite/core/runtime.h"
#include "test/build_graph.h"
#include "test/unit/loops_machine.h"
#include "test/unit/random.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// Numbers: of any size around one; their absolute values; small integers, of which bf16 holds each.
typedef enum numbers { REAL, POSITIVE, WHOLE } numbers;

// hidden = Relu(x first); y = Relu(hidden second + bias), by MatMul, or by Conv where the height is not 0. The
// first product permutes the columns of x, or its channels, and thus is exact.
typedef struct model {
    int64_t rows, in, out;       // rows: images of a convolution
    int64_t height, width, tall; // of the image, of the square window
    int64_t stride, pad;
    bool open;  // the number of rows is known at run time only
    bool shown; // the hidden values are an output, scaled by 3
    bool tiles; // whether the second product can use tiles
} model;

static float number(numbers kind, uint32_t *seed) {
    int v = (int)(next(seed) % 2001) - 1000;
    if (kind == WHOLE) return (float)(v % 9);
    return (kind == POSITIVE ? (float)abs(v) : (float)v) / 997;
}

static value *numbers_constant(graph *g, const char *name, int rank, const int64_t *dims, numbers kind,
                               uint32_t seed) {
    constant *c = constant_new(g->module->arena, DT_F32, rank, dims);
    for (int64_t j = 0; j < c->count; j++) ((float *)c->data)[j] = number(kind, &seed);
    return value_constant(g, name, c);
}

static value *permutation(graph *g, int rank, int64_t n) {
    int64_t dims[4] = {n, n, 1, 1};
    constant *c = constant_new(g->module->arena, DT_F32, rank, dims);
    memset((void *)c->data, 0, (size_t)c->count * sizeof(float));
    for (int64_t j = 0; j < n; j++) ((float *)c->data)[j * n + (j + 1) % n] = 1;
    return value_constant(g, "first", c);
}

static value *second_product(graph *g, const model *m, value *hidden, numbers kind) {
    int64_t conv[] = {m->out, m->in, m->tall, m->tall}, product[] = {m->in, m->out};
    value *w = numbers_constant(g, "second", m->height ? 4 : 2, m->height ? conv : product, kind, 3),
          *bias = numbers_constant(g, "bias", 1, &m->out, kind, 5);
    if (!m->height)
        return apply(g, "Add", 2, (value *[]){apply(g, "MatMul", 2, (value *[]){hidden, w}, "p"), bias}, "s");
    value *y = apply(g, "Conv", 3, (value *[]){hidden, w, bias}, "s");
    set_equal_ints(y->def, "pads", 4, m->pad);
    set_equal_ints(y->def, "strides", 2, m->stride);
    return y;
}

static program *build(arena *a, diag *d, const model *m, numbers kind) {
    module *mo = module_new(a, d, "precision.onnx");
    graph *g = graph_new(mo, NULL, "precision");
    mo->main = g;
    mo->name = "precision";
    dim *size[4] = {m->open ? dim_symbol(mo->dims, "M") : dim_const(mo->dims, m->rows),
                    dim_const(mo->dims, m->in), dim_const(mo->dims, m->height),
                    dim_const(mo->dims, m->width)};
    int rank = m->height ? 4 : 2;
    value *x = graph_add_input(g, "x", type_tensor(a, DT_F32, rank, size));
    value *h = apply(g, m->height ? "Conv" : "MatMul", 2, (value *[]){x, permutation(g, rank, m->in)}, "t");
    h = apply(g, "Relu", 1, &h, "hidden");
    value *s = second_product(g, m, h, kind);
    graph_add_output(g, apply(g, "Relu", 1, &s, "y"));
    if (m->shown) {
        constant *three = constant_new(a, DT_F32, 0, NULL);
        *(float *)three->data = 3;
        graph_add_output(g, apply(g, "Mul", 2, (value *[]){h, value_constant(g, "three", three)}, "z"));
    }
    pass_context c = {.module = mo, .opt = 2, .fold_work = 1000000, .fold_bytes = 1 << 20};
    run_passes(&c, GOAL_GRAPH, NULL);
    return lower_module(mo);
}

static tensor input_of(arena *a, const model *m, numbers kind) {
    tensor x = {.dtype = DT_F32, .rank = m->height ? 4 : 2, .dims = {m->rows, m->in, m->height, m->width}};
    x.count = m->rows * m->in * (m->height ? m->height * m->width : 1);
    x.data = arena_alloc(a, (size_t)x.count * sizeof(float) + 64);
    uint32_t seed = 7;
    for (int64_t j = 0; j < x.count; j++) ((float *)x.data)[j] = number(kind, &seed);
    return x;
}

// ---------------------------------------------------------------- runs
static const target_options levels[] = {
    {.triple = "x86_64-linux-gnu", .cpu = "x86-64-v3"},
    {.triple = "x86_64-linux-gnu", .cpu = "x86-64-v4"},
    {.triple = "aarch64-linux-gnu", .cpu = "generic"},
    {.triple = "x86_64-linux-gnu", .cpu = "znver4"},
    {.triple = "aarch64-linux-gnu", .cpu = "generic", .features = "+bf16"},
    {.triple = "x86_64-linux-gnu",
     .cpu = "x86-64-v4",
     .features = "+avx512vnni,+avx512bf16,+amx-tile,+amx-int8,+amx-bf16"},
};
enum { LEVELS = sizeof levels / sizeof *levels };

typedef struct outputs {
    tensor y, z;
} outputs;

static outputs run(arena *a, const program *p, const tensor *x, const interp_hooks *hooks) {
    tensor out[2] = {0};
    const char *message = NULL;
    if (interp_program_hooked(p, a, x, out, (interp_limits){0}, &message, hooks) != INTERP_OK)
        fail_msg("%s", message);
    return (outputs){out[0], out[1]};
}

static target *rounding_target(arena *a, diag *d, int level, fp_mode fp) {
    target_options o = levels[level];
    o.precision = PRECISION_BF16;
    o.fp = fp;
    target *t = target_from_options(a, d, &o);
    t->bf16_products = t->half_units = true; // in an object with tiles, whose constants all levels share
    return t;
}

static program *rounded(arena *a, diag *d, const model *m, numbers kind, const target *t) {
    program *p = build(a, d, m, kind);
    // Winograd's algorithm would keep f32 where there are no tiles, but its sums are not exact.
    pass_context c = {.program = p, .target = t, .opt = 2, .algorithms = {.winograd = CHOICE_NEVER}};
    run_passes(&c, GOAL_PROGRAM, NULL);
    return p;
}

static int buffers_of_bf16(const program *p, bool constants) {
    int n = 0;
    for (int j = 0; j < p->buffers.n; j++) {
        const buffer *b = p->buffers.at[j];
        n += b->dtype == DT_BF16 && (b->role == BUF_CONST) == constants && !b->view_of;
    }
    return n;
}

typedef void check(const model *m, const outputs *want, const outputs *size, const outputs *got);

// size: the results of the absolute values. Calls `is_right` for interpreted instructions and for this machine.
static void at_level(const model *m, numbers kind, int level, check *is_right) {
    arena *a = arena_new();
    diag d = {.arena = a, .sink = show_message};
    jmp_buf jump;
    if (!DIAG_TRY(&d, jump)) fail();
    target *t = rounding_target(a, &d, level, FP_DEFAULT);
    tensor x = input_of(a, m, kind), positive = input_of(a, m, POSITIVE);
    const interp_hooks none = {0};
    outputs want = run(a, build(a, &d, m, kind), &x, &none),
            size = run(a, build(a, &d, m, POSITIVE), &positive, &none);
    program *p = rounded(a, &d, m, kind, t);
    assert_true(buffers_of_bf16(p, true) >= 1);
    assert_true(buffers_of_bf16(p, false) >= 1);
    store_rounded(p, t);
    assert_int_equal(buffers_of_bf16(p, false) >= 1, has_bf16_unit(t));
    loops_machine *machine = loops_machine_new(a, &d, p, t);
    assert_int_equal(loops_machine_count(machine, p, "matrix tiles") > 0, t->amx_bf16 && m->tiles);
    outputs got = run(a, p, &x, &(interp_hooks){.kernel = loops_machine_kernel, .user = machine});
    is_right(m, &want, &size, &got);
    if (target_runs_here(a, &d, t) && (!t->amx_bf16 || onnxc_rt_tiles())) {
        got = run(a, p, &x, &(interp_hooks){.kernel = jit_kernel, .user = jit_program(a, &d, p, t)});
        is_right(m, &want, &size, &got);
    }
    arena_destroy(a);
}

static void at_all_levels(const model *m, numbers kind, check *is_right) {
    for (int level = 0; level < LEVELS; level++) at_level(m, kind, level, is_right);
}

static void check_error(const tensor *want, const tensor *size, const tensor *got, double relative) {
    assert_int_equal(got->count, want->count);
    const float *w = want->data, *s = size->data, *g = got->data;
    for (int64_t j = 0; j < want->count; j++)
        if (!(fabs((double)g[j] - w[j]) <= relative * s[j]))
            fail_msg("element %d is %.9g instead of %.9g", (int)j, (double)g[j], (double)w[j]);
}

// Each operand is off by 2^-8 of itself at most, each of the additions by 2^-24 of the sum of absolute values.
static void is_near(const model *m, const outputs *want, const outputs *size, const outputs *got) {
    double depth = (double)(m->in * (m->height ? m->tall * m->tall : 1));
    check_error(&want->y, &size->y, &got->y, 2 * 0x1p-8 + 0x1p-16 + (depth + 2) * 0x1p-23);
    if (m->shown) check_error(&want->z, &size->z, &got->z, 0x1p-8 + 0x1p-23);
}

static void is_exact(const model *m, const outputs *want, const outputs *size, const outputs *got) {
    (void)size;
    check_error(&want->y, &want->y, &got->y, 0);
    if (m->shown) check_error(&want->z, &want->z, &got->z, 0);
}

// ---------------------------------------------------------------- tests
// Tiles and blocks with rows that are known and that are not, the other levels with one of them in turn.
static void in_both_forms(model m, int turn) {
    for (int open = 0; open < 2; open++) {
        m.open = open;
        at_level(&m, REAL, LEVELS - 1, is_near);
        at_level(&m, REAL, LEVELS - 2, is_near);
        if (open == turn % 2) at_level(&m, REAL, turn / 2 % (LEVELS - 2), is_near);
    }
}

static void products_are_near(void **state) {
    (void)state;
    static const int64_t shapes[][3] = {{2, 32, 15},  {15, 32, 16}, {16, 64, 17}, {17, 64, 31},  {31, 96, 33},
                                        {32, 32, 48}, {33, 40, 33}, {49, 72, 16}, {100, 64, 33}, {20, 2, 33},
                                        {33, 14, 17}, {18, 30, 20}, {17, 18, 16}};
    for (size_t j = 0; j < sizeof shapes / sizeof *shapes; j++) {
        model m = {.rows = shapes[j][0], .in = shapes[j][1], .out = shapes[j][2], .tiles = true};
        in_both_forms(m, (int)j);
    }
}

// Widths that no row of a tile divides take the products of pairs.
static void odd_widths_are_near(void **state) {
    (void)state;
    static const int64_t shapes[][3] = {{17, 34, 33}, {33, 62, 16}, {1, 64, 48}};
    for (size_t j = 0; j < sizeof shapes / sizeof *shapes; j++) {
        model m = {.rows = shapes[j][0], .in = shapes[j][1], .out = shapes[j][2]};
        at_all_levels(&m, REAL, is_near);
    }
}

static void rows_known_late_are_near(void **state) {
    (void)state;
    static const int64_t rows[] = {1, 2, 16, 17, 31, 32, 40};
    for (size_t j = 0; j < sizeof rows / sizeof *rows; j++) {
        model m = {.rows = rows[j], .in = 64, .out = 49, .open = true, .tiles = true};
        at_level(&m, REAL, LEVELS - 1, is_near);
        at_level(&m, REAL, LEVELS - 2, is_near);
    }
}

static void convolutions_are_near(void **state) {
    (void)state;
    static const model all[] = {
        {1, 32, 48, 7, 7, 3, 1, 1, .tiles = true},   {1, 32, 33, 6, 14, 3, 1, 1, .tiles = true},
        {2, 16, 17, 5, 20, 3, 1, 1, .tiles = true},  {1, 32, 16, 3, 56, 3, 1, 1, .tiles = true},
        {1, 32, 40, 13, 13, 3, 2, 1, .tiles = true}, {1, 64, 31, 9, 14, 1, 1, 0, .tiles = true},
        {3, 64, 31, 14, 14, 1, 2, 0, .tiles = true}, {1, 40, 20, 9, 16, 3, 1, 1, .tiles = true},
    };
    for (size_t j = 0; j < sizeof all / sizeof *all; j++) in_both_forms(all[j], (int)j);
}

// Sums of up to 64 * 512, for which bf16 has too few bits.
static void sums_stay_f32(void **state) {
    (void)state;
    model product = {.rows = 35, .in = 512, .out = 35, .tiles = true},
          conv = {2, 32, 33, 8, 14, 3, 1, 1, .tiles = true};
    at_all_levels(&product, WHOLE, is_exact);
    at_all_levels(&conv, WHOLE, is_exact);
}

static void other_readers_see_rounded_values(void **state) {
    (void)state;
    model product = {.rows = 35, .in = 64, .out = 35, .shown = true, .tiles = true},
          conv = {2, 32, 33, 8, 14, 3, 1, 1, .shown = true, .tiles = true};
    at_all_levels(&product, REAL, is_near);
    at_all_levels(&conv, REAL, is_near);
    at_all_levels(&product, WHOLE, is_exact);
}

static void strict_sums_are_not_rounded(void **state) {
    (void)state;
    const model m = {.rows = 35, .in = 64, .out = 35};
    for (int level = 0; level < LEVELS; level++) {
        arena *a = arena_new();
        diag d = {.arena = a, .sink = show_message};
        program *p = rounded(a, &d, &m, REAL, rounding_target(a, &d, level, FP_STRICT));
        assert_int_equal(buffers_of_bf16(p, true) + buffers_of_bf16(p, false), 0);
        arena_destroy(a);
    }
}

static int rounded_constants(const model *m, precision as) {
    arena *a = arena_new();
    diag d = {.arena = a, .sink = show_message};
    int n = 0;
    for (int level = 0; level < 2; level++) {
        target *t = rounding_target(a, &d, level, FP_DEFAULT);
        t->bf16_products = t->half_units = false;
        t->precision = as;
        const program *p = rounded(a, &d, m, REAL, t);
        assert_int_equal(buffers_of_bf16(p, false), 0);
        for (int j = 0; j < p->buffers.n; j++) {
            const buffer *b = p->buffers.at[j];
            bool is_second = b->role == BUF_CONST && strcmp(b->name, "second") == 0; // the first is exact
            n += is_second && b->dtype == (as == PRECISION_F16 ? DT_F16 : DT_BF16);
        }
    }
    arena_destroy(a);
    return n;
}

// Only constants that memory delivers more slowly than the rows use them.
static void without_units_streams_are_rounded(void **state) {
    (void)state;
    const model few = {.rows = 1, .in = 576, .out = 512}, many = {.rows = 9, .in = 576, .out = 512},
                open = {.rows = 1, .in = 576, .out = 512, .open = true},
                small = {.rows = 1, .in = 64, .out = 512};
    static const precision formats[] = {PRECISION_BF16, PRECISION_F16};
    for (int j = 0; j < 2; j++) {
        precision as = formats[j];
        assert_true(rounded_constants(&few, as) >= 2);
        assert_int_equal(rounded_constants(&many, as), 0);
        assert_int_equal(rounded_constants(&open, as), 0);
        assert_int_equal(rounded_constants(&small, as), 0);
    }
}

// No copy of the weights is held: elements are rounded when they are read.
static void weights_are_rounded_when_read(void **state) {
    (void)state;
    enum { N = 5000 };
    arena *a = arena_new();
    constant *c = constant_new(a, DT_F32, 1, (int64_t[]){N});
    uint16_t all[N];
    for (int j = 0; j < N; j++) dtype_store_float(DT_F32, (void *)c->data, j, sin(j), false);
    const constant *r = constant_rounded(a, c, DT_BF16);
    dims *t = dims_new(a);
    buffer b = {
        .role = BUF_CONST, .dtype = DT_BF16, .rank = 1, .dims = (dim *[]){dim_const(t, N)}, .data = r};
    assert_int_equal(r->kind, CONST_ROUNDED);
    layout_produce(&b, 0, all, sizeof all);
    for (int j = 0; j < N; j++) {
        uint16_t right;
        dtype_store_float(DT_BF16, &right, 0, (float)sin(j), false);
        assert_int_equal(all[j], right);
        assert_true(constant_float(r, j) == dtype_load_float(DT_BF16, &right, 0));
    }
    arena_destroy(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_are_near),
        cmocka_unit_test(odd_widths_are_near),
        cmocka_unit_test(rows_known_late_are_near),
        cmocka_unit_test(convolutions_are_near),
        cmocka_unit_test(sums_stay_f32),
        cmocka_unit_test(other_readers_see_rounded_values),
        cmocka_unit_test(without_units_streams_are_rounded),
        cmocka_unit_test(weights_are_rounded_when_read),
        cmocka_unit_test(strict_sums_are_not_rounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
