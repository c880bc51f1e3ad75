// The window of an index around the position on an axis, whose ends may leave int64.
#include "ir/kernel/program.h"
#include "passes/match/window.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
// cmocka.h must follow the headers it needs.
#include <cmocka.h>

enum { ROWS = 10 };

// The window around i of i + factor * j, or of i + factor * j + factor * l, for j and l below `extent`.
static window_fit window_of(int64_t factor, int64_t extent, bool twice, index_window *w) {
    arena *a = arena_new();
    diag d = {.arena = a};
    jmp_buf jump;
    if (!DIAG_TRY(&d, jump)) fail();
    program *p = program_new(module_new(a, &d, "test"));
    kernel *k = kernel_new(p, "k", NULL);
    int i = kernel_axis(k, AXIS_PARALLEL, "i", dim_const(p->dims, ROWS));
    expr *index = x_axis(k, i);
    for (int n = 0; n < 1 + twice; n++) {
        int j = kernel_axis(k, AXIS_REDUCE, n ? "l" : "j", dim_const(p->dims, extent));
        index = x_add(k, index, x_mul(k, x_axis(k, j), x_i64(k, factor)));
    }
    window_fit fit = window_of_index(k, index, i, w);
    arena_destroy(a);
    return fit;
}

static void test_ends(void **state) {
    (void)state;
    index_window w;
    assert_int_equal(window_of(2, 4, true, &w), WINDOW_FITS);
    assert_true(w.at == 1 && w.lo == 0 && w.hi == 12 && w.down == 1);
    assert_int_equal(window_of(-2, 4, false, &w), WINDOW_FITS);
    assert_true(w.lo == -6 && w.hi == 0);
}

// No memory has such an index.
static void test_overflow(void **state) {
    (void)state;
    index_window w;
    assert_int_equal(window_of(INT64_C(1) << 40, INT64_C(1) << 40, false, &w), WINDOW_COMPUTED);
    assert_int_equal(window_of(-(INT64_C(1) << 40), INT64_C(1) << 40, false, &w), WINDOW_COMPUTED);
    assert_int_equal(window_of(INT64_C(1) << 31, INT64_C(1) << 31, false, &w), WINDOW_FITS);
    assert_int_equal(window_of(INT64_C(1) << 31, INT64_C(1) << 31, true, &w), WINDOW_FITS);
    assert_int_equal(window_of(INT64_C(1) << 32, INT64_C(3) << 29, true, &w), WINDOW_COMPUTED);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ends), cmocka_unit_test(test_overflow)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
