// Sentences in tables, as the runtime reads them.
#include "codegen/host/host_impl.h"
#include "runtime-lite/core/runtime.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
// cmocka.h must follow the headers it needs.
#include <cmocka.h>

enum { MANY = 3000 };

typedef struct said_table {
    arena *arena;
    text table;
    sentences *sentences;
} said_table;

static said_table *begin(void) {
    arena *a = arena_new();
    said_table *t = ARENA_NEW(a, said_table);
    t->arena = t->table.arena = a;
    t->sentences = sentences_new(a, &t->table);
    return t;
}

static const char *read_at(const said_table *t, int64_t at) {
    return onnxc_rt_message(t->table.s + at, INT64_MIN, 34);
}

static void sentences_are_read_back(void **state) {
    (void)state;
    static const char *const all[] = {
        "",
        "node '/layer1/conv' (Conv): no memory for 'layer1'",
        "node '/layer1/conv' (Conv): 'layer1' is too large",
        "node '/layer1/conv' (Conv): no memory for 'layer1'",
        "node '/layer2/conv' (Conv): no memory for 'layer1' and 'layer2'",
        "abcabcabcabcabcabcabcabcabcabc",
        "bcabcabcabcabcabcabcabcabcabcabcabc",
        "node '/\xc3\xa4\xff' (Conv): no memory",
        "short",
    };
    enum { N = sizeof all / sizeof *all };
    said_table *t = begin();
    int64_t at[N];
    for (int j = 0; j < N; j++) at[j] = sentences_add(t->sentences, all[j], false);
    for (int j = 0; j < N; j++) assert_string_equal(read_at(t, at[j]), all[j]);
    arena_destroy(t->arena);
}

static void numbers_are_written(void **state) {
    (void)state;
    said_table *t = begin();
    int64_t first = sentences_add(t->sentences, "index \1 is out of range for axis \2", true),
            second = sentences_add(t->sentences, "the index \1 is out of range for axis 2", true),
            plain = sentences_add(t->sentences, "index \1 is out of range\3", false);
    assert_string_equal(read_at(t, first), "index -9223372036854775808 is out of range for axis 34");
    assert_string_equal(read_at(t, second), "the index -9223372036854775808 is out of range for axis 2");
    assert_string_equal(read_at(t, plain), "index ? is out of range?");
    arena_destroy(t->arena);
}

// Beyond the distances and the depth of references, too.
static void many_sentences_take_little(void **state) {
    (void)state;
    said_table *t = begin();
    int64_t at[MANY];
    size_t plain = 0;
    for (int j = 0; j < MANY; j++) {
        const char *s =
            arena_printf(t->arena, "node '/layer%d/%d/conv' (Conv): no memory for 'y%d'", j, j % 7, j * j);
        at[j] = sentences_add(t->sentences, s, false);
        plain += strlen(s) + 1;
    }
    assert_true(t->table.n > UINT16_MAX / 2 && t->table.n < plain / 2);
    for (int j = 0; j < MANY; j++) {
        const char *s =
            arena_printf(t->arena, "node '/layer%d/%d/conv' (Conv): no memory for 'y%d'", j, j % 7, j * j);
        assert_string_equal(read_at(t, at[j]), s);
    }
    arena_destroy(t->arena);
}

static void long_sentences_are_clipped(void **state) {
    (void)state;
    char s[4000] = {0};
    said_table *t = begin();
    for (int j = 0; j < (int)sizeof s - 1; j++) s[j] = "\xc3\xa4"[j & 1];
    const char *said = read_at(t, sentences_add(t->sentences, s, false));
    assert_int_equal(strlen(said), 994);
    assert_memory_equal(said, s, 990);
    assert_string_equal(said + 990, " ...");
    assert_string_equal(read_at(t, sentences_add(t->sentences, s + 1, false)) + 989, " ...");
    arena_destroy(t->arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sentences_are_read_back),
        cmocka_unit_test(numbers_are_written),
        cmocka_unit_test(many_sentences_take_little),
        cmocka_unit_test(long_sentences_are_clipped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
