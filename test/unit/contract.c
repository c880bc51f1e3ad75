// Products through layout, schedule and code against sums in C: sizes around tiles and blocks, rows that are
// known and not, operands of all kinds, on every CPU level that runs here.
#include "codegen/llvm/jit.h"
#include "codegen/target/targets.h"
#include "passes/schedule/common/choices.h"
#include "test/build_graph.h"
#include "test/conv_model.h"
#include "test/product_model.h"
#include "test/unit/loops_machine.h"
#include "test/unit/sample.h"
#include <math.h>
#include <stddef.h>
#include <stdio.h>

static int64_t place(int64_t batch, int64_t row, int64_t column, int64_t rows, int64_t columns, bool turned) {
    return turned ? (batch * columns + column) * rows + row : (batch * rows + row) * columns + column;
}

static double right(const product *p, const float *x, int64_t batch, int64_t i, int64_t j) {
    double sum = 0;
    for (int64_t k = 0; k < p->k; k++)
        sum += x[place(batch, i, k, p->m, p->k, p->turn_a)] *
               product_number(place(batch, k, j, p->k, p->n, p->turn_b), p->input_b ? 13 : 17);
    return p->gelu ? 0.5 * sum * (1 + erf(sum / sqrt(2))) : sum;
}

static double difference(const product *p, const float *x, const float *y) {
    double worst = 0;
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t i = 0; i < p->m; i++)
            for (int64_t j = 0; j < p->n; j++) {
                double want = right(p, x, b, i, j),
                       far = fabs(y[(b * p->m + i) * p->n + j] - want) / (1 + fabs(want));
                if (!(far <= worst)) worst = far;
            }
    return worst;
}

static interp_result run(const program *p, arena *a, jit *code, const tensor *in, tensor *out) {
    interp_hooks hooks = {.kernel = jit_kernel, .user = code};
    return interp_program_hooked(p, a, in, out, (interp_limits){0}, NULL, &hooks);
}

static void check_run(const program *code, jit *j, const char *cpu, const product *p) {
    arena *a = arena_new();
    tensor in[2] = {product_input(p, p->m, p->k, p->turn_a), product_input(p, p->k, p->n, p->turn_b)}, out;
    assert_int_equal(run(code, a, j, in, &out), INTERP_OK);
    assert_int_equal(out.count, p->batch * p->m * p->n);
    double far = difference(p, in[0].data, out.data);
    if (!(far < 1e-6))
        fprintf(stderr, "%s %lldx%lldx%lldx%lld: difference %g\n", cpu, (long long)p->batch, (long long)p->m,
                (long long)p->k, (long long)p->n, far);
    assert_true(far < 1e-6);
    free((void *)in[0].data), free((void *)in[1].data);
    arena_destroy(a);
}

// The product with its own rows, and with 1 to `most` in the same code when they are dynamic.
static void check_chosen(const char *cpu, product p, int64_t most, const choices *chosen) {
    arena *a = arena_new();
    diag d = {.arena = a, .sink = show_message};
    jmp_buf jump;
    if (!DIAG_TRY(&d, jump)) fail();
    target *t = target_from_options(a, &d, &(target_options){.cpu = cpu, .fp = FP_DEFAULT});
    t->choices = &(choice_table){.of = chosen};
    if (target_runs_here(a, &d, t)) {
        const program *code = product_program(a, &d, t, &p);
        jit *j = jit_program(a, &d, code, t);
        check_run(code, j, cpu, &p);
        for (p.m = 1; p.dynamic && p.m <= most; p.m++) check_run(code, j, cpu, &p);
    }
    arena_destroy(a);
}
static void check_on(const char *cpu, product p, int64_t most) { check_chosen(cpu, p, most, &(choices){0}); }
static const char *const cpus[] = {"x86-64-v2", "x86-64-v3", "native"};
static void check(product p) { // known and dynamic, on two levels
    static int first = 0;      // of a sample of them
    for (int j = first++ % EVERY_CPU; j < 4; j += EVERY_CPU) {
        p.dynamic = j >= 2;
        check_on(cpus[1 + j % 2], p, p.dynamic ? 4 : 0);
    }
}

