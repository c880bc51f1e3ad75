// The runtime: work is done once and by threads with numbers of their own, whatever calls at the same time,
// also after a fork.
#include "runtime-lite/core/runtime.h"
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
// cmocka.h must follow the headers it needs.
#include <cmocka.h>

enum { THREADS = 4, MANY = 100, NUMBERS = 256, TASKS = 1000 };

typedef struct record {
    atomic_int done[TASKS];
    atomic_int inside[NUMBERS]; // calls that run under a thread's number
    atomic_int clashes;
} record;

static void note(void *const *context, int64_t begin, int64_t end, int thread) {
    record *r = context[0];
    if (thread < 0 || thread >= NUMBERS || atomic_fetch_add(&r->inside[thread], 1))
        atomic_fetch_add(&r->clashes, 1);
    for (int64_t i = begin; i < end; i++) atomic_fetch_add(&r->done[i], 1);
    atomic_fetch_sub(&r->inside[thread], 1);
}

static int holds(record *r, int64_t tasks) {
    for (int64_t i = 0; i < TASKS; i++)
        if (atomic_load(&r->done[i]) != (i < tasks)) return 0;
    return !atomic_load(&r->clashes);
}

static int run_once(int64_t tasks, int most) {
    record r = {0};
    void *context[] = {&r};
    onnxc_rt_parallel(note, context, tasks, most);
    return holds(&r, tasks);
}

static void every_task_runs_once(void **state) {
    (void)state;
    onnxc_threads four = {.count = THREADS};
    assert_null(onnxc_use_threads(&four));
    for (int i = 0; i < 500; i++) assert_true(run_once(1 + i * 2, THREADS));
    assert_true(run_once(0, THREADS) && run_once(-1, THREADS) && run_once(1, THREADS) && run_once(TASKS, 1));
    assert_ptr_equal(onnxc_use_threads(NULL), &four);
    assert_true(run_once(TASKS, 64));
}

static void many_threads_run_every_task_once(void **state) {
    (void)state;
    onnxc_threads many = {.count = MANY};
    onnxc_use_threads(&many);
    for (int i = 0; i < 20; i++) assert_true(run_once(TASKS - i, MANY));
    onnxc_use_threads(NULL);
}

typedef struct owners {
    pthread_t of[THREADS];
    atomic_int known[THREADS], changes;
} owners;

static void note_owner(void *const *context, int64_t begin, int64_t end, int thread) {
    owners *o = context[0];
    (void)begin, (void)end;
    if (!atomic_exchange(&o->known[thread], 1)) o->of[thread] = pthread_self();
    else if (!pthread_equal(o->of[thread], pthread_self())) atomic_fetch_add(&o->changes, 1);
    usleep(100);
}

// What a thread has written is in its cache when it gets the same tasks of the next kernel.
static void threads_keep_their_numbers(void **state) {
    (void)state;
    onnxc_threads four = {.count = THREADS};
    onnxc_use_threads(&four);
    owners o = {0};
    void *context[] = {&o};
    enum { JOBS = 100, MOST_JOBS = 20000 }; // a busy machine may run no worker for a while
    for (int i = 0; i < JOBS || (i < MOST_JOBS && !atomic_load(&o.known[1])); i++)
        onnxc_rt_parallel(note_owner, context, TASKS, THREADS);
    onnxc_use_threads(NULL);
    assert_true(atomic_load(&o.known[1]));
    assert_int_equal(atomic_load(&o.changes), 0);
}

static void *run_many(void *failed) {
    onnxc_threads four = {.count = THREADS};
    onnxc_use_threads(&four);
    for (int i = 0; i < 200; i++)
        if (!run_once(TASKS - i, THREADS)) *(int *)failed = 1;
    return NULL;
}

static void several_callers_share_the_pool(void **state) {
    (void)state;
    pthread_t t[THREADS];
    int failed[THREADS] = {0};
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&t[i], NULL, run_many, &failed[i]), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
    for (int i = 0; i < THREADS; i++) assert_false(failed[i]);
}

static void sleeping_threads_wake_up(void **state) {
    (void)state;
    onnxc_threads four = {.count = THREADS};
    onnxc_use_threads(&four);
    for (int i = 0; i < 5; i++) {
        usleep(20000);
        assert_true(run_once(TASKS, THREADS));
    }
    onnxc_use_threads(NULL);
}

static void a_child_has_a_pool_of_its_own(void **state) {
    (void)state;
    onnxc_threads four = {.count = THREADS};
    onnxc_use_threads(&four);
    assert_true(run_once(TASKS, THREADS));
    for (int i = 0; i < 5; i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(10);
            int ok = 1;
            for (int j = 0; j < 20; j++) ok &= run_once(TASKS, THREADS);
            _exit(ok ? 0 : 1);
        }
        int status = -1;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        assert_true(run_once(TASKS, THREADS));
    }
    onnxc_use_threads(NULL);
}

// A fork while another thread has the pool.
static void a_child_of_a_busy_process_runs(void **state) {
    (void)state;
    pthread_t t;
    int failed = 0;
    assert_int_equal(pthread_create(&t, NULL, run_many, &failed), 0);
    for (int i = 0; i < 5; i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(10);
            _exit(run_once(TASKS, THREADS) ? 0 : 1);
        }
        int status = -1;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
    pthread_join(t, NULL);
    assert_false(failed);
}

static void run_backwards(void *user, int n, void (*body)(void *arg, int i), void *arg) {
    *(int *)user += n;
    for (int i = n - 1; i >= 0; i--) body(arg, i);
}

