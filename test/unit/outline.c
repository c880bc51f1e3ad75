// Large kernels that end their tiles in functions: those that differ only in these functions and in sizes share their
// loops (ir/loops/outline.c, ir/loops/numbers.c), and compute what they computed before.
#include "ir/loops/loops_interp.h"
#include "ir/loops/loops_share.h"
#include "ir/loops/numbers.h"
#include "ir/target.h"
#include <setjmp.h>
#include <string.h>
// cmocka.h must follow the headers it needs.
#include <cmocka.h>

static const target plain = {
    .ptr_bits = 64, .vector_bits = 256, .f32 = true, .f64 = true, .fp = FP_DEFAULT, .little_endian = true};
static const ltype f32 = {LK_F32, 1}, word = {LK_I64, 1}, nothing = {LK_VOID, 1};

enum { MOST = 64, LARGE = 400, SMALL = 20 };

typedef struct fixture {
    arena *arena;
    diag diag;
    lmodule *module;
    lfunc *host; // calls all kernels
    lbuild b;
    ins *x, *r; // its parameters
} fixture;

static void open_module(fixture *x) {
    *x = (fixture){.arena = arena_new()};
    x->diag = (diag){.arena = x->arena};
    x->module = lmodule_new(x->arena, "m", &plain);
    x->host = lfunc_new(x->module, "host", nothing);
    x->x = lfunc_param(x->host, "x", lt_ptr(), LK_F32, DT_F32, true);
    x->r = lfunc_param(x->host, "r", lt_ptr(), LK_F32, DT_F32, true);
    x->b = lbuild_new(x->host, &plain, &x->diag);
}

static lfunc *new_kernel(fixture *x, const char *name) {
    lfunc *f = lfunc_new(x->module, name, nothing);
    f->kernel = true;
    return f;
}

// end(y, r, tile, i): y[i] = tile[0] * scale [+ r[i]]
static void add_end(fixture *x, const char *name, double scale, bool residual) {
    lfunc *f = new_kernel(x, name);
    ins *y = lfunc_param(f, "y", lt_ptr(), LK_F32, DT_F32, false),
        *r = lfunc_param(f, "r", lt_ptr(), LK_F32, DT_F32, true),
        *tile = lfunc_param(f, "tile", lt_ptr(), LK_VOID, DT_NONE, true),
        *i = lfunc_param(f, "i", word, LK_VOID, DT_I64, true);
    lbuild b = lbuild_new(f, &plain, &x->diag);
    ins *sum = lb_load(&b, f32, tile, lb_idx(&b, 0), 0);
    ins *v = lb_bin(&b, L_MUL, sum, lb_float(&b, f32, scale));
    lb_store(&b, y, i, residual ? lb_bin(&b, L_ADD, v, lb_load(&b, f32, r, i, 0)) : v, 0);
    f->ends_tiles = true;
}

typedef struct wanted {
    const char *name;
    int64_t n;
    int steps; // of the body
    double scale;
    bool residual;
} wanted;

// kernel(y, r, x): for i < n: tile[0] = the sum over j < 2, k < steps of x[i] + 2 k; end(y, r, tile, i)
static lfunc *add_kernel(fixture *x, const wanted *w) {
    const char *end = arena_printf(x->arena, "%s_end", w->name);
    lfunc *f = new_kernel(x, w->name);
    ins *y = lfunc_param(f, "y", lt_ptr(), LK_F32, DT_F32, false),
        *r = lfunc_param(f, "r", lt_ptr(), LK_F32, DT_F32, true),
        *from = lfunc_param(f, "x", lt_ptr(), LK_F32, DT_F32, true);
    lbuild b = lbuild_new(f, &plain, &x->diag);
    ins *tile = lb_local(&b, LK_F32, 1, 64, false);
    ins *i = lb_for(&b, "i", lb_idx(&b, 0), lb_idx(&b, w->n), lb_idx(&b, 1), LOOP_SERIAL);
    ins *sum = lb_var(&b, "sum", lb_float(&b, f32, 0));
    ins *j = lb_for(&b, "j", lb_idx(&b, 0), lb_idx(&b, 2), lb_idx(&b, 1), LOOP_SERIAL);
    for (int k = 0; k < w->steps; k++) {
        ins *v = lb_bin(&b, L_ADD, lb_load(&b, f32, from, i, 0), lb_float(&b, f32, 2 * k));
        lb_set(&b, sum, lb_bin(&b, L_ADD, lb_get(&b, sum), v));
    }
    lb_end(&b, j);
    lb_store(&b, tile, lb_idx(&b, 0), lb_get(&b, sum), 0);
    lb_call(&b, nothing, end, 4, (ins *[]){y, r, tile, i});
    lb_end(&b, i);
    add_end(x, end, w->scale, w->residual);
    ins *to = lfunc_param(x->host, w->name, lt_ptr(), LK_F32, DT_F32, false);
    lb_call(&x->b, nothing, w->name, 3, (ins *[]){to, x->r, x->x});
    return f;
}

