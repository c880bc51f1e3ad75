// Requantisation in integers: that it gives the bytes of the f32 form for every sum that can occur, for scales that are
// ordinary, powers of two (ties), tiny and large, and that sums near a step are few; the same of sums of two bytes, and of
// one product and one sum in f32, where without --fp strict bytes may begin one sum sooner or later.
#include "codegen/target/targets.h"
#include "compiler/driver/pipeline.h"
#include "ir/kernel/interp.h"
#include "ir/kernel/program.h"
#include "passes/passes.h"
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

// Weights of 127 and a last one of 1: bytes x[i] for every sum.
enum { CHANNELS = 5, MOST = 16, WEIGHT = 127 };

typedef struct model {
    int length;      // of the sums
    bool is_signed;  // the result
    int zero;        // its zero point
    bool clips, one; // a Clip before rounding; one scale for all channels
    bool alike;      // neither zero points of operands nor biases
    double divisor, scale[CHANNELS], bias[CHANNELS];
    int sum[CHANNELS];
} model;

static int least_sum(const model *m) { return -128 * WEIGHT * (m->length - 1) - 128; }
static int count_of(const model *m) { return 255 * WEIGHT * (m->length - 1) + 256; }

// A row for each sum: as many 127s as fit, and the rest in the last element.
static tensor rows(arena *a, const model *m) {
    int n = count_of(m), k = m->length;
    int8_t *x = arena_alloc(a, (size_t)n * (size_t)k);
    for (int j = 0; j < n; j++) {
        int s = least_sum(m) + j, whole = (int)floor((double)s / WEIGHT), rest;
        if (whole < -128 * (k - 1)) whole = -128 * (k - 1);
        if (whole > 127 * (k - 1)) whole = 127 * (k - 1);
        rest = s - whole * WEIGHT;
        for (int r = 0; r < k - 1; r++) {
            int left = k - 1 - r, v = whole / left;
            x[j * k + r] = (int8_t)v;
            whole -= v;
        }
        x[j * k + k - 1] = (int8_t)rest;
    }
    return (tensor){.dtype = DT_I8, .rank = 2, .count = (int64_t)n * k, .dims = {n, k}, .data = x};
}

static const char *list(arena *a, const char *format, const double *v, int n) {
    char *s = "";
    for (int j = 0; j < n; j++) {
        s = arena_printf(a, "%s%s", s, j ? ", " : "");
        s = arena_printf(a, format[1] == 'd' ? "%s%.0f" : "%s%.9g", s, v[j]);
    }
    return s;
}

static const char *text_of(arena *a, const model *m) {
    const char *type = m->is_signed ? "int8" : "uint8",
               *scale = m->one ? list(a, "%g", m->scale, 1) : "scale[j1]";
    double sums[CHANNELS], weights[MOST * CHANNELS];
    int n = count_of(m), k = m->length;
    for (int j = 0; j < CHANNELS; j++) sums[j] = m->sum[j];
    for (int j = 0; j < k * CHANNELS; j++) weights[j] = j / CHANNELS == k - 1 ? 1 : WEIGHT;
    const char *value = arena_printf(a, "((float((s0 - sum[j1])) * %s) + bias[j1])", scale);
    if (m->alike) value = arena_printf(a, "(float(s0) * %s)", scale);
    if (m->clips) value = arena_printf(a, "min(max(%s, 0.0), %.9g)", value, 100 * m->divisor);
    return arena_printf(a,
                        "program p\ninput x: int8[%d, %d]\noutput y: %s[%d, %d]\nconst w: int8[%d, %d] {%s}\n"
                        "const sum: int32[%d] {%s}\nconst scale: float[%d] {%s}\nconst bias: float[%d] {%s}\n"
                        "kernel k\n  for i0 < %d\n    for j1 < %d\n      reduce r2 < %d\n"
                        "        s0: int32 += (int32(x[i0, r2]) * int32(w[r2, j1]))\n"
                        "      y[i0, j1] = %s((rint((%s / %.9g)) + %d.0))\n",
                        n, k, type, n, CHANNELS, k, CHANNELS, list(a, "%d", weights, k * CHANNELS), CHANNELS,
                        list(a, "%d", sums, CHANNELS), CHANNELS, list(a, "%g", m->scale, CHANNELS), CHANNELS,
                        list(a, "%g", m->bias, CHANNELS), n, CHANNELS, k, type, value, m->divisor, m->zero);
}

