// Elementary functions against libm in long double, conversions against ir/graph/dtype.c, scalar expressions
// against ir/kernel/eval.c: all run by the interpreter of loops, in one lane and in eight.
#include "ir/loops/math.h"
#include "ir/kernel/eval.h"
#include "ir/loops/convert.h"
#include "ir/loops/loops_interp.h"
#include "ir/target.h"
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
// cmocka.h must follow the headers it needs.
#include <cmocka.h>

// ---------------------------------------------------------------- running a function over arrays

typedef struct rig {
    arena *arena;
    diag diag;
    target target;
    lmodule *module;
    lfunc *f;
    lbuild b;
    ins *ptr[4], *n, *i; // x, y, z, out
} rig;

static void show(void *user, const diag_message *m) {
    (void)user;
    print_error("%s\n", m->full);
}

static void open_rig(rig *r, bool fma, int lanes) {
    static const char *const names[] = {"x", "y", "z", "out"};
    *r = (rig){.arena = arena_new(),
               .target = {.ptr_bits = 64,
                          .vector_bits = 512,
                          .fma = fma,
                          .f32 = true,
                          .f64 = true,
                          .round_instr = true,
                          .fp = FP_DEFAULT,
                          .little_endian = true}};
    r->diag = (diag){.arena = r->arena, .sink = show};
    r->module = lmodule_new(r->arena, "m", &r->target);
    r->f = lfunc_new(r->module, "f", lt(LK_VOID, 1));
    for (int k = 0; k < 4; k++) r->ptr[k] = lfunc_param(r->f, names[k], lt_ptr(), LK_VOID, DT_NONE, k < 3);
    r->n = lfunc_param(r->f, "n", lt(LK_I64, 1), LK_VOID, DT_I64, false);
    r->b = lbuild_new(r->f, &r->target, &r->diag);
    r->i = lb_for(&r->b, "i", lb_idx(&r->b, 0), r->n, lb_idx(&r->b, lanes), LOOP_SERIAL);
}

static void run_rig(rig *r, const void *x, const void *y, const void *z, void *out, int64_t n) {
    lb_end(&r->b, r->i);
    lfunc_verify(r->f, &r->diag);
    linterp *in = linterp_new(r->arena, r->module);
    uint64_t args[] = {(uintptr_t)x, (uintptr_t)y, (uintptr_t)z, (uintptr_t)out, (uint64_t)n};
    bool ok = linterp_call(in, r->f, args, NULL);
    if (!ok) print_error("%s\n", linterp_error(in));
    assert_true(ok);
    arena_destroy(r->arena);
}

static bool has_instruction(const lblock *b, lop op) {
    for (const ins *x = b->first; x; x = x->next)
        if (x->op == op || (x->body[0] && has_instruction(x->body[0], op))) return true;
    return false;
}

// ---------------------------------------------------------------- numbers

typedef struct random {
    uint64_t s;
} random_state;

static uint64_t next(random_state *r) {
    r->s ^= r->s << 13;
    r->s ^= r->s >> 7;
    r->s ^= r->s << 17;
    return r->s;
}

static double uniform(random_state *r) { return (double)(next(r) >> 11) * 0x1p-52 - 1; }

static double any_float(random_state *r, bool f64) {
    uint64_t u = next(r);
    uint32_t w = (uint32_t)u;
    double d;
    float f;
    if (f64) return memcpy(&d, &u, 8), d;
    return memcpy(&f, &w, 4), f;
}

static const double special[] = {0.,
                                 -0.,
                                 1,
                                 -1,
                                 INFINITY,
                                 -INFINITY,
                                 NAN,
                                 0.5,
                                 -0.5,
                                 2,
                                 -2,
                                 3,
                                 -3,
                                 1e-40,
                                 -1e-40,
                                 3e38,
                                 -3e38,
                                 1e308,
                                 -1e308,
                                 1.5,
                                 -1.5,
                                 0x1p23,
                                 0x1p24 + 2,
                                 0x1p52 + 1,
                                 -0x1p52 - 1,
                                 0x1.62e42ep+6,
                                 0x1.62e43p+6,
                                 -0x1.9fe368p+6,
                                 -0x1.9fe36ap+6,
                                 -0x1.5d589ep+6,
                                 0x1.62e42fefa39efp+9,
                                 -0x1.74910d52d3051p+9,
                                 1e-310,
                                 -1e-310,
                                 0x1p-149,
                                 0x1p-1074,
                                 0x1.921fb6p+0,
                                 0x1.921fb54442d18p+1};
enum { SPECIALS = sizeof special / sizeof *special };

static double sample(random_state *r, bool f64, int j, int which) {
    if (j < SPECIALS * SPECIALS) return special[which ? j / SPECIALS : j % SPECIALS];
    double wide = f64 && next(r) % 2 ? 7 : 1;
    switch (j % 4) {
    case 0: return any_float(r, f64);
    case 1: return uniform(r);
    case 2: return uniform(r) * 12;
    }
    return uniform(r) * 110 * wide;
}

static void put(bool f64, void *to, int j, double v) {
    if (f64) ((double *)to)[j] = v;
    else ((float *)to)[j] = (float)v;
}

static double get(bool f64, const void *from, int j) {
    return f64 ? ((const double *)from)[j] : (double)((const float *)from)[j];
}