static void the_program_may_bring_its_own_threads(void **state) {
    (void)state;
    int parts = 0;
    onnxc_threads own = {.count = 7, .parallel_for = run_backwards, .user = &parts};
    onnxc_use_threads(&own);
    assert_true(run_once(TASKS, THREADS));
    assert_int_equal(parts, THREADS);
    assert_true(run_once(3, 64));
    assert_int_equal(parts, THREADS + 3);
    onnxc_use_threads(NULL);
}

static void memory_is_aligned(void **state) {
    (void)state;
    const int64_t sizes[] = {0, 1, 63, 64, 65, 100000};
    for (int i = 0; i < 6; i++) {
        char *p = onnxc_rt_alloc(sizes[i]);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 64, 0);
        memset(p, 1, (size_t)sizes[i]);
        onnxc_rt_free(p);
    }
    assert_null(onnxc_rt_alloc(-1));
    assert_null(onnxc_rt_alloc(INT64_MAX));
    onnxc_rt_free(NULL);
}

static long faults_of_a_run(void) {
    enum { BLOCKS = 5, BYTES = 4 << 20 };
    char *blocks[BLOCKS];
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    for (int i = 0; i < BLOCKS; i++) {
        assert_non_null(blocks[i] = onnxc_rt_alloc(BYTES - i * 1000));
        memset(blocks[i], 1, BYTES - (size_t)i * 1000);
    }
    for (int i = 0; i < BLOCKS; i++) onnxc_rt_free(blocks[i]);
    getrusage(RUSAGE_SELF, &after);
    return after.ru_minflt - before.ru_minflt;
}

// The system need not give each run its pages anew.
static void memory_waits_for_the_next_run(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) faults_of_a_run();
    assert_in_range(faults_of_a_run(), 0, 100);
}

// Blocks of many sizes, which do not fit each other, and more than are kept.
static void much_memory_is_no_mistake(void **state) {
    (void)state;
    char *blocks[40];
    for (int turn = 0; turn < 3; turn++) {
        for (int64_t i = 0; i < 40; i++) {
            int64_t bytes = (i % 7 + 1) * (turn + 1) * 300000;
            assert_non_null(blocks[i] = onnxc_rt_alloc(bytes));
            assert_int_equal((uintptr_t)blocks[i] % 64, 0);
            memset(blocks[i], (int)i, (size_t)bytes);
        }
        for (int i = 0; i < 40; i++) assert_int_equal(blocks[i][(i % 7 + 1) * (turn + 1) * 300000 - 1], i);
        for (int i = 0; i < 40; i++) onnxc_rt_free(blocks[i]);
    }
}

static void the_machine_is_known(void **state) {
    (void)state;
    int level = onnxc_interface_2();
    assert_true(level >= 1 && level <= 5);
    assert_int_equal(onnxc_interface_2(), level);
#ifdef __x86_64__
    __builtin_cpu_init();
    assert_int_equal(level >= 3, __builtin_cpu_supports("x86-64-v3") != 0);
    assert_int_equal(level >= 4, __builtin_cpu_supports("x86-64-v4") != 0);
    assert_int_equal(level >= 5, level >= 4 && __builtin_cpu_supports("avx512vnni") != 0);
#endif
#ifdef __x86_64__
    assert_int_equal(onnxc_rt_bf16_pairs(),
                     level >= 5 && __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("sse4a"));
    assert_int_equal(onnxc_rt_avx_vnni(), level >= 3 && __builtin_cpu_supports("avxvnni"));
#endif
    assert_int_equal(onnxc_rt_avx_vnni(), onnxc_rt_avx_vnni());
    int tiles = onnxc_rt_tiles();
    assert_int_equal(onnxc_rt_tiles(), tiles);
    assert_true(!tiles || level == 5);
    assert_true(onnxc_default_threads() >= 1);
}

static void codes_have_texts(void **state) {
    (void)state;
    for (int i = ONNXC_OK; i <= ONNXC_GPU_FAILED; i++)
        assert_string_not_equal(onnxc_status_text(i), "unknown status");
    assert_string_equal(onnxc_status_text(99), "unknown status");
}

static void libraries_that_are_none_say_so(void **state) {
    (void)state;
    const char *message = NULL;
    assert_null(onnxc_library_open("/no/such/library.so", NULL, &message));
    assert_non_null(strstr(message, "/no/such/library.so"));
    assert_null(onnxc_library_open("libm.so.6", NULL, &message));
    assert_string_equal(message, "'libm.so.6' contains no model");
    assert_null(onnxc_library_open("libm.so.6", "mnist", NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_task_runs_once),
        cmocka_unit_test(threads_keep_their_numbers),
        cmocka_unit_test(several_callers_share_the_pool),
        cmocka_unit_test(sleeping_threads_wake_up),
        cmocka_unit_test(a_child_has_a_pool_of_its_own),
        cmocka_unit_test(a_child_of_a_busy_process_runs),
        cmocka_unit_test(the_program_may_bring_its_own_threads),
        cmocka_unit_test(memory_is_aligned),
        cmocka_unit_test(memory_waits_for_the_next_run),
        cmocka_unit_test(much_memory_is_no_mistake),
        cmocka_unit_test(the_machine_is_known),
        cmocka_unit_test(codes_have_texts),
        cmocka_unit_test(libraries_that_are_none_say_so),
        cmocka_unit_test(many_threads_run_every_task_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
