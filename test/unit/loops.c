// Loops: folding of the builder, text, checks, the interpreter with its threads, and the legaliser, whose
// result must compute the same bits.
#include "ir/loops/legalize.h"
#include "ir/loops/loops_gpu.h"
#include "ir/loops/loops_interp.h"
#include "ir/loops/loops_share.h"
#include "ir/target.h"
#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
// cmocka.h must follow the headers it needs.
#include <cmocka.h>

static const target plain = {.ptr_bits = 64,
                             .vector_bits = 256,
                             .f32 = true,
                             .f64 = true,
                             .round_instr = true,
                             .fp = FP_DEFAULT,
                             .little_endian = true};

typedef struct fixture {
    arena *arena;
    diag diag;
    lmodule *module;
    lfunc *f;
    lbuild b;
} fixture;

// A function f(p0, p1, ...) of the given types.
static void open_function(fixture *x, const target *t, ltype result, int n, const ltype *types) {
    static const char *const names[] = {"p0", "p1", "p2", "p3"};
    *x = (fixture){.arena = arena_new()};
    x->diag = (diag){.arena = x->arena};
    x->module = lmodule_new(x->arena, "m", t);
    x->f = lfunc_new(x->module, "f", result);
    for (int i = 0; i < n; i++)
        lfunc_param(x->f, names[i], types[i], types[i].kind == LK_PTR ? LK_F32 : LK_VOID, DT_F32, false);
    x->b = lbuild_new(x->f, t, &x->diag);
}

static ins *param(fixture *x, int i) { return x->f->params.at[i].value; }
static const ltype i64 = {LK_I64, 1}, i32 = {LK_I32, 1}, f32 = {LK_F32, 1}, pointer = {LK_PTR, 1};

// ---------------------------------------------------------------- builder and text

static void builder_folds(void **state) {
    (void)state;
    fixture x;
    open_function(&x, &plain, i64, 2, (ltype[]){i64, f32});
    lbuild *b = &x.b;
    ins *p = param(&x, 0), *q = param(&x, 1);
    assert_ptr_equal(lb_bin(b, L_ADD, p, lb_idx(b, 0)), p);
    assert_ptr_equal(lb_bin(b, L_MUL, lb_idx(b, 1), p), p);
    assert_int_equal(lb_bin(b, L_MUL, p, lb_idx(b, 0))->i, 0);
    assert_ptr_equal(lb_bin(b, L_SDIV, p, lb_idx(b, 1)), p);
    assert_ptr_equal(lb_bin(b, L_AND, p, lb_idx(b, -1)), p);
    ins *sum = lb_bin(b, L_ADD, lb_bin(b, L_ADD, lb_idx(b, 3), p), lb_idx(b, 4));
    assert_ptr_equal(sum->args[0], p);
    assert_int_equal(sum->args[1]->i, 7);
    assert_ptr_equal(lb_bin(b, L_SUB, sum, lb_idx(b, 7)), p);
    assert_int_equal(lb_bin(b, L_ADD, lb_int(b, lt(LK_I8, 1), 100), lb_int(b, lt(LK_I8, 1), 100))->i, -56);
    assert_int_equal(lb_bin(b, L_LSHR, lb_int(b, i32, -1), lb_int(b, i32, 28))->i, 15);
    assert_int_equal(lb_cmp(b, L_ULT, lb_int(b, i32, 1), lb_int(b, i32, -1))->i, 1);
    assert_int_equal(lb_bin(b, L_SDIV, p, lb_idx(b, 0))->op, L_SDIV);
    ins *v = lb_bin(b, L_MUL, q, lb_float(b, lt(LK_F32, 8), 2));
    assert_int_equal(v->type.lanes, 8);
    assert_int_equal(v->args[0]->op, L_SPLAT);
    assert_ptr_equal(lb_extract(b, v->args[0], 3), q);
    assert_int_equal(lb_bin(b, L_ADD, q, lb_float(b, f32, 0))->op, L_ADD); // -0 + 0 is 0
    assert_true(lb_bin(b, L_ADD, lb_float(b, f32, 1), lb_float(b, f32, 0x1p-30))->f == 1);
    assert_true(lb_un(b, L_RINT, lb_float(b, f32, 2.5))->f == 2 &&
                lb_un(b, L_RINT, lb_float(b, f32, -3.5))->f == -4);
    assert_int_equal(lb_bitcast(b, i32, lb_float(b, f32, 1))->i, 0x3f800000);
    arena_destroy(x.arena);
}

// out[i] = p0[i] * 2 while i < n
static void build_double(fixture *x, int lanes) {
    lbuild *b = &x->b;
    ins *i = lb_for(b, "i", lb_idx(b, 0), param(x, 2), lb_idx(b, lanes), LOOP_PARALLEL);
    ins *left = lb_bin(b, L_SUB, param(x, 2), i);
    ins *v = lb_loadn(b, lt(LK_F32, lanes), param(x, 0), i, left);
    lb_storen(b, param(x, 1), i, lb_bin(b, L_MUL, v, lb_float(b, f32, 2)), left);
    lb_end(b, i);
    lb_return(b, NULL);
}

static void functions_print(void **state) {
    (void)state;
    fixture x;
    open_function(&x, &plain, lt(LK_VOID, 1), 3, (ltype[]){pointer, pointer, i64});
    x.f->comment = "doubles\nan array";
    build_double(&x, 4);
    assert_string_equal(lfunc_print(x.arena, x.f), "# doubles\n"
                                                   "# an array\n"
                                                   "func @f(%p0: ptr f32, %p1: ptr f32, %p2: i64) {\n"
                                                   "  %i.5: i64 = for 0, %p2, 4 parallel {\n"
                                                   "    %6: i64 = sub %p2, %i.5\n"
                                                   "    %7: f32x4 = loadn %p0, %i.5, %6\n"
                                                   "    %10: f32x4 = mul %7, 2\n"
                                                   "    storen %p1, %i.5, %10, %6\n"
                                                   "  }\n"
                                                   "  return\n"
                                                   "}\n");
    lfunc_verify(x.f, &x.diag);
    arena_destroy(x.arena);
}

