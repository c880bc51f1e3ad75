// JSON: what is written is read back; what is wrong is refused where it is wrong.
#include "compiler/base/json.h"
#include "compiler/base/json_read.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void test_reads_what_was_written(void **state) {
    arena *a = *state = arena_new();
    json j = json_new_indented(a);
    json_open(&j, NULL, '{');
    json_text(&j, "a\"b", "line\n\\tab\t\x01");
    json_int(&j, "n", -5);
    json_open(&j, "list", '[');
    json_bool(&j, NULL, true), json_text(&j, NULL, NULL);
    json_close(&j, ']');
    json_close(&j, '}');
    const char *s = json_string(&j);
    const json_value *v = json_parse(a, s, strlen(s), NULL);
    assert_non_null(v);
    assert_string_equal(json_string_of(v, "a\"b"), "line\n\\tab\t\x01");
    assert_string_equal(json_member(v, "n")->text, "-5");
    assert_int_equal(json_member(v, "list")->items.n, 2);
    assert_true(json_member(v, "list")->items.at[0]->truth);
    assert_null(json_member(v, "none"));
    arena_destroy(a);
}

static void test_escapes(void **state) {
    arena *a = *state = arena_new();
    const char s[] = "[\"\\u00e4\\u20ac\\ud83d\\ude00\"]";
    const json_value *v = json_parse(a, s, strlen(s), NULL);
    assert_string_equal(v->items.at[0]->text, "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80");
    arena_destroy(a);
}

static void test_refuses(void **state) {
    arena *a = *state = arena_new();
    static const char *const wrong[] = {"",      "{",  "[1,]",   "{\"a\" 1}",   "\"a",    "\"\\x\"", "tru",
                                        "[1] 2", "+1", "{1: 2}", "\"\\ud800\"", "\"\n\"", "\"\\u12", "-"};
    size_t at;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_null(json_parse(a, wrong[i], strlen(wrong[i]), &at));
    char deep[5000];
    memset(deep, '[', sizeof deep);
    assert_null(json_parse(a, deep, sizeof deep, &at));
    assert_null(json_parse(a, "[1", 3, &at)); // with its NUL
    arena_destroy(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_reads_what_was_written),
                                       cmocka_unit_test(test_escapes), cmocka_unit_test(test_refuses)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
