// JSON: what is written is read back; what is wrong is refused where it is wrong.
#include "compiler/base/json.h"
#include "compiler/base/json_read.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void test_reads_what_was_written(void **state) {
    arena *a = *state = arena_new();
    diag d = {.arena = a};
    json j = json_new_indented(a);
    json_open(&j, NULL, '{');
    json_text(&j, "a\"b", "line\n\\tab\t\x01");
    json_int(&j, "n", -5);
    json_open(&j, "list", '[');
    json_bool(&j, NULL, true), json_text(&j, NULL, NULL);
    json_close(&j, ']');
    json_close(&j, '}');
    const char *s = json_done(&j);
    const json_t *v = json_parse(a, &d, "", s, strlen(s));
    assert_string_equal(json_text_of(v, "a\"b"), "line\n\\tab\t\x01");
    assert_int_equal(json_integer_value(json_object_get(v, "n")), -5);
    assert_int_equal(json_array_size(json_object_get(v, "list")), 2);
    assert_true(json_is_true(json_array_get(json_object_get(v, "list"), 0)));
    assert_string_equal(json_text_of(v, "n"), "");
    assert_string_equal(json_text_of(v, "none"), "");
    arena_destroy(a);
}

static void keep(void *user, const diag_message *m) { *(const char **)user = m->text; }

static const char *refusal(arena *a, const char *s, size_t n) {
    const char **said = ARENA_NEW(a, const char *);
    jmp_buf jump;
    diag d = {.arena = a, .sink = keep, .user = said, .jump = &jump};
    if (!setjmp(jump)) json_parse(a, &d, "it: ", s, n);
    return *said;
}

static void test_refuses(void **state) {
    arena *a = *state = arena_new();
    static const char *const wrong[] = {"",    "{",     "[1,]",   "{\"a\" 1}",
                                        "\"a", "[1] 2", "{1: 2}", "[\"\\ud800\"]"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_non_null(refusal(a, wrong[i], strlen(wrong[i])));
    char deep[5000];
    memset(deep, '[', sizeof deep);
    assert_non_null(refusal(a, deep, sizeof deep));
    assert_non_null(refusal(a, "[1]", 4)); // with its NUL
    assert_non_null(strstr(refusal(a, "[1,\n 2,\n x]", 11), "it: line 3, column 2: "));
    arena_destroy(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_reads_what_was_written),
                                       cmocka_unit_test(test_refuses)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