// ---------------------------------------------------------------- checks

static void break_outside(lbuild *b, ins *p) { lb_break(b, lb_cmp(b, L_EQ, p, lb_idx(b, 0))); }
static void mixed_types(lbuild *b, ins *p) { lb_op(b, L_ADD, i64, 2, (ins *[]){p, lb_int(b, i32, 1)}); }
static void after_return(lbuild *b, ins *p) {
    lb_return(b, p);
    lb_return(b, p);
}
static void used_outside(lbuild *b, ins *p) {
    ins *c = lb_if(b, lb_cmp(b, L_EQ, p, lb_idx(b, 0)));
    ins *inside = lb_bin(b, L_ADD, p, p);
    lb_end(b, c);
    lb_bin(b, L_ADD, inside, p);
}
static void no_float(lbuild *b, ins *p) { lb_un(b, L_SQRT, p); }
static void no_pointer(lbuild *b, ins *p) { lb_load(b, f32, p, p, 0); }
static void no_fma(lbuild *b, ins *p) {
    ins *f = lb_conv(b, L_SITOF, LK_F32, p);
    lb_op(b, L_FMA, f32, 3, (ins *[]){f, f, f});
}
static void no_rounding(lbuild *b, ins *p) {
    lb_conv(b, L_RINTI, LK_I32, lb_splat(b, lb_conv(b, L_SITOF, LK_F32, p), 8));
}
static void no_permutation(lbuild *b, ins *p) {
    ins *words = lb_splat(b, lb_conv(b, L_ITRUNC, LK_I32, p), 16);
    lb_permute(b, words, words);
}
static void no_scaling(lbuild *b, ins *p) {
    ins *x = lb_splat(b, lb_conv(b, L_SITOF, LK_F32, p), 8);
    lb_bin(b, L_SCALE, x, x);
}
static void variable_as_value(lbuild *b, ins *p) { lb_bin(b, L_ADD, lb_var(b, "v", p), p); }

static void check_caught(void (*build)(lbuild *b, ins *p), const char *message) {
    fixture x;
    jmp_buf jump;
    volatile bool caught = false;
    open_function(&x, &plain, i64, 1, (ltype[]){i64});
    build(&x.b, param(&x, 0));
    if (DIAG_TRY(&x.diag, jump)) lfunc_verify(x.f, &x.diag);
    else caught = true;
    if (!caught) print_error("not caught: %s\n", message);
    assert_true(caught);
    assert_int_equal(x.diag.class, DIAG_DEFECT);
    arena_destroy(x.arena);
}

static void wrong_functions_are_caught(void **state) {
    (void)state;
    check_caught(break_outside, "break outside of a loop");
    check_caught(mixed_types, "operands of different types");
    check_caught(after_return, "an instruction behind a return");
    check_caught(used_outside, "a use outside of the block");
    check_caught(no_float, "a root of an integer");
    check_caught(no_pointer, "a load from an integer");
    check_caught(no_fma, "fma without hardware");
    check_caught(no_rounding, "rounding to integers without hardware");
    check_caught(no_scaling, "scaling by powers of two without hardware");
    check_caught(no_permutation, "a permutation of words without hardware");
    check_caught(variable_as_value, "a variable as a value");
}

// GPU instructions: their names, and what is wrong with them. Operands: F, W an array of 8 floats, of 8 words of the
// thread; S shared memory, P other memory; i a number of 32 bits, I one of 64.
#define WGMMA(op, n, k, ...) {op, DT_F16, DT_F16, 64, n, k, __VA_ARGS__}
typedef struct gpu_case {
    const char *says, *operands; // in the message; as a name where the instruction is right
    gpu_ins g;
} gpu_case;
static const gpu_case gpu_cases[] = {
    {"copy_16", "WP", {GPU_COPY, .count = 16}},
    {"4, 8 or 16", "WP", {GPU_COPY, .count = 2}},
    {"ldmatrix_x4_trans", "WS", {GPU_LDMATRIX, .transposed = 1}},
    {"shared memory", "WP", {GPU_LDMATRIX}},
    {"array of the thread", "SS", {GPU_LDMATRIX}},
    {"cp_async", "SP", {GPU_CP_ASYNC}},
    {"device's memory", "SW", {GPU_CP_ASYNC}},
    {"neither a pointer nor an i32", "SPI", {GPU_CP_ASYNC_ZFILL}},
    {"cp_async_wait_1", "", {GPU_CP_ASYNC_WAIT, .count = 1}},
    {"groups", "", {GPU_CP_ASYNC_WAIT, .count = 2}},
    {"mma_m16n8k16_f16", "FWW", {GPU_MMA, DT_F16, DT_F16, 16, 8, 16}},
    {"mma_m16n8k32_u8s8", "WWW", {GPU_MMA, DT_U8, DT_I8, 16, 8, 32}},
    {"shape", "FWW", {GPU_MMA, DT_BF16, DT_BF16, 16, 8, 8}},
    {"types", "FWW", {GPU_MMA, DT_F16, DT_BF16, 16, 8, 16}},
    {"another type", "WWW", {GPU_MMA, DT_F16, DT_F16, 16, 8, 16}},
    {"wgmma_n16_f16_km", "FSiSi", WGMMA(GPU_WGMMA, 16, 16, ORDER_K, ORDER_M)},
    {"wgmma_wait_1_n16_f16", "F", WGMMA(GPU_WGMMA_WAIT, 16, 16, .count = 1)},
    {"shape or order", "WSiSi", {GPU_WGMMA, DT_I8, DT_I8, 64, 16, 32, ORDER_M}},
    {"shape or order", "FSiSi", WGMMA(GPU_WGMMA, 24, 16)},
    {"too few registers", "F", WGMMA(GPU_WGMMA_FENCE, 32, 16)},
};