// ---------------------------------------------------------------- elementary functions

static long double truth(expr_op op, long double x, long double y) {
    if (op == X_FMOD) return fmodl(x, y);
    switch (op) {
    case X_SQRT: return sqrtl(x);
    case X_EXP: return expl(x);
    case X_LOG: return logl(x);
    case X_LOG1P: return log1pl(x);
    case X_EXPM1: return expm1l(x);
    case X_SIN: return sinl(x);
    case X_COS: return cosl(x);
    case X_TAN: return tanl(x);
    case X_ASIN: return asinl(x);
    case X_ACOS: return acosl(x);
    case X_ATAN: return atanl(x);
    case X_SINH: return sinhl(x);
    case X_COSH: return coshl(x);
    case X_TANH: return tanhl(x);
    case X_ASINH: return asinhl(x);
    case X_ACOSH: return acoshl(x);
    case X_ATANH: return atanhl(x);
    case X_ERF: return erfl(x);
    case X_SIGMOID: return x >= 0 ? 1 / (1 + expl(-x)) : expl(x) / (1 + expl(x));
    case X_POW: return powl(x, y);
    case X_ATAN2: return atan2l(x, y);
    case X_COUNT:
#define FUNCTION(...)
#define OP(op, ...) case op:
#include "ir/kernel/expr_ops.def"
        break;
    }
    return 0;
}

static double ulp(long double v, bool f64) {
    int e, least = f64 ? -1074 : -149;
    frexpl(v, &e);
    e -= f64 ? 53 : 24;
    return ldexp(1, v == 0 || e < least ? least : e);
}

// In units in the last place; a wrong infinity, NaN or sign is 1e9.
static double error_of(double got, long double want, bool f64) {
    double rounded = f64 ? (double)want : (double)(float)want,
           most = f64 ? 0x1.fffffffffffffp1023 : 0x1.fffffep127;
    if (isnan(rounded) || isnan(got)) return isnan(rounded) && isnan(got) ? 0 : 1e9;
    if (isinf(rounded) || isinf(got)) {
        bool edge = fabsl(want) > most * (1 - 0x1p-20L) && fabsl(want) < most * (1 + 0x1p-20L);
        return rounded == got ? 0 : edge ? (double)(fabsl(fabsl(want) - most) / ulp(most, f64)) : 1e9;
    }
    if (!!signbit(want) != !!signbit(got) && !(want != 0 && got == 0)) return 1e9;
    return (double)fabsl(want - got) / ulp(want, f64);
}

static bool is_binary(expr_op op) { return op == X_POW || op == X_ATAN2 || op == X_FMOD; }

static void fill(expr_op op, bool f64, int n, void *x, void *y) {
    random_state r = {88172645463325252u + (uint64_t)op};
    for (int j = 0; j < n; j++) {
        double a = sample(&r, f64, j, 0), b = sample(&r, f64, j, 1);
        bool narrow = op == X_POW || op == X_LOG;
        if (j >= SPECIALS * SPECIALS && j % 3) a = narrow ? fabs(a) : op == X_ACOSH ? 1 + fabs(a) : a;
        if ((op == X_SIN || op == X_COS || op == X_TAN) && j % 16 == 5)
            a = rint(a * 1000) * 1.5707963267948966;
        put(f64, x, j, a);
        put(f64, y, j, b);
    }
}

// Lanes of CPUs that have tables in vectors: of 16 words, and of 8.
enum { ONE_VECTOR = 16, FOUR_VECTORS = 32 };

static void evaluate(expr_op op, lkind k, bool fma, int lanes, const void *x, const void *y, void *out,
                     int n) {
    rig r;
    open_rig(&r, fma, lanes);
    r.target.scale_instr = fma;
    r.target.permuted_words = !fma ? 0 : lanes == ONE_VECTOR ? 16 : lanes == FOUR_VECTORS ? 8 : 0;
    lbuild *b = &r.b;
    ins *a = lb_load(b, lt(k, lanes), r.ptr[0], r.i, 0), *c = lb_load(b, lt(k, lanes), r.ptr[1], r.i, 0);
    lb_store(b, r.ptr[3], r.i, is_binary(op) ? math_binary(b, op, a, c) : math_unary(b, op, a), 0);
    run_rig(&r, x, y, NULL, out, n);
}

typedef struct worst_error {
    double ulps, x, y;
} worst_error;

// The largest error over n samples, in eight lanes; the first eighth of them has the same bits in one lane.
static worst_error measure(expr_op op, bool f64, bool fma, int n) {
    lkind k = f64 ? LK_F64 : LK_F32;
    size_t size = f64 ? 8 : 4;
    void *x = calloc((size_t)n, 8), *y = calloc((size_t)n, 8), *out = calloc((size_t)n, 8),
         *one = calloc((size_t)n, 8);
    fill(op, f64, n, x, y);
    evaluate(op, k, fma, 8, x, y, out, n);
    evaluate(op, k, fma, 1, x, y, one, n / 8);
    worst_error worst = {0};
    for (int j = 0; j < n; j++) {
        double a = get(f64, x, j), b = get(f64, y, j), e = error_of(get(f64, out, j), truth(op, a, b), f64);
        if (e > worst.ulps) worst = (worst_error){e, a, b};
        if (j < n / 8 && !isnan(get(f64, out, j)))
            assert_memory_equal((char *)out + j * size, (char *)one + j * size, size);
    }
    free(x), free(y), free(out), free(one);
    return worst;
}

