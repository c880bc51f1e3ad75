// Emitted C99: hand-built functions and random expressions, compiled by gcc and clang with every warning an
// error, with and without optimisation and under the undefined-behaviour sanitizer, against values computed
// here.
#include "codegen/c/ctext.h"
#include "codegen/c/prelude.h"
#include "ir/loops/loops_interp.h"
#include "ir/target.h"
#include "test/unit/text_fixture.h"
#include <math.h>

static const target c99 = {.arch = {.is_text = true},
                           .ptr_bits = 64,
                           .f32 = true,
                           .f64 = true,
                           .little_endian = true,
                           .fp = FP_DEFAULT};
static const target c99_strict = {.arch = {.is_text = true},
                                  .ptr_bits = 64,
                                  .f32 = true,
                                  .f64 = true,
                                  .little_endian = true,
                                  .fp = FP_STRICT};

static int set_up(void **state) { return set_up_for(state, &c99); }

static const char *text_of(fixture *x, const char *header) {
    text t = {.arena = x->a};
    sink s = sink_text(&t);
    jmp_buf buf;
    if (!DIAG_TRY(&x->d, buf)) fail_msg("the emitter failed");
    verify_all(x);
    ctext_write(x->m, header, &s, &x->d);
    return text_str(&t);
}

static const char *const warnings = "-std=c99 -pedantic -Wall -Wextra -Werror";

// check(library) for every compiler and level; extra flags may be added.
static void with_compilers(fixture *x, const char *extra, void (*check)(void *dl)) {
    const char *const compilers[] = {"gcc", have_program(x->a, "clang") ? "clang" : "clang-19"};
    static const char *const flags[] = {"-O0", "-O2",
                                        "-O1 -fsanitize=undefined -fsanitize-undefined-trap-on-error"};
    const char *s = text_of(x, NULL), *path = workdir_write(x->dir, "test.c", s, strlen(s));
    int used = 0;
    for (int c = 0; c < 2; c++) {
        if (!have_program(x->a, compilers[c])) continue;
        for (int k = 0; k < 3; k++, used++) {
            void *dl = compile_and_load(
                x->dir, arena_printf(x->a, "%s %s %s %s", compilers[c], warnings, flags[k], extra), path);
            check(dl);
            dlclose(dl);
        }
    }
    if (!used) skip();
}

// ---------------------------------------------------------------- building

static ltype i1(void) { return lt(LK_I1, 1); }
static ltype i8(void) { return lt(LK_I8, 1); }

static ins *serial(fixture *x, const char *name, ins *end) { return loop(x, name, end, LOOP_SERIAL); }

// ---------------------------------------------------------------- kernels

static void build_dot(fixture *x) {
    begin_kernel(x, "dot", f32());
    x->b.f->comment = "dot product\\\nsum over i of x[i] * y[i]\\";
    ins *p = ptr_in(x, "x", DT_F32), *q = ptr_in(x, "y", DT_F32), *n = num(x, "n");
    ins *acc = lb_var(&x->b, "acc", lb_float(&x->b, f32(), 0));
    ins *i = serial(x, "i", n);
    lb_set(
        &x->b, acc,
        lb_muladd(&x->b, lb_load(&x->b, f32(), p, i, 0), lb_load(&x->b, f32(), q, i, 0), lb_get(&x->b, acc)));
    lb_end(&x->b, i);
    lb_return(&x->b, lb_get(&x->b, acc));
}

static void build_matmul(fixture *x) {
    begin_kernel(x, "matmul", nothing());
    lbuild *b = &x->b;
    ins *A = ptr_in(x, "A", DT_F32), *B = ptr_in(x, "B", DT_F32), *C = ptr_out(x, "C", DT_F32);
    ins *i = serial(x, "i", idx(x, 7)), *j = serial(x, "j", idx(x, 5));
    ins *acc = lb_var(b, "acc", lb_float(b, f32(), 0));
    ins *k = serial(x, "k", idx(x, 3));
    ins *u = lb_load(b, f32(), A, add(x, mul(x, i, idx(x, 3)), k), 0);
    ins *v = lb_load(b, f32(), lb_offset(b, B, k, 5 * 4), j, 0);
    lb_set(b, acc, lb_muladd(b, u, v, lb_get(b, acc)));
    lb_end(b, k);
    lb_store(b, lb_offset(b, C, i, 5 * 4), j, lb_get(b, acc), 0);
    lb_end(b, j);
    lb_end(b, i);
    lb_return(b, NULL);
}

// y[i] = x[i] * 2 + 1 in steps of four, the rest through LOADN and STOREN.
static void build_tail(fixture *x) {
    begin_kernel(x, "tail", nothing());
    lbuild *b = &x->b;
    ins *p = ptr_in(x, "x", DT_F32), *y = ptr_out(x, "y", DT_F32), *n = num(x, "n");
    ins *whole = lb_bin(b, L_SUB, n, lb_bin(b, L_SREM, n, idx(x, 4)));
    ins *i = lb_for(b, "i", idx(x, 0), whole, idx(x, 4), LOOP_SERIAL);
    for (int u = 0; u < 4; u++) {
        ins *at = add(x, i, idx(x, u));
        ins *v = lb_load(b, f32(), p, at, 0);
        lb_store(b, y, at, lb_muladd(b, v, lb_float(b, f32(), 2), lb_float(b, f32(), 1)), 0);
    }
    lb_end(b, i);
    ins *j = lb_for(b, "j", whole, add(x, n, idx(x, 2)), idx(x, 1), LOOP_SERIAL);
    ins *left = lb_bin(b, L_SUB, n, j), *v = lb_loadn(b, f32(), p, j, left);
    lb_storen(b, y, j, lb_muladd(b, v, lb_float(b, f32(), 2), lb_float(b, f32(), 1)), left);
    lb_end(b, j);
}