static void run(fixture *x, int n, float (*y)[MOST]) {
    float in[MOST], residual[MOST];
    uint64_t args[8] = {(uint64_t)(uintptr_t)in, (uint64_t)(uintptr_t)residual}, result;
    for (int i = 0; i < MOST; i++) in[i] = (float)i / 4, residual[i] = (float)(100 * i);
    for (int j = 0; j < n; j++) args[j + 2] = (uint64_t)(uintptr_t)y[j];
    assert_true(linterp_call(linterp_new(x->arena, x->module), x->host, args, &result));
}

static const lfunc *tiles_of(const fixture *x, const char *kernel) {
    const char *name = arena_printf(x->arena, "%s_tiles", kernel);
    for (int i = 0; i < x->module->funcs.n; i++)
        if (!strcmp(x->module->funcs.at[i]->name, name)) return x->module->funcs.at[i];
    return NULL;
}

static void check_results(const wanted *w, int n, const float (*y)[MOST]) {
    for (int j = 0; j < n; j++)
        for (int i = 0; i < w[j].n; i++) {
            double sum = 2 * w[j].steps * (i / 4.0) + 2.0 * w[j].steps * (w[j].steps - 1);
            assert_float_equal(y[j][i], sum * w[j].scale + (w[j].residual ? 100 * i : 0), 0);
        }
}

static bool same_loops(const fixture *x, const char *a, const char *b) {
    return lblock_same(tiles_of(x, a)->body, tiles_of(x, b)->body, false);
}

static void kernels_share_loops(void **state) {
    (void)state;
    static const wanted w[] = {{"first", 48, LARGE, 0.5, false},  {"residual", 48, LARGE, 0.5, true},
                               {"longer", 64, LARGE, 0.25, true}, {"other", 64, LARGE + 1, 0.25, true},
                               {"small", 32, SMALL, 0.5, true},   {"smaller", 24, SMALL, 0.125, true}};
    enum { KERNELS = sizeof w / sizeof *w };
    static float before[KERNELS][MOST], after[KERNELS][MOST];
    const lfunc *kernels[KERNELS];
    fixture x;
    open_module(&x);
    for (int j = 0; j < KERNELS; j++) kernels[j] = add_kernel(&x, &w[j]);
    run(&x, KERNELS, before);
    check_results(w, KERNELS, before);
    share_numbers(x.module, &x.diag);
    run(&x, KERNELS, after);
    assert_memory_equal(before, after, sizeof before);
    assert_true(same_loops(&x, "first", "residual"));
    assert_true(same_loops(&x, "first", "longer"));
    assert_false(same_loops(&x, "first", "other"));
    assert_null(tiles_of(&x, "small"));
    assert_string_equal(kernels[5]->params.at[3].name, "numbers"); // shares all of the one before
    arena_destroy(x.arena);
}

// Two kernels, such as one and its copy whose pointers may alias, that end in the same function keep it.
static void common_ends_stay(void **state) {
    (void)state;
    static const wanted w[] = {{"first", 48, LARGE, 0.5, false}, {"second", 48, LARGE, 0.5, false}};
    static float y[2][MOST];
    fixture x;
    open_module(&x);
    add_kernel(&x, &w[0]);
    lfunc *second = add_kernel(&x, &w[1]);
    for (ins *i = second->body->first; i; i = i->next)
        for (ins *at = i->op == L_FOR ? i->body[0]->first : NULL; at; at = at->next)
            if (at->op == L_CALL) at->name = "first_end";
    share_numbers(x.module, &x.diag);
    assert_null(tiles_of(&x, "first"));
    run(&x, 2, y);
    check_results(w, 2, y);
    arena_destroy(x.arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(kernels_share_loops),
                                       cmocka_unit_test(common_ends_stay)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