static void check_function(expr_op op, bool f64, bool fma, int n) {
    double bound = math_ulp_bound(op, f64 ? LK_F64 : LK_F32);
    worst_error worst = measure(op, f64, fma, n);
    if (worst.ulps > bound)
        print_error("%s: %g ulp at %a, %a\n", expr_op_name(op), worst.ulps, worst.x, worst.y);
    assert_true(worst.ulps <= bound);
}

// The rows of docs/error-bounds.md: for each function the bound and the largest measured errors, without and with
// fused multiply-add.
static int print_table(void) {
    enum { N = 48000 };
    printf("| function | f32: bound | strict | default, fast | f64: bound | strict | default, fast |\n"
           "| --- | --- | --- | --- | --- | --- | --- |\n");
    for (expr_op op = 0; op < X_COUNT; op++) {
        if (math_ulp_bound(op, LK_F32) < 0) continue;
        printf("| %s |", expr_op_name(op));
        for (int f64 = 0; f64 < 2; f64++)
            printf(" %g | %.2f | %.2f |", math_ulp_bound(op, f64 ? LK_F64 : LK_F32),
                   measure(op, f64, false, N).ulps, measure(op, f64, true, N).ulps);
        printf("\n");
    }
    return 0;
}

// --precision=bf16: within 2^-15, denormal results 0; NaN, infinities and zeros as always.
static void coarse_exp_is_near(void **state) {
    (void)state;
    enum { N = 1 << 16 };
    static float x[N], y[N], got[N];
    for (int scales = 0; scales < 2; scales++) {
        fill(X_EXP, false, N, x, y);
        for (int j = N / 2; j < N; j++) x[j] = (float)(180 * (j - N / 2.) / (N / 2.) - 90);
        rig r;
        open_rig(&r, true, 16);
        r.target.scale_instr = scales;
        r.target.precision = PRECISION_BF16;
        ins *a = lb_load(&r.b, lt(LK_F32, 16), r.ptr[0], r.i, 0);
        lb_store(&r.b, r.ptr[3], r.i, math_unary(&r.b, X_EXP, a), 0);
        assert_int_equal(has_instruction(r.f->body, L_SCALE), scales);
        run_rig(&r, x, y, NULL, got, N);
        for (int j = 0; j < N; j++) {
            double want = exp((double)x[j]), most = want * 0x1p-15;
            if (want < 0x1.02p-126) most = 0x1.02p-126;
            if (isnan(x[j])) assert_true(isnan(got[j]));
            else if (want > 0x1.fffp127) assert_true(isinf(got[j]) || fabs(got[j] - want) <= most);
            else if (!(fabs(got[j] - want) <= most))
                fail_msg("exp(%a) is %a instead of %a", x[j], got[j], want);
            if (x[j] == -INFINITY) assert_true(got[j] == 0);
            if (x[j] == 0) assert_true(got[j] == 1);
        }
    }
}

// Within the bound of exp down to the least normal number, 0 below; NaN stays.
static void weights_are_near(void **state) {
    (void)state;
    enum { N = 1 << 14 };
    static float x[N], got[N];
    for (int j = 0; j < N; j++) x[j] = -(float)(100. * j / N);
    x[1] = -INFINITY, x[2] = NAN, x[3] = -1e30f, x[4] = -0.f;
    for (int form = 0; form < 4; form++) {
        int lanes = form & 1 ? 16 : 1;
        rig r;
        open_rig(&r, form & 2, lanes);
        r.target.scale_instr = lanes > 1;
        lb_store(&r.b, r.ptr[3], r.i, math_weight(&r.b, lb_load(&r.b, lt(LK_F32, lanes), r.ptr[0], r.i, 0)),
                 0);
        run_rig(&r, x, x, NULL, got, N);
        for (int j = 0; j < N; j++) {
            if (x[j] < -87.34f) assert_true(got[j] == 0);
            else if (x[j] > -87.32f || isnan(x[j]))
                assert_true(error_of(got[j], truth(X_EXP, x[j], 0), false) <= math_ulp_bound(X_EXP, LK_F32));
        }
    }
}

// Results by tables are not those of one lane, and nothing is above 1.
static void is_near_by_tables(expr_op op, int lanes, double end) {
    enum { N = 1 << 16 };
    static float x[N], y[N], got[N];
    fill(op, false, N, x, y);
    for (int j = N / 2; j < N; j++) x[j] = (float)(2.5 * end * (j - N / 2.) / (N / 2.) - 1.25 * end);
    evaluate(op, LK_F32, true, lanes, x, y, got, N);
    for (int j = 0; j < N; j++) {
        double error = error_of(got[j], truth(op, x[j], 0), false);
        if (error > math_ulp_bound(op, LK_F32))
            fail_msg("%s(%a) is %a, off by %g ulp", expr_op_name(op), x[j], got[j], error);
        assert_false(fabs(got[j]) > 1);
        if (fabs(x[j]) >= end) assert_true(fabs(got[j]) == 1);
    }
}

static void functions_by_tables_are_near(void **state) {
    (void)state;
    is_near_by_tables(X_ERF, ONE_VECTOR, 4);
    is_near_by_tables(X_ERF, FOUR_VECTORS, 4);
    is_near_by_tables(X_TANH, ONE_VECTOR, 9);
}

