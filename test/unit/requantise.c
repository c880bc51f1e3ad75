// Quantisation in registers: that products instead of divisions, floats instead of bytes between two steps, and sums
// of two bytes by multiply-adds have the bits that the interpreter computes, on both sides of every step and for all
// pairs of bytes; that kernels that interleave planes put every element in its place.
#include "codegen/llvm/jit.h"
#include "codegen/target/targets.h"
#include "ir/kernel/program.h"
#include "test/build_graph.h"
#include "test/unit/random.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
// cmocka.h must follow the headers it needs.
#include <cmocka.h>

static const char *const cpus[] = {"x86-64", "x86-64-v3", "native"};
enum { CPUS = sizeof cpus / sizeof *cpus };

// What a program's kernels have, among instructions of all depths.
typedef struct counts {
    int selects, divisions, saturations, roundings;
} counts;

static void count(const lblock *b, counts *c) {
    for (const ins *x = b->first; x; x = x->next) {
        bool floats = lkind_is_float((lkind)x->type.kind);
        c->selects += x->op == L_SELECT && floats;
        c->divisions += x->op == L_FDIV;
        c->saturations += x->op == L_SATU8 || x->op == L_SATS8;
        c->roundings += x->op == L_RINTI || x->op == L_RINT;
        for (int j = 0; j < 2; j++)
            if (x->body[j]) count(x->body[j], c);
    }
}

static counts count_kernels(arena *a, diag *d, const program *p, const target *t) {
    lmodule *m = lmodule_new(a, "counted", t);
    counts c = {0};
    for (int j = 0; j < p->kernels.n; j++) count(schedule_kernel(m, p->kernels.at[j], t, d)->f->body, &c);
    return c;
}

static tensor run(arena *a, diag *d, const char *text, const tensor *in, const target *t) {
    program *p = program_parse(a, d, "test.kernels", text);
    interp_hooks hooks = {0};
    const char *message = NULL;
    tensor out[1];
    if (t) hooks = (interp_hooks){.kernel = jit_kernel, .user = jit_program(a, d, p, t)};
    if (interp_program_hooked(p, a, in, out, (interp_limits){0}, &message, &hooks) != INTERP_OK)
        fail_msg("%s", message);
    return out[0];
}

// On all CPUs; the counts are those for AVX-512.
static counts check(const char *text, const tensor *in) {
    arena *a = arena_new();
    diag d = {.arena = a, .sink = show_message};
    jmp_buf jump;
    if (!DIAG_TRY(&d, jump)) fail_msg("%s", text);
    tensor want = run(a, &d, text, in, NULL);
    for (int j = 0; j < CPUS; j++) {
        target *t = target_from_options(a, &d, &(target_options){.cpu = cpus[j], .fp = FP_DEFAULT});
        if (!target_runs_here(a, &d, t)) continue;
        tensor got = run(a, &d, text, in, t);
        const uint8_t *x = want.data, *y = got.data;
        int64_t n = dtype_size(want.dtype, want.count);
        for (int64_t i = 0; i < n; i++)
            if (x[i] != y[i]) fail_msg("%s byte %d: %d instead of %d\n%s", cpus[j], (int)i, y[i], x[i], text);
    }
    target *t = target_from_options(
        a, &d, &(target_options){.triple = "x86_64-linux-gnu", .cpu = "x86-64-v4", .fp = FP_DEFAULT});
    counts c = count_kernels(a, &d, program_parse(a, &d, "test.kernels", text), t);
    arena_destroy(a);
    return c;
}

static const char *text_of(char *room, size_t size, const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(room, size, format, list);
    va_end(list);
    return room;
}

// ---------------------------------------------------------------- one operand
enum { SUMS = 40001 };

static tensor sums_in_order(int32_t *data) {
    for (int j = 0; j < SUMS; j++) data[j] = j - SUMS / 2;
    return (tensor){.dtype = DT_I32, .rank = 1, .count = SUMS, .dims = {SUMS}, .data = data};
}

// Sums step through all bytes; their scale and the divisor have 24 bits.
static void quotients_have_the_same_steps(void **state) {
    (void)state;
    static int32_t sums[SUMS];
    tensor x = sums_in_order(sums);
    uint32_t seed = 5;
    char room[512];
    for (int j = 0; j < 24; j++) {
        bool is_signed = j % 4 == 3;
        int zero = is_signed ? j - 20 : j % 3 ? 17 * j % 255 : 0;
        double d = j == 6 ? 0.25 : between(&seed, 0.01, 0.1), s = d * 300 / SUMS * between(&seed, 0.5, 2);
        const char *text =
            text_of(room, sizeof room,
                    "program p\ninput x: int32[%d]\noutput y: %s[%d]\nkernel k\n  for i0 < %d\n"
                    "    y[i0] = %s((rint(((float(x[i0]) * %.9g) / %.9g)) + %d.0))\n",
                    SUMS, is_signed ? "int8" : "uint8", SUMS, SUMS, is_signed ? "int8" : "uint8", s, d, zero);
        counts c = check(text, &x);
        assert_true(c.saturations > 0);
        assert_int_equal(c.selects + c.divisions, 0);
    }
}