static ins *gpu_operand(lbuild *b, ins *memory, char kind) {
    if (kind == 'P') return memory;
    if (kind == 'i' || kind == 'I') return lb_int(b, kind == 'i' ? i32 : i64, 1);
    ins *array = lb_local(b, kind == 'W' ? LK_I32 : LK_F32, 8, 16, kind == 'S');
    return lb_offset(b, array, lb_idx(b, 0), 4);
}

static void gpu_instructions_are_checked(void **state) {
    (void)state;
    for (size_t c = 0; c < sizeof gpu_cases / sizeof *gpu_cases; c++) {
        const gpu_case *t = &gpu_cases[c];
        fixture x;
        open_function(&x, &plain, lt(LK_VOID, 1), 1, (ltype[]){pointer});
        ins *args[5] = {0};
        int n = (int)strlen(t->operands);
        for (int i = 0; i < n; i++) args[i] = gpu_operand(&x.b, param(&x, 0), t->operands[i]);
        lb_gpu(&x.b, t->g, args);
        const char *error = gpu_ins_error(x.f->body->last);
        if (error ? !strstr(error, t->says) : strcmp(gpu_ins_name(x.arena, &t->g), t->says))
            fail_msg("%s: %s", t->says, error ? error : gpu_ins_name(x.arena, &t->g));
        arena_destroy(x.arena);
    }
}

// ---------------------------------------------------------------- interpreter

static bool run(fixture *x, linterp *in, const uint64_t *args, uint64_t *result) {
    lfunc_verify(x->f, &x->diag);
    return linterp_call(in, x->f, args, result);
}

static void tails_touch_nothing_behind(void **state) {
    (void)state;
    float from[8] = {1, 2, 3, 4, 5, 6, 7, 8}, to[8] = {0};
    for (int64_t n = 0; n <= 7; n++) {
        fixture x;
        open_function(&x, &plain, lt(LK_VOID, 1), 3, (ltype[]){pointer, pointer, i64});
        build_double(&x, 4);
        linterp *in = linterp_new(x.arena, x.module);
        linterp_memory(in, from, n * 4, false);
        linterp_memory(in, to, n * 4, true);
        assert_true(run(&x, in, (uint64_t[]){(uintptr_t)from, (uintptr_t)to, (uint64_t)n}, NULL));
        for (int i = 0; i < 8; i++) assert_true(to[i] == (i < n ? 2 * from[i] : 0));
        memset(to, 0, sizeof to);
        if (n) { // with less than it says, it is out of bounds
            in = linterp_new(x.arena, x.module);
            linterp_memory(in, from, n * 4 - 4, false);
            linterp_memory(in, to, n * 4, true);
            assert_false(run(&x, in, (uint64_t[]){(uintptr_t)from, (uintptr_t)to, (uint64_t)n}, NULL));
            assert_non_null(strstr(linterp_error(in), "load out of bounds"));
        }
        in = linterp_new(x.arena, x.module);
        linterp_memory(in, from, 32, false);
        linterp_memory(in, to, 32, false);
        assert_true(run(&x, in, (uint64_t[]){(uintptr_t)from, (uintptr_t)to, (uint64_t)n}, NULL) == (n == 0));
        memset(to, 0, sizeof to);
        arena_destroy(x.arena);
    }
}

// Collatz steps: a loop with a break, a branch, variables; helper functions in all three ways.
static uint64_t times_three(void *user, const uint64_t *args, int nargs) {
    assert_int_equal(nargs, 1);
    ++*(int *)user;
    return args[0] * 3;
}

static void loops_branches_and_calls(void **state) {
    (void)state;
    fixture x;
    int calls = 0;
    open_function(&x, &plain, i64, 1, (ltype[]){i64});
    lfunc *inc = lfunc_new(x.module, "increment", i64);
    ins *a = lfunc_param(inc, "a", i64, LK_VOID, DT_I64, false);
    lbuild ib = lbuild_new(inc, &plain, &x.diag);
    lb_return(&ib, lb_bin(&ib, L_ADD, a, lb_idx(&ib, 1)));
    lbuild *b = &x.b;
    ins *v = lb_var(b, "v", param(&x, 0)), *steps = lb_var(b, "steps", lb_idx(b, 0));
    ins *loop = lb_loop(b), *now = lb_get(b, v);
    lb_break(b, lb_cmp(b, L_EQ, now, lb_idx(b, 1)));
    ins *odd = lb_if(b, lb_cmp(b, L_NE, lb_bin(b, L_AND, now, lb_idx(b, 1)), lb_idx(b, 0)));
    ins *three = lb_call(b, i64, "times_three", 1, &now);
    lb_set(b, v, lb_op(b, L_CALLPTR, i64, 2, (ins *[]){lb_symbol(b, "increment"), three}));
    lb_else(b, odd);
    lb_set(b, v, lb_bin(b, L_ASHR, now, lb_idx(b, 1)));
    lb_end(b, odd);
    ins *count = lb_get(b, steps);
    lb_set(b, steps, lb_call(b, i64, "increment", 1, &count));
    lb_end(b, loop);
    lb_return(b, lb_get(b, steps));
    linterp *in = linterp_new(x.arena, x.module);
    linterp_function(in, "times_three", times_three, &calls);
    uint64_t r, n = 27;
    assert_true(run(&x, in, &n, &r));
    assert_int_equal(r, 111);
    assert_int_equal(calls, 41);
    arena_destroy(x.arena);
}