// Without floating point, in integers: what instructions of floats are left converts, or chooses among denormal numbers.
static void functions_in_integers_are_near(void **state) {
    (void)state;
    enum { N = 1 << 16 };
    static const expr_op ops[] = {X_EXP, X_SIGMOID, X_TANH};
    static float x[N], y[N], got[N];
    for (int k = 0; k < 3; k++) {
        fill(ops[k], false, N, x, y);
        for (int j = 0; j < 256; j++) x[N - 1 - j] = (float)((j % 2 ? -1 : 1) * ldexp(1, j / 2 - 120));
        rig r;
        open_rig(&r, false, 1);
        r.target.f32 = r.target.round_instr = false;
        r.target.freestanding = true;
        lb_store(&r.b, r.ptr[3], r.i,
                 math_unary(&r.b, ops[k], lb_load(&r.b, lt(LK_F32, 1), r.ptr[0], r.i, 0)), 0);
        assert_false(has_instruction(r.f->body, L_FDIV) || has_instruction(r.f->body, L_MULADD));
        run_rig(&r, x, x, NULL, got, N);
        for (int j = 0; j < N; j++) {
            double error = error_of(got[j], truth(ops[k], x[j], 0), false);
            if (error > math_ulp_bound(ops[k], LK_F32))
                fail_msg("%s(%a) is %a, off by %g ulp", expr_op_name(ops[k]), x[j], got[j], error);
            if (ops[k] != X_EXP) assert_false(fabsf(got[j]) > 1);
            if (ops[k] == X_EXP && x[j] == 0) assert_true(got[j] == 1);
        }
    }
}

static void check_functions(bool f64, bool fma, int n) {
    for (expr_op op = 0; op < X_COUNT; op++)
        if (math_ulp_bound(op, LK_F32) >= 0) check_function(op, f64, fma, n);
}

static void f32_functions_with_fma(void **state) {
    (void)state;
    check_functions(false, true, 24000);
}

static void f32_functions_without_fma(void **state) {
    (void)state;
    check_functions(false, false, 12000);
}

static void f64_functions_with_fma(void **state) {
    (void)state;
    check_functions(true, true, 12000);
}

static void f64_functions_without_fma(void **state) {
    (void)state;
    check_functions(true, false, 8000);
}

// ---------------------------------------------------------------- loads of every code

static const dtype floats[] = {DT_F16,        DT_BF16,   DT_F8E4M3FN, DT_F8E4M3FNUZ, DT_F8E5M2,
                               DT_F8E5M2FNUZ, DT_F4E2M1, DT_F8E8M0,   DT_F6E2M3,     DT_F6E3M2};
static const dtype packed[] = {DT_U4, DT_I4, DT_U2, DT_I2};
enum { FLOATS = sizeof floats / sizeof *floats, PACKED = sizeof packed / sizeof *packed };

static void all_codes(dtype t, uint8_t *raw) {
    int bits = dtype_bits(t);
    for (int i = 0; i < 1 << (bits < 8 ? 8 : bits); i++)
        if (bits == 16) raw[2 * i] = (uint8_t)i, raw[2 * i + 1] = (uint8_t)(i >> 8);
        else raw[i] = (uint8_t)i;
}

static bool same_float(double a, double b) {
    return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b));
}

typedef enum access { WHOLE, SOME, INDIRECT } access;

// n elements of type t at x go to out in their compute type.
static void load_all(dtype t, int lanes, access how, const void *x, void *out, int64_t n) {
    rig r;
    open_rig(&r, true, lanes);
    lbuild *b = &r.b;
    ins *v;
    if (how == INDIRECT) {
        ins *iota = lb_bin(b, L_ADD, lb_iota(b, lt(LK_I64, lanes)), r.i);
        v = load_element_gather(b, t, r.ptr[0], iota);
    } else {
        v = how == SOME ? load_element_n(b, t, r.ptr[0], r.i, lanes,
                                         lb_bin(b, L_SMIN, lb_idx(b, lanes), lb_bin(b, L_SUB, r.n, r.i)))
                        : load_element(b, t, r.ptr[0], r.i, lanes);
    }
    if (t == DT_BOOL) v = lb_conv(b, L_ZEXT, LK_I8, v);
    lb_store(b, r.ptr[3], r.i, v, 0);
    run_rig(&r, x, NULL, NULL, out, n);
}

static void check_loads(dtype t, int lanes, access how) {
    int64_t n = dtype_bits(t) < 8 ? 256 * 8 / dtype_bits(t) : 1 << dtype_bits(t);
    uint8_t *raw = calloc(1, 1 << 18);
    float *out = calloc((size_t)n + 16, 8);
    all_codes(t, raw);
    load_all(t, lanes, how, raw, out, n);
    for (int64_t i = 0; i < n; i++) {
        if (dtype_is_float(t)) assert_true(same_float(out[i], dtype_load_float(t, raw, i)));
        else assert_int_equal((uint8_t)dtype_load_int(t, raw, i), ((uint8_t *)out)[i]);
    }
    free(raw), free(out);
}

