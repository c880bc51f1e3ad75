// Objects with data, archives and linking: what is written is read back, linked with the system's tools,
// opened and called.
#include "codegen/object/elf.h"
#include "codegen/llvm/llvm.h"
#include "codegen/object/archive.h"
#include "codegen/object/link.h"
#include "codegen/target/targets.h"
#include "compiler/base/outfile.h"
#include <dlfcn.h>
#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct bench {
    arena *arena;
    diag diag;
    lmodule *module;
    const char *folder, *message;
} bench;

static void remember(void *user, const diag_message *m) {
    bench *t = user;
    t->message = arena_printf(t->arena, "%s%s\n", t->message ? t->message : "", m->text);
}

static int open_bench(void **state) {
    arena *a = arena_new();
    bench *t = ARENA_NEW(a, bench);
    t->arena = a;
    t->diag = (diag){.arena = a, .sink = remember, .user = t};
    t->folder = mkdtemp(arena_strdup(a, "/tmp/onnxc-elf-XXXXXX"));
    *state = t;
    return t->folder == NULL;
}

static int close_bench(void **state) {
    bench *t = *state;
    const char *remove = arena_printf(t->arena, "rm -r '%s'", t->folder);
    int failed = system(remove);
    arena_destroy(t->arena);
    return failed;
}

static const char *in_folder(bench *t, const char *name) {
    return arena_printf(t->arena, "%s/%s", t->folder, name);
}

static void fill(void *user, int64_t offset, void *to, int64_t n) {
    for (int64_t i = 0; i < n; i++) ((unsigned char *)to)[i] = (unsigned char)((offset + i) * (intptr_t)user);
}

static ldata *add_data(bench *t, const char *name, int64_t n, int align, bool exported) {
    ldata *d = ARENA_NEW(t->arena, ldata);
    *d = (ldata){
        .name = name, .bytes = n, .align = align, .produce = fill, .user = (void *)7, .exported = exported};
    VEC_PUSH(t->arena, &t->module->data, d);
    return d;
}

// int32_t NAME(i): byte i of the data "weights"; and data that nothing refers to.
static bytes build(bench *t, const char *triple, const char *cpu, const char *name, int64_t n) {
    target_options o = {.triple = triple, .cpu = cpu, .fp = FP_DEFAULT};
    target *g = target_from_options(t->arena, &t->diag, &o);
    t->module = lmodule_new(t->arena, "unit", g);
    add_data(t, "weights", n, 64, false);
    add_data(t, "table", 3, 1, true);
    ldata *text = add_data(t, "text", 6, 1, false);
    text->bytes_or_null = "hello";
    lfunc *f = lfunc_new(t->module, name, lt(LK_I32, 1));
    f->exported = true;
    ins *i = lfunc_param(f, "i", lt(LK_I32, 1), LK_VOID, DT_I32, false);
    lbuild b = lbuild_new(f, g, &t->diag);
    ins *index = lb_conv(&b, L_SEXT, lindex_kind(g), i);
    ins *v = lb_load(&b, lt(LK_I8, 1), lb_symbol(&b, "weights"), index, 0);
    lb_return(&b, lb_conv(&b, L_ZEXT, LK_I32, v));
    return llvm_emit(t->module, EMIT_OBJECT, t->arena, &t->diag);
}

static bytes written(bench *t, bytes object) {
    text s = {.arena = t->arena};
    sink to = sink_text(&s);
    elf_write(t->arena, &t->diag, object, t->module, &to);
    return (bytes){s.s, s.n};
}

static const elf_symbol *find_symbol(const elf_file *f, const char *name) {
    for (int i = 0; i < f->symbols.n; i++)
        if (!strcmp(f->symbols.at[i].name, name)) return &f->symbols.at[i];
    return NULL;
}
static const elf_section *find_section(const elf_file *f, const char *name) {
    for (int i = 0; i < f->sections.n; i++)
        if (!strcmp(f->sections.at[i].name, name)) return &f->sections.at[i];
    return NULL;
}

static int run(bench *t, const char *format, const char *a, const char *b) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    return system(arena_printf(t->arena, format, a, b));
#pragma GCC diagnostic pop
}