// ---------------------------------------------------------------- products
static void test_rows(void **state) { // each number of rows around the tiles, dynamic and known
    (void)state;
    static const int64_t m[] = {1, 2, 6, 7, 9, 13, 29, 44};
    product p = {.batch = 1, .m = 51, .k = 19, .n = 40, .dynamic = true};
    for (int j = 0; j < 3; j++) check_on(cpus[j], p, 50);
    for (int j = 0; j < 8; j++) check((product){.batch = 1, .m = m[j], .k = 19, .n = 40});
}

static void test_columns(void **state) {
    (void)state;
    static const int64_t n[] = {1, 2, 7, 15, 16, 17, 33, 63, 64, 65, 100, 130};
    for (int j = 0; j < 12; j++) check((product){.batch = 1, .m = 9, .k = 21, .n = n[j]});
    for (int j = 1; j < 12; j += 3) check((product){.batch = 1, .m = 37, .k = 1900, .n = n[j]});
}

// K in several blocks, the rows in several, columns in several chunks, and remainders of each; K whole and
// rows in blocks of which the last is short.
static void test_blocks(void **state) {
    (void)state;
    static const int64_t sizes[][3] = {{29, 769, 64},   {64, 1100, 257}, {130, 1601, 40}, {300, 800, 19},
                                       {257, 1111, 70}, {515, 1025, 33}, {40, 4001, 17},  {203, 250, 130},
                                       {117, 128, 192}, {400, 511, 390}};
    for (int j = 0; j < 10; j++)
        check((product){.batch = 1, .m = sizes[j][0], .k = sizes[j][1], .n = sizes[j][2]});
    check((product){.batch = 1, .m = 70, .k = 1600, .n = 90, .gelu = true});
    check((product){.batch = 1, .m = 93, .k = 200, .n = 144, .gelu = true});
    check((product){.batch = 1, .m = 73, .k = 129, .n = 144, .dynamic = true});
}

static void test_operands(void **state) {
    (void)state;
    for (int j = 0; j < 8; j++) {
        bool turn_a = j & 1, turn_b = j & 2, input_b = j & 4;
        check((product){
            .batch = 1, .m = 45, .k = 37, .n = 50, .turn_a = turn_a, .turn_b = turn_b, .input_b = input_b});
        check((product){
            .batch = 3, .m = 33, .k = 1300, .n = 35, .turn_a = turn_a, .turn_b = turn_b, .input_b = input_b});
        check((product){
            .batch = 5, .m = 7, .k = 9, .n = 11, .turn_a = turn_a, .turn_b = turn_b, .input_b = input_b});
    }
}

// ---------------------------------------------------------------- choices
// Whatever a file of --tune-db says, possible or not, the answers are right.
static const choices all_choices[] = {
    {.vectors = 1},
    {.vectors = 2, .rows = 1},
    {.vectors = 3, .rows = 5, .steps = 2},
    {.vectors = 4, .rows = 14, .steps = 1},
    {.blocks = NO, .ahead = YES},
    {.blocks = YES, .depth = 1},
    {.blocks = YES, .depth = 7, .vectors = 1, .rows = 3},
    {.blocks = YES, .depth = 128, .ahead = YES, .steps = 2},
    {.blocks = YES, .depth = 8192},
    {.depth = 16, .tasks = TASKS_ROWS, .rows = 2},
    {.ahead = NO, .tasks = TASKS_COLUMNS, .axis = 3, .algorithm = 3},
};
enum { CHOICES_COUNT = sizeof all_choices / sizeof *all_choices };

static void test_choices(void **state) {
    static const product cases[] = {{.batch = 1, .m = 45, .k = 300, .n = 83},
                                    {.batch = 2, .m = 29, .k = 16, .n = 16, .turn_b = true},
                                    {.batch = 1, .m = 43, .k = 420, .n = 48, .turn_a = true},
                                    {.batch = 1, .m = 64, .k = 33, .n = 5, .gelu = true},
                                    {.batch = 2, .m = 31, .k = 270, .n = 40, .input_b = true}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t j = i % 2; j < CHOICES_COUNT; j += 2) {
            product p = cases[i];
            p.dynamic = (i + j / 2) % 3 == 0;
            check_chosen(cpus[1 + j / 2 % 2], p, 0, &all_choices[j]);
        }
}