static void loads_are_exact(void **state) {
    (void)state;
    for (int k = 0; k < FLOATS + PACKED; k++)
        for (int lanes = 1; lanes <= 16; lanes *= 2)
            for (int how = WHOLE; how <= INDIRECT; how++) {
                dtype t = k < FLOATS ? floats[k] : packed[k - FLOATS];
                if (lanes == 2 && dtype_bits(t) == 2) continue;
                if (dtype_bits(t) < 16 || lanes == 8) check_loads(t, lanes, (access)how);
            }
    check_loads(DT_BOOL, 8, WHOLE);
    check_loads(DT_I8, 8, SOME);
}

// ---------------------------------------------------------------- stores

// Numbers around every code of t: itself, the middle to the next one, and their neighbours.
static int numbers_around(dtype t, float *x, int most) {
    int n = 0, codes = 1 << dtype_bits(t);
    for (int i = 0; i < codes && n + 8 < most; i++) {
        uint8_t raw[8] = {(uint8_t)i, (uint8_t)(i >> 8)}, up[8] = {(uint8_t)(i + 1), (uint8_t)((i + 1) >> 8)};
        float a = (float)dtype_load_float(t, raw, 0), c = (float)dtype_load_float(t, up, 0),
              middle = a / 2 + c / 2;
        float all[] = {a,      nextafterf(a, INFINITY),      nextafterf(a, -INFINITY),
                       middle, nextafterf(middle, INFINITY), nextafterf(middle, -INFINITY),
                       2 * a};
        memcpy(x + n, all, sizeof all);
        n += 7;
    }
    random_state r = {12345};
    for (int i = 0; i < 2000; i++) x[n++] = (float)any_float(&r, false);
    return n;
}

static void store_all(dtype t, int lanes, access how, const void *x, void *out, int64_t n) {
    rig r;
    open_rig(&r, true, lanes);
    lbuild *b = &r.b;
    ins *v = lb_load(b, lt(compute_kind(t), lanes), r.ptr[0], r.i, 0);
    if (how == INDIRECT) {
        ins *iota = lb_bin(b, L_ADD, lb_iota(b, lt(LK_I64, lanes)), r.i);
        store_element_scatter(b, t, r.ptr[3], iota, v);
    } else if (how == SOME) {
        ins *left = lb_bin(b, L_SMIN, lb_idx(b, lanes), lb_bin(b, L_SUB, r.n, r.i));
        store_element_n(b, t, r.ptr[3], r.i, v, lanes, left);
    } else {
        store_element(b, t, r.ptr[3], r.i, v, lanes);
    }
    run_rig(&r, x, NULL, NULL, out, n);
}

static void check_stores(dtype t, int lanes, access how, const float *x, int n) {
    uint8_t *got = malloc((size_t)n * 2 + 64), *want = malloc((size_t)n * 2 + 64);
    memset(got, 0x5a, (size_t)n * 2 + 64);
    memcpy(want, got, (size_t)n * 2 + 64);
    if (how != SOME) n -= n % 16;
    store_all(t, lanes, how, x, got, n);
    for (int i = 0; i < n; i++) {
        if (dtype_is_float(t)) dtype_store_float(t, want, i, x[i], dtype_bits(t) != 8);
        else dtype_store_int(t, want, i, ((const int8_t *)x)[i]);
    }
    for (int i = 0; i < n; i++) {
        double a = dtype_load_float(t, got, i), b = dtype_load_float(t, want, i);
        if (!same_float(a, b)) print_error("%s of %a: %a instead of %a\n", dtype_name(t), x[i], a, b);
        assert_true(same_float(a, b));
    }
    assert_memory_equal(got + 2 * n, want + 2 * n, 64);
    free(got), free(want);
}

static void stores_round_like_dtype(void **state) {
    (void)state;
    enum { MOST = 7 * 65536 + 4096 };
    float *x = calloc(MOST, sizeof *x);
    for (int k = 0; k < FLOATS + PACKED; k++) {
        dtype t = k < FLOATS ? floats[k] : packed[k - FLOATS];
        int n = numbers_around(t, x, dtype_bits(t) == 16 ? 20000 : MOST);
        if (k >= FLOATS) n = 1001;
        check_stores(t, 8, WHOLE, x, n);
        if (dtype_bits(t) == 16) check_stores(t, 8, WHOLE, x, numbers_around(t, x, MOST));
        n = n < 2011 ? n : 2011;
        check_stores(t, 1, WHOLE, x, n);
        check_stores(t, 16, SOME, x, n);
        check_stores(t, 8, INDIRECT, x, n);
    }
    free(x);
}

// ---------------------------------------------------------------- expressions against ir/kernel/eval.c

static const dtype types[] = {DT_BOOL, DT_I8,  DT_U8,  DT_I16, DT_U16, DT_I32,
                              DT_U32,  DT_I64, DT_U64, DT_F32, DT_F64};
enum { TYPES = sizeof types / sizeof *types, COUNT = 1024 };

static int compute_bytes(dtype t) { return dtype_bits(t) / 8; }

