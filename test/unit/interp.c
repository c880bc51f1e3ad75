// The interpreter's matrices against the same sums position by position: random products and windows with padding, by
// any order of axes, in blocks and remainders; the same bits in order, near them by a CBLAS.
#include "ir/kernel/interp.h"
#include "test/build_graph.h"
#include <cmocka.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

typedef struct sizes {
    int batch, rows, cols, depth, taps, stride, pad;
} sizes;

typedef struct trial {
    arena *a;
    uint64_t seed;
    dtype type; // of the operands
    bool wild;  // among them NaN, infinity and what overflows f32
    sizes n;
} trial;

static unsigned pick(trial *t, unsigned n) {
    t->seed = t->seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(t->seed >> 33) % n;
}

// Words in random order, as dims or as an index.
static void shuffle(trial *t, int n, int *order) {
    for (int j = 0; j < n; j++) order[j] = j;
    for (int j = n - 1; j > 0; j--) {
        int with = (int)pick(t, (unsigned)j + 1), was = order[j];
        order[j] = order[with], order[with] = was;
    }
}
static const char *in_order(trial *t, int n, const int *order, const char *const *words) {
    text s = {.arena = t->a};
    for (int j = 0; j < n; j++) text_printf(&s, "%s%s", j ? ", " : "", words[order[j]]);
    return text_str(&s);
}
static const char *number(trial *t, int v) { return arena_printf(t->a, "%d", v); }

// Windows of `taps` elements on a padded axis, times weights; one tap, stride 1 and no padding: a matrix product.
static const char *source(trial *t) {
    const sizes *n = &t->n;
    int width = (n->rows - 1) * n->stride + n->taps - 2 * n->pad, a[3], b[4], y[3];
    if (width < 1) width = 1;
    shuffle(t, 3, a), shuffle(t, 4, b), shuffle(t, 3, y);
    const char *type = dtype_name(t->type), *batch = number(t, n->batch), *cols = number(t, n->cols),
               *depth = number(t, n->depth), *taps = number(t, n->taps), *rows = number(t, n->rows),
               *at = arena_printf(t->a, "(((i1 * %d) + q4) - %d)", n->stride, n->pad);
    text s = {.arena = t->a};
    text_printf(&s, "program p\ninput a: %s[%s]\n", type,
                in_order(t, 3, a, (const char *[]){batch, number(t, width), depth}));
    text_printf(&s, "input b: %s[%s]\n", type, in_order(t, 4, b, (const char *[]){batch, cols, depth, taps}));
    text_printf(&s, "input c: %s[%s]\noutput y: %s[%s]\nkernel product\n", type, cols, type,
                in_order(t, 3, y, (const char *[]){batch, rows, cols}));
    text_printf(&s, "  for b0 < %s\n    for i1 < %s\n      for j2 < %s\n", batch, rows, cols);
    text_printf(
        &s,
        "        reduce r3 < %s\n          reduce q4 < %s\n            s0: %s += (a[%s] if ((0 <= %s) & "
        "(%s < %d)) "
        "else 0.0 * b[%s])\n",
        depth, taps, t->type == DT_F64 ? "double" : "float",
        in_order(t, 3, a, (const char *[]){"b0", at, "r3"}), at, at, width,
        in_order(t, 4, b, (const char *[]){"b0", "j2", "r3", "q4"}));
    text_printf(&s, "        y[%s] = max((s0 + c[j2]), 0.0)\n",
                in_order(t, 3, y, (const char *[]){"b0", "i1", "j2"}));
    return text_str(&s);
}

static double element(trial *t) {
    static const double wild[] = {NAN, INFINITY, -INFINITY, 3e38, -3e38};
    if (t->wild && pick(t, 50) == 0) return wild[pick(t, 5)];
    return ((double)pick(t, 1 << 20) - (1 << 19)) / (1 << 18);
}

static tensor input(trial *t, const buffer *b) {
    tensor x = {.dtype = b->dtype, .rank = b->rank, .count = 1};
    for (int j = 0; j < b->rank; j++) x.count *= x.dims[j] = dim_value(b->dims[j]);
    x.data = arena_alloc(t->a, (size_t)dtype_size(x.dtype, x.count));
    for (int64_t j = 0; j < x.count; j++) dtype_store_float(x.dtype, x.data, j, element(t), true);
    return x;
}

