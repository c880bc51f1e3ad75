// The file of --tune-db: what is written is read back, sorted; what is wrong is refused; which kernel an
// answer is for.
#include "compiler/driver/tune_db.h"
#include "ir/kernel/lower.h"
#include "ir/kernel/program.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static choice_table *read_text(arena *a, diag *d, const char *s) {
    choice_table *t = choice_table_new(a);
    tune_db_parse(t, d, "db", s, strlen(s));
    return t;
}

static void test_reads_what_was_written(void **state) {
    arena *a = *state = arena_new();
    diag d = {.arena = a};
    jmp_buf jump;
    if (!DIAG_TRY(&d, jump)) fail();
    choice_table *t = choice_table_new(a);
    choices wide = {.vectors = 4, .blocks = YES, .depth = 512, .tasks = TASKS_ROWS}, other = {.algorithm = 2};
    choice_table_put(
        t, &(choice_entry){.kernel = "ffffffffffffffff", .target = "a", .about = "x\"y", .c = wide});
    choice_table_put(t,
                     &(choice_entry){.kernel = "0000000000000000", .target = "b", .gain = 1.25, .c = other});
    choice_table_put(t, &(choice_entry){.kernel = "0000000000000000", .target = "a", .gain = 1});
    const char *s = tune_db_text(a, t);
    choice_table *back = read_text(a, &d, s);
    assert_int_equal(back->entries.n, 3);
    assert_string_equal(tune_db_text(a, back), s);
    const choice_entry *first = back->entries.slots[0].value, *second = back->entries.slots[1].value;
    assert_string_equal(first->kernel, "0000000000000000");
    assert_string_equal(choices_text(a, &first->c), "as the model says");
    assert_string_equal(choices_text(a, &second->c), "vectors=4, blocks=yes, depth=512, tasks=rows");
    assert_string_equal(second->about, "x\"y");
    arena_destroy(a);
}

#define ANSWERS(s) "{\"format\": \"onnxc-tune-1\", \"answers\": [" s "]}"
#define ANSWER(version, choices)                                                                             \
    "{\"kernel\": \"0123456789abcdef\", \"target\": \"t\", \"schedules\": " version                          \
    ", \"about\": \"a\", \"choices\": " choices ", \"gain\": 1}"

static bool is_refused(arena *a, const char *s) {
    diag d = {.arena = a};
    jmp_buf jump;
    if (!DIAG_TRY(&d, jump)) return d.class == DIAG_USER && d.errors == 1;
    read_text(a, &d, s);
    return false;
}

static void test_refuses(void **state) {
    arena *a = *state = arena_new();
    static const char *const wrong[] = {"",
                                        "{}",
                                        ANSWERS("3"),
                                        ANSWERS("{}"),
                                        ANSWERS(ANSWER("1", "{\"vectors\": 0}")),
                                        ANSWERS(ANSWER("1", "{\"vectors\": 5}")),
                                        ANSWERS(ANSWER("1", "{\"vectors\": -1}")),
                                        ANSWERS(ANSWER("1", "{\"vectors\": \"1\"}")),
                                        ANSWERS(ANSWER("1", "{\"blocks\": \"n\"}")),
                                        ANSWERS(ANSWER("1", "{\"blocks\": \"no|yes\"}")),
                                        ANSWERS(ANSWER("1", "{\"width\": 1}")),
                                        ANSWERS(ANSWER("1", "[]")),
                                        ANSWERS(ANSWER("0.5", "{}"))};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) assert_true(is_refused(a, wrong[i]));
    assert_false(is_refused(a, ANSWERS(ANSWER("1", "{\"vectors\": 4}"))));
    assert_false(is_refused(a, ANSWERS()));
    arena_destroy(a);
}

static void test_other_versions(void **state) {
    arena *a = *state = arena_new();
    diag d = {.arena = a};
    jmp_buf jump;
    if (!DIAG_TRY(&d, jump)) fail();
    choice_table *t =
        read_text(a, &d, ANSWERS(ANSWER("0", "{\"of another time\": []}") ", " ANSWER("1", "{}")));
    assert_int_equal(t->entries.n, 1);
    assert_int_equal(t->stale, 1);
    arena_destroy(a);
}

// y[i] = x[i] + constant, with names of its own.
static kernel *add_kernel(arena *a, diag *d, const char *name, int64_t n, dtype type) {
    program *p = program_new(module_new(a, d, "unit"));
    dim *size = dim_const(p->dims, n);
    buffer *x = program_buffer(p, arena_printf(a, "%s_x", name), BUF_INPUT, type, 1, &size),
           *y = program_buffer(p, arena_printf(a, "%s_y", name), BUF_OUTPUT, type, 1, &size);
    kernel *k = kernel_new(p, name, NULL);
    int i = kernel_axis(k, AXIS_PARALLEL, "i", size);
    stage *s = kernel_stage(k);
    stage_axis(k, s, i);
    expr *at = x_axis(k, i);
    stage_write(k, s, y, &at, x_add(k, x_read(k, x, &at), x_float(k, dtype_compute(type), 1)));
    return k;
}

static void test_keys(void **state) {
    arena *a = *state = arena_new();
    diag d = {.arena = a};
    jmp_buf jump;
    if (!DIAG_TRY(&d, jump)) fail();
    kernel *k = add_kernel(a, &d, "one", 8, DT_F32), *same = add_kernel(a, &d, "two", 8, DT_F32);
    const char *key = kernel_key(a, k), *text = kernel_print(a, k);
    assert_string_equal(key, kernel_key(a, same));
    assert_string_not_equal(key, kernel_key(a, add_kernel(a, &d, "one", 9, DT_F32)));
    assert_string_not_equal(key, kernel_key(a, add_kernel(a, &d, "one", 8, DT_F16)));
    assert_string_equal(text, kernel_print(a, k)); // names are back
    choice_table *t = choice_table_new(a);
    target wide = {.arch = {.name = "x86_64"}, .vector_bits = 512},
           narrow = {.arch = {.name = "x86_64"}, .vector_bits = 128};
    wide.choices = narrow.choices = t;
    choice_table_put(t, &(choice_entry){.kernel = key, .target = target_key(a, &wide), .c = {.rows = 3}});
    assert_int_equal(choices_of(&wide, same)->rows, 3);
    assert_int_equal(choices_of(&narrow, k)->rows, 0);
    assert_int_equal(choices_of(NULL, k)->rows, 0);
    arena_destroy(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_reads_what_was_written),
                                       cmocka_unit_test(test_refuses), cmocka_unit_test(test_other_versions),
                                       cmocka_unit_test(test_keys)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