static tensor run(program *p, arena *a, const tensor *x) {
    const char *message = NULL;
    tensor out[1];
    if (interp_program(p, a, x, out, (interp_limits){0}, &message) != INTERP_OK) fail_msg("%s", message);
    return out[0];
}

typedef struct found {
    bool rewritten; // to integers
    bool branches;  // with floats near steps
    int64_t band, step;
} found;

static found examine(const program *p) {
    found f = {0};
    const kernel *k = p->kernels.at[0];
    const expr *x = k->stages.at[0]->writes.at[0].value;
    while (x->op == X_MIN || x->op == X_MAX) x = x->arg[0]; // limits of a Clip
    f.branches = x->op == X_SELECT;
    if (f.branches) {
        const expr *near = x->arg[0];
        f.band = near->arg[1]->i, f.step = near->arg[0]->arg[1]->i + 1;
        x = x->arg[2];
    }
    f.rewritten = x->op == X_CAST && x->arg[0]->dtype == DT_I32;
    return f;
}

typedef struct results {
    program *p; // rewritten
    tensor want, got;
} results;

static results run_both(arena *a, const model *m, const char *text, const char *triple, const char *cpu,
                        fp_mode fp) {
    diag d = {.arena = a, .sink = show_message};
    jmp_buf jump;
    if (!DIAG_TRY(&d, jump)) fail_msg("%s", text);
    tensor x = rows(a, m);
    target *t = target_from_options(a, &d, &(target_options){.triple = triple, .cpu = cpu, .fp = fp});
    program *plain = program_parse(a, &d, "test.kernels", text);
    results r = {.p = program_parse(a, &d, "test.kernels", text)};
    pass_fixed_point(&(pass_context){.program = r.p, .target = t, .opt = 2});
    r.want = run(plain, a, &x), r.got = run(r.p, a, &x);
    return r;
}

static found check(const model *m) {
    arena *a = arena_new();
    const char *text = text_of(a, m);
    results r = run_both(a, m, text, "thumbv7m-none-eabi", "cortex-m3", FP_DEFAULT);
    found f = examine(r.p);
    tensor want = r.want;
    const uint8_t *v = want.data, *w = r.got.data;
    for (int64_t i = 0; i < want.count; i++)
        if (v[i] != w[i])
            fail_msg("sum %d, channel %d: %d instead of %d\n%s", least_sum(m) + (int)(i / CHANNELS),
                     (int)(i % CHANNELS), w[i], v[i], text);
    arena_destroy(a);
    return f;
}

// Scales of a layer that uses most of its range.
static model ordinary(uint32_t *seed, int length, int j) {
    model m = {.length = length, .is_signed = j % 2, .one = j % 5 == 4, .divisor = between(seed, 0.01, 0.2)};
    m.zero = m.is_signed ? j * 37 % 256 - 128 : j * 29 % 256;
    for (int c = 0; c < CHANNELS; c++) {
        m.scale[c] = m.divisor * 255 / count_of(&m) * between(seed, 0.5, 6);
        m.bias[c] = m.divisor * between(seed, -100, 100);
        m.sum[c] = (int)between(seed, -3000, 3000);
    }
    return m;
}

static void every_sum_gives_the_same_byte(void **state) {
    (void)state;
    uint32_t seed = 3;
    for (int j = 0; j < 10; j++) {
        model m = ordinary(&seed, j < 9 ? 2 + j / 2 : MOST, j);
        m.clips = j % 3 == 1;
        found f = check(&m);
        assert_true(f.rewritten);
        if (f.branches) assert_true(2 * f.band * 32 <= f.step);
    }
}

// s * 2^-7 - 0.5 rounds to even: no line has such steps.
static void ties_stay_floats_near_steps(void **state) {
    (void)state;
    for (int bits = 5; bits < 9; bits++) {
        model m = {.length = 3, .is_signed = bits % 2, .zero = 3, .divisor = 0.5};
        for (int c = 0; c < CHANNELS; c++) m.scale[c] = ldexp(0.5, -bits), m.bias[c] = 0.25 * c;
        found f = check(&m);
        assert_true(f.rewritten && f.branches);
    }
}

