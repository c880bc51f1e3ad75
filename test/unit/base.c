// Arenas, maps, text and diagnostics.
#include "compiler/base/arena.h"
#include "compiler/base/diag.h"
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif
// cmocka.h must follow the headers it needs.
#include <cmocka.h>

static void count_up(void *arg) { ++*(int *)arg; }

static void arena_blocks_are_zeroed_and_aligned(void **state) {
    (void)state;
    arena *a = arena_new();
    for (size_t size = 0; size < 70000; size = size * 3 + 1) {
        unsigned char *p = arena_alloc(a, size);
        assert_int_equal((uintptr_t)p % 16, 0);
        for (size_t i = 0; i < size; i++) assert_int_equal(p[i], 0);
        memset(p, 0xff, size);
    }
    assert_true(arena_bytes(a) > 40000);
    int cleaned = 0;
    arena_on_destroy(a, count_up, &cleaned);
    arena_on_destroy(a, count_up, &cleaned);
    arena_destroy(a);
    assert_int_equal(cleaned, 2);
}

#ifdef __SANITIZE_ADDRESS__
static void bytes_behind_a_block_are_poisoned(void **state) {
    (void)state;
    arena *a = arena_new();
    for (size_t size = 1; size < 70000; size = size * 3 + 1) {
        char *block = arena_alloc(a, size);
        assert_null(__asan_region_is_poisoned(block, size));
        assert_ptr_equal(__asan_region_is_poisoned(block, size + 16), block + size);
        block = arena_grow(a, block, size, 2 * size);
        assert_null(__asan_region_is_poisoned(block, 2 * size));
        assert_ptr_equal(__asan_region_is_poisoned(block, 2 * size + 16), block + 2 * size);
    }
    arena_destroy(a);
}
#endif

static void arena_grow_keeps_contents(void **state) {
    (void)state;
    arena *a = arena_new();
    char *s = arena_strdup(a, "abc");
    for (size_t n = 4; n < 100000; n *= 2) {
        s = arena_grow(a, s, n, 2 * n);
        assert_string_equal(s, "abc");
        for (size_t i = 3; i < 2 * n; i++) assert_int_equal(s[i], 0);
        if (n % 3 == 0) arena_alloc(a, 5);
    }
    VEC(int) v = {0};
    for (int i = 0; i < 1000; i++) VEC_PUSH(a, &v, i);
    for (int i = 0; i < 1000; i++) assert_int_equal(v.at[i], i);
    arena_destroy(a);
}

static void count_one(void *n) { ++*(int *)n; }

static void leave(void *arg) { longjmp(*(jmp_buf *)arg, 1); }

static void arena_limit_calls_the_handler(void **state) {
    (void)state;
    arena *a = arena_new();
    jmp_buf buf;
    volatile int blocks = 0;
    arena_set_limit(a, 1 << 20, leave, &buf);
    if (!setjmp(buf))
        for (;; blocks++) arena_alloc(a, 1000);
    assert_in_range(blocks, 900, 1060);
    if (!setjmp(buf)) {
        arena_set_limit(a, 1 << 20, leave, &buf);
        arena_calloc(a, SIZE_MAX / 2, 3);
        fail();
    }
    arena_destroy(a);
}

// The leak sanitizer sees what an owner forgets.
static void arenas_within_go_with_their_owner(void **state) {
    (void)state;
    int gone = 0;
    arena *owner = arena_new(), *first = arena_within(owner), *second = arena_within(owner),
          *inner = arena_within(second), *third = arena_within(owner);
    arena *const all[] = {first, second, inner, third};
    for (int i = 0; i < 4; i++) arena_on_destroy(all[i], count_one, &gone);
    arena_destroy(second);
    assert_int_equal(gone, 2);
    arena_destroy(third);
    assert_int_equal(gone, 3);
    arena_destroy(owner);
    assert_int_equal(gone, 4);
}

static void maps_find_what_was_put(void **state) {
    (void)state;
    arena *a = arena_new();
    map m = {.arena = a};
    assert_null(map_get(&m, "x"));
    for (intptr_t i = 0; i < 5000; i++) {
        map_put(&m, arena_printf(a, "key%d", (int)i), (void *)(i + 1));
        map_put_number(&m, (uint64_t)i, (void *)(-i - 1));
    }
    map_put(&m, "key7", (void *)77);
    assert_int_equal(m.n, 10000);
    for (intptr_t i = 0; i < 5000; i++) {
        intptr_t want = i == 7 ? 77 : i + 1;
        assert_ptr_equal(map_get(&m, arena_printf(a, "key%d", (int)i)), (void *)want);
        assert_ptr_equal(map_get_number(&m, (uint64_t)i), (void *)(-i - 1));
    }
    assert_null(map_get(&m, "key5000"));
    assert_string_equal(m.slots[2].key, "key1");
    arena_destroy(a);
}

static void quoted_text_comes_back(void **state) {
    (void)state;
    arena *a = arena_new();
    char bytes[256];
    for (int i = 0; i < 256; i++) bytes[i] = (char)i;
    text t = {.arena = a};
    assert_string_equal(text_str(&t), "");
    text_add_quoted(&t, bytes, sizeof bytes);
    const char *s = text_str(&t);
    size_t n;
    char *back = text_unquote(a, &s, &n);
    assert_non_null(back);
    assert_int_equal(n, 256);
    assert_memory_equal(back, bytes, 256);
    assert_int_equal(*s, 0);
    const char *bad[] = {"", "x", "\"abc", "\"\\q\"", "\"\\x1\"", "\"\\", "\"a\nb\""};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) assert_null(text_unquote(a, &bad[i], &n));
    arena_destroy(a);
}