static void lanes_move(void **state) {
    (void)state;
    fixture x;
    uint8_t bytes[16];
    uint32_t words[4];
    open_function(&x, &plain, i32, 2, (ltype[]){pointer, pointer});
    lbuild *b = &x.b;
    for (int i = 0; i < 16; i++) bytes[i] = (uint8_t)(200 + 7 * i);
    ins *v = lb_load(b, lt(LK_I8, 16), param(&x, 0), lb_idx(b, 0), 0), *acc = lb_int(b, lt(LK_I32, 4), 5);
    ins *d = lb_dot(b, L_DOT4_US, acc, v, v);
    lb_store(b, param(&x, 1), lb_idx(b, 0), d, 0);
    ins *evens = lb_shuffle(b, d, d, (int[]){2, 0, 6}, 3);
    lb_return(
        b, lb_bin(b, L_ADD, lb_hreduce(b, L_HADD, evens), lb_extract(b, lb_bitcast(b, lt(LK_I32, 4), v), 1)));
    uint64_t r;
    assert_true(
        run(&x, linterp_new(x.arena, x.module), (uint64_t[]){(uintptr_t)bytes, (uintptr_t)words}, &r));
    for (int i = 0; i < 4; i++) {
        int sum = 5;
        for (int k = 0; k < 4; k++) sum += bytes[4 * i + k] * (int8_t)bytes[4 * i + k];
        assert_int_equal((int32_t)words[i], sum);
    }
    uint32_t second;
    memcpy(&second, bytes + 4, 4);
    assert_int_equal((uint32_t)r, words[2] + words[0] + words[2] + second);
    arena_destroy(x.arena);
}

// ---------------------------------------------------------------- threads
// Every block of 64 threads sums 64 numbers in shared memory: p1[block] = sum p0[block * 64 ...].

static void build_block_sum(fixture *x, bool barriers) {
    lbuild *b = &x->b;
    ins *block = lb_for(b, "block", lb_idx(b, 0), param(x, 2), lb_idx(b, 1), LOOP_GRID_X);
    ins *shared = lb_local(b, LK_F32, 64, 0, true);
    ins *t = lb_for(b, "t", lb_idx(b, 0), lb_idx(b, 64), lb_idx(b, 1), LOOP_THREAD_X);
    ins *at = lb_bin(b, L_ADD, lb_bin(b, L_MUL, block, lb_idx(b, 64)), t);
    lb_store(b, shared, t, lb_load(b, f32, param(x, 0), at, 0), 0);
    for (int half = 32; half; half /= 2) {
        if (barriers) lb_barrier(b);
        ins *active = lb_if(b, lb_cmp(b, L_SLT, t, lb_idx(b, half)));
        ins *other = lb_load(b, f32, shared, lb_bin(b, L_ADD, t, lb_idx(b, half)), 0);
        lb_store(b, shared, t, lb_bin(b, L_ADD, lb_load(b, f32, shared, t, 0), other), 0);
        lb_end(b, active);
    }
    ins *first = lb_if(b, lb_cmp(b, L_EQ, t, lb_idx(b, 0)));
    lb_store(b, param(x, 1), block, lb_load(b, f32, shared, lb_idx(b, 0), 0), 0);
    lb_end(b, first);
    lb_end(b, t);
    lb_end(b, block);
    lb_return(b, NULL);
}

static bool launch_block_sum(bool barriers, linterp_order order, const char **error, arena **keep) {
    fixture x;
    static float from[192];
    float to[3] = {0};
    for (int i = 0; i < 192; i++) from[i] = (float)i;
    open_function(&x, &plain, lt(LK_VOID, 1), 3, (ltype[]){pointer, pointer, i64});
    build_block_sum(&x, barriers);
    lfunc_verify(x.f, &x.diag);
    linterp *in = linterp_new(x.arena, x.module);
    linterp_set_order(in, order, 7);
    linterp_memory(in, from, sizeof from, false);
    linterp_memory(in, to, sizeof to, true);
    uint64_t args[] = {(uintptr_t)from, (uintptr_t)to, 3};
    bool ok = linterp_launch(in, x.f, args, (int64_t[]){3, 1, 1}, (int64_t[]){64, 1, 1});
    *error = linterp_error(in);
    *keep = x.arena;
    if (ok && barriers)
        for (int i = 0; i < 3; i++) assert_true(to[i] == (float)(64 * 64 * i + 63 * 32));
    return ok;
}

static void threads_meet_at_barriers(void **state) {
    (void)state;
    const char *error;
    arena *a;
    for (int order = ORDER_FORWARD; order <= ORDER_PERMUTED; order++) {
        bool ok = launch_block_sum(true, (linterp_order)order, &error, &a);
        if (!ok) print_error("%s\n", error);
        assert_true(ok);
        arena_destroy(a);
        assert_false(launch_block_sum(false, (linterp_order)order, &error, &a));
        assert_non_null(strstr(error, "race"));
        arena_destroy(a);
    }
}

static void divergent_barriers_are_errors(void **state) {
    (void)state;
    fixture x;
    open_function(&x, &plain, lt(LK_VOID, 1), 0, NULL);
    lbuild *b = &x.b;
    ins *t = lb_for(b, "t", lb_idx(b, 0), lb_idx(b, 8), lb_idx(b, 1), LOOP_THREAD_X);
    ins *some = lb_if(b, lb_cmp(b, L_SLT, t, lb_idx(b, 4)));
    lb_barrier(b);
    lb_end(b, some);
    lb_end(b, t);
    linterp *in = linterp_new(x.arena, x.module);
    assert_false(linterp_launch(in, x.f, NULL, NULL, (int64_t[]){8, 1, 1}));
    assert_non_null(strstr(linterp_error(in), "barrier"));
    arena_destroy(x.arena);
}