// Row of a quantised product: acc = sum (x - 3) * w, y = clamp(acc >> 4) as uint8.
static void build_int8(fixture *x) {
    begin_kernel(x, "int8_row", i32());
    lbuild *b = &x->b;
    ins *p = ptr_in(x, "x", DT_U8), *w = ptr_in(x, "w", DT_I8), *y = ptr_out(x, "y", DT_U8), *n = num(x, "n");
    ins *acc = lb_var(b, "acc", lb_int(b, i32(), 0));
    ins *i = serial(x, "i", n);
    ins *u = lb_conv(b, L_ZEXT, LK_I32, lb_load(b, i8(), p, i, 0));
    ins *v = lb_conv(b, L_SEXT, LK_I32, lb_load(b, i8(), w, i, 0));
    lb_set(b, acc, add(x, lb_get(b, acc), mul(x, lb_bin(b, L_SUB, u, lb_int(b, i32(), 3)), v)));
    lb_end(b, i);
    ins *r = lb_bin(b, L_ASHR, lb_get(b, acc), lb_int(b, i32(), 4));
    r = lb_bin(b, L_SMAX, lb_bin(b, L_SMIN, r, lb_int(b, i32(), 255)), lb_int(b, i32(), 0));
    lb_store(b, y, idx(x, 0), lb_conv(b, L_ITRUNC, LK_I8, r), 0);
    ins *words = lb_load(b, i32(), p, idx(x, 0), 1), *others = lb_load(b, i32(), w, idx(x, 0), 1);
    ins *d = lb_dot(b, L_DOT4_US, lb_int(b, i32(), 5), words, others);
    d = lb_dot(b, L_DOT4_UU, lb_dot(b, L_DOT4_SS, d, words, others), words, others);
    d = lb_dot(b, L_DOT2_S8, lb_dot(b, L_DOT2_U8, d, words, others), words, others);
    lb_return(b, lb_dot(b, L_DOT2, d, words, others));
}

// Values change places: loads before stores, reads of variables before assignments.
static void build_order(fixture *x) {
    lfunc *f = begin_kernel(x, "order", f32());
    f->noalias = false;
    lbuild *b = &x->b;
    ins *p = ptr_out(x, "p", DT_F32), *q = ptr_out(x, "q", DT_F32);
    ins *a = lb_load(b, f32(), p, idx(x, 0), 0), *c = lb_load(b, f32(), q, idx(x, 1), 0);
    ins *late = add(x, lb_load(b, f32(), p, idx(x, 2), 0), lb_load(b, f32(), q, idx(x, 0), 0));
    lb_store(b, p, idx(x, 0), c, 0);
    lb_store(b, q, idx(x, 1), a, 0);
    ins *u = lb_var(b, "u", lb_float(b, f32(), 1)), *v = lb_var(b, "u", lb_float(b, f32(), 2));
    ins *i = serial(x, "i", idx(x, 3));
    ins *old = lb_get(b, u), *old2 = lb_get(b, v);
    lb_set(b, u, old2);
    lb_set(b, v, add(x, old, old2));
    lb_end(b, i);
    ins *before = lb_get(b, v);
    lb_set(b, v, lb_float(b, f32(), 100));
    ins *r = add(x, lb_bin(b, L_MUL, lb_get(b, u), before), lb_get(b, v));
    lb_return(b, add(x, r, late));
}

// Rows of a table up to the first negative value of each: adds up positions of what is > 10, mixes up the
// total at others; a 7 leaves at once.
static void build_control(fixture *x) {
    begin_kernel(x, "control", i64());
    lbuild *b = &x->b;
    ins *p = ptr_in(x, "p", DT_I64), *rows = num(x, "rows"), *cols = num(x, "cols");
    ins *total = lb_var(b, "total", idx(x, 0)), *r = lb_var(b, "r", idx(x, 0));
    ins *loop = lb_loop(b);
    lb_break(b, lb_cmp(b, L_SLE, rows, lb_get(b, r)));
    ins *row = lb_offset(b, p, mul(x, lb_get(b, r), cols), 8), *j = lb_var(b, "j", idx(x, 0)),
        *inner = lb_loop(b);
    ins *v = lb_load(b, i64(), row, lb_get(b, j), 0);
    lb_break(b, lb_cmp(b, L_SLE, cols, lb_get(b, j)));
    lb_break(b, lb_cmp(b, L_SLT, v, idx(x, 0)));
    ins *big = lb_if(b, lb_cmp(b, L_SLT, idx(x, 10), v));
    lb_set(b, total, add(x, lb_get(b, total), lb_get(b, j)));
    lb_else(b, big);
    lb_set(b, total, lb_bin(b, L_XOR, lb_get(b, total), idx(x, 0x5555)));
    ins *third = lb_if(b, lb_cmp(b, L_EQ, v, idx(x, 7)));
    lb_return(b, idx(x, -7));
    lb_end(b, third);
    lb_end(b, big);
    lb_set(b, j, add(x, lb_get(b, j), idx(x, 1)));
    lb_end(b, inner);
    ins *low = lb_if(b, lb_cmp(b, L_SLT, lb_get(b, total), idx(x, 100)));
    lb_else(b, low);
    lb_set(b, total, add(x, lb_get(b, total), idx(x, 1)));
    lb_end(b, low);
    lb_set(b, r, add(x, lb_get(b, r), idx(x, 1)));
    lb_end(b, loop);
    lb_return(b, lb_get(b, total));
}

// Untyped scratch, other types through it, and comparisons that cannot be otherwise.
static void build_bytes(fixture *x) {
    begin_kernel(x, "bytes", i64());
    lbuild *b = &x->b;
    ins *s = lfunc_param(b->f, "scratch", lt_ptr(), LK_VOID, DT_NONE, false), *p = ptr_in(x, "int", DT_F32);
    ins *u = ptr_in(x, "for", DT_U8), *n = num(x, "x.y");
    ins *tmp = lb_offset(b, s, idx(x, 16), 1);
    ins *i = serial(x, "i", n);
    lb_store(b, tmp, i, lb_load(b, i32(), p, i, 0), 0);
    lb_end(b, i);
    ins *t = lb_load(b, f32(), tmp, idx(x, 1), 0); // read as another type than written
    lb_store(b, s, idx(x, 0), t, 0);
    ins *bits = lb_conv(b, L_SEXT, LK_I64, lb_load(b, i32(), s, idx(x, 0), 0));
    ins *byte = lb_conv(b, L_ZEXT, LK_I32, lb_load(b, i8(), u, idx(x, 0), 0));
    ins *never = lb_cmp(b, L_SLT, byte, lb_int(b, i32(), 0)),
        *always = lb_cmp(b, L_SLE, byte, lb_int(b, i32(), 255));
    ins *odd = lb_cmp(b, L_ULT, lb_load(b, i8(), u, idx(x, 1), 0), lb_int(b, i8(), -56)); // 200
    ins *flags = lb_bin(b, L_OR, lb_bin(b, L_AND, always, odd), never);
    lb_return(b, add(x, bits, lb_conv(b, L_ZEXT, LK_I64, flags)));
}

static void build_kernels(fixture *x) {
    build_dot(x);
    build_matmul(x);
    build_tail(x);
    build_int8(x);
    build_order(x);
    build_control(x);
    build_bytes(x);
}