static void hostile_names_are_made_safe(void **state) {
    (void)state;
    arena *a = arena_new();
    text t = {.arena = a};
    text_add_safe(&t, "a\033[31m\n\x80 \xc3\xa4 \xe2\x80\xae \xed\xa0\x80", 100);
    assert_string_equal(text_str(&t), "a\\x1b[31m\\n\\x80 \xc3\xa4 \\xe2\\x80\\xae \\xed\\xa0\\x80");
    text u = {.arena = a};
    text_add_safe(&u, "abc\xc3\xa4\xc3\xa4", 6); // the second umlaut would be cut in two
    assert_string_equal(text_str(&u), "abc\xc3\xa4... (7 bytes)");
    arena_destroy(a);
}

typedef struct log {
    text text;
    int n;
} log_;

static void record(void *user, const diag_message *m) {
    log_ *l = user;
    l->n++;
    text_add(&l->text, m->full);
    text_add(&l->text, "\n");
}

static diag diag_for(arena *a, log_ *l) {
    l->text.arena = a;
    return (diag){.arena = a, .sink = record, .user = l, .file = "m.onnx"};
}

static void messages_name_file_node_and_operator(void **state) {
    (void)state;
    arena *a = arena_new();
    log_ l = {0};
    diag d = diag_for(a, &l);
    loc call = {.node = "call", .op = "F", .version = 1};
    loc at = {.file = "x.onnx", .node = "conv", .op = "Conv", .version = 22, .graph = "F", .via = &call};
    diag_hint(&d, "use --%s", "this");
    diag_error(&d, &at, "rank %d", 3);
    diag_warning(&d, WARN_IGNORED_INPUT, NULL, "odd");
    diag_remark(&d, NULL, "not shown");
    d.remarks = true;
    diag_remark(&d, &(loc){.node = "n"}, "shown");
    assert_string_equal(text_str(&l.text), "x.onnx: node 'conv' (Conv-22): error: rank 3\n"
                                           "  in function 'F' called by node 'call' (F-1)\n"
                                           "hint: use --this\n"
                                           "m.onnx: warning: odd [-Wignored-input]\n"
                                           "m.onnx: node 'n': remark: shown\n");
    assert_int_equal(d.errors, 1);
    assert_int_equal(d.class, DIAG_USER);
    arena_destroy(a);
}

static void the_worst_class_wins(void **state) {
    (void)state;
    arena *a = arena_new();
    log_ l = {0};
    diag d = diag_for(a, &l);
    jmp_buf buf;
    diag_missing(&d, NULL, "a");
    assert_int_equal(d.class, DIAG_MISSING);
    diag_error(&d, NULL, "b");
    assert_int_equal(d.class, DIAG_USER);
    diag_missing(&d, NULL, "c");
    assert_int_equal(d.class, DIAG_USER);
    if (DIAG_TRY(&d, buf)) diag_defect(&d, NULL, "d");
    assert_int_equal(d.class, DIAG_DEFECT);
    assert_non_null(strstr(text_str(&l.text), "hint: this is a bug in onnxc"));
    arena_destroy(a);
}

static void errors_stop_at_the_limit(void **state) {
    (void)state;
    arena *a = arena_new();
    log_ l = {0};
    diag d = diag_for(a, &l);
    d.error_limit = 3;
    assert_true(diag_warning_option(&d, "-Werror"));
    jmp_buf buf;
    volatile int reported = 0;
    if (DIAG_TRY(&d, buf))
        for (;; reported++) diag_warning(&d, WARN_IGNORED_INPUT, NULL, "w");
    assert_int_equal(reported, 3);
    assert_int_equal(l.n, 4);
    assert_non_null(strstr(text_str(&l.text), "error: w [-Werror,-Wignored-input]"));
    assert_non_null(strstr(text_str(&l.text), "too many errors (3)"));
    volatile bool left = true;
    if (DIAG_TRY(&d, buf)) {
        diag_check(&d);
        left = false;
    }
    assert_true(left);
    arena_destroy(a);
}

static void missing_things_are_listed_in_full(void **state) {
    (void)state;
    arena *a = arena_new();
    log_ l = {0};
    diag d = diag_for(a, &l);
    d.error_limit = 2;
    for (int i = 0; i < 50; i++) diag_missing(&d, NULL, "operator %d", i);
    assert_int_equal(l.n, 50);
    arena_destroy(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arena_blocks_are_zeroed_and_aligned),
#ifdef __SANITIZE_ADDRESS__
        cmocka_unit_test(bytes_behind_a_block_are_poisoned),
#endif
        cmocka_unit_test(arena_grow_keeps_contents),
        cmocka_unit_test(arena_limit_calls_the_handler),
        cmocka_unit_test(arenas_within_go_with_their_owner),
        cmocka_unit_test(maps_find_what_was_put),
        cmocka_unit_test(quoted_text_comes_back),
        cmocka_unit_test(hostile_names_are_made_safe),
        cmocka_unit_test(messages_name_file_node_and_operator),
        cmocka_unit_test(the_worst_class_wins),
        cmocka_unit_test(errors_stop_at_the_limit),
        cmocka_unit_test(missing_things_are_listed_in_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