// What one launch of `build` says that is wrong, NULL when nothing is.
static const char *launch_error(arena **keep, void (*build)(fixture *x), float *from, int nfrom, float *to,
                                int nto, int blocks, int threads) {
    fixture x;
    open_function(&x, &plain, lt(LK_VOID, 1), 2, (ltype[]){pointer, pointer});
    build(&x);
    lfunc_verify(x.f, &x.diag);
    linterp *in = linterp_new(x.arena, x.module);
    linterp_memory(in, from, nfrom * (int64_t)sizeof *from, false);
    linterp_memory(in, to, nto * (int64_t)sizeof *to, true);
    uint64_t args[] = {(uintptr_t)from, (uintptr_t)to};
    bool ok = linterp_launch(in, x.f, args, (int64_t[]){blocks, 1, 1}, (int64_t[]){threads, 1, 1});
    *keep = x.arena;
    return ok ? NULL : linterp_error(in);
}

static ins *thread_of(fixture *x, int n) {
    return lb_for(&x->b, "t", lb_idx(&x->b, 0), lb_idx(&x->b, n), lb_idx(&x->b, 1), LOOP_THREAD_X);
}
static ins *block_of(fixture *x, int n) {
    return lb_for(&x->b, "block", lb_idx(&x->b, 0), lb_idx(&x->b, n), lb_idx(&x->b, 1), LOOP_GRID_X);
}

// Each thread counts in memory of its own, with a barrier in between, and each round in fresh memory:
// p1[t] = p0[t] + 1 when nobody else touches it.
static void build_own_counters(fixture *x) {
    lbuild *b = &x->b;
    ins *t = thread_of(x, 4), *zero = lb_idx(b, 0);
    ins *round = lb_for(b, "round", zero, lb_idx(b, 3), lb_idx(b, 1), LOOP_SERIAL);
    ins *own = lb_local(b, LK_F32, 2, 0, false);
    ins *fresh = lb_cmp(b, L_NE, lb_load(b, f32, own, zero, 0), lb_load(b, f32, param(x, 0), t, 0));
    lb_store(b, own, zero, lb_load(b, f32, param(x, 0), t, 0), 0);
    lb_barrier(b);
    ins *sum = lb_bin(b, L_ADD, lb_load(b, f32, own, zero, 0), lb_float(b, f32, 1));
    lb_store(b, param(x, 1), t, lb_select(b, fresh, sum, lb_float(b, f32, -1)), 0);
    lb_end(b, round);
    lb_end(b, t);
}

static void locals_belong_to_threads(void **state) {
    (void)state;
    float from[] = {1, 2, 3, 4}, to[4] = {0};
    arena *a;
    const char *error = launch_error(&a, build_own_counters, from, 4, to, 4, 1, 4);
    if (error) fail_msg("%s", error);
    for (int i = 0; i < 4; i++) assert_true(to[i] == from[i] + 1);
    arena_destroy(a);
}

// sum(n) = n ? n + sum(n - 1) : 0, with n kept in a local over the call.
static void locals_belong_to_calls(void **state) {
    (void)state;
    fixture x;
    open_function(&x, &plain, i64, 1, (ltype[]){i64});
    lbuild *b = &x.b;
    ins *own = lb_local(b, LK_I64, 1, 0, false), *zero = lb_idx(b, 0), *r = lb_var(b, "r", zero);
    lb_store(b, own, zero, param(&x, 0), 0);
    ins *more = lb_if(b, lb_cmp(b, L_NE, param(&x, 0), zero)),
        *less = lb_bin(b, L_SUB, param(&x, 0), lb_idx(b, 1));
    ins *rest = lb_call(b, i64, "f", 1, &less);
    lb_set(b, r, lb_bin(b, L_ADD, lb_load(b, i64, own, zero, 0), rest));
    lb_end(b, more);
    lb_return(b, lb_get(b, r));
    uint64_t result, n = 10;
    for (int k = 0; k < 2; k++) { // the second time in frames of the first
        assert_true(run(&x, linterp_new(x.arena, x.module), &n, &result));
        assert_int_equal(result, 55);
    }
    arena_destroy(x.arena);
}

static void build_past_the_end(fixture *x) {
    ins *t = thread_of(x, 4);
    lb_store(&x->b, param(x, 1), t,
             lb_load(&x->b, f32, param(x, 0), lb_bin(&x->b, L_ADD, t, lb_idx(&x->b, 1)), 0), 0);
    lb_end(&x->b, t);
}
static void build_odd_address(fixture *x) {
    ins *t = thread_of(x, 1);
    lb_load(&x->b, f32, lb_offset(&x->b, param(x, 0), lb_idx(&x->b, 2), 1), t, 0);
    lb_end(&x->b, t);
}
static void build_odd_vector(fixture *x) {
    ins *t = thread_of(x, 1);
    lb_load(&x->b, lt(LK_F32, 2), param(x, 0), lb_idx(&x->b, 1), 8);
    lb_end(&x->b, t);
}
static void build_same_element(fixture *x) {
    ins *t = thread_of(x, 2);
    lb_store(&x->b, param(x, 1), lb_idx(&x->b, 0), lb_float(&x->b, f32, 1), 0);
    lb_end(&x->b, t);
}
// A barrier orders the threads of one block only.
static void build_neighbours(fixture *x, int blocks) {
    lbuild *b = &x->b;
    ins *block = blocks > 1 ? block_of(x, blocks) : NULL, *t = thread_of(x, 2);
    ins *me = block ? lb_bin(b, L_ADD, lb_bin(b, L_MUL, block, lb_idx(b, 2)), t) : t;
    lb_store(b, param(x, 1), me, lb_float(b, f32, 1), 0);
    lb_barrier(b);
    lb_store(b, param(x, 1), lb_bin(b, L_SUB, lb_idx(b, 2 * blocks - 1), me), lb_float(b, f32, 2), 0);
    lb_end(b, t);
    if (block) lb_end(b, block);
}
static void build_neighbours_in_a_block(fixture *x) { build_neighbours(x, 1); }
static void build_neighbours_in_two_blocks(fixture *x) { build_neighbours(x, 2); }