static cell any_cell(random_state *r, dtype t) {
    uint8_t raw[8];
    uint64_t u = next(r);
    if (t == DT_BOOL) return (cell){.i = (int64_t)(u & 1)};
    if (dtype_is_float(t)) {
        double v = u % 16 < 4   ? special[(u >> 8) % SPECIALS]
                   : u % 16 < 8 ? any_float(r, t == DT_F64)
                                : uniform(r) * ldexp(1, (int)((u >> 8) % 70));
        return (cell){.f = t == DT_F32 ? (double)(float)v : v};
    }
    int64_t v = (int64_t)next(r) >> (u % 64);
    if (u % 16 == 0) v = dtype_int_min(t);
    if (u % 16 == 1) v = -1;
    if (u % 16 == 2) v = 0;
    dtype_store_int(t, raw, 0, v);
    return (cell){.i = dtype_load_int(t, raw, 0)};
}

static void put_cell(dtype t, void *to, int i, cell v) {
    if (dtype_is_float(t)) dtype_store_float(t, to, i, v.f, dtype_bits(t) != 8);
    else dtype_store_int(t, to, i, v.i);
}

static bool same_cell(const expr *e, cell want, const void *got, int i) {
    if (!dtype_is_float(e->dtype)) return dtype_load_int(e->dtype, got, i) == want.i;
    double v = dtype_load_float(e->dtype, got, i);
    bool extreme = e->op == X_MIN || e->op == X_MAX;
    return same_float(v, want.f) || (extreme && v == want.f);
}

static ins *load_compute(rig *r, int which, dtype t, int lanes) {
    return load_element(&r->b, t, r->ptr[which], r->i, lanes);
}

static void run_expr(const expr *e, int lanes, bool narrow, uint8_t raw[3][8 * COUNT], uint8_t *out) {
    rig r;
    open_rig(&r, true, lanes);
    r.target.truncates_narrow = narrow;
    ins *args[3] = {0};
    for (int k = 0; k < expr_arity(e->op); k++) args[k] = load_compute(&r, k, e->arg[k]->dtype, lanes);
    store_element(&r.b, e->dtype, r.ptr[3], r.i, expr_apply(&r.b, e, args), lanes);
    run_rig(&r, raw[0], raw[1], raw[2], out, COUNT);
}

static void check_expr(const expr *e) {
    static uint8_t raw[3][8 * COUNT], out[8 * COUNT];
    static cell cells[3][COUNT], want[COUNT];
    random_state r = {(uint64_t)e->op * 1000 + (uint64_t)e->to * 30 + (uint64_t)e->arg[0]->dtype + 77};
    for (int k = 0; k < expr_arity(e->op); k++)
        for (int i = 0; i < COUNT; i++) {
            cells[k][i] = any_cell(&r, e->arg[k]->dtype);
            put_cell(e->arg[k]->dtype, raw[k], i, cells[k][i]);
        }
    eval_op(e, COUNT, (struct cells[]){{cells[0], 1}, {cells[1], 1}, {cells[2], 1}}, want);
    for (int form = 0; form < 3; form++) {
        int lanes = form ? 8 : 1;
        run_expr(e, lanes, form == 2, raw, out);
        for (int i = 0; i < COUNT; i++) {
            bool same = same_cell(e, want[i], out, i);
            if (!same)
                print_error("%s of %s to %s, lanes %d: %lld (%g), %lld (%g) want %lld (%a) got %lld (%a)\n",
                            expr_op_name(e->op), dtype_name(e->arg[0]->dtype),
                            dtype_name(e->op == X_CAST ? e->to : e->dtype), lanes, (long long)cells[0][i].i,
                            cells[0][i].f, (long long)cells[1][i].i, cells[1][i].f, (long long)want[i].i,
                            want[i].f, (long long)dtype_load_int(e->dtype, out, i),
                            dtype_load_float(e->dtype, out, i));
            assert_true(same);
        }
    }
}

static bool applies(expr_op op, dtype t) {
    bool f = dtype_is_float(t), bitwise = op == X_AND || op == X_OR || op == X_XOR || op == X_NOT;
    if (expr_op_class(op) == XC_ROUND) return f;
    if (op == X_FLOORDIV || op == X_MOD || op == X_SHL || op == X_SHR) return !f && t != DT_BOOL;
    if (op == X_FMOD) return t != DT_BOOL;
    if (bitwise) return !f;
    return t != DT_BOOL || op == X_EQ || op == X_NE || op == X_MIN || op == X_MAX;
}

static void expressions_agree_with_eval(void **state) {
    (void)state;
    static const expr_op ops[] = {X_NEG, X_ABS, X_NOT, X_FLOOR, X_CEIL,     X_TRUNC, X_RINT, X_ISNAN, X_ISINF,
                                  X_ADD, X_SUB, X_MUL, X_DIV,   X_FLOORDIV, X_MOD,   X_FMOD, X_MIN,   X_MAX,
                                  X_AND, X_OR,  X_XOR, X_SHL,   X_SHR,      X_EQ,    X_NE,   X_LT,    X_LE};
    for (size_t o = 0; o < sizeof ops / sizeof *ops; o++)
        for (int k = 0; k < TYPES; k++) {
            if (!applies(ops[o], types[k])) continue;
            bool to_bool = expr_op_class(ops[o]) == XC_COMPARE || expr_op_class(ops[o]) == XC_TEST;
            expr a = {.dtype = types[k]},
                 e = {.op = ops[o], .dtype = to_bool ? DT_BOOL : types[k], .arg = {&a, &a, &a}};
            check_expr(&e);
        }
}