// Rows of the last panel are as wide as it has columns, whatever the width of a tile: whole panels or a part of one.
static void test_last_panels(void **state) {
    (void)state;
    static const int64_t n[] = {3, 8, 13, 17, 20, 24, 29, 36, 41, 56, 63, 104, 120};
    static const choices widths[] = {{0}, {.vectors = 1}, {.vectors = 2, .blocks = YES, .depth = 16}};
    for (int j = 0; j < 13 * 3 * 3; j += EVERY_CASE) {
        product p = {.batch = 1, .m = 31, .k = 265, .n = n[j / 9], .dynamic = j % 2};
        check_chosen(cpus[j / 3 % 3], p, 3, &widths[j % 3]);
    }
}

// ---------------------------------------------------------------- convolutions
static tensor conv_input(arena *a, const conv_case *c) {
    tensor x = {.dtype = DT_F32, .rank = 4, .dims = {c->batch, c->channels, c->height, c->width}};
    x.count = c->batch * c->channels * c->height * c->width;
    float *data = arena_alloc(a, (size_t)x.count * sizeof *data);
    uint32_t seed = 7;
    for (int64_t j = 0; j < x.count; j++) data[j] = conv_random(&seed);
    x.data = data;
    return x;
}

typedef struct conv_build {
    const char *cpu; // NULL: the kernels are interpreted
    fp_mode fp;
    const choices *chosen;
} conv_build;

static tensor convolution(arena *a, const conv_case *c, const conv_build *as) {
    diag d = {.arena = a, .sink = show_message};
    jmp_buf jump;
    tensor y = {0};
    if (!DIAG_TRY(&d, jump)) fail();
    program *p = conv_program(a, &d, c);
    tensor x = conv_input(a, c);
    if (!as->cpu) {
        assert_int_equal(interp_program(p, a, &x, &y, (interp_limits){0}, NULL), INTERP_OK);
        return y;
    }
    target *t = target_from_options(a, &d, &(target_options){.cpu = as->cpu, .fp = as->fp});
    if (!target_runs_here(a, &d, t)) return y;
    choice_table table = {.of = as->chosen};
    t->choices = as->chosen ? &table : NULL;
    pass_context on = {.program = p, .target = t, .opt = 2, .algorithms = {CHOICE_NEVER}};
    run_passes(&on, GOAL_PROGRAM, NULL);
    assert_int_equal(loops_machine_count(loops_machine_new(a, &d, p, t), p, "tiled contraction"), 1);
    assert_int_equal(run(p, a, jit_program(a, &d, p, t), &x, &y), INTERP_OK);
    return y;
}

static void check_convolution(const conv_case *c, int number) {
    arena *a = arena_new();
    tensor want = convolution(a, c, &(conv_build){0});
    for (int i = 0; i < 4; i++) {
        const char *cpu = cpus[1 + i % 2];
        const choices *chosen = i < 2 ? NULL : &all_choices[(3 * number + i) % CHOICES_COUNT];
        tensor y = convolution(a, c, &(conv_build){cpu, FP_DEFAULT, chosen});
        double worst = 0;
        for (int64_t j = 0; j < y.count; j++) {
            double far = fabs((double)((const float *)y.data)[j] - ((const float *)want.data)[j]);
            if (!(far <= worst)) worst = far;
        }
        if (!(worst < 1e-4))
            fprintf(stderr, "%s %lldx%lldx%lldx%lld: difference %g\n", cpu, (long long)c->batch,
                    (long long)c->channels, (long long)c->height, (long long)c->width, worst);
        assert_true(worst < 1e-4);
    }
    arena_destroy(a);
}