static void wrong_accesses_are_found(void **state) {
    (void)state;
    static const struct {
        void (*build)(fixture *x);
        int blocks, threads;
        const char *says; // NULL: it is right
    } all[] = {
        {build_past_the_end, 1, 4, "load out of bounds"}, {build_odd_address, 1, 1, "less aligned"},
        {build_odd_vector, 1, 1, "less aligned"},         {build_same_element, 1, 2, "race"},
        {build_neighbours_in_a_block, 1, 2, NULL},        {build_neighbours_in_two_blocks, 2, 2, "race"},
    };
    static struct {
        _Alignas(16) float from[4], gap[4], to[4];
    } m;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        arena *a;
        const char *error = launch_error(&a, all[i].build, m.from, 4, m.to, 4, all[i].blocks, all[i].threads);
        if (!error != !all[i].says || (error && !strstr(error, all[i].says)))
            fail_msg("%d: '%s' instead of '%s'", (int)i, error ? error : "", all[i].says ? all[i].says : "");
        arena_destroy(a);
    }
}

// p0[0] += sum over 64 threads of the warp's butterfly sum of the thread's number.
static void warps_shuffle(void **state) {
    (void)state;
    for (int order = ORDER_FORWARD; order <= ORDER_PERMUTED; order++) {
        fixture x;
        int32_t total = 0;
        open_function(&x, &plain, lt(LK_VOID, 1), 1, (ltype[]){pointer});
        x.f->threads[0] = 64;
        lbuild *b = &x.b;
        ins *t = lb_for(b, "t", lb_idx(b, 0), lb_idx(b, 64), lb_idx(b, 1), LOOP_THREAD_X);
        ins *v = lb_conv(b, L_ITRUNC, LK_I32, t);
        for (int k = 16; k; k /= 2) v = lb_bin(b, L_ADD, v, lb_shfl_xor(b, v, k));
        lb_atomic_add(b, param(&x, 0), lb_idx(b, 0), v);
        lb_end(b, t);
        lfunc_verify(x.f, &x.diag);
        linterp *in = linterp_new(x.arena, x.module);
        linterp_set_order(in, (linterp_order)order, 3);
        assert_true(linterp_launch(in, x.f, (uint64_t[]){(uintptr_t)&total}, NULL, NULL));
        assert_int_equal(total, 32 * (31 * 16) + 32 * (31 * 16 + 32 * 32));
        arena_destroy(x.arena);
    }
}

// ---------------------------------------------------------------- the legaliser

static uint64_t next(uint64_t *s) {
    *s ^= *s << 13;
    *s ^= *s >> 7;
    *s ^= *s << 17;
    return *s;
}

static uint64_t any_value(lkind k, uint64_t *s) {
    static const uint64_t few32[] = {0,          0x80000000, 1,          0x807fffff, 0x800000,   0x3f800000,
                                     0xbf800000, 0x7f800000, 0xff800000, 0x7fc00000, 0x7f7fffff, 0x4b000000};
    static const uint64_t few64[] = {0,
                                     1ull << 63,
                                     1,
                                     0x800fffffffffffff,
                                     0x10000000000000,
                                     0x3ff0000000000000,
                                     0xbff0000000000000,
                                     0x7ff0000000000000,
                                     0xfff0000000000000,
                                     0x7ff8000000000000,
                                     0x7fefffffffffffff,
                                     0x4330000000000000};
    uint64_t r = next(s), v = next(s);
    if (lkind_is_float(k) && r % 8 == 0) return (k == LK_F32 ? few32 : few64)[r / 8 % 12];
    if (k == LK_F32) return (uint32_t)(r % 2 ? (v & 0x807fffff) | (110 + r / 8 % 30) << 23 : v);
    if (k == LK_F64) return r % 2 ? (v & 0x800fffffffffffff) | (1010 + r / 8 % 30) << 52 : v;
    v >>= r / 8 % 64;
    v = r % 2 ? 0 - v : v;
    return k == LK_I32 ? (uint32_t)v : v;
}

// A number of which few bits are left in a sum with v, or none.
static uint64_t almost_opposite(lkind k, uint64_t v, uint64_t *s) {
    uint64_t sign = k == LK_F32 ? 1ull << 31 : 1ull << 63, r = next(s);
    uint64_t near = (v ^ sign) + (r % 2 ? 0 : (r >> 8) % 65 - 32);
    return k == LK_F32 ? (uint32_t)near : near;
}

static bool is_nan(lkind k, uint64_t v) {
    if (k == LK_F32) return (v & INT32_MAX) > 0x7f800000;
    return k == LK_F64 && (v & INT64_MAX) > 0x7ff0000000000000;
}

