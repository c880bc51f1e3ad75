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

// Each step reads the value of the one before.
static void chains_stay(void **state) {
    (void)state;
    fixture x;
    open_host(&x);
    ins *value = lb_load(&x.b, lt(LK_I64, 1), x.memory, lb_idx(&x.b, 0), 8);
    for (int j = 0; j < 40; j++) {
        value = lb_bin(&x.b, L_XOR, lb_bin(&x.b, L_MUL, value, value), lb_idx(&x.b, j + 5));
        lb_store(&x.b, x.memory, lb_idx(&x.b, j % STEPS), value, 8);
    }
    lb_return(&x.b, value);
    int64_t before[2 * STEPS], after[2 * STEPS];
    uint64_t result = run(&x, before);
    roll_repeats(x.m, &x.diag);
    assert_int_equal(count_loops(x.f->body), 0);
    assert_true(run(&x, after) == result);
    assert_memory_equal(before, after, sizeof before);
    arena_destroy(x.arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_compute_the_same_in_a_loop),
        cmocka_unit_test(chains_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
