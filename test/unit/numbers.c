// Kernels that read what tells them apart from tables of numbers.
#include "ir/loops/numbers.h"
#include "ir/target.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
// cmocka.h must follow the headers it needs.
#include <cmocka.h>

static const target plain = {
    .ptr_bits = 64, .vector_bits = 256, .f32 = true, .f64 = true, .little_endian = true};

// A kernel that copies `count` elements, `scale` bytes apart.
static void add_kernel(lmodule *m, diag *d, const char *name, int count, int64_t scale) {
    lfunc *f = lfunc_new(m, name, lt(LK_VOID, 0));
    f->target = m->target, f->kernel = true;
    ins *p = lfunc_param(f, "p", lt_ptr(), LK_I8, DT_I8, false),
        *i = lfunc_param(f, "i", lt(LK_I64, 1), LK_VOID, DT_NONE, true);
    lbuild b = lbuild_new(f, m->target, d);
    for (int j = 0; j < count; j++) {
        ins *at = lb_offset(&b, p, lb_bin(&b, L_ADD, i, lb_idx(&b, j)), scale);
        lb_store(&b, at, lb_idx(&b, 1), lb_load(&b, lt(LK_I8, 1), at, lb_idx(&b, 0), 1), 1);
    }
}

// A kernel that stores `count` vectors of that label.
static void add_labels(lmodule *m, diag *d, const char *name, int count, int64_t label) {
    lfunc *f = lfunc_new(m, name, lt(LK_VOID, 0));
    f->target = m->target, f->kernel = true;
    ins *p = lfunc_param(f, "p", lt_ptr(), LK_I64, DT_I64, false);
    lbuild b = lbuild_new(f, m->target, d);
    for (int j = 0; j < count; j++)
        lb_store(&b, p, lb_idx(&b, 4 * j), lb_splat(&b, lb_int(&b, lt(LK_I64, 1), label), 4), 8);
}

static int params_of(const lmodule *m, int function) { return m->funcs.at[function]->params.n; }

static const char *const names[] = {"k0", "k1", "k2"};

// Adds the host function that calls the three kernels.
static void share_three(lmodule *m, diag *d) {
    lfunc *host = lfunc_new(m, "host", lt(LK_VOID, 0));
    host->target = &plain;
    ins *args[] = {lfunc_param(host, "p", lt_ptr(), LK_I8, DT_I8, false), NULL};
    lbuild b = lbuild_new(host, &plain, d);
    args[1] = lb_idx(&b, 0);
    for (int j = 0; j < 3; j++) lb_call(&b, lt(LK_VOID, 0), names[j], params_of(m, j), args);
    share_numbers(m, d);
}

// Three kernels that differ only in a scale, and the host function that calls them.
static lmodule *module_with(arena *a, diag *d, const int64_t *scales) {
    lmodule *m = lmodule_new(a, "m", &plain);
    for (int j = 0; j < 3; j++) add_kernel(m, d, names[j], 8, scales[j]);
    share_three(m, d);
    return m;
}

static void scales_become_numbers(void **state) {
    (void)state;
    arena *a = arena_new();
    diag d = {.arena = a};
    lmodule *m = module_with(a, &d, (int64_t[]){32, 48, 64});
    for (int j = 0; j < 3; j++) assert_int_equal(params_of(m, j), 3);
    arena_destroy(a);
}

// Small scales stay in the code, so that such kernels have a shape of their own.
static void small_scales_have_their_own_shape(void **state) {
    (void)state;
    arena *a = arena_new();
    diag d = {.arena = a};
    lmodule *m = module_with(a, &d, (int64_t[]){32, 1, 64});
    assert_int_equal(params_of(m, 0), 3);
    assert_int_equal(params_of(m, 1), 2);
    assert_int_equal(params_of(m, 2), 3);
    arena_destroy(a);
}

// As in the labels of 90 classes, which detectors write one class after the other.
static void stored_integers_become_numbers(void **state) {
    (void)state;
    arena *a = arena_new();
    diag d = {.arena = a};
    lmodule *m = lmodule_new(a, "m", &plain);
    for (int j = 0; j < 3; j++) add_labels(m, &d, names[j], 16, j + 1);
    share_three(m, &d);
    for (int j = 0; j < 3; j++) assert_int_equal(params_of(m, j), 2);
    arena_destroy(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scales_become_numbers),
        cmocka_unit_test(small_scales_have_their_own_shape),
        cmocka_unit_test(stored_integers_become_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
