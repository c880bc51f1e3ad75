// Repeated instructions of host code: what they compute as a loop, and what stays as it is.
#include "ir/loops/roll.h"
#include "ir/loops/loops_interp.h"
#include "ir/target.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
// cmocka.h must follow the headers it needs.
#include <cmocka.h>

enum { STEPS = 12, LEFT_AT = 7 };

static const target plain = {.ptr_bits = 64, .f32 = true, .f64 = true, .little_endian = true};

typedef struct fixture {
    arena *arena;
    diag diag;
    lmodule *m;
    lfunc *f;
    lbuild b;
    ins *memory;
} fixture;

static void open_host(fixture *x) {
    x->arena = arena_new();
    x->diag = (diag){.arena = x->arena};
    x->m = lmodule_new(x->arena, "m", &plain);
    x->f = lfunc_new(x->m, "host", lt(LK_I64, 1));
    x->memory = lfunc_param(x->f, "memory", lt_ptr(), LK_I64, DT_I64, false);
    x->b = lbuild_new(x->f, &plain, &x->diag);
}

// Sets a variable and computes a value from a number that grows, one that does not, and an element of memory, and stores it.
static ins *add_step(fixture *x, ins *variable, int64_t line, int64_t other) {
    lbuild *b = &x->b;
    ins *loaded = lb_load(b, lt(LK_I64, 1), x->memory, lb_idx(b, line), 8);
    lb_set(b, variable, lb_bin(b, L_MUL, loaded, lb_idx(b, other)));
    ins *sum = lb_bin(b, L_ADD, lb_get(b, variable), lb_idx(b, line));
    ins *more = lb_bin(b, L_XOR, lb_bin(b, L_MUL, sum, loaded), lb_idx(b, other));
    lb_store(b, x->memory, lb_idx(b, line + STEPS), more, 8);
    return more;
}

// Many steps in a loop that a step leaves which computes `stop`. Other code reads all variables and one value.
static void add_steps(fixture *x, int64_t stop) {
    lbuild *b = &x->b;
    ins *variables[STEPS], *values[STEPS] = {NULL};
    for (int j = 0; j < STEPS; j++) variables[j] = lb_var(b, "v", lb_idx(b, -1));
    ins *left = lb_var(b, "left", lb_idx(b, 0)), *loop = lb_loop(b);
    for (int j = 0; j < STEPS; j++) {
        values[j] = add_step(x, variables[j], j, j * j % 7 + 2);
        lb_break(b, lb_cmp(b, L_EQ, values[j], lb_idx(b, stop)));
    }
    lb_set(b, left, values[LEFT_AT]);
    lb_break(b, lb_cmp(b, L_EQ, lb_idx(b, 0), lb_idx(b, 0)));
    lb_end(b, loop);
    ins *sum = lb_get(b, left);
    for (int j = 0; j < STEPS; j++)
        sum = lb_bin(b, L_ADD, lb_bin(b, L_MUL, sum, lb_idx(b, 31)), lb_get(b, variables[j]));
    lb_return(b, sum);
}

static uint64_t run(fixture *x, int64_t *memory) {
    uint64_t result = 0;
    for (int j = 0; j < 2 * STEPS; j++) memory[j] = 3 * j + 1;
    linterp *in = linterp_new(x->arena, x->m);
    linterp_memory(in, memory, 2 * STEPS * (int64_t)sizeof *memory, true);
    assert_true(linterp_call(in, x->f, (uint64_t[]){(uintptr_t)memory}, &result));
    return result;
}

static int count_loops(const lblock *b) {
    int n = 0;
    for (const ins *x = b->first; x; x = x->next) {
        n += x->op == L_FOR;
        for (int j = 0; j < 2; j++)
            if (x->body[j]) n += count_loops(x->body[j]);
    }
    return n;
}