static void check_floats(void *dl) {
    float x[40], y[40] = {0}, c[35], sum = 0;
    for (int i = 0; i < 40; i++) x[i] = (float)(i * 7 % 11);
    for (int i = 0; i < 13; i++) sum += x[i] * x[i + 3];
    assert_true(((float (*)(float *, float *, int64_t))find_function(dl, "dot"))(x, x + 3, 13) == sum);
    ((void (*)(float *, float *, float *))find_function(dl, "matmul"))(x, x + 21, c);
    for (int i = 0; i < 35; i++) {
        float want = 0;
        for (int k = 0; k < 3; k++) want += x[i / 5 * 3 + k] * x[21 + k * 5 + i % 5];
        assert_true(c[i] == want);
    }
    for (int n = 0; n < 12; n++) {
        for (int i = 0; i < 40; i++) y[i] = -1;
        ((void (*)(float *, float *, int64_t))find_function(dl, "tail"))(x, y, n);
        for (int i = 0; i < 20; i++) assert_true(y[i] == (i < n ? x[i] * 2 + 1 : -1));
    }
    float p[3] = {1, 2, 3}, q[2] = {10, 20};
    // u, v go 1 2 -> 2 3 -> 3 5 -> 5 8; 5 * 8 + 100 + (3 + 10)
    assert_true(((float (*)(float *, float *))find_function(dl, "order"))(p, q) == 153);
    assert_true(p[0] == 20 && q[1] == 1);
}

static void check_ints(void *dl) {
    uint8_t x[9] = {200, 255, 3, 0, 7, 1, 2, 250, 9}, y = 0;
    int8_t w[9] = {-128, 127, 5, -1, 100, -100, 3, 127, -7};
    int32_t acc = 0, us = 5, ss = 0, uu = 0, d2 = 0, d8 = 0;
    for (int i = 0; i < 9; i++) acc += (x[i] - 3) * w[i];
    for (int i = 0; i < 4; i++) us += x[i] * w[i], ss += (int8_t)x[i] * w[i], uu += x[i] * (uint8_t)w[i];
    for (int i = 0; i < 4; i += 2)
        d2 += (int16_t)(x[i] | x[i + 1] << 8) * (int16_t)((uint8_t)w[i] | (uint8_t)w[i + 1] << 8),
            d8 += (int16_t)(x[i] | x[i + 1] << 8) * (w[i] + (uint8_t)w[i]);
    int32_t got = ((int32_t (*)(void *, void *, void *, int64_t))find_function(dl, "int8_row"))(x, w, &y, 9);
    assert_int_equal(got, us + ss + uu + d2 + d8);
    assert_int_equal(y, acc >> 4 < 0 ? 0 : acc >> 4 > 255 ? 255 : acc >> 4);
    int64_t t[7] = {11, 2, 30, -1, 5, 5, 0}, end[5] = {1, 7, 3, 4, 0};
    int64_t (*control)(int64_t *, int64_t, int64_t) = find_function(dl, "control");
    assert_int_equal(control(t, 1, 3), (0 ^ 0x5555) + 2 + 1);
    assert_int_equal(control(t, 2, 3), (0 ^ 0x5555) + 2 + 1 + 1);
    assert_int_equal(control(end, 2, 2), -7);
    char scratch[64] __attribute__((aligned(8)));
    float p[3] = {1, -2.5f, 3};
    uint8_t u[2] = {9, 199};
    int64_t (*bytes)(void *, void *, void *, int64_t) = find_function(dl, "bytes");
    assert_int_equal(bytes(scratch, p, u, 3), (int32_t)0xc0200000 + 1);
    u[1] = 200;
    assert_int_equal(bytes(scratch, p, u, 3), (int32_t)0xc0200000);
}

static void check_kernels(void *dl) {
    check_floats(dl);
    check_ints(dl);
}

static void kernels_compute(void **state) {
    build_kernels(*state);
    with_compilers(*state, "", check_kernels);
}

static void text_reads_well(void **state) {
    fixture *x = *state;
    build_kernels(x);
    const char *s = text_of(x, "test.h");
    assert_non_null(strstr(s, "#include \"test.h\""));
    assert_non_null(strstr(s, "float dot(const float *restrict x, const float *restrict y, int64_t n) {\n"
                              "    float acc = 0.0f;\n"
                              "    for (int64_t i = 0; i < n; i++) {\n"
                              "        acc = ox_muladd_f32(x[i], y[i], acc);\n"
                              "    }\n"
                              "    return acc;\n}\n"));
    assert_non_null(strstr(s, "                acc = ox_muladd_f32(A[i * 3 + k], B[k * 5 + j], acc);\n"));
    assert_non_null(strstr(s, "            C[i * 5 + j] = acc;\n"));
    for (const char *p = s, *e; (e = strchr(p, '\n')); p = e + 1) assert_true(e - p <= 110);
}

// ---------------------------------------------------------------- floating point

static const lop unary_ops[] = {L_FNEG, L_FABS, L_SQRT, L_FLOOR, L_CEIL, L_TRUNC, L_RINT};
static const char *const unary_names[] = {"neg",     "abs",      "square_root", "to_floor",
                                          "to_ceil", "to_trunc", "to_rint"};

static void build_map(fixture *x, const char *name, dtype from, dtype to, lop op) {
    begin_kernel(x, name, nothing());
    lbuild *b = &x->b;
    ins *p = ptr_in(x, "x", from), *y = ptr_out(x, "y", to), *i = serial(x, "i", num(x, "n"));
    ins *v = lb_load(b, lt(lkind_of(from), 1), p, i, 0);
    lb_store(b, y, i, from == to ? lb_un(b, op, v) : lb_conv(b, op, lkind_of(to), v), 0);
    lb_end(b, i);
}

static void build_min_max(fixture *x) {
    begin_kernel(x, "fmin_max", nothing());
    lbuild *b = &x->b;
    ins *p = ptr_in(x, "x", DT_F32), *q = ptr_in(x, "y", DT_F32), *z = ptr_out(x, "z", DT_F32);
    ins *u = lb_load(b, f32(), p, idx(x, 0), 0), *v = lb_load(b, f32(), q, idx(x, 0), 0);
    lb_store(b, z, idx(x, 0), lb_bin(b, L_FMIN, u, v), 0);
    lb_store(b, z, idx(x, 1), lb_bin(b, L_FMAX, u, v), 0);
    lb_store(b, z, idx(x, 2),
             lb_select(b, lb_cmp(b, L_NE, u, u), lb_float(b, f32(), INFINITY), lb_float(b, f32(), -0.0)), 0);
    lb_store(b, z, idx(x, 3), lb_float(b, f32(), NAN), 0);
}

