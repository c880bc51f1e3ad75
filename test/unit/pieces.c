// Large modules in pieces: the same object for any number of threads, whole and runnable after a linker; and
// make's jobserver, whose tokens limit the threads.
#include "codegen/llvm/llvm.h"
#include "codegen/object/elf.h"
#include "codegen/target/targets.h"
#include "compiler/base/jobs.h"
#include "test/build_graph.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { KERNELS = 150 };

// float f(float x): x + 0 + 1 + ... + 149 by that many kernels, some of them equal.
static lmodule *build(arena *a, diag *d, const char *triple) {
    target_options o = {.triple = triple, .fp = FP_DEFAULT};
    target *t = target_from_options(a, d, &o);
    lmodule *m = lmodule_new(a, "unit", t);
    for (int k = 0; k < KERNELS; k++) {
        lfunc *f = lfunc_new(m, arena_printf(a, "add_%d", k), lt(LK_VOID, 1));
        f->kernel = true;
        ins *x = lfunc_param(f, "x", lt_ptr(), LK_F32, DT_F32, false);
        lbuild b = lbuild_new(f, t, d);
        ins *v = lb_load(&b, lt(LK_F32, 1), x, lb_idx(&b, 0), 0);
        lb_store(&b, x, lb_idx(&b, 0), lb_bin(&b, L_ADD, v, lb_float(&b, lt(LK_F32, 1), k / 2 * 2)), 0);
        lb_return(&b, NULL);
    }
    lfunc *f = lfunc_new(m, "f", lt(LK_VOID, 1));
    f->exported = true;
    ins *x = lfunc_param(f, "x", lt_ptr(), LK_F32, DT_F32, false);
    lbuild b = lbuild_new(f, t, d);
    for (int k = 0; k < KERNELS; k++)
        lb_call(&b, lt(LK_VOID, 1), arena_printf(a, "add_%d", k), 1, (ins *[]){x});
    lb_return(&b, NULL);
    return m;
}

static bytes compile(arena *a, const char *triple, int threads, lmodule **m) {
    diag *d = ARENA_NEW(a, diag);
    *d = (diag){.arena = a, .sink = show_message};
    *m = build(a, d, triple);
    return llvm_emit_object(*m, &(emit_means){.threads = threads}, a, d);
}

static void same_bytes(void **state) {
    static const char *const triples[] = {"x86_64-linux-gnu", "aarch64-linux-gnu", "riscv64-linux-gnu",
                                          "arm-linux-gnueabihf", "i686-linux-gnu"};
    (void)state;
    for (size_t i = 0; i < sizeof triples / sizeof *triples; i++) {
        arena *a = arena_new();
        lmodule *m;
        bytes one = compile(a, triples[i], 1, &m);
        for (int threads = 2; threads < 5; threads++) {
            bytes other = compile(a, triples[i], threads, &m);
            assert_int_equal(one.n, other.n);
            assert_memory_equal(one.at, other.at, one.n);
        }
        elf_file *f = elf_read(a, &(diag){.arena = a, .sink = show_message}, one, triples[i]);
        int kernels = 0, labels = 0, notes = 0;
        for (int k = 0; k < f->symbols.n; k++) {
            const elf_symbol *s = &f->symbols.at[k];
            bool outside =
                !strcmp(s->name, "_GLOBAL_OFFSET_TABLE_") || !strncmp(s->name, "__aeabi_unwind", 14);
            if (!s->section && !outside) fail_msg("%s: undefined %s", triples[i], s->name);
            kernels += !strncmp(s->name, "onnxc_k_", 8);
            labels += !strncmp(s->name, "add_", 4) && s->local;
        }
        for (int k = 0; k < f->sections.n; k++) notes += !strcmp(f->sections.at[k].name, ".note.GNU-stack");
        assert_int_equal(kernels, KERNELS / 2);
        assert_int_equal(labels, KERNELS / 2); // equal kernels have one name
        assert_int_equal(notes, 1);
        arena_destroy(a);
    }
}

