// Products of rows with weights of 2, 4 and 8 bits in blocks with scales and zero points: as interpreted instructions and
// where possible on this machine, against sums in double precision. Many rows unpack the weights once; --precision=bf16
// and int8 round the operands, by no more than their rules say.
#include "codegen/llvm/jit.h"
#include "codegen/target/targets.h"
#include "compiler/driver/pass_run.h"
#include "ir/kernel/lower.h"
#include "runtime-lite/core/runtime.h"
#include "test/build_graph.h"
#include "test/unit/loops_machine.h"
#include "test/unit/sample.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef enum zeros { NO_ZEROS, SAME_ZERO, OWN_ZEROS } zeros;

// y = -(x w), w [in, out] dequantised along `in`.
typedef struct model {
    dtype type;
    int64_t block; // 0: one scale for a column
    zeros zeros;
    int64_t rows, in, out;
    bool open;    // the number of rows is known at run time only
    bool swapped; // stored as [out, in]
    bool grouped; // GroupedMatMul: halves of the rows by equal matrices [out, in] in blocks; `swapped` is set
    double in_x;  // an element of x, if not 0
} model;

static int number(int most, uint32_t *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return (int)((*seed >> 8) % (uint32_t)most);
}

static int64_t least_of(dtype t) { return dtype_is_signed(t) ? -(1 << (dtype_bits(t) - 1)) : 0; }

// Element k of column n; its scale and zero point.
static int64_t weight(const model *m, int64_t k, int64_t n) {
    uint32_t seed = (uint32_t)(k * 977 + n * 131 + 5);
    number(2, &seed);
    return least_of(m->type) + number(1 << dtype_bits(m->type), &seed);
}
static double scale(const model *m, int64_t k, int64_t n) {
    uint32_t seed = (uint32_t)((m->block ? k / m->block : 0) * 31 + n * 7 + 1);
    return (1 + number(997, &seed) / 997.0) / 64;
}
static int64_t zero(const model *m, int64_t k, int64_t n) {
    uint32_t seed = (uint32_t)((m->block ? k / m->block : 0) * 53 + n * 11 + 2);
    int64_t middle = least_of(m->type) + (1 << (dtype_bits(m->type) - 1));
    if (m->zeros == NO_ZEROS) return 0;
    return m->zeros == SAME_ZERO ? middle : least_of(m->type) + number(1 << dtype_bits(m->type), &seed);
}
static double dequantised(const model *m, int64_t k, int64_t n) {
    return (double)(float)((double)(weight(m, k, n) - zero(m, k, n)) * (double)(float)scale(m, k, n));
}

// A constant of these elements for all positions along K in steps of `step`.
static value *matrix(graph *g, const model *m, const char *name, dtype t, int64_t step, bool per_column,
                     double (*at)(const model *m, int64_t k, int64_t n)) {
    int64_t k = m->in / step, dims[3] = {2, m->swapped ? m->out : k, m->swapped ? k : m->out};
    constant *c = per_column   ? constant_new(g->module->arena, t, 1, &m->out)
                  : m->grouped ? constant_new(g->module->arena, t, 3, dims)
                               : constant_new(g->module->arena, t, 2, dims + 1);
    for (int64_t i = 0; i < k; i++)
        for (int64_t n = 0; n < m->out; n++)
            for (int64_t j = per_column   ? n
                             : m->swapped ? n * k + i
                                          : i * m->out + n;
                 j < c->count; j += k * m->out) {
                double v = at(m, i * step, n);
                if (t == DT_F32) ((float *)c->data)[j] = (float)v;
                else dtype_store_int(t, (void *)c->data, j, (int64_t)v);
            }
    return value_constant(g, name, c);
}

static double weight_at(const model *m, int64_t k, int64_t n) { return (double)weight(m, k, n); }
static double zero_at(const model *m, int64_t k, int64_t n) { return (double)zero(m, k, n); }

static value *weights(graph *g, const model *m) {
    int64_t step = m->block ? m->block : m->in;
    value *in[] = {matrix(g, m, "w", m->type, 1, false, weight_at),
                   matrix(g, m, "scales", DT_F32, step, !m->block, scale),
                   m->zeros ? matrix(g, m, "zeros", m->type, step, !m->block, zero_at) : NULL};
    node *n = node_new(g, NULL, op_find("", "DequantizeLinear"), NULL, m->zeros ? 3 : 2, in);
    bool along = m->block != 0;
    node_set_attr(n, (attr){.name = "axis", .kind = ATTR_INT, .i = m->grouped ? 2 : along == m->swapped});
    if (along) node_set_attr(n, (attr){.name = "block_size", .kind = ATTR_INT, .i = m->block});
    value *w = node_output(n, 0, "dequantised");
    if (!m->swapped || m->grouped) return w;
    n = node_new(g, NULL, op_find("", "Transpose"), NULL, 1, &w);
    int64_t *perm = ARENA_ARRAY(g->module->arena, int64_t, 2);
    perm[0] = 1;
    node_set_attr(n, (attr){.name = "perm", .kind = ATTR_INTS, .n = 2, .ints = perm});
    return node_output(n, 0, "transposed");
}