static void build_floats(fixture *x) {
    for (int i = 0; i < 7; i++) {
        build_map(x, arena_printf(x->a, "%s_f", unary_names[i]), DT_F32, DT_F32, unary_ops[i]);
        build_map(x, arena_printf(x->a, "%s_d", unary_names[i]), DT_F64, DT_F64, unary_ops[i]);
    }
    build_map(x, "f_to_h", DT_F32, DT_F16, L_FTRUNC);
    build_map(x, "f_to_b", DT_F32, DT_BF16, L_FTRUNC);
    build_map(x, "d_to_h", DT_F64, DT_F16, L_FTRUNC);
    build_map(x, "d_to_b", DT_F64, DT_BF16, L_FTRUNC);
    build_map(x, "h_to_f", DT_F16, DT_F32, L_FEXT);
    build_map(x, "b_to_d", DT_BF16, DT_F64, L_FEXT);
    build_map(x, "h_root", DT_F16, DT_F16, L_SQRT);
    build_min_max(x);
}

static uint64_t next_random(uint64_t *s) {
    *s ^= *s << 13;
    *s ^= *s >> 7;
    return *s ^= *s << 17;
}

enum { POINTS = 4000 };
// Random bits, and among them halves, large and small whole numbers, and what lies at the edges.
static void float_points(float *f, double *d) {
    static const double edges[] = {0,
                                   -0.0,
                                   0.5,
                                   -0.5,
                                   1.5,
                                   2.5,
                                   -2.5,
                                   8388607.5,
                                   8388608,
                                   4503599627370495.5,
                                   1e-40,
                                   5e-324,
                                   65519.99,
                                   65520,
                                   5.9604644775390625e-08,
                                   2.98023223876953125e-08,
                                   INFINITY,
                                   -INFINITY,
                                   NAN,
                                   6.097555160522461e-05,
                                   1e300,
                                   2.9802322387695319e-08,
                                   65519.999999999};
    uint64_t s = 88172645463325252u;
    for (int i = 0; i < POINTS; i++) {
        uint64_t r = next_random(&s);
        uint32_t r32 = (uint32_t)(r >> 13);
        memcpy(&d[i], &r, 8);
        memcpy(&f[i], &r32, 4);
        if (i % 4 == 1) d[i] = f[i] = (float)((int64_t)(r % 4000) - 2000) / 2;
        if (i % 4 == 2) d[i] = ldexp((double)(r >> 11), (int)(r % 60) - 80), f[i] = (float)d[i];
        if (i < (int)(sizeof edges / sizeof *edges)) f[i] = (float)(d[i] = edges[i]);
    }
}

static double expect_unary(int op, double v, bool is_float) {
    switch (op) {
    case 0: return -v;
    case 1: return fabs(v);
    case 2: return is_float ? (double)sqrtf((float)v) : sqrt(v);
    case 3: return floor(v);
    case 4: return ceil(v);
    case 5: return trunc(v);
    }
    return rint(v);
}

static void same(double got, double want) {
    if (want != want) assert_true(got != got);
    else if (memcmp(&got, &want, 8)) fail_msg("%a instead of %a", got, want);
}

static void check_unary(void *dl, const float *f, const double *d) {
    static float yf[POINTS];
    static double yd[POINTS];
    for (int op = 0; op < 7; op++) {
        char name[32];
        snprintf(name, sizeof name, "%s_f", unary_names[op]);
        ((void (*)(const float *, float *, int64_t))find_function(dl, name))(f, yf, POINTS);
        snprintf(name, sizeof name, "%s_d", unary_names[op]);
        ((void (*)(const double *, double *, int64_t))find_function(dl, name))(d, yd, POINTS);
        for (int i = 0; i < POINTS; i++) {
            same(yf[i], (float)expect_unary(op, f[i], true));
            same(yd[i], expect_unary(op, d[i], false));
        }
    }
}

static void check_halves(void *dl, const float *f, const double *d) {
    static uint16_t y[65536], all[65536];
    static float back[65536];
    static double wide[65536];
    static const struct {
        const char *name;
        dtype to;
        bool from_double;
    } casts[] = {{"f_to_h", DT_F16, false},
                 {"f_to_b", DT_BF16, false},
                 {"d_to_h", DT_F16, true},
                 {"d_to_b", DT_BF16, true}};
    for (int k = 0; k < 4; k++) {
        const void *from = casts[k].from_double ? (const void *)d : f;
        ((void (*)(const void *, uint16_t *, int64_t))find_function(dl, casts[k].name))(from, y, POINTS);
        for (int i = 0; i < POINTS; i++) {
            uint16_t want;
            double v = casts[k].from_double ? d[i] : (double)f[i];
            dtype_store_float(casts[k].to, &want, 0, v, false);
            if (v == v && y[i] != want) fail_msg("%s of %a: %x instead of %x", casts[k].name, v, y[i], want);
            if (v != v) assert_true((y[i] & 0x7fff) > (casts[k].to == DT_F16 ? 0x7c00 : 0x7f80));
        }
    }
    for (int i = 0; i < 65536; i++) all[i] = (uint16_t)i;
    ((void (*)(const uint16_t *, float *, int64_t))find_function(dl, "h_to_f"))(all, back, 65536);
    ((void (*)(const uint16_t *, double *, int64_t))find_function(dl, "b_to_d"))(all, wide, 65536);
    for (int i = 0; i < 65536; i++) {
        same(back[i], dtype_load_float(DT_F16, all, i));
        same(wide[i], dtype_load_float(DT_BF16, all, i));
    }
    ((void (*)(const uint16_t *, uint16_t *, int64_t))find_function(dl, "h_root"))(all, y, 0x7c01);
    for (int i = 0; i <= 0x7c00; i++) {
        uint16_t want;
        dtype_store_float(DT_F16, &want, 0, sqrt(dtype_load_float(DT_F16, all, i)), false);
        assert_int_equal(y[i], want);
    }
}

static void check_float_ops(void *dl) {
    static float f[POINTS];
    static double d[POINTS];
    float_points(f, d);
    check_unary(dl, f, d);
    void (*min_max)(float *, float *, float *) = find_function(dl, "fmin_max");
    float z[4], nan = NAN, one = 1;
    min_max(&nan, &one, z);
    assert_true(z[0] == 1 && z[1] == 1 && z[2] == INFINITY && z[3] != z[3]);
    min_max(&one, &nan, z);
    assert_true(z[0] != z[0] && z[1] != z[1] && z[2] == 0 && signbit(z[2]));
}

static void check_float_ops_and_halves(void *dl) {
    static float f[POINTS];
    static double d[POINTS];
    check_float_ops(dl);
    float_points(f, d);
    check_halves(dl, f, d);
}

static void floats_are_exact(void **state) {
    fixture *x = *state;
    build_floats(x);
    with_compilers(x, "", check_float_ops_and_halves);
}

// The square root where the compiler names no instruction for it.
static void square_roots_by_whole_numbers_are_exact(void **state) {
    fixture *x = *state;
    x->m->target = &c99_strict;
    build_floats(x);
    with_compilers(x, "-U__SSE2__ -U__aarch64__ -U__ARM_FP -U__riscv_fdiv", check_float_ops);
}

