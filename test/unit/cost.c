// Estimates of a run: how often blocks run, and what instructions take.
#include "codegen/target/core_model.h"
#include "ir/loops/loops_count.h"
#include <setjmp.h>
#include <string.h>
// cmocka.h must follow the headers it needs.
#include <cmocka.h>

static const target plain = {.ptr_bits = 32, .little_endian = true};
static const ltype i32 = {LK_I32, 1}, pointer = {LK_PTR, 1};

typedef struct fixture {
    arena *arena;
    diag diag;
    lmodule *module;
    lfunc *entry, *kernel;
    double times[64]; // of blocks of the kernel
} fixture;

static void open_module(fixture *x) {
    *x = (fixture){.arena = arena_new()};
    x->diag.arena = x->arena;
    x->module = lmodule_new(x->arena, "m", &plain);
    x->kernel = lfunc_new(x->module, "kernel", lt(LK_VOID, 1));
    lfunc_param(x->kernel, "n", i32, LK_VOID, DT_NONE, false);
    lfunc_param(x->kernel, "numbers", pointer, LK_I32, DT_I32, true);
    x->kernel->kernel = true;
    x->entry = lfunc_new(x->module, "entry", lt(LK_VOID, 1));
}

static void note(void *user, const counted_block *b) {
    fixture *x = user;
    if (b->f != x->kernel) return;
    assert_ptr_equal(b->kernel, x->kernel);
    assert_in_range(b->block, 0, 63);
    x->times[b->block] += b->times;
}

// Calls the kernel with n and the number 7 in a table.
static bool count(fixture *x, int64_t n) {
    static const int32_t numbers[] = {5, 7};
    ldata *table = ARENA_NEW(x->arena, ldata);
    *table = (ldata){.name = "numbers", .bytes = sizeof numbers, .bytes_or_null = numbers};
    VEC_PUSH(x->arena, &x->module->data, table);
    lbuild b = lbuild_new(x->entry, &plain, &x->diag);
    ins *at = lb_offset(&b, lb_symbol(&b, "numbers"), lb_idx(&b, 1), 4);
    lb_call(&b, lt(LK_VOID, 1), "kernel", 2, (ins *[]){lb_int(&b, i32, n), at});
    return loops_count(x->arena, x->module, x->entry, note, x);
}

static double times(const fixture *x, const ins *loop, int which) {
    return x->times[lblock_number(loop, which)];
}

// A triangle, a length from a table, and a loop whose copies are unrolled.
static void loops_are_counted(void **state) {
    (void)state;
    fixture x;
    open_module(&x);
    lbuild b = lbuild_new(x.kernel, &plain, &x.diag);
    ins *n = x.kernel->params.at[0].value, *numbers = x.kernel->params.at[1].value, *one = lb_idx(&b, 1);
    ins *i = lb_for(&b, "i", lb_idx(&b, 0), n, one, LOOP_SERIAL);
    ins *j = lb_for(&b, "j", lb_idx(&b, 0), i, one, LOOP_SERIAL);
    lb_end(&b, j);
    ins *length = lb_load(&b, i32, numbers, lb_idx(&b, 0), 0);
    ins *k = lb_for(&b, "k", lb_idx(&b, 0), length, lb_idx(&b, 2), LOOP_SERIAL);
    ins *u = lb_for(&b, "u", lb_idx(&b, 0), lb_idx(&b, 3), one, LOOP_UNROLL);
    lb_end(&b, u);
    lb_end(&b, k);
    lb_end(&b, i);
    assert_true(count(&x, 10));
    assert_float_equal(x.times[0], 1, 0);
    assert_float_equal(times(&x, i, 0), 10, 0);
    assert_float_equal(times(&x, j, 0), 45, 0);
    assert_float_equal(times(&x, k, 0), 40, 0);
    assert_float_equal(times(&x, u, 0), 40, 1e-9); // of each of the three copies
    arena_destroy(x.arena);
}