// x times the weights.
static value *product(graph *g, const model *m, value *x) {
    value *in[] = {x, weights(g, m), NULL};
    if (!m->grouped) return node_output(node_new(g, NULL, op_find("", "MatMul"), NULL, 2, in), 0, "s");
    constant *ends = constant_new(g->module->arena, DT_I64, 1, (int64_t[]){2});
    for (int64_t j = 0; j < 2; j++) dtype_store_int(DT_I64, (void *)ends->data, j, (j + 1) * m->rows / 2);
    in[2] = value_constant(g, "ends", ends);
    return node_output(node_new(g, NULL, op_find("onnxc", "GroupedMatMul"), NULL, 3, in), 0, "s");
}

static program *build(arena *a, diag *d, const model *m) {
    module *mo = module_new(a, d, "packed.onnx");
    graph *g = graph_new(mo, NULL, "packed");
    mo->main = g;
    mo->name = "packed";
    dim *size[2] = {m->open ? dim_symbol(mo->dims, "M") : dim_const(mo->dims, m->rows),
                    dim_const(mo->dims, m->in)};
    value *s = product(g, m, graph_add_input(g, "x", type_tensor(a, DT_F32, 2, size)));
    graph_add_output(g, node_output(node_new(g, NULL, op_find("", "Neg"), NULL, 1, &s), 0, "y"));
    pass_context c = {.module = mo, .opt = 2, .fold_work = 1000000, .fold_bytes = 1 << 20};
    run_passes(&c, GOAL_GRAPH, NULL);
    return lower_module(mo);
}

static tensor input_of(arena *a, const model *m) {
    tensor x = {.dtype = DT_F32, .rank = 2, .dims = {m->rows, m->in}, .count = m->rows * m->in};
    uint32_t seed = 7;
    float *to = x.data = arena_alloc(a, (size_t)x.count * sizeof(float) + 64);
    for (int64_t j = 0; j < x.count; j++) to[j] = (float)(number(4095, &seed) - 2047) / 997;
    if (m->in_x != 0) to[x.count / 2] = (float)m->in_x;
    return x;
}

// ---------------------------------------------------------------- what results may be
static double largest(const model *m, const float *row, int64_t k) {
    int64_t step = m->block ? m->block : m->in, first = k / step * step;
    double most = 0;
    for (int64_t j = first; j < first + step; j++) most = fmax(most, fabs((double)row[j]));
    return most;
}

// Relative to the sum of magnitudes: f32, or operands in bf16; bytes are off by half a step of their block too.
static void check(const model *m, precision p, const tensor *x, const tensor *y) {
    double error = 0, of_sums = (double)(m->in + 4) * 0x1p-23, rounded = 2 * 0x1p-9 + 0x1p-18 + of_sums;
    assert_int_equal(y->count, m->rows * m->out);
    for (int64_t r = 0; r < m->rows; r++)
        for (int64_t n = 0; n < m->out; n++) {
            const float *row = (const float *)x->data + r * m->in;
            double want = 0, size = 0, steps = 0;
            for (int64_t k = 0; k < m->in; k++) {
                double w = dequantised(m, k, n);
                want -= (double)row[k] * w;
                size += fabs((double)row[k] * w);
                if (p == PRECISION_INT8) steps += largest(m, row, k) / 254 * fabs(w);
            }
            double got = (double)((const float *)y->data)[r * m->out + n];
            double most = (p == PRECISION_OWN ? of_sums : rounded) * size + 1.0001 * steps + 0x1p-100;
            if (isnan(want)) assert_true(isnan(got));
            else if (!(fabs(got - want) <= most))
                fail_msg("row %d, column %d: %.9g instead of %.9g, which is more than %g", (int)r, (int)n,
                         got, want, most);
            error = fmax(error, fabs(got - want) / (size + 1));
        }
    // Exact products would show that nothing is rounded.
    if (p != PRECISION_OWN && m->in_x == 0) assert_true(error > 0x1p-18);
}