static void build_sums_of_products(fixture *x, const char *name, bool muladd) {
    begin_kernel(x, name, f32());
    lbuild *b = &x->b;
    ins *p = lfunc_param(b->f, "p", f32(), LK_VOID, DT_F32, false);
    ins *q = lfunc_param(b->f, "q", f32(), LK_VOID, DT_F32, false);
    ins *r = lfunc_param(b->f, "r", f32(), LK_VOID, DT_F32, false);
    lb_return(b, muladd ? lb_muladd(b, p, q, r) : lb_bin(b, L_ADD, lb_bin(b, L_MUL, p, q), r));
}

static float sum_of_product(void *dl, const char *name) {
    float (*f)(float, float, float);
    void *p = find_function(dl, name);
    memcpy(&f, &p, sizeof f);
    return f(1 + 0x1p-12f, 1 + 0x1p-12f, -1 - 0x1p-11f);
}

static void check_fused(void *dl) {
    assert_true(sum_of_product(dl, "apart") == 0);
    assert_true(sum_of_product(dl, "together") == 0x1p-24f);
}
static void check_not_fused(void *dl) {
    assert_true(sum_of_product(dl, "apart") == 0);
    assert_true(sum_of_product(dl, "together") == 0);
}

static bool this_machine_has_fma(void) {
#ifdef __x86_64__
    return __builtin_cpu_supports("fma");
#else
    return false;
#endif
}

// Also where the compiler may contract and the machine can.
static void only_muladd_is_fused(void **state) {
    fixture *x = *state;
    const char *flags = "-std=gnu99 -mfma";
    if (!this_machine_has_fma()) skip();
    build_sums_of_products(x, "apart", false);
    build_sums_of_products(x, "together", true);
    with_compilers(x, flags, check_fused);
    x->m->target = &c99_strict;
    with_compilers(x, flags, check_not_fused);
}

// ---------------------------------------------------------------- data

static void produce_squares(void *user, int64_t offset, void *to, int64_t n) {
    (void)user;
    for (int64_t i = 0; i < n / 4; i++)
        ((int32_t *)to)[i] = (int32_t)(offset / 4 + i) * (int32_t)(offset / 4 + i);
}

static const float odd_floats[] = {0.1f,     -0.0f,     1e-45f,   3.4028235e38f,
                                   INFINITY, -INFINITY, 16777216, 1.17549435e-38f};
static const float plain_floats[] = {0.1f,     -0.0f,       1e-45f,   3.4028235e38f,
                                     1.0f / 3, 123456.789f, 16777216, 1.17549435e-38f};
static const double doubles[] = {0.1, 1e308, 5e-324, 1.0 / 3, 12345678901234567.0};
static const int64_t longs[] = {INT64_MIN, INT64_MAX, -1};
static const uint16_t halves[] = {0x3c00, 0xffff, 0};

static void add_data(fixture *x, const char *name, const void *bytes, int64_t n, dtype t) {
    ldata *d = ARENA_NEW(x->a, ldata);
    *d = (ldata){.name = name, .bytes = n, .align = 16, .bytes_or_null = bytes, .dtype = t};
    if (!bytes) d->produce = produce_squares;
    VEC_PUSH(x->a, &x->m->data, d);
    begin_kernel(x, arena_printf(x->a, "get_%s", name), lt(lkind_of(t), 1));
    ins *i = num(x, "i");
    lb_return(&x->b, lb_load(&x->b, lt(lkind_of(t), 1), lb_symbol(&x->b, name), i, 0));
}

static void check_data(void *dl) {
    float (*odd)(int64_t) = find_function(dl, "get_odd"), (*plain)(int64_t) = find_function(dl, "get_plain");
    double (*dbl)(int64_t) = find_function(dl, "get_dbl");
    int64_t (*lng)(int64_t) = find_function(dl, "get_lng");
    int32_t (*squares)(int64_t) = find_function(dl, "get_squares");
    uint16_t (*half)(int64_t) = find_function(dl, "get_half");
    for (int i = 0; i < 8; i++) same(odd(i), odd_floats[i]), same(plain(i), plain_floats[i]);
    for (int i = 0; i < 5; i++) same(dbl(i), doubles[i]);
    for (int i = 0; i < 3; i++) assert_int_equal(lng(i), longs[i]), assert_int_equal(half(i), halves[i]);
    for (int i = 0; i < 40000; i += 7) assert_int_equal(squares(i), i * i);
}

static void data_is_exact(void **state) {
    fixture *x = *state;
    add_data(x, "odd", odd_floats, sizeof odd_floats, DT_F32);
    add_data(x, "plain", plain_floats, sizeof plain_floats, DT_F32);
    add_data(x, "dbl", doubles, sizeof doubles, DT_F64);
    add_data(x, "lng", longs, sizeof longs, DT_I64);
    add_data(x, "half", halves, sizeof halves, DT_F16);
    add_data(x, "squares", NULL, 160000, DT_I32);
    const char *s = text_of(x, NULL);
    assert_non_null(strstr(s, "static const float plain[8] = {\n    0.1f, -0.0f, 1e-45f, 3.4028235e+38f, "
                              "0.33333334f, 123456.79f, 16777216.0f, 1.1754944e-38f\n};"));
    for (const char *p = s, *e; (e = strchr(p, '\n')); p = e + 1) assert_true(e - p <= 110);
    with_compilers(x, "", check_data);
}

// ---------------------------------------------------------------- host code

