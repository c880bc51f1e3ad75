// Winograd convolutions against direct ones: which kernels it takes, and that all edges, channel counts and
// epilogues come out the same, compiled and interpreted.
#include "passes/rewrite/winograd.h"
#include "codegen/llvm/jit.h"
#include "codegen/target/targets.h"
#include "passes/rewrite/algorithm.h"
#include "test/build_graph.h"
#include "test/conv_model.h"
#include <cmocka.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const double MOST_DIFFERENCE = 2e-5; // as a part of the largest result

typedef struct way {
    choice winograd;
    bool compiled;
    fp_mode fp;
    void (*edit)(program *p); // after lowering
    const algorithm *only;
    int threads;
} way;

static bool is_winograd(const program *p) {
    bool found = false;
    for (int j = 0; j < p->kernels.n; j++) found |= p->kernels.at[j]->algorithm != NULL;
    return found;
}

// For code with variants for two CPUs, cpu and also (NULL: none).
static bool chosen_for(const conv_case *c, choice winograd, fp_mode fp, const char *cpu, const char *also) {
    arena *a = arena_new();
    diag d = {.arena = a, .sink = show_message};
    jmp_buf jump;
    volatile bool found = false;
    if (DIAG_TRY(&d, jump)) {
        program *p = conv_program(a, &d, c);
        target *t = target_from_options(a, &d, &(target_options){.cpu = cpu, .fp = fp});
        const target *other = also ? target_with_cpu(a, &d, t, also) : t;
        choose_algorithms(p, t,
                          &(algorithm_options){.winograd = winograd, .variants = &other, .nvariants = 1});
        found = is_winograd(p);
    } else {
        fail();
    }
    arena_destroy(a);
    return found;
}
static bool chosen(const conv_case *c, choice winograd, fp_mode fp) {
    return chosen_for(c, winograd, fp, "native", NULL);
}

// The case's output in arena out.
static tensor run(arena *out, const conv_case *c, const way *w) {
    static tensor y;
    diag d = {.arena = out, .sink = show_message};
    jmp_buf jump;
    if (!DIAG_TRY(&d, jump)) fail();
    program *p = conv_program(out, &d, c);
    if (w->edit) w->edit(p);
    target *t =
        target_from_options(out, &d, &(target_options){.cpu = "native", .fp = w->fp, .threads = w->threads});
    choose_algorithms(p, t, &(algorithm_options){.winograd = w->winograd, .only = w->only});
    if (w->compiled) run_passes(&(pass_context){.program = p, .target = t, .opt = 2}, GOAL_PROGRAM, "layout");
    tensor x = {.dtype = conv_type(c), .rank = 4, .dims = {c->batch, c->channels, c->height, c->width}};
    x.count = c->batch * c->channels * c->height * c->width;
    x.data = arena_alloc(out, (size_t)x.count * sizeof(float) + 1);
    uint32_t seed = 7;
    for (int64_t j = 0; j < x.count; j++)
        dtype_store_float(x.dtype, x.data, j, (double)conv_random(&seed), false);
    const char *message = NULL;
    interp_hooks hooks = {0};
    if (w->compiled) hooks = (interp_hooks){.kernel = jit_kernel, .user = jit_program(out, &d, p, t)};
    assert_int_equal(interp_program_hooked(p, out, &x, &y, (interp_limits){0}, &message, &hooks), INTERP_OK);
    return y;
}

static double difference(const tensor *a, const tensor *b) {
    double worst = 0, most = 0;
    assert_int_equal(a->count, b->count);
    for (int64_t j = 0; j < a->count; j++) {
        double x = dtype_load_float(a->dtype, a->data, j), y = dtype_load_float(b->dtype, b->data, j);
        if (!(fabs(x - y) <= worst)) worst = fabs(x - y);
        most = fmax(most, fabs(x));
    }
    return a->count ? worst / most : 0;
}

static double compare(const conv_case *c, const way *one, const way *other) {
    arena *a = arena_new();
    tensor x = run(a, c, one), y = run(a, c, other);
    double worst = difference(&x, &y);
    if (!(worst <= MOST_DIFFERENCE))
        fprintf(stderr, "%lldx%lldx%lldx%lld to %lld: difference %g\n", (long long)c->batch,
                (long long)c->channels, (long long)c->height, (long long)c->width, (long long)c->outputs,
                worst);
    arena_destroy(a);
    return worst;
}

static const way direct = {CHOICE_NEVER, true, FP_DEFAULT, NULL, NULL, 0};
static const way meaning = {CHOICE_NEVER, false, FP_DEFAULT, NULL, NULL, 0};
static const way winograd = {CHOICE_ALWAYS, true, FP_DEFAULT, NULL, NULL, 0};