// ---------------------------------------------------------------- runs
static const target_options levels[] = {
    {.triple = "x86_64-linux-gnu", .cpu = "x86-64-v2"},
    {.triple = "x86_64-linux-gnu", .cpu = "x86-64-v3"},
    {.triple = "x86_64-linux-gnu", .cpu = "x86-64-v4"},
    {.triple = "x86_64-linux-gnu", .cpu = "x86-64-v3", .features = "+avxvnni"},
    {.triple = "x86_64-linux-gnu", .cpu = "x86-64-v4", .features = "+avx512vnni"},
    {.triple = "x86_64-linux-gnu",
     .cpu = "x86-64-v4",
     .features = "+avx512vnni,+avx512bf16,+amx-tile,+amx-int8,+amx-bf16"},
    {.triple = "x86_64-linux-gnu", .cpu = "znver4"},
    {.triple = "aarch64-linux-gnu", .cpu = "generic", .features = "+dotprod"}};
enum { LEVELS = sizeof levels / sizeof *levels, OF_AVX512 = 2, OF_VNNI = 4, OF_TILES = 5, OF_PAIRS = 6 };

// with: how results are rounded at most.
static void test_at(const model *m, int level, precision option, precision with, int tiles) {
    arena *a = arena_new();
    diag d = {.arena = a, .sink = show_message};
    jmp_buf jump;
    if (!DIAG_TRY(&d, jump)) fail();
    target_options o = levels[level];
    o.fp = FP_DEFAULT, o.precision = option;
    target *t = target_from_options(a, &d, &o);
    t->bf16_products = option == PRECISION_BF16;
    tensor x = input_of(a, m);
    program *p = build(a, &d, m);
    run_passes(&(pass_context){.program = p, .target = t, .opt = 2}, GOAL_PROGRAM, NULL);
    loops_machine *machine = loops_machine_new(a, &d, p, t);
    assert_int_equal(loops_machine_count(machine, p, "matrix tiles"), tiles);
    tensor got = run_program(a, p, &x, &(interp_hooks){.kernel = loops_machine_kernel, .user = machine});
    check(m, with, &x, &got);
    if (target_runs_here(a, &d, t) && (!t->amx_bf16 || onnxc_rt_tiles())) {
        got = run_program(a, p, &x, &(interp_hooks){.kernel = jit_kernel, .user = jit_program(a, &d, p, t)});
        check(m, with, &x, &got);
    }
    arena_destroy(a);
}

// ---------------------------------------------------------------- tests
static const dtype types[] = {DT_U4, DT_I4, DT_U2, DT_I2, DT_U8, DT_I8};
enum { TYPES = sizeof types / sizeof *types, SMALL = 4 };

static const model forms[] = {
    {.block = 16, .rows = 37, .in = 96, .out = 33},
    {.block = 32, .rows = 40, .in = 128, .out = 48, .zeros = SAME_ZERO},
    {.block = 64, .rows = 31, .in = 64, .out = 17, .zeros = OWN_ZEROS},
    {.block = 32, .rows = 29, .in = 160, .out = 70, .zeros = OWN_ZEROS, .swapped = true},
    {.block = 128, .rows = 66, .in = 256, .out = 16, .swapped = true},
    {.block = 16, .rows = 50, .in = 48, .out = 20, .zeros = SAME_ZERO, .swapped = true},
    {.rows = 35, .in = 112, .out = 50, .zeros = OWN_ZEROS}};
enum { FORMS = sizeof forms / sizeof *forms };

static void many_rows_are_as_exact_as_f32(void **state) {
    (void)state;
    for (int level = 0; level < LEVELS; level++)
        for (int j = level % EVERY_CASE; j < FORMS * TYPES && level != OF_PAIRS; j += EVERY_CASE) {
            model m = forms[j / TYPES];
            m.type = types[j % TYPES];
            if ((j + level) % 2 && level != OF_AVX512) continue; // they take long
            test_at(&m, level, PRECISION_OWN, PRECISION_OWN, 0);
        }
}

// Blocks of K with partial sums.
static void long_sums_are_as_exact_as_f32(void **state) {
    (void)state;
    model m = {.type = DT_U4, .block = 32, .rows = 33, .in = 2112, .out = 70, .zeros = OWN_ZEROS};
    test_at(&m, OF_AVX512, PRECISION_OWN, PRECISION_OWN, 0);
    m.type = DT_I8, m.open = true;
    test_at(&m, 1, PRECISION_OWN, PRECISION_OWN, 0);
}

static void tiles_round_to_bf16(void **state) {
    (void)state;
    for (int j = 0; j < FORMS * TYPES; j += EVERY_CASE) {
        model m = forms[j / TYPES];
        m.type = types[j % TYPES];
        test_at(&m, OF_TILES, PRECISION_BF16, PRECISION_BF16, 1);
    }
}

