// The LLVM backend: functions built by hand are compiled for several CPU levels, loaded, run and compared
// with what C says; objects for other machines are looked at.
#include "codegen/llvm/llvm.h"
#include "codegen/llvm/load.h"
#include "codegen/object/elf.h"
#include "codegen/target/targets.h"
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

enum { PAGE = 4096 };

typedef struct bench {
    arena *arena;
    diag diag;
    target *target;
    lmodule *module;
    lfunc *f;
    lbuild b;
    const char *message, *hint; // of the last one
} bench;

static void remember(void *user, const diag_message *m) {
    ((bench *)user)->message = m->text;
    ((bench *)user)->hint = m->hint ? m->hint : "";
}

// One function "f" of pointers a, b, c and an index n is being built.
static bench *begin(const char *triple, const char *cpu) {
    arena *a = arena_new();
    bench *t = ARENA_NEW(a, bench);
    t->arena = a;
    t->diag = (diag){.arena = a, .sink = remember, .user = t};
    target_options o = {.triple = triple, .cpu = cpu, .fp = FP_DEFAULT};
    t->target = target_from_options(a, &t->diag, &o);
    t->module = lmodule_new(a, "unit", t->target);
    t->f = lfunc_new(t->module, "f", lt(LK_VOID, 1));
    t->f->exported = true;
    return t;
}

static ins *pointer(bench *t, const char *name, lkind k) {
    return lfunc_param(t->f, name, lt_ptr(), k, DT_NONE, false);
}
static ins *number(bench *t, const char *name) {
    return lfunc_param(t->f, name, lt(lindex_kind(t->target), 1), LK_VOID, DT_I64, false);
}
static lbuild *body(bench *t) {
    t->b = lbuild_new(t->f, t->target, &t->diag);
    return &t->b;
}

typedef void fn3(void *a, void *b, void *c, int64_t n);

static fn3 *finish(bench *t) {
    lb_return(&t->b, NULL);
    loaded *l = load_module(t->arena, &t->diag, t->module, NULL, 0);
    fn3 *f = (fn3 *)(uintptr_t)loaded_symbol(l, "f");
    assert_non_null(f);
    return f;
}

// The levels that this machine has.
static const char *const levels[] = {"x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4", "native"};
enum { LEVELS = sizeof levels / sizeof *levels };

static bool runs(const char *cpu) {
    bench *t = begin(NULL, cpu);
    bool yes = target_runs_here(t->arena, &t->diag, t->target);
    arena_destroy(t->arena);
    return yes;
}

static void at_all_levels(void (*check)(const char *cpu)) {
#if defined __x86_64__
    for (int i = 0; i < LEVELS; i++)
        if (runs(levels[i])) check(levels[i]);
#else
    check("native");
#endif
}

// n bytes that end where memory ends: touching more is a crash.
static char *at_edge(size_t n) {
    char *m = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(m != MAP_FAILED);
    assert_int_equal(mprotect(m + PAGE, PAGE, PROT_NONE), 0);
    return m + PAGE - n;
}

// ---------------------------------------------------------------- targets
typedef struct want {
    const char *triple, *cpu, *flags[3]; // gcc's
    const char *normal;                  // start of the normalised triple
    int bits;
    bool f32, f64, fma, avx512, vnni, freestanding;
    const char *abi; // or float ABI
} want;