// f(args) = op(args), legalised for t.
static lfunc *one_instruction(fixture *x, const target *t, lop op, lkind from, int n, lkind to) {
    ltype types[] = {lt(from, 1), lt(from, 1), lt(from, 1)};
    open_function(x, t, lt(to, 1), n, types);
    ins *args[3];
    for (int i = 0; i < n; i++) args[i] = param(x, i);
    lb_return(&x->b, lb_op(&x->b, op, lt(to, 1), n, args));
    legalize(x->module, &x->diag);
    for (int i = 0; i < x->module->funcs.n; i++) lfunc_verify(x->module->funcs.at[i], &x->diag);
    return x->f;
}

static void check_same(const target *t, lop op, lkind from, int n, lkind to) {
    fixture hard, soft;
    uint64_t s = 88172645463325252u + (uint64_t)op, open = to == LK_I32 ? 0xa5a5a5a5u : 0xa5a5a5a5a5a5a5a5u;
    one_instruction(&hard, &plain, op, from, n, to);
    one_instruction(&soft, t, op, from, n, to);
    linterp *ih = linterp_new(hard.arena, hard.module), *is = linterp_new(soft.arena, soft.module);
    for (int i = 0; i < 1500; i++) {
        uint64_t v[3] = {any_value(from, &s), any_value(from, &s), any_value(from, &s)}, want, got;
        if (lkind_is_float(from) && i % 4 == 0) v[1] = almost_opposite(from, v[0], &s);
        if (lop_class(op) == LC_SHIFT) v[1] &= 63;
        if (lop_class(op) == LC_DIVIDE && (v[1] == 0 || (uint32_t)v[1] == ~0u)) continue;
        assert_true(linterp_call(ih, hard.f, v, &want) && linterp_call(is, soft.f, v, &got));
        bool undefined = (op == L_FTOSI || op == L_FTOUI) && want == open;
        if (undefined || (is_nan(to, want) && is_nan(to, got))) continue;
        if (want != got)
            print_error("%s of %s %llx, %llx: %llx instead of %llx\n", lop_name(op), lkind_name(from),
                        (long long)v[0], (long long)v[1], (long long)got, (long long)want);
        assert_int_equal(want, got);
    }
    arena_destroy(hard.arena);
    arena_destroy(soft.arena);
}

static void check_class(const target *t, lclass class, lkind k, int n) {
    for (lop op = 0; op < L_COUNT; op++)
        if (lop_class(op) == class) check_same(t, op, k, n, k);
}

static const target bare = {.triple = "thumbv6m-none-eabi",
                            .ptr_bits = 32,
                            .freestanding = true,
                            .fp = FP_DEFAULT,
                            .little_endian = true};

static void soft_floats_are_exact(void **state) {
    (void)state;
    static const lop two[] = {L_ADD, L_SUB, L_MUL, L_FDIV, L_FMIN, L_FMAX},
                     compare[] = {L_EQ, L_NE, L_SLT, L_SLE};
    for (lkind k = LK_F32; k <= LK_F64; k++) {
        for (int i = 0; i < 6; i++) check_same(&bare, two[i], k, 2, k);
        for (int i = 0; i < 4; i++) check_same(&bare, compare[i], k, 2, LK_I1);
        check_class(&bare, LC_SIGN, k, 1);
        check_class(&bare, LC_SQRT, k, 1);
        check_class(&bare, LC_ROUND, k, 1);
        check_same(&bare, L_MULADD, k, 3, k);
        for (lkind n = LK_I32; n <= LK_I64; n++) {
            check_same(&bare, L_SITOF, n, 1, k);
            check_same(&bare, L_UITOF, n, 1, k);
            check_same(&bare, L_FTOSI, k, 1, n);
            check_same(&bare, L_FTOUI, k, 1, n);
        }
    }
    check_same(&bare, L_FEXT, LK_F32, 1, LK_F64);
    check_same(&bare, L_FTRUNC, LK_F64, 1, LK_F32);
}

static void wide_integers_are_exact(void **state) {
    (void)state;
    for (lkind n = LK_I32; n <= LK_I64; n++) check_class(&bare, LC_DIVIDE, n, 2);
    check_class(&bare, LC_SHIFT, LK_I64, 2);
    check_same(&bare, L_MUL, LK_I64, 2, LK_I64);
}

static void rounding_without_instructions(void **state) {
    (void)state;
    target t = plain;
    t.round_instr = false;
    for (lkind k = LK_F32; k <= LK_F64; k++) check_class(&t, LC_ROUND, k, 1);
}

static void halves_without_instructions(void **state) {
    (void)state;
    for (lkind k = LK_F16; k <= LK_BF16; k++) {
        dtype t = k == LK_F16 ? DT_F16 : DT_BF16;
        fixture down, down64, up;
        one_instruction(&down, &plain, L_FTRUNC, LK_F32, 1, k);
        one_instruction(&down64, &plain, L_FTRUNC, LK_F64, 1, k);
        one_instruction(&up, &plain, L_FEXT, k, 1, LK_F32);
        linterp *id = linterp_new(down.arena, down.module), *i64s = linterp_new(down64.arena, down64.module),
                *iu = linterp_new(up.arena, up.module);
        for (int code = 0; code < 65536; code += 7) {
            uint16_t raw = (uint16_t)code, want;
            double v = dtype_load_float(t, &raw, 0), w = v * (1 + 0x1p-12);
            uint64_t a = raw, got, got64;
            assert_true(linterp_call(iu, up.f, &a, &got));
            assert_true(isnan(v) ? is_nan(LK_F32, got) : got == linterp_float((float)v));
            if (isnan(v)) continue;
            a = linterp_float((float)w);
            assert_true(linterp_call(id, down.f, &a, &got));
            dtype_store_float(t, &want, 0, (float)w, false);
            assert_int_equal(got, want);
            w = v * (1 + 0x1p-11 + 0x1p-40);
            a = linterp_double(w);
            assert_true(linterp_call(i64s, down64.f, &a, &got64));
            dtype_store_float(t, &want, 0, w, false);
            assert_int_equal(got64, want);
        }
        arena_destroy(down.arena);
        arena_destroy(down64.arena);
        arena_destroy(up.arena);
    }
}