static void pairs_round_to_bf16(void **state) {
    (void)state;
    for (int j = 0; j < FORMS * TYPES; j += EVERY_CASE) {
        model m = forms[j / TYPES];
        m.type = types[j % TYPES], m.open = j % 2;
        test_at(&m, OF_PAIRS, PRECISION_BF16, PRECISION_BF16, 0);
    }
    model m = {.type = DT_U4, .block = 32, .rows = 33, .in = 2112, .out = 70, .zeros = OWN_ZEROS};
    test_at(&m, OF_PAIRS, PRECISION_BF16, PRECISION_BF16, 0);
    m = (model){.type = DT_I8, .rows = 35, .in = 5630, .out = 40}; // blocks of K would be odd
    test_at(&m, OF_PAIRS, PRECISION_BF16, PRECISION_BF16, 0);
    m = (model){.type = DT_I8, .rows = 35, .in = 111, .out = 50}; // not in pairs
    test_at(&m, OF_PAIRS, PRECISION_BF16, PRECISION_OWN, 0);
}

// The same constants serve few rows, whose products are those of f32.
static void few_rows_keep_f32(void **state) {
    (void)state;
    static const int64_t rows[] = {1, 5, 6, 15, 16, 17, 31, 32, 33, 70};
    for (size_t j = 0; j < sizeof rows / sizeof *rows; j++) {
        model m = {.type = types[j % TYPES], .block = 32, .rows = rows[j], .in = 96, .out = 70, .open = true};
        m.zeros = (zeros)(j % 3);
        test_at(&m, OF_TILES, PRECISION_BF16, rows[j] < 6 ? PRECISION_OWN : PRECISION_BF16, 1);
        test_at(&m, OF_VNNI, PRECISION_OWN, PRECISION_OWN, 0);
        test_at(&m, OF_PAIRS, PRECISION_BF16, rows[j] < 29 ? PRECISION_OWN : PRECISION_BF16, 0);
    }
}

static void rows_are_rounded_to_bytes(void **state) {
    (void)state;
    static const int64_t rows[] = {1, 2, 3, 7, 37};
    static const int at[] = {3, OF_VNNI, OF_TILES, LEVELS - 1};
    for (int level = 0; level < 4; level++)
        for (int j = level % EVERY_CASE; j < FORMS * SMALL; j += EVERY_CASE) {
            model m = forms[j / SMALL];
            m.type = types[j % SMALL];
            m.rows = rows[(j + level) % 5], m.open = j % 2;
            test_at(&m, at[level], PRECISION_INT8, PRECISION_INT8,
                    at[level] == OF_TILES && (m.open || m.rows >= 12));
        }
}

// As the rows of experts are: the first row is known at run time only.
static void rows_of_groups_are_rounded_to_bytes(void **state) {
    (void)state;
    model m = {.block = 32, .rows = 38, .in = 160, .out = 70, .swapped = true, .grouped = true};
    for (int j = 0; j < SMALL; j++) {
        m.type = types[j], m.zeros = (zeros)(j % 3), m.rows -= 9;
        test_at(&m, 3, PRECISION_INT8, PRECISION_INT8, 0);
        test_at(&m, OF_VNNI, PRECISION_INT8, PRECISION_INT8, 0);
        test_at(&m, OF_VNNI, PRECISION_OWN, PRECISION_OWN, 0);
    }
}

// Without units for bytes nothing is rounded.
static void other_levels_ignore_int8(void **state) {
    (void)state;
    model m = forms[1];
    m.type = DT_U4;
    for (int level = 0; level < 3; level++) test_at(&m, level, PRECISION_INT8, PRECISION_OWN, 0);
}

static void special_rows(void **state) {
    (void)state;
    static const double values[] = {INFINITY, NAN, 1e30, 1e-30};
    for (int j = 0; j < 4; j++) {
        model m = {.type = DT_U4,
                   .block = 32,
                   .rows = 3,
                   .in = 64,
                   .out = 33,
                   .zeros = SAME_ZERO,
                   .in_x = values[j]};
        if (isfinite(values[j])) test_at(&m, OF_VNNI, PRECISION_INT8, PRECISION_INT8, 0);
        m.in_x = NAN;
        test_at(&m, OF_VNNI, PRECISION_INT8, PRECISION_INT8, 0);
        m.rows = 40, m.in_x = values[j];
        if (values[j] < 1e30) test_at(&m, OF_TILES, PRECISION_BF16, PRECISION_BF16, 1);
        if (values[j] < 1e30) test_at(&m, OF_PAIRS, PRECISION_BF16, PRECISION_BF16, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_rows_are_as_exact_as_f32),
        cmocka_unit_test(long_sums_are_as_exact_as_f32),
        cmocka_unit_test(tiles_round_to_bf16),
        cmocka_unit_test(pairs_round_to_bf16),
        cmocka_unit_test(few_rows_keep_f32),
        cmocka_unit_test(rows_are_rounded_to_bytes),
        cmocka_unit_test(rows_of_groups_are_rounded_to_bytes),
        cmocka_unit_test(other_levels_ignore_int8),
        cmocka_unit_test(special_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