static void runs_when_linked(void **state) {
    (void)state;
#if defined __x86_64__
    arena *a = arena_new();
    lmodule *m;
    bytes object = compile(a, NULL, 2, &m);
    char folder[] = "/tmp/onnxc-pieces-XXXXXX", command[200];
    assert_non_null(mkdtemp(folder));
    diag d = {.arena = a, .sink = show_message};
    elf_write_file(a, &d, object, m, arena_printf(a, "%s/m.o", folder));
    snprintf(command, sizeof command, "cd %s && cc -shared -Wl,--fatal-warnings m.o -o m.so", folder);
    assert_int_equal(system(command), 0);
    void *library = dlopen(arena_printf(a, "%s/m.so", folder), RTLD_NOW);
    assert_non_null(library);
    void (*f)(float *);
    *(void **)&f = dlsym(library, "f");
    float x = 3, want = 3;
    for (int k = 0; k < KERNELS; k++) want += (float)(k / 2 * 2);
    f(&x);
    assert_true(x == want);
    dlclose(library);
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
    arena_destroy(a);
#endif
}

// ---------------------------------------------------------------- jobs
typedef struct counter {
    pthread_mutex_t lock;
    int now, most, done[64];
} counter;

static void count(void *user, int index) {
    counter *c = user;
    pthread_mutex_lock(&c->lock);
    if (++c->now > c->most) c->most = c->now;
    c->done[index]++;
    pthread_mutex_unlock(&c->lock);
    usleep(20000);
    pthread_mutex_lock(&c->lock);
    c->now--;
    pthread_mutex_unlock(&c->lock);
}

static int run_counted(int n, int threads) {
    counter c = {.lock = PTHREAD_MUTEX_INITIALIZER};
    jobs_run(n, threads, count, &c);
    for (int i = 0; i < n; i++) assert_int_equal(c.done[i], 1);
    return c.most;
}

static void without_make(void **state) {
    (void)state;
    unsetenv("MAKEFLAGS");
    assert_int_equal(run_counted(8, 1), 1);
    assert_true(run_counted(16, 4) > 1);
    assert_int_equal(run_counted(1, 1000000), 1);
    assert_int_equal(run_counted(0, 4), 0);
}

static int tokens_in(int fd) {
    char all[16];
    ssize_t n = read(fd, all, sizeof all);
    for (ssize_t i = 0; i < n; i++) assert_int_equal(all[i], '+');
    if (n > 0) assert_int_equal(write(fd, all, (size_t)n), n);
    return n < 0 ? 0 : (int)n;
}

static void with_tokens(void **state) {
    (void)state;
    char folder[] = "/tmp/onnxc-jobs-XXXXXX", fifo[64], flags[128];
    assert_non_null(mkdtemp(folder));
    snprintf(fifo, sizeof fifo, "%s/fifo", folder);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    int fd = open(fifo, O_RDWR | O_NONBLOCK);
    snprintf(flags, sizeof flags, "w -j8 --jobserver-auth=7,8 --jobserver-auth=fifo:%s -- A=1", fifo);
    setenv("MAKEFLAGS", flags, 1);
    assert_int_equal(run_counted(6, 4), 1);
    assert_int_equal(write(fd, "+", 1), 1);
    assert_int_equal(run_counted(12, 4), 2);
    assert_int_equal(tokens_in(fd), 1);
    assert_int_equal(write(fd, "+++", 3), 3);
    assert_true(run_counted(16, 3) <= 3);
    assert_int_equal(tokens_in(fd), 4);
    close(fd);
    unlink(fifo), rmdir(folder);
}

static void with_a_pipe(void **state) {
    (void)state;
    int fd[2];
    char flags[64];
    assert_int_equal(pipe(fd), 0);
    assert_int_equal(write(fd[1], "+", 1), 1);
    snprintf(flags, sizeof flags, " -j2 --jobserver-auth=%d,%d", fd[0], fd[1]);
    setenv("MAKEFLAGS", flags, 1);
    assert_int_equal(run_counted(12, 8), 2);
    char token;
    assert_int_equal(read(fd[0], &token, 1), 1);
    close(fd[0]), close(fd[1]);
}

// Recipes without a '+' get flags but no pipe.
static void without_access(void **state) {
    (void)state;
    static const char *const flags[] = {
        "--jobserver-auth=-2,-2", "--jobserver-auth=91,92",         "--jobserver-auth=",
        "--jobserver-auth=fifo:", "--jobserver-auth=fifo:/no/such", "--jobserver-fds=x"};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        setenv("MAKEFLAGS", flags[i], 1);
        assert_int_equal(run_counted(4, 4), 1);
    }
    unsetenv("MAKEFLAGS");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bytes),  cmocka_unit_test(runs_when_linked), cmocka_unit_test(without_make),
        cmocka_unit_test(with_tokens), cmocka_unit_test(with_a_pipe),      cmocka_unit_test(without_access),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
