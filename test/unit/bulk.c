// Bulk copies in the interpreter of loops: they bring what was asked for, and each way of using them wrongly
// is reported.
#include "ir/loops/loops_gpu.h"
#include "ir/loops/loops_interp.h"
#include "ir/target.h"
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
// cmocka.h must follow the headers it needs.
#include <cmocka.h>

enum { THREADS = 4, SLICE = 8, SLICES = 3, BYTES = 4 * SLICE };

// How a kernel differs from the right one.
typedef struct mistake {
    const char *says; // NULL: it is right
    bool no_init, no_show, no_barrier, init_twice, no_expect, expect_twice, no_copy, no_wait, no_meeting;
    int expected, copied; // bytes more
    int parity;           // 1: the other one
    int slices;           // 0: SLICES
    int to, from, at;     // bytes further
} mistake;
static const mistake mistakes[] = {
    {NULL},
    {"not initialised", .no_init = true},
    {"without a fence", .no_show = true},
    {"race", .no_barrier = true},
    {"initialised twice", .init_twice = true},
    {"not announced", .no_expect = true},
    {"expected twice", .expect_twice = true},
    {"more bytes than are copied", .expected = 16},
    {"more bytes are copied", .expected = -16},
    {"more bytes than are copied", .no_copy = true},
    {"expected twice", .no_wait = true},
    {"expected twice", .parity = 1},
    {"ends before its copies", .no_wait = true, .slices = 1},
    {"ends before its copies", .parity = 1, .slices = 1},
    {"race", .no_meeting = true},
    {"less aligned", .to = 8},
    {"less aligned", .from = 8},
    {"less aligned", .at = 4},
    {"multiple of 16", .copied = 8, .expected = 8},
    {"store out of bounds", .copied = 16, .expected = 16},
    {"load out of bounds", .from = BYTES},
};
enum { MISTAKES = sizeof mistakes / sizeof *mistakes };

typedef struct kernel_builder {
    lbuild b;
    const mistake *m;
    ins *tile, *at, *from, *to, *thread;
} kernel_builder;

static ins *i32_of(lbuild *b, int v) { return lb_int(b, lt(LK_I32, 1), v); }
static ins *bytes_on(lbuild *b, ins *p, int n) { return n ? lb_offset(b, p, lb_idx(b, n), 1) : p; }

static void build_start(kernel_builder *k) {
    lbuild *b = &k->b;
    const mistake *m = k->m;
    for (int i = m->no_init ? 2 : m->init_twice ? 0 : 1; i < 2; i++)
        lb_gpu(b, (gpu_ins){GPU_MBARRIER_INIT}, &k->at);
    if (!m->no_show) lb_gpu(b, (gpu_ins){GPU_MBARRIER_FENCE}, NULL);
    if (!m->no_barrier) lb_barrier(b);
}

static void build_slice(kernel_builder *k, int s) {
    lbuild *b = &k->b;
    const mistake *m = k->m;
    for (int i = m->no_expect ? 2 : m->expect_twice ? 0 : 1; i < 2; i++)
        lb_gpu(b, (gpu_ins){GPU_MBARRIER_EXPECT}, (ins *[]){k->at, i32_of(b, BYTES + m->expected)});
    ins *args[] = {bytes_on(b, k->tile, m->to), bytes_on(b, k->from, s * BYTES + m->from),
                   i32_of(b, BYTES + m->copied), k->at, i32_of(b, THREADS)};
    if (!m->no_copy) lb_gpu(b, (gpu_ins){GPU_BULK_COPY}, args);
    if (!m->no_wait)
        lb_gpu(b, (gpu_ins){GPU_MBARRIER_WAIT}, (ins *[]){k->at, i32_of(b, (s + m->parity) % 2)});
    if (!m->no_meeting) lb_barrier(b);
    for (int j = 0; j < SLICE / THREADS; j++) {
        ins *i = lb_bin(b, L_ADD, k->thread, lb_idx(b, j * THREADS));
        lb_store(b, k->to, lb_bin(b, L_ADD, i, lb_idx(b, s * SLICE)),
                 lb_load(b, lt(LK_F32, 1), k->tile, i, 0), 0);
    }
    lb_barrier(b);
}

static lfunc *build(lmodule *module, diag *d, const target *t, const mistake *m) {
    lfunc *f = lfunc_new(module, "f", lt(LK_VOID, 1));
    ins *from = lfunc_param(f, "from", lt_ptr(), LK_F32, DT_F32, true),
        *to = lfunc_param(f, "to", lt_ptr(), LK_F32, DT_F32, false);
    kernel_builder k = {.b = lbuild_new(f, t, d), .m = m, .from = from, .to = to};
    lbuild *b = &k.b;
    k.thread = lb_for(b, "t", lb_idx(b, 0), lb_idx(b, THREADS), lb_idx(b, 1), LOOP_THREAD_X);
    k.tile = lb_local(b, LK_F32, SLICE, 16, true);
    k.at = bytes_on(b, lb_local(b, LK_I64, 1, 8, true), m->at);
    build_start(&k);
    for (int s = 0; s < (m->slices ? m->slices : SLICES); s++) build_slice(&k, s);
    lb_end(b, k.thread);
    lfunc_verify(f, d);
    return f;
}

// What a run says, NULL when nothing is wrong.
static const char *run(arena *a, const mistake *m, linterp_order order, const float *from, float *to) {
    static const target plain = {.ptr_bits = 64, .f32 = true, .f64 = true, .little_endian = true};
    diag d = {.arena = a};
    lmodule *module = lmodule_new(a, "m", &plain);
    lfunc *f = build(module, &d, &plain, m);
    linterp *in = linterp_new(a, module);
    linterp_set_order(in, order, 5);
    linterp_memory(in, from, SLICES * BYTES, false);
    linterp_memory(in, to, SLICES * BYTES, true);
    uint64_t args[] = {(uintptr_t)from, (uintptr_t)to};
    return linterp_launch(in, f, args, (int64_t[]){1, 1, 1}, (int64_t[]){THREADS, 1, 1}) ? NULL
                                                                                         : linterp_error(in);
}

static void mistakes_are_reported(void **state) {
    static _Alignas(16) float from[SLICES * SLICE], to[SLICES * SLICE];
    (void)state;
    for (int i = 0; i < SLICES * SLICE; i++) from[i] = (float)i + 1;
    for (int i = 0; i < MISTAKES; i++) {
        const mistake *m = &mistakes[i];
        arena *a = arena_new();
        memset(to, 0, sizeof to);
        const char *error = run(a, m, ORDER_FORWARD, from, to);
        if (!error != !m->says || (error && !strstr(error, m->says)))
            fail_msg("%d: '%s' instead of '%s'", i, error ? error : "", m->says ? m->says : "");
        arena_destroy(a);
    }
}

// Threads may come to wait before the one that copies did.
static void copies_come_in_any_order(void **state) {
    (void)state;
    for (linterp_order order = ORDER_FORWARD; order <= ORDER_PERMUTED; order++) {
        static _Alignas(16) float from[SLICES * SLICE], to[SLICES * SLICE];
        arena *a = arena_new();
        for (int i = 0; i < SLICES * SLICE; i++) from[i] = (float)i + 1, to[i] = 0;
        const char *error = run(a, &mistakes[0], order, from, to);
        if (error) fail_msg("%s", error);
        assert_memory_equal(to, from, sizeof to);
        arena_destroy(a);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mistakes_are_reported),
        cmocka_unit_test(copies_come_in_any_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
