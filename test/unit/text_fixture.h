// What tests of emitted text share: a module of loops, short names for building them, a folder for compiling.
#ifndef ONNXC_TEST_UNIT_TEXT_FIXTURE_H
#define ONNXC_TEST_UNIT_TEXT_FIXTURE_H
#include "ir/loops/loops.h"
#include "test/unit/compile_text.h"

typedef struct fixture {
    arena *a;
    diag d;
    lmodule *m;
    lbuild b; // of the function begun last
    workdir dir;
} fixture;

static inline void show_full(void *user, const diag_message *m) {
    (void)user;
    print_message("%s\n", m->full);
}

static inline int set_up_for(void **state, const target *t) {
    arena *a = arena_new();
    fixture *x = ARENA_NEW(a, fixture);
    x->a = a;
    x->d.arena = a;
    x->d.sink = show_full;
    x->m = lmodule_new(a, "test", t);
    x->dir = workdir_new(a);
    *state = x;
    return 0;
}

static inline int tear_down(void **state) {
    fixture *x = *state;
    workdir_remove(x->dir);
    arena_destroy(x->a);
    return 0;
}

static inline void verify_all(fixture *x) {
    for (int i = 0; i < x->m->funcs.n; i++)
        if (x->m->funcs.at[i]->body) lfunc_verify(x->m->funcs.at[i], &x->d);
}

// A kernel; x->b builds its body.
static inline lfunc *begin_kernel(fixture *x, const char *name, ltype result) {
    lfunc *f = lfunc_new(x->m, name, result);
    f->exported = f->noalias = f->kernel = true;
    f->comment = arena_printf(x->a, "%s", name);
    x->b = lbuild_new(f, x->m->target, &x->d);
    return f;
}

static inline ltype i32(void) { return lt(LK_I32, 1); }
static inline ltype i64(void) { return lt(LK_I64, 1); }
static inline ltype f32(void) { return lt(LK_F32, 1); }
static inline ltype nothing(void) { return lt(LK_VOID, 1); }

static inline ins *ptr_in(fixture *x, const char *name, dtype t) {
    return lfunc_param(x->b.f, name, lt_ptr(), lkind_of(t), t, true);
}
static inline ins *ptr_out(fixture *x, const char *name, dtype t) {
    return lfunc_param(x->b.f, name, lt_ptr(), lkind_of(t), t, false);
}
static inline ins *num(fixture *x, const char *name) {
    return lfunc_param(x->b.f, name, i64(), LK_VOID, DT_NONE, false);
}
static inline ins *idx(fixture *x, int64_t v) { return lb_idx(&x->b, v); }
static inline ins *add(fixture *x, ins *p, ins *q) { return lb_bin(&x->b, L_ADD, p, q); }
static inline ins *mul(fixture *x, ins *p, ins *q) { return lb_bin(&x->b, L_MUL, p, q); }
static inline ins *loop(fixture *x, const char *name, ins *end, loop_role role) {
    return lb_for(&x->b, name, idx(x, 0), end, idx(x, 1), role);
}
#endif