// Averages: a table tells which of their ties become the lower byte.
static void ties_of_one_channel_are_integers(void **state) {
    (void)state;
    static const double scales[] = {0.25, 0x1p-7, 0.05 / 9, 0.5 / 6, 1.5, 0.0123 / 49, 2.5, 3};
    static const double divisors[] = {1, 0.5, 0.04, 0.1, 1, 0.0082, 1, 2};
    for (int j = 0; j < 16; j++) {
        model m = {.length = 2, .is_signed = j % 3, .zero = 5 * j, .one = true, .alike = true};
        m.scale[0] = scales[j / 2], m.divisor = divisors[j / 2], m.clips = j % 2;
        found f = check(&m);
        if (!f.rewritten || f.branches) fail_msg("scale %g, divisor %g", m.scale[0], m.divisor);
    }
}

// Of a channel without weights, of one that saturates at once, and of values that exceed the range of the sums.
static void unusual_scales_give_the_same_bytes(void **state) {
    (void)state;
    uint32_t seed = 11;
    static const double factor[] = {1e-9, 1e-4, 40, 3000, 1e7};
    for (int j = 0; j < 10; j++) {
        model m = ordinary(&seed, 3, j);
        for (int c = 0; c < CHANNELS; c++) m.scale[c] *= j < 5 ? factor[j] : factor[(c + j) % 5];
        m.clips = j % 2;
        check(&m);
    }
}

// A factor below zero falls: nothing is rewritten.
static void falling_functions_stay(void **state) {
    (void)state;
    uint32_t seed = 17;
    model m = ordinary(&seed, 4, 0);
    m.scale[2] = -m.scale[2];
    assert_false(check(&m).rewritten);
}

// ---------------------------------------------------------------- lines in f32
static bool is_line(const program *p) {
    const expr *x = p->kernels.at[0]->stages.at[0]->writes.at[0].value;
    while (x->op == X_MIN || x->op == X_MAX) x = x->arg[0];
    return x->op == X_CAST && x->arg[0]->op == X_RINT && x->arg[0]->arg[0]->op == X_ADD;
}

// Whether the bytes became those of a line. Sums whose bytes differ, all by one, are counted.
static bool check_line(const model *m, fp_mode fp, int *differ) {
    arena *a = arena_new();
    const char *text = text_of(a, m);
    results r = run_both(a, m, text, "thumbv7em-none-eabihf", "cortex-m4", fp);
    for (int64_t i = 0; i < r.want.count; i++) {
        int v = ((uint8_t *)r.want.data)[i], w = ((uint8_t *)r.got.data)[i];
        *differ += v != w;
        if (abs((int8_t)(v - w)) > 1)
            fail_msg("sum %d: %d instead of %d\n%s", least_sum(m) + (int)(i / CHANNELS), w, v, text);
    }
    bool line = is_line(r.p);
    arena_destroy(a);
    return line;
}

static void lines_give_nearly_the_same_bytes(void **state) {
    (void)state;
    enum { MODELS = 6 };
    uint32_t seed = 3;
    int lines = 0, exact = 0;
    for (int j = 0; j < MODELS; j++) {
        int differ = 0;
        model m = ordinary(&seed, 2 + j / 2, j);
        m.clips = j % 3 == 1;
        exact += check_line(&m, FP_STRICT, &differ);
        assert_int_equal(differ, 0);
        lines += check_line(&m, FP_DEFAULT, &differ);
        assert_true(differ <= CHANNELS * 255 / 64);
    }
    assert_int_equal(lines, MODELS);
    assert_true(exact >= MODELS / 2);
}

// Ties round to even, and a zero factor has no steps at all: functions that are not a line stay.
static void other_functions_are_no_lines(void **state) {
    (void)state;
    uint32_t seed = 17;
    int differ = 0;
    model m = {.length = 3, .is_signed = true, .zero = 3, .divisor = 0.5}, falling = ordinary(&seed, 4, 0);
    for (int c = 0; c < CHANNELS; c++) m.scale[c] = 0.25, m.bias[c] = 0.25 * c;
    assert_false(check_line(&m, FP_DEFAULT, &differ));
    falling.scale[2] = -falling.scale[2];
    assert_false(check_line(&falling, FP_DEFAULT, &differ));
    assert_int_equal(differ, 0);
}

// ---------------------------------------------------------------- sums of two bytes
static bool is_float(const expr *x) { return dtype_is_float(x->dtype); }

typedef struct pair {
    const char *type_a, *type_b, *type, *sign, *clip;
    int zero_a, zero_b, zero;
    double scale_a, scale_b, divisor;
} pair;

static tensor all_bytes(arena *a, bool is_signed) {
    uint8_t *x = arena_alloc(a, 256);
    for (int j = 0; j < 256; j++) x[j] = (uint8_t)j;
    return (tensor){.dtype = is_signed ? DT_I8 : DT_U8, .rank = 1, .count = 256, .dims = {256}, .data = x};
}