static void build_host(fixture *x) {
    static const char *const structs = "typedef struct { const float *image; int64_t image_n; } toy_in;\n"
                                       "typedef struct { float *scores; int64_t scores_n; } toy_out;";
    VEC_PUSH(x->a, &x->m->preamble, structs);
    lbuild *b = &x->b;
    lfunc *k = begin_kernel(x, "toy_scale", nothing());
    k->exported = false;
    ins *p = ptr_in(x, "x", DT_F32), *y = ptr_out(x, "y", DT_F32), *n = num(x, "n"), *i = serial(x, "i", n);
    lb_store(b, y, i, mul(x, lb_load(b, f32(), p, i, 0), lb_float(b, f32(), 3)), 0);
    lb_end(b, i);
    lfunc *f = begin_kernel(x, "toy_run", i32());
    f->kernel = f->noalias = false;
    f->ctype = "int";
    ins *in = lfunc_param(f, "in", lt_ptr(), LK_VOID, DT_NONE, true),
        *out = lfunc_param(f, "out", lt_ptr(), LK_VOID, DT_NONE, false);
    ins *ws = lfunc_param(f, "workspace", lt_ptr(), LK_VOID, DT_NONE, false),
        *size = num(x, "workspace_size");
    f->params.at[0].ctype = "toy_in";
    f->params.at[1].ctype = "toy_out";
    f->params.at[3].ctype = "size_t";
    f->params.at[3].dtype = DT_U64;
    ins *bad = lb_if(b, lb_cmp(b, L_EQ, in, lb_op(b, L_NULL, lt_ptr(), 0, NULL)));
    lb_return(b, lb_int(b, i32(), 1));
    lb_end(b, bad);
    n = lb_field(b, i64(), in, "image_n", 8);
    ins *need = mul(x, n, idx(x, 4)), *small = lb_if(b, lb_cmp(b, L_ULT, size, add(x, need, idx(x, 64))));
    lb_return(b, lb_int(b, i32(), 2));
    lb_end(b, small);
    ins *tmp = lb_offset(b, ws, idx(x, 64), 1);
    lb_call(b, nothing(), "toy_scale", 3, (ins *[]){lb_field(b, lt_ptr(), in, "image", 0), tmp, n});
    lb_call(b, nothing(), "toy_scale", 3, (ins *[]){tmp, lb_field(b, lt_ptr(), out, "scores", 0), n});
    lb_call(b, lt_ptr(), "memset", 3, (ins *[]){tmp, lb_int(b, i32(), 0), need});
    lb_setfield(b, out, "scores_n", 8, n);
    lb_return(b, lb_int(b, i32(), 0));
}

typedef struct toy_in {
    const float *image;
    int64_t image_n;
} toy_in;
typedef struct toy_out {
    float *scores;
    int64_t scores_n;
} toy_out;

static void check_host(void *dl) {
    int (*run)(const toy_in *, toy_out *, void *, size_t) = find_function(dl, "toy_run");
    float x[5] = {1, 2, 3, 4, 5}, y[5], ws[32];
    toy_in in = {x, 5};
    toy_out out = {y, 0};
    assert_int_equal(run(NULL, &out, ws, sizeof ws), 1);
    assert_int_equal(run(&in, &out, ws, 83), 2);
    assert_int_equal(run(&in, &out, ws, 84), 0);
    for (int i = 0; i < 5; i++) assert_true(y[i] == 9 * x[i] && ws[16 + i] == 0);
    assert_int_equal(out.scores_n, 5);
}

static void host_code_reads_structs(void **state) {
    fixture *x = *state;
    build_host(x);
    const char *s = text_of(x, NULL);
    assert_non_null(
        strstr(s, "int toy_run(const toy_in *in, toy_out *out, void *workspace, size_t workspace_size)"));
    assert_non_null(strstr(s, "toy_scale(in->image, "));
    assert_non_null(strstr(s, "out->scores_n = in->image_n;"));
    with_compilers(x, "", check_host);
}

// ---------------------------------------------------------------- random integer expressions

enum { CASES = 30, NODES = 60, INPUTS = 8 };
static const lkind int_kinds[] = {LK_I1, LK_I8, LK_I16, LK_I32, LK_I64};

static int bits_of(lkind k) { return k == LK_I1 ? 1 : 8 * lkind_bytes(k); }
static int64_t sx(lkind k, uint64_t v) { return (int64_t)(v << (64 - bits_of(k))) >> (64 - bits_of(k)); }
static uint64_t zx(lkind k, uint64_t v) { return v << (64 - bits_of(k)) >> (64 - bits_of(k)); }

static uint64_t eval_bin(lop op, lkind k, uint64_t a, uint64_t b) {
    if (op == L_ADD) return a + b;
    if (op == L_SUB) return a - b;
    if (op == L_MUL) return a * b;
    if (op == L_AND) return a & b;
    if (op == L_OR) return a | b;
    if (op == L_XOR) return a ^ b;
    if (op == L_SMIN) return sx(k, a) < sx(k, b) ? a : b;
    if (op == L_SMAX) return sx(k, a) > sx(k, b) ? a : b;
    if (op == L_UMIN) return zx(k, a) < zx(k, b) ? a : b;
    if (op == L_UMAX) return zx(k, a) > zx(k, b) ? a : b;
    if (op == L_SHL) return a << b;
    if (op == L_LSHR) return zx(k, a) >> b;
    if (op == L_ASHR) return (uint64_t)(sx(k, a) >> b);
    if (op == L_UDIV) return zx(k, a) / zx(k, b);
    if (op == L_UREM) return zx(k, a) % zx(k, b);
    if (op == L_SDIV) return (uint64_t)(sx(k, a) / sx(k, b));
    if (op == L_SREM) return (uint64_t)(sx(k, a) % sx(k, b));
    if (op == L_EQ) return zx(k, a) == zx(k, b);
    if (op == L_NE) return zx(k, a) != zx(k, b);
    if (op == L_SLT) return sx(k, a) < sx(k, b);
    if (op == L_SLE) return sx(k, a) <= sx(k, b);
    if (op == L_ULT) return zx(k, a) < zx(k, b);
    if (op == L_ULE) return zx(k, a) <= zx(k, b);
    fail_msg("no such operation");
    return 0;
}

typedef struct node {
    ins *x;
    lkind kind;
    uint64_t v;
} node;

static ins *random_const(fixture *x, lkind k, uint64_t r, uint64_t *v) {
    static const int64_t special[] = {0,     1,     -1,        2,         127,       -128,      255, 128,
                                      32767, 65535, INT32_MAX, INT32_MIN, INT64_MIN, INT64_MAX, 300};
    *v = (uint64_t)special[r % 15];
    return lb_int(&x->b, lt(k, 1), (int64_t)*v);
}