static void test_targets(void **state) {
    (void)state;
    static const want all[] = {
        {"x86_64-linux-gnu", NULL, {0}, "x86_64-unknown-linux", 128, .f32 = true, .f64 = true},
        {"x86_64-linux-gnu", "x86-64-v3", {0}, "x86_64", 256, .f32 = true, .f64 = true, .fma = true},
        {"x86_64-linux-gnu",
         NULL,
         {"-march=x86-64-v4"},
         "x86_64",
         512,
         .f32 = true,
         .f64 = true,
         .fma = true,
         .avx512 = true},
        {"x86_64-linux-gnu",
         NULL,
         {"-mavx2", "-mfma", "-mno-sse4a"},
         "x86_64",
         256,
         .f32 = true,
         .f64 = true,
         .fma = true},
        {"x86_64-linux-gnu",
         "alderlake",
         {0},
         "x86_64",
         256,
         .f32 = true,
         .f64 = true,
         .fma = true,
         .vnni = true},
        {"x86_64-linux-gnu", NULL, {"-m32"}, "i686", 128, .f32 = true, .f64 = true},
        {"aarch64-linux-gnu",
         NULL,
         {"-mcpu=cortex-a53+nocrypto"},
         "aarch64",
         128,
         .f32 = true,
         .f64 = true,
         .fma = true},
        {"aarch64-linux-gnu",
         "neoverse-v1",
         {0},
         "aarch64",
         128,
         .f32 = true,
         .f64 = true,
         .fma = true,
         .vnni = true},
        {NULL, NULL, {"-mcpu=cortex-m0"}, "thumbv6m", 0, .freestanding = true, .abi = "soft"},
        {"arm-none-eabi",
         NULL,
         {"-mcpu=cortex-m4", "-mthumb"},
         "thumbv7em",
         0,
         .freestanding = true,
         .abi = "soft"},
        {"arm-none-eabi",
         NULL,
         {"-mcpu=cortex-m4", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"},
         "thumbv7em-unknown-none-eabihf",
         0,
         .f32 = true,
         .fma = true,
         .freestanding = true,
         .abi = "hard"},
        {"thumbv7em-none-eabihf",
         NULL,
         {"-march=armv7e-m+fp"},
         "thumbv7em-unknown-none-eabihf",
         0,
         .f32 = true,
         .fma = true,
         .freestanding = true,
         .abi = "hard"},
        {"arm-none-eabi",
         "cortex-m33",
         {"-mfloat-abi=softfp"},
         "thumbv8m.main",
         0,
         .f32 = true,
         .fma = true,
         .freestanding = true,
         .abi = "softfp"},
        {"arm-none-eabihf",
         "cortex-m55",
         {0},
         "thumbv8.1m.main",
         128,
         .f32 = true,
         .f64 = true,
         .fma = true,
         .freestanding = true,
         .abi = "hard"},
        {"arm-linux-gnueabihf", NULL, {0}, "armv7a", 0, .f32 = true, .f64 = true, .abi = "hard"},
        {"riscv64-linux-gnu", NULL, {0}, "riscv64", 0, .f32 = true, .f64 = true, .fma = true, .abi = "lp64d"},
        {"riscv64-linux-gnu",
         NULL,
         {"-march=rv64gcv_zvl256b"},
         "riscv64",
         512,
         .f32 = true,
         .f64 = true,
         .fma = true,
         .abi = "lp64d"},
        {"riscv32-none-elf",
         NULL,
         {"-march=rv32imafc", "-mabi=ilp32"},
         "riscv32",
         0,
         .f32 = true,
         .fma = true,
         .freestanding = true,
         .abi = "ilp32"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const want *w = &all[i];
        arena *a = arena_new();
        bench *t = ARENA_NEW(a, bench);
        t->diag = (diag){.arena = a, .sink = remember, .user = t};
        target_options o = {.triple = w->triple, .cpu = w->cpu, .fp = FP_DEFAULT};
        for (int k = 0; k < 3 && w->flags[k]; k++) VEC_PUSH(a, &o.machine, w->flags[k]);
        const target *g = target_from_options(a, &t->diag, &o);
        assert_memory_equal(g->triple, w->normal, strlen(w->normal));
        assert_int_equal(g->vector_bits, w->bits);
        if (g->f32 != w->f32 || g->f64 != w->f64 || g->fma != w->fma || g->avx512 != w->avx512 ||
            g->vnni != w->vnni)
            fail_msg("%s %s: f32 %d f64 %d fma %d avx512 %d vnni %d", g->triple, g->cpu, g->f32, g->f64,
                     g->fma, g->avx512, g->vnni);
        assert_int_equal(g->freestanding, w->freestanding);
        assert_int_equal(g->threads == 1, w->freestanding);
        if (w->abi) assert_string_equal(g->float_abi ? g->float_abi : g->abi, w->abi);
        arena_destroy(a);
    }
}

// Fails with that class and a message that holds both texts.
static void check_refused(target_options o, diag_class class, const char *text, const char *hint) {
    arena *a = arena_new();
    bench *t = ARENA_NEW(a, bench);
    t->diag = (diag){.arena = a, .sink = remember, .user = t};
    jmp_buf jump;
    if (DIAG_TRY(&t->diag, jump)) {
        target_from_options(a, &t->diag, &o);
        fail_msg("not refused: %s", text);
    }
    assert_int_equal(t->diag.class, class);
    if (!strstr(t->message, text)) fail_msg("%s", t->message);
    if (hint) assert_non_null(strstr(t->hint, hint));
    arena_destroy(a);
}

// What LLVM holds when it gives up is lost: the guard leaves its frames by longjmp.
#ifdef __SANITIZE_ADDRESS__
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) { return "leak:libLLVM"; }
#endif

static void test_target_errors(void **state) {
    (void)state;
    check_refused((target_options){.cpu = "haswel", .triple = "x86_64-linux-gnu"}, DIAG_USER,
                  "unknown CPU 'haswel'", "'haswell'");
    check_refused((target_options){.features = "+avx3", .triple = "x86_64-linux-gnu"}, DIAG_USER,
                  "unknown feature 'avx3'", "'avx2'");
    check_refused((target_options){.features = "avx2", .triple = "x86_64-linux-gnu"}, DIAG_USER,
                  "needs '+' or '-'", NULL);
    check_refused((target_options){.triple = "arm64-apple-ios"}, DIAG_MISSING, "only Linux, Windows", NULL);
    check_refused((target_options){.triple = "powerpc64le-linux-gnu"}, DIAG_MISSING, "are supported", NULL);
    check_refused((target_options){.triple = "aarch64_be-linux-gnu"}, DIAG_MISSING, "big-endian", NULL);
    check_refused((target_options){.triple = "x86_64-linux-gnu", .cpu = "i686"}, DIAG_USER, "64-bit code",
                  NULL);
    check_refused((target_options){.triple = "arm-none-eabihf", .cpu = "cortex-m3"}, DIAG_USER,
                  "no floating point", "--mcpu");
    check_refused((target_options){.opt = "4"}, DIAG_USER, "-O4", NULL);
}

// ---------------------------------------------------------------- structure
// c[i] = sum of a[0..i] while b[i] is not negative, for i = 0, 2, 4 ... below n; odd ones get -1
static void check_structure(const char *cpu) {
    bench *t = begin(NULL, cpu);
    ins *a = pointer(t, "a", LK_F32), *flags = pointer(t, "b", LK_I32), *c = pointer(t, "c", LK_F32);
    ins *n = number(t, "n");
    lbuild *b = body(t);
    ins *i = lb_for(b, "i", lb_idx(b, 0), n, lb_idx(b, 2), LOOP_SERIAL);
    ins *sum = lb_var(b, "sum", lb_float(b, lt(LK_F32, 1), 0)), *k = lb_var(b, "k", lb_idx(b, 0));
    ins *loop = lb_loop(b);
    lb_break(b, lb_cmp(b, L_SLT, i, lb_get(b, k)));
    ins *skip = lb_if(
        b, lb_cmp(b, L_SLT, lb_load(b, lt(LK_I32, 1), flags, lb_get(b, k), 0), lb_int(b, lt(LK_I32, 1), 0)));
    lb_set(b, sum, lb_float(b, lt(LK_F32, 1), 100));
    lb_else(b, skip);
    lb_set(b, sum, lb_bin(b, L_ADD, lb_get(b, sum), lb_load(b, lt(LK_F32, 1), a, lb_get(b, k), 0)));
    lb_end(b, skip);
    lb_set(b, k, lb_bin(b, L_ADD, lb_get(b, k), lb_idx(b, 1)));
    lb_end(b, loop);
    lb_store(b, c, i, lb_get(b, sum), 0);
    lb_store(b, c, lb_bin(b, L_ADD, i, lb_idx(b, 1)), lb_float(b, lt(LK_F32, 1), -1), 0);
    lb_end(b, i);
    fn3 *f = finish(t);
    float in[6] = {1, 2, 3, 4, 5, 6}, out[6] = {0};
    int32_t flag[6] = {0, 0, 0, -1, 0, 0};
    f(in, flag, out, 0);
    assert_true(out[0] == 0);
    f(in, flag, out, 5);
    const float expected[6] = {1, -1, 6, -1, 105, -1};
    assert_memory_equal(out, expected, sizeof out);
    arena_destroy(t->arena);
}
#if defined __x86_64__
#define REPEATED "+sse2" // changes nothing but the list's text
#else
#define REPEATED "+neon"
#endif

// What is read off this machine's list of features is what LLVM says when it is asked.
static void test_native_facts(void **state) {
    (void)state;
    bench *t = begin(NULL, "native");
    target_options o = {.cpu = "native", .features = REPEATED};
    const target *read = t->target, *asked = target_from_options(t->arena, &t->diag, &o);
    assert_string_not_equal(read->features, asked->features);
    assert_int_equal(read->vector_bits, asked->vector_bits);
    assert_int_equal(read->vector_regs, asked->vector_regs);
    bool a[] = {read->f32,  read->f64,    read->fma,    read->f16_convert, read->round_instr,
                read->vnni, read->masked, read->avx512, read->amx_int8,    read->amx_bf16};
    bool b[] = {asked->f32,  asked->f64,    asked->fma,    asked->f16_convert, asked->round_instr,
                asked->vnni, asked->masked, asked->avx512, asked->amx_int8,    asked->amx_bf16};
    assert_memory_equal(a, b, sizeof a);
    arena_destroy(t->arena);
}

// The facts of every level are those of a target that differs by a feature which the level has anyway: LLVM is asked about it.
static void check_level_facts(const char *triple, const char *has) {
    bench *t = begin(triple, NULL);
    for (const cpu_level *l = t->target->arch.levels; l->name; l++) {
        const target *known = target_with_cpu(t->arena, &t->diag, t->target, l->name);
        const char *name = arena_printf(t->arena, "%s+%s", l->name, has);
        target asked = *target_with_cpu(t->arena, &t->diag, t->target, name);
        assert_null(asked.level);
        asked.level = known->level;
        asked.compact = known->compact;
        asked.features = known->features;
        asked.cpu = known->cpu;
        assert_memory_equal(&asked, known, sizeof asked);
    }
    arena_destroy(t->arena);
}

static void test_level_facts(void **state) {
    (void)state;
    check_level_facts("x86_64-linux-gnu", "sse2");
    check_level_facts("aarch64-linux-gnu", "neon");
}

static void test_structure(void **state) { (void)state, at_all_levels(check_structure); }

// An unrolled loop equals a rolled one; a block after a return is dropped; calls go by name and by pointer.
static void check_calls(const char *cpu) {
    bench *t = begin(NULL, cpu);
    lfunc *g = lfunc_new(t->module, "helper", lt(LK_I32, 1));
    ins *x = lfunc_param(g, "x", lt(LK_I32, 1), LK_VOID, DT_I32, false);
    lbuild gb = lbuild_new(g, t->target, &t->diag);
    ins *negative = lb_if(&gb, lb_cmp(&gb, L_SLT, x, lb_int(&gb, lt(LK_I32, 1), 0)));
    lb_return(&gb, lb_int(&gb, lt(LK_I32, 1), -7));
    lb_end(&gb, negative);
    lb_return(&gb, lb_bin(&gb, L_MUL, x, lb_int(&gb, lt(LK_I32, 1), 3)));
    ins *a = pointer(t, "a", LK_I32), *c = (pointer(t, "b", LK_I32), pointer(t, "c", LK_I32));
    lbuild *b = body(t);
    ins *i = lb_for(b, "i", lb_idx(b, 1), lb_idx(b, 8), lb_idx(b, 3), LOOP_UNROLL);
    ins *v = lb_load(b, lt(LK_I32, 1), a, i, 0);
    ins *by_name = lb_call(b, lt(LK_I32, 1), "helper", 1, &v);
    ins *by_pointer = lb_op(b, L_CALLPTR, lt(LK_I32, 1), 2, (ins *[]){lb_symbol(b, "helper"), by_name});
    lb_store(b, c, i, by_pointer, 0);
    lb_end(b, i);
    fn3 *f = finish(t);
    int32_t in[8] = {0, 5, 0, 0, -4, 0, 0, 2}, out[8] = {0};
    f(in, NULL, out, 0);
    const int32_t expected[8] = {0, 45, 0, 0, -7, 0, 0, 18};
    assert_memory_equal(out, expected, sizeof out);
    arena_destroy(t->arena);
}
static void test_calls(void **state) { (void)state, at_all_levels(check_calls); }

// ---------------------------------------------------------------- arithmetic
static void check_floats(const char *cpu) {
    enum { N = 16 };
    static const lop ops[] = {L_ADD, L_SUB, L_MUL, L_FDIV, L_FMIN, L_FMAX};
    bench *t = begin(NULL, cpu);
    ins *pa = pointer(t, "a", LK_F32), *pb = pointer(t, "b", LK_F32), *pc = pointer(t, "c", LK_F32);
    lbuild *b = body(t);
    ins *x = lb_load(b, lt(LK_F32, N), pa, lb_idx(b, 0), 0),
        *y = lb_load(b, lt(LK_F32, N), pb, lb_idx(b, 0), 0);
    int at = 0;
    for (int i = 0; i < 6; i++) lb_store(b, pc, lb_idx(b, N * at++), lb_bin(b, ops[i], x, y), 0);
    lb_store(b, pc, lb_idx(b, N * at++), lb_un(b, L_FNEG, x), 0);
    lb_store(b, pc, lb_idx(b, N * at++), lb_un(b, L_FABS, x), 0);
    lb_store(b, pc, lb_idx(b, N * at++), lb_un(b, L_SQRT, y), 0);
    lb_store(b, pc, lb_idx(b, N * at++), lb_select(b, lb_cmp(b, L_SLE, x, y), x, y), 0);
    lb_store(b, pc, lb_idx(b, N * at), lb_hreduce(b, L_HADD, x), 0);
    lb_store(b, pc, lb_idx(b, N * at + 1), lb_hreduce(b, L_HSMAX, y), 0);
    fn3 *f = finish(t);
    float in[N] = {-3, 2.5f, NAN, 0, -0.f, INFINITY, 7, 1e-30f, 4, 4, 4, 4, 4, 4, 4, 4}, c[11 * N];
    float other[N] = {2, 2, 2, -0.f, 0, 3, NAN, 1e30f, 1, 2, 3, 4, 5, 6, 7, 8};
    f(in, other, c, 0);
    for (int i = 0; i < N; i++) {
        float u = in[i], v = other[i];
        float expected[10] = {u + v,         u - v, u * v,    u / v,    u < v ? u : v,
                              u > v ? u : v, -u,    fabsf(u), sqrtf(v), u <= v ? u : v};
        for (int k = 0; k < 10; k++) {
            if (expected[k] != expected[k]) assert_true(c[N * k + i] != c[N * k + i]);
            else assert_memory_equal(&c[N * k + i], &expected[k], sizeof(float));
        }
    }
    assert_true(isnan(c[10 * N]));
    arena_destroy(t->arena);
}
static void test_floats(void **state) { (void)state, at_all_levels(check_floats); }

// Sums of lanes are added in one order everywhere: halves onto halves.
static void check_reductions(const char *cpu) {
    bench *t = begin(NULL, cpu);
    ins *pa = pointer(t, "a", LK_F32), *pb = pointer(t, "b", LK_I32), *pc = pointer(t, "c", LK_F32);
    lbuild *b = body(t);
    ins *x = lb_load(b, lt(LK_F32, 8), pa, lb_idx(b, 0), 0),
        *y = lb_load(b, lt(LK_I32, 8), pb, lb_idx(b, 0), 0);
    lb_store(b, pc, lb_idx(b, 0), lb_hreduce(b, L_HADD, x), 0);
    lb_store(b, pc, lb_idx(b, 1), lb_hreduce(b, L_HSMIN, x), 0);
    static const lop ops[] = {L_HADD, L_HMUL, L_HSMIN, L_HSMAX, L_HUMIN, L_HUMAX, L_HOR, L_HAND};
    for (int i = 0; i < 8; i++) lb_store(b, pb, lb_idx(b, 8 + i), lb_hreduce(b, ops[i], y), 0);
    ins *any = lb_hreduce(b, L_HOR, lb_cmp(b, L_EQ, y, lb_int(b, lt(LK_I32, 8), 9)));
    lb_store(b, pb, lb_idx(b, 16), lb_conv(b, L_ZEXT, LK_I32, any), 0);
    fn3 *f = finish(t);
    float x8[8] = {1e8f, 1, -1e8f, 3, 0.25f, 1e-3f, 7, 1e5f}, out[2];
    int32_t y8[17] = {3, -5, 9, 1, 7, 2, -1, 4};
    f(x8, y8, out, 0);
    float half[4];
    for (int i = 0; i < 4; i++) half[i] = x8[i] + x8[i + 4];
    assert_true(out[0] == (half[0] + half[2]) + (half[1] + half[3]));
    assert_true(out[1] == -1e8f);
    const int32_t expected[9] = {20, 3 * -5 * 9 * 7 * 2 * -1 * 4, -5, 9, 1, -1, -1, 0, 1};
    assert_memory_equal(y8 + 8, expected, sizeof expected);
    arena_destroy(t->arena);
}
static void test_reductions(void **state) { (void)state, at_all_levels(check_reductions); }

static void check_ints(const char *cpu) {
    enum { N = 8, OPS = 16 };
    static const lop ops[OPS] = {L_ADD,  L_SUB,  L_MUL,  L_SDIV, L_UDIV, L_SREM, L_UREM, L_SMIN,
                                 L_SMAX, L_UMIN, L_UMAX, L_AND,  L_OR,   L_XOR,  L_LSHR, L_ASHR};
    bench *t = begin(NULL, cpu);
    ins *pa = pointer(t, "a", LK_I32), *pb = pointer(t, "b", LK_I32), *pc = pointer(t, "c", LK_I32);
    lbuild *b = body(t);
    ins *x = lb_load(b, lt(LK_I32, N), pa, lb_idx(b, 0), 0),
        *y = lb_load(b, lt(LK_I32, N), pb, lb_idx(b, 0), 0);
    for (int i = 0; i < OPS; i++) lb_store(b, pc, lb_idx(b, N * i), lb_bin(b, ops[i], x, y), 0);
    fn3 *f = finish(t);
    int32_t in[N] = {-7, 100, INT32_MIN, INT32_MAX, 5, -1, 0, 12}, by[N] = {2, 7, 3, 1, 31, 4, 5, 12},
            c[OPS * N];
    f(in, by, c, 0);
    for (int i = 0; i < N; i++) {
        int32_t u = in[i], v = by[i];
        uint32_t p = (uint32_t)u, q = (uint32_t)v;
        int64_t expected[OPS] = {p + q, p - q,         p * q,         u / v,         p / q,         u % v,
                                 p % q, u < v ? u : v, u > v ? u : v, p < q ? p : q, p > q ? p : q, u & v,
                                 u | v, u ^ v,         p >> q,        u >> v};
        for (int k = 0; k < OPS; k++) assert_int_equal(c[N * k + i], (int32_t)expected[k]);
    }
    arena_destroy(t->arena);
}
static void test_ints(void **state) { (void)state, at_all_levels(check_ints); }

static void check_conversions(const char *cpu) {
    enum { N = 4 };
    bench *t = begin(NULL, cpu);
    ins *pa = pointer(t, "a", LK_I8), *pb = pointer(t, "b", LK_F32), *pc = pointer(t, "c", LK_I64);
    lbuild *b = body(t);
    ins *x = lb_load(b, lt(LK_I8, N), pa, lb_idx(b, 0), 0),
        *y = lb_load(b, lt(LK_F32, N), pb, lb_idx(b, 0), 0);
    lb_store(b, pc, lb_idx(b, 0), lb_conv(b, L_SEXT, LK_I64, x), 0);
    lb_store(b, pc, lb_idx(b, 4), lb_conv(b, L_ZEXT, LK_I64, x), 0);
    lb_store(b, pc, lb_idx(b, 8), lb_conv(b, L_SEXT, LK_I64, lb_conv(b, L_FTOSI, LK_I32, y)), 0);
    lb_store(b, pc, lb_idx(b, 12), lb_conv(b, L_SEXT, LK_I64, lb_cmp(b, L_NE, y, y)), 0);
    ins *wide = lb_conv(b, L_FEXT, LK_F64, lb_conv(b, L_SITOF, LK_F32, x));
    lb_store(b, pc, lb_idx(b, 16), lb_bitcast(b, lt(LK_I64, N), wide), 0);
    fn3 *f = finish(t);
    int8_t in[N] = {-3, 127, -128, 5};
    float y4[N] = {-2.9f, 2.9f, 1e6f, NAN};
    int64_t c[20];
    y4[3] = 3;
    f(in, y4, c, 0);
    for (int i = 0; i < N; i++) {
        double d = in[i];
        int64_t bits;
        memcpy(&bits, &d, 8);
        assert_int_equal(c[i], in[i]);
        assert_int_equal(c[4 + i], (uint8_t)in[i]);
        assert_int_equal(c[8 + i], (int32_t)y4[i]);
        assert_int_equal(c[12 + i], 0);
        assert_int_equal(c[16 + i], bits);
    }
    arena_destroy(t->arena);
}
static void test_conversions(void **state) { (void)state, at_all_levels(check_conversions); }

// From f32 to integers with halves to even, by whole vectors.
static void check_rounding(const char *cpu, int lanes) {
    bench *t = begin(NULL, cpu);
    if (lanes * 32 <= t->target->vector_bits && t->target->round_to_int) {
        ins *from = pointer(t, "a", LK_F32), *to = pointer(t, "b", LK_I32);
        pointer(t, "c", LK_I32);
        lbuild *b = body(t);
        ins *x = lb_load(b, lt(LK_F32, lanes), from, lb_idx(b, 0), 0);
        lb_store(b, to, lb_idx(b, 0), lb_conv(b, L_RINTI, LK_I32, x), 0);
        fn3 *f = finish(t);
        for (int start = -40; start < 40; start += lanes) {
            float in[16];
            int32_t out[16];
            for (int i = 0; i < lanes; i++) in[i] = (float)(start + i) / 4 + (i % 3 ? 0 : 1e6f);
            f(in, out, NULL, 0);
            for (int i = 0; i < lanes; i++) assert_int_equal(out[i], (int)rintf(in[i]));
        }
    }
    arena_destroy(t->arena);
}
// Words looked up in a vector: only the low bits of a position count.
static void check_permutation(const char *cpu) {
    enum { MOST = 16 };
    bench *t = begin(NULL, cpu);
    int n = t->target->permuted_words;
    if (n) {
        ins *from = pointer(t, "a", LK_F32), *at = pointer(t, "b", LK_I32), *to = pointer(t, "c", LK_F32);
        lbuild *b = body(t);
        ins *table = lb_load(b, lt(LK_F32, n), from, lb_idx(b, 0), 0);
        ins *places = lb_load(b, lt(LK_I32, n), at, lb_idx(b, 0), 0);
        lb_store(b, to, lb_idx(b, 0), lb_permute(b, table, places), 0);
        fn3 *f = finish(t);
        float in[MOST], out[MOST];
        int32_t place[MOST];
        for (int i = 0; i < n; i++)
            in[i] = (float)i / 4, place[i] = (i * 7 + 3) * 16 + (n - 1 - i) - (i % 2 << 30);
        f(in, place, out, 0);
        for (int i = 0; i < n; i++) assert_true(out[i] == in[n - 1 - i]);
    }
    arena_destroy(t->arena);
}
static void test_permutations(void **state) { (void)state, at_all_levels(check_permutation); }

static void check_roundings(const char *cpu) {
    for (int lanes = 4; lanes <= 16; lanes *= 2) check_rounding(cpu, lanes);
}
static void test_roundings(void **state) { (void)state, at_all_levels(check_roundings); }

// By powers of two, into denormal numbers, too: rounded once.
static void check_scaling(const char *cpu, int lanes) {
    bench *t = begin(NULL, cpu);
    if (t->target->scale_instr) {
        ins *from = pointer(t, "a", LK_F32), *by = pointer(t, "b", LK_F32), *to = pointer(t, "c", LK_F32);
        lbuild *b = body(t);
        ins *x = lb_load(b, lt(LK_F32, lanes), from, lb_idx(b, 0), 0);
        ins *n = lb_load(b, lt(LK_F32, lanes), by, lb_idx(b, 0), 0);
        lb_store(b, to, lb_idx(b, 0), lb_bin(b, L_SCALE, x, n), 0);
        fn3 *f = finish(t);
        for (int start = -320; start < 320; start += lanes) {
            float in[16], power[16], out[16];
            for (int i = 0; i < lanes; i++)
                in[i] = 1 + (float)(7 * i + 1) / 128, power[i] = (float)(start + i);
            in[1] = NAN;
            f(in, power, out, 0);
            for (int i = 0; i < lanes; i++) {
                float want = ldexpf(in[i], start + i);
                assert_true(i == 1 ? isnan(out[i]) : out[i] == want);
            }
        }
    }
    arena_destroy(t->arena);
}
static void check_scalings(const char *cpu) {
    for (int lanes = 4; lanes <= 16; lanes *= 2) check_scaling(cpu, lanes);
}
static void test_scalings(void **state) { (void)state, at_all_levels(check_scalings); }

static void check_lanes(const char *cpu) {
    bench *t = begin(NULL, cpu);
    ins *pa = pointer(t, "a", LK_I32), *pc = (pointer(t, "b", LK_I32), pointer(t, "c", LK_I32));
    lbuild *b = body(t);
    ins *x = lb_load(b, lt(LK_I32, 4), pa, lb_idx(b, 0), 0), *iota = lb_iota(b, lt(LK_I32, 4));
    lb_store(b, pc, lb_idx(b, 0), lb_shuffle(b, x, iota, (int[]){3, 4, 0, 7, 1, 1, 2, 6}, 8), 0);
    lb_store(b, pc, lb_idx(b, 8), lb_insert(b, x, lb_extract(b, x, 3), 0), 0);
    ins *copy = lb_local(b, LK_I32, 8, 32, false);
    lb_store(b, copy, lb_idx(b, 1), x, 0);
    ins *at = lb_bin(b, L_SUB, lb_idx(b, 4), lb_conv(b, L_SEXT, LK_I64, lb_iota(b, lt(LK_I32, 4))));
    ins *reversed = lb_gather(b, lt(LK_I32, 4), copy, at);
    lb_store(b, pc, lb_idx(b, 12), reversed, 0);
    lb_scatter(b, pc, lb_bin(b, L_ADD, at, lb_idx(b, 15)), reversed);
    lb_store(b, pc, lb_idx(b, 20), lb_field(b, lt(LK_I32, 1), pa, "third", 8), 0);
    lb_setfield(b, pc, "last", 84, lb_int(b, lt(LK_I32, 1), 77));
    fn3 *f = finish(t);
    int32_t in[4] = {10, 20, 30, 40}, c[22] = {0};
    f(in, NULL, c, 0);
    const int32_t expected[22] = {40, 0,  10, 3,  20, 20, 30, 2,  40, 20, 30,
                                  40, 40, 30, 20, 10, 10, 20, 30, 40, 30, 77};
    assert_memory_equal(c, expected, sizeof c);
    arena_destroy(t->arena);
}
static void test_lanes(void **state) { (void)state, at_all_levels(check_lanes); }

// ---------------------------------------------------------------- partial vectors
static void check_partial_of(const char *cpu, lkind k, int lanes) {
    bench *t = begin(NULL, cpu);
    ins *a = pointer(t, "a", k), *whole = pointer(t, "b", k), *c = pointer(t, "c", k), *n = number(t, "n");
    lbuild *b = body(t);
    ins *v = lb_loadn(b, lt(k, lanes), a, lb_idx(b, 0), n);
    lb_store(b, whole, lb_idx(b, 0), v, 0);
    lb_storen(b, c, lb_idx(b, 0), v, n);
    fn3 *f = finish(t);
    size_t size = (size_t)lkind_bytes(k);
    for (int64_t i = -1; i <= lanes + 1; i++) {
        size_t live = i < 0 ? 0 : i > lanes ? (size_t)lanes * size : (size_t)i * size;
        char *in = at_edge(live), *out = at_edge(live), full[64 * 8], expected[64 * 8] = {0};
        for (size_t p = 0; p < live; p++) expected[p] = in[p] = (char)(p * 7 + 1);
        memset(full, 0x55, sizeof full);
        f(in, full, out, i);
        assert_memory_equal(full, expected, (size_t)lanes * size);
        assert_memory_equal(out, expected, live);
        munmap(in + live - PAGE, 2 * PAGE);
        munmap(out + live - PAGE, 2 * PAGE);
    }
    arena_destroy(t->arena);
}

static void check_partial(const char *cpu) {
    check_partial_of(cpu, LK_F32, 16);
    check_partial_of(cpu, LK_F32, 4);
    check_partial_of(cpu, LK_F64, 8);
    check_partial_of(cpu, LK_I8, 64);
    check_partial_of(cpu, LK_I16, 16);
    check_partial_of(cpu, LK_I64, 4);
}
static void test_partial(void **state) { (void)state, at_all_levels(check_partial); }

// ---------------------------------------------------------------- dot products
static int32_t dot_of(lop op, int32_t acc, uint32_t x, uint32_t y) {
    uint32_t sum = (uint32_t)acc;
    bool halves = op == L_DOT2 || op == L_DOT2_S8 || op == L_DOT2_U8;
    for (int j = 0; j < 4 && !halves; j++) {
        bool first = op == L_DOT4_SS, second = op != L_DOT4_UU;
        int32_t u = first ? (int8_t)(x >> 8 * j) : (uint8_t)(x >> 8 * j);
        int32_t v = second ? (int8_t)(y >> 8 * j) : (uint8_t)(y >> 8 * j);
        sum += (uint32_t)(u * v);
    }
    for (int j = 0; j < 2 && halves; j++) {
        uint32_t v = y >> 16 * j;
        int32_t factor = op == L_DOT2 ? (int16_t)v : op == L_DOT2_S8 ? (int8_t)v : (uint8_t)v;
        sum += (uint32_t)((int16_t)(x >> 16 * j) * factor);
    }
    return (int32_t)sum;
}

static void check_dots_of(const char *cpu, int lanes) {
    static const lop ops[] = {L_DOT4_US, L_DOT4_SS, L_DOT4_UU, L_DOT2, L_DOT2_S8, L_DOT2_U8};
    enum { OPS = sizeof ops / sizeof *ops };
    bench *t = begin(NULL, cpu);
    ins *pa = pointer(t, "a", LK_I32), *pb = pointer(t, "b", LK_I32), *pc = pointer(t, "c", LK_I32);
    lbuild *b = body(t);
    ins *x = lb_load(b, lt(LK_I32, lanes), pa, lb_idx(b, 0), 0),
        *y = lb_load(b, lt(LK_I32, lanes), pb, lb_idx(b, 0), 0);
    for (int i = 0; i < OPS; i++) {
        ins *acc = lb_load(b, lt(LK_I32, lanes), pc, lb_idx(b, i * lanes), 0);
        lb_store(b, pc, lb_idx(b, i * lanes), lb_dot(b, ops[i], acc, x, y), 0);
    }
    fn3 *f = finish(t);
    uint32_t u[32], v[32];
    int32_t c[OPS * 32], expected[OPS * 32];
    for (int i = 0; i < lanes; i++) {
        u[i] = i == 0 ? 0xffffffffu : i == 1 ? 0x80808080u : (uint32_t)i * 2654435761u;
        v[i] = i == 0 ? 0x7f7f7f7fu : i == 1 ? 0x80808080u : (uint32_t)i * 2246822519u;
        for (int k = 0; k < OPS; k++) {
            c[k * lanes + i] = i * 1000 - 7;
            expected[k * lanes + i] = dot_of(ops[k], c[k * lanes + i], u[i], v[i]);
        }
    }
    f(u, v, c, 0);
    assert_memory_equal(c, expected, OPS * (size_t)lanes * sizeof *c);
    arena_destroy(t->arena);
}

static void check_dots(const char *cpu) {
    static const int lanes[] = {1, 2, 3, 4, 8, 16, 32};
    for (int i = 0; i < 7; i++) check_dots_of(cpu, lanes[i]);
}
static void test_dots(void **state) { (void)state, at_all_levels(check_dots); }

static bool contains(bytes text, const char *s) { return memmem(text.at, text.n, s, strlen(s)); }

static void test_dot_instruction(void **state) {
    (void)state;
    bench *t = begin("x86_64-linux-gnu", "cascadelake");
    ins *pa = pointer(t, "a", LK_I32);
    lbuild *b = body(t);
    ins *x = lb_load(b, lt(LK_I32, 16), pa, lb_idx(b, 0), 0);
    lb_store(b, pa, lb_idx(b, 0), lb_dot(b, L_DOT4_US, x, x, x), 0);
    lb_return(b, NULL);
    assert_true(contains(llvm_emit(t->module, EMIT_ASM, t->arena, &t->diag), "vpdpbusd"));
    arena_destroy(t->arena);
}

// ---------------------------------------------------------------- data
static void fill_bytes(void *user, int64_t offset, void *to, int64_t n) {
    (void)user;
    for (int64_t i = 0; i < n; i++) ((char *)to)[i] = (char)(offset + i);
}

static void test_data(void **state) {
    (void)state;
    bench *t = begin(NULL, "native");
    ldata small = {.name = "small", .bytes = 4, .align = 4, .bytes_or_null = "abcd"};
    ldata made = {.name = "made", .bytes = 3000, .align = 64, .produce = fill_bytes};
    VEC_PUSH(t->arena, &t->module->data, &small);
    VEC_PUSH(t->arena, &t->module->data, &made);
    ins *c = (pointer(t, "a", LK_I8), pointer(t, "b", LK_I8), pointer(t, "c", LK_I8));
    lbuild *b = body(t);
    lb_store(b, c, lb_idx(b, 0), lb_load(b, lt(LK_I8, 1), lb_symbol(b, "small"), lb_idx(b, 2), 0), 0);
    lb_store(b, c, lb_idx(b, 1), lb_load(b, lt(LK_I8, 1), lb_symbol(b, "made"), lb_idx(b, 2999), 0), 0);
    fn3 *f = finish(t);
    char out[2];
    f(NULL, NULL, out, 0);
    assert_int_equal(out[0], 'c');
    assert_int_equal(out[1], (char)2999);
    arena_destroy(t->arena);
}

static void test_undefined_is_reported(void **state) {
    (void)state;
    bench *t = begin(NULL, "native");
    lbuild *b = body(t);
    lb_call(b, lt(LK_VOID, 1), "onnxc_there_is_no_such_function", 0, NULL);
    lb_return(b, NULL);
    jmp_buf jump;
    if (DIAG_TRY(&t->diag, jump)) {
        load_module(t->arena, &t->diag, t->module, NULL, 0);
        fail();
    }
    assert_int_equal(t->diag.class, DIAG_DEFECT);
    assert_non_null(strstr(t->message, "onnxc_there_is_no_such_function"));
    arena_destroy(t->arena);
}

// ---------------------------------------------------------------- objects for other machines
// c[i] = max(a[i] * b[i] + 0.5, 0) in blocks of the target's vectors and the rest by a partial one
static void build_axpy(bench *t, const char *name) {
    t->f = lfunc_new(t->module, name, lt(LK_VOID, 1));
    t->f->kernel = t->f->noalias = true;
    ins *a = pointer(t, "a", LK_F32), *x = pointer(t, "b", LK_F32), *c = pointer(t, "c", LK_F32),
        *n = number(t, "n");
    lbuild *b = body(t);
    int lanes = target_lanes(t->target, 32);
    ins *half = lb_float(b, lt(LK_F32, lanes), 0.5), *zero = lb_float(b, lt(LK_F32, lanes), 0);
    ins *full = lb_bin(b, L_SUB, n, lb_bin(b, L_AND, n, lb_idx(b, lanes - 1)));
    ins *i = lb_for(b, "i", lb_idx(b, 0), full, lb_idx(b, lanes), LOOP_SERIAL);
    ins *y =
        lb_muladd(b, lb_load(b, lt(LK_F32, lanes), a, i, 0), lb_load(b, lt(LK_F32, lanes), x, i, 0), half);
    lb_store(b, c, i, lb_bin(b, L_FMAX, y, zero), 0);
    lb_end(b, i);
    ins *rest = lb_bin(b, L_SUB, n, full);
    if (lanes > 1) lb_storen(b, c, full, lb_loadn(b, lt(LK_F32, lanes), a, full, rest), rest);
    lb_return(b, NULL);
}

// What any program has: the four functions, and a name that linkers define.
static bool is_always_there(const char *s) {
    return !strcmp(s, "_GLOBAL_OFFSET_TABLE_") || !strcmp(s, "memcpy") || !strcmp(s, "memset") ||
           !strcmp(s, "memmove") || !strcmp(s, "memcmp");
}

static void check_cross(const char *triple, const char *cpu, int bits, int machine) {
    bench *t = begin(triple, cpu);
    build_axpy(t, "kernel");
    lbuild *b = (t->f = t->module->funcs.at[0], pointer(t, "a", LK_F32), body(t));
    ins *args[4] = {t->f->params.at[0].value, t->f->params.at[0].value, t->f->params.at[0].value,
                    lb_idx(b, 99)};
    lb_call(b, lt(LK_VOID, 1), "kernel", 4, args);
    lb_return(b, NULL);
    bytes o = llvm_emit(t->module, EMIT_OBJECT, t->arena, &t->diag);
    elf_file *f = elf_read(t->arena, &t->diag, o, "object");
    assert_int_equal(f->bits, bits);
    assert_int_equal(f->machine, machine);
    bool found = false, stack_note = false;
    for (int i = 0; i < f->symbols.n; i++) {
        const elf_symbol *s = &f->symbols.at[i];
        if (!s->section && !is_always_there(s->name)) fail_msg("%s: undefined %s", triple, s->name);
        found |= !strcmp(s->name, "f") && !s->local && !s->hidden;
    }
    for (int i = 0; i < f->sections.n; i++) stack_note |= !strcmp(f->sections.at[i].name, ".note.GNU-stack");
    assert_true(found && stack_note);
    arena_destroy(t->arena);
}

static void test_cross(void **state) {
    (void)state;
    check_cross("x86_64-linux-gnu", "x86-64", 64, 62);
    check_cross("x86_64-linux-gnu", "x86-64-v4", 64, 62);
    check_cross("i686-linux-gnu", NULL, 32, 3);
    check_cross("aarch64-linux-gnu", NULL, 64, 183);
    check_cross("aarch64-none-elf", "cortex-a53", 64, 183);
    check_cross("thumbv7em-none-eabihf", "cortex-m4", 32, 40);
    check_cross("arm-none-eabihf", "cortex-m7", 32, 40);
    check_cross("arm-none-eabihf", "cortex-m33", 32, 40);
    check_cross("arm-none-eabihf", "cortex-m55", 32, 40);
    check_cross("arm-linux-gnueabihf", "cortex-a7", 32, 40);
    check_cross("riscv64-linux-gnu", NULL, 64, 243);
    check_cross("riscv64-linux-gnu", "sifive-x280", 64, 243);
    check_cross("riscv32-none-elf", "sifive-e76", 32, 243);
}

// What the target says it can do is done without a library: the facts that the legaliser builds on.
static void check_facts(const char *triple, const char *cpu) {
    bench *t = begin(triple, cpu);
    const target *g = t->target;
    ins *p = pointer(t, "a", LK_F32), *q = pointer(t, "b", LK_F64), *h = pointer(t, "c", LK_F16);
    lbuild *b = body(t);
    for (int lanes = 1;; lanes = target_lanes(g, 32)) {
        ltype single = lt(LK_F32, lanes), wide = lt(LK_F64, lanes);
        ins *x = lb_load(b, single, p, lb_idx(b, 0), 0), *y = lb_load(b, wide, q, lb_idx(b, 0), 0);
        if (g->f32)
            lb_store(b, p, lb_idx(b, 1), lb_bin(b, L_FDIV, lb_un(b, L_SQRT, x), lb_bin(b, L_ADD, x, x)), 0);
        if (g->f64)
            lb_store(b, q, lb_idx(b, 1), lb_bin(b, L_FDIV, lb_un(b, L_SQRT, y), lb_bin(b, L_ADD, y, y)), 0);
        if (g->fma) lb_store(b, p, lb_idx(b, 2), lb_op(b, L_FMA, single, 3, (ins *[]){x, x, x}), 0);
        for (int i = 0; g->round_instr && i < 4; i++)
            lb_store(b, p, lb_idx(b, 3 + i), lb_un(b, (lop[]){L_FLOOR, L_CEIL, L_TRUNC, L_RINT}[i], x), 0);
        for (int i = 0; g->round_instr && g->f64 && i < 4; i++)
            lb_store(b, q, lb_idx(b, 3 + i), lb_un(b, (lop[]){L_FLOOR, L_CEIL, L_TRUNC, L_RINT}[i], y), 0);
        if (g->f16_convert) {
            ins *half = lb_load(b, lt(LK_F16, lanes), h, lb_idx(b, 0), 0);
            lb_store(b, p, lb_idx(b, 8), lb_conv(b, L_FEXT, LK_F32, half), 0);
            lb_store(b, h, lb_idx(b, 1), lb_conv(b, L_FTRUNC, LK_F16, x), 0);
        }
        if (lanes == target_lanes(g, 32)) break;
    }
    lb_return(b, NULL);
    elf_file *f =
        elf_read(t->arena, &t->diag, llvm_emit(t->module, EMIT_OBJECT, t->arena, &t->diag), "object");
    for (int i = 0; i < f->symbols.n; i++)
        if (!f->symbols.at[i].section) fail_msg("%s %s calls %s", triple, cpu, f->symbols.at[i].name);
    arena_destroy(t->arena);
}

static void test_facts(void **state) {
    (void)state;
    static const char *const all[][2] = {{"x86_64-linux-gnu", "x86-64"},
                                         {"x86_64-linux-gnu", "x86-64-v2"},
                                         {"x86_64-linux-gnu", "x86-64-v3"},
                                         {"x86_64-linux-gnu", "x86-64-v4"},
                                         {"x86_64-linux-gnu", "sapphirerapids"},
                                         {"i686-linux-gnu", "pentium4"},
                                         {"aarch64-linux-gnu", "generic"},
                                         {"aarch64-linux-gnu", "neoverse-v1"},
                                         {"arm-none-eabi", "cortex-m0"},
                                         {"arm-none-eabi", "cortex-m3"},
                                         {"arm-none-eabihf", "cortex-m4"},
                                         {"arm-none-eabihf", "cortex-m7"},
                                         {"arm-none-eabihf", "cortex-m33"},
                                         {"arm-none-eabihf", "cortex-m55"},
                                         {"arm-linux-gnueabihf", "cortex-a7"},
                                         {"arm-linux-gnueabihf", "cortex-a53"},
                                         {"riscv64-linux-gnu", NULL},
                                         {"riscv64-linux-gnu", "sifive-x280"},
                                         {"riscv32-none-elf", "sifive-e31"},
                                         {"riscv32-none-elf", "sifive-e76"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) check_facts(all[i][0], all[i][1]);
}

// ---------------------------------------------------------------- outputs
static void test_same_bytes(void **state) {
    (void)state;
    bytes made[2];
    bench *t[2];
    for (int i = 0; i < 2; i++) {
        t[i] = begin("x86_64-linux-gnu", "x86-64-v3");
        build_axpy(t[i], "kernel");
        t[i]->module->funcs.at[0]->body = NULL;
        made[i] = llvm_emit(t[i]->module, EMIT_OBJECT, t[i]->arena, &t[i]->diag);
    }
    assert_int_equal(made[0].n, made[1].n);
    assert_memory_equal(made[0].at, made[1].at, made[0].n);
    for (int i = 0; i < 2; i++) arena_destroy(t[i]->arena);
}

static const char *shared_symbol(bench *t) {
    elf_file *f =
        elf_read(t->arena, &t->diag, llvm_emit(t->module, EMIT_OBJECT, t->arena, &t->diag), "object");
    const char *name = NULL;
    for (int i = 0; i < f->symbols.n; i++)
        if (!strncmp(f->symbols.at[i].name, "onnxc_k_", 8)) {
            assert_true(f->symbols.at[i].weak && f->symbols.at[i].hidden && !name);
            name = f->symbols.at[i].name;
        }
    return name;
}

// The same kernel under two node names, in two modules and twice in one: one symbol. Another CPU: another.
static void test_kernels_are_shared(void **state) {
    (void)state;
    static const char *const cpus[] = {"x86-64-v3", "x86-64-v3", "x86-64-v4"};
    const char *names[3];
    bench *t[3];
    for (int i = 0; i < 3; i++) {
        t[i] = begin("x86_64-linux-gnu", cpus[i]);
        t[i]->module->funcs.at[0]->body = NULL;
        build_axpy(t[i], i == 1 ? "other" : "kernel");
        build_axpy(t[i], "twin");
        names[i] = shared_symbol(t[i]);
        assert_non_null(names[i]);
    }
    assert_string_equal(names[0], names[1]);
    assert_string_not_equal(names[0], names[2]);
    bytes text = llvm_emit(t[1]->module, EMIT_ASM, t[1]->arena, &t[1]->diag);
    assert_true(contains(text, "\nother = onnxc_k_") || contains(text, "other, onnxc_k_"));
    for (int i = 0; i < 3; i++) arena_destroy(t[i]->arena);
}

// Host code leaves its loop at every failed check. The variables it reads afterwards are not values there: LLVM
// takes quadratic time for their phi nodes.
static void test_many_variables(void **state) {
    enum { MANY = 40 };
    (void)state;
    bench *t = begin("x86_64-linux-gnu", "x86-64-v3");
    ins *p = pointer(t, "p", LK_I64), *vars[MANY];
    lbuild *b = body(t);
    for (int i = 0; i < MANY; i++) vars[i] = lb_var(b, "v", lb_idx(b, 0));
    ins *loop = lb_loop(b);
    for (int i = 0; i < MANY; i++) {
        ins *v = lb_load(b, lt(LK_I64, 1), p, lb_idx(b, i), 0);
        lb_break(b, lb_cmp(b, L_EQ, v, lb_idx(b, 0)));
        lb_set(b, vars[i], v);
    }
    lb_break(b, lb_int(b, lt(LK_I1, 1), 1));
    lb_end(b, loop);
    for (int i = 0; i < MANY; i++) lb_store(b, p, lb_idx(b, i), lb_get(b, vars[i]), 0);
    lb_return(b, NULL);
    assert_false(contains(llvm_emit(t->module, EMIT_LLVM_IR, t->arena, &t->diag), " = phi "));
    arena_destroy(t->arena);
}

// Functions for different CPUs in one object.
static void test_variants(void **state) {
    (void)state;
    bench *t = begin("x86_64-linux-gnu", "x86-64-v2");
    t->module->funcs.at[0]->body = NULL;
    static const char *const cpus[] = {"x86-64-v2", "x86-64-v3", "x86-64-v4"};
    for (int i = 0; i < 3; i++) {
        t->target = target_with_cpu(t->arena, &t->diag, t->target, cpus[i]);
        build_axpy(t, arena_printf(t->arena, "kernel_%s", cpus[i]));
        t->f->target = t->target;
    }
    bytes text = llvm_emit(t->module, EMIT_ASM, t->arena, &t->diag);
    assert_true(contains(text, "zmm") && contains(text, "ymm") && contains(text, "\tmulps"));
    arena_destroy(t->arena);
}

static void test_text_kinds(void **state) {
    (void)state;
    bench *t = begin("x86_64-linux-gnu", "x86-64-v3");
    t->module->funcs.at[0]->body = NULL;
    build_axpy(t, "kernel");
    assert_true(
        contains(llvm_emit(t->module, EMIT_LLVM_IR, t->arena, &t->diag), "define weak_odr hidden void"));
    assert_memory_equal(llvm_emit(t->module, EMIT_BITCODE, t->arena, &t->diag).at, "BC", 2);
    assert_true(contains(llvm_emit(t->module, EMIT_ASM, t->arena, &t->diag), "vfmadd"));
    arena_destroy(t->arena);
}

static void test_strict_does_not_fuse(void **state) {
    (void)state;
    bench *t = begin("x86_64-linux-gnu", "x86-64-v3");
    t->module->funcs.at[0]->body = NULL;
    build_axpy(t, "kernel");
    t->f->strict_fp = true;
    assert_false(contains(llvm_emit(t->module, EMIT_ASM, t->arena, &t->diag), "vfmadd"));
    arena_destroy(t->arena);
}

// c[0] = a * b - p as two operations, c[1] the same with a sum, c[2] as one; p is the rounded product.
static void check_fusion(const char *cpu) {
    bench *t = begin(NULL, cpu);
    ins *pa = pointer(t, "a", LK_F32), *pb = pointer(t, "b", LK_F32), *pc = pointer(t, "c", LK_F32);
    lbuild *b = body(t);
    ins *x = lb_load(b, lt(LK_F32, 1), pa, lb_idx(b, 0), 0),
        *p = lb_load(b, lt(LK_F32, 1), pb, lb_idx(b, 0), 0),
        *minus = lb_load(b, lt(LK_F32, 1), pb, lb_idx(b, 1), 0);
    lb_store(b, pc, lb_idx(b, 0), lb_bin(b, L_SUB, lb_bin(b, L_MUL, x, x), p), 0);
    lb_store(b, pc, lb_idx(b, 1), lb_bin(b, L_ADD, lb_bin(b, L_MUL, x, x), minus), 0);
    lb_store(b, pc, lb_idx(b, 2), lb_muladd(b, x, x, minus), 0);
    fn3 *f = finish(t);
    float v = 1 + 0x1p-12f, c[3];
    volatile float rounded = v * v;
    f(&v, (float[]){rounded, -rounded}, c, 0);
    assert_true(c[0] == 0 && c[1] == 0);
    assert_true(c[2] == (t->target->fma ? 0x1p-24f : 0));
    arena_destroy(t->arena);
}
static void test_only_muladd_fuses(void **state) { (void)state, at_all_levels(check_fusion); }

// Something that LLVM aborts on becomes a message, and the next compilation works.
static void test_abort_is_a_message(void **state) {
    (void)state;
    bench *t = begin("arm-none-eabihf", "cortex-m4");
    ins *p = pointer(t, "a", LK_F32), *q = pointer(t, "b", LK_BF16);
    lbuild *b = body(t);
    lb_store(b, q, lb_idx(b, 0), lb_conv(b, L_FTRUNC, LK_BF16, lb_load(b, lt(LK_F32, 1), p, lb_idx(b, 0), 0)),
             0);
    lb_return(b, NULL);
    jmp_buf jump;
    if (DIAG_TRY(&t->diag, jump)) {
        llvm_emit(t->module, EMIT_OBJECT, t->arena, &t->diag);
        fail();
    }
    assert_int_equal(t->diag.class, DIAG_DEFECT);
    assert_non_null(strstr(t->message, "LLVM"));
    arena_destroy(t->arena);
    check_cross("thumbv7em-none-eabihf", "cortex-m4", 32, 40);
}

static void *compile_in_thread(void *result) {
    for (int i = 0; i < 5; i++) {
        bench *t = begin("x86_64-linux-gnu", i % 2 ? "x86-64-v3" : "x86-64-v4");
        t->module->funcs.at[0]->body = NULL;
        build_axpy(t, "kernel");
        *(size_t *)result += llvm_emit(t->module, EMIT_OBJECT, t->arena, &t->diag).n;
        arena_destroy(t->arena);
    }
    return NULL;
}

static void test_threads(void **state) {
    (void)state;
    pthread_t threads[4];
    size_t sizes[4] = {0};
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, compile_in_thread, &sizes[i]), 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    for (int i = 1; i < 4; i++) assert_int_equal(sizes[i], sizes[0]);
}

// ---------------------------------------------------------------- choices of functions
// Writes the number to its pointer.
static void add_writer(bench *t, const char *name, int number) {
    lfunc *f = lfunc_new(t->module, name, lt(LK_VOID, 1));
    f->target = t->target, f->kernel = true;
    ins *to = lfunc_param(f, "to", lt_ptr(), LK_I64, DT_NONE, false),
        *add = lfunc_param(f, "add", lt(LK_I64, 1), LK_VOID, DT_I64, true);
    lbuild b = lbuild_new(f, t->target, &t->diag);
    lb_store(&b, to, lb_idx(&b, 0), lb_bin(&b, L_ADD, add, lb_idx(&b, number)), 0);
    lb_return(&b, NULL);
}

// Calls the first function for number `from`, the second for the next one, and the third for all others. They get `add`, or the
// last one the number after it.
static bench *choose_writer(const char *cpu, int from, bool differ) {
    static const char *const names[] = {"w0", "w1", "w2"};
    bench *t = begin(NULL, cpu);
    for (int j = 0; j < 3; j++) add_writer(t, names[j], 10 * j);
    ins *to = pointer(t, "a", LK_I64), *opened[2],
        *level = lfunc_param(t->f, "level", lt(LK_I32, 1), LK_VOID, DT_I32, false);
    lbuild *b = body(t);
    for (int j = 0; j < 3; j++) {
        if (j < 2) opened[j] = lb_if(b, lb_cmp(b, L_EQ, level, lb_int(b, lt(LK_I32, 1), from + j)));
        lb_call(b, lt(LK_VOID, 1), names[j], 2, (ins *[]){to, lb_idx(b, differ && j == 2 ? 6 : 5)});
        if (j < 2) lb_else(b, opened[j]);
    }
    lb_end(b, opened[1]);
    lb_end(b, opened[0]);
    return t;
}

static void check_choices(const char *cpu) {
    static const int numbers[] = {0, 1, 2, 3, 7, -1};
    for (int j = 0; j < 4; j++) {
        int from = j & 1;
        bench *t = choose_writer(cpu, from, j & 2);
        void (*f)(int64_t *, int) = (void (*)(int64_t *, int))(uintptr_t)finish(t);
        for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) {
            int64_t out = 0;
            int which = numbers[k] == from ? 0 : numbers[k] == from + 1 ? 1 : 2;
            f(&out, numbers[k]);
            assert_int_equal(out, 10 * which + 5 + (which == 2 && j & 2));
        }
        arena_destroy(t->arena);
    }
}