// ---------------------------------------------------------------- data
static void check_data(bench *t, const char *triple, const char *cpu, int bits) {
    bytes object = build(t, triple, cpu, "byte_at", 5000);
    elf_file *before = elf_read(t->arena, &t->diag, object, "object");
    assert_null(find_symbol(before, "weights")->section);
    elf_file *f = elf_read(t->arena, &t->diag, written(t, object), "object");
    assert_int_equal(f->bits, bits);
    assert_int_equal(f->sections.n, before->sections.n + 3);
    const elf_section *s = find_section(f, ".rodata.weights");
    assert_true(s && s->align == 64 && s->size == 5000 && s->flags == SHF_ALLOC);
    for (int i = 0; i < 5000; i++)
        assert_int_equal(((const unsigned char *)s->content.at)[i], (unsigned char)(i * 7));
    assert_true(find_symbol(f, "weights")->hidden && find_symbol(f, "text")->hidden);
    assert_false(find_symbol(f, "table")->hidden || find_symbol(f, "table")->local);
    assert_memory_equal(find_section(f, ".rodata.text")->content.at, "hello", 6);
    for (int i = 0; i < f->symbols.n; i++) assert_non_null(f->symbols.at[i].section);
}

static void test_data(void **state) {
    check_data(*state, "x86_64-linux-gnu", NULL, 64);
    check_data(*state, "aarch64-linux-gnu", NULL, 64);
    check_data(*state, "riscv64-linux-gnu", NULL, 64);
    check_data(*state, "arm-none-eabihf", "cortex-m4", 32);
    check_data(*state, "riscv32-none-elf", NULL, 32);
}

static void test_same_bytes(void **state) {
    bench *t = *state;
    bytes one = written(t, build(t, "x86_64-linux-gnu", NULL, "byte_at", 70000));
    bytes two = written(t, build(t, "x86_64-linux-gnu", NULL, "byte_at", 70000));
    assert_int_equal(one.n, two.n);
    assert_memory_equal(one.at, two.at, one.n);
}

typedef struct counter {
    size_t n;
} counter;
static void count(void *user, const char *s, size_t n) {
    (void)s;
    ((counter *)user)->n += n;
}
static void fill_nothing(void *user, int64_t offset, void *to, int64_t n) {
    (void)user, (void)offset, (void)to, (void)n;
}

// More than 1 GiB: memory does not grow with it, and the code reaches it.
static void test_large(void **state) {
    bench *t = *state;
    int64_t n = ((int64_t)1 << 30) + 1;
    build(t, "x86_64-linux-gnu", NULL, "byte_at", n);
    t->module->data.at[0]->produce = fill_nothing;
    bytes text = llvm_emit(t->module, EMIT_ASM, t->arena, &t->diag);
    assert_non_null(memmem(text.at, text.n, "movabsq", 7));
    bytes object = llvm_emit(t->module, EMIT_OBJECT, t->arena, &t->diag);
    counter c = {0};
    sink to = {count, &c};
    size_t before = arena_bytes(t->arena);
    elf_write(t->arena, &t->diag, object, t->module, &to);
    assert_true(c.n > (size_t)n && arena_bytes(t->arena) - before < (4 << 20));
}

static void expect_failure(bench *t, diag_class class) {
    assert_int_equal(t->diag.class, class);
    t->diag.class = DIAG_OK;
    t->diag.errors = 0;
}

static void test_too_large(void **state) {
    bench *t = *state;
    bytes object = build(t, "aarch64-linux-gnu", NULL, "byte_at", (int64_t)1 << 32);
    jmp_buf jump;
    if (DIAG_TRY(&t->diag, jump)) {
        written(t, object);
        fail();
    }
    expect_failure(t, DIAG_MISSING);
}

static __attribute__((noinline)) void check_refused(bench *t, const bytes *b) {
    jmp_buf jump;
    if (DIAG_TRY(&t->diag, jump)) {
        elf_read(t->arena, &t->diag, *b, "cut");
        fail();
    }
    expect_failure(t, DIAG_USER);
}

static void test_garbage(void **state) {
    bench *t = *state;
    bytes object = build(t, "x86_64-linux-gnu", NULL, "byte_at", 10);
    for (size_t n = 0; n < object.n; n += 37) check_refused(t, &(bytes){object.at, n});
}

// ---------------------------------------------------------------- files
static __attribute__((noinline)) void check_unwritable(bench *t, const bytes *b) {
    jmp_buf jump;
    if (DIAG_TRY(&t->diag, jump)) {
        outfile_write_whole(t->arena, &t->diag, in_folder(t, "no/such/folder"), *b);
        fail();
    }
    expect_failure(t, DIAG_USER);
}