// Backwards, and counted.
static int calls;
static void dgemm(int order, int ta, int tb, int m, int n, int k, double alpha, const double *a, int lda,
                  const double *b, int ldb, double beta, double *c, int ldc) {
    calls++;
    assert_true(order == 101 && ta == 111 && tb == 111 && alpha == 1 && beta == 1);
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++)
            for (int d = k - 1; d >= 0; d--) c[i * ldc + j] += a[i * lda + d] * b[d * ldb + j];
}

static interp_dgemm *find_dgemm(void *user) {
    (void)user;
    return dgemm;
}

static tensor run(trial *t, const program *p, const tensor *in, bool cblas) {
    tensor out;
    assert_int_equal(interp_program_hooked(p, t->a, in, &out, (interp_limits){0}, NULL,
                                           &(interp_hooks){.dgemm = cblas ? find_dgemm : NULL}),
                     INTERP_OK);
    return out;
}

static void compare(const trial *t, const tensor *got, const tensor *want, double far) {
    for (int64_t j = 0; j < want->count; j++) {
        double x = dtype_load_float(got->dtype, got->data, j),
               y = dtype_load_float(want->dtype, want->data, j);
        if (x == y || (isnan(x) && isnan(y)) || fabs(x - y) <= far * (1 + fabs(y))) continue;
        fprintf(stderr, "seed %llu, element %lld: %a, not %a\n", (unsigned long long)t->seed, (long long)j, x,
                y);
        fail();
    }
}

static void check(uint64_t seed, dtype type, bool wild, sizes n) {
    trial t = {.a = arena_new(), .seed = seed, .type = type, .wild = wild, .n = n};
    diag d = {.arena = t.a, .sink = show_message};
    jmp_buf jump;
    if (!DIAG_TRY(&d, jump)) fail();
    program *p = program_parse(t.a, &d, "p.kernels", source(&t));
    tensor in[3];
    for (int j = 0; j < 3; j++) in[j] = input(&t, p->inputs.at[j]);
    calls = 0;
    tensor got = run(&t, p, in, false), near = run(&t, p, in, true);
    bool large = (double)n.rows * n.cols * n.depth * n.taps >= 1 << 20 && n.rows > 4 && n.cols > 4;
    assert_true(wild ? calls == 0 : large == (calls > 0));
    // What adds to memory goes position by position; the memory is zero.
    p->main->steps.at[0]->kernel->stages.at[0]->writes.at[0].combine = COMBINE_ADD;
    tensor want = run(&t, p, in, false);
    compare(&t, &got, &want, 0);
    compare(&t, &near, &want, type == DT_F64 ? 1e-12 : type == DT_F32 ? 1e-6 : 1e-3);
    arena_destroy(t.a);
}

static const dtype types[] = {DT_F32, DT_F64, DT_F16};

static void test_any_order(void **state) {
    (void)state;
    trial t = {.seed = 11};
    for (uint64_t j = 0; j < 90; j++) {
        sizes n = {1 + (int)pick(&t, 3), 1 + (int)pick(&t, 40), 1 + (int)pick(&t, 40), 1 + (int)pick(&t, 30),
                   1 + (int)pick(&t, 3), 1 + (int)pick(&t, 2),  (int)pick(&t, 3)};
        check(j, types[j % 3], j % 5 == 0, n);
    }
}

static void test_blocks(void **state) {
    (void)state;
    static const sizes n[] = {{1, 520, 17, 30, 1, 1, 0}, {1, 9, 1030, 40, 1, 1, 0},
                              {1, 7, 6, 2100, 1, 1, 0},  {1, 530, 1029, 5, 1, 1, 0},
                              {2, 6, 7, 700, 3, 1, 1},   {1, 1100, 5, 20, 2, 2, 1}};
    for (uint64_t j = 0; j < 6; j++) check(j, types[j % 2], false, n[j]);
}

static void test_cblas(void **state) {
    (void)state;
    static const sizes n[] = {{2, 128, 90, 100, 1, 1, 0},
                              {1, 530, 40, 50, 1, 1, 0},
                              {1, 8, 130, 1100, 1, 1, 0},
                              {1, 200, 64, 30, 3, 2, 1},
                              {1, 100, 100, 104, 1, 1, 0}};
    for (uint64_t j = 0; j < 5; j++) check(j, types[j % 3], false, n[j]);
    check(9, DT_F32, true, n[0]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_order),
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_cblas),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
