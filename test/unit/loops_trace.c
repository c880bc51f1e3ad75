// The order of accesses that follows from constants.
#include "ir/loops/loops_trace.h"
#include "ir/target.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
// cmocka.h must follow the headers it needs.
#include <cmocka.h>

static const target plain = {
    .ptr_bits = 64, .vector_bits = 256, .f32 = true, .f64 = true, .little_endian = true};

enum { BYTES = 16 };

// v = 0; if (cond) v = 8; store p[v]. The condition is an element of q, or a number.
static bool traces(bool data, int64_t cond, uint32_t *first_write) {
    arena *a = arena_new();
    diag d = {.arena = a};
    lmodule *m = lmodule_new(a, "m", &plain);
    lfunc *f = lfunc_new(m, "f", lt(LK_VOID, 0));
    f->target = &plain;
    ins *p = lfunc_param(f, "p", lt_ptr(), LK_I8, DT_I8, false),
        *q = lfunc_param(f, "q", lt_ptr(), LK_I8, DT_I8, true);
    lbuild b = lbuild_new(f, &plain, &d);
    ins *v = lb_var(&b, "v", lb_idx(&b, 0)), *byte = lb_load(&b, lt(LK_I8, 1), q, lb_idx(&b, 0), 1);
    ins *chosen = data ? lb_cmp(&b, L_EQ, byte, lb_int(&b, lt(LK_I8, 1), 1))
                       : lb_cmp(&b, L_EQ, lb_idx(&b, cond), lb_idx(&b, 1));
    ins *branch = lb_if(&b, chosen);
    lb_set(&b, v, lb_idx(&b, 8));
    lb_end(&b, branch);
    lb_store(&b, p, lb_get(&b, v), lb_int(&b, lt(LK_I8, 1), 1), 1);
    uint32_t last_read[BYTES] = {0};
    for (int j = 0; j < BYTES; j++) first_write[j] = UINT32_MAX;
    traced_memory memory = {BYTES, last_read, first_write};
    int64_t steps;
    bool known = loops_trace(a, m, f, (int[]){0, -1}, &memory, 1000, &steps);
    arena_destroy(a);
    return known;
}

static void known_branches_are_followed(void **state) {
    (void)state;
    uint32_t written[BYTES];
    assert_true(traces(false, 1, written));
    assert_true(written[8] != UINT32_MAX && written[0] == UINT32_MAX);
    assert_true(traces(false, 0, written));
    assert_true(written[0] != UINT32_MAX && written[8] == UINT32_MAX);
}

// Which of the two values the variable has is not known: nor is what the store writes.
static void variables_of_unknown_branches_are_unknown(void **state) {
    (void)state;
    uint32_t written[BYTES];
    assert_false(traces(true, 0, written));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(known_branches_are_followed),
                                       cmocka_unit_test(variables_of_unknown_branches_are_unknown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