// ---------------------------------------------------------------- equal bodies
// y[0] = x[0] * factor, without parameters' names in common.
static lfunc *scale_function(fixture *x, const char *name, const char *from, const char *to, double factor) {
    lfunc *f = lfunc_new(x->module, name, lt(LK_VOID, 1));
    ins *p = lfunc_param(f, from, pointer, LK_F32, DT_F32, true);
    ins *q = lfunc_param(f, to, pointer, LK_F32, DT_F32, false);
    lbuild b = lbuild_new(f, &plain, &x->diag);
    ins *i = lb_for(&b, "i", lb_idx(&b, 0), lb_idx(&b, 2), lb_idx(&b, 1), LOOP_SERIAL);
    ins *v = lb_load(&b, f32, p, i, 0);
    lb_store(&b, q, i, lb_bin(&b, L_MUL, v, lb_float(&b, f32, factor)), 0);
    lb_end(&b, i);
    f->noalias = f->kernel = true;
    return f;
}

// Replaces the kernel from function `first` on if there is an equal one.
static lfunc *share_from(fixture *x, map *bodies, int first) {
    lfunc **kernel = &x->module->funcs.at[first], *original = lfunc_original(x->module, bodies, first);
    if (!original) return *kernel;
    x->module->funcs.n = first + 1;
    return *kernel = lfunc_sharing(x->module, *kernel, original);
}

static lfunc *share_latest(fixture *x, map *bodies) { return share_from(x, bodies, x->module->funcs.n - 1); }

// The same as two functions, of which the first calls the second.
static lfunc *scale_in_parts(fixture *x, map *bodies, const char *name, const char *part, double factor) {
    int first = x->module->funcs.n;
    lfunc *f = lfunc_new(x->module, name, lt(LK_VOID, 1));
    ins *p[] = {lfunc_param(f, "a", pointer, LK_F32, DT_F32, true),
                lfunc_param(f, "b", pointer, LK_F32, DT_F32, false)};
    lbuild b = lbuild_new(f, &plain, &x->diag);
    lb_call(&b, lt(LK_VOID, 1), part, 2, p);
    f->noalias = f->kernel = true;
    scale_function(x, part, "a", "b", factor);
    return share_from(x, bodies, first);
}

static void equal_bodies_are_shared(void **state) {
    (void)state;
    fixture x;
    open_function(&x, &plain, f32, 0, NULL);
    map bodies = {.arena = x.arena};
    scale_function(&x, "first", "a", "b", 3);
    lfunc *first = share_latest(&x, &bodies);
    const char *want = lfunc_print(x.arena, scale_function(&x, "second", "c", "d", 3));
    lfunc *second = share_latest(&x, &bodies);
    scale_function(&x, "other", "a", "b", 4);
    lfunc *other = share_latest(&x, &bodies), *alike[2];
    scale_function(&x, "third", "e", "f", 3);
    alike[0] = share_latest(&x, &bodies);
    scale_function(&x, "fourth", "g", "h", 3);
    alike[1] = share_latest(&x, &bodies);
    assert_ptr_equal(second->original, first);
    assert_ptr_equal(second->body, first->body);
    assert_null(other->original);
    assert_string_equal(lfunc_print(x.arena, second), want);
    alike[0]->noalias = alike[1]->noalias = false;
    want = lfunc_print(x.arena, alike[1]);
    lfuncs_separate(x.module);
    assert_ptr_equal(second->original, first);
    assert_null(alike[0]->original);
    assert_ptr_not_equal(alike[0]->body, first->body);
    assert_ptr_equal(alike[1]->original, alike[0]);
    assert_string_equal(lfunc_print(x.arena, alike[1]), want);

    int before = x.module->funcs.n;
    lfunc *whole = scale_in_parts(&x, &bodies, "whole", "part", 5);
    lfunc *again = scale_in_parts(&x, &bodies, "again", "part_again", 5);
    assert_null(scale_in_parts(&x, &bodies, "unlike", "part_unlike", 6)->original);
    assert_ptr_equal(again->original, whole);
    assert_string_equal(again->body->first->next->next->name, "part");
    assert_int_equal(x.module->funcs.n, before + 5); // without part_again

    lfunc_param(first, "numbers", pointer, LK_VOID, DT_NONE, true);
    lfunc_follow(second);
    assert_int_equal(second->params.n, 3);
    assert_int_equal(second->nins, first->nins);
    for (int i = 1; i < x.module->funcs.n; i++) lfunc_verify(x.module->funcs.at[i], &x.diag);
    arena_destroy(x.arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_bodies_are_shared),
        cmocka_unit_test(builder_folds),
        cmocka_unit_test(functions_print),
        cmocka_unit_test(wrong_functions_are_caught),
        cmocka_unit_test(gpu_instructions_are_checked),
        cmocka_unit_test(tails_touch_nothing_behind),
        cmocka_unit_test(loops_branches_and_calls),
        cmocka_unit_test(lanes_move),
        cmocka_unit_test(threads_meet_at_barriers),
        cmocka_unit_test(divergent_barriers_are_errors),
        cmocka_unit_test(locals_belong_to_threads),
        cmocka_unit_test(locals_belong_to_calls),
        cmocka_unit_test(wrong_accesses_are_found),
        cmocka_unit_test(warps_shuffle),
        cmocka_unit_test(soft_floats_are_exact),
        cmocka_unit_test(wide_integers_are_exact),
        cmocka_unit_test(rounding_without_instructions),
        cmocka_unit_test(halves_without_instructions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
