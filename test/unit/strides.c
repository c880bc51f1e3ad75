// Reads at a stride along rows, windows of rows and reductions of columns come out as interpreted: all strides, widths around the lanes of vectors, and
// element types, on CPUs with and without masks.
#include "codegen/llvm/jit.h"
#include "codegen/target/targets.h"
#include "compiler/driver/pass_run.h"
#include "ir/kernel/interp.h"
#include "test/build_graph.h"
#include "test/unit/sample.h"
#include <cmocka.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

// Memory that ends where reading is a fault.
static unsigned char *memory_before_fault(size_t bytes) {
    enum { PAGE = 4096 };
    size_t pages = (bytes + PAGE - 1) / PAGE * PAGE;
    unsigned char *at = mmap(NULL, pages + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(at != MAP_FAILED && mprotect(at + pages, PAGE, PROT_NONE) == 0);
    return at + pages - bytes;
}

// Small numbers: sums of them are exact in any order.
static tensor random_tensor(const buffer *b) {
    tensor x = {.dtype = b->dtype, .rank = b->rank, .count = 1};
    for (int j = 0; j < b->rank; j++) x.count *= x.dims[j] = dim_value(b->dims[j]);
    unsigned char *bytes = memory_before_fault((size_t)(x.count * dtype_bits(b->dtype) / 8));
    uint32_t seed = 7;
    for (int64_t j = 0; j < x.count; j++) {
        seed = seed * 1664525 + 1013904223;
        float f = (float)(seed >> 26) - 32;
        if (b->dtype == DT_F32) memcpy(bytes + 4 * j, &f, 4);
        else if (b->dtype == DT_F16) bytes[2 * j] = 0, bytes[2 * j + 1] = (unsigned char)(seed >> 25 & 0x3f);
        else if (b->dtype == DT_I64) memcpy(bytes + 8 * j, &(int64_t){seed >> 20}, 8);
        else bytes[j] = (unsigned char)(seed >> 24);
    }
    x.data = bytes;
    return x;
}

// The program's output: on the CPU named, or interpreted where cpu is NULL.
static tensor run(arena *a, const char *text, const char *cpu) {
    static tensor y;
    diag d = {.arena = a, .sink = show_message};
    jmp_buf jump;
    if (!DIAG_TRY(&d, jump)) fail_msg("%s:\n%s", cpu ? cpu : "interpreted", text);
    program *p = program_parse(a, &d, "strides.kernels", text);
    interp_hooks hooks = {0};
    if (cpu) {
        target *t = target_from_options(a, &d, &(target_options){.cpu = cpu, .threads = 1});
        run_passes(&(pass_context){.program = p, .target = t, .opt = 2}, GOAL_PROGRAM, "layout");
        hooks = (interp_hooks){.kernel = jit_kernel, .user = jit_program(a, &d, p, t)};
    }
    tensor x = random_tensor(p->inputs.at[0]);
    const char *message = NULL;
    assert_int_equal(interp_program_hooked(p, a, &x, &y, (interp_limits){0}, &message, &hooks), INTERP_OK);
    return y;
}

static void check(const char *text) {
    static const char *const cpus[] = {"x86-64-v2", "x86-64-v3", "native"};
    arena *a = arena_new();
    tensor wanted = run(a, text, NULL);
    size_t bytes = (size_t)(wanted.count * dtype_bits(wanted.dtype) / 8);
    static int first = 0; // of a sample of them
    for (int j = first++ % EVERY_CPU; j < 3; j += EVERY_CPU) {
        tensor y = run(a, text, cpus[j]);
        assert_int_equal(y.count, wanted.count);
        if (memcmp(y.data, wanted.data, bytes) != 0) fail_msg("%s:\n%s", cpus[j], text);
    }
    arena_destroy(a);
}

static void test_strides(void **state) {
    (void)state;
    static const char *const types[] = {"float", "uint8", "float16", "int64"};
    char text[512];
    for (int t = 0; t < 4; t++)
        for (int stride = -4; stride <= 4; stride++)
            for (int width = 3; width < 80; width = 3 * width + 2) {
                int distance = stride < 0 ? -stride : stride, span = distance * (width - 1) + 1;
                snprintf(
                    text, sizeof text,
                    "program strides\ninput x: %s[3, %d]\noutput y: %s[3, %d]\nkernel read\n  for i0 < 3\n"
                    "    for j1 < %d\n      y[i0, j1] = x[i0, ((j1 * %d) + %d)]\n",
                    types[t], span, types[t], width, width, stride, stride < 0 ? span - 1 : 0);
                check(text);
            }
}

// Windows of the columns of `size` elements, whose first column is `pad` columns before the image, with fewer, as many and more columns than
// the image has after it.
static void check_windows(const char *type, int size, int step, int apart, int pad, int width) {
    static const char *const reduce[] = {"max=", "+="};
    char text[1024];
    for (int op = 0; op < 2; op++)
        for (int more = -1; more <= 1; more++) {
            int n = (width + 2 * pad + more - (size - 1) * apart - 1) / step + 1;
            if (n < 2) continue;
            snprintf(
                text, sizeof text,
                "program windows\ninput x: %s[3, 6, %d]\noutput y: %s[3, 6, %d]\nkernel pool\n  for i0 < 3\n"
                "    for k1 < 6\n      for l2 < %d\n        reduce k3 < 3\n          reduce k4 < %d\n"
                "            s0: %s %s x[i0, ((k1 + k3) + -1), (((l2 * %d) + (k4 * %d)) + %d)] if ((((0 <= "
                "((k1 "
                "+ k3) + "
                "-1)) & (((k1 + k3) + -1) < 6)) & (0 <= (((l2 * %d) + (k4 * %d)) + %d))) & ((((l2 * %d) + "
                "(k4 * "
                "%d)) + %d) < %d)) else %s\n        y[i0, k1, l2] = s0\n",
                type, width, type, n, n, size, type, reduce[op], step, apart, -pad, step, apart, -pad, step,
                apart, -pad, width, type[0] == 'f' ? "2.0" : "2");
            check(text);
        }
}

static void test_windows(void **state) {
    (void)state;
    static const char *const types[] = {"float", "uint8", "int64"};
    for (int width = 3; width < 80; width = 3 * width + 2)
        for (int t = 0; t < 3; t++) {
            check_windows(types[t], 3, 1, 1, 1, width);
            check_windows(types[t], 3, 2, 1, 1, width);
            check_windows(types[t], 5, 3, 1, 2, width);
            check_windows(types[t], 2, 1, 3, 0, width);
            check_windows(types[t], 2, 1, 2, 5, width);
            check_windows(types[t], 2, 5, 1, 1, width);
        }
}

// Reductions down columns, several vectors of them at once.
static void test_columns(void **state) {
    (void)state;
    static const int widths[] = {3, 16, 37, 64, 150}, heights[] = {31, 32, 300};
    static const char *const types[] = {"float", "int64"}, *const reduce[] = {"max=", "+="};
    char text[512];
    for (int c = 0; c < 5 * 3 * 2 * 2; c++) {
        const char *type = types[c % 2];
        int width = widths[c / 4 % 5], height = heights[c / 20];
        snprintf(
            text, sizeof text,
            "program columns\ninput x: %s[2, %d, %d]\noutput y: %s[2, %d]\nkernel reduce\n  for i0 < 2\n"
            "    for j1 < %d\n      reduce r2 < %d\n        s0: %s %s x[i0, r2, j1]\n      y[i0, j1] = s0\n",
            type, height, width, type, width, width, height, type, reduce[c / 2 % 2]);
        check(text);
    }
}

// Reads of which some lanes are out of bounds, by comparisons of the lanes' positions with limits near and far.
static void test_guards(void **state) {
    (void)state;
    static const char *const guards[] = {"((0 <= (j1 + -3)) & ((j1 + -3) < %d))",
                                         "(((j1 + -3) < %d) & (3 <= j1))",
                                         "((((i0 * 5) + -2) < j1) & ((2 < j1) & (j1 <= (%d + 2))))",
                                         "((j1 == ((i0 * 9) + 3)) & (j1 < %d))",
                                         "((((i0 * 9) + 7) != j1) & ((2 < j1) & (j1 < %d)))",
                                         "((j1 <= 9223372036854775807) & ((2 < j1) & (j1 < %d)))"};
    static const char *const types[] = {"float", "uint8", "float16", "int64"};
    char text[1024], guard[256];
    for (int c = 0; c < 6 * 4; c++)
        for (int width = 5; width < 300; width = 2 * width + 3) {
            snprintf(guard, sizeof guard, guards[c / 4], width);
            snprintf(text, sizeof text,
                     "program guards\ninput x: %s[3, %d]\noutput y: %s[3, %d]\nkernel read\n  for i0 < 3\n"
                     "    for j1 < %d\n      y[i0, j1] = x[i0, (j1 + -3)] if %s else 7%s\n",
                     types[c % 4], width, types[c % 4], width + 9, width + 9, guard,
                     types[c % 4][0] == 'f' ? ".0" : "");
            check(text);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_strides), cmocka_unit_test(test_windows),
                                       cmocka_unit_test(test_columns), cmocka_unit_test(test_guards)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
