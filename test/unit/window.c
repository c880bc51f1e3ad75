// Depthwise convolutions: laid out channels-last they run in tiles of positions with unrolled taps; all
// tiles, rests, strides and edges come out as interpreted.
#include "codegen/llvm/jit.h"
#include "codegen/target/targets.h"
#include "test/build_graph.h"
#include "test/conv_model.h"
#include <cmocka.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

// The case's output in arena a: on the CPU named, or interpreted before layouts where cpu is NULL.
static tensor run(arena *a, const conv_case *c, const char *cpu) {
    static tensor y;
    diag d = {.arena = a, .sink = show_message};
    jmp_buf jump;
    if (!DIAG_TRY(&d, jump)) fail();
    program *p = conv_program(a, &d, c);
    interp_hooks hooks = {0};
    if (cpu) {
        target *t = target_from_options(a, &d, &(target_options){.cpu = cpu, .fp = FP_STRICT, .threads = 3});
        run_passes(&(pass_context){.program = p, .target = t, .opt = 2}, GOAL_PROGRAM, "layout");
        hooks = (interp_hooks){.kernel = jit_kernel, .user = jit_program(a, &d, p, t)};
    }
    tensor x = {.dtype = DT_F32, .rank = 4, .dims = {c->batch, c->channels, c->height, c->width}};
    x.count = c->batch * c->channels * c->height * c->width;
    float *data = arena_alloc(a, (size_t)x.count * sizeof *data + 1);
    uint32_t seed = 7;
    for (int64_t j = 0; j < x.count; j++) data[j] = conv_random(&seed);
    x.data = data;
    const char *message = NULL;
    assert_int_equal(interp_program_hooked(p, a, &x, &y, (interp_limits){0}, &message, &hooks), INTERP_OK);
    return y;
}

static void check(const conv_case *c) {
    arena *a = arena_new();
    tensor wanted = run(a, c, NULL);
    tensor narrow = run(a, c, "x86-64-v2"), wide = run(a, c, "native");
    assert_int_equal(narrow.count, wanted.count);
    assert_int_equal(wide.count, wanted.count);
    assert_memory_equal(narrow.data, wide.data,
                        (size_t)wide.count * sizeof(float)); // as --fp strict promises
    for (int64_t j = 0; j < wanted.count; j++)
        assert_float_equal(((float *)wide.data)[j], ((float *)wanted.data)[j], 1e-5);
    arena_destroy(a);
}

// Widths around the tile of 8; channels around vectors of 4, 8 and 16; one and two outputs for each channel.
static void test_depthwise(void **state) {
    (void)state;
    static const int64_t widths[] = {1, 7, 9, 19}, channels[] = {1, 16, 21};
    for (int w = 0; w < 4; w++)
        for (int ch = 0; ch < 3; ch++)
            for (int64_t stride = 1; stride <= 2; stride++) {
                int64_t n = channels[ch], pad = w % 2;
                conv_case c = {2, n, 5, widths[w] + 2, n, {pad, 1, 1, pad}, .stride = stride, .groups = n};
                check(&c);
                c.outputs = 2 * n;
                check(&c);
            }
}

static void test_shapes(void **state) {
    (void)state;
    check(&(conv_case){1, 12, 14, 14, 12, {3, 3, 3, 3}, .taps = 7, .groups = 12});
    check(&(conv_case){1, 12, 20, 20, 12, {5, 5, 5, 5}, .taps = 11, .groups = 12});
    check(&(conv_case){1, 12, 14, 14, 12, {2, 2, 2, 2}, .dilation = 2, .groups = 12});
    check(&(conv_case){
        2, 8, 9, 13, 8, {1, 1, 1, 1}, .symbolic_batch = true, .symbolic_size = true, .groups = 8});
    check(&(conv_case){1, 8, 2, 3, 8, {1, 1, 1, 1}, .symbolic_size = true, .stride = 2, .groups = 8});
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_depthwise), cmocka_unit_test(test_shapes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