static void casts_agree_with_eval(void **state) {
    (void)state;
    for (int from = 0; from < TYPES; from++)
        for (int to = 0; to < TYPES + FLOATS + PACKED; to++)
            for (int saturate = 0; saturate < 2; saturate++) {
                dtype t = to < TYPES            ? types[to]
                          : to < TYPES + FLOATS ? floats[to - TYPES]
                                                : packed[to - TYPES - FLOATS];
                expr a = {.dtype = types[from]};
                expr e = {
                    .op = X_CAST, .dtype = dtype_compute(t), .arg = {&a}, .to = t, .saturate = saturate};
                if (compute_bytes(e.dtype)) check_expr(&e);
                e.op = X_ROUND_TO;
                if (dtype_is_float(types[from]) && dtype_is_float(t) && e.dtype == types[from])
                    check_expr(&e);
            }
}

// ---------------------------------------------------------------- division by constants

static void divide_all(const float *x, float y, float *out, int n, bool products) {
    rig r;
    expr a = {.dtype = DT_F32}, e = {.op = X_DIV, .dtype = DT_F32, .arg = {&a, &a}};
    open_rig(&r, true, 8);
    ins *v = load_element(&r.b, DT_F32, r.ptr[0], r.i, 8);
    ins *q = expr_apply(&r.b, &e, (ins *[]){v, lb_float(&r.b, v->type, y)});
    store_element(&r.b, DT_F32, r.ptr[3], r.i, q, 8);
    if (!products) assert_false(has_instruction(r.f->body, L_FMA));
    assert_int_equal(has_instruction(r.f->body, L_FDIV), !products);
    run_rig(&r, x, x, x, out, n);
}

// Numbers of all sizes, the largest with finite quotients, and the special ones.
static void fill_dividends(random_state *r, float *x, float y, int n) {
    float most = (float)fmin((double)FLT_MAX, (double)FLT_MAX * fabs((double)y));
    for (int i = 0; i < n; i++) {
        if (i < SPECIALS) x[i] = (float)special[i];
        else if (i % 4 == 0) x[i] = (float)any_float(r, false);
        else x[i] = (float)ldexp(uniform(r), (int)(next(r) % 200) - 100);
    }
    for (int i = SPECIALS; i < SPECIALS + 64; i++) x[i] = most, most = nextafterf(most, 0);
}

// Equal bits, or a unit in the last place where the remainder would be a denormal number, or the product infinite.
static bool is_quotient(float x, float y, float got) {
    float want = x / y, low = nextafterf(want, -INFINITY), high = nextafterf(want, INFINITY);
    if (isnan(want)) return isnan(got);
    if (got == want) return signbit(got) == signbit(want);
    return (fabsf(x) < 0x1p-100f || fabsf(want) >= 0x1.fffffcp127f) && (got == low || got == high);
}

static void constants_divide_exactly(void **state) {
    (void)state;
    enum { N = 4096, DIVISORS = 200 };
    static const float few[][8] = {{1, -1, 3, -7, 10, 255, 0.1f, -0.7f},
                                   {0x1p-60f, -0x1p60f, 1.3f, 0x1.fffffep0f, 0x1.fffffcp0f, 0x1.000002p0f,
                                    0x1.fffffep59f, 0x1.000002p-60f},
                                   {0x1p-61f, 0x1p61f, 0x1p-140f, INFINITY, 0, -0.f, NAN, 0x1.fffffep127f}};
    static float x[N], out[N];
    random_state r = {0x9e3779b97f4a7c15u};
    for (int j = 0; j < DIVISORS; j++) {
        bool given = j < (int)(sizeof few / sizeof **few);
        float y = given ? few[j / 8][j % 8] : (float)ldexp(uniform(&r), (int)(next(&r) % 120) - 60),
              size = fabsf(y);
        fill_dividends(&r, x, y, N);
        divide_all(x, y, out, N, size >= 0x1p-60f && size <= 0x1p60f);
        for (int i = 0; i < N; i++)
            if (!is_quotient(x[i], y, out[i]))
                fail_msg("%a / %a: %a instead of %a", x[i], y, out[i], x[i] / y);
    }
}

// ---------------------------------------------------------------- division of integers as floats

// Dividends are beside multiples of the divisor, where a rounded quotient might reach the next integer.
static void divide_integers(expr_op op, dtype t, random_state *random) {
    static uint8_t raw[2][8 * COUNT], out[8 * COUNT];
    static cell x[COUNT], y[COUNT], want[COUNT];
    int64_t least = dtype_int_min(t), range = dtype_int_max(t) - least + 1;
    rig r;
    expr a = {.dtype = t}, e = {.op = op, .dtype = t, .arg = {&a, &a}};
    for (int i = 0; i < COUNT; i++) {
        x[i].i = least + (int64_t)(next(random) >> 1) % range, y[i] = any_cell(random, t);
        if (y[i].i && i % 4) x[i].i = x[i].i / y[i].i * y[i].i + i % 4 - 2;
        put_cell(t, raw[0], i, x[i]), put_cell(t, raw[1], i, y[i]);
        x[i].i = dtype_load_int(t, raw[0], i);
    }
    eval_op(&e, COUNT, (cells[]){{x, 1}, {y, 1}, {y, 1}}, want);
    open_rig(&r, true, 8);
    r.target.arch.divides_floats = true;
    ins *args[] = {load_compute(&r, 0, t, 8), load_compute(&r, 1, t, 8)};
    store_element(&r.b, t, r.ptr[3], r.i, expr_apply(&r.b, &e, args), 8);
    assert_true(has_instruction(r.f->body, L_FDIV));
    run_rig(&r, raw[0], raw[1], raw[1], out, COUNT);
    for (int i = 0; i < COUNT; i++) assert_true(same_cell(&e, want[i], out, i));
}