// One more node from earlier ones, value and instruction side by side.
static node random_node(fixture *x, node *n, int count, uint64_t *s) {
    static const lop bins[] = {L_ADD, L_SUB, L_MUL, L_AND, L_OR, L_XOR, L_SMIN, L_SMAX, L_UMIN, L_UMAX};
    static const lop cmps[] = {L_EQ, L_NE, L_SLT, L_SLE, L_ULT, L_ULE};
    static const lop shifts[] = {L_SHL, L_LSHR, L_ASHR};
    static const lop divs[] = {L_UDIV, L_UREM, L_SDIV, L_SREM};
    lbuild *b = &x->b;
    node a = n[next_random(s) % (uint64_t)count], c = n[next_random(s) % (uint64_t)count], d;
    uint64_t r = next_random(s) >> 20, v;
    for (int i = 0; i < 200 && (c.kind != a.kind || c.x == a.x); i++) c = n[next_random(s) % (uint64_t)count];
    if (c.kind != a.kind || r % 5 == 0) c.kind = a.kind, c.x = random_const(x, a.kind, r >> 8, &c.v);
    lkind to = int_kinds[(r >> 16) % 5];
    switch (r >> 24 & 7) {
    case 0:
        return (node){lb_cmp(b, cmps[(r >> 8) % 6], a.x, c.x), LK_I1,
                      eval_bin(cmps[(r >> 8) % 6], a.kind, a.v, c.v)};
    case 1:
        if (to > a.kind)
            return (r & 1) ? (node){lb_conv(b, L_SEXT, to, a.x), to, (uint64_t)sx(a.kind, a.v)}
                           : (node){lb_conv(b, L_ZEXT, to, a.x), to, zx(a.kind, a.v)};
        return (node){lb_conv(b, L_ITRUNC, to, a.x), to, a.v};
    case 2:
        for (d = n[0]; d.kind != LK_I1; d = n[next_random(s) % (uint64_t)count]) {
        }
        return (node){lb_select(b, d.x, a.x, c.x), a.kind, zx(LK_I1, d.v) ? a.v : c.v};
    case 3:
        v = (r >> 8) % (uint64_t)bits_of(a.kind);
        return (node){lb_bin(b, shifts[r % 3], a.x, lb_int(b, lt(a.kind, 1), (int64_t)v)), a.kind,
                      eval_bin(shifts[r % 3], a.kind, a.v, v)};
    case 4:
        v = 3 + (r >> 8) % 90;
        if (a.kind == LK_I1) break;
        return (node){lb_bin(b, divs[r & 3], a.x, lb_int(b, lt(a.kind, 1), (int64_t)v)), a.kind,
                      eval_bin(divs[r & 3], a.kind, a.v, v)};
    }
    return (node){lb_bin(b, bins[r % 10], a.x, c.x), a.kind, eval_bin(bins[r % 10], a.kind, a.v, c.v)};
}

static int64_t fuzz_in[INPUTS], fuzz_want[CASES][NODES];

static void build_random(fixture *x, int number, uint64_t *s) {
    begin_kernel(x, arena_printf(x->a, "fuzz%d", number), nothing());
    lbuild *b = &x->b;
    b->f->kernel = number & 1;
    ins *p = ptr_in(x, "x", number & 2 ? DT_I64 : DT_U64), *y = ptr_out(x, "y", DT_I64);
    node n[INPUTS + NODES];
    for (int i = 0; i < INPUTS; i++) {
        lkind k = i < 5 ? int_kinds[i] : int_kinds[i - 3];
        ins *v = lb_load(b, i64(), p, idx(x, i), 0);
        n[i] = (node){k == LK_I64 ? v : lb_conv(b, L_ITRUNC, k, v), k, (uint64_t)fuzz_in[i]};
    }
    for (int i = 0; i < NODES; i++) n[INPUTS + i] = random_node(x, n, INPUTS + i, s);
    // Every third only, so that others are written inside their users.
    for (int i = 0; i < NODES; i += 3) {
        node *e = &n[INPUTS + i];
        lb_store(b, y, idx(x, i), e->kind == LK_I64 ? e->x : lb_conv(b, L_SEXT, LK_I64, e->x), 0);
        fuzz_want[number][i] = sx(e->kind, e->v);
    }
}

static void check_random(void *dl) {
    for (int k = 0; k < CASES; k++) {
        char name[16];
        int64_t got[NODES] = {0};
        snprintf(name, sizeof name, "fuzz%d", k);
        ((void (*)(const int64_t *, int64_t *))find_function(dl, name))(fuzz_in, got);
        for (int i = 0; i < NODES; i += 3)
            if (got[i] != fuzz_want[k][i])
                fail_msg("%s[%d]: %lld instead of %lld", name, i, (long long)got[i],
                         (long long)fuzz_want[k][i]);
    }
}

static void random_expressions_agree(void **state) {
    uint64_t s = 0x9e3779b97f4a7c15u;
    const char *seed = getenv("SEED");
    if (seed) s ^= strtoull(seed, NULL, 0) * 0x2545f4914f6cdd1du;
    for (int i = 0; i < INPUTS; i++) fuzz_in[i] = (int64_t)next_random(&s);
    for (int k = 0; k < CASES; k++) build_random(*state, k, &s);
    with_compilers(*state, "-Wno-tautological-compare -Wno-type-limits", check_random);
}

// ---------------------------------------------------------------- random programs

enum { PROGRAMS = 30, CELLS = 8, VARS = 4 };

typedef struct grower {
    fixture *x;
    uint64_t s;
    ins *p[3]; // two pointers that may overlap, and a local array
    ins *vars[VARS];
    ins *values[4000]; // those that can be seen here
    int n, left;       // statements that may still be made
} grower;

static uint64_t pick(grower *g, uint64_t n) { return (next_random(&g->s) >> 20) % n; }
static ins *any_value(grower *g) {
    return g->values[g->n - 1 - (int)pick(g, (uint64_t)(g->n < 8 ? g->n : 8))];
}

static ins *any_position(grower *g) {
    ins *at = lb_bin(&g->x->b, L_AND, any_value(g), lb_int(&g->x->b, i32(), CELLS - 1));
    return lb_conv(&g->x->b, L_SEXT, LK_I64, at);
}

static ins *any_compare(grower *g) {
    static const lop cmps[] = {L_EQ, L_NE, L_SLT, L_ULE};
    return lb_cmp(&g->x->b, cmps[pick(g, 4)], any_value(g), any_value(g));
}

static void grow_value(grower *g) {
    static const lop ops[] = {L_ADD, L_SUB, L_MUL, L_XOR, L_AND, L_SMAX, L_UMIN};
    lbuild *b = &g->x->b;
    ins *v;
    if (pick(g, 3) == 0)
        v = lb_load(b, i32(), g->p[pick(g, 3)],
                    pick(g, 2) ? any_position(g) : idx(g->x, (int64_t)pick(g, CELLS)), 0);
    else if (pick(g, 2)) v = lb_get(b, g->vars[pick(g, VARS)]);
    else if (pick(g, 4) == 0) v = lb_select(b, any_compare(g), any_value(g), any_value(g));
    else v = lb_bin(b, ops[pick(g, 7)], any_value(g), any_value(g));
    g->values[g->n++] = v;
}

static void grow(grower *g, int depth);

static void grow_body(grower *g, int depth) {
    int n = g->n;
    grow(g, depth - 1);
    g->n = n;
}

static void grow_if(grower *g, int depth) {
    ins *c = lb_if(&g->x->b, any_compare(g));
    if (pick(g, 5)) grow_body(g, depth);
    if (pick(g, 2)) {
        lb_else(&g->x->b, c);
        grow_body(g, depth);
    }
    lb_end(&g->x->b, c);
}