// The most that any size of tiles differs from the given way, which has winograd's epilogue.
static double compare_all(const conv_case *c, const way *one, bool compiled) {
    static const algorithm *const sizes[] = {&winograd_algorithm, &small_winograd_algorithm};
    double worst = 0;
    for (int j = 0; j < 2; j++) {
        way other = {CHOICE_ALWAYS, compiled, FP_DEFAULT, one->edit, sizes[j], 0};
        worst = fmax(worst, compare(c, one, &other));
    }
    return worst;
}

// ---------------------------------------------------------------- what it takes
static void test_recognition(void **state) {
    (void)state;
    conv_case plain = {1, 64, 56, 56, 64, {1, 1, 1, 1}};
    assert_true(chosen(&plain, CHOICE_ALWAYS, FP_DEFAULT));
    assert_true(chosen(&plain, CHOICE_AUTO, FP_DEFAULT));
    assert_false(chosen(&plain, CHOICE_NEVER, FP_DEFAULT));
    assert_false(chosen(&plain, CHOICE_ALWAYS, FP_STRICT));
    conv_case strided = plain, dilated = plain, wide = plain, small = plain,
              weights = {1, 512, 7, 7, 512, {1, 1, 1, 1}};
    strided.stride = 2, dilated.dilation = 2, wide.taps = 5, small.channels = small.outputs = 2;
    assert_false(chosen(&strided, CHOICE_ALWAYS, FP_DEFAULT));
    assert_false(chosen(&dilated, CHOICE_ALWAYS, FP_DEFAULT));
    assert_false(chosen(&wide, CHOICE_ALWAYS, FP_DEFAULT));
    assert_false(chosen(&small, CHOICE_AUTO, FP_DEFAULT));
    assert_false(chosen(&weights, CHOICE_AUTO, FP_DEFAULT)); // 38 MB of transformed weights for 49 pixels
    assert_true(chosen_for(&weights, CHOICE_AUTO, FP_DEFAULT, "x86-64-v2", NULL)); // short vectors
    assert_false(chosen_for(&weights, CHOICE_AUTO, FP_DEFAULT, "x86-64-v2", "x86-64-v4"));
}

// Tiles multiply 16-bit weights faster; if some CPU of the code has them, Winograd is only taken where it is asked for.
static void test_halves(void **state) {
    (void)state;
    static const char tiles[] = "x86-64-v4+avx512bf16+amx-tile+amx-bf16";
    const dtype types[] = {DT_F16, DT_BF16};
    for (int j = 0; j < 2; j++) {
        conv_case c = {1, 64, 28, 28, 64, {1, 1, 1, 1}, .type = types[j]};
        assert_true(chosen_for(&c, CHOICE_AUTO, FP_DEFAULT, "x86-64-v2", "x86-64-v4"));
        assert_false(chosen_for(&c, CHOICE_AUTO, FP_DEFAULT, "x86-64-v2", tiles));
        assert_true(chosen_for(&c, CHOICE_ALWAYS, FP_DEFAULT, "x86-64-v2", tiles));
        arena *a = arena_new();
        tensor x = run(a, &c, &direct), y = run(a, &c, &winograd);
        assert_true(difference(&x, &y) <=
                    (types[j] == DT_F16 ? 0x1p-10 : 0x1p-7)); // rounds to the next number
        arena_destroy(a);
    }
    conv_case c = {1, 64, 28, 28, 64, {1, 1, 1, 1}};
    assert_true(chosen_for(&c, CHOICE_AUTO, FP_DEFAULT, "x86-64-v2", tiles));
}

// ---------------------------------------------------------------- threads
static int kernels_for(const conv_case *c, int threads) {
    arena *a = arena_new();
    diag d = {.arena = a, .sink = show_message};
    jmp_buf jump;
    volatile int kernels = 0;
    if (DIAG_TRY(&d, jump)) {
        program *p = conv_program(a, &d, c);
        target *t = target_from_options(
            a, &d, &(target_options){.cpu = "native", .fp = FP_DEFAULT, .threads = threads});
        choose_algorithms(p, t, &(algorithm_options){.winograd = CHOICE_ALWAYS});
        kernels = p->kernels.n;
    } else {
        fail();
    }
    arena_destroy(a);
    return kernels;
}