static void steps_compute_the_same_in_a_loop(void **state) {
    (void)state;
    int64_t before[2 * STEPS], after[2 * STEPS];
    for (int stops = -1; stops < STEPS; stops++) {
        fixture x;
        open_host(&x);
        if (stops >= 0) {
            fixture y;
            open_host(&y);
            add_steps(&y, INT64_MIN);
            run(&y, before);
            arena_destroy(y.arena);
        }
        add_steps(&x, stops < 0 ? INT64_MIN : before[stops + STEPS]);
        uint64_t result = run(&x, before);
        roll_repeats(x.m, &x.diag);
        assert_true(count_loops(x.f->body) >= 1);
        assert_true(run(&x, after) == result);
        assert_memory_equal(before, after, sizeof before);
        arena_destroy(x.arena);
    }
}

enum { ANY_LOOPS = -1 };

static void compute_the_same(fixture *x, int loops) {
    int64_t before[2 * STEPS], after[2 * STEPS];
    uint64_t result = run(x, before);
    roll_repeats(x->m, &x->diag);
    if (loops != ANY_LOOPS) assert_int_equal(count_loops(x->f->body), loops);
    assert_true(run(x, after) == result);
    assert_memory_equal(before, after, sizeof before);
    arena_destroy(x->arena);
}

// Enough code for a loop to be smaller, in which nothing repeats.
static ins *mix(lbuild *b, ins *v, ins *w, int64_t number) {
    static const lop ops[] = {L_ADD, L_XOR, L_SUB, L_AND, L_OR};
    ins *n = lb_idx(b, number);
    for (int j = 1; j < 22; j++) {
        ins *product = lb_bin(b, L_MUL, lb_bin(b, ops[j % 5], v, n), w);
        w = v;
        v = lb_bin(b, L_XOR, product, lb_bin(b, ops[j / 5 % 5], v, product));
    }
    return v;
}

// Each step reads the values of the step before and of that `back` steps before. Other code reads two of the values.
static void add_chain(fixture *x, int back) {
    ins *values[40];
    for (int j = 0; j < back; j++) values[j] = lb_load(&x->b, lt(LK_I64, 1), x->memory, lb_idx(&x->b, j), 8);
    for (int j = back; j < 40; j++) {
        values[j] = mix(&x->b, values[j - 1], values[j - back], j * j);
        lb_store(&x->b, x->memory, lb_idx(&x->b, j % STEPS), values[j], 8);
    }
    lb_return(&x->b, lb_bin(&x->b, L_ADD, values[25], values[39]));
}

// Those of two steps before are one iteration old where iterations begin in the middle of a step; of older ones two iterations are a loop.
static void loops_carry_the_value_of_the_step_before(void **state) {
    (void)state;
    for (int back = 1; back <= 3; back++) {
        fixture x;
        open_host(&x);
        add_chain(&x, back);
        compute_the_same(&x, back < 3 ? 1 : ANY_LOOPS);
    }
}

// Step j reads variables j and j + 1, which are set before, or in the steps: then these stay.
static void add_readers(fixture *x, bool set) {
    lbuild *b = &x->b;
    ins *variables[STEPS + 1];
    for (int j = 0; j <= STEPS; j++)
        variables[j] = lb_var(b, "v", lb_load(b, lt(LK_I64, 1), x->memory, lb_idx(b, j), 8));
    for (int j = 0; j < STEPS; j++) {
        ins *sum = mix(b, lb_get(b, variables[j]), lb_get(b, variables[j + 1]), j * j);
        if (set) lb_set(b, variables[j + 1], sum);
        lb_store(b, x->memory, lb_idx(b, STEPS + j), sum, 8);
    }
    lb_return(b, lb_get(b, variables[STEPS]));
}

static void iterations_share_variables_that_they_only_read(void **state) {
    (void)state;
    for (int set = 0; set < 2; set++) {
        fixture x;
        open_host(&x);
        add_readers(&x, set);
        compute_the_same(&x, !set);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_compute_the_same_in_a_loop),
        cmocka_unit_test(loops_carry_the_value_of_the_step_before),
        cmocka_unit_test(iterations_share_variables_that_they_only_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