static tensor run_pair(program *p, arena *a, const pair *m) {
    tensor in[2] = {all_bytes(a, m->type_a[0] == 'i'), all_bytes(a, m->type_b[0] == 'i')};
    return run(p, a, in);
}

// Compares all pairs of bytes; returns whether the sum became integers.
static bool check_pair(const pair *m, const char *cpu) {
    arena *a = arena_new();
    diag d = {.arena = a, .sink = show_message};
    jmp_buf jump;
    if (!DIAG_TRY(&d, jump)) fail();
    const char *sum = arena_printf(
                   a, "((float((int32(a[i0]) - %d)) * %.9g) %s (float((int32(b[j1]) - %d)) * %.9g))",
                   m->zero_a, m->scale_a, m->sign, m->zero_b, m->scale_b),
               *clipped = m->clip ? arena_printf(a, "max(%s, %s)", sum, m->clip) : sum,
               *text = arena_printf(a,
                                    "program p\ninput a: %s[256]\ninput b: %s[256]\noutput y: %s[256, 256]\n"
                                    "kernel k\n  for i0 < 256\n    for j1 < 256\n"
                                    "      y[i0, j1] = %s((rint((%s / %.9g)) + %d.0))\n",
                                    m->type_a, m->type_b, m->type, m->type, clipped, m->divisor, m->zero);
    const char *triple = strcmp(cpu, "cortex-m3") ? "thumbv7em-none-eabihf" : "thumbv7m-none-eabi";
    target *t = target_from_options(a, &d, &(target_options){.triple = triple, .cpu = cpu, .fp = FP_DEFAULT});
    program *plain = program_parse(a, &d, "test.kernels", text),
            *p = program_parse(a, &d, "test.kernels", text);
    pass_fixed_point(&(pass_context){.program = p, .target = t, .opt = 2});
    tensor want = run_pair(plain, a, m), got = run_pair(p, a, m);
    const uint8_t *v = want.data, *w = got.data;
    for (int i = 0; i < 1 << 16; i++)
        if (v[i] != w[i]) fail_msg("%d and %d: %d instead of %d\n%s", i / 256, i % 256, w[i], v[i], text);
    bool rewritten = !expr_any(p->kernels.at[0]->stages.at[0]->writes.at[0].value, is_float);
    arena_destroy(a);
    return rewritten;
}

static void sums_of_bytes_become_integers(void **state) {
    (void)state;
    enum { PAIRS = 24 };
    uint32_t seed = 5;
    int found = 0;
    for (int j = 0; j < PAIRS; j++) {
        pair m = {j % 2 ? "int8" : "uint8", j % 3 ? "int8" : "uint8", j % 4 ? "int8" : "uint8"};
        m.sign = j % 5 ? "+" : "-", m.clip = j % 7 == 3 ? "0.0" : NULL;
        m.zero_a = (int)between(&seed, -20, 20), m.zero_b = (int)between(&seed, -128, 127);
        m.zero = m.type[0] == 'i' ? (int)between(&seed, -128, 127) : (int)between(&seed, 0, 255);
        m.scale_a = between(&seed, 0.01, 0.1), m.scale_b = between(&seed, 0.01, 0.1);
        m.divisor = between(&seed, 0.02, 0.2);
        found += check_pair(&m, j % 2 ? "cortex-m3" : "cortex-m4");
    }
    assert_true(found >= PAIRS - PAIRS / 8);
}

// Halves round to even, which no plane does: they stay floats.
static void ties_of_sums_stay_floats(void **state) {
    (void)state;
    pair m = {"int8", "int8", "int8", "+", NULL, .scale_a = 0.25, .scale_b = 0.25, .divisor = 0.5};
    assert_false(check_pair(&m, "cortex-m4"));
    m.divisor = 0.25;
    assert_true(check_pair(&m, "cortex-m4"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_give_nearly_the_same_bytes),
        cmocka_unit_test(other_functions_are_no_lines),
        cmocka_unit_test(sums_of_bytes_become_integers),
        cmocka_unit_test(ties_of_sums_stay_floats),
        cmocka_unit_test(every_sum_gives_the_same_byte),
        cmocka_unit_test(ties_stay_floats_near_steps),
        cmocka_unit_test(ties_of_one_channel_are_integers),
        cmocka_unit_test(unusual_scales_give_the_same_bytes),
        cmocka_unit_test(falling_functions_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