static void integers_divide_as_floats(void **state) {
    (void)state;
    static const expr_op ops[] = {X_DIV, X_FLOORDIV, X_MOD, X_FMOD};
    random_state r = {0x9e3779b97f4a7c15u};
    for (int k = 0; k < TYPES; k++)
        for (int o = 0; o < 80 && dtype_is_int(types[k]) && dtype_bits(types[k]) <= 32; o++)
            divide_integers(ops[o % 4], types[k], &r);
}

// ---------------------------------------------------------------- rounding to small integers

// to = Round(x) + zero, converted, on targets with and without an instruction for it.
static void round_all(dtype to, double zero, bool add, int lanes, bool direct, const float *x, uint8_t *out,
                      int n, bool expected) {
    rig r;
    expr a = {.dtype = DT_F32}, round = {.op = X_RINT, .dtype = DT_F32, .arg = {&a}},
         sum = {.op = X_ADD, .dtype = DT_F32, .arg = {&a, &a}},
         cast = {.op = X_CAST, .dtype = to, .to = to, .saturate = true, .arg = {&a}};
    open_rig(&r, true, lanes);
    r.target.round_to_int = direct;
    ins *v = load_element(&r.b, DT_F32, r.ptr[0], r.i, lanes);
    v = expr_apply(&r.b, &round, &v);
    if (add) v = expr_apply(&r.b, &sum, (ins *[]){v, lb_float(&r.b, v->type, zero)});
    store_element(&r.b, to, r.ptr[3], r.i, expr_apply(&r.b, &cast, &v), lanes);
    assert_int_equal(has_instruction(r.f->body, L_RINTI), expected);
    run_rig(&r, x, x, x, out, n);
}

// Halves, what is beside them, and what lies out of range.
static void fill_halves(random_state *r, float *x, int n) {
    for (int i = 0; i < n; i++) {
        float half = (float)((int)(next(r) % 1400) - 700) / 2;
        if (i < SPECIALS) x[i] = (float)special[i];
        else if (i % 4 == 0) x[i] = half;
        else if (i % 4 == 1) x[i] = nextafterf(half, next(r) % 2 ? INFINITY : -INFINITY);
        else if (i % 4 == 2) x[i] = (float)(uniform(r) * 70000);
        else x[i] = (float)any_float(r, false);
    }
}

static void check_rounding(dtype to, double zero, bool add, bool direct) {
    enum { N = 2048 };
    static float x[N];
    static uint8_t want[8 * N], got[8 * N];
    random_state r = {(uint64_t)to * 1000 + (uint64_t)(zero + 5000)};
    fill_halves(&r, x, N);
    memset(want, 1, sizeof want), memset(got, 1, sizeof got);
    round_all(to, zero, add, 1, false, x, want, N, false);
    for (int lanes = 2; lanes <= 32; lanes *= 2) {
        round_all(to, zero, add, lanes, true, x, got, N, direct && lanes >= 4);
        assert_memory_equal(got, want, sizeof want);
    }
}

static void rounding_to_integers_keeps_values(void **state) {
    (void)state;
    static const dtype unsigned_types[] = {DT_U8, DT_U16}, signed_types[] = {DT_I8, DT_I16},
                       others[] = {DT_I32, DT_U32, DT_I64};
    static const double zeros[] = {0, 3, 128, 255, -7, 65535, 65536};
    for (int t = 0; t < 2; t++) {
        for (int z = 0; z < 7; z++) check_rounding(unsigned_types[t], zeros[z], true, true);
        check_rounding(unsigned_types[t], 0.5, true, false);
        check_rounding(unsigned_types[t], 65537, true, false);
        check_rounding(unsigned_types[t], INFINITY, true, false);
        check_rounding(unsigned_types[t], NAN, true, false);
        check_rounding(unsigned_types[t], 0, false, true);
        check_rounding(signed_types[t], 0, false, true);
        check_rounding(signed_types[t], 0, true, true);
        check_rounding(signed_types[t], 3, true, false); // a NaN becomes 0, whatever is added
    }
    for (int t = 0; t < 3; t++) check_rounding(others[t], 0, false, false);
}

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "--table")) return print_table();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f32_functions_with_fma),
        cmocka_unit_test(f32_functions_without_fma),
        cmocka_unit_test(f64_functions_with_fma),
        cmocka_unit_test(f64_functions_without_fma),
        cmocka_unit_test(coarse_exp_is_near),
        cmocka_unit_test(weights_are_near),
        cmocka_unit_test(functions_in_integers_are_near),
        cmocka_unit_test(functions_by_tables_are_near),
        cmocka_unit_test(loads_are_exact),
        cmocka_unit_test(stores_round_like_dtype),
        cmocka_unit_test(expressions_agree_with_eval),
        cmocka_unit_test(casts_agree_with_eval),
        cmocka_unit_test(constants_divide_exactly),
        cmocka_unit_test(integers_divide_as_floats),
        cmocka_unit_test(rounding_to_integers_keeps_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