// Small maps of many channels and the other way round, where K's blocks end inside of the window and not.
static const conv_case convolutions[] = {
    {1, 130, 7, 7, 70, {1, 1, 1, 1}},
    {2, 130, 5, 9, 33, {1, 1, 1, 1}, .symbolic_batch = true},
    {1, 300, 6, 6, 20, {0, 0, 0, 0}},
    {1, 33, 30, 14, 40, {1, 1, 1, 1}, .symbolic_size = true},
    {3, 600, 5, 6, 17, {0, 0, 0, 0}, .taps = 1},
    {1, 20, 19, 23, 18, {3, 3, 3, 3}, .taps = 7, .stride = 2},
    {2, 3, 40, 21, 24, {2, 2, 2, 2}, .taps = 5},
    {1, 300, 9, 5, 40, {1, 1, 1, 1}, .symbolic_size = true, .stride = 2},
    {2, 200, 3, 190, 24, {2, 2, 2, 2}, .symbolic_batch = true, .symbolic_size = true, .dilation = 2},
    {1, 70, 40, 1, 70, {2, 2, 2, 2}, .symbolic_size = true, .taps = 5},
};
enum { CONVOLUTIONS = sizeof convolutions / sizeof *convolutions };

static void test_convolutions(void **state) {
    (void)state;
    for (int j = 0; j < CONVOLUTIONS; j++) check_convolution(&convolutions[j], j);
}

// One product after the other, in the order of the definition.
static float sum_of_products(const conv_case *c, const float *x, const float *w, int64_t row,
                             int64_t column) {
    int64_t taps = c->taps ? c->taps : 3, dilation = c->dilation ? c->dilation : 1;
    float sum = 0;
    for (int64_t channel = 0; channel < c->channels; channel++)
        for (int64_t i = 0; i < taps; i++)
            for (int64_t j = 0; j < taps; j++) {
                int64_t h = row + i * dilation, v = column + j * dilation;
                bool inside = h >= 0 && h < c->height && v >= 0 && v < c->width;
                float factor = inside ? x[(channel * c->height + h) * c->width + v] : 0;
                sum += factor * w[(channel * taps + i) * taps + j];
            }
    return sum;
}

static void check_bits(const conv_case *c, const tensor *y) {
    arena *a = arena_new();
    int64_t taps = c->taps ? c->taps : 3, stride = c->stride ? c->stride : 1,
            image = c->channels * c->height * c->width, window = c->channels * taps * taps;
    tensor x = conv_input(a, c);
    const constant *w = conv_constant(a, DT_F32, 2, (int64_t[]){c->outputs, window}, 1),
                   *bias = conv_constant(a, DT_F32, 1, &c->outputs, 2);
    const float *got = y->data;
    for (int64_t n = 0; n < c->batch; n++)
        for (int64_t o = 0; o < c->outputs; o++)
            for (int64_t i = 0; i < y->dims[2]; i++)
                for (int64_t j = 0; j < y->dims[3]; j++) {
                    const float *at = (const float *)x.data + n * image,
                                *of = (const float *)w->data + o * window;
                    float sum = sum_of_products(c, at, of, i * stride - c->pads[0], j * stride - c->pads[1]);
                    assert_true(*got++ == sum + ((const float *)bias->data)[o]);
                }
    arena_destroy(a);
}

// Tiles, whatever their sizes, add products in the order of the definition.
static void test_strict_sums(void **state) {
    (void)state;
    for (int j = 0; j < CONVOLUTIONS; j++)
        for (int i = 0; i < 3; i++) {
            arena *a = arena_new();
            const choices *chosen = i ? &all_choices[(2 * j + i) % CHOICES_COUNT] : NULL;
            tensor y = convolution(a, &convolutions[j], &(conv_build){cpus[(i + j) % 3], FP_STRICT, chosen});
            if (y.count) check_bits(&convolutions[j], &y);
            arena_destroy(a);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),         cmocka_unit_test(test_columns),
        cmocka_unit_test(test_blocks),       cmocka_unit_test(test_operands),
        cmocka_unit_test(test_choices),      cmocka_unit_test(test_last_panels),
        cmocka_unit_test(test_convolutions), cmocka_unit_test(test_strict_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