// One block leaves nothing to share: threads share the points and rows of each step.
static void test_threads(void **state) {
    (void)state;
    conv_case one = {1, 70, 28, 28, 128, {1, 1, 1, 1}}, images = {4, 70, 28, 28, 128, {1, 1, 1, 1}};
    assert_int_equal(kernels_for(&one, 1), kernels_for(&images, 0));
    assert_true(kernels_for(&one, 0) >= kernels_for(&one, 1) + 2);
    way alone = winograd;
    alone.threads = 1;
    assert_true(compare(&one, &direct, &alone) <= MOST_DIFFERENCE);
    assert_true(compare(&one, &alone, &winograd) == 0);
}

// ---------------------------------------------------------------- edges
static void test_sizes(void **state) {
    (void)state;
    static const int64_t channels[] = {1, 2, 3, 7, 16, 17, 33, 64, 70};
    int n = 0;
    for (int64_t h = 1; h <= 13; h++, n++) {
        conv_case c = {1, channels[n % 9], h, 14 - h, channels[(5 * n + 2) % 9], {1, 1, 1, 1}};
        assert_true(compare_all(&c, &meaning, true) <= MOST_DIFFERENCE);
        assert_true(compare_all(&c, &meaning, false) <= MOST_DIFFERENCE);
    }
}

static void test_pads(void **state) {
    (void)state;
    static const int64_t pads[][4] = {{0, 0, 0, 0}, {1, 0, 0, 1}, {0, 1, 1, 0},
                                      {2, 1, 0, 2}, {2, 2, 2, 2}, {5, 0, 1, 4}};
    for (size_t j = 0; j < sizeof pads / sizeof *pads; j++) {
        conv_case c = {2, 19, 9, 12, 21, {pads[j][0], pads[j][1], pads[j][2], pads[j][3]}};
        assert_true(compare_all(&c, &meaning, true) <= MOST_DIFFERENCE);
    }
}

static void test_symbolic(void **state) {
    (void)state;
    for (int64_t batch = 0; batch <= 3; batch++) {
        conv_case c = {batch, 18, 10, 7, 20, {1, 1, 1, 1}, .symbolic_batch = true};
        assert_true(compare_all(&c, &direct, true) <= MOST_DIFFERENCE);
        c.symbolic_size = true;
        assert_true(compare_all(&c, &meaning, true) <= MOST_DIFFERENCE);
    }
    for (int64_t h = 1; h <= 9; h++) {
        conv_case c = {1, 5, h, 10 - h, 6, {1, 1, 1, 1}, .symbolic_size = true};
        assert_true(compare_all(&c, &meaning, true) <= MOST_DIFFERENCE);
    }
}

// ---------------------------------------------------------------- epilogues
static kernel *conv_kernel(program *p) { return p->kernels.at[p->kernels.n - 1]; }

static void add_relu(program *p) {
    kernel *k = conv_kernel(p);
    write *w = &k->stages.at[0]->writes.at[0];
    w->value = x_bin(k, X_MAX, w->value, x_float(k, DT_F32, 0));
}
static void add_position(program *p) { // something of every output axis, longer than what is unrolled
    kernel *k = conv_kernel(p);
    write *w = &k->stages.at[0]->writes.at[0];
    expr *sum = w->value;
    for (int j = 0; j < w->to->rank; j++)
        sum = x_add(k, sum,
                    x_mul(k, x_cast(k, w->index[j], DT_F32, false), x_float(k, DT_F32, 0.01 * (j + 1))));
    w->value = x_un(k, X_TANH, sum);
}

static void test_epilogues(void **state) {
    (void)state;
    void (*const edits[])(program *) = {add_relu, add_position};
    for (int j = 0; j < 2; j++)
        for (int64_t size = 8; size <= 9; size++) { // whole tiles and not
            conv_case c = {2, 16, size, size, 32, {1, 1, 1, 1}};
            way one = direct;
            one.edit = edits[j];
            assert_true(compare_all(&c, &one, true) <= MOST_DIFFERENCE);
        }
}

static void test_error(void **state) {
    (void)state;
    conv_case c = {1, 64, 56, 56, 64, {1, 1, 1, 1}};
    double worst = compare(&c, &direct, &winograd);
    printf("winograd, 64 channels at 56 x 56: largest difference %.2g of the largest result\n", worst);
    assert_true(worst <= winograd_algorithm.error);
    way small = winograd;
    small.only = &small_winograd_algorithm;
    worst = compare(&c, &direct, &small);
    printf("with small tiles: %.2g\n", worst);
    assert_true(worst <= small_winograd_algorithm.error);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recognition), cmocka_unit_test(test_threads),  cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_pads),        cmocka_unit_test(test_symbolic), cmocka_unit_test(test_epilogues),
        cmocka_unit_test(test_error),       cmocka_unit_test(test_halves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