static void test_whole_or_nothing(void **state) {
    bench *t = *state;
    const char *path = in_folder(t, "out");
    arena *a = arena_new();
    outfile *f = outfile_open(a, &t->diag, path, false);
    outfile_write(f, "part", 4);
    assert_int_not_equal(access(path, F_OK), 0);
    arena_destroy(a);
    assert_int_equal(run(t, "test -z \"$(ls '%s')\"", t->folder, ""), 0);
    outfile_write_whole(t->arena, &t->diag, path, (bytes){"whole", 5});
    outfile_write_whole(t->arena, &t->diag, path, (bytes){"other", 5});
    assert_int_equal(run(t, "test \"$(cat '%s')\" = other", path, ""), 0);
    outfile_write_whole(t->arena, &t->diag, "/dev/null", (bytes){"x", 1});
    struct stat st;
    assert_true(stat("/dev/null", &st) == 0 && S_ISCHR(st.st_mode));
    check_unwritable(t, &(bytes){"x", 1});
}

static const char main_c[] =
    "extern int byte_at(int); extern const char table[];\n"
    "int main(void) { return !(byte_at(0) == 0 && byte_at(4999) == (unsigned char)(4999 * 7) "
    "&& table[2] == 14); }\n";

static const char *write_text(bench *t, const char *name, const char *s) {
    const char *path = in_folder(t, name);
    outfile_write_whole(t->arena, &t->diag, path, (bytes){s, strlen(s)});
    return path;
}

// The object links without a warning, with notes for a non-executable stack, and into position-independent
// programs.
static void test_links(void **state) {
    bench *t = *state;
    write_text(t, "main.c", main_c);
    bytes object = build(t, NULL, NULL, "byte_at", 5000);
    elf_write_file(t->arena, &t->diag, object, t->module, in_folder(t, "m.o"));
    assert_int_equal(run(t, "cd '%s' && cc -Wl,--fatal-warnings main.c m.o -o m && ./m", t->folder, ""), 0);
    assert_int_equal(run(t, "cd '%s' && ! readelf -lW m | grep -q 'GNU_STACK.*E'", t->folder, ""), 0);
#if defined __x86_64__
    assert_int_equal(run(t, "cd '%s' && readelf -nW m.o | grep -q 'IBT, SHSTK'", t->folder, ""), 0);
#endif
    assert_int_equal(
        run(t,
            "cd '%s' && cc -shared -Wl,--fatal-warnings m.o -o m.so && nm -D --defined-only m.so | "
            "awk '{print $3}' | sort | tr '\\n' ' ' | grep -qx 'byte_at table '",
            t->folder, ""),
        0);
}

static void test_archive(void **state) {
    bench *t = *state;
    bytes first = written(t, build(t, NULL, NULL, "byte_at", 5000));
    bytes needed = written(t, build(t, NULL, NULL, "needed", 1)),
          other = written(t, build(t, NULL, NULL, "other", 2));
    archive all = {0}, some = {0}, user = {0};
    VEC_PUSH(t->arena, &all.members, (archive_member){"a_name_that_is_longer_than_fifteen.o", first});
    VEC_PUSH(t->arena, &all.members, (archive_member){"short.o", needed});
    VEC_PUSH(t->arena, &all.members, (archive_member){"odd.txt", (bytes){"abc", 3}});
    VEC_PUSH(t->arena, &all.members, (archive_member){"other.o", other});
    text s = {.arena = t->arena};
    sink to = sink_text(&s);
    archive_write(t->arena, &t->diag, &all, &to);
    archive back = archive_read(t->arena, &t->diag, (bytes){s.s, s.n}, "all.a");
    assert_int_equal(back.members.n, 4);
    for (int i = 0; i < 4; i++) {
        assert_string_equal(back.members.at[i].name, all.members.at[i].name);
        assert_int_equal(back.members.at[i].content.n, all.members.at[i].content.n);
        assert_memory_equal(back.members.at[i].content.at, all.members.at[i].content.at,
                            back.members.at[i].content.n);
    }
    // A program that wants "byte_at" takes that member only.
    write_text(t, "main.c", main_c);
    assert_int_equal(run(t, "cd '%s' && cc -c main.c", t->folder, ""), 0);
    outfile_write_whole(t->arena, &t->diag, in_folder(t, "all.a"), (bytes){s.s, s.n});
    assert_int_equal(
        run(t,
            "cd '%s' && cc main.o all.a -o m && ./m && nm -s all.a 2>/dev/null | grep -q 'byte_at in a_name'",
            t->folder, ""),
        0);
    FILE *f = fopen(in_folder(t, "main.o"), "rb");
    char object[8192];
    bytes program = {object, fread(object, 1, sizeof object, f)};
    fclose(f);
    VEC_PUSH(t->arena, &user.members, (archive_member){"main.o", program});
    archive_add_needed(t->arena, &t->diag, &user, &back);
    assert_int_equal(user.members.n, 2);
    assert_string_equal(user.members.at[1].name, "a_name_that_is_longer_than_fifteen.o");
    archive_add_needed(t->arena, &t->diag, &some, &back);
    assert_int_equal(some.members.n, 0);
}