static void branches_are_likely_or_not(void **state) {
    (void)state;
    fixture x;
    open_module(&x);
    lbuild b = lbuild_new(x.kernel, &plain, &x.diag);
    ins *n = x.kernel->params.at[0].value, *numbers = x.kernel->params.at[1].value;
    ins *known = lb_if(&b, lb_cmp(&b, L_SLT, n, lb_idx(&b, 5)));
    lb_else(&b, known);
    lb_end(&b, known);
    lb_store(&b, numbers, lb_idx(&b, 0), n, 0);
    ins *local = lb_local(&b, LK_I32, 4, 4, false), *data = lb_load(&b, i32, local, lb_idx(&b, 0), 0);
    ins *low = lb_bin(&b, L_AND, data, lb_int(&b, i32, 255));
    ins *near = lb_if(&b, lb_cmp(&b, L_SLT, low, lb_int(&b, i32, 16)));
    lb_else(&b, near);
    lb_end(&b, near);
    ins *even = lb_if(&b, lb_cmp(&b, L_EQ, data, lb_idx(&b, 3)));
    lb_end(&b, even);
    ins *error = lb_if(&b, lb_cmp(&b, L_EQ, data, lb_idx(&b, 4)));
    lb_return(&b, NULL);
    lb_end(&b, error);
    assert_true(count(&x, 10));
    assert_float_equal(times(&x, known, 0), 0, 0);
    assert_float_equal(times(&x, known, 1), 1, 0);
    assert_float_equal(times(&x, near, 0), 1.0 / 16, 0);
    assert_float_equal(times(&x, near, 1), 15.0 / 16, 0);
    assert_float_equal(times(&x, even, 0), 0.5, 0);
    assert_float_equal(times(&x, error, 0), 0, 0);
    arena_destroy(x.arena);
}

static void lengths_from_data_are_not_known(void **state) {
    (void)state;
    fixture x;
    open_module(&x);
    lbuild b = lbuild_new(x.kernel, &plain, &x.diag);
    ins *local = lb_local(&b, LK_I32, 4, 4, false), *data = lb_load(&b, i32, local, lb_idx(&b, 0), 0);
    ins *i = lb_for(&b, "i", lb_idx(&b, 0), data, lb_idx(&b, 1), LOOP_SERIAL);
    lb_end(&b, i);
    assert_false(count(&x, 10));
    arena_destroy(x.arena);
}

static double cycles(const char *triple, const char *cpu, const char *line) {
    const core_model *m = core_model_of(&(target){.triple = triple, .cpu = cpu});
    assert_non_null(m);
    return core_cost(m, line).cycles;
}

static void instructions_have_costs(void **state) {
    (void)state;
    static const char arm[] = "thumbv7em-none-eabi";
    assert_float_equal(cycles(arm, "cortex-m4", "add.w\tr0, r1, r2"), 1, 0);
    assert_float_equal(cycles(arm, "cortex-m4", "push.w\t{r4, r5, r6, lr}"), 5, 0);
    assert_float_equal(cycles(arm, "cortex-m4", "ldrd\tr0, r1, [r2]"), 3, 0);
    assert_float_equal(cycles(arm, "cortex-m4", "bic\tr0, r1, #3"), 1, 0);
    assert_float_equal(cycles(arm, "cortex-m4", "bne\t.LBB0_1"), 3, 0);
    assert_float_equal(cycles(arm, "cortex-m3", "smull\tr0, r1, r2, r3"), 4, 0);
    assert_float_equal(cycles(arm, "cortex-m0plus", "ldr\tr0, [r1]"), 2, 0);
    assert_float_equal(cycles(arm, "cortex-m55", "vldrb.u8\tq0, [r1]"), 1.5, 0);
    assert_float_equal(cycles(arm, "cortex-m55", "vldr\ts0, [r1]"), 1, 0);
    assert_float_equal(cycles(arm, "cortex-m55", "le\tlr, .LBB0_1"), 0, 0);
    assert_float_equal(cycles("riscv32-none-elf", "sifive-e20", "lbu\ta0, 0(a1)"), 2, 0);
    assert_null(core_model_of(&(target){.triple = arm, .cpu = "cortex-a7"}));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loops_are_counted),
        cmocka_unit_test(branches_are_likely_or_not),
        cmocka_unit_test(lengths_from_data_are_not_known),
        cmocka_unit_test(instructions_have_costs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