static void grow_for(grower *g, int depth) {
    lbuild *b = &g->x->b;
    ins *begin_at = lb_bin(b, L_AND, any_value(g), lb_int(b, i32(), 3)),
        *end = lb_get(b, g->vars[pick(g, VARS)]);
    end = lb_bin(b, L_AND, end, lb_int(b, i32(), 7));
    ins *i = lb_for(b, "i", begin_at, end, lb_int(b, i32(), 1 + (int64_t)pick(g, 3)), LOOP_SERIAL);
    int n = g->n;
    g->values[g->n++] = i;
    grow(g, depth - 1);
    g->n = n;
    lb_end(b, i);
}

static void grow_loop(grower *g, int depth) {
    lbuild *b = &g->x->b;
    ins *count = lb_var(b, "count", lb_int(b, i32(), (int64_t)pick(g, 5))), *l = lb_loop(b);
    if (pick(g, 2)) lb_break(b, any_compare(g));
    lb_break(b, lb_cmp(b, L_SLE, lb_get(b, count), lb_int(b, i32(), 0)));
    lb_set(b, count, lb_bin(b, L_SUB, lb_get(b, count), lb_int(b, i32(), 1)));
    grow_body(g, depth);
    lb_end(b, l);
}

static void grow(grower *g, int depth) {
    lbuild *b = &g->x->b;
    for (uint64_t n = 3 + pick(g, 8); n > 0 && g->left > 0; n--, g->left--) {
        uint64_t k = pick(g, depth > 0 ? 14 : 11);
        if (k < 6) grow_value(g);
        else if (k < 8) lb_store(b, g->p[pick(g, 3)], any_position(g), any_value(g), 0);
        else if (k < 10) lb_set(b, g->vars[pick(g, VARS)], any_value(g));
        else if (k == 11) grow_if(g, depth);
        else if (k == 12) grow_for(g, depth);
        else if (k == 13) grow_loop(g, depth);
        else grow_value(g), grow_value(g);
    }
}

static void build_program(fixture *x, int number, uint64_t seed) {
    lfunc *f = begin_kernel(x, arena_printf(x->a, "program%d", number), nothing());
    lbuild *b = &x->b;
    f->noalias = false;
    grower *g = ARENA_NEW(x->a, grower);
    *g = (grower){.x = x, .s = seed, .left = 120};
    g->p[0] = ptr_out(x, "p", DT_I32);
    g->p[1] = ptr_out(x, "q", DT_I32);
    g->p[2] = lb_local(b, LK_I32, CELLS, 0, false);
    for (int i = 0; i < CELLS; i++)
        lb_store(b, g->p[2], idx(x, i), lb_load(b, i32(), g->p[0], idx(x, i), 0), 0);
    for (int i = 0; i < 4; i++) g->values[g->n++] = lb_int(b, i32(), i * 3 - 2);
    for (int i = 0; i < VARS; i++) g->vars[i] = lb_var(b, NULL, lb_int(b, i32(), i + 1));
    grow(g, 3);
    for (int i = 0; i < VARS; i++) lb_store(b, g->p[0], idx(x, i), lb_get(b, g->vars[i]), 0);
}

static int32_t program_want[PROGRAMS][2 * CELLS];

static void fill_cells(int32_t *cells) {
    for (int i = 0; i < 2 * CELLS; i++) cells[i] = i * 0x1234567 - 40 * (i & 1);
}

static void check_programs(void *dl) {
    for (int k = 0; k < PROGRAMS; k++) {
        int32_t cells[2 * CELLS];
        char name[24];
        snprintf(name, sizeof name, "program%d", k);
        fill_cells(cells);
        ((void (*)(int32_t *, int32_t *))find_function(dl, name))(cells, cells + 3);
        if (memcmp(cells, program_want[k], sizeof cells))
            fail_msg("%s goes another way than in the interpreter", name);
    }
}

static void random_programs_agree(void **state) {
    fixture *x = *state;
    const char *seed = getenv("SEED");
    linterp *in = linterp_new(x->a, x->m);
    for (int k = 0; k < PROGRAMS; k++) {
        build_program(x, k,
                      0x9e3779b97f4a7c15u * (uint64_t)(k + 1) + (seed ? strtoull(seed, NULL, 0) << 8 : 0));
        fill_cells(program_want[k]);
        uint64_t args[2] = {(uintptr_t)program_want[k], (uintptr_t)(program_want[k] + 3)}, result;
        if (!linterp_call(in, x->m->funcs.at[k], args, &result)) fail_msg("%s", linterp_error(in));
    }
    with_compilers(x, "", check_programs);
}

// ---------------------------------------------------------------- what cannot be said

static void vectors_are_refused(void **state) {
    fixture *x = *state;
    begin_kernel(x, "wide", nothing());
    ins *p = ptr_in(x, "x", DT_F32), *y = ptr_out(x, "y", DT_F32);
    lb_store(&x->b, y, idx(x, 0), lb_load(&x->b, lt(LK_F32, 4), p, idx(x, 0), 0), 0);
    text t = {.arena = x->a};
    sink s = sink_text(&t);
    jmp_buf buf;
    if (DIAG_TRY(&x->d, buf)) {
        ctext_write(x->m, NULL, &s, &x->d);
        fail_msg("a vector was taken");
    }
    assert_int_equal(x->d.class, DIAG_DEFECT);
    assert_int_equal(t.n, 0);
}

// ---------------------------------------------------------------- the prelude

// Used or not; __SSE2__ stands for the machine's square root.
static void every_snippet_compiles(void **state) {
    fixture *x = *state;
    static const char *const flags[] = {"-O2", "-O2 -U__SSE2__", "-O2 -ffp-contract=off -D__FMA__"};
    const char *s = arena_printf(x->a, "#include <float.h>\n#include <stdint.h>\n#include <string.h>\n%s",
                                 prelude_text(x->a, false, "ox_", NULL, ""));
    workdir_write(x->dir, "prelude.h", s, strlen(s));
    const char *compilers[] = {"gcc", "clang"}, *use = "#include \"prelude.h\"\n",
               *path = workdir_write(x->dir, "prelude.c", use, strlen(use));
    for (int i = 0; i < 6; i++)
        if (have_program(x->a, compilers[i / 3]))
            dlclose(compile_and_load(
                x->dir, arena_printf(x->a, "%s %s %s", compilers[i / 3], warnings, flags[i % 3]), path));
}

int main(void) {
    (void)i1;
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(kernels_compute),         TEST(text_reads_well),
        TEST(floats_are_exact),        TEST(square_roots_by_whole_numbers_are_exact),
        TEST(only_muladd_is_fused),    TEST(data_is_exact),
        TEST(host_code_reads_structs), TEST(random_expressions_agree),
        TEST(every_snippet_compiles),  TEST(random_programs_agree),
        TEST(vectors_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