static void check_shared(bench *t, const char *linker, const char *name) {
    const char *path = in_folder(t, name);
    link_options o = {.linker = linker};
    bytes object = build(t, NULL, NULL, "byte_at", 5000);
    link_shared(t->arena, &t->diag, object, t->module, &o, path);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) fail_msg("%s", dlerror());
    int (*byte_at)(int) = (int (*)(int))(uintptr_t)dlsym(library, "byte_at");
    assert_non_null(byte_at);
    assert_int_equal(byte_at(4999), (unsigned char)(4999 * 7));
    assert_null(dlsym(library, "weights"));
    dlclose(library);
}

static void test_shared(void **state) {
    bench *t = *state;
    check_shared(t, NULL, "with_lld.so");
    check_shared(t, "cc", "with_cc.so");
    assert_int_equal(run(t, "test \"$(ls '%s' | wc -l)\" = 2", t->folder, ""), 0);
}

// Without a C library of that machine at hand, too.
static void test_cross_shared(void **state) {
    bench *t = *state;
    static const char *const triples[] = {"aarch64-linux-gnu", "riscv64-linux-gnu", "arm-linux-gnueabihf"};
    for (int i = 0; i < 3; i++) {
        link_options o = {.linker = NULL};
        bytes object = build(t, triples[i], NULL, "byte_at", 5000);
        link_shared(t->arena, &t->diag, object, t->module, &o, in_folder(t, "cross.so"));
        assert_int_equal(run(t, "readelf --dyn-syms -W '%s' | grep -q 'GLOBAL DEFAULT .* byte_at'",
                             in_folder(t, "cross.so"), ""),
                         0);
    }
}

static void test_program(void **state) {
    bench *t = *state;
    write_text(t, "main.c", main_c);
    assert_int_equal(run(t, "cd '%s' && cc -c main.c", t->folder, ""), 0);
    bytes object = build(t, NULL, NULL, "byte_at", 5000);
    static const char *const linkers[] = {NULL, "cc"};
    for (int i = 0; i < 2; i++) {
        link_options o = {.linker = linkers[i]};
        VEC_PUSH(t->arena, &o.inputs, in_folder(t, "main.o"));
        link_program(t->arena, &t->diag, object, t->module, &o, in_folder(t, "program"));
        assert_int_equal(run(t, "'%s'", in_folder(t, "program"), ""), 0);
    }
    link_options o = {.runtime = NULL};
    link_archive(t->arena, &t->diag, object, t->module, &o, in_folder(t, "lib.a"));
    assert_int_equal(run(t, "cd '%s' && cc main.o lib.a -o m && ./m", t->folder, ""), 0);
}

static void test_linker_fails(void **state) {
    bench *t = *state;
    bytes object = build(t, NULL, NULL, "byte_at", 5000);
    link_options o = {.linker = NULL};
    VEC_PUSH(t->arena, &o.inputs, in_folder(t, "not_there.o"));
    jmp_buf jump;
    if (DIAG_TRY(&t->diag, jump)) {
        link_program(t->arena, &t->diag, object, t->module, &o, in_folder(t, "program"));
        fail();
    }
    assert_non_null(strstr(t->message, "not_there.o"));
    expect_failure(t, DIAG_USER);
    assert_int_not_equal(access(in_folder(t, "program"), F_OK), 0);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_bench, close_bench)
    const struct CMUnitTest tests[] = {
        TEST(test_data),    TEST(test_same_bytes),       TEST(test_large),   TEST(test_too_large),
        TEST(test_garbage), TEST(test_whole_or_nothing), TEST(test_links),   TEST(test_archive),
        TEST(test_shared),  TEST(test_cross_shared),     TEST(test_program), TEST(test_linker_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