// Equal kernels are one function, of which there is no choice.
static void test_no_choice(void **state) {
    (void)state;
    bench *t = choose_writer("x86-64", 0, false);
    for (int j = 0; j < 3; j++) t->module->funcs.at[j + 1]->body = t->module->funcs.at[1]->body;
    lb_return(&t->b, NULL);
    bytes text = llvm_emit(t->module, EMIT_LLVM_IR, t->arena, &t->diag);
    assert_false(contains(text, "@choices"));
    assert_true(contains(text, "call void @"));
    arena_destroy(t->arena);
}

static void test_choices_of_functions(void **state) {
    (void)state;
    at_all_levels(check_choices);
    for (int differ = 0; differ < 2; differ++) {
        bench *t = choose_writer("x86-64", 0, differ);
        lb_return(&t->b, NULL);
        bytes text = llvm_emit(t->module, EMIT_LLVM_IR, t->arena, &t->diag);
        assert_int_equal(contains(text, "@choices = internal"), !differ);
        assert_int_equal(contains(text, "call void @"), differ);
        arena_destroy(t->arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_targets),
        cmocka_unit_test(test_target_errors),
        cmocka_unit_test(test_native_facts),
        cmocka_unit_test(test_level_facts),
        cmocka_unit_test(test_structure),
        cmocka_unit_test(test_calls),
        cmocka_unit_test(test_floats),
        cmocka_unit_test(test_reductions),
        cmocka_unit_test(test_ints),
        cmocka_unit_test(test_conversions),
        cmocka_unit_test(test_permutations),
        cmocka_unit_test(test_roundings),
        cmocka_unit_test(test_scalings),
        cmocka_unit_test(test_lanes),
        cmocka_unit_test(test_partial),
        cmocka_unit_test(test_dots),
        cmocka_unit_test(test_dot_instruction),
        cmocka_unit_test(test_data),
        cmocka_unit_test(test_undefined_is_reported),
        cmocka_unit_test(test_cross),
        cmocka_unit_test(test_facts),
        cmocka_unit_test(test_same_bytes),
        cmocka_unit_test(test_kernels_are_shared),
        cmocka_unit_test(test_many_variables),
        cmocka_unit_test(test_variants),
        cmocka_unit_test(test_text_kinds),
        cmocka_unit_test(test_choices_of_functions),
        cmocka_unit_test(test_no_choice),
        cmocka_unit_test(test_strict_does_not_fuse),
        cmocka_unit_test(test_only_muladd_fuses),
        cmocka_unit_test(test_abort_is_a_message),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