// Floats of any size, infinite ones and NaN.
static void any_float_is_quantised(void **state) {
    (void)state;
    enum { N = 4096 };
    static float v[N];
    static const float special[] = {0,     -0.0f,  INFINITY, -INFINITY,     NAN,
                                    3e38f, -3e38f, 1e-45f,   2.147483648e9f};
    uint32_t seed = 9;
    for (int j = 0; j < N; j++) v[j] = (float)between(&seed, -20, 20);
    memcpy(v + 100, special, sizeof special);
    tensor x = {.dtype = DT_F32, .rank = 1, .count = N, .dims = {N}, .data = v};
    char room[512];
    for (int j = 0; j < 8; j++) {
        for (int i = 0; i < 256; i++) v[200 + i] = (float)((i - 128 - 0.5) * (0.03 + 0.01 * j));
        const char *type = j % 2 ? "int8" : "uint8";
        const char *text =
            text_of(room, sizeof room,
                    "program p\ninput x: float[%d]\noutput y: %s[%d]\nkernel k\n  for i0 < %d\n"
                    "    y[i0] = %s((rint((x[i0] / %.9g)) + %d.0))\n",
                    N, type, N, N, type, 0.03 + 0.01 * j, 31 * j);
        check(text, &x);
    }
}

// Zero has no sign, as it went through an integer.
static void bytes_between_floats_stay_floats(void **state) {
    (void)state;
    static int32_t sums[SUMS];
    tensor x = sums_in_order(sums);
    uint32_t seed = 3;
    char room[512];
    for (int j = 0; j < 12; j++) {
        const char *type = j % 3 == 2 ? "int8" : "uint8";
        double d = between(&seed, 0.01, 0.1), s = d * 300 / SUMS * between(&seed, 0.5, 2);
        int zero = type[0] == 'i' ? j : 20 * j;
        const char *text = text_of(
            room, sizeof room,
            "program p\ninput x: int32[%d]\noutput y: float[%d]\nkernel k\n  for i0 < %d\n"
            "    y[i0] = (float((int32(%s((rint(((float(x[i0]) * %.9g) / %.9g)) + %d.0))) - %d)) * %.9g)\n",
            SUMS, SUMS, SUMS, type, s, d, zero, j % 2 ? zero : zero - 3, between(&seed, 0.01, 0.1));
        counts c = check(text, &x);
        assert_int_equal(c.saturations + c.roundings + c.selects + c.divisions, 0);
    }
}

// ---------------------------------------------------------------- sums of two bytes
enum { PAIRS = 1 << 16 };

static void sums_of_bytes_keep_every_bit(void **state) {
    (void)state;
    static uint8_t a[PAIRS], b[PAIRS];
    for (int j = 0; j < PAIRS; j++) a[j] = (uint8_t)j, b[j] = (uint8_t)(j >> 8);
    tensor in[] = {{.dtype = DT_U8, .rank = 1, .count = PAIRS, .dims = {PAIRS}, .data = a},
                   {.dtype = DT_U8, .rank = 1, .count = PAIRS, .dims = {PAIRS}, .data = b}};
    uint32_t seed = 11;
    char room[640];
    int short_ones = 0;
    for (int j = 0; j < 16; j++) {
        const char *type = j % 4 == 3 ? "int8" : "uint8";
        in[1].dtype = j % 4 == 2 ? DT_I8 : DT_U8;
        double s = between(&seed, 0.01, 0.1), t = between(&seed, 0.01, 0.1), d = between(&seed, 0.02, 0.2);
        const char *text = text_of(
            room, sizeof room,
            "program p\ninput a: uint8[%d]\ninput b: %s[%d]\noutput y: %s[%d]\nkernel k\n  for i0 < %d\n"
            "    y[i0] = %s((rint((((float((int32(a[i0]) - %d)) * %.9g) + (float((int32(b[i0]) - %d)) * "
            "%.9g)) / "
            "%.9g)) + %d.0))\n",
            PAIRS, j % 4 == 2 ? "int8" : "uint8", PAIRS, type, PAIRS, PAIRS, type, 19 * j % 255, s,
            j % 4 * 50, t, d, type[0] == 'i' ? 3 : 11 * j % 255);
        counts c = check(text, in);
        assert_int_equal(c.selects + c.divisions, 0);
        short_ones += c.saturations > 0;
    }
    assert_int_equal(short_ones, 16);
}

// ---------------------------------------------------------------- planes
static void planes_are_interleaved(void **state) {
    (void)state;
    static const char *const types[] = {"uint8", "float16", "bfloat16", "float"};
    static const int64_t widths[] = {1, 15, 16, 37, 64};
    static float v[8 * 3 * 64];
    uint32_t seed = 1;
    char room[512];
    for (size_t j = 0; j < sizeof v / sizeof *v; j++) v[j] = (float)(int)between(&seed, 0, 250);
    for (int t = 0; t < 4; t++)
        for (int planes = 2; planes <= 8; planes++)
            for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
                int n = (int)widths[w], real = planes - (int)w % 2; // the last plane is perhaps 0
                tensor x = {
                    .dtype = DT_F32, .rank = 3, .count = real * 3 * n, .dims = {real, 3, n}, .data = v};
                const char *text = text_of(
                    room, sizeof room,
                    "program p\ndim W in 0..\ninput x: float[%d, 3, W]\noutput y: %s[3, W, %d]\nkernel k\n"
                    "  for i0 < 3\n    for j1 < W\n      for c2 < %d\n"
                    "        y[i0, j1, c2] = %sx[c2, i0, j1] if (c2 < %d) else 0.0%s\n",
                    real, types[t], planes, planes, t ? "" : "uint8(", real, t ? "" : ")");
                check(text, &x);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quotients_have_the_same_steps),    cmocka_unit_test(any_float_is_quantised),
        cmocka_unit_test(bytes_between_floats_stay_floats), cmocka_unit_test(sums_of_bytes_keep_every_bit),
        cmocka_unit_test(planes_are_interleaved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
